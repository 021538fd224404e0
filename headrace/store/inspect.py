"""Reads a whole segment file and finds the undamaged frames and the damage between them. It never writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headrace.store import frame
from headrace.store.frame import CorruptFrame


@dataclass(frozen=True, slots=True)
class FrameRun:
    """Consecutive undamaged frames without a gap: their range of bytes, and of records."""

    offset: int
    end_offset: int
    first_index: int
    end_index: int


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of bytes that is not an undamaged frame."""

    offset: int
    end_offset: int
    what: str


@dataclass(slots=True)
class Inspection:
    """The result of inspecting a segment file.

    Attributes:
        first_index: the first index, from the file's name.
        header_problem: what is wrong with the file's header; empty when nothing is.
        is_foreign: the header is undamaged, but belongs to another shard or to another segment of this one.
        frame_ends: for each undamaged frame, the offset of its end and one past its last record.
    """

    path: Path
    first_index: int
    size_bytes: int
    header_problem: str = ""
    is_foreign: bool = False
    runs: list[FrameRun] = field(default_factory=list[FrameRun])
    damage: list[Damage] = field(default_factory=list[Damage])
    frame_ends: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with the file itself."""
        return not self.header_problem and not self.damage and len(self.runs) <= 1

    @property
    def end_index(self) -> int:
        """One past the last undamaged record; the first index when there is none."""
        return self.runs[-1].end_index if self.runs else self.first_index


def inspect(path: Path, identity: bytes) -> Inspection:
    """Read a whole segment of the shard `identity`. Raises OSError."""
    data = path.read_bytes()
    inspection = Inspection(path, int(path.stem), len(data))
    start = frame.SEGMENT_HEADER_BYTES
    try:
        first_index, whose = frame.decode_segment_header(data[:start])
    except CorruptFrame as error:
        inspection.header_problem = "the segment was emptied" if not data else str(error)
    else:
        if whose != identity:
            inspection.header_problem = "the segment belongs to another shard"
        elif first_index != inspection.first_index:
            inspection.header_problem = (
                f"the segment is named {inspection.first_index} but starts at {first_index}"
            )
        inspection.is_foreign = bool(inspection.header_problem)
    inspection.frame_ends[min(start, len(data))] = inspection.first_index
    for piece in _pieces(data, start, inspection.first_index):
        if isinstance(piece, Damage):
            inspection.damage.append(piece)
            continue
        offset, header = piece
        end_offset = offset + header.frame_bytes
        inspection.frame_ends[end_offset] = header.end_index
        last = inspection.runs[-1] if inspection.runs else None
        if last is not None and (last.end_offset, last.end_index) == (offset, header.first_index):
            inspection.runs[-1] = FrameRun(
                last.offset, end_offset, last.first_index, header.end_index
            )
        else:
            inspection.runs.append(
                FrameRun(offset, end_offset, header.first_index, header.end_index)
            )
    return inspection


def _pieces(
    data: bytes, offset: int, expected: int
) -> Iterator[tuple[int, frame.FrameHeader] | Damage]:
    view = memoryview(data)
    while offset < len(data):
        try:
            header = frame.decode_header(view, offset)
            at = offset + frame.FRAME_HEADER_BYTES
            frame.verify(header, view[at : at + header.payload_bytes])
            if header.first_index < expected:
                raise CorruptFrame(f"record {expected} expected, {header.first_index} found")
        except CorruptFrame as error:
            behind = frame.find(data, offset, expected)
            end_offset = len(data) if behind is None else behind[0]
            yield Damage(offset, end_offset, str(error))
            offset = end_offset
            continue
        yield offset, header
        expected = header.end_index
        offset += header.frame_bytes
