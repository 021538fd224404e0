"""Reads a query's progress on a Kinesis stream: lag, rates, and each shard's state.

    for batch in query.recentProgress:
        for stream in of_progress(batch): print(stream.behind_ms, stream.rows_per_s)

`log_progress(spark)` logs every batch's progress, and `headrace.spark.cloudwatch` sends it to CloudWatch. Python
sources cannot set metrics (Spark 4.3 gets them only from the JVM's sources), so the lag is in the latest offset, which
the progress includes. Spark 4.0 and 4.1 do not call for the latest offset; there the lag is in the batch's end offset.
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
        rows: the batch's rows, counted by Spark.
        records_read: by shard, how many records the query has read since it began; in the distributed mode all of
            the batches before this one together, as `*`.
        ended: the listed shards that are read to their end.
        behind_ms: the greatest lag of a shard, in milliseconds (GetRecords' MillisBehindLatest); None if unknown.
        behind_ms_by_shard: the lag of every shard that is being read.
        input_per_s, processed_per_s: input rows and processed rows a second.
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
    """Return the streams in a query's progress (`query.lastProgress`, or a listener's parsed `event.progress.json`)."""
    stream_progresses: list[StreamProgress] = []
    for source in cast("list[dict[str, Any]]", progress["sources"]):
        end = _value(source.get("endOffset"))
        if not {"v", "stream", "shards"} <= set(end):
            continue
        # Spark 4.0 and 4.1 have no latest offset; there the lag is in the batch's end.
        latest: Any = _value(source.get("latestOffset")).get(BEHIND) or end.get(BEHIND)
        behind = cast("dict[str, int]", latest or {})
        # The distributed mode's offset has only the number of shards, and all records before this batch.
        whole = isinstance(end["shards"], int)
        shards = cast("dict[str, dict[str, Any]]", {} if whole else end["shards"])
        read = (
            {"*": int(end["records"])} if whole else {n: int(s["count"]) for n, s in shards.items()}
        )
        stream_progresses.append(
            StreamProgress(
                stream=str(end["stream"]),
                rows=int(source["numInputRows"]),
                records_read=read,
                ended=frozenset(n for n, shard in shards.items() if shard["type"] == "SHARD_END"),
                behind_ms=max(behind.values(), default=None),
                behind_ms_by_shard=behind,
                input_per_s=_rate(source.get("inputRowsPerSecond")),
                processed_per_s=_rate(source.get("processedRowsPerSecond")),
            )
        )
    return stream_progresses


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
    # The rate of a first batch may be NaN or missing.
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


def keep_packages(spark: SparkSession) -> None:
    """Keep what PySpark looks up some hundred times for each event of a listener, each time in all of Spark's jars."""
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:  # a session of Spark Connect
        return
    jvm.py4j = jvm.py4j
    jvm.py4j.reflection = jvm.py4j.reflection
    jvm.py4j.reflection.TypeUtil = jvm.py4j.reflection.TypeUtil


def log_progress(spark: SparkSession) -> ProgressLog:
    """Begin to log the progress of all queries of a session; return the listener, with which to remove it."""
    keep_packages(spark)
    listener = ProgressLog()
    spark.streams.addListener(listener)
    return listener
