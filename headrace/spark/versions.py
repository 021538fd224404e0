"""The features of the running Spark's Python data sources: the only module of `headrace.spark` that differs by version.

| Spark | a stream's reader | a stream's writer |
| --- | --- | --- |
| 3.5 | there are no data sources in Python: see `headrace.spark.streams` | |
| 4.0 | is told neither where a batch begins nor a limit; AvailableNow is one batch | is given rows, by a trick Arrow |
| 4.1 | the same | is given Arrow |
| 4.2, 4.3 | is told where a batch begins, its limit, and of AvailableNow, and tells its lag | the same |

Features are detected directly, not by the version number, because vendors backport them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyspark

from headrace.spark.plans import reaches

if TYPE_CHECKING:
    from headrace.spark.untyped import Records


class AskedTooEarly(Exception):
    """Spark asked for a batch's end before the query's offset was known."""


class StandIn:
    """An empty replacement for a class of a newer Spark."""


def spark_version() -> tuple[int, int]:
    """Return the running Spark's version, such as (4, 0)."""
    major, minor, *_ = pyspark.__version__.split(".")
    return int(major), int(minor)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("pyspark"):
            raise
        return None


_sources: Any = _module("pyspark.sql.datasource")
_streaming: Any = _module("pyspark.sql.streaming.datasource")

HAS_DATA_SOURCES = _sources is not None
HAS_ARROW_STREAM_WRITER = hasattr(_sources, "DataSourceStreamArrowWriter")
# Whether there are latestOffset(start, limit), getDefaultReadLimit, reportLatestOffset and
# prepareForTriggerAvailableNow, which came together.
HAS_READ_LIMITS = hasattr(_streaming, "SupportsTriggerAvailableNow")

# The base class for AvailableNow of a reader, besides Spark's DataSourceStreamReader.
AvailableNow: Any = _streaming.SupportsTriggerAvailableNow if HAS_READ_LIMITS else StandIn
CommitMessage: Any = _sources.WriterCommitMessage if HAS_DATA_SOURCES else StandIn
ArrowWriter: Any = _sources.DataSourceArrowWriter if HAS_DATA_SOURCES else StandIn


def _stream_arrow_writer() -> Any:
    if HAS_ARROW_STREAM_WRITER:
        return _sources.DataSourceStreamArrowWriter
    if not HAS_DATA_SOURCES:
        return StandIn

    # Spark 4.0 looks whether a writer takes Arrow in the same place for batches and streams, and knows a batch's only.
    class StreamArrowWriter(_sources.DataSourceStreamWriter, _sources.DataSourceArrowWriter):
        def write(self, iterator: Iterator[Records]) -> Any:
            raise NotImplementedError

    return StreamArrowWriter


StreamArrowWriter: Any = _stream_arrow_writer()


def read_limit(most: int | None) -> Any:
    """Return Spark's read limit for `most` rows, None for all rows. Only with HAS_READ_LIMITS."""
    return _streaming.ReadAllAvailable() if most is None else _streaming.ReadMaxRows(most)


def most_rows(limit: Any) -> int | None:
    """Return the rows that Spark's read limit allows; None for no limit."""
    return int(limit.max_rows) if isinstance(limit, _streaming.ReadMaxRows) else None


class InferredStart:
    """The start of the next micro-batch, inferred from Spark's other calls, for Sparks without HAS_READ_LIMITS.

    Started again with a checkpoint, Spark first asks for the partitions between the last planned offset and itself.
    A query's first start begins with the call for a batch's end. Only
    `spark.sql.streaming.triggerAvailableNowWrapper.enabled` reverses the order of the two calls; it is refused, because
    the plan would begin from the start.

    A place too far ahead is harmless, because Spark's batches begin where the last one ended, whatever was planned
    since. So the place only moves forward. Used by one thread.
    """

    def __init__(self, stream: str, initial: dict[str, Any]) -> None:
        self._stream = stream
        self._initial = initial
        self._found: dict[str, Any] | None = None
        self._guessed = self._planned = False
        self._has_been_asked = False

    def next_start(self) -> dict[str, Any]:
        """Return the offset, as Spark's JSON, at which the next batch begins."""
        if self._found is None:
            self._guessed = True
            self._found = self._initial
        return self._found

    def planned(self, end: dict[str, Any]) -> None:
        """Note that a batch was planned from `next_start` up to `end`."""
        self._planned = True
        self._found = end

    def is_repeated(self, start: dict[str, Any], end: dict[str, Any]) -> bool:
        """Note that Spark asked for the partitions between two offsets.

        Return whether that is an interrupted batch of an earlier run, which is repeated.
        Raises AskedTooEarly.
        """
        restarted = start == end and not self._has_been_asked and end != self._initial
        if restarted and self._guessed:
            raise AskedTooEarly(
                f"Spark {pyspark.__version__} asked for the end of a batch of stream {self._stream} before it said "
                "where the query stands, so the source would have begun anew. Its option "
                "spark.sql.streaming.triggerAvailableNowWrapper.enabled does that: leave it at false. AvailableNow "
                "then takes all that the stream holds in one batch. Nothing was read or lost."
            )
        again = start != end and self._found == end and not self._planned
        self._has_been_asked = True
        if self._found is None or reaches(end, self._found, self._stream):
            self._found = end
        return again
