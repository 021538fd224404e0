"""Runs a JQ query over batches of JSON records in a process of its own: only killing it stops an endless query.

It takes a query, then batches, from its standard input, and answers each on its standard output; it ends with its
input. A batch that takes too much time of the processor, or too much memory, ends it: whoever asked starts another. It
runs alone, without headrace and without an environment.
"""

# jq has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingImports=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import json
import resource
import signal
import struct
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

import jq

_MEMORY_BYTES = 1024 * 1024 * 1024
_LENGTH = struct.Struct("<I")
# Each record gives one line: the query's results as a JSON list, or {"e": why there are none}. The query itself writes
# them as text, since it is JQ 1.6 that says how numbers are written.
_WRAPPED = """
try ([
%s
] | tojson) catch {e: .}
"""


def _read(stdin: BinaryIO) -> bytes | None:
    header = stdin.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    return stdin.read(_LENGTH.unpack(header)[0])


def _answer(stdout: BinaryIO, text: str) -> None:
    body = text.encode("utf-8", "replace")
    stdout.write(_LENGTH.pack(len(body)) + body)
    stdout.flush()


def _results(program: Any, documents: Sequence[str]) -> list[str]:
    try:
        found = list(program.input_text("\n".join(documents)))
    except ValueError:
        found = []
    if len(found) == len(documents):
        return list(map(_line, found))
    # One of them stops the reading, such as one that is nested too deeply: each by itself.
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


def main() -> None:
    """Serve until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    signal.setitimer(signal.ITIMER_PROF, 5.0)
    query = (_read(stdin) or b"").decode()
    try:
        jq.compile(query)
        program = jq.compile(_WRAPPED % query)
    except ValueError as error:
        _answer(stdout, str(error) or "it cannot be compiled")
        return
    signal.setitimer(signal.ITIMER_PROF, 0)
    _answer(stdout, "")
    while (request := _read(stdin)) is not None:
        seconds, count = struct.unpack_from("<dI", request)
        lengths = struct.unpack_from(f"<{count}I", request, 12)
        place = 12 + 4 * count
        documents: list[str] = []
        for length in lengths:
            documents.append(request[place : place + length].decode())
            place += length
        # Time of the processor, so that a busy machine ends no good query. The signal is not handled: it ends this.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        found = _results(program, documents)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _answer(stdout, "\n".join(found))


if __name__ == "__main__":
    main()
