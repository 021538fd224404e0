"""Splits and merges shards: closes parents and opens their children in one step.

Plans the splits and merges that lead to a given number of equal shards.

Adds shards to on-demand streams as their traffic grows.

Documented: a stream starts with 4 MiB/s of writes and accepts up to twice the highest throughput of the last 30 days,
up to the account's quota; traffic that more than doubles within 15 minutes may be throttled. Assumed: throughput is
measured over whole minutes, in bytes or in records, whichever needs more shards; the shards that took the most records
in the last minute are split in the middle; a stream doubles at most every 15 minutes, and never shrinks.

Retention: deletes the log segments whose records are all older than the stream's retention period.

Checks the quotas: the shards and streams of an account, and the changes of a stream in a day.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Sequence
from typing import Final

from headrace.aws.calls.operation import Call
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import (
    CONSUMERS_PER_ADVANTAGE_STREAM,
    CONSUMERS_PER_STREAM,
    DAY_MS,
    HASH_KEYS,
    ON_DEMAND_SHARD_QUOTA,
    ON_DEMAND_SHARDS,
    ON_DEMAND_STREAM_QUOTA,
    SHARD_QUOTA,
    limit_exceeded,
)
from headrace.services.kinesis.state import Shard, Stream
from headrace.store.folders import discard


def use_daily(stream: Stream, quota: str, limit: int, now_ms: int) -> None:
    """Count one call of an operation with a daily quota. The caller saves the stream. Raises LimitExceededException."""
    used = [at_ms for at_ms in stream.used_ms.get(quota, []) if now_ms - at_ms < DAY_MS]
    if len(used) >= limit:
        raise limit_exceeded(
            f"{quota} can be called {limit} times in a rolling 24-hour period for stream {stream.name}"
            f" under account {stream.account}."
        )
    stream.used_ms[quota] = [*used, now_ms]


def check_on_demand_quota(kinesis: Kinesis, call: Call) -> None:
    """Raise LimitExceededException when one more on-demand stream would exceed the quota."""
    current = sum(
        stream.mode == "ON_DEMAND"
        for stream in list(kinesis.streams.values())
        if (stream.account, stream.region) == (call.account, call.region)
    )
    if current >= ON_DEMAND_STREAM_QUOTA:
        raise limit_exceeded(
            f"This request would exceed the on-demand stream limit for the account {call.account} in {call.region}."
            f" Current on-demand stream count for the account: {current}. Limit: {ON_DEMAND_STREAM_QUOTA}."
        )


def consumer_quota(kinesis: Kinesis, stream: Stream, now_ms: int) -> int:
    """Return how many consumers a stream may have; its queues count too (queues-quotas.html)."""
    advantage = stream.mode == "ON_DEMAND" and kinesis.account_settings.is_committed(
        stream.account, stream.region, now_ms
    )
    return CONSUMERS_PER_ADVANTAGE_STREAM if advantage else CONSUMERS_PER_STREAM


def check_shard_quota(kinesis: Kinesis, call: Call, more: int) -> None:
    """Raise LimitExceededException when `more` provisioned shards would exceed the quota."""
    current = sum(
        len(stream.open_shards)
        for stream in kinesis.streams.values()
        if (stream.account, stream.region) == (call.account, call.region)
        and stream.mode == "PROVISIONED"
    )
    if current + more > SHARD_QUOTA:
        raise limit_exceeded(
            f"This request would exceed the shard limit for the account {call.account} in {call.region}."
            f" Current shard count for the account: {current}. Limit: {SHARD_QUOTA}."
            f" Number of additional shards that would have resulted from this request: {more}."
            " Refer to the AWS Service Limits page"
            " (https://docs.aws.amazon.com/general/latest/gr/aws_service_limits.html) for current limits and how to"
            " request higher limits."
        )


LOOK_EVERY_S = 60.0
MS_PER_HOUR = 3_600_000
SEGMENTS_KEPT = 24


class Retention:
    """A `Worker` that trims every stream, and removes closed shards whose records have all expired."""

    name = "kinesis retention"

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis

    def step(self) -> float:
        """Trim once."""
        kinesis = self._kinesis
        kinesis.remove_deleted()
        now_ms = kinesis.clock.now_ms()
        for stream in list(kinesis.streams.values()):
            horizon_ms = now_ms - stream.retention_hours * MS_PER_HOUR
            for shard in stream.shards:
                if shard.log is not None:
                    # A segment spans an hour with a day's retention, a fortnight with a year's: always few files.
                    shard.log.roll_after_ms = stream.retention_hours * MS_PER_HOUR // SEGMENTS_KEPT
                    shard.log.trim(horizon_ms)
            self._forget_empty_shards(stream, horizon_ms)
        kinesis.mark()
        return LOOK_EVERY_S

    def _forget_empty_shards(self, stream: Stream, horizon_ms: int) -> None:
        kinesis = self._kinesis
        with kinesis.lock:
            if kinesis.by_id.get(stream.stream_id) is not stream:
                return
            gone = [
                s for s in stream.shards if s.closed_ms is not None and s.closed_ms < horizon_ms
            ]
            if not gone:
                return
            for shard in gone:
                if shard.log is not None:
                    kinesis.store.marks.forget(shard.log.folder)
            before = stream.shards
            stream.shards = [shard for shard in before if shard not in gone]
            try:
                kinesis.save(stream, frees=True)
            except BaseException:
                stream.shards = before
                raise
        for shard in gone:
            if shard.log is not None:
                discard(shard.log.folder)


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
            shard.set_closed(now_ms)
        before = stream.shards
        stream.shards = [*before, *children]
        try:
            kinesis.update(stream, now_ms)
        except BaseException:
            stream.shards = before
            for shard in closing:
                shard.set_closed(None)
            raise
        stream.index_routes()
        for shard in closing:
            assert shard.log is not None
            shard.log.end()
    kinesis.wake(stream)


Range = tuple[int, int]

# Boundaries closer than this differ only by rounding and count as one: no shard is made for a few hash keys.
_SAME_BOUNDARY = HASH_KEYS >> 24


def plan_equal_ranges(ranges: list[Range], target: int) -> list[ReshardStep]:
    """Return steps (ranges to close, ranges to open) that lead to `target` equal ranges.

    It goes through the ranges from the lowest hash key up. It splits a range at each target boundary inside it, and
    merges the pieces of one target range with their neighbour as soon as both exist. So every child has one parent or
    two adjacent parents, and consumers rely on that. Observed: when four shards become three, shards 6, 9 and 10 are
    open (risingwavelabs/risingwave#9961).
    """
    cuts = _cuts([start for start, _ in ranges], target)
    steps: list[ReshardStep] = []
    merged: Range | None = None
    for start, end in ranges:
        rest = start
        for cut in cuts:
            if rest < cut <= end:
                steps.append(([(rest, end)], [(rest, cut - 1), (cut, end)]))
                _merge(steps, merged, (rest, cut - 1))
                merged, rest = None, cut
        merged = _merge(steps, merged, (rest, end))
        if end + 1 in cuts:
            merged = None
    return steps


def plan_shard_count(ranges: list[Range], target: int) -> list[ReshardStep]:
    """Return the steps of UpdateShardCount.

    AWS recommends targets that are multiples of 25 percent of the present number; others "might take longer"
    (API_UpdateShardCount). A target that is such a multiple gets equal ranges. For any other target, all shards are
    halved if the target is larger, and then neighbours are merged until the target is reached.

    Observed: four shards become three with 11 shards in all and equal open shards (risingwavelabs/risingwave#9961);
    four become five with 15; ten become thirteen with 37; five become three with 7 (moto's tests of UpdateShardCount).
    The last two are impossible with equal ranges. That the percentage decides is assumed.
    """
    if target * 4 % len(ranges) == 0:
        return plan_equal_ranges(ranges, target)
    steps: list[ReshardStep] = []
    opened = list(ranges)
    if target > len(opened):
        opened = [half for whole in ranges for half in _halves(whole)]
        steps += [([whole], _halves(whole)) for whole in ranges if len(_halves(whole)) == 2]
    while len(opened) > target:
        pairs = min(len(opened) // 2, len(opened) - target)
        merged = [(opened[2 * i][0], opened[2 * i + 1][1]) for i in range(pairs)]
        steps += [([opened[2 * i], opened[2 * i + 1]], [merged[i]]) for i in range(pairs)]
        opened = [*merged, *opened[2 * pairs :]]
    return steps


def _halves(whole: Range) -> list[Range]:
    start, end = whole
    middle = (start + end + 1) // 2
    return [whole] if end - start < 2 else [(start, middle - 1), (middle, end)]


def _cuts(known: list[int], target: int) -> list[int]:
    """Return where the target ranges after the first begin. A known boundary is used if it is close enough."""
    cuts: list[int] = []
    for i in range(1, target):
        ideal = i * (HASH_KEYS // target)
        near = min(known, key=lambda boundary: abs(boundary - ideal))
        cuts.append(near if abs(near - ideal) < _SAME_BOUNDARY else ideal)
    return cuts


def _merge(steps: list[ReshardStep], merged: Range | None, piece: Range) -> Range:
    """Merge a piece with the merged pieces before it in its target range, if any, and return the result."""
    if merged is None:
        return piece
    whole = (merged[0], piece[1])
    steps.append(([merged, piece], [whole]))
    return whole


log = logging.getLogger(__name__)

MINUTE_S: Final = 60
PEAK_DAYS: Final = 30
DOUBLES_EVERY_MS: Final = 15 * 60_000
SHARD_BYTES_PER_S: Final = 1024 * 1024
SHARD_RECORDS_PER_S: Final = 1000


class Growth:
    """Splits shards of on-demand streams according to each minute's traffic. Only one thread may use it at a time."""

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis
        self._grown_ms: dict[str, int] = {}
        # By stream id and shard number: the index that the next record had a minute ago.
        self._seen: dict[str, dict[int, int]] = {}

    def forget_deleted(self) -> None:
        """Drop the data about streams that were deleted."""
        present = self._kinesis.by_id
        self._grown_ms = {i: at for i, at in self._grown_ms.items() if i in present}
        self._seen = {i: seen for i, seen in self._seen.items() if i in present}

    def note_minute(self, stream: Stream, arrived_bytes: int, records: int, now_ms: int) -> None:
        """Record a stream's traffic in the last minute, and split shards if the stream needs more of them."""
        if stream.mode != "ON_DEMAND":
            self._grown_ms.pop(stream.stream_id, None)
            self._seen.pop(stream.stream_id, None)
            return
        kinesis = self._kinesis
        with kinesis.lock:
            if kinesis.by_id.get(stream.stream_id) is not stream:
                return
            weights = self._weights(stream)
            used = max(arrived_bytes / SHARD_BYTES_PER_S, records / SHARD_RECORDS_PER_S) / MINUTE_S
            self._note_peak(stream, used, now_ms)
            more = count_needed_shards(stream, now_ms) - len(stream.open_shards)
            if more > 0 and self._may_grow(stream, now_ms):
                self._grow(stream, min(more, len(stream.open_shards)), weights, now_ms)

    def _weights(self, stream: Stream) -> dict[int, int]:
        """Return how many records each open shard took since the last minute."""
        at = {s.number: s.log.next_index for s in stream.open_shards if s.log is not None}
        before = self._seen.get(stream.stream_id, {})
        self._seen[stream.stream_id] = at
        return {number: index - before.get(number, 0) for number, index in at.items()}

    def _note_peak(self, stream: Stream, used: float, now_ms: int) -> None:
        day = now_ms // DAY_MS
        if used <= stream.daily_peaks.get(str(day), 0):
            return
        kept = {d: peak for d, peak in stream.daily_peaks.items() if day - int(d) < PEAK_DAYS}
        stream.daily_peaks = {**kept, str(day): used}
        self._kinesis.save(stream)

    def _may_grow(self, stream: Stream, now_ms: int) -> bool:
        if stream.status(now_ms) != "ACTIVE":
            return False
        return now_ms - self._grown_ms.get(stream.stream_id, -DOUBLES_EVERY_MS) >= DOUBLES_EVERY_MS

    def _grow(self, stream: Stream, more: int, weights: dict[int, int], now_ms: int) -> None:
        hottest = sorted(
            (shard for shard in stream.open_shards if _width(shard) > 2),
            key=lambda shard: (-weights.get(shard.number, 0), -_width(shard), shard.number),
        )
        steps: list[ReshardStep] = []
        for shard in hottest[:more]:
            middle = (shard.starting_hash_key + shard.ending_hash_key + 1) // 2
            first = (shard.starting_hash_key, middle - 1)
            steps.append(([shard], [first, (middle, shard.ending_hash_key)]))
        before = len(stream.open_shards)
        reshard(self._kinesis, stream, steps, now_ms)
        self._grown_ms[stream.stream_id] = now_ms
        log.info("%s grew from %d to %d shards", stream.arn, before, len(stream.open_shards))


def count_needed_shards(stream: Stream, now_ms: int) -> int:
    """Return how many shards an on-demand stream needs for twice its peak traffic, within its minimum and maximum."""
    day = now_ms // DAY_MS
    peaks = [peak for d, peak in stream.daily_peaks.items() if day - int(d) < PEAK_DAYS]
    least = max(ON_DEMAND_SHARDS, stream.warm_throughput_mibps or 0)
    most = max(least, ON_DEMAND_SHARD_QUOTA)
    return min(most, max(least, math.ceil(2 * max(peaks, default=0.0))))


def _width(shard: Shard) -> int:
    return shard.ending_hash_key - shard.starting_hash_key + 1
