"""Putting records, once they are decoded: routing, appending, waking readers. Shared by every way in."""

from __future__ import annotations

import json.encoder
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.services.kinesis.errors import invalid_argument, stream_not_found
from headrace.services.kinesis.limits import HASH_KEYS
from headrace.services.kinesis.state import Shard, Stream, hash_key_of
from headrace.store.shard_log import LogClosed, LogFull

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis

_quote: Callable[[str], str] = json.encoder.encode_basestring_ascii  # type: ignore[assignment]


class Entries(NamedTuple):
    """Records to put, as columns: one list a field, one position a record.

    `data` is base64 text; `sizes` are the decoded bytes of data and key; `explicit_hash_keys` is None when
    no record has one. Columns and not objects: making five hundred objects costs as much as storing them.
    """

    data: list[str]
    keys: list[str]
    sizes: list[int]
    explicit_hash_keys: list[str | None] | None = None


class Placed(NamedTuple):
    """Where a record went."""

    sequence_number: str
    shard_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a record was not stored."""

    code: str
    message: str


def explicit_hash_key(text: str) -> bytes:
    """Return the 16 bytes of an ExplicitHashKey. Raises AwsError."""
    value = int(text)
    if value >= HASH_KEYS:
        raise invalid_argument(
            "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]."
            f" Specified value was {text}"
        )
    return value.to_bytes(16, "big")


def put(
    kinesis: Kinesis, stream: Stream, entries: Entries, now_ms: int
) -> tuple[list[Placed | Refused], list[Future[None]]]:
    """Append entries, each shard's in their order and in one write.

    Returns what became of each, and with durability=fsync the Futures after which the answer may leave.
    Raises AwsError when an explicit hash key is out of range (then nothing is stored), or when the stream is
    deleted meanwhile.
    """
    results: list[Placed | Refused] = [_NOT_YET] * len(entries.keys)
    waits: list[Future[None]] = []
    groups = _by_shard(stream, range(len(entries.keys)), entries)
    while groups:
        again: list[int] = []
        for shard, members in groups:
            try:
                _append(kinesis, stream, shard, members, entries, now_ms, results, waits)
            except LogClosed:
                # Split or merged since it was chosen: its children take the records.
                again.extend(members)
        if again and kinesis.by_id.get(stream.stream_id) is not stream:
            raise stream_not_found(stream.name, stream.account)
        # In the order of the request: a merge brings two shards' records together.
        groups = _by_shard(stream, sorted(again), entries) if again else []
    kinesis.wake(stream)
    return results, waits


_NOT_YET = Refused("InternalFailure", "Internal service failure")


def _by_shard(
    stream: Stream, members: Sequence[int], entries: Entries
) -> list[tuple[Shard, Sequence[int]]]:
    opened, starts = stream.routes
    explicit = entries.explicit_hash_keys
    if len(opened) == 1 and explicit is None:
        return [(opened[0], members)]
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


def _append(
    kinesis: Kinesis,
    stream: Stream,
    shard: Shard,
    members: Sequence[int],
    entries: Entries,
    now_ms: int,
    results: list[Placed | Refused],
    waits: list[Future[None]],
) -> None:
    log = shard.log
    assert log is not None
    data, keys, sizes, _ = entries
    records = [(data[i], _quote(keys[i])) for i in members]
    size_bytes = sum([sizes[i] for i in members])
    tail = f',"EncryptionType":"{stream.encryption_type}"' if stream.key_id else ""
    try:
        numbers = log.append(records, size_bytes, now_ms, tail)
    except LogFull as error:
        refused = Refused("InternalFailure", f"Internal service failure: {error}")
        for i in members:
            results[i] = refused
        return
    shard_id = shard.shard_id
    for i, number in zip(members, numbers, strict=True):
        results[i] = Placed(number, shard_id)
    if kinesis.flusher is not None:
        waits.append(kinesis.flusher.sync(log))


def when_durable(waits: Sequence[Future[None]], answer: object) -> Future[object]:
    """Return a Future of `answer` that is done when every one of `waits` is."""
    done: Future[object] = Future()
    left = [len(waits)]

    def one_done(wait: Future[None]) -> None:
        # The flusher has one thread, so these run one after another.
        error = wait.exception()
        left[0] -= 1
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        elif left[0] == 0:
            done.set_result(answer)

    for wait in waits:
        wait.add_done_callback(one_done)
    return done
