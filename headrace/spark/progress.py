"""Reads a query's progress on a Kinesis stream: lag, rates, and where each shard stands.

    for batch in query.recentProgress:
        for stream in of_progress(batch): print(stream.behind_ms, stream.rows_per_s)

`log_progress(spark)` logs that of every batch, and `headrace.spark.cloudwatch` sends it on. Spark's Python
sources cannot set metrics of their own (Spark 4.3 asks only the JVM's for them); what they report as the latest offset
is in the progress, and the lag stands there. Spark 4.0 and 4.1 do not ask for that either: there the lag stands in the
batch's end offset.
"""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

BEHIND = "millisBehindLatest"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamProgress:
    """One batch of one Kinesis source.

    Attributes:
        stream: its name.
        rows: of the batch, in Spark's count.
        records_read: by shard, all that the query has read of it since it began.
        ended: the shards that are read to their end and still listed.
        behind_ms: the greatest lag of a shard, in milliseconds (GetRecords' MillisBehindLatest); None: not known yet.
        behind_ms_by_shard: the lag of every shard that is being read.
        input_per_s, processed_per_s: rows a second that came, and that were worked off.
    """

    stream: str
    rows: int
    records_read: Mapping[str, int]
    ended: frozenset[str]
    behind_ms: int | None
    behind_ms_by_shard: Mapping[str, int]
    input_per_s: float
    processed_per_s: float


def of_progress(progress: Mapping[str, Any]) -> list[StreamProgress]:
    """Return what a query's progress (`query.lastProgress`, or a listener's `event.progress.json` parsed) says."""
    found: list[StreamProgress] = []
    for source in cast("list[dict[str, Any]]", progress["sources"]):
        end = _value(source.get("endOffset"))
        if not {"v", "stream", "shards"} <= set(end):
            continue
        # Spark 4.0 and 4.1 do not ask for a latest offset; there the lag is in the batch's end.
        told: Any = _value(source.get("latestOffset")).get(BEHIND) or end.get(BEHIND)
        behind = cast("dict[str, int]", told or {})
        shards = cast("dict[str, dict[str, Any]]", end["shards"])
        found.append(
            StreamProgress(
                stream=str(end["stream"]),
                rows=int(source["numInputRows"]),
                records_read={name: int(shard["count"]) for name, shard in shards.items()},
                ended=frozenset(n for n, shard in shards.items() if shard["type"] == "SHARD_END"),
                behind_ms=max(behind.values(), default=None),
                behind_ms_by_shard=behind,
                input_per_s=_rate(source.get("inputRowsPerSecond")),
                processed_per_s=_rate(source.get("processedRowsPerSecond")),
            )
        )
    return found


def _value(offset: Any) -> dict[str, Any]:
    """Return an offset, which progress gives as a value, as its JSON, or (Spark 4.0 and 4.1) as Python writes it."""
    value = offset
    if isinstance(offset, str):
        try:
            value = json.loads(offset)
        except ValueError:
            try:
                value = ast.literal_eval(offset)
            except (ValueError, SyntaxError):
                return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _rate(value: Any) -> float:
    # Of a first batch the rate may be NaN or missing.
    return float(value) if value is not None and value == value else 0.0


class ProgressLog(StreamingQueryListener):
    """Logs every batch of every Kinesis source, as one line of the logger `headrace.spark.progress`."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Log nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Log nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Log one batch."""
        for one in of_progress(cast("dict[str, Any]", json.loads(event.progress.json))):
            log.info(
                "stream %s batch %d: %d rows, %.0f in/s, %.0f done/s, %s ms behind",
                one.stream, event.progress.batchId, one.rows, one.input_per_s, one.processed_per_s,
                "?" if one.behind_ms is None else one.behind_ms,
            )  # fmt: skip


def log_progress(spark: SparkSession) -> ProgressLog:
    """Log the progress of all of a session's queries from now on; return the listener, to remove it again."""
    listener = ProgressLog()
    spark.streams.addListener(listener)
    return listener
