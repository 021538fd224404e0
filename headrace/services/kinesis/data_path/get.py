"""Makes shard iterators, and reads records with them (GetRecords).

An iterator is opaque and authenticated, and expires after five minutes. It is the base64 form of eight bytes with the
number 1, a MAC, and the fields that the MAC covers. It is as long as AWS's iterator, whose length depends on the
stream's name: some clients size database columns by it. The MAC's key is stored, so an iterator survives a restart. If
the stream is deleted and another stream gets its name, the iterator reads the new stream from the start. Source of the
form and of this last rule: kinesalite (observed).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.aws.shapes.kinesis import ChildShard
from headrace.core.clock import Clock
from headrace.services.kinesis.data_path.permits import ask
from headrace.services.kinesis.data_path.read import read_and_count
from headrace.services.kinesis.errors import invalid_argument, shard_absent
from headrace.services.kinesis.limits import GET_RECORDS_BYTES, ITERATOR_LIFE_MS
from headrace.services.kinesis.registry import StreamRegistry
from headrace.services.kinesis.state import Shard, Stream, shard_id_of
from headrace.services.kinesis.throttle import Throttle

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


@dataclass(frozen=True, slots=True)
class ShardIterator:
    """The position in a shard from which to read: `index` is that of the next record."""

    stream_id: str
    stream_name: str
    shard_number: int
    index: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class GetRecordsResult:
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
