"""Repairs a damaged state database, offline, as far as SQLite can read it.

Every row that can still be read goes into a new file, which takes the old one's place by a rename; the old one is kept
in the quarantine folder. These cannot be repaired: a file whose first page is unreadable (SQLite then cannot open it),
rows on the damaged pages themselves, and commits in a damaged write-ahead log, which SQLite skips silently. SQLite
keeps no checksums: a flipped bit in a value is found only when the value is no longer valid JSON.

Repairs the logs of a data directory, offline: cuts damage out, keeps the damaged bytes, and reports lost records.

All undamaged records stay readable: records behind damage become a segment of their own, named by the first of them.
Each step may be killed and repeated: bytes are copied to the quarantine folder before they are cut from a segment,
files appear complete by a rename, and losses are accepted only after they were reported.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.store import frame
from headrace.store.check import (
    FrameRun,
    Inspection,
    accept,
    identity_of_folder,
    inspect,
    log_folders,
)
from headrace.store.data_dir import REPAIRED_SUFFIX
from headrace.store.database import Database, damage_in
from headrace.store.folders import sync_path
from headrace.store.losses import NOTHING_KNOWN, KnownLog
from headrace.store.segment import INDEX_SUFFIX, SUFFIX, Segment, SparseIndex, WrongIndex
from headrace.store.sequence import SequenceBase
from headrace.store.shard_log import ShardLog

QUARANTINE_FOLDER = "quarantine"
_COPY_BYTES = 4 * 1024 * 1024
_NO_BASE = SequenceBase(0, 0)


def repair_logs(
    data_dir: Path, database: Database, known: dict[str, KnownLog], bases: dict[Path, SequenceBase]
) -> Iterator[str]:
    """Repair every log; yield a sentence for each repair and each loss. Nobody else may use the directory.

    Args:
        data_dir: the data directory.
        database: the state database, open and undamaged.
        known: the marks of each log in the state database, by the log's folder.
        bases: the common part of the sequence numbers of a log, by the log's folder.

    Raises OSError.
    """
    folders = dict(log_folders(data_dir))
    for key in known:
        # A missing folder is made again, so that no index is used twice.
        folders.setdefault(data_dir / key, identity_of_folder(data_dir, data_dir / key))
    for folder, identity in sorted(folders.items()):
        of_log = known.get(folder.relative_to(data_dir).as_posix(), NOTHING_KNOWN)
        yield from _mend_files(data_dir, folder, identity)
        yield from _accept_losses(data_dir, database, folder, identity, of_log, bases)


def _mend_files(data_dir: Path, folder: Path, identity: bytes) -> Iterator[str]:
    for left in folder.glob(f"*{_NEW_SUFFIX}"):
        left.unlink()
    for index in sorted(folder.glob(f"*{INDEX_SUFFIX}")):
        if not _is_index_of_its_segment(index, identity):
            index.unlink()
            yield f"{index}: removed; it is made anew from its segment"
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        inspection = inspect(path, identity)
        if not inspection.is_sound:
            yield from _mend_segment(data_dir, inspection, identity)


def _is_index_of_its_segment(path: Path, identity: bytes) -> bool:
    segment = path.with_suffix(SUFFIX)
    try:
        extent = SparseIndex().load(path, int(path.stem), identity)
    except (WrongIndex, ValueError):
        return False
    return segment.exists() and extent.size_bytes <= segment.stat().st_size


def _mend_segment(data_dir: Path, inspection: Inspection, identity: bytes) -> Iterator[str]:
    """Cut the damage out of a segment."""
    if inspection.is_foreign or not inspection.runs:
        aside = _keep_whole(data_dir, inspection.path)
        yield f"{inspection.path}: moved to {aside}: {inspection.header_problem or 'no record of it is unharmed'}"
    else:
        for damage in inspection.damage:
            aside = _keep_bytes(data_dir, inspection.path, damage.offset, damage.end_offset)
            size = damage.end_offset - damage.offset
            yield f"{inspection.path}: {size} bytes from byte {damage.offset} on ({damage.what}) are kept in {aside}"
        if inspection.header_problem and not inspection.is_foreign:
            _keep_bytes(
                data_dir, inspection.path, 0, min(frame.SEGMENT_HEADER_BYTES, inspection.size_bytes)
            )
            yield f"{inspection.path}: its header is written anew ({inspection.header_problem})"
        # From the end, so that records behind the damage are safe before the file itself is changed.
        for run in reversed(inspection.runs):
            _write_run(inspection.path, run, identity)
        if inspection.runs[0].first_index != inspection.first_index:
            inspection.path.unlink()
    inspection.path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)
    sync_path(inspection.path.parent)


def _keep_bytes(data_dir: Path, path: Path, offset: int, end_offset: int) -> Path:
    """Copy bytes of a file into the quarantine folder, unless an earlier run did."""
    aside = _quarantine(data_dir, path).with_suffix(f".from-{offset}-to-{end_offset}")
    if not aside.exists():
        aside.parent.mkdir(parents=True, exist_ok=True)
        partial = aside.with_name(f"{aside.name}{_NEW_SUFFIX}")
        with path.open("rb") as source, partial.open("wb") as sink:
            source.seek(offset)
            sink.write(source.read(end_offset - offset))
            _settle(sink.fileno())
        partial.replace(aside)
        sync_path(aside.parent)
    return aside


def _keep_whole(data_dir: Path, path: Path) -> Path:
    aside = _quarantine(data_dir, path)
    aside.parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while aside.exists():
        aside = aside.with_name(f"{path.name}.{number}")
        number += 1
    path.rename(aside)
    sync_path(aside.parent)
    return aside


def _quarantine(data_dir: Path, path: Path) -> Path:
    return data_dir / QUARANTINE_FOLDER / path.relative_to(data_dir)


def _write_run(path: Path, run: FrameRun, identity: bytes) -> None:
    """Write the frames of a run to a new segment, named by the run's first record."""
    target = path.with_name(Segment.file_name(run.first_index))
    if target != path and target.exists() and inspect(target, identity).end_index >= run.end_index:
        return  # an earlier repair, which was killed, wrote it
    partial = target.with_suffix(_NEW_SUFFIX)
    with path.open("rb") as source, partial.open("wb") as sink:
        sink.write(frame.encode_segment_header(run.first_index, identity))
        source.seek(run.offset)
        left = run.end_offset - run.offset
        while left:
            chunk = source.read(min(left, _COPY_BYTES))
            sink.write(chunk)
            left -= len(chunk)
        _settle(sink.fileno())
    shutil.copymode(path, partial)
    partial.replace(target)


def _accept_losses(
    data_dir: Path,
    database: Database,
    folder: Path,
    identity: bytes,
    known: KnownLog,
    bases: dict[Path, SequenceBase],
) -> Iterator[str]:
    """Report which records are lost, then let readers skip them."""
    log = ShardLog(folder, bases.get(folder, _NO_BASE), identity, known=known)
    try:
        losses = [loss for loss in log.losses if not loss.accepted]
        if losses:
            yield from (f"lost: {log.describe(loss)}" for loss in losses)
            accept(database, data_dir, folder, losses)
    finally:
        log.close_files()


def _settle(descriptor: int) -> None:
    os.fsync(descriptor)


_SALVAGE_SUFFIX = ".salvage"
_NEW_SUFFIX = ".repairing"
_LOG_SUFFIX = "-wal"
_COPIED = ("", _LOG_SUFFIX)
_SIDE_FILES = (_LOG_SUFFIX, "-shm")


class DatabaseUnreadable(Exception):
    """SQLite cannot read anything from the file; it is left unchanged."""


def damage_of(path: Path) -> str:
    """Return what SQLite finds wrong with a database; empty when nothing is. The file is not changed."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            connection.text_factory = _text
            return damage_in(connection, is_thorough=True) or "; ".join(
                f"{key} in {table} is not JSON" for table, key in _bad(connection)
            )
    except sqlite3.DatabaseError as error:
        return str(error)


def _bad(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Yield the tables and keys of documents that are not valid JSON."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE name LIKE 'doc\\_%' ESCAPE '\\'"
    )
    for (table,) in tables.fetchall():
        for key, value in connection.execute(f"SELECT key, value FROM {table}"):
            try:
                json.loads(value)
            except ValueError:
                yield table, str(key)


def finish(path: Path) -> bool:
    """Finish a repair that was killed near its end; return whether there was one."""
    repaired = path.with_name(f"{path.name}{REPAIRED_SUFFIX}")
    for suffix in (_SALVAGE_SUFFIX, _NEW_SUFFIX):
        for side in ("", *_SIDE_FILES):
            path.with_name(f"{path.name}{suffix}{side}").unlink(missing_ok=True)
    if not repaired.exists():
        return False
    # The old file's write-ahead log must never be applied to the new file.
    for side in _SIDE_FILES:
        path.with_name(f"{path.name}{side}").unlink(missing_ok=True)
    repaired.replace(path)
    sync_path(path.parent)
    return True


def repair_database(path: Path) -> Iterator[str]:
    """Repair the database; yield a sentence for each repair and each loss. Raises DatabaseUnreadable, OSError."""
    aside = _keep(path)
    yield f"{path}: kept as it was in {aside}"
    salvage = path.with_name(f"{path.name}{_SALVAGE_SUFFIX}")
    for side in _COPIED:
        if Path(f"{path}{side}").exists():
            shutil.copyfile(f"{path}{side}", f"{salvage}{side}")
    new = path.with_name(f"{path.name}{_NEW_SUFFIX}")
    try:
        with (
            contextlib.closing(sqlite3.connect(salvage)) as old,
            contextlib.closing(sqlite3.connect(new, isolation_level=None)) as fresh,
        ):
            old.text_factory = _text
            yield from _copy(path, old, fresh)
    except DatabaseUnreadable:
        finish(path)
        raise
    shutil.copymode(path, new)
    sync_path(new)
    new.replace(path.with_name(f"{path.name}{REPAIRED_SUFFIX}"))
    sync_path(path.parent)
    finish(path)


def _keep(path: Path) -> Path:
    folder = path.parent / QUARANTINE_FOLDER
    number = 1
    while (aside := folder / f"{path.stem}-{number}").exists():
        number += 1
    partial = aside.with_name(f"{aside.name}{_NEW_SUFFIX}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for side in _COPIED:
        source = Path(f"{path}{side}")
        if source.exists():
            shutil.copy2(source, partial / source.name)
            sync_path(partial / source.name)
    partial.rename(aside)
    return aside


def _copy(path: Path, old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    try:
        schema = old.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        ).fetchall()
    except sqlite3.DatabaseError as error:
        raise DatabaseUnreadable(
            f"{path}: SQLite cannot read anything from it ({error}); restore it from a copy, or move the directory away"
        ) from error
    named = [(str(kind), str(name), str(sql)) for kind, name, sql in schema]
    tables = [(name, sql) for kind, name, sql in named if kind == "table"]
    new.execute("BEGIN")
    for name, sql in tables:
        if name.startswith("sqlite_"):
            continue  # an internal table of SQLite: created with the first AUTOINCREMENT
        new.execute(sql)
        saved, whole = _copy_rows(old, new, name)
        if not whole:
            yield f"{path}: table {name}: {saved} rows are saved, those on damaged pages are lost"
    if any(name == "sqlite_sequence" for name, _ in tables):
        new.execute("DELETE FROM sqlite_sequence")
        _copy_rows(old, new, "sqlite_sequence")
    for kind, _, sql in named:
        if kind != "table":
            new.execute(sql)
    new.text_factory = _text
    for table, key in list(_bad(new)):
        new.execute(f"DELETE FROM {table} WHERE key = ?", (key,))
        yield f"{path}: table {table}: {key} is lost, since it is not JSON any more"
    new.execute("COMMIT")


def _copy_rows(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> tuple[int, bool]:
    """Copy the readable rows of a table; return how many there are now, and whether no row was damaged."""
    try:
        info = old.execute(f'PRAGMA table_info("{table}")').fetchall()
    except sqlite3.DatabaseError:
        return 0, False
    names = [f'"{column[1]}"' for column in info]
    keys = [f'"{column[1]}"' for column in sorted(info, key=lambda c: c[5]) if column[5]]
    if _has_rowid(old, table):
        copy = _Copy(old, new, table, ["rowid", *names])
        whole = copy.run("rowid ASC") or copy.copy_behind_damage()
    else:
        copy = _Copy(old, new, table, names)
        # Text keys give no way to skip a damaged page, so copy again from the other end.
        whole = copy.run(", ".join(f"{key} ASC" for key in keys))
        if not whole:
            copy.run(", ".join(f"{key} DESC" for key in keys))
    count = new.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
    return int(count), whole


class _Copy:
    """Copies rows of one table until one cannot be read."""

    def __init__(
        self,
        old: sqlite3.Connection,
        new: sqlite3.Connection,
        table: str,
        names: list[str],
    ) -> None:
        self._old = old
        self._new = new
        columns, marks = ", ".join(names), ", ".join("?" * len(names))
        self._select = f'SELECT {columns} FROM "{table}"'
        self._insert = f'INSERT OR IGNORE INTO "{table}" ({columns}) VALUES ({marks})'
        self._last: Any = 0

    def run(self, order: str, where: str = "1", args: tuple[int, ...] = ()) -> bool:
        """Copy rows; return whether all could be read."""
        try:
            for row in self._old.execute(f"{self._select} WHERE {where} ORDER BY {order}", args):
                self._new.execute(self._insert, row)
                self._last = row[0]
        except sqlite3.DatabaseError:
            return False
        return True

    def copy_behind_damage(self) -> bool:
        """Find rows behind each damaged page by increasing steps of the rowid. Returns False."""
        step = 1
        while step < 1 << 62:
            before, start = self._last, self._last + step
            step *= 2
            if start >= 1 << 63:
                break
            if self.run("rowid ASC", "rowid >= ?", (start,)):
                if self._last > before:
                    self.run("rowid DESC", "rowid < ? AND rowid > ?", (start, before))
                break
            if self._last > before:
                # Some rows were read, up to the next damaged page; now read the rows just before them.
                last = self._last
                self.run("rowid DESC", "rowid < ? AND rowid > ?", (start, before))
                self._last, step = last, 1
        return False


def _has_rowid(old: sqlite3.Connection, table: str) -> bool:
    try:
        old.execute(f'SELECT rowid FROM "{table}" LIMIT 0')
    except sqlite3.OperationalError:
        return False
    return True


def _text(value: bytes) -> str | bytes:
    """Return bytes as text; when they are not valid UTF-8, as after damage, return the bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
