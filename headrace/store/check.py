"""Verify the shard logs of a data directory, offline.

The folder of a shard is `streams/<stream id>/<shard id>/`; see `headrace.store.shard_log`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.store import frame
from headrace.store.frame import CorruptFrame
from headrace.store.segment import INDEX_SUFFIX, SUFFIX
from headrace.store.shard_log import identity_of

STREAMS_FOLDER = "streams"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where, and from which byte on."""

    path: Path
    offset_bytes: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}, byte {self.offset_bytes}: {self.what}"


def check(data_dir: Path) -> Iterator[Problem]:
    """Yield what is wrong with the shard logs under `data_dir`.

    Finds flipped bits, truncated, missing and swapped segments. A torn write at the very end of a log is
    found too, although opening the log mends it. Not found: whole shards that are gone, and a last segment
    truncated exactly between two writes.
    """
    for stream in sorted((data_dir / STREAMS_FOLDER).glob("*")):
        for shard in sorted(path for path in stream.glob("*") if path.is_dir()):
            yield from _check_shard(shard, identity_of(stream.name, shard.name))


def _check_shard(folder: Path, identity: bytes) -> Iterator[Problem]:
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        yield Problem(folder, 0, "the shard has no segment")
    yield from _check_indexes(folder, paths)
    expected: int | None = None
    for path in paths:
        first = int(path.stem)
        if expected is not None and first != expected:
            yield Problem(
                path, 0, f"records {expected} to {first - 1} are missing before this segment"
            )
        end = yield from _check_segment(path, first, identity)
        expected = end


def _check_indexes(folder: Path, paths: list[Path]) -> Iterator[Problem]:
    """An index is kept of sealed segments only, so each has its segment, and another after that."""
    for index in sorted(folder.glob(f"*{INDEX_SUFFIX}")):
        segment = index.with_suffix(SUFFIX)
        if segment not in paths:
            yield Problem(segment, 0, "the segment is missing")
        elif segment == paths[-1]:
            yield Problem(segment, 0, "the segment after this one is missing")


def _check_segment(path: Path, first: int, identity: bytes) -> Generator[Problem, None, int]:
    data = memoryview(path.read_bytes())
    try:
        found_first, found_identity = frame.decode_segment_header(bytes(data[:64]))
    except CorruptFrame as error:
        yield Problem(path, 0, str(error))
        return first
    if found_identity != identity:
        yield Problem(path, 0, "the segment belongs to another shard")
    if found_first != first:
        yield Problem(path, 0, f"the segment is named {first} but starts at {found_first}")
    offset, index = frame.SEGMENT_HEADER_BYTES, found_first
    while offset < len(data):
        try:
            header = frame.decode_header(data, offset)
            at = offset + frame.FRAME_HEADER_BYTES
            frame.verify(header, data[at : at + header.payload_bytes])
        except CorruptFrame as error:
            yield Problem(path, offset, str(error))
            return index
        if header.first_index != index:
            yield Problem(path, offset, f"record {index} expected, {header.first_index} found")
        index = header.end_index
        offset += header.frame_bytes
    return index
