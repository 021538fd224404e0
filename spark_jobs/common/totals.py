"""Adds up what all micro-batches of a query counted: Spark itself keeps the last hundred only."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

WAIT_S = 60.0
LATE = "dropped as late"


class Totals(StreamingQueryListener):
    """Adds up, for every query of the session, what its micro-batches observed; ask by the query's run id.

    Spark calls it from a thread of its own, a little after the fact: ask once `wait` has returned.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._observed: Counter[tuple[str, str, str]] = Counter()
        self._batches: Counter[str] = Counter()
        self._ended: set[str] = set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is counted yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Add a micro-batch."""
        progress = event.progress
        run = str(progress.runId)
        with self._changed:
            self._batches[run] += 1
            for name, row in progress.observedMetrics.items():
                for what, count in row.asDict().items():
                    self._observed[run, name, what] += count
            for state in progress.stateOperators:
                self._observed[run, "", LATE] += state.numRowsDroppedByWatermark

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """A trigger without input counts for nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Wake whoever waits: Spark reports the end last."""
        with self._changed:
            self._ended.add(str(event.runId))
            self._changed.notify_all()

    def wait(self, run: str, within_s: float = WAIT_S) -> None:
        """Wait until all of `run` is counted. Raises TimeoutError: better no count than a wrong one."""
        with self._changed:
            if not self._changed.wait_for(lambda: run in self._ended, within_s):
                raise TimeoutError(f"Spark did not report a query's end within {within_s:g} s.")

    def batches(self, run: str) -> int:
        """Return how many micro-batches `run` had."""
        return self._batches[run]

    def of(self, run: str, observation: str, what: str) -> int:
        """Return the sum of a number of an observation of `run`; 0 when the query did not make it."""
        return self._observed[run, observation, what]

    def late(self, run: str) -> int:
        """Return how many rows `run` dropped by its watermark."""
        return self._observed[run, "", LATE]
