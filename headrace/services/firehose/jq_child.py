"""Runs JQ queries over batches of JSON records: an engine of `headrace.core.evaluation.child`.

A request is the lengths of the query and of each record, the query and the records. The answer has a line for each
record; without records, it is why the query cannot be compiled, or empty.
"""

# jq has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingImports=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Sequence
from typing import Any

import jq

# Each record gives one line: the query's results as a JSON list, or {"e": the error}. The query converts them to text
# itself, so that numbers are written as by JQ 1.6.
_WRAPPED = """
try ([
%s
] | tojson) catch {e: .}
"""


def _run_program(program: Any, documents: Sequence[str]) -> list[str]:
    try:
        outputs = list(program.input_text("\n".join(documents)))
    except ValueError:
        outputs = []
    if len(outputs) == len(documents):
        return list(map(_line, outputs))
    # A record stops the parser, for example one that is nested too deeply: parse each by itself.
    lines: list[str] = []
    for document in documents:
        try:
            results: list[Any] = list(program.input_text(document))
        except ValueError:
            results = []
        lines.append(_line(results[0] if results else {"e": "the query stops at this record"}))
    return lines


def _line(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result)


@functools.lru_cache(maxsize=16)
def _compile_program(query: str) -> Any:
    return jq.compile(_WRAPPED % query)


def _find_problem(query: str) -> str:
    try:
        jq.compile(query)
        _compile_program(query)
    except ValueError as error:
        return str(error) or "it cannot be compiled"
    return ""


def answer(request: bytes) -> bytes:
    """Answer a batch of records, or the check of a query."""
    (count,) = struct.unpack_from("<I", request)
    lengths = struct.unpack_from(f"<{count}I", request, 4)
    offset = 4 + 4 * count
    texts: list[str] = []
    for length in lengths:
        texts.append(request[offset : offset + length].decode())
        offset += length
    query, *documents = texts
    text = (
        "\n".join(_run_program(_compile_program(query), documents))
        if documents
        else _find_problem(query)
    )
    return text.encode("utf-8", "replace")
