"""Checks the quotas: the shards and streams of an account, and the changes of a stream in a day."""

from __future__ import annotations

from headrace.aws.calls.operation import Call
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import limit_exceeded
from headrace.services.kinesis.limits import (
    CONSUMERS_PER_ADVANTAGE_STREAM,
    CONSUMERS_PER_STREAM,
    DAY_MS,
    ON_DEMAND_STREAM_QUOTA,
    SHARD_QUOTA,
)
from headrace.services.kinesis.state import Stream


def use_daily(stream: Stream, quota: str, limit: int, now_ms: int) -> None:
    """Count one call of an operation with a daily quota. The caller saves the stream. Raises LimitExceededException."""
    used = [at_ms for at_ms in stream.used_ms.get(quota, []) if now_ms - at_ms < DAY_MS]
    if len(used) >= limit:
        raise limit_exceeded(
            f"{quota} can be called {limit} times in a rolling 24-hour period for stream {stream.name}"
            f" under account {stream.account}."
        )
    stream.used_ms[quota] = [*used, now_ms]


def check_on_demand_quota(kinesis: Kinesis, call: Call) -> None:
    """Raise LimitExceededException when one more on-demand stream would exceed the quota."""
    current = sum(
        stream.mode == "ON_DEMAND"
        for stream in list(kinesis.streams.values())
        if (stream.account, stream.region) == (call.account, call.region)
    )
    if current >= ON_DEMAND_STREAM_QUOTA:
        raise limit_exceeded(
            f"This request would exceed the on-demand stream limit for the account {call.account} in {call.region}."
            f" Current on-demand stream count for the account: {current}. Limit: {ON_DEMAND_STREAM_QUOTA}."
        )


def consumer_quota(kinesis: Kinesis, stream: Stream, now_ms: int) -> int:
    """Return how many consumers a stream may have; its queues count too (queues-quotas.html)."""
    advantage = stream.mode == "ON_DEMAND" and kinesis.account_settings.is_committed(
        stream.account, stream.region, now_ms
    )
    return CONSUMERS_PER_ADVANTAGE_STREAM if advantage else CONSUMERS_PER_STREAM


def check_shard_quota(kinesis: Kinesis, call: Call, more: int) -> None:
    """Raise LimitExceededException when `more` provisioned shards would exceed the quota."""
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
