"""Going over the frames of a segment: each checked before it is given out, damage told or passed over."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.store import frame
from headrace.store.frame import CorruptFrame, FrameHeader
from headrace.store.losses import LogDamaged
from headrace.store.segment import Segment

READ_CHUNK_BYTES = 1024 * 1024


def frames(
    segment: Segment, offset: int, from_index: int | None
) -> Iterator[tuple[FrameHeader, bytes | memoryview]]:
    """Yield (header, payload) of the frames that hold `from_index` and what follows.

    Every payload is held against its checksum: damaged records are never served. Damage before `from_index` is passed
    over, and, when that is None, all damage. Raises LogDamaged, SegmentDeleted.
    """
    end, expected = segment.size_bytes, from_index or 0
    chunk, start = memoryview(b""), offset
    while offset < end:
        try:
            if len(chunk) - (offset - start) < frame.FRAME_HEADER_BYTES:
                start, chunk = offset, memoryview(segment.read(offset, READ_CHUNK_BYTES))
            header = frame.decode_header(chunk, offset - start)
            if from_index is None or header.end_index > from_index:
                if len(chunk) - (offset - start) < header.frame_bytes:
                    start = offset
                    wanted = max(READ_CHUNK_BYTES, header.frame_bytes)
                    chunk = memoryview(segment.read(offset, wanted))
                at = offset - start + frame.FRAME_HEADER_BYTES
                payload = chunk[at : at + header.payload_bytes]
                frame.verify(header, payload)
                yield header, payload
        except CorruptFrame as error:
            found = frame.find(segment.read(offset, end), 0, expected)
            following = segment.end_index if found is None else found[1].first_index
            if from_index is not None and following > from_index:
                raise LogDamaged(
                    f"{segment.path}, byte {offset}: {error}; of {segment.path.parent.name}, the records"
                    f" {expected} to {following - 1} are damaged or lost",
                    expected,
                    following,
                ) from error
            if found is None:
                return
            offset += found[0]
            continue
        expected = header.end_index
        offset += header.frame_bytes
