"""Writes folders of logs to the disk, and removes them so that a kill cannot be mistaken for a lost database.

The database does not know a folder for one of three reasons: a kill during a deletion, a kill during a creation that
was never acknowledged, or a database that is missing or was replaced. Only in the first two cases may the folder be
removed.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from headrace.store.frame import SEGMENT_HEADER_BYTES
from headrace.store.segment import SUFFIX

log = logging.getLogger(__name__)

DELETED_SUFFIX = ".deleted"


def sync_path(path: Path) -> None:
    """Sync a file's content, or a folder's list of names. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(folder: Path) -> None:
    """Remove a folder of logs that nobody reads any more. After a kill in between, `clear` removes the rest."""
    deleted = folder.with_name(folder.name + DELETED_SUFFIX)
    try:
        folder.rename(deleted)
    except FileNotFoundError:
        return
    shutil.rmtree(deleted, ignore_errors=True)


def clear(parent: Path, known: set[str]) -> None:
    """Remove the folders in `parent` that a kill left; keep and report unknown folders that hold records."""
    try:
        folders = list(parent.iterdir())
    except FileNotFoundError:
        return
    for folder in folders:
        if folder.name in known:
            continue
        if folder.name.endswith(DELETED_SUFFIX) or not _holds_records(folder):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            log.error(
                "%s holds records but the state database does not know it; it is left alone", folder
            )


def _holds_records(folder: Path) -> bool:
    return any(path.stat().st_size > SEGMENT_HEADER_BYTES for path in folder.rglob(f"*{SUFFIX}"))
