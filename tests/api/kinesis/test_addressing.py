"""Every operation on a stream finds it by name, by ARN and by id, and refuses names that disagree."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.session import get_session

from tests.api.kinesis.streams import Streams, arn_of
from tests.support.cloud import ACCOUNT

MODEL = get_session().get_service_model("kinesis")
DATA = {"Data": "YQ==", "PartitionKey": "k"}
# What each operation needs besides the stream.
NEEDED: dict[str, dict[str, Any]] = {
    "AddTagsToStream": {"Tags": {"a": "1"}},
    "DecreaseStreamRetentionPeriod": {"RetentionPeriodHours": 24},
    "DeleteStream": {},
    "DescribeStream": {},
    "DescribeStreamSummary": {},
    "DisableEnhancedMonitoring": {"ShardLevelMetrics": ["ALL"]},
    "EnableEnhancedMonitoring": {"ShardLevelMetrics": ["ALL"]},
    "GetShardIterator": {"ShardId": "shardId-000000000000", "ShardIteratorType": "LATEST"},
    "IncreaseStreamRetentionPeriod": {"RetentionPeriodHours": 24},
    "ListShards": {},
    "ListTagsForStream": {},
    "MergeShards": {"ShardToMerge": "0", "AdjacentShardToMerge": "1"},
    "PutRecord": DATA,
    "PutRecords": {"Records": [DATA]},
    "RemoveTagsFromStream": {"TagKeys": ["a"]},
    "SplitShard": {"ShardToSplit": "0", "NewStartingHashKey": str(1 << 120)},
    "StartStreamEncryption": {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"},
    "StopStreamEncryption": {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"},
    "UpdateMaxRecordSize": {"MaxRecordSizeInKiB": 2048},
    "UpdateShardCount": {"TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING"},
    "UpdateStreamMode": {"StreamModeDetails": {"StreamMode": "PROVISIONED"}},
    "ListStreamConsumers": {},
    "RegisterStreamConsumer": {"ConsumerName": "c"},
}


def members(operation: str) -> set[str]:
    shape = MODEL.operation_model(operation).input_shape
    assert shape is not None
    return set(shape.members)


ADDRESSES = ("StreamName", "StreamARN", "StreamId")


def ways() -> list[tuple[str, str]]:
    """Return every (operation, member) where the member alone names the stream."""
    found: list[tuple[str, str]] = []
    for operation in sorted(NEEDED):
        shape = MODEL.operation_model(operation).input_shape
        assert shape is not None
        demanded = set(shape.required_members) & set(ADDRESSES)
        given = [by for by in ADDRESSES if by in shape.members]
        found += [(operation, by) for by in given if demanded <= {by}]
    return found


@pytest.mark.parametrize(("operation", "by"), ways())
def test_a_stream_is_found(streams: Streams, operation: str, by: str):
    streams.create(shards=2)
    summary = streams.kinesis.describe_stream_summary(StreamName="flights")
    addresses: dict[str, Any] = {
        "StreamName": "flights",
        "StreamARN": arn_of("flights"),
        "StreamId": summary["StreamDescriptionSummary"]["StreamId"],
    }
    status, answer = streams.raw(operation, {by: addresses[by], **NEEDED[operation]})
    assert status == 200, answer


@pytest.mark.parametrize("operation", sorted(NEEDED))
def test_names_that_disagree_are_refused(streams: Streams, operation: str):
    streams.create(shards=2)
    streams.create("other", shards=2)
    summary = streams.kinesis.describe_stream_summary(StreamName="other")
    given = {
        "StreamARN": arn_of("flights"),
        "StreamId": summary["StreamDescriptionSummary"]["StreamId"],
    }
    status, answer = streams.raw(operation, {**given, **NEEDED[operation]})
    assert (status, answer["__type"]) == (400, "InvalidArgumentException")
    if "StreamName" in members(operation):
        given = {"StreamARN": arn_of("flights"), "StreamName": "other"}
        status, answer = streams.raw(operation, {**given, **NEEDED[operation]})
        assert (status, answer["__type"]) == (400, "InvalidArgumentException")


@pytest.mark.parametrize("operation", sorted(NEEDED))
def test_a_stream_that_is_not_there(streams: Streams, operation: str):
    status, answer = streams.raw(operation, {"StreamARN": arn_of("nowhere"), **NEEDED[operation]})
    assert (status, answer["__type"]) == (400, "ResourceNotFoundException")
    sentences = {
        "GetShardIterator": "Shard shardId-000000000000 in stream nowhere"
        f" under account {ACCOUNT} does not exist"
    }
    wanted = sentences.get(operation, f"Stream nowhere under account {ACCOUNT} not found.")
    assert answer["message"] == wanted


def test_get_records_wants_the_iterators_own_stream(streams: Streams):
    streams.create()
    streams.create("other")
    iterator = streams.iterator()
    for name, wanted in (("flights", 200), ("other", 400), ("nowhere", 400)):
        status, _ = streams.raw(
            "GetRecords", {"ShardIterator": iterator, "StreamARN": arn_of(name)}
        )
        assert status == wanted, name


def test_every_operation_of_the_model_is_built():
    from headrace.services.kinesis.actions import ACTIONS

    built = {action.__headrace_operation__ for action in ACTIONS}
    assert set(MODEL.operation_names) == built
