"""The format of a batch of records in a segment file: a header with length and checksum, then the records.

The records are the JSON objects that GetRecords sends, joined by SEPARATOR. The separator's newline never occurs inside
a record (base64 has none, JSON escapes it), so a batch can be split into records without parsing.

    frame   = magic u32 | crc32 u32 | payload length u32 | count u32 | data bytes u32 | first index u64
              | arrival ms u64 | payload
    segment = magic 8 bytes | crc32 u32 | first index u64 | shard's identity 32 bytes | frames

All integers little-endian; checksums cover everything after themselves.

`Batch`: the records that a read of a shard log found. `SharedFrame`: records of many requests that it will have.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Callable, Sequence

import msgspec

from headrace.store.sequence import STEP


class Batch(msgspec.Struct, frozen=True):
    """The records that a read of a shard log found.

    Attributes:
        payloads: JSON objects (in a Firehose journal: JSON strings) joined by `frame.SEPARATOR`, in order; views of the
            bytes that were read.
        starts: for each payload, the index of its first record, and when its records arrived, in milliseconds.
        count: how many records there are in total.
        data_bytes: the decoded size of the records; for a part of a frame it is estimated in proportion.
        next_index: the index at which the next read starts.
        last_arrival_ms: when the last record arrived; None when there is none.
    """

    payloads: list[bytes | memoryview]
    starts: list[tuple[int, int]]
    count: int
    data_bytes: int
    next_index: int
    last_arrival_ms: int | None


class SharedFrame:
    """Records of several requests that become one frame, written once: see `ShardLog.append_shared`.

    Attributes:
        arrival_ms: when its records arrived.
        sizes: the decoded size in bytes of each record.
        is_written: the operating system has the frame.
        then: called by the first `write` that finds the frame written.
    """

    __slots__ = (
        "_arrival",
        "_next_number",
        "_texts",
        "_write",
        "arrival_ms",
        "is_written",
        "sizes",
        "then",
    )

    def __init__(
        self, number: int, arrival_ms: int, write_now: Callable[[SharedFrame], None]
    ) -> None:
        """Begin a frame.

        Args:
            number: the sequence number of its first record.
            arrival_ms: when its records arrived.
            write_now: writes the frame unless that was tried, and sets `is_written` if that succeeds.
        """
        self.arrival_ms = arrival_ms
        self.sizes: list[int] = []
        self.is_written = False
        self.then: Callable[[SharedFrame], None] | None = None
        self._next_number = number
        self._arrival = arrival_of(arrival_ms)
        self._texts: list[str] = []
        self._write = write_now

    def add(self, data: str, key: str, data_bytes: int, tail: str) -> str:
        """Add a record, and return its sequence number. The caller holds the log's lock."""
        number = str(self._next_number)
        self._next_number += STEP
        self._texts.append(render_one(number, data, key, self._arrival, tail))
        self.sizes.append(data_bytes)
        return number

    @property
    def payload(self) -> bytes:
        """The records, joined as a frame has them."""
        return ",\n".join(self._texts).encode("ascii")

    def write(self) -> bool:
        """Write the frame unless that was tried; return whether the operating system has it.

        False: no record of it is in the log, nor will be.
        """
        if not self.is_written:
            self._write(self)
        if self.is_written and self.then is not None:
            then, self.then = self.then, None
            then(self)
        return self.is_written


SEPARATOR = b",\n"
_START = '{"SequenceNumber":"'
_KEY = '","PartitionKey":"'

_FRAME = struct.Struct("<IIIIIQQ")
_FRAME_START = struct.Struct("<II")
_FRAME_REST = struct.Struct("<IIIQQ")
FRAME_HEADER_BYTES = _FRAME.size
_FRAME_MAGIC = 0x31425248  # "HRB1"
_FRAME_MAGIC_BYTES = struct.pack("<I", _FRAME_MAGIC)

_SEGMENT = struct.Struct("<8sIQ32s")
_SEGMENT_REST = struct.Struct("<Q32s")
SEGMENT_HEADER_BYTES = _SEGMENT.size
_SEGMENT_MAGIC = b"HRSEG\x00\x00\x01"

# A request has at most 10 MiB of data; base64 and keys add half as much again.
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024


class CorruptFrame(ValueError):
    """The bytes are not a complete, undamaged frame."""


# A msgspec.Struct is made in an eighth of a dataclass's time, and a read makes one for each frame.
class FrameHeader(msgspec.Struct, frozen=True, gc=False):
    """The fields of a frame's header. `data_bytes` counts the records' data and keys, decoded."""

    payload_bytes: int
    count: int
    data_bytes: int
    first_index: int
    arrival_ms: int
    crc: int

    @property
    def frame_bytes(self) -> int:
        """The size of the frame, header included."""
        return FRAME_HEADER_BYTES + self.payload_bytes

    @property
    def end_index(self) -> int:
        """One past the last record's index."""
        return self.first_index + self.count


def encode(payload: bytes, count: int, data_bytes: int, first_index: int, arrival_ms: int) -> bytes:
    """Return a frame."""
    rest = _FRAME_REST.pack(len(payload), count, data_bytes, first_index, arrival_ms)
    crc = zlib.crc32(payload, zlib.crc32(rest))
    return b"".join((_FRAME_START.pack(_FRAME_MAGIC, crc), rest, payload))


# Cached, since a PutRecords needs it for each of its shards, at one time.
@functools.lru_cache(maxsize=64)
def arrival_of(arrival_ms: int) -> str:
    """Return the part of a record between its sequence number and its data."""
    return f'","ApproximateArrivalTimestamp":{arrival_ms / 1000:.3f},"Data":"'


def render_one(number: str, data: str, key: str, arrival: str, tail: str) -> str:
    """Return one record as `render` does; `arrival` is of `arrival_of`."""
    return f'{_START}{number}{arrival}{data}{_KEY if key else ""}{key}"{tail}}}'


def render(
    numbers: Sequence[str], data: Sequence[str], keys: Sequence[str], arrival_ms: int, tail: str
) -> bytes:
    """Return records as GetRecords sends them, joined by SEPARATOR; an empty key is none, and is left out.

    Whole columns are placed in one list, which is joined once: this takes half the time of formatting each record.
    """
    arrival = arrival_of(arrival_ms)
    if len(numbers) == 1:
        return render_one(numbers[0], data[0], keys[0], arrival, tail).encode("ascii")
    parts = [f'"{tail}}},\n{_START}', "", arrival, "", _KEY, ""] * len(numbers)
    parts[0] = _START
    parts[1::6] = numbers
    parts[3::6] = data
    parts[5::6] = keys
    if "" in keys:
        parts[4::6] = [_KEY if key else "" for key in keys]
    parts.append(f'"{tail}}}')
    return "".join(parts).encode("ascii")


def join(records: Sequence[bytes]) -> bytes:
    """Return the payload of a batch."""
    return SEPARATOR.join(records)


def cut(payload: bytes | memoryview, first: int, count: int) -> bytes:
    """Return the payload of some of a batch's records."""
    return join(bytes(payload).split(SEPARATOR, first + count)[first : first + count])


def split(payload: bytes) -> list[bytes]:
    """Return a batch's records."""
    return payload.split(SEPARATOR)


def decode_header(buffer: bytes | memoryview, offset: int = 0) -> FrameHeader:
    """Return the header at `offset`. Raises CorruptFrame when there is none, or not enough bytes."""
    if len(buffer) - offset < FRAME_HEADER_BYTES:
        raise CorruptFrame("the header is cut off")
    magic, crc, length, count, data_bytes, first, arrival = _FRAME.unpack_from(buffer, offset)
    if magic != _FRAME_MAGIC:
        raise CorruptFrame("no frame starts here")
    if length > MAX_PAYLOAD_BYTES or count == 0:
        raise CorruptFrame("the header is damaged")
    return FrameHeader(length, count, data_bytes, first, arrival, crc)


def verify(header: FrameHeader, payload: bytes | memoryview) -> None:
    """Raise CorruptFrame when the payload is cut off or does not match the header's checksum."""
    if len(payload) != header.payload_bytes:
        raise CorruptFrame("the payload is cut off")
    rest = _FRAME_REST.pack(
        header.payload_bytes,
        header.count,
        header.data_bytes,
        header.first_index,
        header.arrival_ms,
    )
    if zlib.crc32(payload, zlib.crc32(rest)) != header.crc:
        raise CorruptFrame("the checksum does not match")


def find(buffer: bytes, offset: int, least_index: int) -> tuple[int, FrameHeader] | None:
    """Return the first undamaged frame from `offset` on whose records have at least `least_index`, and its offset.

    Reading continues behind damage in this way. Only bytes with the right checksum are a frame.
    """
    view = memoryview(buffer)
    while (offset := buffer.find(_FRAME_MAGIC_BYTES, offset)) >= 0:
        try:
            header = decode_header(view, offset)
            at = offset + FRAME_HEADER_BYTES
            verify(header, view[at : at + header.payload_bytes])
        except CorruptFrame:
            offset += 1
            continue
        if header.first_index >= least_index:
            return offset, header
        offset += header.frame_bytes
    return None


def encode_segment_header(first_index: int, identity: bytes) -> bytes:
    """Return the header of a segment file; `identity` is 32 bytes that identify the shard."""
    rest = _SEGMENT_REST.pack(first_index, identity)
    return _SEGMENT.pack(_SEGMENT_MAGIC, zlib.crc32(rest), first_index, identity)


def decode_segment_header(buffer: bytes) -> tuple[int, bytes]:
    """Return (first index, identity). Raises CorruptFrame."""
    if len(buffer) < SEGMENT_HEADER_BYTES:
        raise CorruptFrame("the segment's header is cut off")
    magic, crc, first_index, identity = _SEGMENT.unpack_from(buffer)
    if magic != _SEGMENT_MAGIC or zlib.crc32(_SEGMENT_REST.pack(first_index, identity)) != crc:
        raise CorruptFrame("the segment's header is damaged")
    return first_index, identity
