"""Runs JQ 1.6 queries over records, with the engine of jq_child.py in a process of its own."""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headrace.core.evaluation import POOL, Engine, Stopped, TooMuch
from headrace.services.firehose.errors import invalid

# A query's result for a record: the text of each key (None for null and the empty string), or why there is none.
Found = dict[str, str | None] | str
_ENGINE = Engine(Path(__file__).with_name("jq_child.py"))
_BATCH_RECORDS = 2000
_BATCH_BYTES = 4 * 1024 * 1024
# Processor time for a batch: a hundred times what usual queries take.
_BASE_S = 0.3
_RECORD_S = 0.002
# How often a batch may fail in one call before the remaining records fail.
_MOST_ENDS = 16
_FEW_ENDS = 2
_COMPILE_S = 5.0
_TOO_LONG = "the query took too much time or memory"
_decode_results = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_decode_any = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode


def _parse_result(line: str) -> Found:
    if not line.startswith("["):
        problem = _decode_any(line).get("e")
        return problem if isinstance(problem, str) else f"the query fails: {problem}"
    try:
        results = _decode_results(line)
    except msgspec.DecodeError:
        return "the query gives no object"
    if not results:
        return "the query gives nothing"
    return {name: _render_key(bytes(value)) for name, value in results[0].items()}


def _render_key(value: bytes) -> str | None:
    """Return a key's text in a prefix: a string's text, another value's JSON; None for null or an empty string."""
    if value.startswith(b'"'):
        return _decode_text(value) or None
    return None if value == b"null" else value.decode()


class Queries:
    """The queries of all delivery streams. Thread-safe; the pool of all evaluations gives each query its turns."""

    def __init__(self) -> None:
        # The queries whose last batch had too many endless records; they get fewer tries.
        self._bad: set[str] = set()

    def check(self, query: str) -> None:
        """Raise AwsError InvalidArgumentException for a query that JQ 1.6 does not compile."""
        if importlib.util.find_spec("jq") is None:
            raise invalid(
                "MetadataExtraction needs JQ 1.6, which is not installed here: pip install 'jq>=1.5,<1.6'"
            )
        try:
            problem = _ask(query, [], _COMPILE_S)
        except TooMuch:
            problem = "it takes too long to compile"
        if problem:
            raise invalid(f"MetadataExtractionQuery is not a valid JQ 1.6 query: {problem}")

    def run(self, query: str, datas: Sequence[bytes]) -> list[Found]:
        """Return a query's result for each record; records must be JSON. Its time is limited for any query."""
        results: list[Found] = []
        start = 0
        while start < len(datas):
            end, size = start, 0
            while end < len(datas) and end - start < _BATCH_RECORDS and size < _BATCH_BYTES:
                size += len(datas[end])
                end += 1
            results += self._run(query, datas[start:end])
            start = end
        return results

    def _run(self, query: str, datas: Sequence[bytes]) -> list[Found]:
        ends_left = _FEW_ENDS if query in self._bad else _MOST_ENDS
        results: list[Found] = [_TOO_LONG] * len(datas)
        waiting = [(0, len(datas))]
        while waiting and ends_left:
            start, end = waiting.pop()
            try:
                results[start:end] = _batch(query, datas[start:end])
            except Stopped:
                raise
            except TooMuch:
                ends_left -= 1
                middle = (start + end) // 2
                if end - start > 1:
                    waiting += [(middle, end), (start, middle)]
        self._bad = self._bad | {query} if waiting else self._bad - {query}
        return results


def _batch(query: str, datas: Sequence[bytes]) -> list[Found]:
    lines = _ask(query, datas, _BASE_S + _RECORD_S * len(datas)).split("\n")
    if len(lines) != len(datas):
        raise TooMuch(_TOO_LONG)
    return [_parse_result(line) for line in lines]


def _ask(query: str, datas: Sequence[bytes], most_cpu_s: float) -> str:
    texts = [query.encode(), *datas]
    header = struct.pack(f"<I{len(texts)}I", len(texts), *map(len, texts))
    request = header + b"".join(texts)
    return POOL.ask(_ENGINE, request, caller=query, topic=query, most_cpu_s=most_cpu_s).decode()


def is_json(data: bytes) -> bool:
    """Return whether a record is one JSON object."""
    try:
        return isinstance(_decode_any(data), dict)
    except (msgspec.DecodeError, RecursionError):
        return False
