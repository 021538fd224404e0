"""CreateStream."""

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.kinesis import CreateStreamInput
from headrace.services.kinesis.errors import in_use, invalid_argument, limit_exceeded
from headrace.services.kinesis.limits import ON_DEMAND_SHARDS, SHARD_QUOTA
from headrace.services.kinesis.service import Kinesis
from headrace.services.kinesis.state import Shard, Stream, StreamMode, even_ranges
from headrace.services.kinesis.tagging import check_tags


@operation("CreateStream")
def create_stream(kinesis: Kinesis, call: Call, request: CreateStreamInput) -> None:
    """Make a stream; it is ACTIVE at once. Source: API_CreateStream."""
    name = request["StreamName"]
    mode = _mode(request)
    count = _shard_count(request, mode)
    tags = request.get("Tags", {})
    check_tags({}, tags)
    if request.get("RecordDistributionStrategy") not in (None, "USER_PARTITION_KEY"):
        raise invalid_argument("headrace distributes records by partition key only.")
    with kinesis.lock:
        if (call.account, call.region, name) in kinesis.streams:
            raise in_use(f"Stream {name} under account {call.account} already exists.")
        check_shard_quota(kinesis, call, count)
        stream = Stream(
            name=name,
            account=call.account,
            region=call.region,
            stream_id=kinesis.ids.hex(32),
            created_ms=call.now_ms,
            mode=mode,
            max_record_bytes=request.get("MaxRecordSizeInKiB", 1024) * 1024,
            tags=dict(tags),
        )
        stream.shards = [
            Shard(
                number=number,
                starting_hash_key=start,
                ending_hash_key=end,
                created_ms=call.now_ms,
                created_s=call.now_ms // 1000,
            )
            for number, (start, end) in enumerate(even_ranges(count))
        ]
        kinesis.add(stream)


def _mode(request: CreateStreamInput) -> StreamMode:
    mode = request.get("StreamModeDetails", {}).get("StreamMode", "PROVISIONED")
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


def check_shard_quota(kinesis: Kinesis, call: Call, more: int) -> None:
    """Raise LimitExceededException when `more` provisioned shards would be too many."""
    current = sum(
        len(stream.open_shards)
        for stream in kinesis.streams.values()
        if (stream.account, stream.region) == (call.account, call.region)
        and stream.mode == "PROVISIONED"
    )
    if current + more > SHARD_QUOTA:
        raise limit_exceeded(
            f"This request would exceed the shard limit for the account {call.account} in {call.region}."
            f" Current shard count for the account: {current}. Limit: {SHARD_QUOTA}."
            f" Number of additional shards that would have resulted from this request: {more}."
            " Refer to the AWS Service Limits page"
            " (https://docs.aws.amazon.com/general/latest/gr/aws_service_limits.html) for current limits and how to"
            " request higher limits."
        )
