"""The runner without Spark: windows, late rows, joins, tables and bad records."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.cases import BadCase, run_file
from headrace.sql.explain import explain
from headrace.sql.fold import Fold, Record, run
from headrace.sql.operators import moment
from headrace.sql.records import sequence_number
from headrace.sql.types import SqlError

RELATIONS = """CREATE STREAM flights (id VARCHAR KEY, at_ms BIGINT, origin VARCHAR, delay INT, tags ARRAY<VARCHAR>)
  WITH (stream = 'flights', timestamp = 'at_ms');
CREATE STREAM weather (origin VARCHAR KEY, at_ms BIGINT, temp DOUBLE) WITH (stream = 'weather', timestamp = 'at_ms');
CREATE TABLE planes (origin VARCHAR PRIMARY KEY, seats INT) WITH (stream = 'planes');
"""
MINUTE = 60_000


def flight(key: str, minute: int, **fields: Any) -> tuple[str, Record]:
    return "flights", Record({"at_ms": minute * MINUTE, **fields}, key)


def fold(query: str, *records: tuple[str, Record]) -> Fold:
    return run(read_script(RELATIONS + query), records)


def rows(result: Fold, name: str) -> list[dict[str, Any]]:
    return [row.columns for row in result.results[name]]


def test_the_key_is_the_partition_key_and_times_are_rowtime() -> None:
    result = fold(
        "CREATE STREAM a AS SELECT id, ROWTIME AS t, delay / 2 AS h FROM flights;",
        flight("k", 1, delay=5),
    )
    assert rows(result, "a") == [{"id": "k", "t": MINUTE, "h": 2}]


def test_rows_have_their_records_shard_and_sequence_number() -> None:
    # AWS's example of a Lambda event, of shardId-000000000006.
    of_aws = "49590338271490256608559692538361571095921575989136588898"
    result = fold(
        "CREATE STREAM a AS SELECT id, ROWPARTITION AS shard, ROWOFFSET AS number FROM flights WHERE ROWPARTITION <> 2;"
        "CREATE TABLE b AS SELECT ROWPARTITION AS shard, COUNT(*) AS n FROM a GROUP BY ROWPARTITION;"
        "CREATE STREAM c AS SELECT f.id, p.ROWPARTITION AS shard FROM flights f LEFT JOIN planes p ON f.origin = p.origin;"
        "CREATE STREAM d AS SELECT * FROM flights MATCH_RECOGNIZE (ORDER BY ROWTIME MEASURES LAST(x.ROWOFFSET) AS number"
        " PATTERN (x) DEFINE x AS ROWPARTITION = 2) AS m;",
        ("planes", Record({"seats": 1}, "EWR", number=sequence_number(9, 1))),
        ("flights", Record({"at_ms": 0, "origin": "EWR"}, "1", number=of_aws)),
        ("flights", Record({"at_ms": 0}, "2", number=sequence_number(2, 5))),
    )
    assert rows(result, "a") == [{"id": "1", "shard": 6, "number": of_aws}]
    # A query's own stream has other shards.
    assert rows(result, "b") == [{"shard": 0, "n": 1}]
    assert rows(result, "c") == [{"id": "1", "shard": 9}, {"id": "2", "shard": None}]
    assert rows(result, "d") == [{"number": sequence_number(2, 5)}]


def test_a_tumbling_window_closes_and_leaves_out_late_rows() -> None:
    result = fold(
        "CREATE TABLE a AS SELECT origin, COUNT(*) AS n FROM flights WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 10 MINUTES)"
        " GROUP BY origin EMIT FINAL;",
        flight("1", 10, origin="EWR"),
        flight("2", 65, origin="EWR"),
        flight("3", 50, origin="EWR"),
        flight("4", 75, origin="EWR"),
        flight("5", 20, origin="EWR"),
    )
    counts = [(row["WINDOWSTART"] // MINUTE, row["n"]) for row in rows(result, "a")]
    assert counts == [(0, 2), (60, 2)]
    assert result.late == {"a": 1}


def test_joins_of_three_inputs_are_joins_one_after_the_other() -> None:
    weather = ("weather", Record({"at_ms": 11 * MINUTE, "temp": 1.5}, "EWR"))
    result = fold(
        "CREATE STREAM a AS SELECT f.id, w.temp, g.id AS other, p.seats, w.ROWTIME AS t FROM flights f"
        " LEFT JOIN weather w WITHIN 5 MINUTES GRACE PERIOD 1 MINUTE ON f.origin = w.origin"
        " LEFT JOIN flights g WITHIN 2 MINUTES GRACE PERIOD 1 MINUTE ON w.temp = g.delay + 0.5"
        " LEFT JOIN planes p ON g.origin = p.origin WHERE f.id <> '3';",
        ("planes", Record({"seats": 7}, "EWR")),
        flight("1", 10, origin="EWR", delay=1),
        weather,
        flight("2", 12, origin="EWR", delay=3),
        flight("3", 90, origin="JFK"),
        ("weather", Record({"at_ms": 90 * MINUTE, "temp": 0}, "LGA")),
        # Late by the one watermark of all.
        ("weather", Record({"at_ms": 10 * MINUTE, "temp": 9}, "EWR")),
        flight("3", 99, origin="JFK"),
        ("weather", Record({"at_ms": 99 * MINUTE, "temp": 0}, "LGA")),
    )
    assert rows(result, "a") == [
        {"id": "1", "temp": 1.5, "other": "1", "seats": 7, "t": 11 * MINUTE},
        {"id": "2", "temp": 1.5, "other": "1", "seats": 7, "t": 11 * MINUTE},
    ]
    assert result.late == {"a": 1}


def test_late_rows_and_bad_records_go_to_streams_of_their_own() -> None:
    result = fold(
        "SET 'errors.stream' = 'bad'; SET 'late.stream' = 'lates';"
        "CREATE TABLE a AS SELECT origin, COUNT(*) AS n FROM flights WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 30 MINUTES,"
        " GRACE PERIOD 0 SECONDS) WHERE delay > 0 GROUP BY origin EMIT FINAL; UNSET 'late.stream';"
        "CREATE STREAM again (id VARCHAR KEY, origin VARCHAR) WITH (stream = 'lates');"
        "CREATE STREAM b AS SELECT id FROM again;",
        flight("1", 10, origin="EWR", delay=1),
        flight("2", 70, origin="EWR", delay=1),
        # Late for the window from -30 minutes on, and in time for none, for one of two, and filtered.
        flight("3", 1, origin="EWR", delay=1),
        flight("4", 59, origin="EWR", delay=1),
        flight("5", 1, origin="EWR", delay=0),
        ("flights", Record("garbage", "6", number="7")),
    )
    counts = {row["WINDOWSTART"] // MINUTE: row["n"] for row in rows(result, "a")}
    assert counts == {-30: 1, 0: 1, 30: 2, 60: 1}
    assert [(row.key, row.columns["_query"]) for row in result.aside["lates"]] == [
        ("3", "a"),
        ("4", "a"),
    ]
    assert rows(result, "b") == [{"id": "3"}, {"id": "4"}]
    (bad,) = result.aside["bad"]
    assert (bad.key, bad.columns["relation"], bad.columns["sequenceNumber"]) == (
        "6",
        "flights",
        "7",
    )
    assert bad.columns["data"] == "Z2FyYmFnZQ=="
    assert result.late == {"a": 3, "b": 0}


def test_rows_of_a_micro_batch_meet_tables_in_their_order_and_a_table_comes_first_at_a_tie() -> (
    None
):
    script = read_script(
        RELATIONS
        + "CREATE TABLE rates (origin VARCHAR PRIMARY KEY, rate INT, at BIGINT) WITH (stream = 'rates', timestamp = 'at');"
        "CREATE TABLE titles (origin VARCHAR PRIMARY KEY, title VARCHAR) WITH (stream = 'titles');"
        "CREATE STREAM other (id VARCHAR KEY, origin VARCHAR, at BIGINT) WITH (stream = 'other', timestamp = 'at');"
        "CREATE STREAM a AS SELECT f.id, r.rate FROM flights f LEFT JOIN rates r ON f.origin = r.origin;"
        "CREATE STREAM b AS SELECT f.id, o.id AS o, t.title FROM flights f JOIN other o WITHIN 1 HOUR ON f.origin = o.origin"
        " LEFT JOIN titles t ON f.origin = t.origin;"
    )
    result = Fold(script)
    records = [
        flight("1", 5, origin="EWR"),
        ("other", Record({"id": "o1", "origin": "EWR", "at": 0})),
        ("titles", Record({"title": "Newark"}, "EWR")),
        ("rates", Record({"rate": 1, "at": 5 * MINUTE}, "EWR")),
        flight("2", 4, origin="EWR"),
        # As late as flight 1, of a pair that comes after the title.
        ("other", Record({"id": "o2", "origin": "EWR", "at": 0})),
    ]
    at = [replace(record, arrival=moment(location)) for location, (_, record) in enumerate(records)]
    result.take_batch((stream, record) for (stream, _), record in zip(records, at, strict=True))
    assert rows(result, "a") == [{"id": "2", "rate": None}, {"id": "1", "rate": 1}]
    assert {(row["id"], row["o"]): row["title"] for row in rows(result, "b")} == {
        ("1", "o1"): None,
        ("2", "o1"): "Newark",
        ("1", "o2"): "Newark",
        ("2", "o2"): "Newark",
    }


def test_a_row_that_a_join_has_kept_waiting_is_not_late_for_the_next_join() -> None:
    script = read_script(
        RELATIONS
        + "CREATE STREAM other (id VARCHAR KEY, origin VARCHAR, at BIGINT) WITH (stream = 'other', timestamp = 'at');"
        "CREATE STREAM met AS SELECT f.id, o.id AS o, p.id AS p FROM flights f"
        " LEFT JOIN other o WITHIN 6 MINUTES GRACE PERIOD 4 MINUTES ON f.origin = o.origin"
        " LEFT JOIN other p WITHIN 3 MINUTES GRACE PERIOD 2 MINUTES ON f.origin = p.origin;"
    )
    result = Fold(script)

    def other(key: str, minute: int) -> tuple[str, Record]:
        return "other", Record({"id": key, "origin": "JFK", "at": minute * MINUTE}, key)

    result.take_batch([flight("1", 73, origin="EWR"), other("o1", 83)])
    # From here on the watermark is at 79 minutes: flight 1, 6 minutes older, still waits, and then is given up.
    result.take_batch([flight("2", 87, origin="EWR")])
    result.take_batch([flight("3", 600, origin="EWR"), other("o2", 600)])
    result.settle()
    assert rows(result, "met") == [{"id": id_, "o": None, "p": None} for id_ in ("1", "2")]
    assert result.late == {"met": 0}


def test_a_late_row_of_a_join_goes_to_a_stream_by_the_time_of_its_own_side() -> None:
    result = fold(
        "CREATE STREAM other (id VARCHAR KEY, origin VARCHAR, at BIGINT) WITH (stream = 'other', timestamp = 'at');"
        "SET 'late.stream' = 'lates';"
        "CREATE STREAM met AS SELECT f.id, o.id AS o, p.id AS p FROM flights f"
        " LEFT JOIN other AS o WITHIN 5 MINUTES GRACE PERIOD 1 MINUTE ON f.origin = o.origin"
        " LEFT JOIN other AS p WITHIN 5 MINUTES GRACE PERIOD 30 MINUTES ON f.origin = p.origin;",
        flight("1", 60, origin="EWR"),
        # The other stream has shown no later row: it is behind, and in time.
        ("other", Record({"id": "2", "origin": "EWR", "at": 58 * MINUTE})),
        flight("3", 10, origin="EWR"),
        ("other", Record({"id": "4", "origin": "EWR", "at": 56 * MINUTE}, "k")),
    )
    late = [
        (row.key, row.columns["_relation"], row.columns["_query"]) for row in result.aside["lates"]
    ]
    assert late == [("3", "f", "met"), ("k", "o", "met")]
    assert rows(result, "met") == [{"id": "1", "o": "2", "p": "2"}, {"id": "1", "o": "2", "p": "4"}]


def test_hopping_windows_overlap_and_sessions_merge() -> None:
    result = fold(
        "CREATE TABLE h AS SELECT origin, COUNT(*) AS n FROM flights WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 30 MINUTES)"
        " GROUP BY origin EMIT FINAL;"
        "CREATE TABLE s AS SELECT origin, COUNT(*) AS n FROM flights WINDOW SESSION (20 MINUTES) GROUP BY origin EMIT FINAL;",
        flight("1", 100, origin="EWR"),
        flight("2", 130, origin="EWR"),
        flight("3", 115, origin="EWR"),
    )
    assert [(row["WINDOWSTART"] // MINUTE, row["n"]) for row in rows(result, "h")] == [
        (60, 2),
        (90, 3),
        (120, 1),
    ]
    assert [(row["WINDOWSTART"] // MINUTE, row["n"]) for row in rows(result, "s")] == [(100, 3)]


def test_an_outer_join_of_streams_waits_and_then_gives_up() -> None:
    query = (
        "CREATE STREAM a AS SELECT f.id, w.temp FROM flights f LEFT JOIN weather w WITHIN 1 HOURS GRACE PERIOD 0 SECONDS"
        " ON f.origin = w.origin;"
    )
    result = fold(
        query,
        flight("1", 10, origin="EWR"),
        flight("2", 20, origin="JFK"),
        ("weather", Record({"at_ms": 30 * MINUTE, "temp": 1.5}, "EWR")),
    )
    assert rows(result, "a") == [{"id": "1", "temp": 1.5}, {"id": "2", "temp": None}]


def test_a_table_without_data_for_a_key_has_no_row_of_it() -> None:
    result = fold(
        "CREATE STREAM a AS SELECT f.id, p.seats FROM flights f LEFT JOIN planes p ON f.origin = p.origin;",
        ("planes", Record({"seats": 100}, "EWR")),
        flight("1", 10, origin="EWR"),
        ("planes", Record("", "EWR")),
        flight("2", 20, origin="EWR"),
    )
    assert rows(result, "a") == [{"id": "1", "seats": 100}, {"id": "2", "seats": None}]


def test_explode_and_having() -> None:
    result = fold(
        "CREATE STREAM a AS SELECT EXPLODE(tags) AS tag FROM flights;"
        "CREATE TABLE b AS SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin HAVING COUNT(*) > 1;",
        flight("1", 1, origin="EWR", tags=["x", "y"]),
        flight("2", 2, origin="EWR", tags=[]),
    )
    assert rows(result, "a") == [{"tag": "x"}, {"tag": "y"}]
    # A tombstone stands for a group that HAVING leaves out: it may have been shown before.
    assert [row.deleted for row in result.results["b"]] == [True, False]
    assert rows(result, "b")[1:] == [{"origin": "EWR", "n": 2}]


def test_what_cannot_be_read_is_left_out_and_counted() -> None:
    result = fold(
        "CREATE STREAM a AS SELECT id FROM flights;",
        ("flights", Record("{", "1")),
        ("flights", Record({"origin": "no time"}, "2")),
        flight("3", 1, delay="text"),
        flight("4", 1),
    )
    assert rows(result, "a") == [{"id": "4"}]
    assert result.unreadable == {"flights": 3}


def test_what_cannot_be_computed_is_null() -> None:
    result = fold(
        "CREATE STREAM a AS SELECT delay / 0 AS x, CAST('a' AS INT) AS y FROM flights;",
        flight("1", 1, delay=1),
    )
    assert rows(result, "a") == [{"x": None, "y": None}]


def test_delimited_and_raw_records() -> None:
    script = read_script(
        "CREATE STREAM c (a VARCHAR, b INT) WITH (stream = 'c', format = 'DELIMITED');"
        "CREATE STREAM r (a VARCHAR) WITH (stream = 'r', format = 'RAW');"
        "CREATE STREAM c2 AS SELECT a, b FROM c; CREATE STREAM r2 AS SELECT a FROM r;"
    )
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(0)
    records = [
        ("c", Record("x,1", "", now)),
        ("c", Record("x", "", now)),
        ("c", Record('"p, q",2', "", now)),
        ("r", Record("any, text", "", now)),
    ]
    result = run(script, records)
    assert rows(result, "c2") == [{"a": "x", "b": 1}, {"a": "p, q", "b": 2}]
    assert rows(result, "r2") == [{"a": "any, text"}]
    assert result.unreadable == {"c": 1}


def test_rows_exactly_one_gap_apart_are_of_one_session() -> None:
    script = read_script("""CREATE STREAM s (id VARCHAR KEY, at BIGINT) WITH (stream = 's', timestamp = 'at');
    CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s WINDOW SESSION (10 SECONDS, GRACE PERIOD 0 SECONDS)
      GROUP BY id EMIT FINAL;""")
    fold = run(script, [("s", Record({"at": at}, "a")) for at in (1_000, 11_000, 21_001, 90_000)])
    rows = [(row.columns["n"], row.columns["WINDOWSTART"]) for row in fold.results["t"]]
    assert rows == [(2, 1_000), (1, 21_001), (1, 90_000)]


def test_sessions_that_grow_and_merge_leave_tombstones() -> None:
    script = read_script("""CREATE STREAM s (id VARCHAR KEY, at BIGINT) WITH (stream = 's', timestamp = 'at');
    CREATE TABLE t AS SELECT id, COUNT(*) AS n, COLLECT_LIST(at) AS l FROM s
      WINDOW SESSION (10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY id HAVING COUNT(*) < 4;""")
    times = (15_000, 1_000, 8_000, 90_000, 75_001, 75_000, 90_000, 90_000, 90_000)
    fold = run(script, [("s", Record({"at": at}, "a")) for at in times])
    assert [(row.key, None if row.deleted else row.columns["l"]) for row in fold.results["t"]] == [
        ("a|15000|15000", [15_000]),
        ("a|1000|1000", [1_000]),
        # The third row joins both.
        ("a|1000|1000", None),
        ("a|15000|15000", None),
        ("a|1000|15000", [15_000, 1_000, 8_000]),
        ("a|90000|90000", [90_000]),
        # In time by a millisecond; the next one is late.
        ("a|75001|75001", [75_001]),
        ("a|90000|90000", [90_000] * 2),
        ("a|90000|90000", [90_000] * 3),
        # HAVING leaves it out.
        ("a|90000|90000", None),
    ]
    assert fold.late == {"t": 1}


def test_what_corrected_sessions_keep_is_explained_and_an_application_has_none() -> None:
    text = """CREATE STREAM s (id VARCHAR(8)) WITH (stream = 's');
    CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s WINDOW SESSION (10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY id
      EMIT CHANGES;"""
    lines = list(explain(read_script(text)))
    assert any("a record without data for one that is gone" in line for line in lines)
    (state,) = (line for line in lines if line.startswith("  state"))
    assert (
        "the rows of each session, in files, until a row is 25 seconds past its last one" in state
    )
    with pytest.raises(SqlError, match="sessions that are corrected are KSQL's: use EMIT FINAL"):
        read_script(text.replace("TABLE t", "STREAM t"), "kinesis-analytics")


def test_a_remainder_of_large_numbers_has_every_digit() -> None:
    result = fold(
        "CREATE STREAM a AS SELECT CAST(id AS BIGINT) % 10 AS r FROM flights;",
        flight("1152921504606846977", 1),
        flight("-1152921504606846977", 1),
    )
    assert [row["r"] for row in rows(result, "a")] == [7, -7]


def test_quotes_of_a_delimited_record_stand_around_a_whole_field() -> None:
    script = read_script(
        "CREATE STREAM t (a VARCHAR, b INT) WITH (stream = 't', format = 'DELIMITED'); CREATE STREAM o AS SELECT * FROM t;"
    )
    texts = ('"a"b,1', '"" ,2', 'x,"3', 'a"b"c,4', '"""y""",5')
    result = run(script, [("t", Record(data)) for data in texts])
    assert rows(result, "o") == [{"a": 'a"b"c', "b": 4}, {"a": '"y"', "b": 5}]
    assert result.unreadable == {"t": 3}


def test_a_delimited_record_is_one_line() -> None:
    script = read_script(
        "CREATE STREAM t (a VARCHAR, b INT) WITH (stream = 't', format = 'DELIMITED'); CREATE STREAM o AS SELECT * FROM t;"
    )
    result = run(
        script, [("t", Record(data)) for data in ("x,1\r\n", "y,2\nz,3", '"y",2\nz,3', '"p\nq",4')]
    )
    assert rows(result, "o") == [{"a": "x", "b": 1}, {"a": "p\nq", "b": 4}]
    assert result.unreadable == {"t": 2}
    long = run(script, [("t", Record(f'"{"x" * 200_000}",1'))])
    assert len(rows(long, "o")[0]["a"]) == 200_000


def test_what_a_row_cannot_compute_is_null() -> None:
    result = fold(
        "CREATE STREAM a AS SELECT GENERATE_SERIES(1, delay, delay) AS s, GENERATE_SERIES(5, 1, -2) AS t, SLICE(tags, delay, 1) AS u,"
        " AS_MAP(tags, ARRAY['x', 'y']) AS v, SPLIT(origin, '\\E') AS w, FROM_UNIXTIME(at_ms + 9000000000000000000) AS x,"
        " origin LIKE '%\\' AS y, REGEXP_REPLACE(origin, '(b)', '<$1>') AS z FROM flights;",
        flight("1", 1, delay=0, tags=["k", None, "l"], origin="a\\Eb"),
    )
    assert rows(result, "a") == [
        {"s": None, "t": [5, 3, 1], "u": None, "v": {"k": "x"}, "w": ["a", "b"], "x": None, "y": False, "z": "a\\E<b>"}
    ]  # fmt: skip


def test_a_bound_that_is_missed_decides_whatever_the_other_one_is() -> None:
    """As in Spark: FALSE where one bound is missed, NULL where the other one, NULL, would decide."""
    text = """CREATE STREAM s (n INT, low INT, high INT, a ARRAY<INT>) WITH (stream = 's');
    CREATE STREAM o AS SELECT n BETWEEN low AND high AS b, ARRAY_CONTAINS(a, n) AS c FROM s;"""
    rows = [(9, None, 5, [None]), (9, None, 10, [9, None]), (1, 2, None, None), (3, 2, None, [])]
    fold = run(
        read_script(text),
        [("s", Record(dict(zip(("n", "low", "high", "a"), row, strict=True)))) for row in rows],
    )
    assert [(row.columns["b"], row.columns["c"]) for row in fold.results["o"]] == [
        (False, False), (None, True), (False, None), (None, False),
    ]  # fmt: skip


def test_a_test_that_names_a_relation_says_which_stream_it_reads(tmp_path: Path) -> None:
    tests = tmp_path / "t.yaml"
    tests.write_text("[{name: a, input: [{stream: Moves, value: {n: 0}}], output: {a: []}}]")
    script = read_script(
        "CREATE STREAM moves (n INT) WITH (stream = 'hospital-moves');\n"
        "CREATE STREAM a AS SELECT n FROM moves;"
    )
    with pytest.raises(
        BadCase,
        match="nothing reads the stream 'Moves'; Moves is the relation of the stream 'hospital-moves'",
    ):
        list(run_file(script, tests))


def test_a_test_whose_records_nothing_reads_says_which_stream_is_meant(tmp_path: Path) -> None:
    tests = tmp_path / "t.yaml"
    tests.write_text("[{name: a, input: [{stream: flihts, value: {at_ms: 0}}], output: {a: []}}]")
    script = read_script(RELATIONS + "CREATE STREAM a AS SELECT id FROM flights WHERE delay > 1;")
    with pytest.raises(
        BadCase, match=r"nothing reads the stream 'flihts'; did you mean 'flights'\?"
    ):
        list(run_file(script, tests))
