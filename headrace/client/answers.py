"""Reads answers to PutRecords. Standard library only."""

from __future__ import annotations

import json
from typing import Any

from headrace.client import cbor


def results_of(body: bytes, count: int) -> list[dict[str, Any]]:
    """Return the result of each of `count` entries. Raises ValueError when the answer cannot be read.

    A server other than AWS's may answer in JSON, though CBOR was asked for.
    """
    answer: Any = json.loads(body) if body[:1] == b"{" else cbor.loads(body)
    results: Any = answer.get("Records") if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    if not isinstance(results, list) or len(results) != count:  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError("the answer to PutRecords cannot be read")
    return results  # pyright: ignore[reportUnknownVariableType]
