"""Lag, rates and offsets of a running query: in its progress, in the log, and in CloudWatch."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.client.faults import Faults
from headrace.spark.cloudwatch import (
    NAMESPACE,
    metrics_of,
    metrics_of_query,
    publish_progress,
)
from headrace.spark.progress import log_progress, of_progress
from tests.spark.conftest import Stream
from tests.spark.test_source import numbers, stream_of
from tests.support.server import REGION, ServerProcess, wait_until

ONE = {
    "id": "7b1",
    "name": None,
    "sources": [
        {"description": "a file", "startOffset": None, "endOffset": {"logOffset": 3}},
        {
            "numInputRows": 7,
            "inputRowsPerSecond": 70.0,
            "processedRowsPerSecond": float("nan"),
            "endOffset": '{"v": 1, "stream": "flights", "init": {"type": "TRIM_HORIZON"}, "shards": {'
            '"a": {"type": "SHARD_END", "value": "9", "count": 5, "arrival": 1},'
            '"b": {"type": "AFTER_SEQUENCE_NUMBER", "value": "8", "count": 2, "arrival": 1}}}',
            "latestOffset": {"millisBehindLatest": {"b": 1200, "c": 7}},
        },
    ],
}


def test_a_progress_tells_of_every_kinesis_source_and_of_no_other() -> None:
    (found,) = of_progress(ONE)
    assert (found.stream, found.rows, found.behind_ms) == ("flights", 7, 1200)
    assert found.records_read == {"a": 5, "b": 2}
    assert found.ended == {"a"}
    assert (found.input_per_s, found.processed_per_s) == (70.0, 0.0)
    assert found.behind_ms_by_shard == {"b": 1200, "c": 7}


def test_a_progress_of_spark_4_0_has_its_offsets_as_python_writes_them_and_the_lag_in_the_end() -> (
    None
):
    source = dict(ONE["sources"][1])
    end = {**json.loads(source["endOffset"]), "millisBehindLatest": {"b": 9}}
    for written in (str(end), json.dumps(end), end):
        source |= {"endOffset": written, "latestOffset": "None"}
        (found,) = of_progress({"sources": [source]})
        assert (found.stream, found.behind_ms) == ("flights", 9)
    assert of_progress({"sources": [source | {"endOffset": "{'v': 1, stream"}]}) == []


def test_metrics_are_of_the_stream_and_the_query() -> None:
    (found,) = of_progress(ONE)
    metrics = metrics_of(found, ONE)
    assert {one["MetricName"]: one["Value"] for one in metrics} == {
        "MillisBehindLatest": 1200.0, "Rows": 7.0, "InputRowsPerSecond": 70.0, "ProcessedRowsPerSecond": 0.0,
    }  # fmt: skip
    assert all(
        one["Dimensions"]
        == [{"Name": "StreamName", "Value": "flights"}, {"Name": "QueryName", "Value": "7b1"}]
        for one in metrics
    )


def test_a_querys_state_and_what_it_observes_are_metrics_of_the_query() -> None:
    progress = {
        "id": "7b1",
        "name": "q",
        "stateOperators": [
            {"numRowsTotal": 5, "numRowsDroppedByWatermark": 1},
            {"numRowsTotal": 2, "numRowsDroppedByWatermark": 0},
        ],
        "observedMetrics": {"events": {"read": 9, "newest": "2013-01-01"}},
    }
    metrics = metrics_of_query(progress)
    assert {one["MetricName"]: one["Value"] for one in metrics} == {
        "RowsInState": 7.0, "RowsDroppedAsLate": 1.0, "events.read": 9.0,
    }  # fmt: skip
    assert metrics[0]["Dimensions"] == [{"Name": "QueryName", "Value": "q"}]
    assert metrics_of_query(ONE) == []


def test_a_lag_that_is_not_known_is_no_metric() -> None:
    source = dict(ONE["sources"][1]) | {"latestOffset": None}
    (found,) = of_progress({"sources": [source]})
    assert found.behind_ms is None
    assert "MillisBehindLatest" not in {one["MetricName"] for one in metrics_of(found, ONE)}


def run(spark: Any, stream: Stream, places: tuple[str, str], name: str) -> Any:
    query = (
        stream_of(spark, stream, maxRecordsPerTrigger="200", **{"getRecords.numberOfRecordsPerFetch": "200"})
        .writeStream.format("parquet")
        .queryName(name)
        .option("checkpointLocation", places[1])
        .trigger(processingTime="100 milliseconds")
        .start(places[0])
    )  # fmt: skip
    try:
        wait_until(
            lambda: sum(batch["numInputRows"] for batch in query.recentProgress) >= stream.count,
            within_s=60,
        )
    finally:
        query.stop()
    return query


@pytest.mark.spark
def test_a_running_query_says_in_log_and_metrics_how_far_behind_it_is(
    spark: Any,
    server: ServerProcess,
    make_stream: Any,
    places: tuple[str, str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint_url)
    stream = make_stream(1)
    stream.put(300)
    listeners = [log_progress(spark), publish_progress(spark, region=REGION)]
    cloudwatch = server.client("cloudwatch")
    line = re.compile(
        rf"stream {stream.name} batch 0: 200 rows, \d+ in/s, \d+ done/s, (\d+) ms behind"
    )

    def rows_sent() -> float:
        now = datetime.now(UTC)
        answer = cloudwatch.get_metric_statistics(
            Namespace=NAMESPACE,
            MetricName="Rows",
            Dimensions=[
                {"Name": "StreamName", "Value": stream.name},
                {"Name": "QueryName", "Value": "flights_copy"},
            ],
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(hours=1),
            Period=3600,
            Statistics=["Sum"],
        )
        return sum(point["Sum"] for point in answer["Datapoints"])

    try:
        with caplog.at_level(logging.INFO, "headrace.spark.progress"):
            query = run(spark, stream, places, "flights_copy")
            wait_until(lambda: rows_sent() == 300, what="the metrics of all rows")
            (said,) = filter(None, map(line.fullmatch, caplog.messages))
    finally:
        for listener in listeners:
            spark.streams.removeListener(listener)
    first = next(one for batch in query.recentProgress for one in of_progress(batch) if one.rows)
    # A part of the backlog was left when the first batch was planned, and the progress says so.
    assert first.behind_ms is not None
    assert int(said[1]) == first.behind_ms
    last = of_progress(query.recentProgress[-1])[0]
    assert last.behind_ms == 0
    assert dict(last.records_read) == {"shardId-000000000000": 300}


@pytest.mark.spark
def test_metrics_that_cannot_be_sent_do_not_end_the_query(
    spark: Any,
    server: ServerProcess,
    make_stream: Any,
    places: tuple[str, str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint_url)
    stream = make_stream(1)
    stream.put(100)
    listener = publish_progress(spark, region=REGION)
    try:
        with Faults(server.endpoint_url) as faults, caplog.at_level(logging.WARNING):
            faults.add("throttle", service="cloudwatch", error_code="AccessDenied")
            run(spark, stream, places, "refused")
            wait_until(lambda: "The progress of batch 0 was not sent: An error" in caplog.text)
    finally:
        spark.streams.removeListener(listener)
    assert numbers(spark, places[0]) == list(range(100))
