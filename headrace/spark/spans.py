"""Decides which records of each shard a micro-batch takes: pure functions of shards, offsets and fetched records.

To keep a key's records in order across a reshard, a shard is read only when its parents were drained in an *earlier*
batch, or have no record in this one. Within a batch shards are read concurrently. Only a batch that may be a run's only
one, and has no limit of all shards together, takes parents and children together: one task then reads them in sequence.

Reports records that a query can no longer read: DataLoss, or a warning without `kinesis.failOnDataLoss`.

Kinesis itself does not report that records have expired unread: it continues with the oldest left.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.spark.offsets import Offset, ShardOffset
from headrace.spark.options import Options


class DataLoss(Exception):
    """Unread records have expired from the stream, or a batch cannot be read again."""


@dataclass(frozen=True)
class Shard:
    """A shard as ListShards shows it."""

    shard_id: str
    parent_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Span:
    """The records of one shard in a batch: `count` of them after `start` (None: from `init`)."""

    shard_id: str
    start: str | None
    end: str
    count: int


def eligible(shards: Collection[Shard], start: Offset, drained: Collection[str] = ()) -> list[str]:
    """Return the shards that a batch beginning at `start` may read, by id.

    `drained` are shards that have ended without a record in this batch. A parent that is not listed has expired, with
    all its records.
    """
    listed = {shard.shard_id for shard in shards}
    ended = {name for name, shard in start.shards.items() if shard.ended} | set(drained)
    return sorted(
        shard.shard_id
        for shard in shards
        if shard.shard_id not in ended
        and all(parent in ended or parent not in listed for parent in shard.parent_ids)
    )


def expired(shards: Collection[Shard], start: Offset) -> tuple[set[str], set[str]]:
    """Return the shards of `start` that are no longer listed: those read to their end, and the others."""
    gone = set(start.shards) - {shard.shard_id for shard in shards}
    finished = {name for name in gone if start.shards[name].ended}
    return finished, gone - finished


def shares(available: Mapping[str, int], most: int | None) -> dict[str, int]:
    """Divide `most` records evenly among shards with `available` records, and use up the whole limit if possible."""
    if most is None or sum(available.values()) <= most:
        return dict(available)
    taken: dict[str, int] = {}
    left = most
    # The shards with the fewest records come first; the others share the rest.
    waiting = sorted(available, key=lambda name: (available[name], name))
    for index, name in enumerate(waiting):
        taken[name] = min(available[name], left // (len(waiting) - index))
        left -= taken[name]
    return taken


def advance(start: Offset, spans: Collection[tuple[Span, int]], ended: Collection[str]) -> Offset:
    """Return `start` moved past `spans` (each with its last record's arrival in ms), with the shards `ended` ended."""
    shards = dict(start.shards)
    for span, arrival_ms in spans:
        shards[span.shard_id] = ShardOffset(
            span.end, start.count(span.shard_id) + span.count, arrival_ms
        )
    for name in ended:
        last = shards.get(name, ShardOffset(None, 0, 0))
        shards[name] = ShardOffset(last.sequence_number, last.count, last.arrival_ms, ended=True)
    return Offset(start.stream, start.init, shards)


def without(offset: Offset, names: Collection[str]) -> Offset:
    """Return `offset` without some shards."""
    kept = {name: shard for name, shard in offset.shards.items() if name not in names}
    return Offset(offset.stream, offset.init, kept)


def spans_between(start: Offset, end: Offset) -> list[Span]:
    """Return the spans between two offsets of one stream, one for each shard with records."""
    spans: list[Span] = []
    for name in sorted(end.shards):
        after, before = end.shards[name], start.shards.get(name)
        count = after.count - start.count(name)
        if count < 0:
            raise DataLoss(f"The checkpoint goes back in shard {name}: it is damaged.")
        if count and after.sequence_number is not None:
            first = None if before is None else before.sequence_number
            spans.append(Span(name, first, after.sequence_number, count))
    return spans


def families(
    spans: Collection[Span], finished: Collection[str], shards: Collection[Shard]
) -> list[list[Span]]:
    """Group the spans that one task must read in sequence: shards and their children, parents first.

    Args:
        spans: the spans of a batch.
        finished: the shards that end in the batch, with or without records.
        shards: the listed shards; a parent that is no longer listed has no records left.
    """
    here = {span.shard_id for span in spans} | set(finished)
    parents = {
        shard.shard_id: [parent for parent in shard.parent_ids if parent in here]
        for shard in shards
        if shard.shard_id in here
    }
    group = {name: name for name in here}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for name, above in parents.items():
        for parent in above:
            group[root(name)] = root(parent)
    by_root: dict[str, list[Span]] = {}
    # A child's number is higher than its parents'.
    for span in sorted(spans, key=lambda span: span.shard_id):
        by_root.setdefault(root(span.shard_id), []).append(span)
    return list(by_root.values())


log = logging.getLogger(__name__)

LEAST_RETENTION_S = 86_400  # documented: a day


class StreamTime(Protocol):
    """The calls that the check makes."""

    def now_ms(self) -> tuple[int, int]:
        """Return a lower and an upper bound of the stream's time."""
        ...

    def retention_ms(self) -> int:
        """Return how long the stream keeps a record."""
        ...


def check_retention(reads: StreamTime, options: Options, shard_id: str, resumed_ms: int) -> None:
    """Raise DataLoss, or warn, if a shard that has records now was last read longer ago than its stream keeps them.

    A shard that had no records for that long has lost none, but cannot be distinguished from one that has.
    """
    if reads.now_ms()[0] - resumed_ms <= reads.retention_ms():
        return
    report_loss(
        f"The checkpoint of shard {shard_id} of stream {options.stream} is older than the stream's "
        "retention: records that came since may be lost. Set kinesis.failOnDataLoss to false to go on.",
        options,
    )


def drop_expired(shards: Collection[Shard], start: Offset, options: Options) -> Offset:
    """Return `start` without shards that are no longer listed; raise DataLoss, or warn, if one had records left."""
    finished, lost = expired(shards, start)
    if lost:
        report_loss(
            f"Shards {', '.join(sorted(lost))} of stream {start.stream} expired before they were "
            "read to their end: records are lost. Set kinesis.failOnDataLoss to false to go on without them.",
            options,
        )
    return without(start, finished | lost)


def report_loss(message: str, options: Options) -> None:
    """Raise DataLoss, or warn if the query is to go on."""
    if options.fail_on_data_loss:
        raise DataLoss(message)
    log.warning("%s", message)
