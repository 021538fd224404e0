"""What all jobs share: what a drifted event is taken for, what is counted, and events to a stream."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import aircraft_days, airport_board, rolling_delays
from spark_jobs.common import events, options, outputs, queries
from tests.spark_jobs.feed import SCHEMA, Event, Feed, arguments, flights

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

TYPE = "a value of another type"
FLIGHT = flights(1)[0]
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


def test_drifted_events_pass_with_null_or_go_to_quarantine(spark: SparkSession) -> None:
    cases = [*PASSES, *QUARANTINED]
    came = datetime(2013, 1, 2)
    rows = [(json.dumps(FLIGHT | case[1] | {"event_id": case[0]}).encode(), came) for case in cases]
    records = spark.createDataFrame(rows, "data BINARY, approximateArrivalTimestamp TIMESTAMP")

    passed = {row["event_id"]: row for row in events.flights(records).collect()}
    refused = events.unreadable(records, events.FLIGHT_SCHEMA, events.FLIGHT_REQUIRED).collect()

    assert {name: passed[name][field] for name, _, field, _ in PASSES} == {
        name: value for name, _, _, value in PASSES
    }
    assert {json.loads(row["data"])["event_id"]: row["reason"] for row in refused} == {
        name: reason for name, _, reason in QUARANTINED
    }
    assert len(passed) == len(PASSES)


def test_a_field_fewer_is_null_or_quarantined(spark: SparkSession) -> None:
    lacking = [{k: v for k, v in FLIGHT.items() if k != name} for name in ("tailnum", "dest")]
    rows = [(json.dumps(event).encode(), "") for event in lacking]
    records = spark.createDataFrame(rows, SCHEMA)

    assert [row["tailnum"] for row in events.flights(records).collect()] == [None]
    refused = events.unreadable(records, events.FLIGHT_SCHEMA, events.FLIGHT_REQUIRED)
    assert [row["reason"] for row in refused.collect()] == ["missing: dest"]


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


RESULTS = outputs.Results("job", "rows/", ("origin",), "origin")


def event_of(spark: SparkSession, row: Row, batch: int, results: outputs.Results) -> Event:
    rows = spark.createDataFrame([row], "origin STRING, at TIMESTAMP, delay INT")
    (record,) = outputs.events(rows, batch, results).collect()
    assert record["partitionKey"] == row["origin"]
    return json.loads(record["data"])


def test_an_event_has_its_row_with_nulls_and_times_in_utc(spark: SparkSession) -> None:
    at = spark.sql("SELECT timestamp_seconds(1357034400) AS at").select(F.col("at")).first()
    assert at is not None

    event = event_of(spark, Row(origin="JFK", at=at["at"], delay=None), 7, RESULTS)

    row = {"origin": "JFK", "at": "2013-01-01T10:00:00.000Z", "delay": None}
    assert event == {"event_id": event["event_id"], "job": "job", "batch": 7, "row": row}


def test_a_final_rows_id_is_its_keys_and_a_correction_has_its_micro_batchs(
    spark: SparkSession,
) -> None:
    final, corrects = RESULTS, outputs.Results("job", "rows/", ("origin",), "origin", corrects=True)

    def event_id(origin: str, batch: int, results: outputs.Results) -> str:
        return event_of(spark, Row(origin=origin, at=None, delay=1), batch, results)["event_id"]

    assert event_id("JFK", 1, final) == event_id("JFK", 2, final) != event_id("LGA", 1, final)
    assert event_id("JFK", 1, corrects) == event_id("JFK", 1, corrects)
    assert event_id("JFK", 1, corrects) != event_id("JFK", 2, corrects)


def test_a_job_that_keeps_a_table_refuses_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--stream", "s", "--region", "r", "--checkpoint", "s3://b/c"]

    with pytest.raises(SystemExit):
        airport_board.parse_arguments([*argv, "--output", "kinesis://out"])
    assert "a table, which needs a folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        rolling_delays.parse_arguments([*argv, "--output", "kinesis://"])
    assert "lacks the stream's name" in capsys.readouterr().err
    parsed = aircraft_days.parse_arguments([*argv, "--output", "kinesis://out"])
    assert outputs.stream_of(parsed.output) == "out"
