"""Computes the streaming jobs' expected results, micro-batch by micro-batch: plain pandas, no Spark.

It shares no code with `spark_jobs/`: if both agree, both are right. Tables have times in UTC.
"""

# pandas' own annotations give every index and conversion a union of all possible types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportReturnType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

EPOCH = pd.Timestamp(0, tz="UTC")
Batches = Sequence[list[dict[str, Any]]]


@dataclass(frozen=True)
class Kept:
    """The events of a stream that the watermark did not drop.

    `rows`: the first occurrence of each event that came in time; `dropped`: the number of events that came too late;
    `closed`: the last micro-batch's watermark: every window that ends before it is final.
    """

    rows: pd.DataFrame
    dropped: int
    closed: pd.Timestamp


def watermarks(batches: Batches, delay: pd.Timedelta) -> list[pd.Timestamp]:
    """Return the watermark at each micro-batch's start: the greatest event time of earlier batches, less `delay`."""
    marks, mark = [], EPOCH
    for batch in batches:
        marks.append(mark)
        if batch:
            newest = max(pd.Timestamp(event["event_time"]) for event in batch)
            mark = max(mark, newest - delay)
    return marks


def kept(batches: Batches, delay: pd.Timedelta, marks: list[pd.Timestamp] | None = None) -> Kept:
    """Return the events of `batches` that the watermark keeps; events have an event_id and an ISO event_time.

    An event is late by the watermark of the previous micro-batch. Pass `marks` if another stream also determines
    the watermarks.
    """
    marks = marks if marks is not None else watermarks(batches, delay)
    rows: dict[str, dict[str, Any]] = {}
    dropped = 0
    for number, batch in enumerate(batches):
        late = marks[number - 1] if number else EPOCH
        for event in batch:
            if pd.Timestamp(event["event_time"]) <= late:
                dropped += 1
            else:
                rows.setdefault(event["event_id"], event)
    frame = pd.DataFrame(list(rows.values()))
    if not frame.empty:
        frame["event_time"] = pd.to_datetime(frame["event_time"], utc=True)
    return Kept(frame, dropped, marks[-1])


def rolling_delays(flights: pd.DataFrame) -> pd.DataFrame:
    """Return hour-long windows every quarter hour: window_start, origin, departures, delayed, mean and max delay."""
    rows = flights[flights["dep_time"].notna()].copy()
    rows["dep_delay"] = pd.to_numeric(rows["dep_delay"]).astype("float64")
    quarter = rows["event_time"].dt.floor("15min")
    windows = pd.concat(
        rows.assign(window_start=quarter - pd.Timedelta(minutes=15 * back)) for back in range(4)
    )
    windows["late"] = windows["dep_delay"] >= 15
    groups = windows.groupby(["window_start", "origin"], sort=True)
    return groups.agg(
        departures=("event_id", "count"),
        delayed=("late", "sum"),
        mean_delay=("dep_delay", "mean"),
        max_delay=("dep_delay", "max"),
    ).reset_index()


def aircraft_days(flights: pd.DataFrame, closed: pd.Timestamp) -> pd.DataFrame:
    """Return the sessions per tail number that ended by `closed`; eight hours without a flight end a session."""
    gap = pd.Timedelta(hours=8)
    rows = flights[flights["dep_time"].notna() & flights["tailnum"].notna()]
    rows = rows.sort_values(["tailnum", "event_time"]).copy()
    for name in ("dep_delay", "distance"):
        rows[name] = pd.to_numeric(rows[name]).astype("float64")
    since = rows.groupby("tailnum")["event_time"].diff()
    rows["session"] = (since.isna() | (since > gap)).cumsum()
    sessions = rows.groupby(["tailnum", "session"], sort=True).agg(
        session_start=("event_time", "min"),
        session_end=("event_time", "max"),
        flights=("event_id", "count"),
        miles=("distance", "sum"),
        delay_minutes=("dep_delay", "sum"),
        worst_delay=("dep_delay", "max"),
    )
    sessions["session_end"] += gap
    sessions = sessions[sessions["session_end"] <= closed].reset_index()
    return sessions.drop(columns="session")


def weather_delays(flights: Kept, weather: Kept) -> pd.DataFrame:
    """Return the flights with their airport's report of the hour before, and the flights that have none by `closed`.

    Columns: event_id, origin, weather_time, temp, wind_speed. The same watermarks apply to both inputs.
    """
    reports = weather.rows.rename(columns={"event_time": "weather_time"}).drop(columns="event_id")
    hour = flights.rows.assign(weather_time=flights.rows["event_time"].dt.floor("h"))
    joined = hour.merge(reports.assign(found=True), on=["origin", "weather_time"], how="left")
    found = joined["found"].eq(True)
    joined["weather_time"] = joined["weather_time"].where(found)
    given = joined[found | (joined["event_time"] <= flights.closed)]
    return given[["event_id", "origin", "weather_time", "temp", "wind_speed"]]


def cascades(flights: pd.DataFrame, closed: pd.Timestamp) -> pd.DataFrame:
    """Return the flights by `closed` that are at least their aircraft's third late flight (15 minutes) in a row.

    A day without a flight ends the row. Columns: event_id, tailnum, started, flights, delay_minutes.
    """
    rows = flights[
        flights["dep_time"].notna() & flights["tailnum"].notna() & (flights["event_time"] <= closed)
    ].sort_values(["tailnum", "event_time", "event_id"])
    found: list[tuple[Any, ...]] = []
    for tailnum, own in rows.groupby("tailnum"):
        row: list[Any] = []
        for flight in own.itertuples():
            if flight.dep_delay < 15:
                row = []
                continue
            if row and flight.event_time - row[-1].event_time > pd.Timedelta(days=1):
                row = []
            row.append(flight)
            if len(row) >= 3:
                delays = sum(int(one.dep_delay) for one in row)
                found.append((flight.event_id, tailnum, row[0].event_time, len(row), delays))
    names = ["event_id", "tailnum", "started", "flights", "delay_minutes"]
    return pd.DataFrame(found, columns=names)


def differing(expected: pd.DataFrame, actual: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return the rows that differ in `expected`'s columns; an empty result proves equality.

    Numbers are equal within 1e-9. Raises ValueError when a table holds a key twice.
    """
    tables = [_plain(table[list(expected.columns)], key) for table in (expected, actual)]
    for table in tables:
        if table.index.has_duplicates:
            raise ValueError("A table holds a key twice.")
    index = tables[0].index.union(tables[1].index)
    left, right = (table.reindex(index) for table in tables)
    differs = ~index.isin(tables[0].index) | ~index.isin(tables[1].index)
    for name in left.columns:
        if left[name].dtype == "float64":
            equal = ((left[name] - right[name]).abs() <= 1e-9) | (
                left[name].isna() & right[name].isna()
            )
        else:
            equal = (left[name] == right[name]) | (left[name].isna() & right[name].isna())
        differs |= ~equal.to_numpy(dtype=bool)
    return pd.concat({"expected": left[differs], "found": right[differs]}, axis=1)


def _plain(table: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    table = table.copy()
    for name in table.columns:
        if pd.api.types.is_datetime64_any_dtype(table[name]):
            # Spark's Parquet does not name the time zone, which is UTC.
            table[name] = pd.to_datetime(table[name], utc=True).astype("datetime64[us, UTC]")
        elif pd.api.types.is_numeric_dtype(table[name]):
            table[name] = table[name].astype("float64")
        else:
            table[name] = table[name].astype("object")
    return table.set_index(key).sort_index()
