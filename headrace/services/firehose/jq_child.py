"""Runs a JQ query over batches of JSON records in a child process, because only a kill stops an endless query.

It reads a query and then batches from its standard input, answers each batch on its standard output, and ends at the
end of its input. A batch that takes too much processor time or memory ends the process, and the parent starts another.
It runs without headrace's packages and without an environment.
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
# Each record gives one line: the query's results as a JSON list, or {"e": the error}. The query converts them to text
# itself, so that numbers are written as by JQ 1.6.
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


def main() -> None:
    """Answer batches until the input ends."""
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
        # Limit processor time, so that a busy machine does not end a good query. The signal ends this process.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        found = _results(program, documents)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _answer(stdout, "\n".join(found))


if __name__ == "__main__":
    main()
