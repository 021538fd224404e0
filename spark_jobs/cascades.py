"""Three late departures in a row of one aircraft: complex events with transformWithState; see `spark_jobs/common/`.

Flights come late and out of order, so each is held in the aircraft's state until the watermark has passed its time
(by an event-time timer), and only then, in the order of time, counts. A flight that departs 15 minutes late
or more makes the streak longer; one on time, or 24 hours without a flight, ends it. When a streak reaches
three, and with each flight that makes it longer, a row is written under `--output` in `cascades/batch=N/`: tailnum,
started, event_time, event_id (of the flight), flights (in a row, late), delay_minutes (of all of them).

State lies in RocksDB, as transformWithState demands; what was not passed by the watermark at the end of a run waits in
the checkpoint. transformWithState needs the package protobuf beside pyspark, pandas and pyarrow.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from spark_jobs.common import events, options, outputs, queries

NEEDS_SPARK = "4.0"
LATE_MINUTES = 15
IN_A_ROW = 3
FORGET_MS = 24 * 3600 * 1000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OUTPUT_SCHEMA = (
    "tailnum STRING, started TIMESTAMP, event_time TIMESTAMP, event_id STRING, flights INT, "
    "delay_minutes INT"
)
RESULTS = outputs.Results("cascades", "cascades/", ("event_id",), "tailnum")

# A flight waiting: its time in milliseconds of the epoch, its id, its delay in minutes.
Waiting = tuple[int, str, int]
# A streak: when it began, when its last flight was (milliseconds), its flights, their minutes.
Streak = tuple[int, int, int, int]
NO_STREAK: Streak = (0, 0, 0, 0)


def advance(streak: Streak, flight: Waiting) -> Streak:
    """Return the streak after `flight`, the next one in time; NO_STREAK when it was on time."""
    at_ms, _, delay = flight
    if delay < LATE_MINUTES:
        return NO_STREAK
    started_ms, last_ms, flights, minutes = streak
    if not flights or at_ms - last_ms > FORGET_MS:
        return (at_ms, at_ms, 1, delay)
    return (started_ms, at_ms, flights + 1, minutes + delay)


class Cascades(StatefulProcessor):
    """An aircraft's waiting flights and its streak."""

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
        """Put the flights that came among the waiting."""
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
        """Count the flights that the watermark has passed, and set the timer for the first of the others.

        Each call to the state goes to the JVM and back: a timer an aircraft and micro-batch, not one a flight.
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
        found: list[tuple[Any, ...]] = []
        for flight in due:
            streak = advance(streak, flight)
            started_ms, _, flights, minutes = streak
            if flights >= IN_A_ROW:
                found.append((key[0], started_ms, flight[0], flight[1], flights, minutes))
        self._streak.update(streak)
        if found:
            yield _frame(found)

    def close(self) -> None:
        """Hold nothing open."""


def _frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    names = ["tailnum", "started", "event_time", "event_id", "flights", "delay_minutes"]
    frame = pd.DataFrame(rows, columns=pd.Index(names))
    for name in ("started", "event_time"):
        frame[name] = pd.to_datetime(frame[name], unit="ms", utc=True)
    return frame.astype({"flights": "int32", "delay_minutes": "int32"})


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return the cascades in the stream `records`. Flights cancelled, or of no known tail number, are none."""
    flights = events.on_time_once(events.flights(records), watermark)
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


def run(spark: SparkSession, records: DataFrame, arguments: argparse.Namespace) -> dict[str, int]:
    """Run the query until the input is drained, and return what happened, in flights."""
    provider = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(provider)
    spark.conf.set(provider, ROCKSDB)
    try:
        rows, write = transform(records, arguments.watermark), outputs.sink(arguments, RESULTS)
        counts = queries.run_query(spark, rows, RESULTS.job, "append", arguments, write)
    finally:
        spark.conf.set(provider, str(before))
    return counts | queries.quarantine(spark, records, arguments)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments."""
    return options.parse(
        options.parser("cascades", "Late departures in a row."), argv, to_stream=True
    )


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    return queries.run_stream_job("cascades", run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
