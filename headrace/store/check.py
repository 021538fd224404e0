"""Verifies the logs and the state database of a data directory, offline.

The folder of a shard is `streams/<stream id>/<shard id>/`, that of a Firehose journal `firehose/<id>/`; see
`headrace.store.shard_log`. `headrace.store.repair_database` repairs what this module finds.

Reads a whole segment file and finds the undamaged frames and the damage between them. It never writes.

Notes in the state database where each log begins and ends, so that the loss of a whole log is noticed.

A log that was cut between two writes looks sound, and a missing folder leaves no trace. The end of a log is noted every
minute and when the log is closed, so the mark may lag behind the log but is never ahead of it. Its start is noted
before retention deletes older records. Losses are noted when they are found, and when the user accepts them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.store import frame
from headrace.store.database import STATE_FILE, Database, damage_in
from headrace.store.folders import DELETED_SUFFIX
from headrace.store.frame import CorruptFrame
from headrace.store.losses import FIRST_INDEX, NOTHING_KNOWN, KnownLog, Loss
from headrace.store.segment import (
    INDEX_SUFFIX,
    SUFFIX,
    Extent,
    Segment,
    SparseIndex,
    WrongIndex,
    boot_id,
)
from headrace.store.shard_log import ShardLog, identity_of

STREAMS_FOLDER = "streams"
JOURNALS_FOLDER = "firehose"
JOURNAL_SHARD = "journal"


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect of a file: the path, the byte at which it begins, and what is wrong.

    A harmless problem is an unfinished write, which a kill leaves; the next start repairs it without a loss.
    """

    path: Path
    offset_bytes: int
    what: str
    is_harmless: bool = False

    def __str__(self) -> str:
        return f"{self.path}, byte {self.offset_bytes}: {self.what}"


def check(data_dir: Path) -> Iterator[Problem]:
    """Yield the problems of the logs and the database under `data_dir`.

    Finds flipped bits, truncated, missing and swapped files, and missing logs. A torn write at the very end of a log is
    reported too, although opening the log mends it. When a log was cut exactly between two writes, the loss of records
    that were put after the last mark (see `headrace.store.check`) is not noticed. Losses that were accepted are not
    reported again.
    """
    database = data_dir / STATE_FILE
    known: dict[str, KnownLog] = {}
    if database.exists():
        try:
            known = read_known(database)
        except (sqlite3.DatabaseError, ValueError, KeyError, TypeError) as error:
            yield Problem(database, 0, f"the state database is damaged: {error}")
    elif any(True for _ in log_folders(data_dir)):
        yield Problem(database, 0, "the state database is missing")
    for folder, identity in log_folders(data_dir):
        of_log = known.pop(folder.relative_to(data_dir).as_posix(), NOTHING_KNOWN)
        yield from check_log(folder, identity, of_log)
    for key in sorted(known):
        yield Problem(data_dir / key, 0, "the log is missing")


def log_folders(data_dir: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the folder and the identity of every log."""
    for pattern in (f"{STREAMS_FOLDER}/*/*", f"{JOURNALS_FOLDER}/*"):
        for folder in sorted(path for path in data_dir.glob(pattern) if path.is_dir()):
            if DELETED_SUFFIX not in folder.relative_to(data_dir).as_posix():
                yield folder, identity_of_folder(data_dir, folder)


def identity_of_folder(data_dir: Path, folder: Path) -> bytes:
    """Return the identity of the log that lies in `folder`."""
    if folder.parent == data_dir / JOURNALS_FOLDER:
        return identity_of(folder.name, JOURNAL_SHARD)
    return identity_of(folder.parent.name, folder.name)


def check_log(folder: Path, identity: bytes, known: KnownLog = NOTHING_KNOWN) -> Iterator[Problem]:
    """Yield the problems of one log; `known` is its entry in the state database."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        yield Problem(folder, 0, "the log has no segment")
    for index in sorted(folder.glob(f"*{INDEX_SUFFIX}")):
        if index.with_suffix(SUFFIX) not in paths:
            yield Problem(index.with_suffix(SUFFIX), 0, "the segment is missing")
    expected = known.start_index
    ends_in_damage = False
    for path in paths:
        inspection = inspect(path, identity)
        ends_in_damage = (
            bool(inspection.damage) and inspection.damage[-1].end_offset == inspection.size_bytes
        )
        yield from _problems_of(inspection, identity, known, is_last=path == paths[-1])
        if not inspection.is_foreign:
            expected = yield from _check_order(inspection, expected, known)
    end_index = FIRST_INDEX if expected is None else expected
    is_told = not paths or ends_in_damage or is_accepted(known, end_index)
    if end_index < known.end_index and not is_told:
        missing = f"records {end_index} to {known.end_index - 1} are missing at the end"
        yield Problem(paths[-1], paths[-1].stat().st_size, missing)


def is_accepted(known: KnownLog, index: int) -> bool:
    """Whether a record is among the losses that were accepted."""
    return any(loss.accepted and loss.holds(index) for loss in known.losses)


def _problems_of(
    inspection: Inspection, identity: bytes, known: KnownLog, *, is_last: bool
) -> Iterator[Problem]:
    reach = max(known.end_index, Segment.read_claimed_end(inspection.path, identity))
    torn = is_last and inspection.end_index >= reach
    if inspection.header_problem:
        begun = (
            torn
            and not inspection.is_foreign
            and inspection.size_bytes < frame.SEGMENT_HEADER_BYTES
        )
        yield Problem(inspection.path, 0, inspection.header_problem, is_harmless=begun)
        return
    for damage in inspection.damage:
        at_the_end = damage.end_offset == inspection.size_bytes
        yield Problem(inspection.path, damage.offset, damage.what, is_harmless=torn and at_the_end)
    if not inspection.damage:
        yield from _check_index(inspection, identity, is_last=is_last)


def _check_order(
    inspection: Inspection, expected: int | None, known: KnownLog
) -> Generator[Problem, None, int]:
    """Return the index after the last record."""
    for run in inspection.runs:
        if expected is not None and expected < run.first_index and not is_accepted(known, expected):
            missing = f"records {expected} to {run.first_index - 1} are missing before this"
            yield Problem(inspection.path, run.offset, missing)
        expected = max(expected or 0, run.end_index)
    if not inspection.runs and not inspection.header_problem:
        # An empty segment: its name is the index of the next record.
        if expected is not None and expected < inspection.first_index:
            known_end = min(known.end_index, inspection.first_index)
            if expected < known_end and not is_accepted(known, expected):
                missing = f"records {expected} to {known_end - 1} are missing before this"
                yield Problem(inspection.path, 0, missing)
        expected = max(expected or 0, inspection.first_index)
    return inspection.first_index if expected is None else expected


def _check_index(inspection: Inspection, identity: bytes, *, is_last: bool) -> Iterator[Problem]:
    """Compare an index file with its segment."""
    path = inspection.path.with_suffix(INDEX_SUFFIX)
    try:
        extent: Extent = SparseIndex().load(path, inspection.first_index, identity)
    except FileNotFoundError:
        return
    except WrongIndex as error:
        yield Problem(path, 0, f"the index is damaged: {error}")
        return
    if inspection.frame_ends.get(extent.size_bytes) != extent.end_index:
        yield Problem(
            inspection.path,
            max(inspection.frame_ends),
            f"{extent.size_bytes} bytes and more had been written",
        )
    elif extent.sealed and is_last:
        yield Problem(inspection.path, 0, "the segment after this one is missing")


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


_TABLE = "shard_log_marks"
_LOSSES_TABLE = "shard_log_losses"
_BOOT = boot_id().hex()


class Marks:
    """The marks of the logs under one data directory. Thread-safe.

    With `fsync`, records in the logs survive a power cut.
    """

    def __init__(self, database: Database, data_dir: Path, *, fsync: bool = False) -> None:
        self._database = database
        self._documents = database.documents(_TABLE)
        self._losses = database.documents(_LOSSES_TABLE)
        self._data_dir = data_dir
        self._fsync = fsync
        self._noted: dict[str, tuple[int, int]] = {}
        # The starts that retention has announced, each before it deletes the segments.
        self._starts: dict[str, int] = {}

    def known(self) -> dict[Path, KnownLog]:
        """Return the marks of each log, by its folder."""
        by_key = _build_known(self._documents.items(), self._losses.items(), self._data_dir)
        return {
            self._data_dir / key: replace(known, is_certain=True) if self._fsync else known
            for key, known in by_key.items()
        }

    def note(self, logs: Iterable[ShardLog]) -> None:
        """Note the ends of logs that have grown since the last note; durable when this returns. Raises DiskFull."""
        keyed_logs = [(self._key(log.folder), log) for log in logs]
        if all(self._noted.get(key) == self._reach(key, log) for key, log in keyed_logs):
            return
        with self._database.transaction():
            # Read inside the transaction: a concurrent trim notes its later start either before it or after it.
            reaches = {key: self._reach(key, log) for key, log in keyed_logs}
            for key, reach in reaches.items():
                if self._noted.get(key) != reach:
                    self._put(key, *reach)
        self._noted.update(reaches)

    def _reach(self, key: str, log: ShardLog) -> tuple[int, int]:
        # Only records that are on the disk were promised to survive a power cut.
        return max(log.first_index, self._starts.get(key, 0)), log.readable_index

    def note_start(self, log: ShardLog, start_index: int) -> None:
        """Note that retention is about to delete the records before `start_index`."""
        key, end_index = self._key(log.folder), log.readable_index
        self._starts[key] = start_index
        with self._database.transaction(frees=True):
            self._put(key, start_index, end_index)
        self._noted[key] = (start_index, end_index)

    def note_losses(self, log: ShardLog) -> None:
        """Note the losses that were found when `log` was opened, so that their extent stays known."""
        key = self._key(log.folder)
        for loss in log.losses:
            self._losses.put(_loss_key(key, loss), _loss_document(loss, self._data_dir))

    def forget(self, folder: Path) -> None:
        """Delete the marks of the logs in `folder`, before the folder is removed."""
        prefix = self._key(folder)
        with self._database.transaction(frees=True):
            for documents in (self._documents, self._losses):
                for key, _ in documents.items(prefix):
                    if key == prefix or key.startswith((f"{prefix}/", f"{prefix}#")):
                        documents.delete(key)
                        self._noted.pop(key, None)
                        self._starts.pop(key, None)

    def _put(self, key: str, start_index: int, end_index: int) -> None:
        self._documents.put(key, {"start": start_index, "end": end_index, "boot": _BOOT})

    def _key(self, folder: Path) -> str:
        return folder.relative_to(self._data_dir).as_posix()


def read_known(database_path: Path) -> dict[str, KnownLog]:
    """Return the marks of each log by its folder, relative to the data directory; no cloud may be running.

    Raises sqlite3.DatabaseError when the file is damaged.
    """
    connection = sqlite3.connect(f"file:{database_path}?mode=ro", uri=True)
    try:
        damage = damage_in(connection)
        if damage:
            raise sqlite3.DatabaseError(damage)
        marks = _rows(connection, _TABLE)
        losses = _rows(connection, _LOSSES_TABLE)
    finally:
        connection.close()
    return _build_known(marks, losses, database_path.parent)


def accept(database: Database, data_dir: Path, folder: Path, losses: Iterable[Loss]) -> None:
    """Note that losses of the log in `folder` have been reported: readers may skip them."""
    documents = database.documents(_LOSSES_TABLE)
    key = folder.relative_to(data_dir).as_posix()
    with database.transaction():
        for loss in losses:
            document = _loss_document(replace(loss, accepted=True), data_dir)
            documents.put(_loss_key(key, loss), document)


def _rows(connection: sqlite3.Connection, table: str) -> list[tuple[str, Any]]:
    known = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE name = ?", (f"doc_{table}",)
    ).fetchone()
    if not known:
        return []
    rows = connection.execute(f"SELECT key, value FROM doc_{table} ORDER BY key").fetchall()
    return [(key, json.loads(value)) for key, value in rows]


def _build_known(
    marks: Iterable[tuple[str, Any]], losses: Iterable[tuple[str, Any]], data_dir: Path
) -> dict[str, KnownLog]:
    known_logs: dict[str, KnownLog] = {}
    for key, value in marks:
        # Until version 0.1 only the end was noted.
        mark: dict[str, Any] = {"end": value} if isinstance(value, int) else value
        certain = mark.get("boot", _BOOT) == _BOOT
        known_logs[key] = KnownLog(mark.get("start"), mark["end"], (), certain)
    for key, value in losses:
        folder = key.partition("#")[0]
        known = known_logs.get(folder, NOTHING_KNOWN)
        known_logs[folder] = replace(known, losses=(*known.losses, _loss(value, data_dir)))
    return known_logs


def _loss_key(folder: str, loss: Loss) -> str:
    return f"{folder}#{loss.first_index:020d}"


def _loss_document(loss: Loss, data_dir: Path) -> dict[str, Any]:
    return {
        "first": loss.first_index,
        "end": loss.end_index,
        "known_end": loss.known_end_index,
        "path": loss.path.relative_to(data_dir).as_posix(),
        "why": loss.why,
        "accepted": loss.accepted,
    }


def _loss(value: dict[str, Any], data_dir: Path) -> Loss:
    path = data_dir / value["path"]
    first, end, known_end = value["first"], value["end"], value["known_end"]
    return Loss(first, end, known_end, path, value["why"], value["accepted"])
