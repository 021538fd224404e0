"""The splits and merges that give a stream a number of equal shards."""

from __future__ import annotations

from headrace.services.kinesis.limits import HASH_KEYS
from headrace.services.kinesis.shards.reshard import ReshardStep

Range = tuple[int, int]

# Boundaries that differ only by rounding are the same: no shard is split off for a few hash keys.
_SAME_BOUNDARY = HASH_KEYS >> 24


def plan_equal_ranges(ranges: list[Range], target: int) -> list[ReshardStep]:
    """Return steps (ranges to close, ranges to open) that lead to `target` equal ranges.

    From the lowest hash key on: a range is split in two at each target boundary inside it, and what lies in one
    target range is merged, two neighbours at a time, as soon as it is there. So every child has one parent, or two
    adjacent ones: consumers rely on that. Observed of four shards made three: shards 6, 9 and 10 are open
    (risingwavelabs/risingwave#9961).
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

    AWS documents targets of 25, 50, 75, 100 percent more or less apart from all others, which "might take longer"
    (API_UpdateShardCount). This explains all that was observed: four shards made three leave 11 in all, the open ones
    equal (risingwavelabs/risingwave#9961), four made five 15; ten made thirteen leave 37 and five made three 7, which
    no equal ranges can (moto's tests of UpdateShardCount): there all shards are halved, if more are asked for, and then
    neighbours merged until there are so many. That the percentage decides is assumed.
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
    """Return where target ranges begin, the first excepted: at a boundary that is known, where one is close enough."""
    cuts: list[int] = []
    for i in range(1, target):
        wanted = i * (HASH_KEYS // target)
        near = min(known, key=lambda boundary: abs(boundary - wanted))
        cuts.append(near if abs(near - wanted) < _SAME_BOUNDARY else wanted)
    return cuts


def _merge(steps: list[ReshardStep], merged: Range | None, piece: Range) -> Range:
    """Merge a piece with what stands before it in its target range, and return the whole."""
    if merged is None:
        return piece
    whole = (merged[0], piece[1])
    steps.append(([merged, piece], [whole]))
    return whole
