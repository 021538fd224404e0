"""Finds three late departures of an aircraft in a row: complex events, transformWithState; see `spark_jobs/common/`.

Flights come late and out of order, so the aircraft's state holds each flight until the watermark has passed its time
(by an event-time timer), and counts the flights only then, in order of time. A flight that departs at least 15 minutes
late extends the streak; a flight on time, or 24 hours without a flight, ends it. When a streak reaches three, and with
each further flight, the job writes a row under `--output` to the table `cascades/`: tailnum, started, event_time,
event_id (of the flight), flights (late ones in a row), delay_minutes (of all of them).

State is in RocksDB, as transformWithState requires; flights that the watermark has not passed at the end of a run wait
in the checkpoint. transformWithState needs the package protobuf beside pyspark, pandas and pyarrow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from spark_jobs.common import events, outputs
from spark_jobs.common.job import Job

NEEDS_SPARK = "4.0"
LATE_MINUTES = 15
IN_A_ROW = 3
FORGET_MS = 24 * 3600 * 1000
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
OUTPUT_SCHEMA = (
    "tailnum STRING, started TIMESTAMP, event_time TIMESTAMP, event_id STRING, flights INT, "
    "delay_minutes INT"
)
RESULTS = outputs.Results("cascades", "cascades/", ("event_id",), "event_time", "tailnum")

# A waiting flight: its time in epoch milliseconds, its id, its delay in minutes.
Waiting = tuple[int, str, int]
# A streak: its start, its last flight's time (milliseconds), its number of flights, their delay in minutes.
Streak = tuple[int, int, int, int]
NO_STREAK: Streak = (0, 0, 0, 0)


def advance(streak: Streak, flight: Waiting) -> Streak:
    """Return the streak after `flight`, the next flight in time; NO_STREAK if it was on time."""
    at_ms, _, delay = flight
    if delay < LATE_MINUTES:
        return NO_STREAK
    started_ms, last_ms, flights, minutes = streak
    if not flights or at_ms - last_ms > FORGET_MS:
        return (at_ms, at_ms, 1, delay)
    return (started_ms, at_ms, flights + 1, minutes + delay)


class Cascades(StatefulProcessor):
    """An aircraft's state: its waiting flights and its streak."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the aircraft's state."""
        self._handle = handle
        self._waiting = handle.getListState(
            "waiting", "at_ms BIGINT, event_id STRING, dep_delay INT"
        )
        self._streak = handle.getValueState(
            "streak", "started_ms BIGINT, last_ms BIGINT, flights INT, minutes INT"
        )

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,
    ) -> Iterator[pd.DataFrame]:
        """Add the new flights to the waiting ones."""
        for frame in rows:
            names = ("at_ms", "event_id", "dep_delay")
            came: list[Waiting] = list(zip(*(frame[name].tolist() for name in names)))
            self._waiting.appendList(came)
            self._handle.registerTimer(min(came)[0])
        return iter(())

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[pd.DataFrame]:
        """Count the flights that the watermark has passed, and set the timer for the first other flight.

        Each call to the state goes to the JVM and back: so one timer per aircraft and micro-batch, not per flight.
        """
        passed_ms = timerValues.getCurrentWatermarkInMs()
        waiting: list[Waiting] = sorted(tuple(flight) for flight in self._waiting.get())
        due = [flight for flight in waiting if flight[0] <= passed_ms]
        if not due:
            return
        if left := waiting[len(due) :]:
            self._waiting.put(left)
            self._handle.registerTimer(left[0][0])
        else:
            self._waiting.clear()
        streak: Streak = self._streak.get() or NO_STREAK
        expired: list[tuple[Any, ...]] = []
        for flight in due:
            streak = advance(streak, flight)
            started_ms, _, flights, minutes = streak
            if flights >= IN_A_ROW:
                expired.append((key[0], started_ms, flight[0], flight[1], flights, minutes))
        self._streak.update(streak)
        if expired:
            yield _frame(expired)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    names = ["tailnum", "started", "event_time", "event_id", "flights", "delay_minutes"]
    frame = pd.DataFrame(rows, columns=pd.Index(names))
    for name in ("started", "event_time"):
        frame[name] = pd.to_datetime(frame[name], unit="ms", utc=True)
    return frame.astype({"flights": "int32", "delay_minutes": "int32"})


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return the cascades in the stream `records`, without cancelled flights and flights without a tail number."""
    flights = events.flights_once(records, watermark)
    return (
        flights.where("NOT cancelled AND tailnum IS NOT NULL AND dep_delay IS NOT NULL")
        .selectExpr(
            "tailnum", "event_time", "event_id", "dep_delay", "unix_millis(event_time) AS at_ms"
        )
        .groupBy("tailnum")
        .transformWithStateInPandas(
            Cascades(),
            outputStructType=OUTPUT_SCHEMA,
            outputMode="Append",
            timeMode="EventTime",
        )
    )


JOB = Job(
    RESULTS.job,
    "Late departures in a row.",
    transform,
    results=RESULTS,
    settings=ROCKSDB,
    waits=True,
)


if __name__ == "__main__":
    sys.exit(JOB.main())
