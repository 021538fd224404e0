"""Iterates over the frames of a segment: checks each one, and reports damage or skips it.

Opens the segments of a shard log: cuts off a torn end, finds lost records, and sets the index of the next record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.store import frame
from headrace.store.frame import CorruptFrame, FrameHeader
from headrace.store.losses import UNCERTAIN, KnownLog, LogDamaged, Loss, find_losses
from headrace.store.segment import CUT_SUFFIX, SUFFIX, Segment, SegmentDeleted

READ_CHUNK_BYTES = 1024 * 1024


def frames(
    segment: Segment, offset: int, from_index: int | None
) -> Iterator[tuple[FrameHeader, bytes | memoryview]]:
    """Yield (header, payload) of the frames from the one that holds `from_index` on.

    Every payload is compared with its checksum: damaged records are never served. Frames before `from_index` are
    skipped by the lengths in their headers, unchecked. When this leads to no frame, or past `from_index`, one of those
    headers was damaged, and the frames are read again, each checked. Damage before `from_index` is skipped; when it is
    None, all damage is. Raises LogDamaged, SegmentDeleted.
    """
    end = segment.size_bytes
    # Everything before `sure` was checked; `expected` is the index of the next record, None when it is unknown.
    sure = offset
    expected = segment.first_index if offset == frame.SEGMENT_HEADER_BYTES else None
    chunk, start = memoryview(b""), offset
    while offset != end:
        try:
            if offset > end:
                raise CorruptFrame("a header is damaged")  # the header of a skipped frame
            if len(chunk) - (offset - start) < frame.FRAME_HEADER_BYTES:
                start, chunk = offset, memoryview(segment.read(offset, READ_CHUNK_BYTES))
            header = frame.decode_header(chunk, offset - start)
            if from_index is not None and header.end_index <= from_index:
                offset += header.frame_bytes
                continue
            if len(chunk) - (offset - start) < header.frame_bytes:
                start = offset
                chunk_bytes = max(READ_CHUNK_BYTES, header.frame_bytes)
                chunk = memoryview(segment.read(offset, chunk_bytes))
            at = offset - start + frame.FRAME_HEADER_BYTES
            payload = chunk[at : at + header.payload_bytes]
            frame.verify(header, payload)
            if offset != sure and from_index is not None and header.first_index > from_index:
                raise CorruptFrame("a header is damaged")  # the header of a skipped frame
        except CorruptFrame as error:
            offset = sure = _behind_damage(segment, sure, end, from_index, expected, error)
            chunk, start = memoryview(b""), offset  # the offset may be before the chunk
            continue
        yield header, payload
        expected = header.end_index
        offset = sure = offset + header.frame_bytes
        if from_index is not None:
            from_index = expected


def _behind_damage(
    segment: Segment,
    sure: int,
    end: int,
    from_index: int | None,
    expected: int | None,
    error: CorruptFrame,
) -> int:
    """Return the offset of the next undamaged frame that `frames` yields, or `end`. Raises LogDamaged."""
    data, at = segment.read(sure, end), 0
    while True:
        frame_found = frame.find(data, at, expected or 0)
        following = segment.end_index if frame_found is None else frame_found[1].first_index
        is_damage = frame_found is None or frame_found[0] > at
        if from_index is not None and is_damage and (expected or 0) <= from_index < following:
            first = from_index if expected is None else expected
            raise LogDamaged(
                f"{segment.path}, byte {sure + at}: {error}; of {segment.path.parent.name}, the records"
                f" {first} to {following - 1} are damaged or lost",
                first,
                following,
            ) from error
        if frame_found is None:
            return end
        if from_index is None or frame_found[1].end_index > from_index:
            return sure + frame_found[0]
        expected, at = frame_found[1].end_index, frame_found[0] + frame_found[1].frame_bytes


def first_arrived_at(segment: Segment, timestamp_ms: int) -> int | None:
    """Return the index of a segment's first record that arrived at or after `timestamp_ms`; None without one.

    When damage precedes it, the index of the first lost record, which may have arrived then.
    """
    previous: int | None = None
    offset = segment.index.offset_near_arrival(timestamp_ms)
    try:
        for header, _ in frames(segment, offset, None):
            if header.arrival_ms >= timestamp_ms:
                damaged = previous is not None and previous < header.first_index
                return previous if damaged else header.first_index
            previous = header.end_index
    except SegmentDeleted:
        pass
    return None


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
