"""Options in the spelling of EMR's connector."""

from __future__ import annotations

import json

import pytest

from headrace.spark.offsets import AtSequenceNumber, AtTimestamp, Latest, PerShard, TrimHorizon
from headrace.spark.options import InvalidOption, parse_options


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
    assert parsed(startingPosition=json.dumps(given)).init == PerShard(
        (
            ("shardId-0", AtSequenceNumber("48")),
            ("shardId-1", AtSequenceNumber("49", after=True)),
        ),
        Latest(),
    )
    assert parsed(startingPosition='{"shardId-0": "LATEST"}').init == PerShard(
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
        ("consumerType", "SubscribeToShard"),
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
