"""Verifies the code of functions and layers by its hash, offline, and unpacks damaged code again.

Names what does not belong into a data directory: names in stored state, files and settings of servers, links.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Generator, Iterator
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


# Folders in which links are usual: code as it was deployed, which only walled functions see, and Spark's.
_WITH_LINKS = (Path("lambda", "code"), Path("emr"), Path("emr-serverless"), Path("spark-history"))
_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "INTERRUPTED", "SUCCESS"})


def foreign_state(database: Path) -> Iterator[str]:
    """Yield what moto's stored state names that is no part of it. Raises sqlite3.Error."""
    from headrace.moto.storage.stored_names import PICKLED, foreign_names

    with _reading(database) as connection:
        for service, is_compressed, state in _rows(connection, "fallback_services"):
            try:
                data = zlib.decompress(state) if is_compressed else bytes(state)
            except zlib.error as error:
                yield f"{database}: the state of {service} is damaged: {error}"
                continue
            for name in foreign_names(data):
                yield f"{database}: the state of {service} has {name}, which does not belong there"
        for rows_id, key, value in _rows(connection, "fallback_rows"):
            data = bytes(value) if isinstance(value, bytes) else b""
            for name in foreign_names(data) if data.startswith(PICKLED) else ():
                yield f"{database}: row {key!r} of {rows_id} has {name}, which does not belong there"


def foreign_servers(data_dir: Path) -> Iterator[str]:
    """Yield what does not belong into the folders of Redshift's servers."""
    from headrace.services.redshift.clusters.home import FOLDER
    from headrace.services.redshift.clusters.server_files import foreign_files, list_refused_files

    for folder in sorted(path for path in data_dir.glob(f"{FOLDER}/*") if path.is_dir()):
        for path, why in (*list_refused_files(folder), *foreign_files(folder)):
            yield f"{path}: {why}"
        spec = folder / "spec.json"
        if spec.is_file() and not spec.is_symlink() and not _describes(spec, folder.name):
            yield f"{spec}: describes another cluster"


def _describes(spec: Path, key: str) -> bool:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        told: dict[str, Any] = json.loads(spec.read_text())
        return f"{told['kind']}-{told['account']}-{told['region']}-{told['name']}" == key
    return False


def outward_links(data_dir: Path) -> Iterator[str]:
    """Yield the links that lead out of the data directory."""
    root = data_dir.resolve()
    for folder, folders, files in os.walk(data_dir):
        here = Path(folder)
        inside = here.relative_to(data_dir)
        folders[:] = [name for name in folders if inside / name not in _WITH_LINKS]
        for name in (*folders, *files):
            path = here / name
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                yield f"{path}: is a link out of the data directory, to {path.readlink()}"


def list_waiting_code(database: Path) -> Iterator[str]:
    """Yield the steps and job runs that the next start runs, with the rights of the user who starts it."""
    with _reading(database) as connection:
        for table, what in (("doc_emr_steps", "step"), ("doc_emr_serverless_job_runs", "job run")):
            for *_, text in _rows(connection, table):
                with contextlib.suppress(ValueError):
                    told: dict[str, Any] = json.loads(text)
                    if str(told.get("state", "")) not in _ENDED:
                        yield f"{what} {told.get('id', '')} ({told.get('name', '')})"


@contextlib.contextmanager
def _reading(database: Path) -> Generator[sqlite3.Connection]:
    uri = f"{database.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        yield connection


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    columns = {
        "fallback_services": "service, is_compressed, state",
        "fallback_rows": "rows_id, key, value",
    }.get(table, "value")
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
        yield from connection.execute(f"SELECT {columns} FROM {table}")
