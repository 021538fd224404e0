"""What Spark says of a job's streaming queries in its event log: micro-batches, watermark, state rows, rates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, cast

import cramjam

from headrace.core.values import as_mapping
from headrace.spark_submit.configuration import event_logs

MOST_BATCHES = 100
MOST_FILES = 128
# Of a file, so much of its end is read at most, and unpacked to so much.
MOST_FILE_BYTES = 64 * 1024 * 1024
MOST_TEXT_BYTES = 64 * 1024 * 1024
# Spark ends a frame with each line that it flushes, as that of a micro-batch.
_FRAME = b"\x28\xb5\x2f\xfd"
_EVENT = b"StreamingQueryListener$QueryProgressEvent"

# A batch that ended longer ago says nothing of now.
_NEW_MS = 60_000

Batches = dict[str, list[dict[str, Any]]]


def streaming_queries(folder: Path) -> list[dict[str, Any]]:
    """Return the streaming queries of the job in `folder`: id, name, and the newest batches, oldest first.

    Spark writes the log while the job runs, a moment behind, and begins a new file when one is full. The files are read
    from the newest back, each from its end, until every query has `MOST_BATCHES`: the newest batch is never missed,
    however long the log is.
    """
    queries: Batches = {}
    for file in islice(_newest_first(folder), MOST_FILES):
        for query, batches in _read(file).items():
            queries[query] = [*batches, *queries.get(query, ())][-MOST_BATCHES:]
        if queries and all(len(batches) >= MOST_BATCHES for batches in queries.values()):
            break
    return [
        {
            "id": query,
            "name": next((one["name"] for one in reversed(batches) if one["name"]), ""),
            "batches": batches,
        }
        for query, batches in reversed(queries.items())
    ]


def rate_of(queries: list[dict[str, Any]], now_ms: int) -> float | None:
    """Return how many rows a second the queries process; a query without a batch in the last minute processes none.

    None without a query.
    """
    rates: list[float] = []
    for query in queries:
        newest = query["batches"][-1]
        try:
            begun_ms = datetime.fromisoformat(newest["at"]).timestamp() * 1000
        except ValueError:
            continue
        is_new = now_ms - begun_ms - (newest["durationMs"] or 0) < _NEW_MS
        rates.append(newest["processedPerS"] if is_new else 0.0)
    return sum(rates) if rates else None


def _newest_first(folder: Path) -> Iterator[Path]:
    for log in reversed(event_logs(folder)):
        files = sorted(log.path.glob("events_*"), key=_number) if log.path.is_dir() else [log.path]
        yield from reversed(files)


def _number(file: Path) -> int:
    number = file.name.split("_")[1]
    return int(number) if number.isdecimal() else 0


def _read(file: Path) -> Batches:
    """Return the newest batches of a file by query; nothing when Spark has removed it meanwhile."""
    try:
        at = file.stat()
        return _read_once(file, at.st_size, at.st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=MOST_FILES)
def _read_once(file: Path, size_bytes: int, _: int) -> Batches:
    """Read a file once for each size and time: a full one does not change, and a page asks every few seconds."""
    start = max(0, size_bytes - MOST_FILE_BYTES)
    with file.open("rb") as opened:
        opened.seek(start)
        data = opened.read(MOST_FILE_BYTES)
    text = _unpacked(data) if ".zstd" in file.name else data[-MOST_TEXT_BYTES:]
    batches: Batches = {}
    for batch in _batches(text):
        known = batches.setdefault(batch["queryId"], [])
        known.append(batch)
        del known[:-MOST_BATCHES]
    return batches


def _unpacked(data: bytes) -> bytes:
    """Return the end of what the data unpacks to, frame by frame from the last back."""
    texts: list[bytes] = []
    room_bytes, start, end = MOST_TEXT_BYTES, len(data), len(data)
    while room_bytes > 0 and (start := data.rfind(_FRAME, 0, start)) >= 0:
        text = _unpack_frames(data[start:end], room_bytes)
        # Without any text these bytes only look like a frame's beginning: they belong to the frame before.
        if text:
            texts.append(text)
            room_bytes -= len(text)
            end = start
    return b"".join(reversed(texts))


def _unpack_frames(data: bytes, room_bytes: int) -> bytes:
    """Return what frames unpack to, at most `room_bytes`, or what is unpacked before the first error."""
    # The output has a fixed size, so that no log can swell this process.
    for size_bytes in (min(room_bytes, 32 * len(data) + 65_536), room_bytes):
        text = bytearray(size_bytes)
        try:
            return bytes(text[: cramjam.zstd.decompress_into(data, text)])
        except cramjam.DecompressionError:
            # Too little room, or the last frame of a running job, which has no end yet.
            if text[-1] == 0:
                break
    return bytes(text.rstrip(b"\0"))


def _batches(text: bytes) -> Iterable[dict[str, Any]]:
    for line in text.split(b"\n"):
        if _EVENT not in line[:200]:
            continue
        try:
            progress = as_mapping(as_mapping(json.loads(line)).get("progress"))
        except (ValueError, RecursionError):
            continue  # The last line is not yet written whole.
        yield _describe(progress)


def _describe(progress: dict[str, Any]) -> dict[str, Any]:
    sources = [as_mapping(one) for one in cast("list[Any]", progress.get("sources") or [])]
    state = [as_mapping(one) for one in cast("list[Any]", progress.get("stateOperators") or [])]
    durations = as_mapping(progress.get("durationMs"))
    return {
        "queryId": str(progress.get("id", "")),
        "name": str(progress.get("name") or ""),
        "batchId": progress.get("batchId"),
        "at": str(progress.get("timestamp", "")),
        "durationMs": progress.get("batchDuration", durations.get("triggerExecution")),
        "rows": _sum(sources, "numInputRows"),
        "inputPerS": _sum(sources, "inputRowsPerSecond"),
        "processedPerS": _sum(sources, "processedRowsPerSecond"),
        "watermark": str(as_mapping(progress.get("eventTime")).get("watermark", "")),
        "stateRows": _sum(state, "numRowsTotal") if state else None,
        "stateBytes": _sum(state, "memoryUsedBytes") if state else None,
        "late": _sum(state, "numRowsDroppedByWatermark") if state else None,
    }


def _sum(rows: list[dict[str, Any]], name: str) -> float:
    """Return the sum of a figure; Spark writes one that it does not know as NaN, in quotes or as null."""
    values = (row.get(name) for row in rows)
    return sum(one for one in values if isinstance(one, int | float) and one == one)
