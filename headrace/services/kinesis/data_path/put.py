"""Puts decoded records: chooses their shards, appends them, wakes readers and counts.

Every put goes through here, except the short path for one record (`put_one`).

Decides which records of a put are refused: by AWS's throughput limits, or by faults that a test has configured.

Puts the records of requests in the form that SDKs send; other requests, and refusals, are left to the action.

`put_usual` puts any number of records. `put_one` is a shorter path for one record and a stream without throttling,
faults and shard-level metrics.
"""

from __future__ import annotations

import functools
import json.encoder
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from headrace.aws.calls.operation import Call
from headrace.aws.gateway.faults import RequestProperties
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import (
    HASH_KEYS,
    PARTITION_KEY_CHARS,
    PUT_RECORDS_BYTES,
    PUT_RECORDS_COUNT,
    invalid_argument,
    stream_not_found,
)
from headrace.services.kinesis.permits import THROTTLED, ask, rate_exceeded
from headrace.services.kinesis.state import Shard, Stream, hash_key_of
from headrace.store.frame import SharedFrame
from headrace.store.shard_log import LogClosed, LogFull


@dataclass(frozen=True, slots=True)
class RecordRefusal:
    """Why a record was not stored: the error code and message that PutRecords returns for the record."""

    code: str
    message: str

    @property
    def status(self) -> int:
        """The HTTP status of a PutRecord that fails with this error."""
        return 400 if self.code == THROTTLED else 500


def refusals(
    kinesis: Kinesis, stream: Stream, shard: Shard, sizes: Mapping[int, int], now_ms: int
) -> dict[int, RecordRefusal]:
    """Return the refused records of a shard, by position in the request. `sizes` has each record's size in bytes."""
    refused: dict[int, RecordRefusal] = {}
    left = list(sizes)
    faults = kinesis.faults
    if faults is not None and faults.is_partial:
        shard_key = (stream.name, shard.shard_id)
        facts = RequestProperties("kinesis", "PutRecords", stream.account, lambda: shard_key)
        for at, error in faults.refusals(facts, len(left)).items():
            refused[left[at]] = RecordRefusal(error.code, error.message)
        left = [i for i in left if i not in refused]
    if kinesis.throttle is None or not left:
        return refused
    passes = kinesis.throttle.admit(stream, shard, [sizes[i] for i in left], now_ms)
    over = [i for i, passed in zip(left, passes, strict=True) if not passed]
    if over:
        reason = RecordRefusal(THROTTLED, rate_exceeded(stream, shard.shard_id))
        refused.update(dict.fromkeys(over, reason))
        if stream.enhanced_metrics:
            name = "WriteProvisionedThroughputExceeded"
            stream.counters.note(name, len(over), shard=shard.shard_id)
    return refused


_LONG_CHARS = 256
# So few records are counted one by one.
_FEW = 4
quote: Callable[[str], str] = json.encoder.encode_basestring_ascii  # type: ignore[assignment]


class Entries(NamedTuple):
    """Records to put, as columns: a list for each field, in the order of the records.

    `data` is padded base64 text; `explicit_hash_keys` is None when no record has one. Columns save time: making five
    hundred objects takes as long as storing the records.
    """

    data: Sequence[str]
    keys: Sequence[str]
    explicit_hash_keys: Sequence[str | None] | None = None


@dataclass(slots=True)
class PutResult:
    """The sequence numbers and shard ids of stored records, as columns; refused records are listed by position.

    `waits` finish when the records are as durable as `durability` asks; the response must wait for them.
    """

    numbers: list[str]
    shard_ids: list[str]
    refused: dict[int, RecordRefusal]
    waits: list[Future[None]]


@dataclass(slots=True)
class _Request:
    """A put in progress.

    `escaped` has the partition keys with JSON's escapes, or is None when no key needs any; `tail` ends each record.
    """

    kinesis: Kinesis
    stream: Stream
    entries: Entries
    escaped: Sequence[str] | None
    placed: PutResult
    now_ms: int
    tail: str


def size_bytes(data: Sequence[str], keys: Sequence[str]) -> int:
    """Return the size in bytes of keys and decoded data; each base64 text must be padded."""
    if len(data) <= _FEW:
        return sum(map(entry_bytes, data, keys))
    joined = "".join(keys)
    key_bytes = len(joined) if joined.isascii() else len(joined.encode())
    chars = sum(map(len, data))
    # Padding is only at the end of a text, so only the ends of long texts are searched for it.
    long = chars > _LONG_CHARS * len(data)
    ends = "".join([text[-2:] for text in data] if long else data)
    return chars * 3 // 4 - ends.count("=") + key_bytes


def entry_bytes(data: str, key: str) -> int:
    """Return the size in bytes of one key and one record's decoded data, given as padded base64 text."""
    key_bytes = len(key) if key.isascii() else len(key.encode())
    return len(data) * 3 // 4 - data.count("=", -2) + key_bytes


def explicit_hash_key(text: str) -> bytes:
    """Return the 16 bytes of an ExplicitHashKey. Raises AwsError."""
    value = int(text)
    if value >= HASH_KEYS:
        raise invalid_argument(
            "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]."
            f" Specified value was {text}"
        )
    return value.to_bytes(16, "big")


def put_many(
    kinesis: Kinesis,
    stream: Stream,
    entries: Entries,
    now_ms: int,
    operation: str = "PutRecords",
) -> PutResult:
    """Append entries, and count them for `operation`. The entries of a shard keep their order and need one write.

    Raises AwsError when an explicit hash key is out of range (then nothing is stored), or when the stream is
    deleted meanwhile.
    """
    count = len(entries.keys)
    placed = PutResult([""] * count, [""] * count, {}, [])
    escaped, tail = _escape_keys(entries.keys), encryption_of(stream)
    request = _Request(kinesis, stream, entries, escaped, placed, now_ms, tail)
    refuses = may_refuse(kinesis)
    stored_bytes = 0
    groups = _by_shard(stream, range(count), entries)
    while groups:
        again: list[int] = []
        for shard, group in groups:
            members = _select_admitted(request, shard, group) if refuses else group
            if not members:
                continue
            try:
                stored_bytes += _append(request, shard, members)
            except LogClosed:
                # The shard was split or merged since it was chosen: its children take the records.
                again.extend(members)
        if again and kinesis.by_id.get(stream.stream_id) is not stream:
            raise stream_not_found(stream.name, stream.account)
        # Restore the order of the request: a merged shard takes the records of two.
        groups = _by_shard(stream, sorted(again), entries) if again else []
    if kinesis.flusher is None:
        for wake in stream.listeners:
            wake()
    if placed.waits:
        # The request's latency includes the wait for the disk.
        placed.waits[-1].add_done_callback(lambda _: _count(request, operation, stored_bytes))
    else:
        _count(request, operation, stored_bytes)
    return placed


def encryption_of(stream: Stream) -> str:
    """Return the member that records and answers of an encrypted stream end with; empty for another stream."""
    return f',"EncryptionType":"{stream.encryption_type}"' if stream.key_id else ""


def may_refuse(kinesis: Kinesis) -> bool:
    """Whether single records may be refused: by throughput limits, or by faults for part of a request."""
    return kinesis.throttle is not None or (
        kinesis.faults is not None and kinesis.faults.is_partial
    )


def _select_admitted(request: _Request, shard: Shard, members: Sequence[int]) -> Sequence[int]:
    """Return the positions of the records that may be stored; save the reasons why the others may not."""
    data, keys, _ = request.entries
    sizes = {i: entry_bytes(data[i], keys[i]) for i in members}
    refused = refusals(request.kinesis, request.stream, shard, sizes, request.now_ms)
    request.placed.refused.update(refused)
    return [i for i in members if i not in refused]


def _count(request: _Request, operation: str, data_bytes: int) -> None:
    latency_ms = max(0, request.kinesis.clock.now_ms() - request.now_ms)
    counters, placed = request.stream.counters, request.placed
    refused = len(placed.refused)
    if refused:
        throttled = sum(r.code == THROTTLED for r in placed.refused.values())
        counters.refused(operation, throttled, refused - throttled)
    total = len(placed.numbers)
    if operation == "PutRecords":
        counters.put_records(data_bytes, total - refused, total, latency_ms)
    elif not refused:
        counters.put_record(data_bytes, latency_ms)


def _escape_keys(keys: Sequence[str]) -> Sequence[str] | None:
    """Return the keys with JSON's escapes, or None when no key needs any."""
    joined = "".join(keys)
    if len(quote(joined)) == len(joined) + 2:
        return None
    return [quote(key)[1:-1] for key in keys]


def _by_shard(
    stream: Stream, members: Sequence[int], entries: Entries
) -> list[tuple[Shard, Sequence[int]]]:
    opened, starts = stream.routes
    explicit = entries.explicit_hash_keys
    if len(opened) == 1 and explicit is None:
        return [(opened[0], members)]
    if stream.distribution == "AUTO":
        return _in_turn(stream, opened, members)
    groups: list[list[int]] = [[] for _ in opened]
    keys = entries.keys
    if explicit is None:
        for i in members:
            groups[bisect_right(starts, hash_key_of(keys[i])) - 1].append(i)
    else:
        for i in members:
            text = explicit[i]
            hash_key = hash_key_of(keys[i]) if text is None else explicit_hash_key(text)
            groups[bisect_right(starts, hash_key) - 1].append(i)
    return [(shard, group) for shard, group in zip(opened, groups, strict=True) if group]


def _in_turn(
    stream: Stream, opened: Sequence[Shard], members: Sequence[int]
) -> list[tuple[Shard, Sequence[int]]]:
    """Spread records evenly, whatever their keys. Two simultaneous puts may start with the same shard."""
    count = len(opened)
    first = stream.turn % count
    stream.turn = first + len(members)
    groups = [(opened[(first + i) % count], members[i::count]) for i in range(count)]
    return [(shard, group) for shard, group in groups if group]


def _append(request: _Request, shard: Shard, members: Sequence[int]) -> int:
    """Append the entries of one shard, save their sequence numbers, and return their size in bytes."""
    log = shard.log
    assert log is not None
    kinesis, stream, placed = request.kinesis, request.stream, request.placed
    data, keys, _ = request.entries
    escaped = request.escaped
    if len(members) == 1:
        # With many shards, most of them get only one or two records of a request.
        at = members[0]
        data, keys = (data[at],), (keys[at],)
        escaped = escaped and (escaped[at],)
    elif len(members) < len(keys):
        pick = itemgetter(*members)
        data, keys = pick(data), pick(keys)
        escaped = escaped and pick(escaped)
    data_bytes = size_bytes(data, keys)
    try:
        numbers = log.append_columns(
            data, escaped or keys, data_bytes, request.now_ms, request.tail
        )
    except LogFull as error:
        refused = RecordRefusal("InternalFailure", f"Internal service failure: {error}")
        placed.refused.update(dict.fromkeys(members, refused))
        return 0
    shard_id = shard.shard_id
    all_numbers, shard_ids = placed.numbers, placed.shard_ids
    for i, number in zip(members, numbers, strict=True):
        all_numbers[i] = number
        shard_ids[i] = shard_id
    if stream.enhanced_metrics:
        stream.counters.note("IncomingBytes", data_bytes, shard=shard_id)
        stream.counters.note("IncomingRecords", len(numbers), shard=shard_id)
    if kinesis.flusher is not None:
        wait = kinesis.flusher.sync(log)
        # Readers see a record only once it is as durable as the response promises.
        wait.add_done_callback(lambda _: kinesis.wake(stream))
        placed.waits.append(wait)
    return data_bytes


# A longer record gains nothing from sharing a write.
_MOST_SHARED_CHARS = 16 * 1024


class UsualPut(NamedTuple):
    """A PutRecord or PutRecords request in the form that SDKs send, decoded but not yet checked against the limits.

    `data` is padded base64 text; `explicit_hash_keys` may be empty when no record has one. No record's data is longer
    than `longest_bytes`; data and keys together are at most `most_bytes` (0 when they have no common limit).
    """

    stream_name: str | None
    stream_arn: str | None
    data: Sequence[str]
    keys: Sequence[str]
    explicit_hash_keys: Sequence[str | None]
    longest_bytes: int
    most_bytes: int


def put_usual(
    kinesis: Kinesis, request: UsualPut, call: Call, operation: str
) -> tuple[Stream, PutResult] | None:
    """Put the records of a request. Returns None, having done nothing, when the action must handle the request."""
    stream = _usual_stream(kinesis, request.stream_name, request.stream_arn, call)
    if stream is None or request.longest_bytes > stream.max_record_bytes:
        return None
    data, keys, explicit = request.data, request.keys, request.explicit_hash_keys
    key_lengths = set(map(len, keys))
    if 0 in key_lengths or max(key_lengths) > PARTITION_KEY_CHARS or len(keys) > PUT_RECORDS_COUNT:
        return None
    if not any(explicit):
        if "" in explicit:
            return None
        entries = Entries(data, keys)
    elif all(map(_is_hash_key, explicit)):
        entries = Entries(data, keys, explicit)
    else:
        return None
    if request.most_bytes > PUT_RECORDS_BYTES and size_bytes(data, keys) > PUT_RECORDS_BYTES:
        return None
    if call.permit is not None or stream.key_id:
        ask(call.permit, stream, operation, kinesis.registry.keys)
    placed = put_many(kinesis, stream, entries, call.now_ms, operation)
    call.waits.extend(placed.waits)
    return stream, placed


def _usual_stream(kinesis: Kinesis, name: str | None, arn: str | None, call: Call) -> Stream | None:
    """Return the stream that a request names, or None when the action must find it or report an error."""
    if arn is not None:
        stream = kinesis.registry.find_arn(arn)
        if stream is not None and name not in (None, stream.name):
            return None
    else:
        stream = kinesis.streams.get((call.account, call.region, name or ""))
    return None if stream is None or stream.latest_status != "ACTIVE" else stream


def _is_hash_key(text: str | None) -> bool:
    if text is None:
        return True
    return text.isascii() and text.isdigit() and len(text) < 40 and (text[0] != "0" or text == "0")


def put_one(
    kinesis: Kinesis,
    *,
    stream_name: str | None,
    stream_arn: str | None,
    data: str,
    key: str,
    call: Call,
) -> tuple[Stream, str, str] | None:
    """Append a record and return (its stream, its shard's id, its sequence number).

    It does the same as `put_many`, without columns and groups. It returns None, having stored and counted nothing, when
    `put_many` or the action must handle the record. `data` is padded base64 text. The futures that the response must
    wait for are added to `call.waits`; a write that it shares is in `call.shared`.
    """
    if not 0 < len(key) <= PARTITION_KEY_CHARS or may_refuse(kinesis):
        return None
    size, data_bytes = len(data), entry_bytes(data, key)
    stream = _usual_stream(kinesis, stream_name, stream_arn, call)
    if stream is None or size * 3 // 4 > stream.max_record_bytes:
        return None
    if stream.distribution == "AUTO" or stream.enhanced_metrics:
        return None
    opened, starts = stream.routes
    shard = opened[0 if len(opened) == 1 else bisect_right(starts, hash_key_of(key)) - 1]
    log = shard.log
    if log is None:
        return None
    if call.permit is not None or stream.key_id:
        ask(call.permit, stream, "PutRecord", kinesis.registry.keys)
    quoted, now_ms = quote(key)[1:-1], call.now_ms
    tail = encryption_of(stream) if stream.key_id else ""
    try:
        if call.may_share and size <= _MOST_SHARED_CHARS and kinesis.flusher is None:
            number, frame = log.append_shared(data, quoted, data_bytes, now_ms, tail)
            if frame.then is None:
                frame.then = functools.partial(_finish_shared, kinesis, stream, now_ms)
            call.shared = frame
            return stream, shard.shard_id, number
        numbers = log.append_columns((data,), (quoted,), data_bytes, now_ms, tail)
    except (LogClosed, LogFull):
        # The shard was split meanwhile, or the disk is full: `put_many` finds the child shard or reports the error.
        return None
    if kinesis.flusher is None:
        _finish_one(kinesis, stream, data_bytes, now_ms)
    else:
        wait = kinesis.flusher.sync(log)
        # Readers see the record, and its latency ends, only once it is as durable as the response promises.
        wait.add_done_callback(lambda _: _finish_one(kinesis, stream, data_bytes, now_ms))
        call.waits.append(wait)
    return stream, shard.shard_id, numbers[0]


def _finish_one(kinesis: Kinesis, stream: Stream, data_bytes: int, now_ms: int) -> None:
    for wake in stream.listeners:
        wake()
    stream.counters.put_record(data_bytes, max(0, kinesis.clock.now_ms() - now_ms))


def _finish_shared(kinesis: Kinesis, stream: Stream, now_ms: int, frame: SharedFrame) -> None:
    for wake in stream.listeners:
        wake()
    stream.counters.put_record_often(frame.sizes, max(0, kinesis.clock.now_ms() - now_ms))
