"""What Spark says of a job's streaming queries in its event log: micro-batches, watermark, state rows, rates."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import cramjam

from headrace.core.values import as_mapping
from headrace.spark_submit.ui import event_logs

MOST_BATCHES = 100
# Of a file, and of what it is unpacked to; a query's newest batches are in the newest file.
MOST_FILE_BYTES = 64 * 1024 * 1024
MOST_TEXT_BYTES = 64 * 1024 * 1024
_EVENT = b"StreamingQueryListener$QueryProgressEvent"


def streaming_queries(folder: Path) -> list[dict[str, Any]]:
    """Return the streaming queries of the job in `folder`: id, name, and the newest batches, oldest first.

    Spark writes the log while the job runs, a moment behind; a file whose end is not yet written is read up to there.
    """
    queries: dict[str, dict[str, Any]] = {}
    for log in event_logs(folder)[-3:]:
        files = sorted(log.path.glob("events_*"), key=_number) if log.path.is_dir() else [log.path]
        for file in files[-2:]:
            for batch in _batches(_text(file)):
                query = queries.setdefault(
                    batch["queryId"], {"id": batch["queryId"], "name": "", "batches": []}
                )
                query["name"] = batch["name"] or query["name"]
                query["batches"] = [*query["batches"][1 - MOST_BATCHES :], batch]
    return list(queries.values())


def _number(file: Path) -> int:
    number = file.name.split("_")[1]
    return int(number) if number.isdecimal() else 0


def _text(file: Path) -> bytes:
    with file.open("rb") as opened:
        data = opened.read(MOST_FILE_BYTES)
    if ".zstd" not in file.name:
        return data
    # The output has a fixed size, so that no log can swell this process; what is decompressed before an error stays.
    text = bytearray(MOST_TEXT_BYTES)
    # The log of a running job has no end yet.
    with contextlib.suppress(cramjam.DecompressionError):
        cramjam.zstd.decompress_into(data, text)
    end = text.find(b"\0")
    return bytes(text) if end < 0 else bytes(text[:end])


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
