"""DescribeLimits."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import DescribeLimitsInput, DescribeLimitsOutput
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.limits import (
    CHANNELS_PER_STREAM,
    ON_DEMAND_STREAM_QUOTA,
    SHARD_QUOTA,
)


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
