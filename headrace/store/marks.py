"""Notes in the state database where each log begins and ends, so that the loss of a whole log is noticed.

A log that was cut between two writes looks sound, and a missing folder leaves no trace. The end of a log is noted every
minute and when the log is closed, so the mark may lag behind the log but is never ahead of it. Its start is noted
before retention deletes older records. Losses are noted when they are found, and when the user accepts them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.store.database import Database, damage_in
from headrace.store.losses import NOTHING_KNOWN, KnownLog, Loss
from headrace.store.segment_index import boot_id
from headrace.store.shard_log import ShardLog

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
