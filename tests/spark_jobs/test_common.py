"""What all jobs share: what a drifted event is taken for, what is counted, and events to a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from headrace.spark import progress
from spark_jobs import aircraft_days, airport_board, rolling_delays, speed_view
from spark_jobs.common import events, options, outputs, queries, totals
from spark_jobs.common.job import Job
from tests.spark_jobs.feed import SCHEMA, Event, Feed, arguments, flights

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

TYPE = "a value of another type"
# The first of the year: reading all of them takes seconds, which each worker would spend to know the tests.
FLIGHT: Event = {
    "event_id": "20130101T1015Z-UA-1545",
    "event_time": "2013-01-01T10:15:00Z",
    "carrier": "UA",
    "flight": 1545,
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "distance": 1400,
    "air_time": 227,
    "sched_dep_time": 515,
    "dep_time": 517,
    "dep_delay": 2,
    "sched_arr_time": 819,
    "arr_time": 830,
    "arr_delay": 11,
    "cancelled": False,
}
PASSES: list[tuple[str, Event, str, Any]] = [
    ("a new field", {"gate": {"number": 7}}, "origin", FLIGHT["origin"]),
    ("a dispensable field is null", {"tailnum": None}, "tailnum", None),
    ("a number for a text", {"tailnum": 7}, "tailnum", "7"),
    ("an object for a text", {"tailnum": {"a": 1}}, "tailnum", '{"a":1}'),
    ("seconds for a time", {"event_time": 1357034400}, "origin", FLIGHT["origin"]),
]
QUARANTINED: list[tuple[str, Event, str]] = [
    ("a required field is null", {"carrier": None}, "missing: carrier"),
    ("a text for a number", {"dep_delay": "12"}, TYPE),
    ("a fraction for a number", {"dep_delay": 12.5}, TYPE),
    ("a number that does not fit", {"distance": 3_000_000_000}, TYPE),
    ("a text for a truth value", {"cancelled": "true"}, TYPE),
    ("a list for a number", {"flight": [1]}, TYPE),
    ("no time", {"event_time": "yesterday"}, TYPE),
    ("milliseconds for a time", {"event_time": 1357034400000}, "a time ahead of its record's"),
]


def test_the_flight_is_the_first_of_the_year() -> None:
    assert flights(1) == [FLIGHT]


def test_drifted_events_pass_with_null_or_go_to_quarantine(spark: SparkSession) -> None:
    cases = [*PASSES, *QUARANTINED]
    came = datetime(2013, 1, 2)
    rows = [(json.dumps(FLIGHT | case[1] | {"event_id": case[0]}).encode(), came) for case in cases]
    records = spark.createDataFrame(rows, "data BINARY, approximateArrivalTimestamp TIMESTAMP")

    passed = {row["event_id"]: row for row in events.flights(records).collect()}
    refused = queries.unreadable(records, events.FLIGHT_SCHEMA, events.FLIGHT_REQUIRED).collect()

    assert {name: passed[name][field] for name, _, field, _ in PASSES} == {
        name: value for name, _, _, value in PASSES
    }
    assert {json.loads(row["data"])["event_id"]: row["reason"] for row in refused} == {
        name: reason for name, _, reason in QUARANTINED
    }
    assert len(passed) == len(PASSES)


# What is a time, and what is none: on every Spark, with ANSI mode and without.
TIMES: list[tuple[str, int | None]] = [
    ("2013-01-01T10:00:00Z", 1357034400),
    ("2013-01-01T11:00:00+01:00", 1357034400),
    ("2013-01-01 10:00:00Z", 1357034400),
    ("2013-01-01T10:00:00.5Z", 1357034400),
    ("2013-02-30T10:00:00Z", None),
    ("2013-01-01T25:00:00Z", None),
    ("20130101T100000Z", None),
    ("01/02/2013", None),
    ("tomorrow", None),
    ("1e400", None),
    ("", None),
]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_malformed_time_is_quarantined_whatever_the_mode(spark: SparkSession, ansi: str) -> None:
    rows = [
        (json.dumps(FLIGHT | {"event_id": text, "event_time": text}).encode(), "")
        for text, _ in TIMES
    ]
    records = spark.createDataFrame(rows, SCHEMA)
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        passed = events.flights(records).selectExpr("event_id", "unix_seconds(event_time) AS at")
        found = {row["event_id"]: row["at"] for row in passed.collect()}
        refused = queries.unreadable(records, events.FLIGHT_SCHEMA, events.FLIGHT_REQUIRED)
        reasons = [row["reason"] for row in refused.collect()]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))

    assert found == {text: at for text, at in TIMES if at is not None}
    assert reasons == [TYPE] * sum(at is None for _, at in TIMES)


def test_a_text_that_is_no_utf8_is_no_json_and_a_replacement_character_is(
    spark: SparkSession,
) -> None:
    texts = [
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        '{"a": "\ufffd \U0001f6eb"}'.encode(),
        b'{"a": 1',
        b"[1]",
        b'"a"',
        b"  ",
    ]
    records = spark.createDataFrame([(bytearray(text), "") for text in texts], SCHEMA)

    refused = queries.unreadable(records, "event_time TIMESTAMP, a STRING", ("event_time",))

    assert [row["reason"] for row in refused.collect()] == [
        *("no JSON object", "no JSON object", "missing: event_time"),
        *("no JSON object", "no JSON object", "no JSON object", "empty"),
    ]


@pytest.mark.parametrize("text", ["2013-02-01", "2013-02-01T00:00:00", "soon", ""])
def test_a_cut_that_is_no_time_with_its_zone_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--stream", "s", "--region", "r", "--checkpoint", "s3://b/c", "--output", "s3://b/o"]

    with pytest.raises(SystemExit):
        speed_view.JOB.parse([*argv, "--since", text])
    assert "is no ISO time with its zone, such as 2013-02-01T00:00:00Z" in capsys.readouterr().err
    parsed = speed_view.JOB.parse([*argv, "--since", "2013-02-01T00:00:00Z"])
    assert parsed.since == "2013-02-01T00:00:00+00:00"


def test_a_field_fewer_is_null_or_quarantined(spark: SparkSession) -> None:
    lacking = [{k: v for k, v in FLIGHT.items() if k != name} for name in ("tailnum", "dest")]
    rows = [(json.dumps(event).encode(), "") for event in lacking]
    records = spark.createDataFrame(rows, SCHEMA)

    assert [row["tailnum"] for row in events.flights(records).collect()] == [None]
    refused = queries.unreadable(records, events.FLIGHT_SCHEMA, events.FLIGHT_REQUIRED)
    assert [row["reason"] for row in refused.collect()] == ["missing: dest"]


@pytest.mark.slow
def test_every_micro_batch_is_counted_however_few_spark_remembers(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(spark, tmp_path / "input")
    for event in flights(12):
        feed.put([event, b"junk"])
    kept = "spark.sql.streaming.numRecentProgressUpdates"
    spark.conf.set(kept, "3")
    argv = arguments(tmp_path, "--quarantine", (tmp_path / "bad").as_uri())
    rows = events.flights(feed.stream())
    try:
        said = queries.run_query(
            spark, rows, "few", "append", options.parse(options.parser("few", ""), argv), _nowhere
        )
    finally:
        spark.conf.unset(kept)

    assert said == {"read": 24, "unreadable": 12, "dropped as late": 0}


def _nowhere(rows: Any, batch_id: int) -> None:
    rows.write.format("noop").mode("overwrite").save()


RESULTS = outputs.Results("job", "rows/", ("origin",), "at", "origin")


def events_of(
    spark: SparkSession, rows: list[Row], batch: int, results: outputs.Results
) -> list[Event]:
    frame = spark.createDataFrame(rows, "origin STRING, at TIMESTAMP, delay INT").coalesce(1)
    records = outputs.events(frame, batch, results).collect()
    assert [one["partitionKey"] for one in records] == [row["origin"] for row in rows]
    return [json.loads(one["data"]) for one in records]


def test_an_event_has_its_row_with_nulls_and_times_in_utc(spark: SparkSession) -> None:
    at = spark.sql("SELECT timestamp_seconds(1357034400) AS at").select(F.col("at")).first()
    assert at is not None

    (event,) = events_of(spark, [Row(origin="JFK", at=at["at"], delay=None)], 7, RESULTS)

    row = {"origin": "JFK", "at": "2013-01-01T10:00:00.000Z", "delay": None}
    assert event == {"event_id": event["event_id"], "job": "job", "batch": 7, "row": row}


def test_a_final_rows_id_is_its_keys_and_a_correction_has_its_micro_batchs(
    spark: SparkSession,
) -> None:
    final, corrects = (
        RESULTS,
        outputs.Results("job", "rows/", ("origin",), "at", "origin", corrects=True),
    )

    def event_ids(batch: int, results: outputs.Results, *origins: str) -> list[str]:
        rows = [Row(origin=origin, at=None, delay=1) for origin in origins]
        return [event["event_id"] for event in events_of(spark, rows, batch, results)]

    jfk, lga = event_ids(1, final, "JFK", "LGA")
    assert jfk != lga
    assert event_ids(2, final, "JFK") == [jfk]
    first, again = event_ids(1, corrects, "JFK", "JFK")
    assert first == again
    assert event_ids(2, corrects, "JFK") != [first]


def test_a_job_that_keeps_a_table_refuses_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--stream", "s", "--region", "r", "--checkpoint", "s3://b/c"]

    with pytest.raises(SystemExit):
        airport_board.JOB.parse([*argv, "--output", "kinesis://out"])
    assert "a table, which needs a folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        rolling_delays.JOB.parse([*argv, "--output", "kinesis://"])
    assert "lacks the stream's name" in capsys.readouterr().err
    parsed = aircraft_days.JOB.parse([*argv, "--output", "kinesis://out"])
    assert outputs.stream_of(parsed.output) == "out"


def test_a_table_is_compacted_after_at_least_one_micro_batch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["--stream", "s", "--region", "r", "--checkpoint", "s3://b/c", "--output", "s3://b/o"]

    with pytest.raises(SystemExit):
        airport_board.JOB.parse([*argv, "--compact-every", "0"])
    assert "argument --compact-every: it is at least 1, not 0" in capsys.readouterr().err
    assert airport_board.JOB.parse(argv).compact_every == 10


def test_a_job_whose_rows_go_nowhere_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path / "input")
    nowhere = Job("nowhere", "")

    with pytest.raises(ValueError, match="Job nowhere has neither results nor a sink"):
        nowhere.run(spark, nowhere.parse(arguments(tmp_path)), feed.stream())


def test_files_have_their_permissions_without_a_program_for_each(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm: Any = spark.sparkContext._jvm
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop = jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.getLocal(settings)
    assert files.getClass().getName() == "LocalFiles"
    folder = hadoop.Path((tmp_path / "folder").as_uri())
    files.mkdirs(folder)
    files.setPermission(folder, hadoop.permission.FsPermission("1750"))
    assert (tmp_path / "folder").stat().st_mode & 0o7777 == 0o1750
    context = hadoop.FileContext.getFileContext(settings)
    assert context.getDefaultFileSystem().getClass().getName() == "LocalFiles$Context"
    hadoop.FileUtil.copy(
        files, folder, files, hadoop.Path((tmp_path / "copy").as_uri()), False, settings
    )
    none = spark.sparkContext._gateway.new_array(hadoop.Options.Rename, 0)
    context.rename(folder, hadoop.Path((tmp_path / "renamed").as_uri()), none)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "renamed"]


@pytest.mark.parametrize("keep_packages", [totals.keep_packages, progress.keep_packages])
def test_an_event_of_a_listener_has_java_look_for_no_package(
    keep_packages: Callable[[SparkSession], None],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_keeps_packages(keep_packages, spark, monkeypatch)


def check_keeps_packages(
    keep_packages: Callable[[SparkSession], None],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jvm: Any = spark._jvm
    vars(jvm).pop("py4j", None)
    counts = getattr(jvm, "java.util.HashMap")()
    counts["read"] = 1
    keep_packages(spark)
    client, asked = jvm._gateway_client, []
    send = client.send_command

    def note(command: str, *arguments: Any, **more: Any) -> Any:
        asked.append(command)
        return send(command, *arguments, **more)

    monkeypatch.setattr(client, "send_command", note)
    # As PySpark reads a micro-batch's counts: the end of a map is an exception, which it looks up by its class.
    assert dict(counts) == {"read": 1}
    assert [one for one in asked if "py4j.reflection.TypeUtil" in one]
    assert not [one for one in asked if one.startswith("r\nu\npy4j")]
