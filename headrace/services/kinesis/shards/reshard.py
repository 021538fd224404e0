"""Splits and merges shards: closes parents and opens their children in one step."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.state import Shard, Stream

# The shards to close (or their hash key ranges), and the ranges of the shards that replace them.
ReshardStep = tuple[Sequence[Shard | tuple[int, int]], Sequence[tuple[int, int]]]


def reshard(kinesis: Kinesis, stream: Stream, steps: Sequence[ReshardStep], now_ms: int) -> None:
    """Close shards and open their children: all of them, or none if the process is killed.

    Each step names open shards (by shard or by range, children of earlier steps included) and the
    ranges that replace them. The caller holds the service's `lock`.
    """
    opened = {(s.starting_hash_key, s.ending_hash_key): s for s in stream.open_shards}
    children: list[Shard] = []
    closing: list[Shard] = []
    number = max(shard.number for shard in stream.shards) + 1
    for parents_given, ranges in steps:
        parents = [p if isinstance(p, Shard) else opened[p] for p in parents_given]
        parents.sort(key=lambda p: p.starting_hash_key)
        for parent in parents:
            del opened[(parent.starting_hash_key, parent.ending_hash_key)]
        closing.extend(parents)
        for start, end in ranges:
            child = _child(number, start, end, parents, now_ms)
            number += 1
            opened[(start, end)] = child
            children.append(child)
    try:
        for child in children:
            kinesis.store.open_log(stream, child)
        _replace(kinesis, stream, closing, children, now_ms)
    except BaseException:
        kinesis.store.discard_shards(stream, children)
        raise


def _child(number: int, start: int, end: int, parents: Sequence[Shard], now_ms: int) -> Shard:
    return Shard(
        number=number,
        starting_hash_key=start,
        ending_hash_key=end,
        created_ms=now_ms,
        # Later than every parent's creation time, so that the children's sequence numbers are above the parents'.
        created_s=max(now_ms // 1000, *(p.created_s + 1 for p in parents)),
        parent=parents[0].shard_id,
        adjacent_parent=parents[1].shard_id if len(parents) > 1 else None,
    )


def _replace(
    kinesis: Kinesis, stream: Stream, closing: list[Shard], children: list[Shard], now_ms: int
) -> None:
    """Store a reshard in one write while the closing shards take no appends, then let requests see it."""
    with contextlib.ExitStack() as held:
        for shard in closing:
            assert shard.log is not None
            held.enter_context(shard.log.lock)
            shard.closed_ms = now_ms
        before = stream.shards
        stream.shards = [*before, *children]
        try:
            kinesis.update(stream, now_ms)
        except BaseException:
            stream.shards = before
            for shard in closing:
                shard.closed_ms = None
            raise
        stream.index_routes()
        for shard in closing:
            assert shard.log is not None
            shard.log.end()
    kinesis.wake(stream)
