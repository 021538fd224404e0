"""Verifies the code of functions and layers by its hash, offline, and unpacks damaged code again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

CODE_FOLDER = Path("lambda", "code")
_LOCAL = "local:"
_PIECE_BYTES = 1024 * 1024
_NEW_SUFFIX = ".repairing"


@dataclass(frozen=True, slots=True)
class BadCode:
    """A deployment package that differs from the uploaded one.

    Attributes:
        digest: the SHA-256 of its zip, which is its name.
        users: the functions and layers that use it.
        can_be_mended: the zip is undamaged; only the unpacked files differ.
    """

    digest: str
    users: list[str]
    path: Path
    what: str
    can_be_mended: bool

    def __str__(self) -> str:
        mend = "" if self.can_be_mended else "; deploy it again"
        return f"{self.path}: the code of {', '.join(self.users)} {self.what}{mend}"


def check_code(data_dir: Path, database: Path) -> Iterator[BadCode]:
    """Yield the packages that are damaged. Raises sqlite3.DatabaseError, OSError."""
    for digest, users in sorted(_packages(database).items()):
        if digest.startswith(_LOCAL):
            continue  # a folder of the user, which headrace uses without copying it
        folder = data_dir / CODE_FOLDER / digest
        archive = folder.with_name(f"{digest}.zip")
        if not archive.is_file():
            yield BadCode(digest, users, archive, "is missing", can_be_mended=False)
        elif _sha256(archive) != digest:
            yield BadCode(digest, users, archive, "does not match its hash", can_be_mended=False)
        else:
            what = _difference(archive, folder)
            if what:
                yield BadCode(digest, users, folder, what, can_be_mended=True)


def mend_code(bad: BadCode, quarantine: Path) -> None:
    """Unpack an undamaged zip again; the old files are moved to `quarantine`. Raises OSError."""
    from headrace.services.lambda_.packages.code import unzip

    folder = bad.path
    new = folder.with_name(f"new-{bad.digest}{_NEW_SUFFIX}")
    _remove(new)
    unzip(folder.with_name(f"{bad.digest}.zip"), new)
    if folder.exists():
        aside, number = quarantine / bad.digest, 1
        while aside.exists():
            aside = quarantine / f"{bad.digest}-{number}"
            number += 1
        quarantine.mkdir(parents=True, exist_ok=True)
        folder.rename(aside)
    new.rename(folder)


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _packages(database: Path) -> dict[str, list[str]]:
    """Return the users of each package: every version of every function, and every layer."""
    used: dict[str, list[str]] = {}
    uri = f"file:{database}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        for value in _documents(connection, "lambda_functions"):
            versions: dict[str, Any] = value["versions"]
            for number, version in versions.items():
                name = f"function {value['name']} {number}"
                for digest in (version["digest"], *version.get("layers", ())):
                    used.setdefault(digest, []).append(name)
        for value in _documents(connection, "lambda_layers"):
            used.setdefault(value["digest"], []).append(f"layer {value['LayerVersionArn']}")
    return used


def _documents(connection: sqlite3.Connection, name: str) -> Iterator[dict[str, Any]]:
    table = f"doc_{name}"
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
        for (text,) in connection.execute(f"SELECT value FROM {table}"):
            yield cast("dict[str, Any]", json.loads(text))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _difference(archive: Path, folder: Path) -> str:
    """Return how the unpacked files differ from the zip, empty when they do not. Additional files are no difference."""
    if not folder.is_dir():
        return "is not unpacked"
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            path = folder / entry.filename
            if entry.is_dir() or stat.S_ISLNK(entry.external_attr >> 16):
                continue
            if not path.is_file():
                return f"lacks {entry.filename}"
            if path.stat().st_size != entry.file_size or _crc32(path) != entry.CRC:
                return f"differs from its zip in {entry.filename}"
    return ""


def _crc32(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            value = zlib.crc32(piece, value)
    return value
