"""Decides whether a caller may put to or read from a stream: permissions, KMS keys, throughput.

Enforces AWS's throughput limits and call rates in a cloud that is started with `limits=aws`.

Each limit is a token bucket that holds one second's worth of its limit; the caller passes the time. A call over a limit
is refused and never waits. The buckets are in memory only. Thread-safe.

Reads by headrace's own services (event source mappings and Firehose deliveries) are counted but never throttled.

Source: docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html (documented). Assumed: a bucket holds one
second's worth, and the limits of an on-demand stream apply to each shard.

Checks that a caller may put to or read from a stream, and that the stream's KMS key can be used.

Checks the KMS keys of streams: a key must exist, be enabled, and not be pending deletion.

Source of the error codes: kinesis/latest/APIReference/API_PutRecord.html, API_GetRecords.html and
API_StartStreamEncryption.html. The messages are KMS' own, which S3's users see; that Kinesis returns them is assumed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, Permit
from headrace.core.arn import make_arn
from headrace.core.clock import TokenBucket
from headrace.core.ports import KeyStates
from headrace.services.kinesis.errors import limit_exceeded
from headrace.services.kinesis.state import Shard, Stream, shard_id_of, shard_number_of

# The AWS managed key for Kinesis, which everybody may use and nobody can disable.
_OWN = "alias/aws/kinesis"
_MOST_KEPT = 10_000


class StreamKeys:
    """Finds the KMS keys of streams. Thread-safe; caches answers until a key changes.

    Args:
        keys: KMS.
    """

    def __init__(self, keys: KeyStates) -> None:
        self._keys = keys
        self._kept: dict[tuple[str, str, str], tuple[int, str, str]] = {}

    def usable(self, key_id: str, account: str, region: str) -> str:
        """Return the ARN of a key, or "" for the AWS managed key. Raises AwsError when the key cannot be used."""
        if key_id.endswith(_OWN):
            return ""
        arn, state = self._find_permit(key_id, account, region)
        if state == "Enabled":
            return arn
        raise _refusal(_key_arn(key_id, account, region), arn, state)

    def arn_of(self, key_id: str, account: str, region: str) -> str:
        """Return the ARN of a key in any state, or "" for the AWS managed key and for a key that does not exist."""
        return "" if key_id.endswith(_OWN) else self._find_permit(key_id, account, region)[0]

    def _find_permit(self, key_id: str, account: str, region: str) -> tuple[str, str]:
        version, name = self._keys.keys_version, (key_id, account, region)
        kept = self._kept.get(name)
        if kept is None or kept[0] != version:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            kept = self._kept[name] = (version, *self._keys.state_of_key(key_id, account, region))
        return kept[1], kept[2]


def _key_arn(key_id: str, account: str, region: str) -> str:
    if key_id.startswith("arn:"):
        return key_id
    return make_arn("kms", region, account, key_id if "alias/" in key_id else f"key/{key_id}")


def _refusal(named: str, arn: str, state: str) -> AwsError:
    if not arn:
        is_alias = ":alias/" in named
        sentence = f"Alias {named} is not found." if is_alias else f"Key '{named}' does not exist"
        return AwsError("KMSNotFoundException", sentence)
    if state == "Disabled":
        return AwsError("KMSDisabledException", f"{arn} is disabled.")
    if state == "PendingDeletion":
        return AwsError("KMSInvalidStateException", f"{arn} is pending deletion.")
    return AwsError("KMSInvalidStateException", f"{arn} is in the state {state}.")


_ACTIONS = {name: f"kinesis:{name}" for name in ("PutRecord", "PutRecords", "GetRecords")}
# The permission on a customer managed key that a caller needs for each operation on the stream.
# Source: docs.aws.amazon.com/streams/latest/dev/permissions-user-key-KMS.html (documented).
_KEY_ACTIONS = {
    "PutRecord": "kms:GenerateDataKey",
    "PutRecords": "kms:GenerateDataKey",
    "GetRecords": "kms:Decrypt",
}


def ask(permit: Permit | None, stream: Stream, operation: str, keys: StreamKeys) -> None:
    """Record that the caller uses PutRecord, PutRecords or GetRecords, and check that it may. Raises AwsError.

    `permit` is None for the account itself: it needs no permission, but it does need a key that can be used.
    """
    arn = _arn(stream.region, stream.account, stream.name)
    if permit is not None:
        permit.ask_for("kinesis", _ACTIONS[operation], arn)
    if stream.key_id:
        key = keys.usable(stream.key_id, stream.account, stream.region)
        if key and permit is not None:
            permit.ask_for("kinesis", _KEY_ACTIONS[operation], key, arn)


@functools.lru_cache(maxsize=4096)
def _arn(region: str, account: str, name: str) -> str:
    """Return a stream's ARN. Cached: making the ARN takes longer than the rest of the check."""
    return make_arn("kinesis", region, account, f"stream/{name}")


MIB: Final = 1024 * 1024
WRITE_BYTES_PER_S = MIB
WRITE_RECORDS_PER_S = 1000
READ_BYTES_PER_S = 2 * MIB
READ_CALLS_PER_S = 5
CONSUMER_BYTES_PER_S = 2 * MIB
THROTTLED = "ProvisionedThroughputExceededException"
# When there are this many buckets for call rates, the full ones are dropped.
MOST_BUCKETS = 10_000


class Rate(NamedTuple):
    """The calls a second that an account may make in a region; `per` says if each stream or shard has its own rate."""

    calls: int
    per: str = "account"


# Most rates are from the API reference (a test compares them with botocore's documentation). The rates of retention and
# enhanced monitoring are from the quotas page. The rates of policies, tags by ARN and UpdateMaxRecordSize are assumed.
RATES: Final[Mapping[str, Rate]] = {
    "AddTagsToStream": Rate(5),
    "CreateChannel": Rate(5),
    "CreateStream": Rate(5),
    "DecreaseStreamRetentionPeriod": Rate(5, "stream"),
    "DeleteChannel": Rate(5),
    "DeleteResourcePolicy": Rate(5),
    "DeleteStream": Rate(5),
    "DeregisterStreamConsumer": Rate(5, "stream"),
    "DescribeAccountSettings": Rate(5),
    "DescribeChannel": Rate(5),
    "DescribeLimits": Rate(1),
    "DescribeStream": Rate(10),
    "DescribeStreamConsumer": Rate(20, "stream"),
    "DescribeStreamSummary": Rate(20),
    "DisableEnhancedMonitoring": Rate(5, "stream"),
    "EnableEnhancedMonitoring": Rate(5, "stream"),
    "GetResourcePolicy": Rate(5),
    "GetShardIterator": Rate(5, "shard"),
    "IncreaseStreamRetentionPeriod": Rate(5, "stream"),
    "ListChannels": Rate(5),
    "ListShards": Rate(1000, "stream"),
    "ListStreamConsumers": Rate(5, "stream"),
    "ListStreams": Rate(5),
    "ListTagsForResource": Rate(5),
    "ListTagsForStream": Rate(5),
    "MergeShards": Rate(5),
    "PutResourcePolicy": Rate(5),
    "RegisterStreamConsumer": Rate(5),
    "RemoveTagsFromStream": Rate(5),
    "SplitShard": Rate(5),
    "SubscribeToShard": Rate(1, "consumer and shard"),
    "TagResource": Rate(5),
    "UntagResource": Rate(5),
    "UpdateAccountSettings": Rate(5),
    "UpdateChannel": Rate(5),
    "UpdateMaxRecordSize": Rate(5, "stream"),
    "UpdateStreamWarmThroughput": Rate(5),
}


class ReadBytes:
    """A limit on the bytes read in a second: the next read must wait for as long as the bytes of the last one take."""

    __slots__ = ("_free_at_ms", "_per_s")

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._free_at_ms = 0.0

    def wait_ms(self, now_ms: int) -> int:
        """Return after how many milliseconds a read may start; 0 means now."""
        return max(0, int(self._free_at_ms - now_ms + 0.999))

    def spend(self, data_bytes: int, now_ms: int) -> None:
        """Count the bytes of a read. After a read of 10 MiB the next must always wait five seconds (documented)."""
        saved_ms = 0 if data_bytes > self._per_s else 1000
        start_ms = max(self._free_at_ms, now_ms - saved_ms)
        self._free_at_ms = start_ms + data_bytes * 1000 / self._per_s


class ShardLimits:
    """The buckets of one shard."""

    __slots__ = ("in_bytes", "in_records", "out_bytes", "out_calls")

    def __init__(self, now_ms: int) -> None:
        self.in_bytes = TokenBucket(WRITE_BYTES_PER_S, now_ms)
        self.in_records = TokenBucket(WRITE_RECORDS_PER_S, now_ms)
        self.out_calls = TokenBucket(READ_CALLS_PER_S, now_ms)
        self.out_bytes = ReadBytes(READ_BYTES_PER_S)


class Throttle:
    """All limits and rates of a cloud. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shards: dict[tuple[str, int], ShardLimits] = {}
        self._calls: dict[tuple[str, ...], TokenBucket] = {}
        self._consumers: dict[tuple[str, str], ReadBytes] = {}

    def _shard(self, stream: Stream, shard: Shard, now_ms: int) -> ShardLimits:
        key = (stream.stream_id, shard.number)
        limits = self._shards.get(key)
        if limits is None:
            limits = self._shards[key] = ShardLimits(now_ms)
        return limits

    def admit(self, stream: Stream, shard: Shard, sizes: Sequence[int], now_ms: int) -> list[bool]:
        """Return for each record whether the shard accepts it now; count the accepted ones. `sizes` is in bytes."""
        with self._lock:
            limits = self._shard(stream, shard, now_ms)
            admitted: list[bool] = []
            for size in sizes:
                passes = limits.in_bytes.has(size, now_ms) and limits.in_records.has(1, now_ms)
                if passes:
                    limits.in_bytes.take(size)
                    limits.in_records.take(1)
                admitted.append(passes)
            return admitted

    def check_read(self, stream: Stream, shard: Shard, now_ms: int) -> None:
        """Count one GetRecords. Raises ProvisionedThroughputExceededException."""
        with self._lock:
            limits = self._shard(stream, shard, now_ms)
            if limits.out_bytes.wait_ms(now_ms) or not limits.out_calls.has(1, now_ms):
                raise AwsError(THROTTLED, rate_exceeded(stream, shard.shard_id))
            limits.out_calls.take(1)

    def spend_read(self, stream: Stream, shard: Shard, data_bytes: int, now_ms: int) -> None:
        """Count the bytes that a GetRecords returned."""
        with self._lock:
            self._shard(stream, shard, now_ms).out_bytes.spend(data_bytes, now_ms)

    def consumer_budget(self, consumer_arn: str, shard_id: str) -> ReadBytes:
        """Return the read budget of a consumer for a shard; the consumer's successive subscriptions share it."""
        with self._lock:
            key = (consumer_arn, shard_id)
            return self._consumers.setdefault(key, ReadBytes(CONSUMER_BYTES_PER_S))

    def forget(self, stream: Stream) -> None:
        """Drop the buckets of a stream that is deleted."""
        with self._lock:
            for shard in stream.shards:
                self._shards.pop((stream.stream_id, shard.number), None)
            for key in [k for k in self._consumers if k[0].startswith(f"{stream.arn}/")]:
                del self._consumers[key]

    def check_call(self, operation: str, params: Mapping[str, Any], call: Call) -> None:
        """Count one call of an operation. Raises AwsError when its rate is exceeded."""
        rate = RATES.get(operation)
        if rate is None:
            return
        name = _stream_name(params)
        shard = str(params.get("ShardId", ""))
        key: tuple[str, ...] = (operation, call.account, call.region)
        if rate.per == "stream":
            key = (*key, name)
        elif rate.per == "shard":
            key = (*key, name, str(shard_number_of(shard)))
        elif rate.per != "account":
            key = (*key, str(params.get("ConsumerARN", "")), str(shard_number_of(shard)))
        with self._lock:
            bucket = self._calls.get(key)
            if bucket is None:
                self._make_room(call.now_ms)
                bucket = self._calls[key] = TokenBucket(rate.calls, call.now_ms)
            if bucket.has(1, call.now_ms):
                bucket.take(1)
                return
        raise _too_often(operation, rate, name, shard, call)

    def _make_room(self, now_ms: int) -> None:
        if len(self._calls) >= MOST_BUCKETS:
            self._calls = {k: b for k, b in self._calls.items() if not b.is_full(now_ms)}


def rate_exceeded(stream: Stream, shard_id: str) -> str:
    """Return AWS's message (observed in many issues of the Kinesis clients)."""
    return f"Rate exceeded for shard {shard_id} in stream {stream.name} under account {stream.account}."


def _stream_name(params: Mapping[str, Any]) -> str:
    for member in ("StreamARN", "ConsumerARN", "ResourceARN"):
        if member in params:
            return str(params[member]).partition("stream/")[2].partition("/")[0]
    return str(params.get("StreamName", params.get("StreamId", "")))


def _too_often(operation: str, rate: Rate, name: str, shard: str, call: Call) -> AwsError:
    if operation == "GetShardIterator":
        # GetShardIterator is documented to return this error instead of LimitExceededException.
        number = shard_number_of(shard)
        shard_id = shard if number is None else shard_id_of(number)
        return AwsError(
            THROTTLED,
            f"Rate exceeded for shard {shard_id} in stream {name} under account {call.account}.",
        )
    if name and rate.per != "account":
        return limit_exceeded(f"Rate exceeded for stream {name} under account {call.account}.")
    return limit_exceeded(f"Rate exceeded for account {call.account}.")
