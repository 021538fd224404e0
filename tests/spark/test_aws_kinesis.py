"""`format("aws-kinesis")`: a job that is written for the connector that EMR bundles, run as it is."""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

import headrace.spark
from headrace.spark.offsets import AtSequenceNumber, AtTimestamp, Latest, TrimHorizon
from headrace.spark.option_table import SINK, SOURCE
from headrace.spark.options import InvalidOption, parse_options, parse_sink_options
from headrace.spark.sink import InvalidSchema
from tests.spark.bundled_job import READS
from tests.support.server import ServerProcess

AUTOLOAD = Path(headrace.spark.__file__).parent / "connector"
AWS = "https://kinesis.eu-west-1.amazonaws.com"


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(AUTOLOAD))
    return importlib.import_module("pyspark_aws_kinesis")


def given(**more: str) -> dict[str, str]:
    options = {"streamName": "s", "endpointUrl": AWS, "region": "eu-west-1", **more}
    return {f"kinesis.{name}": text for name, text in options.items()}


def test_the_bundled_defaults_hold(theirs: Any) -> None:
    found = parse_options(theirs.as_ours(given(), SOURCE, ()))
    assert (found.init, found.fail_on_data_loss, found.max_records_per_shard) == (
        Latest(), False, 100_000,
    )  # fmt: skip
    assert (found.most_retries, found.retry_interval_ms) == (5, 1000)
    assert (found.endpoint_url, found.region) == (AWS, "eu-west-1")
    assert parse_sink_options(theirs.as_ours(given(), SINK, ())).record_ttl_ms == 30_000


def test_an_address_of_aws_is_the_local_clouds_where_the_environment_says_so(
    theirs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    found = parse_options(theirs.as_ours(given(), SOURCE, ()))
    assert (found.endpoint_url, found.region) == (None, "eu-west-1")
    other = theirs.as_ours(given(endpointUrl="http://localhost:9"), SOURCE, ())
    assert parse_options(other).endpoint_url == "http://localhost:9"


def test_what_is_not_the_connectors_has_no_effect_and_is_logged(
    theirs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    options = given(
        maxRecordsPerTrigger="3", consumerType="SubscribeToShard", consumerName="c",
        **{"internal.avoidEmptyBatches": "true"},
    )  # fmt: skip
    with caplog.at_level(logging.WARNING):
        assert parse_options(theirs.as_ours(options, SOURCE, ())).max_records_per_trigger is None
        parse_sink_options(theirs.as_ours(given(**{"sink.aggregationEnabled": "true"}), SINK, ()))
    for words in (
        "no option kinesis.maxrecordspertrigger",
        "kinesis.internal.avoidEmptyBatches has no effect",
        "by GetRecords here",
    ):
        assert words in caplog.text


def test_what_the_connector_refuses_is_refused(theirs: Any) -> None:
    source = theirs.AwsKinesisDataSource
    for options, words in (
        ({"kinesis.streamName": "s"}, "endpointUrl is not specified"),
        (given(consumerType="SubscribeToShard"), "consumerName must be specified"),
        (given(credentialProviderClass="x.Y"), "does not take kinesis.credentialProviderClass"),
    ):
        with pytest.raises(InvalidOption, match=words):
            source(options).schema()
    with pytest.raises(InvalidOption, match="reads streams only"):
        source(given()).reader(StructType())
    with pytest.raises(InvalidOption, match="writes streams only"):
        source(given()).writer(StructType(), overwrite=False)
    with pytest.raises(InvalidOption, match="append only"):
        source(given()).streamWriter(StructType(), overwrite=True)
    with pytest.raises(InvalidSchema, match="'data' not found"):
        source(given()).streamWriter(StructType(), overwrite=False)
    without_region = {name: text for name, text in given().items() if name != "kinesis.region"}
    columns = (
        StructType().add("data", "binary").add("partitionKey", "string").add("more", "integer")
    )
    source(given()).streamWriter(columns, overwrite=False)
    with pytest.raises(InvalidOption, match="region is not specified"):
        source(without_region).streamWriter(columns, overwrite=False)


JOB = (
    READS
    + """
query = (
    rows.selectExpr("data", "partitionKey", "length(data) more")
    .writeStream.format("aws-kinesis").options(**options(target))
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
)
query.awaitTermination()
"""
)


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_for_the_bundled_connector_runs_as_it_is(
    server: ServerProcess, make_stream: Any, tmp_path: Path
) -> None:
    source, target = make_stream(2), make_stream(1)
    source.put(50)
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": server.endpoint_url,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false "
        "--conf spark.driver.host=127.0.0.1 pyspark-shell",
        "PYTHONPATH": os.pathsep.join([str(AUTOLOAD), str(Path(__file__).parents[2])]),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JOB, source.name, target.name, str(tmp_path / "c")],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert sorted(int(record["Data"]) for record in target.records()) == list(range(50))
    assert "written one by one" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxFetchTimePerShardSec": "5"}, "maxFetchTimePerShardSec must be no less than 10"),
        ({"maxFetchTimePerShardSec": "0"}, "must be a positive integer"),
        ({"maxFetchRecordsPerShard": "0"}, "Invalid value '0' for option 'kinesis.maxFetchRecordsPerShard'"),
        ({"checkNewRecordThreads": "many"}, "must be a positive integer"),
        ({"minBatchesToRetain": "-1"}, "must be a positive integer"),
        ({"clientNumRetries": "-1"}, "must be zero or a positive integer"),
        ({"subscribeToShard.maxRetries": "x"}, "must be zero or a positive integer"),
        ({"getRecords.fetchIntervalMs": "-1"}, "must be zero or a positive long"),
        ({"stsRoleArn": "arn:aws:iam::1:role/r"}, "stsRoleArn and kinesis.stsSessionName must be both defined"),
        ({"stsSessionName": "s"}, "stsRoleArn and kinesis.stsSessionName must be both defined"),
        ({"awsAccessKeyId": "k"}, "awsAccessKeyId and kinesis.awsSecretKey must be both defined"),
        ({"metadataCommitterType": "X"}, "HDFS or DYNAMODB"),
        ({"startingPosition": "AT_TIMESTAMP 2026-01-01T00:00:00"}, "entered in Invalid Format"),
        ({"startingPosition": "AT_TIMESTAMP"}, "entered in Invalid Format"),
        ({"startingPosition": "NEWEST"}, "none of LATEST"),
        # headrace's own form, which the connector does not read.
        ({"startingPosition": '{"shardId-000000000000": "TRIM_HORIZON"}'}, "none of LATEST"),
        (
            {"startingPosition": '{"shardId-000000000000": {"iteratorType": "SHARD_END"}}'},
            "headrace has no SHARD_END",
        ),
    ],
)  # fmt: skip
def test_a_value_that_the_connector_refuses_is_refused(
    theirs: Any, options: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidOption, match=words):
        theirs.as_ours(given(**options), SOURCE, ())


def test_the_connectors_positions_are_read(theirs: Any) -> None:
    def init(text: str) -> Any:
        return parse_options(theirs.as_ours(given(startingPosition=text), SOURCE, ())).init

    first, second, third = (f"shardId-00000000000{n}" for n in range(3))
    position = {
        first: {
            "iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "49", "subSequenceNumber": "-1",
        },
        second: {"iteratorType": "AT_TIMESTAMP", "iteratorPosition": "1700000000123"},
        third: {"iteratorType": "trim_horizon"},
        "metadata": {"streamName": "s", "batchId": "7"},
    }  # fmt: skip
    found = init(json.dumps(position))
    assert dict(found.shards) == {
        first: AtSequenceNumber("49", after=True), second: AtTimestamp(1_700_000_000_123), third: TrimHorizon(),
    }  # fmt: skip
    assert found.others == Latest()
    assert init("AT_TIMESTAMP 2026-01-01T00:00:00+01:00") == init(
        "at_timestamp 2025-12-31T23:00:00Z"
    )
