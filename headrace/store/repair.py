"""Repairs the logs of a data directory, offline: cuts damage out, keeps the damaged bytes, and reports lost records.

All undamaged records stay readable: records behind damage become a segment of their own, named by the first of them.
Each step may be killed and repeated: bytes are copied to the quarantine folder before they are cut from a segment,
files appear complete by a rename, and losses are accepted only after they were reported.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from headrace.store import frame
from headrace.store.check import FrameRun, Inspection, identity_of_folder, inspect, log_folders
from headrace.store.database import Database
from headrace.store.fsync import sync_path
from headrace.store.losses import NOTHING_KNOWN, KnownLog
from headrace.store.marks import accept
from headrace.store.segment import SUFFIX, Segment
from headrace.store.segment_index import INDEX_SUFFIX, SparseIndex, WrongIndex
from headrace.store.sequence import SequenceBase
from headrace.store.shard_log import ShardLog

QUARANTINE_FOLDER = "quarantine"
_NEW_SUFFIX = ".repairing"
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
            aside = _keep(data_dir, inspection.path, damage.offset, damage.end_offset)
            size = damage.end_offset - damage.offset
            yield f"{inspection.path}: {size} bytes from byte {damage.offset} on ({damage.what}) are kept in {aside}"
        if inspection.header_problem and not inspection.is_foreign:
            _keep(
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


def _keep(data_dir: Path, path: Path, offset: int, end_offset: int) -> Path:
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
