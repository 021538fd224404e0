"""Quotas of a rolling day: how often a stream may be changed."""

from __future__ import annotations

from headrace.services.kinesis.errors import limit_exceeded
from headrace.services.kinesis.limits import DAY_MS
from headrace.services.kinesis.state import Stream


def use_daily(stream: Stream, quota: str, limit: int, now_ms: int) -> None:
    """Count one use of an operation; stored when the stream next is. Raises LimitExceededException."""
    used = [at_ms for at_ms in stream.used_ms.get(quota, []) if now_ms - at_ms < DAY_MS]
    if len(used) >= limit:
        raise limit_exceeded(
            f"{quota} can be called {limit} times in a rolling 24-hour period for stream {stream.name}"
            f" under account {stream.account}."
        )
    stream.used_ms[quota] = [*used, now_ms]
