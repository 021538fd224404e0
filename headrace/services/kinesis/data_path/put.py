"""Puts decoded records: chooses their shards, appends them, wakes readers and counts.

Every put goes through here, except the short path for one record (`usual_put.put_one`).
"""

from __future__ import annotations

import json.encoder
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.admission import RecordRefusal, refusals
from headrace.services.kinesis.errors import invalid_argument, stream_not_found
from headrace.services.kinesis.limits import (
    HASH_KEYS,
)
from headrace.services.kinesis.state import Shard, Stream, hash_key_of
from headrace.services.kinesis.throttle import THROTTLED
from headrace.store.shard_log import LogClosed, LogFull

_LONG_CHARS = 256
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
    """A put in progress. `escaped` has the partition keys with JSON's escapes, or is None when no key needs any."""

    kinesis: Kinesis
    stream: Stream
    entries: Entries
    escaped: Sequence[str] | None
    placed: PutResult
    now_ms: int


def size_bytes(data: Sequence[str], keys: Sequence[str]) -> int:
    """Return the size in bytes of keys and decoded data; each base64 text must be padded."""
    if len(data) == 1:
        return entry_bytes(data[0], keys[0])
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
    request = _Request(kinesis, stream, entries, _escaped(entries.keys), placed, now_ms)
    refuses = may_refuse(kinesis)
    stored_bytes = 0
    groups = _by_shard(stream, range(count), entries)
    while groups:
        again: list[int] = []
        for shard, group in groups:
            members = _admitted(request, shard, group) if refuses else group
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


def may_refuse(kinesis: Kinesis) -> bool:
    """Whether single records may be refused: by throughput limits, or by faults for part of a request."""
    return kinesis.throttle is not None or (
        kinesis.faults is not None and kinesis.faults.is_partial
    )


def _admitted(request: _Request, shard: Shard, members: Sequence[int]) -> Sequence[int]:
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


def _escaped(keys: Sequence[str]) -> Sequence[str] | None:
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
        # Ask for one more and cut it off: with a single position, itemgetter does not return a tuple.
        pick = itemgetter(*members, members[0])
        data, keys = pick(data)[:-1], pick(keys)[:-1]
        escaped = escaped and pick(escaped)[:-1]
    tail = f',"EncryptionType":"{stream.encryption_type}"' if stream.key_id else ""
    data_bytes = size_bytes(data, keys)
    try:
        numbers = log.append_columns(data, escaped or keys, data_bytes, request.now_ms, tail)
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
