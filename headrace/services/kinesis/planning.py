"""From the ranges that a stream has to equal ones, by splits and merges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.services.kinesis.limits import HASH_KEYS

if TYPE_CHECKING:
    from headrace.services.kinesis.service import ReshardStep

Range = tuple[int, int]

# Boundaries that differ by rounding only are the same boundary: no shard is split off for a few hash keys.
_SAME_BOUNDARY = HASH_KEYS >> 24


def plan(ranges: list[Range], target: int) -> list[ReshardStep]:
    """Return steps (ranges to close, ranges to open) that lead to `target` equal ranges.

    First every range is split at each target boundary inside it, in two at a time; then neighbours that
    share a target range are merged, two at a time: every child has one parent, or two adjacent ones, as
    consumers rely on.
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
