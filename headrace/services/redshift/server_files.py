"""The files of a cluster's PostgreSQL: settings, written anew at each start, and what must not be among the data.

A data directory may come from a stranger. Nothing in it decides what the server runs: every setting comes from here and
from the command line, and links out of the folder, tablespaces and the marks of a restored backup are refused.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from headrace.walls.walled_server import libraries_of

# Settings of every server.
SETTINGS = (
    "unix_socket_permissions=0700",
    "shared_buffers=32MB",
    "max_connections=60",
    "max_wal_size=256MB",
    "jit=off",
    "logging_collector=off",
    "log_destination=stderr",
    "timezone=UTC",
    "datestyle=ISO, MDY",
    "bytea_output=hex",
    # As in Redshift, whose own drivers cannot do SCRAM.
    "password_encryption=md5",
    "md5_password_warnings=off",
    # Nothing runs programs, loads libraries or connects elsewhere, whatever a role or a database is set to.
    "allow_alter_system=off",
    "archive_mode=off",
    "archive_command=",
    "archive_library=",
    "restore_command=",
    "archive_cleanup_command=",
    "recovery_end_command=",
    "primary_conninfo=",
    "shared_preload_libraries=",
    "session_preload_libraries=",
    "local_preload_libraries=",
    "dynamic_library_path=$libdir",
    "extension_control_path=",
    "ssl=off",
    "ssl_passphrase_command=",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_replication_slots=0",
    "max_logical_replication_workers=0",
    "max_prepared_transactions=0",
)
SETTINGS_FOLDER = "settings"
# The libraries of an installation that a cluster needs: its language, its dictionaries and its encodings.
_LIBRARIES = ("plpgsql.so", "dict_snowball.so", "euc2004_sjis2004.so")
# What lies in a cluster's folder.
OWN_FILES = frozenset(
    {"data", "port", "password", "spec.json", "log", "running", "root", "socket", SETTINGS_FOLDER}
)
# A start with one of these restores a backup: it runs commands, or makes links to the folders that they name.
_RESTORING = ("recovery.signal", "standby.signal", "backup_label", "tablespace_map")
_RESTORING_OLD = ("recovery.conf", "promote")
# What `initdb` writes into postgresql.conf: these lines are not read, but they are nothing foreign.
_INITDB_SETTINGS = frozenset(
    {
        "max_connections", "shared_buffers", "dynamic_shared_memory_type", "max_wal_size", "min_wal_size",
        "log_timezone", "datestyle", "timezone", "lc_messages", "lc_monetary", "lc_numeric", "lc_time",
        "default_text_search_config", "autovacuum_worker_slots",
    }
)  # fmt: skip
_INITDB_RULE = re.compile(r"(local|host)\s+(all|replication)\s+all(\s+\S+)?\s+scram-sha-256")
# The files of a data folder, whatever its contents (docs: postgresql.org/docs/current/storage-file-layout.html).
_DATA_FILES = frozenset(
    {
        "PG_VERSION", "base", "current_logfiles", "global", "pg_commit_ts", "pg_dynshmem", "pg_logical",
        "pg_multixact", "pg_notify", "pg_replslot", "pg_serial", "pg_snapshots", "pg_stat", "pg_stat_tmp",
        "pg_subtrans", "pg_tblspc", "pg_twophase", "pg_wal", "pg_xact", "postgresql.conf", "postgresql.auto.conf",
        "pg_hba.conf", "pg_ident.conf", "postmaster.opts", "postmaster.pid",
    }
)  # fmt: skip


@functools.cache
def installation(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return the files of an installation and of the system that a server sees: no other program or library."""
    program = folder / "bin" / "postgres"
    libraries = (folder / "lib").glob("*.so")
    shared = (path for path in (folder / "share").iterdir() if path.name != "extension")
    files = [
        program,
        *(path for path in libraries if path.name in _LIBRARIES or "_and_" in path.name),
        *shared,
        *(folder / "share" / "extension").glob("plpgsql*"),
        *map(Path, libraries_of(str(program))),
    ]
    return tuple((str(path), str(path.resolve())) for path in dict.fromkeys(files))


def rules(superuser: str) -> str:
    """Return pg_hba.conf: users log in with their passwords; headrace itself comes through its own socket.

    A password that was set to a SCRAM secret is still asked for by SCRAM.
    """
    return (
        "# Written at each start. The socket is in a folder that only headrace's user may enter.\n"
        "local all all trust\n"
        f"host all {superuser} all reject\n"
        "host all all 127.0.0.1/32 md5\n"
    )


def write_settings(folder: Path, superuser: str) -> list[str]:
    """Write the settings' files into a cluster's folder; return the settings that name them. Raises OSError."""
    settings_folder = folder / SETTINGS_FOLDER
    settings_folder.mkdir(mode=0o700, exist_ok=True)
    texts = {
        "config_file": ("postgresql.conf", "# Settings are given on the command line.\n"),
        "hba_file": ("pg_hba.conf", rules(superuser)),
        "ident_file": ("pg_ident.conf", ""),
    }
    for name, text in texts.values():
        file = settings_folder / name
        # A full disk must not keep a server from starting.
        if not file.is_file() or file.read_text() != text:
            file.write_text(text)
    # PostgreSQL always reads this one; ALTER SYSTEM, which would write it, is off.
    (folder / "data" / "postgresql.auto.conf").unlink(missing_ok=True)
    return [f"{setting}={settings_folder / name}" for setting, (name, _) in texts.items()]


def list_refused_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield what keeps a cluster's server from starting: the file, and why."""
    for path, mode in _files(folder):
        if stat.S_ISLNK(mode):
            yield path, f"is a link to {path.readlink()}"
        elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and path.parent != folder / "socket":
            yield path, "is neither a file nor a folder"
        elif path.parent == folder / "data" / "pg_tblspc":
            yield path, "is a tablespace"
    for name in (*_RESTORING, *_RESTORING_OLD):
        path = folder / "data" / name
        if path.exists():
            yield path, "makes PostgreSQL restore a backup"


def foreign_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield what does not belong into a cluster's folder, and is not read."""
    refused = [path for path, _ in list_refused_files(folder)]
    data = folder / "data"
    for path, mode in _files(folder):
        top = path.parent in (folder, data)
        known = OWN_FILES if path.parent == folder else _DATA_FILES
        if path in refused:
            continue
        if top and path.name not in known:
            yield path, "does not belong here"
        elif stat.S_ISREG(mode) and (mode & 0o111 or path.suffix in (".so", ".dylib")):
            yield path, "is a program or a library"
    for name in ("postgresql.conf", "postgresql.auto.conf"):
        for setting in _settings_in(data / name):
            if setting not in _INITDB_SETTINGS or name == "postgresql.auto.conf":
                yield data / name, f"sets {setting}, which is not read"
    for line in _lines(data / "pg_hba.conf"):
        if not _INITDB_RULE.fullmatch(line):
            yield data / "pg_hba.conf", f"has the rule {line!r}, which is not read"
    for line in _lines(data / "pg_ident.conf"):
        yield data / "pg_ident.conf", f"has the line {line!r}, which is not read"


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield every path below a folder, and its mode; links are not followed."""
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                yield Path(entry.path), mode
                if stat.S_ISDIR(mode):
                    waiting.append(Path(entry.path))


def _lines(file: Path) -> Iterator[str]:
    if not file.is_file() or file.is_symlink():
        return
    for line in file.read_text("utf-8", "replace").splitlines():
        text = line.partition("#")[0].strip()
        if text:
            yield text


def _settings_in(file: Path) -> Iterator[str]:
    for line in _lines(file):
        yield re.split(r"[\s=]", line, maxsplit=1)[0].lower()
