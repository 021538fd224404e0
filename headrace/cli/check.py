"""`headrace check` verifies a data directory, offline, and repairs it with `--repair`; `headrace reset` removes it.

Verifies the code of functions and layers by its hash, and unpacks damaged code again. Names what does not belong into a
data directory: names in stored state, files and settings of servers, links.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import stat
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click

from headrace.cli.options import data_dir_option, fail, usable
from headrace.cli.running_cloud import LOCK_FILE
from headrace.core.clock import SystemClock
from headrace.core.config import home_folder
from headrace.services.firehose.state import DeliveryStreams
from headrace.services.kinesis.state import Stream
from headrace.services.opensearch.home import FILE as INDEXES_FILE
from headrace.store import repair_database
from headrace.store.check import JOURNALS_FOLDER, STREAMS_FOLDER, read_known
from headrace.store.database import STATE_FILE, Database
from headrace.store.repair_database import QUARANTINE_FOLDER, repair_logs
from headrace.store.sequence import SequenceBase


@click.command()
@data_dir_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(data_dir: Path, *, yes: bool) -> None:
    """Remove all data of a stopped cloud, after a question. The next cloud begins empty.

    The folder and its lock stay. A folder without a cloud's state, or with the current or your home folder in it, is
    refused. Nothing brings the data back.
    """
    usable(data_dir)
    if not (data_dir / STATE_FILE).is_file():
        raise fail(f"There is no data of a cloud in {data_dir}; name its folder with --data-dir.")
    resolved = data_dir.resolve()
    for protected in (Path.cwd(), home_folder()):
        if protected.resolve().is_relative_to(resolved):
            raise fail(
                f"{data_dir} has {protected} in it, which is not a cloud's data; remove it yourself."
            )
    with alone(data_dir):
        # The state last: a reset that was interrupted can be repeated.
        paths = sorted(
            data_dir.iterdir(), key=lambda path: (path.name.startswith(STATE_FILE), path)
        )
        paths = [path for path in paths if path.name != LOCK_FILE]
        if not yes:
            names = ", ".join(path.name for path in paths)
            click.confirm(f"Remove everything in {resolved} ({names})?", abort=True)
        for path in paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    click.echo(f"{data_dir} is empty")


def repair_all(data_dir: Path) -> Iterator[str]:
    """Repair the data directory; yield a sentence for each repair. The caller holds the directory's lock.

    It may be killed at any point and repeated. Raises OSError, sqlite3.Error, NewerFormat.
    """
    path = data_dir / STATE_FILE
    if repair_database.finish(path):
        yield f"{path}: the repair that was not finished is finished"
    if not path.exists():
        yield f"{path} is missing: no tool can bring back which streams there were; the logs are left as they are"
        return
    if repair_database.damage_of(path):
        try:
            yield from repair_database.repair_database(path)
        except repair_database.DatabaseUnreadable as error:
            yield str(error)
            return
    database = Database(path)
    try:
        known = read_known(path)
        yield from repair_logs(data_dir, database, known, _bases(data_dir, database))
    finally:
        database.close()
    yield from _set_aside_indexes(data_dir)
    for bad in check_code(data_dir, path):
        if bad.can_be_mended:
            mend_code(bad, data_dir / QUARANTINE_FOLDER / "lambda")
            yield f"{bad}: it is unpacked anew"


def _set_aside_indexes(data_dir: Path) -> Iterator[str]:
    """Move damaged OpenSearch indexes to the quarantine: their documents can be indexed again from the source."""
    path = data_dir / INDEXES_FILE
    if not path.exists() or not repair_database.damage_of(path):
        return
    folder, number = data_dir / QUARANTINE_FOLDER / "opensearch", 1
    while folder.exists():
        folder, number = folder.with_name(f"opensearch-{number}"), number + 1
    folder.mkdir(parents=True)
    for part in sorted(data_dir.glob(f"{INDEXES_FILE}*")):
        part.replace(folder / part.name)
    yield f"{path} is damaged and lies in {folder}: OpenSearch's domains begin without an index"


def _bases(data_dir: Path, database: Database) -> dict[Path, SequenceBase]:
    """Return the common part of the sequence numbers of each log."""
    bases: dict[Path, SequenceBase] = {}
    for _, document in database.documents("kinesis_streams").items():  # noqa: PERF102 - not a dict
        stream = Stream.from_document(document)
        for shard in stream.shards:
            bases[data_dir / STREAMS_FOLDER / stream.stream_id / shard.shard_id] = shard.base
    for delivery in DeliveryStreams(database).load():
        folder = data_dir / JOURNALS_FOLDER / delivery.stream_id
        bases[folder] = SequenceBase(delivery.created_ms // 1000, 0)
    return bases


_REPORT_EVERY_S = 2.0
_MIB = 1024 * 1024


@click.command()
@data_dir_option
@click.option(
    "--repair",
    is_flag=True,
    help="Cut out damaged bytes, keep them in the folder quarantine, and list the lost records.",
)
@click.option(
    "--no-objects",
    is_flag=True,
    help="Do not check S3's objects, which takes as long as reading them.",
)
def check(data_dir: Path, *, repair: bool, no_objects: bool) -> None:
    """Verify the data of a stopped cloud. Exit 1 when something is wrong.

    Shard logs: checksums, order, missing segments. The state database, and that of OpenSearch's indexes. S3's objects
    against their ETags. The code of functions and layers against its hash. And what does not belong there: names in
    stored state, files and settings of servers, links that lead elsewhere.
    """
    usable(data_dir)
    if not data_dir.is_dir():
        raise fail(f"There is no data directory {data_dir}; name it with --data-dir.")
    with alone(data_dir):
        if repair:
            for sentence in repair_all(data_dir):
                click.echo(sentence)
        count = 0
        for problem in _problems(data_dir, objects=not no_objects):
            click.echo(problem)
            count += 1
    if count:
        left = " left" if repair else ""
        hint = "" if repair else "; mend it: headrace check --repair"
        raise fail(f"{count} problem{'s' if count != 1 else ''}{left} in {data_dir}{hint}")
    click.echo(f"{data_dir} is sound")


@contextlib.contextmanager
def alone(data_dir: Path) -> Generator[None]:
    """Hold the directory's lock, so that no cloud starts during the check."""
    from headrace.store.data_dir import DataDirInUse, DataDirUnusable, explain_folder_errors, lock

    try:
        with explain_folder_errors(data_dir), lock(data_dir):
            yield
    except DataDirInUse:
        raise fail(
            f"A cloud is running on {data_dir}; stop it first: headrace down --data-dir {data_dir}"
        ) from None
    except DataDirUnusable as error:
        raise fail(str(error)) from error


def _problems(data_dir: Path, *, objects: bool) -> Iterator[str]:
    from headrace.services.opensearch.home import FILE as INDEXES_FILE
    from headrace.store.check import check as check_logs
    from headrace.store.repair_database import damage_of

    indexes = data_dir / INDEXES_FILE
    damage = damage_of(indexes) if indexes.exists() else ""
    if damage:
        yield f"{indexes}: {damage}"
    yield from outward_links(data_dir)
    yield from foreign_servers(data_dir)
    database, is_reported = data_dir / STATE_FILE, False
    for problem in check_logs(data_dir):
        is_reported |= problem.path == database
        if problem.is_harmless:
            click.echo(f"{problem}: a write that did not finish; the next start cuts it off")
        else:
            yield str(problem)
    if is_reported or not database.exists():
        return
    damage = damage_of(database)
    if damage:
        yield f"{database}: {damage}"
        return
    yield from foreign_state(database)
    for what in list_waiting_code(database):
        click.echo(f"{what} runs at the next start, with your rights")
    yield from map(str, check_code(data_dir, database))
    if objects:
        yield from _list_damaged_objects(data_dir, database)


def _list_damaged_objects(data_dir: Path, database: Path) -> Iterator[str]:
    from headrace.services.s3.verify import verify_objects

    clock, counts, read_bytes = SystemClock(), Counter[str](), 0
    reported_s = clock.monotonic_s()
    for one in verify_objects(data_dir, database):
        counts[one.verdict] += 1
        read_bytes += one.size_bytes
        if one.verdict == "damaged":
            yield f"{one.path}: {one.name} is not what its ETag says; put it again"
        if clock.monotonic_s() - reported_s >= _REPORT_EVERY_S:
            reported_s = clock.monotonic_s()
            click.echo(f"{counts.total():,} objects, {read_bytes // _MIB:,} MiB", file=sys.stderr)
    changed = counts["changed"] + counts["gone"]
    if changed:
        click.echo(
            f"{changed} object{'s were' if changed != 1 else ' was'} changed or deleted as files since S3 wrote them,"
            " and cannot be verified"
        )
    if counts["unknown"]:
        click.echo(f"{counts['unknown']} objects have an ETag that cannot be computed")


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
    from headrace.services.lambda_.packages import unzip

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
    from headrace.services.redshift.home import FOLDER
    from headrace.services.redshift.server_files import foreign_files, list_refused_files

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
