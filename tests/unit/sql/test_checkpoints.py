"""A changed query goes on from its checkpoint, or is refused with what was changed."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.inference import Schema
from headrace.sql.plan import KINESIS_ANALYTICS, KSQL
from headrace.sql.pyspark_job import compile_script, progress_problem, state_of
from tests.unit.sql.test_origins import Known, analyse

FOLDER = "s3://bucket/progress/q/"
RELATIONS = """
CREATE STREAM flights (id VARCHAR KEY, origin VARCHAR, carrier VARCHAR, delay INT, at BIGINT) WITH (stream = 'flights');
CREATE STREAM weather (id VARCHAR KEY, origin VARCHAR, temp INT) WITH (stream = 'weather');
CREATE TABLE airports (origin VARCHAR PRIMARY KEY, city VARCHAR) WITH (stream = 'airports');
"""
GROUPS = """CREATE TABLE q AS SELECT origin, SUM(delay) AS total FROM flights
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 HOUR) WHERE delay > 0 GROUP BY origin HAVING SUM(delay) > 5;"""
JOIN = """CREATE STREAM q AS SELECT f.id, w.temp FROM flights f JOIN weather w WITHIN 1 HOUR GRACE PERIOD 1 HOUR
  ON f.origin = w.origin;"""
TABLE_JOIN = (
    "CREATE STREAM q AS SELECT f.id, a.city FROM flights f JOIN airports a ON f.origin = a.origin;"
)
OF_TABLE = "CREATE TABLE q AS SELECT origin, city FROM airports WHERE city <> 'Rome';"
COUNT = "CREATE TABLE q AS SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin;"
FILTER = "CREATE STREAM q AS SELECT id, delay FROM flights WHERE delay > 15;"


STAGGER = """CREATE STREAM sums (n BIGINT) WITH (stream = 'sums'); CREATE PUMP q AS INSERT INTO sums SELECT STREAM COUNT(*)
  FROM flights WINDOWED BY STAGGER (PARTITION BY UPPER(origin) RANGE INTERVAL '1' HOUR);"""


def state(text: str) -> dict[str, str]:
    script = read_script(text, KINESIS_ANALYTICS if "STAGGER" in text else KSQL)
    return state_of(script.queries[-1], script)


def problem(text: str, old: str, new: str) -> str:
    before = RELATIONS + text
    after = before.replace(old, new)
    assert after != before
    entries = ["checkpoint", "state.json"]
    return progress_problem("q", FOLDER, entries, json.dumps(state(before)), state(after))


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (GROUPS, "WHERE delay > 0", "WHERE delay > 1"),
        (GROUPS, "> 5", "> 6"),
        (GROUPS, "GRACE PERIOD 1 HOUR", "GRACE PERIOD 2 HOURS"),
        (GROUPS, "delay INT,", "delay INT, gate VARCHAR,"),
        (GROUPS, "CREATE STREAM flights", "\n-- A remark.\n\nCREATE STREAM flights"),
        (JOIN, "f.id, w.temp", "f.id, w.temp + 1 AS more"),
        (FILTER, "id, delay FROM", "id, origin FROM"),
        (FILTER, "delay > 15", "delay > 16 AND origin = 'EWR'"),
        (OF_TABLE, "'Rome'", "'Oslo'"),
    ],
)
def test_a_change_that_state_does_not_depend_on_goes_on(text: str, old: str, new: str):
    assert problem(text, old, new) == ""


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        (GROUPS, "origin, SUM(delay) AS total FROM flights", "origin, COUNT(*) AS total FROM flights", "is count("),
        (GROUPS, "SUM(delay) AS", "MAX(delay) AS", "aggregates was sum(delay)"),
        (GROUPS, "SIZE 1 HOUR", "SIZE 2 HOURS", "window was TUMBLING of 3600000 ms"),
        (GROUPS, "TUMBLING (SIZE 1 HOUR,", "HOPPING (SIZE 1 HOUR, ADVANCE BY 30 MINUTES,", "is HOPPING of 3600000 ms by 1800000"),
        (GROUPS, "HAVING SUM(delay) > 5", "EMIT FINAL", "EMIT was CHANGES, is FINAL"),
        (GROUPS, "stream = 'flights'", "stream = 'other'", "input was flights, is other"),
        (GROUPS, "stream = 'flights'", "stream = 'flights', timestamp = 'at'", "is flights by the time in at"),
        (COUNT, COUNT, COUNT.replace("origin", "carrier"), "GROUP BY was origin STRING, is carrier STRING"),
        (JOIN, "JOIN weather", "LEFT JOIN weather", "join 1 was INNER of streams with weather"),
        (JOIN, "WITHIN 1 HOUR", "WITHIN 2 HOURS", "is INNER of streams with weather ON"),
        (JOIN, "temp INT", "temp BIGINT", "columns of weather was id STRING, origin STRING, temp INT"),
        (TABLE_JOIN, "f.origin = a.origin", "f.carrier = a.origin", "join 1 was INNER of stream-table"),
        (TABLE_JOIN, "city VARCHAR)", "city VARCHAR, zone INT)", "columns of airports was"),
        (OF_TABLE, "origin, city FROM", "origin, UCASE(city) AS town FROM", "columns was origin STRING KEY, city STRING"),
        (FILTER, "SELECT id, delay", "SELECT DISTINCT delay", "DISTINCT was none, is delay INT"),
        (STAGGER, "UPPER(origin)", "UPPER(carrier)", "by upper(carrier) where"),
    ],
)  # fmt: skip
def test_a_change_that_state_depends_on_is_refused_with_words(
    text: str, old: str, new: str, words: str
):
    refusal = problem(text, old, new)
    assert refusal.startswith(f"q cannot go on from {FOLDER}: ")
    assert words in refusal
    assert "Change it back, or give the query another name" in refusal


def test_a_window_of_a_pump_before_it_counts():
    text = """
    CREATE STREAM "SOURCE_SQL_STREAM_001" (ticker VARCHAR(4), price DOUBLE) WITH (stream = 'ticks');
    CREATE STREAM minutes (ticker VARCHAR(4), n BIGINT);
    CREATE PUMP first AS INSERT INTO minutes SELECT STREAM ticker, COUNT(*) FROM "SOURCE_SQL_STREAM_001"
      GROUP BY ticker, STEP("SOURCE_SQL_STREAM_001".ROWTIME BY INTERVAL '60' SECOND);
    CREATE STREAM out (ticker VARCHAR(4), n BIGINT) WITH (stream = 'out');
    CREATE PUMP second AS INSERT INTO out SELECT STREAM ticker, n FROM minutes;
    """
    before, after = (
        read_script(one, KINESIS_ANALYTICS) for one in (text, text.replace("'60'", "'30'"))
    )
    stored = json.dumps(state_of(before.queries[-1], before))
    refusal = progress_problem(
        "second", FOLDER, ["checkpoint"], stored, state_of(after.queries[-1], after)
    )
    assert "first's " in refusal


def test_a_lost_and_a_foreign_checkpoint_are_said():
    now = state(RELATIONS + GROUPS)
    stored = json.dumps(now)
    foreign = progress_problem("q", FOLDER, ["checkpoint"], "", now)
    assert "is of another job" in foreign
    lost = progress_problem("q", FOLDER, ["state.json", "view", "rows"], stored, now)
    assert "is lost, but what came of it is there (rows, view)" in lost
    for text in ("{", "[1]"):
        assert "is not what this job writes" in progress_problem(
            "q", FOLDER, ["checkpoint"], text, now
        )
    # Not begun, or stopped before the first micro-batch.
    assert progress_problem("q", FOLDER, [], "", now) == ""
    assert progress_problem("q", FOLDER, ["state.json"], stored, now) == ""


def registered(**columns: str) -> Known:
    fields = [{"name": name, "type": type_} for name, type_ in columns.items()]
    return Known(
        glue_schema=Schema(
            "AVRO", (("v", json.dumps({"type": "record", "name": "f", "fields": fields})),)
        )
    )


@pytest.mark.parametrize(
    ("query", "newer", "words"),
    [
        ("SELECT *", {"id": "string", "delay": "int", "gate": "string"}, ""),
        ("SELECT *", {"gate": "string", "id": "string", "delay": "long"}, ""),
        ("SELECT id", {"id": "string"}, ""),
        ("SELECT id", {"id": "string", "delay": "string"}, ""),
        ("SELECT *", {"id": "string"}, "column delay of f was INT, is none"),
        ("SELECT *", {"id": "string", "late": "int"}, "column delay of f was INT, is none"),
        ("SELECT id, delay > 5 AS is_late", {"id": "string", "delay": "double"}, ""),
        ("SELECT id, delay", {"id": "string", "delay": "string"}, "column delay of f was INT, is STRING"),
    ],
)  # fmt: skip
def test_a_newer_version_of_a_schema_goes_on_if_it_holds_what_the_older_one_held(
    query: str, newer: dict[str, str], words: str
):
    text = f"CREATE STREAM f WITH (stream = 'f', schema_name = 'f'); CREATE STREAM q AS {query} FROM f;"
    older = registered(id="string", delay="int")
    before, after = (analyse(text, one).script() for one in (older, registered(**newer)))
    stored, now = (state_of(one.queries[-1], one) for one in (before, after))
    refusal = progress_problem("q", FOLDER, ["checkpoint", "state.json"], json.dumps(stored), now)
    assert words in refusal if words else not refusal
    # What an earlier headrace stored says nothing of columns.
    earlier = {name: value for name, value in stored.items() if "column " not in name}
    assert not progress_problem("q", FOLDER, ["checkpoint", "state.json"], json.dumps(earlier), now)


def test_a_query_with_a_stream_of_late_rows_goes_on_with_both_of_its_checkpoints():
    windowed = "CREATE TABLE q AS SELECT COUNT(*) AS n FROM flights WINDOW TUMBLING (SIZE 1 HOUR) EMIT FINAL;"
    now = state(f"{RELATIONS}SET 'late.stream' = 'lates'; {windowed}")
    stored = json.dumps(now)
    assert progress_problem("q", FOLDER, ["checkpoint", "intake", "state.json"], stored, now) == ""
    lost = progress_problem("q", FOLDER, ["checkpoint", "state.json"], stored, now)
    assert "the progress of reading in" in lost
    lost = progress_problem("q", FOLDER, ["begun", "intake", "state.json"], stored, now)
    assert "is lost, but what came of it is there (begun)" in lost
    # As after a kill while the rows that came first were sorted out.
    assert progress_problem("q", FOLDER, ["intake", "state.json"], stored, now) == ""
    changed = progress_problem(
        "q", FOLDER, ["checkpoint", "state.json"], json.dumps(state(RELATIONS + windowed)), now
    )
    assert "late rows was none, is to a stream of their own" in changed


@pytest.mark.parametrize("text", [GROUPS, JOIN, TABLE_JOIN, OF_TABLE, FILTER])
def test_the_job_has_what_it_compares(text: str):
    script = read_script(RELATIONS + text, KSQL)
    source = compile_script(script, "A test.")
    assert f"state={state_of(script.queries[-1], script)!r}" in source
    assert source.count("def progress_problem(") == 1
    assert source.index("check_progress(spark, arguments, QUERIES)") < source.index(
        "for started in start(spark"
    )


class Started:
    """A query that Spark runs: it has ended, goes on, or fails."""

    def __init__(self, outcome: bool | Exception) -> None:
        self._outcome = outcome

    def awaitTermination(self, timeout: float | None = None) -> bool:
        assert timeout is not None, "the others are not looked at"
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def names_of_the_end() -> dict[str, Any]:
    """Return what a job has from its counts to its main function."""
    source = compile_script(read_script(RELATIONS + FILTER), "A test.")
    names: dict[str, Any] = {"json": json, "time": time, "StreamingQueryListener": object}
    exec(source[source.index("class Counts(") : source.index("def main(")], names)
    return names


def test_a_query_that_fails_ends_the_job_while_those_before_it_go_on():
    names = names_of_the_end()
    counts = names["Counts"]()
    names["wait_for"]([Started(True), Started(True)], counts)
    with pytest.raises(RuntimeError, match="no stream"):
        names["wait_for"]([Started(False), Started(RuntimeError("no stream"))], counts)


def test_a_job_that_goes_on_prints_what_it_has_left_out_when_that_grows(
    capsys: pytest.CaptureFixture[str],
):
    counts = names_of_the_end()["Counts"]()
    query = SimpleNamespace(name="q", runId="1")

    def progress(unreadable: int, late: int) -> None:
        row = {"read": 3, "unreadable": unreadable}
        metrics = {"read_0_a": SimpleNamespace(asDict=lambda: row), "join_left": None}
        operators = [SimpleNamespace(numRowsDroppedByWatermark=late)]
        of_batch = SimpleNamespace(runId="1", observedMetrics=metrics, stateOperators=operators)
        counts.onQueryProgress(SimpleNamespace(progress=of_batch))
        counts.show_left_out([query])

    progress(0, 0)
    assert capsys.readouterr().out == ""
    progress(1, 2)
    shown = {"query": "q", "read a": 6, "unreadable a": 1, "late": 2}
    assert json.loads(capsys.readouterr().out) == shown
    progress(0, 0)
    assert capsys.readouterr().out == ""
    assert counts.totals_of(query) == {"read a": 9, "unreadable a": 1, "late": 2}
    counts.wait([query], within_s=0)
    counts.onQueryTerminated(query)
    counts.wait([query])


def test_a_list_in_a_store_of_objects_is_written_anew_in_one_put() -> None:
    """A store of objects shows what is written when it is whole, and renames by copying: no part, no rename, no sum."""
    source = compile_script(read_script(RELATIONS + TABLE_JOIN), "A test.")
    written: dict[str, bytes] = {}

    class Files:
        def create(self, path: str, overwrite: bool) -> Stream:
            assert overwrite
            return Stream(path)

    class Stream:
        def __init__(self, path: str) -> None:
            self.path, self.data = path, b""

        def write(self, data: bytes) -> None:
            self.data += bytes(data)

        def close(self) -> None:
            written[self.path] = self.data

    class Path(str):
        __slots__ = ()

        def toUri(self) -> Path:
            return self

        def getScheme(self) -> str:
            return self.partition(":")[0]

    names: dict[str, Any] = {"file_system": lambda _spark, path: (Files(), Path(path))}
    text = source[source.index("def replace_file(") :]
    exec(text[: text.index("\n\n\n")], names)
    names["replace_file"](None, "s3://bucket/puts/9.compact", "s3://bucket/part", "v1\nline")
    # Without a session: nothing of it was asked for.
    assert written == {"s3://bucket/puts/9.compact": b"v1\nline"}
