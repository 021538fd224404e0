"""One file of a shard log: append-only frames, and a sparse index of them in memory.

A sealed segment's index is kept beside it (`.index`), so that opening a log scans only its last segment;
the file is a cache and is rebuilt when it is missing or wrong.
"""

from __future__ import annotations

import array
import logging
import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from headrace.store import frame
from headrace.store.frame import CorruptFrame, FrameHeader

log = logging.getLogger(__name__)

# One index entry for about so many bytes of log: 24 bytes of memory a step.
INDEX_STEP_BYTES = 16 * 1024
SCAN_CHUNK_BYTES = 4 * 1024 * 1024
SUFFIX = ".log"
_INDEX_SUFFIX = ".index"
_SUMMARY = struct.Struct("<QQQQI")


class Segment:
    """One segment. One writer at a time (the log's lock); readers need no lock.

    Attributes:
        first_index: of the first record it may hold; the file's name.
        end_index: one past the last record.
        size_bytes: bytes that readers may see; what lies beyond is a write in progress.
        last_arrival_ms: of its last record; 0 when it is empty.
    """

    def __init__(self, path: Path, first_index: int, identity: bytes) -> None:
        self.path = path
        self.first_index = first_index
        self.end_index = first_index
        self.identity = identity
        self.size_bytes = 0
        self.first_arrival_ms = 0
        self.last_arrival_ms = 0
        self._indices = array.array("Q")
        self._offsets = array.array("Q")
        self._arrivals = array.array("Q")
        self._next_mark = 0
        self._fd = -1

    # --- opening ------------------------------------------------------------------------------

    @staticmethod
    def file_name(first_index: int) -> str:
        """Return the name of the segment that starts at `first_index`."""
        return f"{first_index:020d}{SUFFIX}"

    @classmethod
    def create(cls, folder: Path, first_index: int, identity: bytes) -> Segment:
        """Make an empty segment."""
        path = folder / cls.file_name(first_index)
        segment = cls(path, first_index, identity)
        segment._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        header = frame.encode_segment_header(first_index, identity)
        os.pwrite(segment._fd, header, 0)
        segment.size_bytes = len(header)
        return segment

    @classmethod
    def open_sealed(cls, path: Path, identity: bytes) -> Segment:
        """Open a segment that takes no more records; scans it only when its index file is no good."""
        segment = cls(path, int(path.stem), identity)
        segment._fd = os.open(path, os.O_RDONLY)
        if not segment._load_index():
            dropped = segment._scan()
            if dropped:
                log.error("%s: %d bytes at its end are damaged and not served", path, dropped)
            segment.save_index()
        return segment

    @classmethod
    def open_tail(cls, path: Path, identity: bytes) -> tuple[Segment, int]:
        """Open the segment that takes new records; returns it and the bytes of a torn end cut off."""
        segment = cls(path, int(path.stem), identity)
        segment._fd = os.open(path, os.O_RDWR)
        file_bytes = os.fstat(segment._fd).st_size
        if file_bytes < frame.SEGMENT_HEADER_BYTES:
            # Killed while making it: nothing in it was acknowledged.
            os.ftruncate(segment._fd, 0)
            os.pwrite(segment._fd, frame.encode_segment_header(segment.first_index, identity), 0)
            segment.size_bytes = frame.SEGMENT_HEADER_BYTES
            return segment, 0
        dropped = segment._scan()
        if dropped:
            os.ftruncate(segment._fd, segment.size_bytes)
        return segment, dropped

    def _scan(self) -> int:
        """Read all frames, fill the index, and return the bytes after the last good one."""
        file_bytes = os.fstat(self._fd).st_size
        self.size_bytes = frame.SEGMENT_HEADER_BYTES
        for offset, header in self._checked_frames(file_bytes):
            self._note(offset, header)
            self.size_bytes = offset + header.frame_bytes
        return file_bytes - self.size_bytes

    def _checked_frames(self, file_bytes: int) -> Iterator[tuple[int, FrameHeader]]:
        offset, expected = frame.SEGMENT_HEADER_BYTES, self.first_index
        while offset < file_bytes:
            start = offset
            chunk = memoryview(os.pread(self._fd, SCAN_CHUNK_BYTES, start))
            while True:
                try:
                    header = frame.decode_header(chunk, offset - start)
                except CorruptFrame:
                    break
                at = offset - start + frame.FRAME_HEADER_BYTES
                payload = chunk[at : at + header.payload_bytes]
                if len(payload) < header.payload_bytes and start + len(chunk) < file_bytes:
                    break
                try:
                    frame.verify(header, payload)
                except CorruptFrame:
                    return
                if header.first_index != expected:
                    return
                yield offset, header
                expected = header.end_index
                offset += header.frame_bytes
            if offset == start:
                if len(chunk) < frame.FRAME_HEADER_BYTES:
                    return
                try:
                    header = frame.decode_header(chunk)
                except CorruptFrame:
                    return
                # A frame larger than a chunk: read it whole.
                payload = os.pread(self._fd, header.payload_bytes, start + frame.FRAME_HEADER_BYTES)
                try:
                    frame.verify(header, payload)
                except CorruptFrame:
                    return
                if header.first_index != expected:
                    return
                yield offset, header
                expected = header.end_index
                offset += header.frame_bytes

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # --- writing ------------------------------------------------------------------------------

    def append(self, data: bytes, header: FrameHeader) -> None:
        """Write one frame. Raises OSError, with the file as it was."""
        try:
            written = os.pwrite(self._fd, data, self.size_bytes)
            while written < len(data):
                written += os.pwrite(self._fd, data[written:], self.size_bytes + written)
        except OSError:
            os.ftruncate(self._fd, self.size_bytes)
            raise
        self._note(self.size_bytes, header)
        # Last: from here on readers see the frame.
        self.size_bytes += len(data)

    def sync(self) -> None:
        """Put what was written on the disk."""
        os.fdatasync(self._fd)

    def _note(self, offset: int, header: FrameHeader) -> None:
        if offset >= self._next_mark:
            self._indices.append(header.first_index)
            self._arrivals.append(header.arrival_ms)
            self._offsets.append(offset)
            self._next_mark = offset + INDEX_STEP_BYTES
        if not self.first_arrival_ms:
            self.first_arrival_ms = header.arrival_ms
        self.end_index = header.end_index
        self.last_arrival_ms = header.arrival_ms

    # --- reading ------------------------------------------------------------------------------

    def offset_near_index(self, index: int) -> int:
        """Return the offset of an indexed frame at or before the one that holds `index`."""
        at = bisect_right(self._indices, index, 0, len(self._offsets)) - 1
        return self._offsets[at] if at >= 0 else frame.SEGMENT_HEADER_BYTES

    def offset_near_arrival(self, timestamp_ms: int) -> int:
        """Return the offset of an indexed frame before every frame that arrived at or after then."""
        # Several marks may share an arrival: go one below the first that is not earlier.
        low, high = 0, len(self._offsets)
        while low < high:
            middle = (low + high) // 2
            if self._arrivals[middle] < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return self._offsets[low - 1] if low else frame.SEGMENT_HEADER_BYTES

    def read(self, offset: int, length_bytes: int) -> bytes:
        """Return up to `length_bytes` of whole and partial frames from `offset` on."""
        return os.pread(self._fd, min(length_bytes, self.size_bytes - offset), offset)

    # --- the index file -----------------------------------------------------------------------

    def save_index(self) -> None:
        """Write the index beside the segment; it may be lost without harm."""
        summary = _SUMMARY.pack(
            self.size_bytes,
            self.end_index,
            self.first_arrival_ms,
            self.last_arrival_ms,
            len(self._offsets),
        )
        body = b"".join(
            (summary, self._indices.tobytes(), self._arrivals.tobytes(), self._offsets.tobytes())
        )
        partial = self.path.with_suffix(".partial")
        partial.write_bytes(struct.pack("<I", zlib.crc32(body)) + body)
        partial.replace(self.path.with_suffix(_INDEX_SUFFIX))

    def _load_index(self) -> bool:
        try:
            data = self.path.with_suffix(_INDEX_SUFFIX).read_bytes()
        except FileNotFoundError:
            return False
        body = data[4:]
        if len(body) < _SUMMARY.size or struct.unpack("<I", data[:4])[0] != zlib.crc32(body):
            return False
        size, end, first_arrival, last_arrival, count = _SUMMARY.unpack_from(body)
        if size != os.fstat(self._fd).st_size or len(body) != _SUMMARY.size + 24 * count:
            return False
        self.size_bytes, self.end_index = size, end
        self.first_arrival_ms, self.last_arrival_ms = first_arrival, last_arrival
        at = _SUMMARY.size
        for column in (self._indices, self._arrivals, self._offsets):
            column.frombytes(body[at : at + 8 * count])
            at += 8 * count
        return True

    def delete(self) -> None:
        """Remove the file and its index. Readers that hold the descriptor go on reading."""
        self.path.with_suffix(_INDEX_SUFFIX).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
