"""Opens the segments of a shard log: cuts off a torn end, finds lost records, and sets the index of the next record."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from headrace.store import frame
from headrace.store.frame import CorruptFrame
from headrace.store.losses import UNCERTAIN, KnownLog, Loss, find_losses
from headrace.store.segment import CUT_SUFFIX, SUFFIX, Segment

log = logging.getLogger(__name__)

FIRST_INDEX = 1


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """The contents of a log's folder.

    Attributes:
        segments: in order; the last one takes the next records.
        losses: the records that are missing.
        dropped_bytes: the size of a torn end, which was cut off and kept beside the segment.
    """

    segments: list[Segment]
    losses: list[Loss]
    dropped_bytes: int


def open_segments(folder: Path, identity: bytes, known: KnownLog) -> OpenedLog:
    """Open the segments in `folder`, which is made when missing; `known` is the log's entry in the state database.

    A damaged segment does not prevent opening the log: it counts as a loss. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    unreadable: dict[int, tuple[Path, str]] = {}
    claimed = known.end_index
    opened: list[Segment] = []
    tail_is_good = False
    dropped_bytes = 0
    for path in paths:
        try:
            if path == paths[-1]:
                segment, dropped_bytes = _open_tail(path, identity, known)
                tail_is_good = True
            else:
                segment = Segment.open_sealed(path, identity)
        except CorruptFrame as error:
            unreadable[int(path.stem)] = (path, str(error))
            claimed = max(claimed, Segment.read_claimed_end(path, identity))
            continue
        opened.append(segment)
    end_index = opened[-1].end_index if opened else FIRST_INDEX
    claimed = max([claimed, end_index, *(segment.claimed_end_index for segment in opened)])
    if not tail_is_good or claimed > end_index:
        # An index is never used twice: skip those that records after the last mark may have had.
        fresh = not paths and claimed <= FIRST_INDEX
        following = FIRST_INDEX if fresh else max([claimed, *unreadable]) + UNCERTAIN
        opened.append(Segment.create(folder, following, identity))
    return OpenedLog(opened, find_losses(opened, unreadable, known, claimed), dropped_bytes)


def _open_tail(path: Path, identity: bytes, known: KnownLog) -> tuple[Segment, int]:
    """Return the last segment, and how many bytes were cut off its end. Raises CorruptFrame, OSError."""
    first_index = int(path.stem)
    if known.end_index > first_index and path.stat().st_size < frame.SEGMENT_HEADER_BYTES:
        raise CorruptFrame("the segment was emptied")
    tail, dropped_bytes = Segment.open_tail(path, identity)
    if dropped_bytes:
        log.warning(
            "%s: cut %d bytes of a write that did not finish; they are kept in %s",
            tail.path,
            dropped_bytes,
            tail.path.with_suffix(CUT_SUFFIX).name,
        )
    return tail, dropped_bytes
