"""Putting records, once they are decoded: routing, appending, waking readers. Shared by every way in."""

from __future__ import annotations

import json.encoder
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import HASH_KEYS
from headrace.services.kinesis.state import Shard, Stream, hash_key_of
from headrace.store.shard_log import LogClosed, LogFull

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis

_quote: Callable[[str], str] = json.encoder.encode_basestring_ascii  # type: ignore[assignment]


class Entry(NamedTuple):
    """One record to put: its data as base64 text, and the decoded length of data and key in bytes."""

    data: str
    partition_key: str
    explicit_hash_key: str | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a record went."""

    sequence_number: str
    shard_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a record was not stored."""

    code: str
    message: str


def hash_key(entry: Entry) -> bytes:
    """Return the 16 bytes that decide an entry's shard. Raises AwsError."""
    explicit = entry.explicit_hash_key
    if explicit is None:
        return hash_key_of(entry.partition_key)
    value = int(explicit)
    if value >= HASH_KEYS:
        raise invalid_argument(
            "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]."
            f" Specified value was {explicit}"
        )
    return value.to_bytes(16, "big")


def put(
    kinesis: Kinesis, stream: Stream, entries: Sequence[Entry], now_ms: int
) -> tuple[list[Placed | Refused], list[Future[None]]]:
    """Append entries, each shard's in their order and in one write.

    Returns what became of each, and with durability=fsync the Futures after which the answer may leave.
    Raises AwsError when an explicit hash key is out of range (then nothing is stored).
    """
    results: list[Placed | Refused | None] = [None] * len(entries)
    waits: list[Future[None]] = []
    groups = _by_shard(stream, range(len(entries)), entries)
    while groups:
        again: list[int] = []
        for shard, members in groups:
            try:
                _append(kinesis, stream, shard, members, entries, now_ms, results, waits)
            except LogClosed:
                # Split or merged since it was chosen: its children take the records.
                again.extend(members)
        groups = _by_shard(stream, again, entries) if again else []
    kinesis.wake(stream)
    return [result for result in results if result is not None], waits


def _by_shard(
    stream: Stream, members: Sequence[int], entries: Sequence[Entry]
) -> list[tuple[Shard, Sequence[int]]]:
    opened = stream.open_shards
    if len(opened) == 1 and all(entries[i].explicit_hash_key is None for i in members):
        return [(opened[0], members)]
    groups: dict[int, tuple[Shard, list[int]]] = {}
    shard_for = stream.shard_for
    for i in members:
        shard = shard_for(hash_key(entries[i]))
        group = groups.get(shard.number)
        if group is None:
            groups[shard.number] = (shard, [i])
        else:
            group[1].append(i)
    return list(groups.values())


def _append(
    kinesis: Kinesis,
    stream: Stream,
    shard: Shard,
    members: Sequence[int],
    entries: Sequence[Entry],
    now_ms: int,
    results: list[Placed | Refused | None],
    waits: list[Future[None]],
) -> None:
    log = shard.log
    assert log is not None
    chosen = [entries[i] for i in members]
    records = [(entry.data, _quote(entry.partition_key)) for entry in chosen]
    size_bytes = sum([entry.size_bytes for entry in chosen])
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
