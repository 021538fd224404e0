"""Streams: create, delete, list, describe; the account's settings and limits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    CreateStreamInput,
    DeleteStreamInput,
    DescribeAccountSettingsInput,
    DescribeAccountSettingsOutput,
    DescribeLimitsInput,
    DescribeLimitsOutput,
    DescribeStreamInput,
    DescribeStreamOutput,
    DescribeStreamSummaryInput,
    DescribeStreamSummaryOutput,
    ListStreamsInput,
    ListStreamsOutput,
    MinimumThroughputBillingCommitmentOutput,
    SequenceNumberRange,
    StreamDescription,
    StreamDescriptionSummary,
    UpdateAccountSettingsInput,
    UpdateAccountSettingsOutput,
)
from headrace.aws.shapes.kinesis import Shard as ShardShape
from headrace.services.kinesis.actions.resources import check_tags
from headrace.services.kinesis.actions.stream_settings import (
    check_warm_throughput,
    distribution_of,
    warm_shards,
    warm_throughput,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import (
    CHANNELS_PER_STREAM,
    DESCRIBE_STREAM_DEFAULT,
    LIST_STREAMS_DEFAULT,
    ON_DEMAND_SHARDS,
    ON_DEMAND_STREAM_QUOTA,
    SHARD_QUOTA,
    STREAMS_CREATING,
    in_use,
    invalid_argument,
    limit_exceeded,
    not_active,
)
from headrace.services.kinesis.resharding import check_on_demand_quota, check_shard_quota
from headrace.services.kinesis.state import Commitment, Shard, Stream, StreamMode, even_shards


@operation("DescribeLimits")
def describe_limits(
    kinesis: Kinesis, call: Call, request: DescribeLimitsInput
) -> DescribeLimitsOutput:
    """Return the account's quotas and use. Source: API_DescribeLimits."""
    kinesis.remove_deleted()
    streams = [
        stream
        for (account, region, _), stream in list(kinesis.streams.items())
        if (account, region) == (call.account, call.region)
    ]
    return {
        "ShardLimit": SHARD_QUOTA,
        "OpenShardCount": sum(len(s.open_shards) for s in streams if s.mode == "PROVISIONED"),
        "OnDemandStreamCount": sum(s.mode == "ON_DEMAND" for s in streams),
        "OnDemandStreamCountLimit": ON_DEMAND_STREAM_QUOTA,
        "ChannelCount": len(kinesis.channels.listed(call.account, call.region, call.now_ms)),
        # Documented: bounded by the number of on-demand streams, each of which has at most two.
        "ChannelCountLimit": ON_DEMAND_STREAM_QUOTA * CHANNELS_PER_STREAM,
    }


@operation("DescribeAccountSettings")
def describe_account_settings(
    kinesis: Kinesis, call: Call, request: DescribeAccountSettingsInput
) -> DescribeAccountSettingsOutput:
    """Return the account's settings. Source: API_DescribeAccountSettings."""
    commitment = kinesis.account_settings.commitment(call.account, call.region)
    return {"MinimumThroughputBillingCommitment": _describe_commitment(commitment, call.now_ms)}


@operation("UpdateAccountSettings")
def update_account_settings(
    kinesis: Kinesis, call: Call, request: UpdateAccountSettingsInput
) -> UpdateAccountSettingsOutput:
    """Begin or end the billing commitment. Source: API_UpdateAccountSettings."""
    enable = request["MinimumThroughputBillingCommitment"]["Status"] == "ENABLED"
    with kinesis.lock:
        settings = kinesis.account_settings
        commitment = settings.commitment(call.account, call.region)
        status = commitment.status(call.now_ms)
        if enable and status == "DISABLED":
            commitment = Commitment(call.now_ms, None)
        elif enable:
            commitment = Commitment(commitment.started_ms, None)
        elif status == "ENABLED":
            ends_ms = max(call.now_ms, commitment.earliest_end_ms)
            commitment = Commitment(commitment.started_ms, ends_ms)
        settings.set(call.account, call.region, commitment)
    return {"MinimumThroughputBillingCommitment": _describe_commitment(commitment, call.now_ms)}


def _describe_commitment(
    commitment: Commitment, now_ms: int
) -> MinimumThroughputBillingCommitmentOutput:
    status = commitment.status(now_ms)
    shown: MinimumThroughputBillingCommitmentOutput = {"Status": status}
    if commitment.started_ms:
        shown["StartedAt"] = _time(commitment.started_ms)
        if status == "DISABLED" and commitment.ends_ms is not None:
            shown["EndedAt"] = _time(commitment.ends_ms)
        else:
            shown["EarliestAllowedEndAt"] = _time(commitment.earliest_end_ms)
    return shown


def _time(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms // 1000, UTC)


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


def _common(stream: Stream, now_ms: int) -> Any:
    """Return the members that StreamDescription and StreamDescriptionSummary share."""
    value: dict[str, Any] = {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "StreamStatus": stream.status(now_ms),
        "StreamModeDetails": {"StreamMode": stream.mode},
        "RetentionPeriodHours": stream.retention_hours,
        "StreamCreationTimestamp": stream.created_at,
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


@operation("ListStreams")
def list_streams(kinesis: Kinesis, call: Call, request: ListStreamsInput) -> ListStreamsOutput:
    """Return a page of the account's streams, sorted by name. Source: API_ListStreams."""
    kinesis.remove_deleted()
    after = request.get("ExclusiveStartStreamName", "")
    token = request.get("NextToken")
    if token is not None and after:
        raise invalid_argument(
            "NextToken and ExclusiveStartStreamName cannot be provided together."
        )
    page, next_token = kinesis.tokens.cut_page(
        "ListStreams",
        [
            stream
            for (account, region, _), stream in list(kinesis.streams.items())
            if (account, region) == (call.account, call.region)
        ],
        lambda stream: stream.name,
        token=token,
        limit=min(request.get("Limit", LIST_STREAMS_DEFAULT), LIST_STREAMS_DEFAULT),
        now_ms=call.now_ms,
        after=after,
    )
    answer: ListStreamsOutput = {
        "StreamNames": [stream.name for stream in page],
        "HasMoreStreams": next_token is not None,
        "StreamSummaries": [
            {
                "StreamName": stream.name,
                "StreamARN": stream.arn,
                "StreamStatus": stream.status(call.now_ms),
                "StreamModeDetails": {"StreamMode": stream.mode},
                "StreamCreationTimestamp": stream.created_at,
            }
            for stream in page
        ],
    }
    if next_token is not None:
        answer["NextToken"] = next_token
    return answer


@operation("DeleteStream")
def delete_stream(kinesis: Kinesis, call: Call, request: DeleteStreamInput) -> None:
    """Delete a stream, its records and, with EnforceConsumerDeletion, its consumers. Source: API_DeleteStream."""
    with kinesis.lock:
        stream = kinesis.find(call.account, call.region, request)
        status = stream.status(call.now_ms)
        if status in ("CREATING", "DELETING"):
            raise not_active(stream.name, stream.account, status)
        queues = kinesis.queues.of_stream(stream, call.now_ms)
        if queues:
            # The sentence is assumed.
            raise in_use(
                f"Stream {stream.name} under account {stream.account} has {len(queues)} queues. Delete them first."
            )
        channels = kinesis.channels.of_stream(stream, call.now_ms)
        if channels:
            # Documented at DeleteChannel; code and sentence are assumed.
            raise in_use(
                f"Stream {stream.name} under account {stream.account} has {len(channels)} channels. Delete them first."
            )
        consumers = kinesis.consumers.of_stream(stream, call.now_ms)
        if consumers and not request.get("EnforceConsumerDeletion", False):
            raise in_use(
                f"Stream {stream.name} under account {stream.account} has {len(consumers)} registered consumers."
                " Deregister them, or set EnforceConsumerDeletion."
            )
        kinesis.delete(stream, call.now_ms)


@operation("CreateStream")
def create_stream(kinesis: Kinesis, call: Call, request: CreateStreamInput) -> None:
    """Make a stream; it is ACTIVE at once, unless delays are configured. Source: API_CreateStream."""
    name = request["StreamName"]
    mode = _mode(request)
    count = _shard_count(request, mode)
    warm = request.get("WarmThroughputMiBps")
    tags = request.get("Tags", {})
    check_tags({}, tags, name, call.account, "stream")
    distribution = distribution_of(mode, request.get("RecordDistributionStrategy"))
    stream_id = kinesis.ids.hex(32)
    kinesis.remove_deleted()
    with kinesis.lock:
        if kinesis.state_delay_ms:
            _check_creating(kinesis, call)
        if (call.account, call.region, name) in kinesis.streams:
            raise in_use(f"Stream {name} under account {call.account} already exists.")
        if mode == "ON_DEMAND":
            check_on_demand_quota(kinesis, call)
        else:
            check_shard_quota(kinesis, call, count)
        if warm is not None:
            check_warm_throughput(kinesis, call, mode, warm)
            count = warm_shards(warm)
        stream = Stream(
            name=name,
            account=call.account,
            region=call.region,
            stream_id=stream_id,
            created_ms=call.now_ms,
            mode=mode,
            max_record_bytes=request.get("MaxRecordSizeInKiB", 1024) * 1024,
            warm_throughput_mibps=warm,
            distribution=distribution,
            tags=dict(tags),
        )
        if kinesis.state_delay_ms:
            stream.latest_status, stream.settles_ms = (
                "CREATING",
                call.now_ms + kinesis.state_delay_ms,
            )
        stream.shards = even_shards(count, call.now_ms)
        kinesis.add(stream)


def _check_creating(kinesis: Kinesis, call: Call) -> None:
    creating = sum(
        stream.status(call.now_ms) == "CREATING"
        for stream in kinesis.streams.values()
        if (stream.account, stream.region) == (call.account, call.region)
    )
    if creating >= STREAMS_CREATING:
        raise limit_exceeded(
            f"No more than {STREAMS_CREATING} streams can be in CREATING state at the same time"
            f" under account {call.account}."
        )


def _mode(request: CreateStreamInput) -> StreamMode:
    # Observed in 2022: CreateStream with a name alone makes four shards, as many as a new on-demand stream has.
    default = "PROVISIONED" if "ShardCount" in request else "ON_DEMAND"
    mode = request.get("StreamModeDetails", {}).get("StreamMode", default)
    return "ON_DEMAND" if mode == "ON_DEMAND" else "PROVISIONED"


def _shard_count(request: CreateStreamInput, mode: StreamMode) -> int:
    count = request.get("ShardCount")
    if mode == "ON_DEMAND":
        if count is not None:
            raise invalid_argument("ShardCount is not supported for streams in on-demand mode.")
        return ON_DEMAND_SHARDS
    if count is None:
        raise invalid_argument("ShardCount must be specified for streams in provisioned mode.")
    return count
