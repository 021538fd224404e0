"""The sparse index of a segment, in memory and in a file: where to begin reading for a record's index or a time.

An index file says how far the segment had been written when the index was saved, so that opening a log scans from
there. The file is a cache: one that is missing, damaged, or from another segment is rebuilt from the segment.
"""

from __future__ import annotations

import array
import struct
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from headrace.store import frame

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
    """The entries, in memory. Only the log's writer adds entries; readers need no lock."""

    def __init__(self) -> None:
        self._indices = array.array("Q")
        self._arrivals = array.array("Q")
        self._offsets = array.array("Q")
        self._next_mark = 0

    def note(self, offset: int, first_index: int, arrival_ms: int) -> None:
        """Add an entry for the frame at `offset`, if one is due."""
        if offset >= self._next_mark:
            self._indices.append(first_index)
            self._arrivals.append(arrival_ms)
            # Appended last: readers use the length of this list.
            self._offsets.append(offset)
            self._next_mark = offset + INDEX_STEP_BYTES

    def offset_near_index(self, index: int) -> int:
        """Return the offset of an indexed frame at or before the one that holds `index`."""
        at = bisect_right(self._indices, index, 0, len(self._offsets)) - 1
        return self._offsets[at] if at >= 0 else frame.SEGMENT_HEADER_BYTES

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
        return self._offsets[low - 1] if low else frame.SEGMENT_HEADER_BYTES

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
            self._next_mark = self._offsets[-1] + INDEX_STEP_BYTES
        return Extent(fields[4], fields[5], fields[6], fields[7], fields[3], fields[2])


def boot_id() -> bytes:
    """Return 16 bytes that change with every start of the system; zeros when it has no boot id (not Linux)."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return bytes.fromhex(text.replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)
