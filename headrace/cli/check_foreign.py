"""Names what does not belong into a data directory: names in stored state, files and settings of servers, links."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

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
