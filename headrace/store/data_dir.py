"""Locks the data directory, and says in one sentence why it cannot be used."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pwd
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import IO

from headrace.store.database import STATE_FILE, Database, NewerFormat

LOCK_FILE = "lock"
# A repaired state database, before it takes the old one's place.
REPAIRED_SUFFIX = ".repaired"


class DataDirInUse(RuntimeError):
    """Another cloud is running on this data directory."""


class DataDirUnusable(Exception):
    """The data directory cannot be used; the message is one sentence for the user."""


def lock(data_dir: Path) -> IO[bytes]:
    """Take the directory's lock. The kernel releases it however this process ends.

    Raises DataDirInUse, OSError.
    """
    file = (data_dir / LOCK_FILE).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise DataDirInUse(f"another headrace is running on {data_dir}") from error
    except OSError:
        file.close()
        raise
    return file


def check_no_repair_is_half_done(data_dir: Path) -> None:
    """Raise DataDirUnusable when a repair of the state database was killed before its end."""
    if (data_dir / f"{STATE_FILE}{REPAIRED_SUFFIX}").exists():
        raise DataDirUnusable(
            f"A repair of {data_dir} was interrupted;"
            f" run it again: headrace check --repair --data-dir {data_dir}"
        )


def check_database(data_dir: Path, database: Database) -> None:
    """Raise DataDirUnusable when pages of the state database are damaged.

    A cloud would start on most of them, miss what is on them without a word, and could spread the damage by writing.
    """
    damage = database.damage()
    if damage:
        database.close()
        raise DataDirUnusable(_describe_damage(data_dir, damage))


def check_is_directory(data_dir: Path) -> None:
    """Raise DataDirUnusable when the path is not a directory, or cannot be read. It may be missing."""
    with explain_folder_errors(data_dir):
        try:
            with os.scandir(data_dir):
                pass
        except FileNotFoundError:
            pass


@contextlib.contextmanager
def explain_folder_errors(data_dir: Path) -> Generator[None]:
    """Turn errors of the system and of SQLite about the directory's files into DataDirUnusable."""
    try:
        yield
    except (OSError, sqlite3.Error, NewerFormat, json.JSONDecodeError) as error:
        raise DataDirUnusable(_sentence(data_dir, error)) from error


def _sentence(data_dir: Path, error: Exception) -> str:
    if isinstance(error, NewerFormat):
        return f"{data_dir} was last used by a newer headrace, which keeps more in it ({error}); use that version."
    if isinstance(error, OSError):
        return _sentence_of_system(data_dir, error)
    state = data_dir / STATE_FILE
    if isinstance(error, json.JSONDecodeError):
        return _describe_damage(data_dir, f"no JSON: {error}")
    text = str(error)
    if "unable to open" in text or "readonly" in text:
        return (
            f"The state database {state} cannot be opened for writing; look at its owner and mode."
        )
    if "locked" in text:
        return f"The state database {state} is in use by another program."
    if isinstance(error, sqlite3.OperationalError):
        return f"The state database {state} cannot be used: {text}."
    return _describe_damage(data_dir, text)


def _describe_damage(data_dir: Path, why: str) -> str:
    command = f"headrace check --repair --data-dir {data_dir}"
    return f"The state database {data_dir / STATE_FILE} is damaged ({why}); see: {command}"


def _sentence_of_system(data_dir: Path, error: OSError) -> str:
    path = Path(os.fsdecode(error.filename)) if error.filename else data_dir
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return f"{path} may not be written by {_user(os.geteuid())}{_owner(path)}."
        case errno.EROFS:
            return f"{path} is on a file system that is mounted read-only."
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return f"No space is left on the disk of {data_dir}; free some and try again."
        case errno.ENOTDIR | errno.EEXIST:
            files = (one for one in (path, *path.parents) if one.exists() and not one.is_dir())
            return f"{next(files, path)} is not a directory."
        case errno.ENAMETOOLONG:
            return f"{data_dir} is too long a path."
        case _:
            return f"{path} cannot be used: {error.strerror or error}."


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _owner(path: Path) -> str:
    for one in (path, *path.parents):
        with contextlib.suppress(OSError):
            status = one.stat()
            mode = f"{status.st_mode & 0o7777:04o}"
            return f" ({one} belongs to {_user(status.st_uid)}, mode {mode})"
    return ""
