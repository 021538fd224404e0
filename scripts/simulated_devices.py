"""Simulates devices for the second pipeline, and computes with pandas what its alerts and sessions must be.

A device sends a reading a minute by its own clock, which is up to half a minute off. Some devices are switched off for
a while, some for ever, and some get too hot. All follows from a seed. The expected results share no code with
`lambdas/` or `spark_jobs/`.
"""

# pandas' own annotations give every index and conversion a union of all possible types.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportCallIssue=false

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

START = datetime(2026, 1, 5, 6, tzinfo=UTC)
MOST_SKEW_S = 30
# The pipeline's own numbers, in its README's words: ten minutes are a silence, 80 degrees too hot, five minutes a gap.
SILENT, HOT_CELSIUS, GAP = timedelta(minutes=10), 80.0, timedelta(minutes=5)
DOUBT = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What happens to a device: its clock's error, its warmth, and the minutes in which it is off, or hot."""

    skew_s: float
    celsius: float
    off: range
    hot: range


def _plan(chance: random.Random, minutes: int) -> _Plan:
    off, hot = range(0), range(0)
    kind = chance.random()
    if kind < 0.06:  # off for ever, early enough that it is noticed
        off = range(chance.randrange(5, minutes // 2), minutes)
    elif kind < 0.16:  # off for three to twenty minutes; from ten on it is a silence
        begin = chance.randrange(5, max(6, minutes - 25))
        off = range(begin, begin + chance.randrange(3, 21))
    elif kind < 0.26:
        begin = chance.randrange(0, minutes - 5)
        hot = range(begin, begin + chance.randrange(1, 8))
    return _Plan(
        chance.uniform(-MOST_SKEW_S, MOST_SKEW_S), chance.uniform(35, 65), off=off, hot=hot
    )


def device_names(count: int) -> list[str]:
    """Return the devices' names, which are their client ids."""
    return [f"device-{number:05}" for number in range(count)]


def readings(count: int, minutes: int, seed: int) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Yield, minute by minute, what each device sends: its name and its reading."""
    chance = random.Random(seed)
    plans = {name: _plan(chance, minutes) for name in device_names(count)}
    seqs = dict.fromkeys(plans, 0)
    for minute in range(minutes):
        batch: list[tuple[str, dict[str, Any]]] = []
        for name, plan in plans.items():
            if minute in plan.off:
                continue
            at = START + timedelta(minutes=minute, seconds=plan.skew_s)
            warmth = 30 if minute in plan.hot else 0
            celsius = round(plan.celsius + warmth + chance.gauss(0, 0.5), 1)
            if plan.hot and minute in plan.hot:
                celsius = max(celsius, HOT_CELSIUS)
            reading = {
                "seq": seqs[name],
                "event_time": at.isoformat(timespec="milliseconds"),
                "celsius": min(celsius, 79.9) if minute not in plan.hot else celsius,
            }
            seqs[name] += 1
            batch.append((name, reading))
        yield batch


def encode(reading: dict[str, Any]) -> bytes:
    """Return a reading as a device sends it."""
    return json.dumps(reading, separators=(",", ":")).encode()


def table_of(sent: list[tuple[str, dict[str, Any]]]) -> pd.DataFrame:
    """Return all readings: device, seq, event_time, celsius, in the order of each device."""
    rows = pd.DataFrame([{"device": name, **reading} for name, reading in sent])
    rows["event_time"] = pd.to_datetime(rows["event_time"], utc=True)
    return rows.sort_values(["device", "event_time"], ignore_index=True)


def expected_alerts(rows: pd.DataFrame) -> set[str]:
    """Return the ids of the alerts: KIND#DEVICE#MILLISECONDS."""
    times = rows.groupby("device")["event_time"]
    until = times.shift(-1)
    ended = rows["event_time"].max() - DOUBT
    length = until.fillna(ended) - rows["event_time"]
    silent = rows[length >= SILENT]
    hot = rows["celsius"] >= HOT_CELSIUS
    began = rows[hot & ~hot.groupby(rows["device"]).shift(1, fill_value=False)]
    return {
        f"{kind}#{row.device}#{round(row.event_time.timestamp() * 1000)}"
        for kind, part in (("silent", silent), ("overheating", began))
        for row in part.itertuples()
    }


def expected_sessions(rows: pd.DataFrame, closed: pd.Timestamp) -> pd.DataFrame:
    """Return the sessions that have ended by `closed`, in the columns and the order of the job's table."""
    since = rows.groupby("device")["event_time"].diff()
    numbered = rows.assign(session=(since.isna() | (since > GAP)).cumsum())
    sessions = numbered.groupby(["device", "session"], as_index=False).agg(
        session_start=("event_time", "min"),
        session_end=("event_time", "max"),
        readings=("seq", "count"),
        mean_celsius=("celsius", "mean"),
        max_celsius=("celsius", "max"),
    )
    sessions = sessions.assign(session_end=sessions["session_end"] + GAP)
    ended = sessions[sessions["session_end"] <= closed]
    return ended.drop(columns="session").sort_values(["device", "session_start"], ignore_index=True)
