"""Adds up the counts of all micro-batches of a query: Spark itself keeps only the last hundred."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

WAIT_S = 60.0
LATE = "dropped as late"
WAITING = "rows waiting in state"
# The operators whose state is the ids that repeated rows are told by.
_REMEMBERS = "dedupe"


def keep_packages(spark: SparkSession) -> None:
    """Keep what PySpark looks up some hundred times for each event of a listener, each time in all of Spark's jars."""
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no public way to it
    jvm.py4j = jvm.py4j
    jvm.py4j.reflection = jvm.py4j.reflection
    jvm.py4j.reflection.TypeUtil = jvm.py4j.reflection.TypeUtil


class Totals(StreamingQueryListener):
    """Adds up, for every query of the session, the observations of its micro-batches; look them up by run id.

    Spark calls it from another thread with a short delay: read the totals only after `wait` has returned.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._observed: Counter[tuple[str, str, str]] = Counter()
        self._batches: Counter[str] = Counter()
        self._waiting: dict[str, int] = {}
        self._ended: set[str] = set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: there are no counts yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Add a micro-batch."""
        progress = event.progress
        run = str(progress.runId)
        with self._changed:
            self._batches[run] += 1
            for name, row in progress.observedMetrics.items():
                for what, count in row.asDict().items():
                    self._observed[run, name, what] += count
            self._waiting[run] = sum(
                state.numRowsTotal
                for state in progress.stateOperators
                if not state.operatorName.startswith(_REMEMBERS)
            )
            for state in progress.stateOperators:
                self._observed[run, "", LATE] += state.numRowsDroppedByWatermark

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: a trigger without input has no counts."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Wake the callers of `wait`: Spark reports the end last."""
        with self._changed:
            self._ended.add(str(event.runId))
            self._changed.notify_all()

    def wait(self, run: str, within_s: float = WAIT_S) -> None:
        """Wait until the totals of `run` are complete. Raises TimeoutError: no count is better than a wrong one."""
        with self._changed:
            if not self._changed.wait_for(lambda: run in self._ended, within_s):
                raise TimeoutError(f"Spark did not report a query's end within {within_s:g} s.")

    def batches(self, run: str) -> int:
        """Return the number of micro-batches of `run`."""
        return self._batches[run]

    def of(self, run: str, observation: str, what: str) -> int:
        """Return the sum of one metric of an observation of `run`; 0 if the query has no such observation."""
        return self._observed[run, observation, what]

    def late(self, run: str) -> int:
        """Return the number of rows that `run` dropped as late."""
        return self._observed[run, "", LATE]

    def waiting(self, run: str) -> int:
        """Return the number of rows that wait in the state after the last micro-batch of `run`; 0 if it had none."""
        return self._waiting.get(run, 0)
