"""DescribeStream and DescribeStreamSummary."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    DescribeStreamInput,
    DescribeStreamOutput,
    DescribeStreamSummaryInput,
    DescribeStreamSummaryOutput,
    SequenceNumberRange,
    StreamDescription,
    StreamDescriptionSummary,
)
from headrace.aws.shapes.kinesis import Shard as ShardShape
from headrace.services.kinesis.actions.stream_settings import warm_throughput
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.limits import DESCRIBE_STREAM_DEFAULT
from headrace.services.kinesis.state import Shard, Stream


def shard_description(shard: Shard) -> ShardShape:
    """Return AWS's Shard structure."""
    numbers: SequenceNumberRange = {"StartingSequenceNumber": shard.starting_sequence_number}
    ending = shard.ending_sequence_number
    if ending is not None:
        numbers["EndingSequenceNumber"] = ending
    value: ShardShape = {
        "ShardId": shard.shard_id,
        "HashKeyRange": {
            "StartingHashKey": str(shard.starting_hash_key),
            "EndingHashKey": str(shard.ending_hash_key),
        },
        "SequenceNumberRange": numbers,
    }
    if shard.parent:
        value["ParentShardId"] = shard.parent
    if shard.adjacent_parent:
        value["AdjacentParentShardId"] = shard.adjacent_parent
    return value


def creation_time(stream: Stream) -> datetime:
    """Return the stream's creation time in whole seconds, as AWS does."""
    return datetime.fromtimestamp(stream.created_ms // 1000, UTC)


def _common(stream: Stream, now_ms: int) -> Any:
    """Return the members that StreamDescription and StreamDescriptionSummary share."""
    value: dict[str, Any] = {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "StreamStatus": stream.status(now_ms),
        "StreamModeDetails": {"StreamMode": stream.mode},
        "RetentionPeriodHours": stream.retention_hours,
        "StreamCreationTimestamp": creation_time(stream),
        "EnhancedMonitoring": [{"ShardLevelMetrics": list(stream.enhanced_metrics)}],
        "EncryptionType": stream.encryption_type,
    }
    if stream.key_id:
        value["KeyId"] = stream.key_id
    return value


@operation("DescribeStream")
def describe_stream(
    kinesis: Kinesis, call: Call, request: DescribeStreamInput
) -> DescribeStreamOutput:
    """Return a stream with a page of its shards. Source: API_DescribeStream."""
    stream = kinesis.find(call.account, call.region, request)
    limit = min(request.get("Limit", DESCRIBE_STREAM_DEFAULT), DESCRIBE_STREAM_DEFAULT)
    after = request.get("ExclusiveStartShardId", "")
    shards = [shard for shard in stream.shards if shard.shard_id > after]
    if stream.status(call.now_ms) == "CREATING":
        shards = []
    description: StreamDescription = _common(stream, call.now_ms)
    description["Shards"] = [shard_description(shard) for shard in shards[:limit]]
    description["HasMoreShards"] = len(shards) > limit
    return {"StreamDescription": description}


@operation("DescribeStreamSummary")
def describe_stream_summary(
    kinesis: Kinesis, call: Call, request: DescribeStreamSummaryInput
) -> DescribeStreamSummaryOutput:
    """Return a stream without its shards. Source: API_DescribeStreamSummary."""
    stream = kinesis.find(call.account, call.region, request)
    summary: StreamDescriptionSummary = _common(stream, call.now_ms)
    summary["OpenShardCount"] = len(stream.open_shards)
    summary["StreamId"] = stream.public_id
    summary["ConsumerCount"] = len(kinesis.consumers.of_stream(stream, call.now_ms))
    summary["ChannelCount"] = len(kinesis.channels.of_stream(stream, call.now_ms))
    summary["QueueCount"] = len(kinesis.queues.of_stream(stream, call.now_ms))
    summary["MaxRecordSizeInKiB"] = stream.max_record_bytes // 1024
    if stream.warm_throughput_mibps is not None:
        summary["WarmThroughput"] = warm_throughput(stream)
    if stream.mode == "ON_DEMAND":
        summary["RecordDistributionStrategy"] = stream.distribution
    return {"StreamDescriptionSummary": summary}


def matches_filter(stream: Stream, one: Mapping[str, Any]) -> bool:
    """Return whether a StreamFilter of a list of queues or channels names a stream."""
    at: datetime | None = one.get("StreamCreationTimestamp")
    # Responses show a stream's creation time in whole seconds.
    return stream.arn == one["StreamARN"] and (
        at is None or int(at.timestamp()) == stream.created_ms // 1000
    )
