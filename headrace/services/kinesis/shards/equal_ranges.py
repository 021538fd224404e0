"""The splits and merges that give a stream a number of equal shards."""

from __future__ import annotations

from headrace.services.kinesis.limits import HASH_KEYS
from headrace.services.kinesis.shards.reshard import ReshardStep

Range = tuple[int, int]

# Boundaries that differ only by rounding are the same: no shard is split off for a few hash keys.
_SAME_BOUNDARY = HASH_KEYS >> 24


def plan_equal_ranges(ranges: list[Range], target: int) -> list[ReshardStep]:
    """Return steps (ranges to close, ranges to open) that lead to `target` equal ranges.

    First every range is split in two at each target boundary inside it, one boundary after another; then
    neighbours that share a target range are merged, two at a time. So every child has one parent, or two adjacent
    ones: consumers rely on that.
    """
    known = [start for start, _ in ranges]
    cuts: list[int] = []
    for i in range(1, target):
        wanted = i * (HASH_KEYS // target)
        near = min(known, key=lambda boundary: abs(boundary - wanted))
        cuts.append(near if abs(near - wanted) < _SAME_BOUNDARY else wanted)
    steps: list[ReshardStep] = []
    pieces: list[Range] = []
    for start, end in ranges:
        rest = start
        for cut in cuts:
            if rest < cut <= end:
                steps.append(([(rest, end)], [(rest, cut - 1), (cut, end)]))
                pieces.append((rest, cut - 1))
                rest = cut
        pieces.append((rest, end))
    starts = {0, *cuts}
    merged = pieces[0]
    for piece in pieces[1:]:
        if piece[0] in starts:
            merged = piece
            continue
        whole = (merged[0], piece[1])
        steps.append(([merged, piece], [whole]))
        merged = whole
    return steps
