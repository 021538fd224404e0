"""Makes shard iterators, and reads records with them (GetRecords).

An iterator is opaque and authenticated, and expires after five minutes. It is the base64 form of eight bytes with the
number 1, a MAC, and the fields that the MAC covers. It is as long as AWS's iterator, whose length depends on the
stream's name: some clients size database columns by it. The MAC's key is stored, so an iterator survives a restart. If
the stream is deleted and another stream gets its name, the iterator reads the new stream from the start. Source of the
form and of this last rule: kinesalite (observed).

Reads the records of a shard that readers may see, and counts the read. All readers use it.

Finds the record of a shard where reading starts, for the five types of starting position.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.aws.shapes.kinesis import ChildShard
from headrace.core.clock import Clock
from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    AtTimestamp,
    Latest,
    Position,
    TrimHorizon,
)
from headrace.services.kinesis.errors import (
    GET_RECORDS_BYTES,
    ITERATOR_LIFE_MS,
    invalid_argument,
    shard_absent,
)
from headrace.services.kinesis.permits import Throttle, ask
from headrace.services.kinesis.state import Shard, Stream, shard_id_of
from headrace.services.kinesis.store import StreamRegistry
from headrace.store import sequence
from headrace.store.frame import Batch
from headrace.store.shard_log import ShardLog

# This hexadecimal digit is 0 in every record's sequence number. A number with the digit set lies between two records'.
_BETWEEN = 0xF << 76
# AWS refuses a number in its first layout whose creation time is this or later. Source: kinesalite (observed).
_FIRST_LAYOUT_ENDS_S = 16_025_175_000


def start_index(
    stream: Stream,
    shard: Shard,
    kind: str,
    number: str | None,
    timestamp: datetime | None,
    now_ms: int,
    operation: str,
) -> int:
    """Return the index of the first record to read. `operation` appears in error messages. Raises AwsError."""
    log = shard.log
    assert log is not None
    if kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        if number is None:
            raise _contradiction(kind, "no")
        index = _index_of_number(stream, shard, number, now_ms, operation)
        if kind == "AFTER_SEQUENCE_NUMBER" or int(number) & _BETWEEN:
            index += 1
        # The ending sequence number of a closed shard is above every record; reading then starts at the log's end.
        return min(index, log.next_index)
    if kind == "AT_TIMESTAMP":
        return log.index_at(_timestamp_ms(timestamp, now_ms))
    if number is not None:
        raise _contradiction(kind, "also a")
    return log.first_index if kind == "TRIM_HORIZON" else log.readable_index


def position_index(shard: Shard, log: ShardLog, position: Position) -> int:
    """Return the index of a reader's position in a shard's log."""
    match position:
        case TrimHorizon():
            return log.first_index
        case Latest():
            return log.readable_index
        case AtTimestamp(timestamp_ms):
            return log.index_at(timestamp_ms)
        case AtSequence(number):
            beyond = 0
        case AfterSequence(number):
            beyond = 1
    parsed = sequence.parse(number)
    if parsed.base != shard.base:
        # The checkpoint is from a deleted stream with the same name: all records of this stream are new to the reader.
        return log.first_index - 1 + beyond
    return parsed.index + beyond


def number_before(shard: Shard, index: int, now_ms: int) -> str:
    """Return a sequence number above every record before `index` and below the record at `index`.

    AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER with this number both start at `index`.
    """
    return str(shard.base.first_of(index - 1, now_ms) | _BETWEEN)


def _contradiction(kind: str, conflicting: str) -> Exception:
    return invalid_argument(
        "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or"
        " (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber."
        f" Request specified {kind} and {conflicting} StartingSequenceNumber."
    )


def _timestamp_ms(timestamp: datetime | None, now_ms: int) -> int:
    if timestamp is None:
        raise invalid_argument(
            "Must specify timestamp parameter for iterator of type AT_TIMESTAMP."
            " Current request has no timestamp parameter."
        )
    timestamp_ms = int(timestamp.timestamp() * 1000)
    if timestamp_ms > now_ms:
        raise invalid_argument(
            "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis."
            f" timestampInMillis: {timestamp_ms}, currentTimestampInMillis: {now_ms}"
        )
    return timestamp_ms


def _index_of_number(stream: Stream, shard: Shard, text: str, now_ms: int, operation: str) -> int:
    first = sequence.parse_first(text)
    used = (
        f"StartingSequenceNumber {text if first is None else first.text} used in {operation} on shard"
        f" {shard.shard_id} in stream {stream.name} under account {stream.account} is invalid"
    )
    if first is not None:
        if first.created_s >= _FIRST_LAYOUT_ENDS_S:
            raise invalid_argument(f"{used}.")
        _check_shard(first.shard_number, shard)
        raise invalid_argument(f"{used} because it did not come from this stream.")
    try:
        number = sequence.parse(text)
    except sequence.InvalidSequence:
        number = None
    if number is None or number.base.created_s > now_ms // 1000 + 3600:
        raise invalid_argument(f"{used}.")
    _check_shard(number.base.shard_number, shard)
    if number.base != shard.base:
        raise invalid_argument(f"{used} because it did not come from this stream.")
    return number.index


def _check_shard(number: int, shard: Shard) -> None:
    if number != shard.number:
        raise invalid_argument(
            f"Invalid StartingSequenceNumber. It encodes {shard_id_of(number)},"
            f" while it was used in a call to a shard with {shard.shard_id}"
        )


class LogRead(NamedTuple):
    """The result of one read. `at_end` is true when the shard is closed and no record follows."""

    batch: Batch
    behind_ms: int
    at_end: bool


def read_and_count(
    stream: Stream,
    shard: Shard,
    index: int,
    *,
    max_records: int,
    max_bytes: int,
    clock: Clock,
    started_ms: int,
) -> LogRead:
    """Read a shard's log and count the read, which started at `started_ms`, for CloudWatch. Raises LogDamaged."""
    log = shard.log
    assert log is not None
    # Ask before the read: a shard that closes during the read may have records that the read misses. Nothing is added
    # to a closed one.
    closed, readable_index, end_index = log.closed, log.readable_index, log.next_index
    batch = log.read_readable(index, max_records, max_bytes)
    behind_ms = 0
    if batch.last_arrival_ms is not None and batch.next_index < readable_index:
        behind_ms = max(0, started_ms - batch.last_arrival_ms)
    counters, size, count = stream.counters, batch.data_bytes, batch.count
    counters.get_records(size, count, behind_ms, max(0, clock.now_ms() - started_ms))
    if stream.enhanced_metrics:
        shard_id = shard.shard_id
        counters.note("OutgoingBytes", size, shard=shard_id)
        counters.note("OutgoingRecords", count, shard=shard_id)
        counters.note("IteratorAgeMilliseconds", behind_ms, shard=shard_id)
        counters.note("ReadProvisionedThroughputExceeded", 0, shard=shard_id)
    return LogRead(batch, behind_ms, closed and batch.next_index >= end_index)


_HEAD = bytes(7) + b"\x01"
_BODY = struct.Struct(">16sQQQB")
_MAC_BYTES = 16
_BODY_AT = len(_HEAD) + _MAC_BYTES
_NAME_AT = _BODY_AT + _BODY.size


class ExpiredIterator(Exception):
    """The iterator is older than five minutes; it was made at `created_ms`."""

    def __init__(self, created_ms: int) -> None:
        super().__init__(created_ms)
        self.created_ms = created_ms


class ShardIterator(msgspec.Struct, frozen=True, gc=False):
    """The position in a shard from which to read: `index` is that of the next record."""

    stream_id: str
    stream_name: str
    shard_number: int
    index: int
    created_ms: int


class GetRecordsResult(msgspec.Struct, frozen=True):
    """The result of one GetRecords. At the end of a closed shard, `next_iterator` is None and `children` is set."""

    payloads: list[bytes | memoryview]
    next_iterator: str | None
    behind_ms: int
    children: list[ChildShard]


class Iterators:
    """Makes iterators and reads records with them. Thread-safe."""

    def __init__(
        self, key: bytes, registry: StreamRegistry, clock: Clock, throttle: Throttle | None
    ) -> None:
        """Take the MAC's key (32 bytes, stored in the database) and the streams."""
        self._key = key
        self._registry = registry
        self._clock = clock
        self._throttle = throttle

    def seal(self, stream: Stream, shard_number: int, index: int, now_ms: int) -> str:
        """Return the text of an iterator at `index` of a shard."""
        name = stream.name.encode()
        stream_id = bytes.fromhex(stream.stream_id)
        body = _BODY.pack(stream_id, shard_number, index, now_ms, len(name)) + name
        sealed = _HEAD + self._mac(body) + body
        return base64.b64encode(sealed.ljust(_length(len(name)), b"\0")).decode("ascii")

    def open(self, text: str, now_ms: int) -> ShardIterator:
        """Return the position in an iterator's text. Raises ExpiredIterator, or AwsError InvalidArgumentException."""
        try:
            # The AWS CLI prints an iterator in quotes, and AWS accepts it with the quotes.
            sealed = base64.b64decode(text.strip('"'), validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid_argument("Invalid ShardIterator.") from error
        if len(sealed) < _length(0) or sealed[: len(_HEAD)] != _HEAD:
            raise invalid_argument("Invalid ShardIterator.")
        stream_id, shard_number, index, created_ms, size = _BODY.unpack_from(sealed, _BODY_AT)
        end = _NAME_AT + size
        if len(sealed) != _length(size) or any(sealed[end:]):
            raise invalid_argument("Invalid ShardIterator.")
        if not hmac.compare_digest(sealed[len(_HEAD) : _BODY_AT], self._mac(sealed[_BODY_AT:end])):
            raise invalid_argument("Invalid ShardIterator.")
        if now_ms - created_ms > ITERATOR_LIFE_MS:
            raise ExpiredIterator(created_ms)
        name = sealed[_NAME_AT:end].decode()
        return ShardIterator(stream_id.hex(), name, shard_number, index, created_ms)

    def get(self, iterator_text: str, limit: int, call: Call) -> GetRecordsResult:
        """Read up to `limit` records and 10 MiB. Raises AwsError."""
        try:
            iterator = self.open(iterator_text, call.now_ms)
        except ExpiredIterator as error:
            raise AwsError(
                "ExpiredIteratorException",
                f"Iterator expired. The iterator was created at time {_java(error.created_ms)} while right now it is"
                f" {_java(call.now_ms)} which is further in the future than the tolerated delay of"
                f" {ITERATOR_LIFE_MS} milliseconds.",
            ) from error
        stream, index = self._registry.by_id.get(iterator.stream_id), iterator.index
        if stream is None:
            key = (call.account, call.region, iterator.stream_name)
            stream, index = self._registry.by_name.get(key), 0
        shard = None if stream is None else stream.shard(str(iterator.shard_number))
        if stream is None or shard is None or shard.log is None:
            shard_id = shard_id_of(iterator.shard_number)
            raise shard_absent(shard_id, iterator.stream_name, call.account)
        if call.permit is not None or stream.key_id:
            ask(call.permit, stream, "GetRecords", self._registry.keys)
        throttle, now_ms = self._throttle, call.now_ms
        if throttle is not None:
            _check_rate(throttle, stream, shard, now_ms)
        read = read_and_count(
            stream,
            shard,
            index,
            max_records=limit,
            max_bytes=GET_RECORDS_BYTES,
            clock=self._clock,
            started_ms=now_ms,
        )
        batch = read.batch
        if throttle is not None:
            throttle.spend_read(stream, shard, batch.data_bytes, now_ms)
        if read.at_end:
            return GetRecordsResult(batch.payloads, None, 0, child_shards(stream, shard))
        following = self.seal(stream, shard.number, batch.next_index, now_ms)
        return GetRecordsResult(batch.payloads, following, read.behind_ms, [])

    def _mac(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._key, digest_size=_MAC_BYTES).digest()


def _length(name_bytes: int) -> int:
    """Return the length of an iterator in bytes, which depends on the length of the stream's name."""
    return 152 + (name_bytes + 2) // 16 * 16


def _check_rate(throttle: Throttle, stream: Stream, shard: Shard, now_ms: int) -> None:
    try:
        throttle.check_read(stream, shard, now_ms)
    except AwsError:
        stream.counters.note("GetRecords.Success", 0)
        if stream.enhanced_metrics:
            name = "ReadProvisionedThroughputExceeded"
            stream.counters.note(name, 1, shard=shard.shard_id)
        raise


def child_shards(stream: Stream, parent: Shard) -> list[ChildShard]:
    """Return AWS's ChildShards of a closed shard."""
    return [
        {
            "ShardId": shard.shard_id,
            "ParentShards": shard.parents,
            "HashKeyRange": {
                "StartingHashKey": str(shard.starting_hash_key),
                "EndingHashKey": str(shard.ending_hash_key),
            },
        }
        for shard in stream.shards
        if parent.shard_id in shard.parents
    ]


def _java(timestamp_ms: int) -> str:
    """Return a time in the format of Java's Date, which AWS uses in this error."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
