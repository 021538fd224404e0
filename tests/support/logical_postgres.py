"""A PostgreSQL with logical replication, of the extra `cdc`; it can be killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from headrace.services.redshift.postgres import as_ordinary_user, binaries
from scripts.benchmarks.servers import free_port

_PROGRAMS = binaries()
_STARTED_WITHIN_S = 60.0


class LogicalPostgres:
    """One server on this machine, without passwords; with `primary` its standby, which `run` can promote."""

    def __init__(self, *, primary: LogicalPostgres | None = None, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-cdc-"))
        self.port = free_port()
        self._as_user = [] if os.geteuid() else as_ordinary_user()
        self._settings = {
            "wal_level": "logical",
            "fsync": "off",
            "max_wal_senders": "10",
            "max_replication_slots": "10",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        if primary is not None:
            self._copy(primary)
            self.start()
            return
        command = [*self._as_user, str(_PROGRAMS / "initdb"), "-D", str(self._data), "-U", "postgres", "-E", "UTF8",
                   "--no-locale", "--auth=trust", "--no-sync"]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        self.start()

    def _copy(self, primary: LogicalPostgres) -> None:
        slot = f"standby_{self.port}"
        primary.run(f"select pg_create_physical_replication_slot('{slot}')")
        command = [*self._as_user, str(_PROGRAMS / "pg_basebackup"), "-D", str(self._data), "-d", primary.url,
                   "--checkpoint=fast", "--no-sync", "-X", "stream", "-S", slot]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        subprocess.run([*self._as_user, "touch", str(self._data / "standby.signal")], check=True)
        self._settings |= {
            "primary_conninfo": f"host=127.0.0.1 port={primary.port} user=postgres dbname=postgres",
            "primary_slot_name": slot,
            "hot_standby_feedback": "on",
        }

    def keep(self, folder: Path) -> None:
        """Stop it, and keep its files as they are; `restore` brings them back."""
        self._end(signal.SIGINT)
        subprocess.run(["cp", "-a", str(self._data), str(folder)], check=True)
        self.start()

    def restore(self, folder: Path) -> None:
        """Replace its files by those that `keep` kept, as from a backup."""
        self._end(signal.SIGINT)
        shutil.rmtree(self._data)
        subprocess.run(["cp", "-a", str(folder), str(self._data)], check=True)
        self.start()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        """Of its superuser."""
        return self.url_of("postgres")

    def url_of(self, user: str, database: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [
            part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_user, str(_PROGRAMS / "postgres"), "-D", str(self._data), "-p", str(self.port), *settings],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={"LC_ALL": "C", "TZ": "UTC"},
            )  # fmt: skip
        deadline_s = time.monotonic() + _STARTED_WITHIN_S
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline_s or self._process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """Kill -9 the whole server."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it, and remove its files."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        process.wait()
        self._wait_for_children()

    def _wait_for_children(self) -> None:
        """Wait until no backend holds the shared memory any more, so that a start is not refused."""
        deadline_s = time.monotonic() + _STARTED_WITHIN_S
        while any(_folder_of(path) == self._data for path in Path("/proc").glob("[0-9]*")):
            if time.monotonic() > deadline_s:
                raise RuntimeError("PostgreSQL's processes did not end")
            time.sleep(0.05)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def run(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements, each in a transaction of its own; return the last one's rows."""
        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.url_of("postgres", database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
                rows = cursor.fetchall() if cursor.description else []
        return rows


def _folder_of(process: Path) -> Path | None:
    """Return the current folder of a process, which is the data's for each of a server."""
    try:
        return (process / "cwd").readlink()
    except OSError:
        return None
