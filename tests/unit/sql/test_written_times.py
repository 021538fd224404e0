"""What a record may have for a TIMESTAMP, a DATE and a TIME: numbers are milliseconds and days, and nothing is wrong silently."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.fold import Record, run
from headrace.sql.pyspark_job import compile_script
from headrace.sql.types import SqlError

RELATIONS = """
CREATE STREAM written (id VARCHAR, at TIMESTAMP, day DATE, clock TIME) WITH (stream = 'written');
CREATE STREAM delimited (id VARCHAR, at TIMESTAMP, day DATE, clock TIME) WITH (stream = 'delimited', format = 'DELIMITED');
CREATE STREAM nested (id VARCHAR, ats ARRAY<TIMESTAMP>, st STRUCT<at TIMESTAMP, days MAP<VARCHAR, DATE>>, clocks ARRAY<TIME>) WITH (stream = 'nested');
CREATE STREAM timed (id VARCHAR, at TIMESTAMP) WITH (stream = 'written', timestamp = 'at');
"""
QUERIES = """
CREATE STREAM of_written AS SELECT id, at, UNIX_TIMESTAMP(at) AS ms, day, clock FROM written;
CREATE STREAM of_clocks AS SELECT id, TIMEADD(MINUTES, 90, clock) AS later, TIMESUB(MILLISECONDS, 1, clock) AS before,
  clock < '12:00' AS morning, FORMAT_TIME(clock, 'HH_mm_ss.SSS') AS text, CAST(at AS TIME) AS of_at, clock = CAST(id AS TIME) AS same
  FROM written WHERE clock IS NOT NULL OR id = 't8';
CREATE STREAM of_delimited AS SELECT id, at, day, clock FROM delimited;
CREATE STREAM of_nested AS SELECT * FROM nested;
CREATE STREAM of_timed AS SELECT id, ROWTIME AS ms FROM timed;
"""
MS = 1_600_000_000_000
AT = "2020-09-13T12:26:40Z"
# What stands for a time, and its milliseconds; None for what cannot be read.
TIMES: list[tuple[Any, int | None]] = [
    (MS, MS), (str(MS), MS), (1.6e12, MS), (" 1.6E12 ", MS), (-1, -1), (0, 0), (1_600_000_000, 1_600_000_000), ("2020", 2020),
    (AT, MS), ("2020-09-13 12:26:40", MS), ("2020-09-13T14:26:40.5+02:00", MS + 500), ("2020-09-13T12:26:40.123456789", MS + 123),
    ("2020-9-3", 1_599_091_200_000), ("2020-09", 1_598_918_400_000), ("2020-09-13 12", 1_599_998_400_000),
    ("2020-09-13T07:26:40 America/Chicago", MS), ("2020-09-13T12:26:40UTC", MS), ("2020-09-13T13:26:40GMT+1", MS),
    (253_402_300_800_000, None), (10**20, None), (1e300, None), ("1e999", None), (True, None), ("", None), ("soon", None),
    ("2020-13-01", None), ("2020-02-30", None), ("2020-09-13T25:00:00", None), ("2020-09-13x", None), ([MS], None), ({}, None),
    ("12:00", None), ("20200913T122640", None), ("12020-01-01", None), ("2020-09-13T12:26:40Mars", None),
]  # fmt: skip
DAYS: list[tuple[Any, str | None]] = [
    (18_518, "2020-09-13"), ("18518", "2020-09-13"), (-1, "1969-12-31"), ("2020-09-13", "2020-09-13"), ("2020-9-3", "2020-09-03"),
    ("2020-09-13T23:00:00", "2020-09-13"), (2_932_897, None), (MS, None), ("2020-09-31", None), (False, None),
]  # fmt: skip
CLOCKS: list[tuple[Any, str | None]] = [
    (10, "00:00:00.01"), ("36000000", "10:00:00"), (86_399_999, "23:59:59.999"), (86_400_000, None), (-1, None), ("10:15", "10:15:00"),
    (" 10:15:30 ", "10:15:30"), ("10:15:30.120000", "10:15:30.12"), ("10:15:30.000", "10:15:30"), ("10:15:30.000001", "10:15:30.000001"),
    ("2020-09-13 10:15", "10:15:00"), ("2020-09-13T10:15:30.500", "10:15:30.5"), ("24:00", None), ("10:60", None), ("9:15", None),
    ("noon", None), ("10:15Z", None), (True, None),
]  # fmt: skip


def build_records() -> list[tuple[str, str, Any]]:
    """Return a record of each value, in JSON and delimited, and some of values within others."""
    written = [{"id": f"t{i}", "at": value} for i, (value, _) in enumerate(TIMES)]
    written += [{"id": f"d{i}", "day": value} for i, (value, _) in enumerate(DAYS)]
    written += [{"id": f"c{i}", "clock": value} for i, (value, _) in enumerate(CLOCKS)]
    lines = [
        f"{one['id']},{one.get('at', '')},{one.get('day', '')},{one.get('clock', '')}"
        for one in written
        if all(isinstance(value, (str, int)) and value is not True for value in one.values())
    ]
    nested: list[dict[str, Any]] = [
        {"id": "n0", "ats": [MS, AT, None], "st": {"at": MS, "days": {"a": 1, "b": None}}},
        {"id": "n1", "ats": [], "st": {"at": None, "days": {}}},
        {"id": "n2", "ats": None, "st": None},
        {"id": "n3", "ats": [MS, "soon"]},
        {"id": "n4", "st": {"at": "soon"}},
        {"id": "n5", "st": {"days": {"a": 1, "b": "soon"}}},
        {"id": "n6", "clocks": [10, "10:15", None]},
        {"id": "n7", "clocks": ["noon"]},
    ]
    return [
        *(("written", "k", one) for one in written),
        *(("delimited", "k", line) for line in lines),
        *(("nested", "k", one) for one in nested),
    ]


def _rows(name: str) -> dict[str, dict[str, Any]]:
    records = [(stream, Record(value, key)) for stream, key, value in build_records()]
    fold = run(read_script(RELATIONS + QUERIES), records)
    return {row.columns["id"]: row.columns for row in fold.results[name]}


def test_numbers_are_milliseconds_and_what_is_no_time_is_unreadable() -> None:
    rows = _rows("of_written")
    read = [rows[f"t{i}"]["ms"] if f"t{i}" in rows else None for i in range(len(TIMES))]
    assert read == [expected for _, expected in TIMES]
    days = [rows[f"d{i}"]["day"] if f"d{i}" in rows else None for i in range(len(DAYS))]
    assert days == [expected for _, expected in DAYS]
    clocks = [rows[f"c{i}"]["clock"] if f"c{i}" in rows else None for i in range(len(CLOCKS))]
    assert clocks == [expected for _, expected in CLOCKS]
    assert {one["ms"] for one in _rows("of_timed").values()} == {
        expected for _, expected in TIMES if expected is not None
    }


def test_delimited_records_have_times_alike() -> None:
    of_json, of_lines = _rows("of_written"), _rows("of_delimited")
    assert of_lines["t0"]["at"] == of_json["t0"]["at"] == "2020-09-13T12:26:40.000Z"
    assert "t18" not in of_lines
    assert of_lines["d1"]["day"] == "2020-09-13"
    assert of_lines["c0"]["clock"] == "00:00:00.01"
    assert "c13" not in of_lines


def test_times_within_others_are_read_so_too() -> None:
    rows = _rows("of_nested")
    at = "2020-09-13T12:26:40.000Z"
    assert rows["n0"]["ats"] == [at, at, None]
    assert rows["n0"]["st"] == {"at": at, "days": {"a": "1970-01-02", "b": None}}
    assert rows["n6"]["clocks"] == ["00:00:00.01", "10:15:00", None]
    assert set(rows) == {"n0", "n1", "n2", "n6"}


def test_times_of_day_are_counted_and_compared_within_their_day() -> None:
    rows = _rows("of_clocks")
    late, early = rows["c2"], rows["c0"]
    assert (late["later"], late["before"], late["morning"]) == (
        "01:29:59.999",
        "23:59:59.998",
        False,
    )
    assert (early["before"], early["morning"], early["text"]) == (
        "00:00:00.009",
        True,
        "00_00_00.010",
    )
    assert rows["t8"]["of_at"] == "12:26:40"


def test_only_a_relation_with_times_pays_for_them() -> None:
    text = "CREATE STREAM s (id VARCHAR, n INT) WITH (stream = 's'); CREATE STREAM o AS SELECT * FROM s;"
    assert "times={" not in compile_script(read_script(text), "A test.")
    assert "times={" in compile_script(read_script(RELATIONS + QUERIES), "A test.")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("CAST(n AS TIMESTAMP)", "BIGINT is not cast to TIMESTAMP: FROM_UNIXTIME takes milliseconds"),
        ("CAST(at AS BIGINT)", "TIMESTAMP is not cast to BIGINT: UNIX_TIMESTAMP gives milliseconds"),
        ("CAST(n AS DATE)", "BIGINT is not cast to DATE: FROM_DAYS takes days"),
        ("CAST(n AS BYTES)", "BIGINT is not cast to BYTES"),
        ("at > n", "TIMESTAMP is not compared with BIGINT"),
        ("COALESCE(at, n)", "BIGINT does not go with TIMESTAMP"),
        ("GREATEST(n, at)", "TIMESTAMP does not go with BIGINT"),
        ("CAST(n AS TIME)", "BIGINT is not cast to TIME"),
        ("TIMEADD(DAYS, 1, CAST(at AS TIME))", "DAYS is none of HOUR, HOURS"),
        ("CAST(at AS TIME) = 'noon'", "'noon' is no time of day, such as '10:15:30'"),
        ("CAST(at AS TIME) > at", "TIME is not compared with TIMESTAMP"),
        ("FORMAT_TIME(CAST(at AS TIME), 'yyyy')", "a time of day has no 'yyyy'"),
        ("CAST(ARRAY['10:00'] AS ARRAY<TIME>)", "ARRAY<STRING> is not cast to ARRAY<TIME>"),
        ("CASE WHEN n > 1 THEN at ELSE 'never' END", "STRING does not go with TIMESTAMP"),
    ],
)  # fmt: skip
def test_a_number_is_no_time_in_an_expression(expression: str, problem: str) -> None:
    relation = "CREATE STREAM s (at TIMESTAMP, n BIGINT) WITH (stream = 's');"
    with pytest.raises(SqlError, match=problem):
        read_script(f"{relation} CREATE STREAM o AS SELECT {expression} AS x FROM s;")
