"""AWS's throughput quotas of direct puts, for a cloud that is started with `limits=aws`.

A limit per second may be saved up for one second; nothing waits here. Kept in memory only. Thread-safe.

Source: docs.aws.amazon.com/firehose/latest/dev/limits.html (documented); the code and sentence of a record that is
refused: github.com/boto/boto3/issues/2804 (observed). That of a request over the requests' quota every record is
refused, and that a second's worth can be saved, is assumed. A partition's 1 GB/s is not held: nothing here comes near.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.aws.errors import AwsError
from headrace.aws.operation import Action, Call, operation_name
from headrace.core.rates import Bucket
from headrace.services.firehose.state import DeliveryStream

MIB: Final = 1024 * 1024
THROTTLED: Final = "ServiceUnavailableException"
SLOW_DOWN: Final = "Slow down."
# Of each operation but the puts, an account and region (documented: a hard limit).
CALLS_PER_S: Final = 5
_PUTS: Final = ("PutRecord", "PutRecordBatch")
_LARGE_REGIONS: Final = ("us-east-1", "us-west-2", "eu-west-1")


@dataclass(frozen=True, slots=True)
class Quota:
    """What a delivery stream takes a second."""

    records: int
    requests: int
    size_bytes: int


_LARGE = Quota(500_000, 2_000, 5 * MIB)
_USUAL = Quota(100_000, 1_000, MIB)


def quota_of(region: str) -> Quota:
    """Return the default quota of a region's delivery streams."""
    return _LARGE if region in _LARGE_REGIONS else _USUAL


class _Limits:
    def __init__(self, quota: Quota, now_ms: int) -> None:
        self.records = Bucket(quota.records, now_ms)
        self.requests = Bucket(quota.requests, now_ms)
        self.size = Bucket(quota.size_bytes, now_ms)


class Throttle:
    """The quotas of all delivery streams, and the rates of calls. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, _Limits] = {}
        self._calls: dict[tuple[str, str, str], Bucket] = {}

    def admit(self, stream: DeliveryStream, sizes: Sequence[int], now_ms: int) -> list[bool]:
        """Return for each record of a request, given by its bytes, whether it is taken; count those that are."""
        with self._lock:
            limits = self._streams.get(stream.stream_id)
            if limits is None:
                limits = self._streams[stream.stream_id] = _Limits(quota_of(stream.region), now_ms)
            if not limits.requests.has(1, now_ms):
                return [False] * len(sizes)
            limits.requests.take(1)
            admitted: list[bool] = []
            for size_bytes in sizes:
                passes = limits.records.has(1, now_ms) and limits.size.has(size_bytes, now_ms)
                if passes:
                    limits.records.take(1)
                    limits.size.take(size_bytes)
                admitted.append(passes)
            return admitted

    def forget(self, stream: DeliveryStream) -> None:
        """Drop what is known of a delivery stream that is deleted."""
        with self._lock:
            self._streams.pop(stream.stream_id, None)

    def check_call(self, operation: str, call: Call) -> None:
        """Count a call of an operation that is no put. Raises AwsError when there are too many."""
        with self._lock:
            key = (operation, call.account, call.region)
            bucket = self._calls.setdefault(key, Bucket(CALLS_PER_S, call.now_ms))
            if bucket.has(1, call.now_ms):
                bucket.take(1)
                return
        raise AwsError("LimitExceededException", "Rate exceeded.")  # as faults on demand say it


def slow_down() -> AwsError:
    """Return AWS's refusal of a put over a quota."""
    return AwsError(THROTTLED, SLOW_DOWN, 503)


def rated(action: Action, throttle: Throttle) -> Action:
    """Return an action with its rate of calls checked first; puts have their own quotas."""
    operation = operation_name(action)
    if operation in _PUTS:
        return action

    @functools.wraps(action)
    def run(firehose: Any, call: Call, request: Any) -> Any:
        throttle.check_call(operation, call)
        return action(firehose, call, request)

    return run
