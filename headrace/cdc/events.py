"""Reads the events of `headrace cdc`, in any of its envelopes.

Standard library alone, and Python 3.9: Spark jobs carry this module and `compaction` in headrace_spark.zip.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, cast

Document = dict[str, Any]
Position = tuple[int, int]
# Debezium's own word for a large value that the server did not send.
UNAVAILABLE = "__debezium_unavailable_value"
_DMS = {"load": "r", "insert": "c", "update": "u", "delete": "d", "truncate-table": "t"}


class CaptureError(Exception):
    """The capture, or what reads its events, cannot go on. The message is one sentence."""


def format_lsn(lsn: int) -> str:
    """Return an LSN as PostgreSQL writes it: `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Return the number of an LSN that PostgreSQL wrote."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


@dataclass(frozen=True)
class Event:
    """What any of the three envelopes says; `unchanged` names the columns that did not come."""

    op: str
    table: str
    position: Position
    before: Document | None
    after: Document | None
    unchanged: tuple[str, ...] = ()


def read_event(data: bytes) -> Event | None:
    """Return an event of `headrace cdc`, None for one that changes no row. Raises CaptureError for another record."""
    try:
        document = _read_document(data)
        if "metadata" in document:
            return _read_dms(document)
        if "source" in document:
            source = document["source"]
            after = cast("Document | None", document["after"])
            unchanged = tuple(name for name, value in (after or {}).items() if value == UNAVAILABLE)
            table = f"{source['schema']}.{source['table']}"
            return Event(
                document["op"],
                table,
                _position(source["event_id"]),
                document["before"],
                after,
                unchanged,
            )
        if document["op"] == "schema":
            return None
        return Event(
            document["op"],
            document["table"],
            _position(document["id"]),
            document.get("before"),
            document.get("after"),
            tuple(document.get("unchanged", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CaptureError(
            f"A record is no event of headrace cdc ({type(error).__name__}: {error}): {data[:80]!r}."
        ) from error


def _read_document(data: bytes) -> Document:
    try:
        return json.loads(data, parse_float=_number)
    except ValueError:
        # A number has more digits than Python takes, or this is no JSON, which is told again.
        return json.loads(data, parse_float=_number, parse_int=_whole_number)


def _whole_number(text: str) -> int | str:
    """Return a number, or the text of one that has too many digits."""
    try:
        return int(text)
    except ValueError:
        return text


def _number(text: str) -> float | str:
    """Return a number, or the text of one that is beyond a double: its infinity would be no JSON."""
    number = float(text)
    return number if math.isfinite(number) else text


def _read_dms(document: Document) -> Event | None:
    metadata = document["metadata"]
    op = _DMS.get(metadata["operation"])
    if op is None:
        return None
    data = document.get("data")
    table = f"{metadata['schema-name']}.{metadata['table-name']}"
    before, after = (data, None) if op == "d" else (None, data)
    # Before 2026-12 no event named the large values that its update left alone: they were absent.
    unchanged = tuple(metadata.get("unchanged", ("*",) if op == "u" else ()))
    return Event(op, table, _position(metadata["event-id"]), before, after, unchanged)


def _position(event_id: str) -> Position:
    """Return commit's LSN and the place there; a row of the snapshot comes before what its LSN begins."""
    high, low, place, *_ = event_id.split("/")
    return parse_lsn(f"{high}/{low}"), -1 if place == "snapshot" else int(place)
