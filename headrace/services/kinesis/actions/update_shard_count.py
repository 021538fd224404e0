"""UpdateShardCount: uniform scaling with splits and merges."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import UpdateShardCountInput, UpdateShardCountOutput
from headrace.services.kinesis.actions.split_shard import check_provisioned
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import SHARD_COUNT_UPDATES_PER_DAY
from headrace.services.kinesis.quotas import check_shard_quota, use_daily
from headrace.services.kinesis.shards.equal_ranges import plan_shard_count
from headrace.services.kinesis.shards.reshard import reshard


@operation("UpdateShardCount")
def update_shard_count(
    kinesis: Kinesis, call: Call, request: UpdateShardCountInput
) -> UpdateShardCountOutput:
    """Scale a stream to the requested number of shards. Source: API_UpdateShardCount."""
    target = request["TargetShardCount"]
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        check_provisioned(stream)
        current = len(stream.open_shards)
        if target > current * 2:
            raise invalid_argument(
                "UpdateShardCount cannot scale up over double your current open shard count."
                f" Current open shard count: {current} Target shard count: {target}"
            )
        if target < current / 2:
            raise invalid_argument(
                "UpdateShardCount cannot scale down below half your current open shard count."
                f" Current open shard count: {current} Target shard count: {target}"
            )
        check_shard_quota(kinesis, call, max(0, target - current))
        use_daily(stream, "UpdateShardCount", SHARD_COUNT_UPDATES_PER_DAY, call.now_ms)
        ranges = [(shard.starting_hash_key, shard.ending_hash_key) for shard in stream.open_shards]
        reshard(kinesis, stream, plan_shard_count(ranges, target), call.now_ms)
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "CurrentShardCount": current,
        "TargetShardCount": target,
    }
