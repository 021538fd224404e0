"""DescribeAccountSettings and UpdateAccountSettings.

DescribeLimits.
"""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    DescribeAccountSettingsInput,
    DescribeAccountSettingsOutput,
    DescribeLimitsInput,
    DescribeLimitsOutput,
    MinimumThroughputBillingCommitmentOutput,
    UpdateAccountSettingsInput,
    UpdateAccountSettingsOutput,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.limits import (
    CHANNELS_PER_STREAM,
    ON_DEMAND_STREAM_QUOTA,
    SHARD_QUOTA,
)
from headrace.services.kinesis.state import Commitment


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
    return {"MinimumThroughputBillingCommitment": _shown(commitment, call.now_ms)}


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
    return {"MinimumThroughputBillingCommitment": _shown(commitment, call.now_ms)}


def _shown(commitment: Commitment, now_ms: int) -> MinimumThroughputBillingCommitmentOutput:
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
