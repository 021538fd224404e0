"""CreateStream, DeleteStream and ListStreams."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    CreateStreamInput,
    DeleteStreamInput,
    ListStreamsInput,
    ListStreamsOutput,
)
from headrace.services.kinesis.actions.describe_stream import creation_time
from headrace.services.kinesis.actions.stream_settings import (
    check_warm_throughput,
    distribution_of,
    warm_shards,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import in_use, invalid_argument, limit_exceeded, not_active
from headrace.services.kinesis.limits import (
    LIST_STREAMS_DEFAULT,
    ON_DEMAND_SHARDS,
    STREAMS_CREATING,
)
from headrace.services.kinesis.quotas import check_on_demand_quota, check_shard_quota
from headrace.services.kinesis.state import Shard, Stream, StreamMode, even_ranges
from headrace.services.kinesis.tagging import check_tags


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
                "StreamCreationTimestamp": creation_time(stream),
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
    kinesis.remove_deleted()
    with kinesis.lock:
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
            stream_id=kinesis.ids.hex(32),
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
        stream.shards = _shards(count, call.now_ms)
        kinesis.add(stream)


def _check_creating(kinesis: Kinesis, call: Call) -> None:
    if not kinesis.state_delay_ms:
        return
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


def _shards(count: int, now_ms: int) -> list[Shard]:
    return [
        Shard(
            number=number,
            starting_hash_key=start,
            ending_hash_key=end,
            created_ms=now_ms,
            created_s=now_ms // 1000,
        )
        for number, (start, end) in enumerate(even_ranges(count))
    ]


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
