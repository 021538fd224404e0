"""Plans the splits and merges that lead to a given number of equal shards."""

from __future__ import annotations

from headrace.services.kinesis.limits import HASH_KEYS
from headrace.services.kinesis.shards.reshard import ReshardStep

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
