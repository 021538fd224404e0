"""UpdateStreamWarmThroughput, and the checks of a warm throughput, which CreateStream and UpdateStreamMode share."""

from headrace.aws.calls.errors import validation_error
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    UpdateStreamWarmThroughputInput,
    UpdateStreamWarmThroughputOutput,
    WarmThroughputObject,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument, limit_exceeded
from headrace.services.kinesis.limits import ON_DEMAND_SHARDS, WARM_THROUGHPUT_MIBPS
from headrace.services.kinesis.shards.equal_ranges import plan_equal_ranges
from headrace.services.kinesis.shards.reshard import reshard
from headrace.services.kinesis.state import Stream


@operation("UpdateStreamWarmThroughput")
def update_stream_warm_throughput(
    kinesis: Kinesis, call: Call, request: UpdateStreamWarmThroughputInput
) -> UpdateStreamWarmThroughputOutput:
    """Scale an on-demand stream before its traffic rises. Source: API_UpdateStreamWarmThroughput."""
    target = request["WarmThroughputMiBps"]
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        check_warm_throughput(kinesis, call, stream.mode, target)
        scale(kinesis, stream, target, call.now_ms)
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "WarmThroughput": warm_throughput(stream),
    }


def check_warm_throughput(kinesis: Kinesis, call: Call, mode: str, target_mibps: int) -> None:
    """Raise AwsError when a stream of this mode, or the account, may not have this warm throughput."""
    if mode != "ON_DEMAND":
        raise invalid_argument(
            "WarmThroughputMiBps is not supported for streams in provisioned mode."
        )
    if not kinesis.account_settings.is_committed(call.account, call.region, call.now_ms):
        raise validation_error(
            "Warm throughput is supported only in accounts that have MinimumThroughputBillingCommitment enabled."
        )
    if target_mibps > WARM_THROUGHPUT_MIBPS:
        raise limit_exceeded(
            f"WarmThroughputMiBps {target_mibps} is more than the limit of {WARM_THROUGHPUT_MIBPS}."
        )


def scale(kinesis: Kinesis, stream: Stream, target_mibps: int, now_ms: int) -> None:
    """Split an on-demand stream until it has the shards for a warm throughput. The caller holds the service's lock."""
    shards = warm_shards(target_mibps)
    stream.warm_throughput_mibps = target_mibps
    if shards == len(stream.open_shards):
        kinesis.update(stream, now_ms)
        return
    ranges = [(shard.starting_hash_key, shard.ending_hash_key) for shard in stream.open_shards]
    reshard(kinesis, stream, plan_equal_ranges(ranges, shards), now_ms)


def warm_shards(target_mibps: int) -> int:
    """Return how many shards a warm throughput needs: one for each MiB/s, and at least as many as a new stream has."""
    return max(ON_DEMAND_SHARDS, target_mibps)


def warm_throughput(stream: Stream) -> WarmThroughputObject:
    """Return AWS's WarmThroughputObject."""
    return {
        "TargetMiBps": stream.warm_throughput_mibps or 0,
        "CurrentMiBps": len(stream.open_shards),
    }
