"""Firehose's errors, with AWS's codes and sentences.

Quotas of Amazon Data Firehose.

Source: docs.aws.amazon.com/firehose/latest/dev/limits.html (documented, read 2026).

AWS's quotas of Firehose, for a cloud with `limits=aws`: the throughput of direct puts, call rates, and counts.

A caller can save up one second's worth of a limit. No call waits. The counts are in memory only. Thread-safe.

Source: docs.aws.amazon.com/firehose/latest/dev/limits.html (documented); the code and sentence of a record that is
refused: github.com/boto/boto3/issues/2804 (observed). Assumed: every record of a request over the request quota is
refused, and a second's worth can be saved up. A partition's 1 GB/s is not enforced: headrace is slower than that. The
numbers of delivery streams, of encryption changes and of streams per key: API_CreateDeliveryStream,
API_StartDeliveryStreamEncryption, API_DeliveryStreamEncryptionConfigurationInput (documented). The first one's
sentence is observed by others; the other two are assumed.

Checks the buffering hints of destinations and of the Lambda processor against AWS's ranges.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Action, Call, operation_name
from headrace.core.clock import TokenBucket
from headrace.services.firehose.state import DeliveryStream
from headrace.store.shard_log import LogFull


def not_found(name: str, account: str) -> AwsError:
    """No delivery stream of that name exists."""
    return AwsError(
        "ResourceNotFoundException", f"Firehose {name} under account {account} not found."
    )


def in_use(name: str, account: str) -> AwsError:
    """A delivery stream of that name already exists."""
    return AwsError(
        "ResourceInUseException", f"Firehose {name} under accountId {account} already exists"
    )


def invalid_source() -> AwsError:
    """Only CloudWatch Logs may put to a stream that decompresses logs. Source: API_PutRecord (documented)."""
    return AwsError(
        "InvalidSourceException",
        "Only requests from CloudWatch Logs are supported when CloudWatch Logs decompression is enabled.",
    )


def busy(name: str, account: str, status: str) -> AwsError:
    """A delivery stream that is being created or deleted cannot be changed."""
    return AwsError(
        "ResourceInUseException",
        f"Firehose {name} under accountId {account} is not ACTIVE: it is {status}",
    )


def invalid(message: str) -> AwsError:
    """An invalid argument."""
    return AwsError("InvalidArgumentException", message)


def backup_stays() -> AwsError:
    """The backup of all records cannot be disabled.

    Observed by others: github.com/awsdocs/amazon-kinesis-data-firehose-developer-guide/issues/11 (Splunk, 2020).
    """
    return invalid("Disabling S3 backup is not currently supported.")


def not_built(what: str) -> AwsError:
    """A feature of AWS that headrace does not have; it is refused rather than ignored."""
    return invalid(f"headrace does not support {what} yet.")


def translate(error: Exception) -> AwsError | None:
    """Return AWS's error for a full journal or a failed disk; None for any other error."""
    if isinstance(error, LogFull):
        return AwsError(
            "ServiceUnavailableException", f"The record could not be stored: {error}", 503
        )
    if isinstance(error, OSError):
        return AwsError("ServiceUnavailableException", f"Nothing was stored: {error.strerror}", 503)
    return None


def check_both(hints: Mapping[str, Any], size: str, interval: str, of: str) -> None:
    """Raise AwsError when only one of a processor's two limits is hints. `of` ends the sentence."""
    if (size in hints) != (interval in hints):
        raise invalid(
            f"Both BufferSizeInMBs and BufferIntervalInSeconds are required to configure buffering{of}."
        )


def check_between(name: str, value: float, least: float, most: float) -> None:
    """Raise AwsError for a number out of range."""
    if not least <= value <= most:
        raise invalid(f"{name} must be between {least} and {most}.")


MIB: Final = 1024 * 1024
THROTTLED: Final = "ServiceUnavailableException"
SLOW_DOWN: Final = "Slow down."
# Calls per second of each operation except puts, for an account and region (documented: a hard limit).
CALLS_PER_S: Final = 5
STREAMS: Final = 5_000
STREAMS_PER_KEY: Final = 500
ENCRYPTIONS_PER_DAY: Final = 25
_DAY_MS: Final = 86_400_000
_PUTS: Final = ("PutRecord", "PutRecordBatch")
_LARGE_REGIONS: Final = ("us-east-1", "us-west-2", "eu-west-1")


@dataclass(frozen=True, slots=True)
class Quota:
    """What a delivery stream accepts per second."""

    records: int
    requests: int
    size_bytes: int


_LARGE = Quota(500_000, 2_000, 5 * MIB)
_USUAL = Quota(100_000, 1_000, MIB)


def find_quota(region: str) -> Quota:
    """Return the default quota of delivery streams in a region."""
    return _LARGE if region in _LARGE_REGIONS else _USUAL


class _Limits:
    def __init__(self, quota: Quota, now_ms: int) -> None:
        self.records = TokenBucket(quota.records, now_ms)
        self.requests = TokenBucket(quota.requests, now_ms)
        self.size = TokenBucket(quota.size_bytes, now_ms)


class Throttle:
    """The quotas of all delivery streams, and the rates of calls. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, _Limits] = {}
        self._calls: dict[tuple[str, str, str], TokenBucket] = {}
        # By delivery stream, the times of its encryption changes in the last 24 hours.
        self._encrypted_ms: dict[str, list[int]] = {}

    def admit(self, stream: DeliveryStream, sizes: Sequence[int], now_ms: int) -> list[bool]:
        """Return for each record of a request, given by its size, whether it is admitted; count the admitted ones."""
        with self._lock:
            limits = self._streams.get(stream.stream_id)
            if limits is None:
                limits = self._streams[stream.stream_id] = _Limits(
                    find_quota(stream.region), now_ms
                )
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
        """Forget a deleted delivery stream."""
        with self._lock:
            self._streams.pop(stream.stream_id, None)
            self._encrypted_ms.pop(stream.stream_id, None)

    def note_encryption(self, stream: DeliveryStream, now_ms: int) -> None:
        """Count a change of a delivery stream's encryption. Raises AwsError when there are too many in 24 hours."""
        with self._lock:
            times = [
                at_ms
                for at_ms in self._encrypted_ms.get(stream.stream_id, ())
                if now_ms - at_ms < _DAY_MS
            ]
            if len(times) >= ENCRYPTIONS_PER_DAY:
                raise _build_exceeded_error(
                    f"Firehose {stream.name} has had {ENCRYPTIONS_PER_DAY} calls of StartDeliveryStreamEncryption and"
                    " StopDeliveryStreamEncryption in the last 24 hours."
                )
            self._encrypted_ms[stream.stream_id] = [*times, now_ms]

    def check_call(self, operation: str, call: Call) -> None:
        """Count a call of an operation other than a put. Raises AwsError when there are too many."""
        with self._lock:
            key = (operation, call.account, call.region)
            bucket = self._calls.setdefault(key, TokenBucket(CALLS_PER_S, call.now_ms))
            if bucket.has(1, call.now_ms):
                bucket.take(1)
                return
        raise _build_exceeded_error("Rate exceeded.")  # as for injected faults


def check_count(present: Sequence[DeliveryStream]) -> None:
    """Raise AwsError when an account and region with these delivery streams may not have another."""
    if len(present) >= STREAMS:
        names = [stream.name for stream in present]
        raise _build_exceeded_error(
            f"You have already consumed your firehose quota of {STREAMS} hoses. Firehose names: {names}"
        )


def check_key(present: Sequence[DeliveryStream], stream: DeliveryStream, key_arn: str) -> None:
    """Raise AwsError when a customer-managed key already encrypts the maximum number of other streams."""
    others = [other for other in present if other.stream_id != stream.stream_id]
    used = sum(other.encryption.get("KeyARN") == key_arn for other in others)
    if key_arn and used >= STREAMS_PER_KEY:
        raise _build_exceeded_error(
            f"Key {key_arn} already encrypts {STREAMS_PER_KEY} Firehose streams."
        )


def _build_exceeded_error(sentence: str) -> AwsError:
    return AwsError("LimitExceededException", sentence)


def build_slow_down_error() -> AwsError:
    """Return AWS's error for a put over a quota."""
    return AwsError(THROTTLED, SLOW_DOWN, 503)


def limit_rate(action: Action, throttle: Throttle) -> Action:
    """Return an action that first checks its call rate; puts have their own quotas."""
    operation = operation_name(action)
    if operation in _PUTS:
        return action

    @functools.wraps(action)
    def run(firehose: Any, call: Call, request: Any) -> Any:
        throttle.check_call(operation, call)
        return action(firehose, call, request)

    return run


RECORD_BYTES = 1000 * 1024
BATCH_BYTES = 4 * 1024 * 1024
BATCH_RECORDS = 500
MIN_BUFFER_MIB = 1
MAX_BUFFER_MIB = 128
MAX_INTERVAL_S = 900
DEFAULT_BUFFER_MIB = 5
DEFAULT_INTERVAL_S = 300
CONVERSION_MIN_BUFFER_MIB = 64
CONVERSION_DEFAULT_BUFFER_MIB = 128
LIST_DEFAULT = 10
TAGS_PER_STREAM = 50
# Lambda accepts 6 MB in a synchronous invocation; the event around the records needs part of it.
INVOCATION_BYTES = 5_900_000
LAMBDA_RETRIES = 3
LAMBDA_BUFFER_MIB = 1.0
LAMBDA_MIN_BUFFER_MIB = 0.2
LAMBDA_MAX_BUFFER_MIB = 3.0
# A prefix after evaluation.
EVALUATED_PREFIX_CHARS = 512
# The extension of an object's key, by CompressionFormat (observed by others on AWS, 2026).
EXTENSIONS = {
    "UNCOMPRESSED": "",
    "GZIP": ".gz",
    "ZIP": ".zip",
    "Snappy": ".snappy",
    "HADOOP_SNAPPY": ".snappy",
}
RETRY_DEFAULT_S = 300
PARTITIONED_MIN_BUFFER_MIB = 64
PARTITIONED_MIN_INTERVAL_S = 60
ACTIVE_PARTITIONS = 500
MOST_PROCESSORS = 5
LAMBDA_INTERVAL_S = 60
LAMBDA_MOST_INTERVAL_S = 900
LAMBDA_MOST_RETRIES = 300
# Lambda's answer to a synchronous invocation.
ANSWER_BYTES = 6 * 1024 * 1024
