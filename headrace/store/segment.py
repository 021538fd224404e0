"""One file of a shard log: append-only frames, and a sparse index of them in memory.

The index is saved beside the segment (`.index`) when the segment is sealed, and from time to time while it takes
records, so that opening a log reads only the frames after the last save.

An index file says where to begin reading for a record's index or a time, and how far the segment had been written when
the index was saved. The file is a cache: one that is missing, damaged, or from another segment is rebuilt from the
segment.
"""

from __future__ import annotations

import array
import logging
import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.store import frame
from headrace.store.frame import SEGMENT_HEADER_BYTES, CorruptFrame, FrameHeader

log = logging.getLogger(__name__)

# The index of the segment that takes records is saved after this many bytes, the most that a restart has to scan.
SAVE_INDEX_EVERY_BYTES = 32 * 1024 * 1024
SCAN_CHUNK_BYTES = 4 * 1024 * 1024
SUFFIX = ".log"
CUT_SUFFIX = ".cut"
# One entry for about this many bytes of log; an entry takes 24 bytes of memory.
INDEX_STEP_BYTES = 16 * 1024
INDEX_SUFFIX = ".index"
_MAGIC = b"HRIDX\x00\x00\x02"
_CRC = struct.Struct("<I")
# first index | shard's identity | boot | sealed | bytes | end index | first arrival | last arrival | entries
_HEAD = struct.Struct("<Q32s16s?QQQQI")


class WrongIndex(ValueError):
    """The file is not this segment's index, or is damaged."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a segment.

    Attributes:
        size_bytes: the size of the complete frames and the segment's header.
        end_index: one past the last record.
        first_arrival_ms, last_arrival_ms: 0 when it is empty.
        sealed: the segment took no more records.
        boot: the system's boot id when the index was saved (16 bytes), all zero when unknown. Writes that the kernel
            still buffered are certain to be in the file only until the system restarts.
    """

    size_bytes: int
    end_index: int
    first_arrival_ms: int
    last_arrival_ms: int
    sealed: bool
    boot: bytes


class SparseIndex:
    """The entries of a segment's index, in memory. Only the log's writer adds entries; readers need no lock.

    `next_mark` is the offset from which on the next frame gets an entry.
    """

    def __init__(self) -> None:
        self._indices = array.array("Q")
        self._arrivals = array.array("Q")
        self._offsets = array.array("Q")
        self.next_mark = 0

    def note(self, offset: int, first_index: int, arrival_ms: int) -> None:
        """Add an entry for the frame at `offset`, which is at `next_mark` or beyond."""
        self._indices.append(first_index)
        self._arrivals.append(arrival_ms)
        # Appended last: readers use the length of this list.
        self._offsets.append(offset)
        self.next_mark = offset + INDEX_STEP_BYTES

    def offset_near_index(self, index: int) -> int:
        """Return the offset of an indexed frame at or before the one that holds `index`."""
        at = bisect_right(self._indices, index, 0, len(self._offsets)) - 1
        return self._offsets[at] if at >= 0 else SEGMENT_HEADER_BYTES

    def offset_near_arrival(self, timestamp_ms: int) -> int:
        """Return the offset of an indexed frame before every frame that arrived at or after `timestamp_ms`."""
        # Several entries may have the same arrival: take the entry before the first that is not earlier.
        low, high = 0, len(self._offsets)
        while low < high:
            middle = (low + high) // 2
            if self._arrivals[middle] < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return self._offsets[low - 1] if low else SEGMENT_HEADER_BYTES

    # --- the file -----------------------------------------------------------------------------

    def save(self, path: Path, first_index: int, identity: bytes, extent: Extent) -> None:
        """Write the index file completely or, when that fails, leave the old one. Raises OSError."""
        count = len(self._offsets)
        head = _HEAD.pack(
            first_index,
            identity,
            extent.boot,
            extent.sealed,
            extent.size_bytes,
            extent.end_index,
            extent.first_arrival_ms,
            extent.last_arrival_ms,
            count,
        )
        columns = (self._indices, self._arrivals, self._offsets)
        body = b"".join((_MAGIC, head, *(column[:count].tobytes() for column in columns)))
        partial = path.with_suffix(".partial")
        try:
            partial.write_bytes(_CRC.pack(zlib.crc32(body)) + body)
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise

    def load(self, path: Path, first_index: int, identity: bytes) -> Extent:
        """Read the file into this empty index. Raises WrongIndex, OSError."""
        data = path.read_bytes()
        head_at = _CRC.size + len(_MAGIC)
        columns_at = head_at + _HEAD.size
        if len(data) < columns_at or not data.startswith(_MAGIC, _CRC.size):
            raise WrongIndex("it is no index file")
        if _CRC.unpack_from(data)[0] != zlib.crc32(memoryview(data)[_CRC.size :]):
            raise WrongIndex("the checksum does not match")
        fields = _HEAD.unpack_from(data, head_at)
        count = fields[8]
        if (
            fields[0] != first_index
            or fields[1] != identity
            or (len(data) != columns_at + 24 * count)
        ):
            raise WrongIndex("it belongs to another segment")
        for column in (self._indices, self._arrivals, self._offsets):
            column.frombytes(data[columns_at : columns_at + 8 * count])
            columns_at += 8 * count
        if count:
            self.next_mark = self._offsets[-1] + INDEX_STEP_BYTES
        return Extent(fields[4], fields[5], fields[6], fields[7], fields[3], fields[2])


def boot_id() -> bytes:
    """Return 16 bytes that change with every start of the system; zeros when it has no boot id (not Linux)."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return bytes.fromhex(text.replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)


_BOOT = boot_id()


class SegmentDeleted(Exception):
    """Retention has deleted the segment that was to be read."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Damage in the middle of a segment: bytes that are not frames, and the records that are missing there."""

    offset: int
    end_offset: int
    first_index: int
    end_index: int


class _File:
    """A file descriptor that is closed when its last reader has finished, so that none reads a reused descriptor."""

    __slots__ = ("fd",)

    def __init__(self, path: Path, flags: int) -> None:
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        # Absent when opening failed.
        fd = getattr(self, "fd", None)
        if fd is not None:
            os.close(fd)


class Segment:
    """One segment. One writer at a time (the log's lock); readers need no lock.

    Only the segment that takes records keeps its file open: a year of sealed ones would use up the
    process's descriptors.

    Attributes:
        index: where to begin reading for a record or a time.
        first_index: the index of the first record that it may hold, and the file's name.
        end_index: one past the last record.
        size_bytes: the bytes that readers may see; bytes beyond are a write in progress.
        last_arrival_ms: when its last record arrived; 0 when it is empty.
        holes: damage that was found when the segment was scanned; none when its index file was trusted.
        is_complete: the index file says that it ends where it was sealed.
        claimed_end_index: the end index in the index file, when the segment now ends before it.
    """

    def __init__(self, path: Path, first_index: int, identity: bytes) -> None:
        self.path = path
        self.first_index = first_index
        self.end_index = first_index
        self.identity = identity
        self.size_bytes = 0
        self.first_arrival_ms = 0
        self.last_arrival_ms = 0
        self.holes: list[Hole] = []
        self.claimed_end_index = first_index
        self.is_complete = False
        self.index = SparseIndex()
        self._saved_bytes = 0
        self._file: _File | None = None

    # --- opening ------------------------------------------------------------------------------

    @staticmethod
    def file_name(first_index: int) -> str:
        """Return the name of the segment that starts at `first_index`."""
        return f"{first_index:020d}{SUFFIX}"

    @classmethod
    def create(cls, folder: Path, first_index: int, identity: bytes) -> Segment:
        """Create an empty segment. Raises OSError, with no file left."""
        path = folder / cls.file_name(first_index)
        segment = cls(path, first_index, identity)
        try:
            segment._file = _File(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            segment._write_header()
        except OSError:
            # A file left behind would be taken for the log's last segment at the next start.
            path.unlink(missing_ok=True)
            raise
        return segment

    @classmethod
    def open_sealed(cls, path: Path, identity: bytes) -> Segment:
        """Open a segment that takes no more records; scans it only when its index file cannot be used.

        Raises CorruptFrame when it is empty, belongs to another shard, or has a damaged header.
        """
        segment = cls(path, int(path.stem), identity)
        file = _File(path, os.O_RDONLY)
        segment._check_header(file)
        file_bytes = os.fstat(file.fd).st_size
        extent = segment._load_index()
        if extent is None or not extent.sealed or extent.size_bytes != file_bytes:
            segment.index = SparseIndex()
            dropped = segment._scan(file)
            if dropped:
                log.error("%s: %d bytes at its end are damaged and not served", path, dropped)
            if segment.holes or dropped:
                # The next start finds the damage again, and reports it again.
                segment._index_path.unlink(missing_ok=True)
            else:
                segment._try_to_save_index(sealed=True)
        else:
            segment._take(extent)
            segment.is_complete = True
        return segment

    @classmethod
    def open_tail(cls, path: Path, identity: bytes) -> tuple[Segment, int]:
        """Open the segment that takes new records; returns it and the bytes of a torn end cut off.

        The bytes that are cut off are kept beside the segment (`.cut`). Damage with undamaged records behind it is not
        a torn end: it stays, and is listed in `holes`. Raises CorruptFrame when the segment belongs to another shard,
        has a damaged header, or is empty although its index file lists records.
        """
        segment = cls(path, int(path.stem), identity)
        segment._file = file = _File(path, os.O_RDWR)
        extent = segment._load_index()
        segment.claimed_end_index = segment._find_claimed_end(extent)
        if os.fstat(file.fd).st_size < SEGMENT_HEADER_BYTES:
            if segment.claimed_end_index > segment.first_index:
                raise CorruptFrame("the segment was emptied")
            # The process was killed while creating it: no record in it was acknowledged.
            os.ftruncate(file.fd, 0)
            segment._write_header()
            return segment, 0
        segment._check_header(file)
        known = extent is not None and extent.size_bytes <= os.fstat(file.fd).st_size
        # After a power cut the kernel may have kept the index file, but not every record that it lists.
        if extent is not None and known and any(_BOOT) and extent.boot == _BOOT:
            segment._take(extent)
        else:
            segment.index = SparseIndex()
            # The index file must not be trusted once the segment has grown past the end that it names.
            segment._index_path.unlink(missing_ok=True)
        dropped = segment._scan(file)
        if dropped:
            torn = os.pread(file.fd, dropped, segment.size_bytes)
            path.with_suffix(CUT_SUFFIX).write_bytes(torn)
            os.ftruncate(file.fd, segment.size_bytes)
        return segment, dropped

    @classmethod
    def read_claimed_end(cls, path: Path, identity: bytes) -> int:
        """Return one past the last record that a segment's index file lists; the first index without an index file."""
        segment = cls(path, int(path.stem), identity)
        return segment._find_claimed_end(segment._load_index())

    def _find_claimed_end(self, extent: Extent | None) -> int:
        # Records in the index of an earlier boot may have been lost in a power cut, and were not promised to survive
        # it.
        return self.first_index if extent is None or extent.boot != _BOOT else extent.end_index

    def _write_header(self) -> None:
        assert self._file is not None
        header = frame.encode_segment_header(self.first_index, self.identity)
        _write_all(self._file.fd, header, 0)
        self.size_bytes = len(header)

    def _check_header(self, file: _File) -> None:
        header = os.pread(file.fd, SEGMENT_HEADER_BYTES, 0)
        if not header:
            raise CorruptFrame("the segment was emptied")
        first_index, identity = frame.decode_segment_header(header)
        if identity != self.identity:
            raise CorruptFrame("the segment belongs to another shard")
        if first_index != self.first_index:
            raise CorruptFrame(
                f"the segment is named {self.first_index} but starts at {first_index}"
            )

    def _scan(self, file: _File) -> int:
        """Read the frames that the index does not list, and return how many bytes follow the last good one."""
        file_bytes = os.fstat(file.fd).st_size
        self.size_bytes = max(self.size_bytes, SEGMENT_HEADER_BYTES)
        while True:
            for offset, header in self._walk_sound_frames(file, file_bytes):
                self._note(offset, header.first_index, header.count, header.arrival_ms)
                self.size_bytes = offset + header.frame_bytes
            behind = self._find_behind_damage(file, file_bytes)
            if behind is None:
                return file_bytes - self.size_bytes
            offset, header = behind
            self.holes.append(Hole(self.size_bytes, offset, self.end_index, header.first_index))
            self.size_bytes, self.end_index = offset, header.first_index

    def _find_behind_damage(self, file: _File, file_bytes: int) -> tuple[int, FrameHeader] | None:
        if self.size_bytes >= file_bytes:
            return None
        rest = os.pread(file.fd, file_bytes - self.size_bytes, self.size_bytes)
        frame_found = frame.find(rest, 0, self.end_index)
        return None if frame_found is None else (self.size_bytes + frame_found[0], frame_found[1])

    def _walk_sound_frames(self, file: _File, file_bytes: int) -> Iterator[tuple[int, FrameHeader]]:
        """Yield (offset, header) of frames up to the first that is cut off, damaged or out of order."""
        offset, expected = self.size_bytes, self.end_index
        start, chunk = offset, memoryview(b"")
        while offset < file_bytes:
            try:
                if len(chunk) - (offset - start) < frame.FRAME_HEADER_BYTES:
                    start, chunk = offset, memoryview(os.pread(file.fd, SCAN_CHUNK_BYTES, offset))
                header = frame.decode_header(chunk, offset - start)
                if len(chunk) - (offset - start) < header.frame_bytes:
                    chunk_bytes = max(SCAN_CHUNK_BYTES, header.frame_bytes)
                    start, chunk = offset, memoryview(os.pread(file.fd, chunk_bytes, offset))
                at = offset - start + frame.FRAME_HEADER_BYTES
                frame.verify(header, chunk[at : at + header.payload_bytes])
            except CorruptFrame:
                return
            if header.first_index != expected:
                return
            yield offset, header
            expected = header.end_index
            offset += header.frame_bytes

    def seal(self) -> None:
        """Take no more records: close the file, and save the index beside it."""
        self._file = None
        self._try_to_save_index(sealed=True)

    def close(self) -> None:
        """Close the file once no reader uses it, and save the index, so that the next start need not scan it."""
        if self._file is not None and self.size_bytes != self._saved_bytes:
            self._try_to_save_index(sealed=False)
        self._file = None

    # --- writing ------------------------------------------------------------------------------

    def append(self, data: bytes, first_index: int, count: int, arrival_ms: int) -> None:
        """Write one frame. Raises OSError, with the file unchanged."""
        assert self._file is not None
        fd, offset = self._file.fd, self.size_bytes
        try:
            written = os.pwrite(fd, data, offset)
            if written < len(data):
                _write_all(fd, data[written:], offset + written)
        except OSError:
            os.ftruncate(fd, offset)
            raise
        self._note(offset, first_index, count, arrival_ms)
        # Set last: from here on readers see the frame.
        self.size_bytes = offset = offset + len(data)
        if offset - self._saved_bytes >= SAVE_INDEX_EVERY_BYTES:
            self._try_to_save_index(sealed=False)

    def sync(self) -> None:
        """Sync the written frames to the disk."""
        file = self._file or self._reopen()
        if file is not None:
            os.fsync(file.fd)

    def _reopen(self) -> _File | None:
        """Open a sealed segment for one operation; None when retention has deleted it."""
        try:
            return _File(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None

    def _note(self, offset: int, first_index: int, count: int, arrival_ms: int) -> None:
        if offset >= self.index.next_mark:
            self.index.note(offset, first_index, arrival_ms)
        if not self.first_arrival_ms:
            self.first_arrival_ms = arrival_ms
        self.end_index = first_index + count
        self.last_arrival_ms = arrival_ms

    # --- reading ------------------------------------------------------------------------------

    def read(self, offset: int, length_bytes: int) -> bytes:
        """Return up to `length_bytes` of whole and partial frames from `offset` on.

        Raises SegmentDeleted when retention has deleted the segment meanwhile.
        """
        # A local reference, since the segment may be sealed meanwhile.
        file = self._file or self._reopen()
        if file is None:
            raise SegmentDeleted(self.path)
        return os.pread(file.fd, min(length_bytes, self.size_bytes - offset), offset)

    # --- the index file -----------------------------------------------------------------------

    def save_index(self, *, sealed: bool) -> None:
        """Write the index beside the segment; losing it does no harm. Raises OSError."""
        self._saved_bytes = self.size_bytes
        extent = Extent(
            self.size_bytes,
            self.end_index,
            self.first_arrival_ms,
            self.last_arrival_ms,
            sealed,
            _BOOT,
        )
        self.index.save(self._index_path, self.first_index, self.identity, extent)

    def _try_to_save_index(self, *, sealed: bool) -> None:
        if self.holes:
            return  # the next start would trust an index file, and miss the damage
        try:
            self.save_index(sealed=sealed)
        except OSError as error:
            log.warning("%s: its index is not kept: %s", self.path, error)

    @property
    def _index_path(self) -> Path:
        return self.path.with_suffix(INDEX_SUFFIX)

    def _load_index(self) -> Extent | None:
        try:
            return self.index.load(self._index_path, self.first_index, self.identity)
        except FileNotFoundError:
            return None
        except (WrongIndex, OSError) as error:
            log.warning("%s: made anew: %s", self._index_path, error)
            return None

    def _take(self, extent: Extent) -> None:
        self.size_bytes = self._saved_bytes = extent.size_bytes
        self.end_index = extent.end_index
        self.first_arrival_ms = extent.first_arrival_ms
        self.last_arrival_ms = extent.last_arrival_ms

    def delete(self) -> None:
        """Delete the file and its index. A read that has begun continues."""
        self._file = None
        self._index_path.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


def _write_all(fd: int, data: bytes, offset: int) -> None:
    """Write all of `data`; a full disk may accept a part before it raises."""
    written = os.pwrite(fd, data, offset)
    while written < len(data):
        written += os.pwrite(fd, data[written:], offset + written)
