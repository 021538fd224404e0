"""Options in the spelling of EMR's connector."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

import headrace.spark
from headrace.spark.offsets import (
    AtSequenceNumber,
    AtTimestamp,
    Latest,
    ShardPositions,
    TrimHorizon,
)
from headrace.spark.option_table import CONNECTION, SINK, SOURCE, Option, page_with_tables
from headrace.spark.options import InvalidOption, as_batch, parse_options, parse_sink_options
from headrace.spark.planning import with_mode


def parsed(**given: str):
    return parse_options(
        {"kinesis.streamName": "s", **{f"kinesis.{k}": v for k, v in given.items()}}
    )


@pytest.mark.parametrize(
    ("text", "init"),
    [
        ("LATEST", Latest()),
        ("trim_horizon", TrimHorizon()),
        ("earliest", TrimHorizon()),
        ("AT_TIMESTAMP 2013-01-01T05:00:00Z", AtTimestamp(1_357_016_400_000)),
        ("at_timestamp 2013-01-01T00:00:00-05:00", AtTimestamp(1_357_016_400_000)),
        ("AT_TIMESTAMP 2013-01-01T05:00:00.250", AtTimestamp(1_357_016_400_250)),
    ],
)
def test_starting_positions(text: str, init: object) -> None:
    assert parsed(startingposition=text).init == init
    assert parsed(startingPosition=text).init == init


@pytest.mark.parametrize(
    "text", ["", "SOMEWHERE", "AT_TIMESTAMP", "AT_TIMESTAMP yesterday", "LATEST 1"]
)
def test_a_starting_position_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="startingPosition"):
        parsed(startingPosition=text)


def test_shards_begin_each_at_a_place_of_its_own() -> None:
    given = {
        "shardId-1": "AFTER_SEQUENCE_NUMBER 49",
        "shardId-0": "at_sequence_number 48",
        "*": "LATEST",
    }
    assert parsed(startingPosition=json.dumps(given)).init == ShardPositions(
        (
            ("shardId-0", AtSequenceNumber("48")),
            ("shardId-1", AtSequenceNumber("49", after=True)),
        ),
        Latest(),
    )
    assert parsed(startingPosition='{"shardId-0": "LATEST"}').init == ShardPositions(
        (("shardId-0", Latest()),), TrimHorizon()
    )


@pytest.mark.parametrize(
    "text",
    ["{", '{"shardId-0": "AT_SEQUENCE_NUMBER"}', '{"*": "AT_SEQUENCE_NUMBER 1"}', "AT_SEQUENCE_NUMBER 1"],
)  # fmt: skip
def test_a_place_of_a_shard_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="startingPosition"):
        parsed(startingPosition=text)


def test_an_unknown_option_is_refused_by_name_and_the_known_ones_are_listed() -> None:
    with pytest.raises(InvalidOption, match=r"no option 'kinesis.stream'.*kinesis\.streamName"):
        parse_options({"kinesis.stream": "s"})


def test_the_stream_is_needed() -> None:
    with pytest.raises(InvalidOption, match=r"needs the option kinesis\.streamName"):
        parse_options({"kinesis.region": "us-east-1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxFetchRecordsPerShard", "0"),
        ("maxFetchRecordsPerShard", "many"),
        ("getRecords.numberOfRecordsPerFetch", "10001"),
        ("failOnDataLoss", "maybe"),
        ("describeShardInterval", "1 fortnight"),
        ("consumerType", "Push"),
    ],
)
def test_a_value_that_means_nothing_is_refused_with_its_option(name: str, value: str) -> None:
    with pytest.raises(InvalidOption, match=name):
        parsed(**{name: value})


def test_values_are_taken_over() -> None:
    options = parsed(
        endpointUrl="http://127.0.0.1:1",
        failOnDataLoss="FALSE",
        describeShardInterval="500ms",
        maxRecordsPerTrigger="7",
    )
    assert options.endpoint_url == "http://127.0.0.1:1"
    assert options.fail_on_data_loss is False
    assert options.describe_interval_s == 0.5
    assert options.max_records_per_trigger == 7


PAGE = Path(headrace.spark.__file__).parents[2] / "docs" / "spark-kinesis.md"


@pytest.mark.parametrize(("table", "parse"), [(SOURCE, parse_options), (SINK, parse_sink_options)])
def test_the_defaults_in_the_table_are_those_that_are_taken(table: list[Option], parse) -> None:
    taken = parse({"kinesis.streamName": "s"})
    for option in table:
        if (
            option.field
            and option.field != "kinesis_region"
            and option.name != "kinesis.streamName"
        ):
            default = option.parse(option.default) if option.default else None
            assert getattr(taken, option.field) == default, option.name


def test_the_page_shows_the_options_as_they_are() -> None:
    page = PAGE.read_text()
    fresh = "python -m headrace.spark.option_table docs/spark-kinesis.md"
    assert page_with_tables(page) == page, f"run {fresh}"
    for option in (*SOURCE, *SINK):
        assert f"`{option.name}`" in page


# Read in its README and sources of 2026, so that a job may switch to it and from it.
BUNDLED_SOURCE = [
    "region",
    "endpointUrl",
    "streamName",
    "consumerType",
    "consumerName",
    "failOnDataLoss",
    "maxFetchRecordsPerShard",
    "maxFetchTimePerShardSec",
    "startingPosition",
    "describeShardInterval",
    "minBatchesToRetain",
    "checkNewRecordThreads",
    "metadataCommitterType",
    "metadataPath",
    "metadataNumRetries",
    "metadataRetryIntervalsMs",
    "metadataMaxRetryIntervalMs",
    "clientNumRetries",
    "clientRetryIntervalsMs",
    "clientMaxRetryIntervalMs",
    "stsRoleArn",
    "stsSessionName",
    "stsEndpointUrl",
    "awsAccessKeyId",
    "awsSecretKey",
    "sessionToken",
    "kinesisRegion",
    "credentialProviderClass",
    "credentialProviderParam",
    "dynamodb.tableName",
    "subscribeToShard.timeoutSec",
    "subscribeToShard.maxRetries",
    "getRecords.numberOfRecordsPerFetch",
    "getRecords.fetchIntervalMs",
    "internal.dataQueueCapacity",
    "internal.maxDataQueueEmptyCount",
    "internal.dataQueueWaitTimeoutSec",
    "internal.maintenanceTaskIntervalSec",
    "internal.avoidEmptyBatches",
]
BUNDLED_SINK = [
    "sink.flushWaitTimeMs",
    "sink.recordMaxBufferedTimeMs",
    "sink.maxConnections",
    "sink.aggregationEnabled",
    "sink.recordTtl",
    "region",
    "endpointUrl",
    "streamName",
]


@pytest.mark.parametrize(("names", "table"), [(BUNDLED_SOURCE, SOURCE), (BUNDLED_SINK, SINK)])
def test_every_option_of_the_bundled_connector_is_known(
    names: list[str], table: list[Option]
) -> None:
    known = {option.name for option in table if option.bundled is not None}
    assert {f"kinesis.{name}" for name in names} <= known


def test_an_option_without_effect_is_accepted_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        parsed(metadataNumRetries="3")
    assert "kinesis.metadataNumRetries has no effect: a failed read or write" in caplog.text


def test_the_distributed_mode_is_chosen_by_the_master_and_a_path_that_all_see() -> None:
    nowhere, somewhere = parsed(), parsed(metadataPath="/shared")
    assert with_mode(somewhere, "yarn").read_mode == "executors"
    assert with_mode(somewhere, "local[2]").read_mode == "driver"
    assert with_mode(somewhere, None).read_mode == "driver"
    assert with_mode(nowhere, "spark://a:1").read_mode == "driver"
    by_checkpoint = with_mode(nowhere, "spark://a:1", "hdfs://a/checkpoint")
    assert by_checkpoint.read_mode == "executors"
    assert by_checkpoint.metadata_path == "hdfs://a/checkpoint/kinesis-metadata"
    assert with_mode(parsed(readMode="driver", metadataPath="/s"), "yarn").read_mode == "driver"
    with pytest.raises(InvalidOption, match=r"needs kinesis\.metadataPath"):
        with_mode(parsed(readMode="executors"), "local[2]")


@pytest.mark.parametrize("option", [one for one in CONNECTION if one.kind == "refused"])
def test_an_option_that_is_refused_says_what_to_do_instead(option: Option) -> None:
    secret = "hunter2"
    with pytest.raises(InvalidOption, match=f"does not take {option.name}: ") as refusal:
        parse_options({"kinesis.streamName": "s", option.name: secret})
    assert secret not in str(refusal.value)


def test_enhanced_fan_out_is_the_executors() -> None:
    fan_out = {"consumerType": "SubscribeToShard", "consumerName": "c"}
    with pytest.raises(InvalidOption, match=r"kinesis\.consumerName must be specified"):
        parsed(consumerType="SubscribeToShard")
    assert with_mode(parsed(metadataPath="/s", **fan_out), "local[2]").read_mode == "executors"
    for options in (parsed(**fan_out), parsed(metadataPath="/s", readMode="driver", **fan_out)):
        with pytest.raises(InvalidOption, match="by which executors read"):
            with_mode(options, "local[2]")
    with pytest.raises(InvalidOption, match="A batch read is by GetRecords"):
        as_batch(parsed(**fan_out))
    assert not parsed(consumerType="getrecords").fan_out


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("kinesis.stream", "kinesis.streamName"),
        ("kinesis.startPosition", "kinesis.startingPosition"),
        ("streamName", "kinesis.streamName"),
        ("recordTtl", None),
        ("kinesis.maxRecordPerTrigger", "kinesis.maxRecordsPerTrigger"),
        ("kinesis.FAILONDATALOS", "kinesis.failOnDataLoss"),
    ],
)
def test_an_unknown_option_is_told_the_nearest_known_one(given: str, nearest: str | None) -> None:
    with pytest.raises(InvalidOption) as refusal:
        parse_options({"kinesis.streamName": "s", given: "1"})
    text = str(refusal.value)
    assert (f"Is {nearest} meant?" in text) if nearest else ("meant?" not in text)


@pytest.mark.parametrize(
    ("options", "region"),
    [
        ({}, None),
        ({"region": "eu-west-1"}, "eu-west-1"),
        ({"endpointUrl": "https://kinesis.us-east-2.amazonaws.com"}, "us-east-2"),
        ({"endpointUrl": "https://kinesis-fips.us-gov-west-1.amazonaws.com"}, "us-gov-west-1"),
        (
            {"endpointUrl": "https://vpce-1-2.kinesis.eu-west-1.vpce.amazonaws.com"},
            "eu-west-1",
        ),
        ({"endpointUrl": "http://127.0.0.1:4566", "region": "eu-west-1"}, "eu-west-1"),
        (
            {"endpointUrl": "https://kinesis.us-east-2.amazonaws.com", "region": "eu-west-1"},
            "us-east-2",
        ),
        ({"kinesisRegion": "eu-north-1", "region": "eu-west-1"}, "eu-north-1"),
    ],
)
def test_the_region_is_the_streams(options: dict[str, str], region: str | None) -> None:
    assert parsed(**options).region == region


def test_a_key_and_its_secret_go_together_and_the_secret_is_not_shown() -> None:
    with pytest.raises(InvalidOption, match="go together"):
        parsed(awsAccessKeyId="AKIA")
    options = parsed(awsAccessKeyId="AKIA", awsSecretKey="hunter2", sessionToken="hunter3")
    assert (options.secret_key, options.session_token) == ("hunter2", "hunter3")
    assert "hunter" not in repr(options)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("100", 0.1), ("100ms", 0.1), ("2s", 2), ("2min", 120), ("2m", 120), ("1h", 3600), ("1d", 86400)],
)  # fmt: skip
def test_durations_are_spelled_as_spark_spells_them(text: str, seconds: float) -> None:
    assert parsed(describeShardInterval=text).describe_interval_s == seconds


def test_the_sink_leaves_options_of_a_streaming_write_to_spark() -> None:
    """Spark 4 hands on queryName(..) as an option, so that a named query's sink gets it."""
    own = {"checkpointLocation": "/tmp/c", "path": "/tmp/p", "queryname": "late"}
    assert parse_sink_options({"kinesis.streamName": "s", **own}).stream == "s"
