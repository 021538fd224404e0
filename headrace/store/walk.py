"""Iterates over the frames of a segment: checks each one, and reports damage or skips it."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.store import frame
from headrace.store.frame import CorruptFrame, FrameHeader
from headrace.store.losses import LogDamaged
from headrace.store.segment import Segment, SegmentDeleted

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
