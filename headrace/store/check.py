"""Verify the logs and the state database of a data directory, offline.

The folder of a shard is `streams/<stream id>/<shard id>/`, that of a Firehose journal `firehose/<id>/`; see
`headrace.store.shard_log`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.store import frame
from headrace.store.discard import DELETED_SUFFIX
from headrace.store.frame import CorruptFrame
from headrace.store.marks import read_marks
from headrace.store.segment import SUFFIX
from headrace.store.segment_index import INDEX_SUFFIX, Extent, SparseIndex, WrongIndex
from headrace.store.shard_log import FIRST_INDEX, identity_of

STATE_FILE = "state.sqlite"
STREAMS_FOLDER = "streams"
JOURNALS_FOLDER = "firehose"
JOURNAL_SHARD = "journal"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where, and from which byte on."""

    path: Path
    offset_bytes: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}, byte {self.offset_bytes}: {self.what}"


def check(data_dir: Path) -> Iterator[Problem]:
    """Yield what is wrong with the logs and the database under `data_dir`.

    Finds flipped bits, truncated, missing and swapped files, and whole logs that are gone. A torn write at the very end
    of a log is found too, although opening the log mends it. Of records that were put after the last mark (see
    `headrace.store.marks`) nobody can tell that they are gone, when the log was cut exactly between two writes.
    """
    database = data_dir / STATE_FILE
    marks: dict[str, int] = {}
    if database.exists():
        try:
            marks = read_marks(database)
        except sqlite3.DatabaseError as error:
            yield Problem(database, 0, f"the state database is damaged: {error}")
    elif any(True for _ in _log_folders(data_dir)):
        yield Problem(database, 0, "the state database is missing")
    for folder, identity in _log_folders(data_dir):
        marked = marks.pop(folder.relative_to(data_dir).as_posix(), FIRST_INDEX)
        yield from check_log(folder, identity, marked)
    for key in sorted(marks):
        yield Problem(data_dir / key, 0, "the log is missing")


def _log_folders(data_dir: Path) -> Iterator[tuple[Path, bytes]]:
    for pattern in (f"{STREAMS_FOLDER}/*/*", f"{JOURNALS_FOLDER}/*"):
        for folder in sorted(path for path in data_dir.glob(pattern) if path.is_dir()):
            if DELETED_SUFFIX not in folder.relative_to(data_dir).as_posix():
                yield folder, _identity(data_dir, folder)


def _identity(data_dir: Path, folder: Path) -> bytes:
    if folder.parent == data_dir / JOURNALS_FOLDER:
        return identity_of(folder.name, JOURNAL_SHARD)
    return identity_of(folder.parent.name, folder.name)


def check_log(folder: Path, identity: bytes, marked: int = FIRST_INDEX) -> Iterator[Problem]:
    """Yield what is wrong with one log, which is known to have reached the index `marked`."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        yield Problem(folder, 0, "the log has no segment")
    for index in sorted(folder.glob(f"*{INDEX_SUFFIX}")):
        if index.with_suffix(SUFFIX) not in paths:
            yield Problem(index.with_suffix(SUFFIX), 0, "the segment is missing")
    expected: int | None = None
    for path in paths:
        first = int(path.stem)
        if expected is not None and first != expected:
            yield Problem(
                path, 0, f"records {expected} to {first - 1} are missing before this segment"
            )
        expected = yield from _check_segment(path, first, identity, is_last=path == paths[-1])
    if expected is not None and expected < marked:
        yield Problem(
            paths[-1],
            paths[-1].stat().st_size,
            f"records {expected} to {marked - 1} are missing at the end",
        )


def _check_segment(
    path: Path, first: int, identity: bytes, *, is_last: bool
) -> Generator[Problem, None, int | None]:
    """Return the index after the last record; None where damage hides what follows."""
    data = memoryview(path.read_bytes())
    try:
        found_first, found_identity = frame.decode_segment_header(bytes(data[:64]))
    except CorruptFrame as error:
        yield Problem(path, 0, str(error))
        return None
    if found_identity != identity:
        yield Problem(path, 0, "the segment belongs to another shard")
    if found_first != first:
        yield Problem(path, 0, f"the segment is named {first} but starts at {found_first}")
    ends = {frame.SEGMENT_HEADER_BYTES: found_first}
    offset, index = frame.SEGMENT_HEADER_BYTES, found_first
    while offset < len(data):
        try:
            header = frame.decode_header(data, offset)
            at = offset + frame.FRAME_HEADER_BYTES
            frame.verify(header, data[at : at + header.payload_bytes])
        except CorruptFrame as error:
            yield Problem(path, offset, str(error))
            return None
        if header.first_index != index:
            yield Problem(path, offset, f"record {index} expected, {header.first_index} found")
        index = header.end_index
        offset += header.frame_bytes
        ends[offset] = index
    yield from _check_index(path.with_suffix(INDEX_SUFFIX), first, identity, ends, is_last=is_last)
    return index


def _check_index(
    path: Path, first: int, identity: bytes, ends: dict[int, int], *, is_last: bool
) -> Iterator[Problem]:
    """Hold an index file against its segment, whose writes end at `ends` (offset to record)."""
    try:
        extent: Extent = SparseIndex().load(path, first, identity)
    except FileNotFoundError:
        return
    except WrongIndex as error:
        yield Problem(path, 0, f"the index is damaged: {error}")
        return
    if ends.get(extent.size_bytes) != extent.end_index:
        segment = path.with_suffix(SUFFIX)
        yield Problem(segment, max(ends), f"{extent.size_bytes} bytes and more had been written")
    elif extent.sealed and is_last:
        yield Problem(path.with_suffix(SUFFIX), 0, "the segment after this one is missing")
