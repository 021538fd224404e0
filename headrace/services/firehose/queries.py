"""Runs JQ 1.6 queries over records, each query in a child process with limits on time and memory."""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headrace.services.firehose.errors import invalid

# A query's result for a record: the text of each key (None for null and the empty string), or why there is none.
Found = dict[str, str | None] | str
_CHILD = Path(__file__).with_name("jq_child.py")
_BATCH_RECORDS = 2000
_BATCH_BYTES = 4 * 1024 * 1024
# Processor time for a batch: a hundred times what usual queries take.
_BASE_S = 0.3
_RECORD_S = 0.002
# How often a process may end in one call before the remaining records fail.
_MOST_ENDS = 16
_FEW_ENDS = 2
# How many processes stay alive for queries in use.
_KEPT = 32
_LENGTH = struct.Struct("<I")
_TOO_LONG = "the query took too much time or memory"


_decode_results = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_decode_any = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode


class _Ended(Exception):
    """The process has ended: the query took too much time or memory."""


class _Process:
    """A child process that runs one query. Used by one thread at a time."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.lock = threading.Lock()
        self.gave_up = False
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start the process; return why the query cannot be compiled, or an empty text."""
        # -I ignores the environment and the user's folders; the path of the jq package is passed explicitly.
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            close_fds=True,
        )
        try:
            return self._ask(self.query.encode())
        except _Ended:
            return "it takes too long to compile"

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.wait()

    def run(self, datas: Sequence[bytes]) -> list[Found]:
        """Return the query's result for each record; records must be JSON."""
        ends_left = _FEW_ENDS if self.gave_up else _MOST_ENDS
        found: list[Found] = [_TOO_LONG] * len(datas)
        waiting = [(0, len(datas))]
        while waiting and ends_left:
            start, end = waiting.pop()
            try:
                found[start:end] = self._batch(datas[start:end])
            except _Ended:
                self.end()
                ends_left -= 1
                middle = (start + end) // 2
                if end - start > 1:
                    waiting += [(middle, end), (start, middle)]
        self.gave_up = bool(waiting)
        return found

    def _batch(self, datas: Sequence[bytes]) -> list[Found]:
        if self._process is None and self.start():
            raise _Ended
        seconds = _BASE_S + _RECORD_S * len(datas)
        header = struct.pack(f"<dI{len(datas)}I", seconds, len(datas), *map(len, datas))
        lines = self._ask(header + b"".join(datas)).split("\n")
        if len(lines) != len(datas):
            raise _Ended
        return [_found(line) for line in lines]

    def _ask(self, request: bytes) -> str:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(_LENGTH.pack(len(request)))
            process.stdin.write(request)
            process.stdin.flush()
            header = process.stdout.read(_LENGTH.size)
            if len(header) < _LENGTH.size:
                raise _Ended
            return process.stdout.read(_LENGTH.unpack(header)[0]).decode()
        except (OSError, struct.error) as error:
            raise _Ended from error


def _found(line: str) -> Found:
    if not line.startswith("["):
        problem = _decode_any(line).get("e")
        return problem if isinstance(problem, str) else f"the query fails: {problem}"
    try:
        results = _decode_results(line)
    except msgspec.DecodeError:
        return "the query gives no object"
    if not results:
        return "the query gives nothing"
    return {name: _text(bytes(value)) for name, value in results[0].items()}


def _text(value: bytes) -> str | None:
    """Return a key's text in a prefix: a string's text, another value's JSON; None for null or an empty string."""
    if value.startswith(b'"'):
        return _decode_text(value) or None
    return None if value == b"null" else value.decode()


class Queries:
    """The queries of all delivery streams. Thread-safe; different queries run concurrently."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: dict[str, _Process] = {}

    def check(self, query: str) -> None:
        """Raise AwsError InvalidArgumentException for a query that JQ 1.6 does not compile."""
        if importlib.util.find_spec("jq") is None:
            raise invalid(
                "MetadataExtraction needs JQ 1.6, which is not installed here: pip install 'jq>=1.5,<1.6'"
            )
        process = _Process(query)
        try:
            problem = process.start()
        finally:
            process.end()
        if problem:
            raise invalid(f"MetadataExtractionQuery is not a valid JQ 1.6 query: {problem}")

    def run(self, query: str, datas: Sequence[bytes]) -> list[Found]:
        """Return a query's result for each record; records must be JSON. Its time is limited for any query."""
        process = self._of(query)
        found: list[Found] = []
        with process.lock:
            start = 0
            while start < len(datas):
                end, size = start, 0
                while end < len(datas) and end - start < _BATCH_RECORDS and size < _BATCH_BYTES:
                    size += len(datas[end])
                    end += 1
                found += process.run(datas[start:end])
                start = end
        return found

    def _of(self, query: str) -> _Process:
        ended: _Process | None = None
        with self._lock:
            process = self._processes.pop(query, None) or _Process(query)
            self._processes[query] = process  # most recently used last
            if len(self._processes) > _KEPT:
                oldest = next(iter(self._processes))
                ended = self._processes.pop(oldest)
        if ended is not None:
            with ended.lock:
                ended.end()
        return process

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            processes = list(self._processes.values())
            self._processes.clear()
        for process in processes:
            # Without the process's lock: a caller that waits for an answer gets none.
            process.end()


def is_json(data: bytes) -> bool:
    """Return whether a record is one JSON object."""
    try:
        return isinstance(_decode_any(data), dict)
    except (msgspec.DecodeError, RecursionError):
        return False
