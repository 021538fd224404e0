"""The compared clouds, each in a separate process, on the first processor."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.benchmarks.wire import Connection

START_WITHIN_S = 60.0
NODE_MODULES = Path(__file__).parent / "node_modules"
# kinesalite and kinesis-mock refuse streams of 256 shards by default.
SHARD_LIMIT = 2000


class CannotStart(Exception):
    """A compared cloud did not start; the sentence says why."""


@dataclass(frozen=True)
class Program:
    """How to start a cloud: a command and environment variables, for a port and a folder."""

    package: str
    command: Callable[[int, Path], Sequence[str]]
    environment: Callable[[int], dict[str, str]] = lambda _port: {}
    is_node: bool = False


def _headrace(durability: str) -> Callable[[int, Path], Sequence[str]]:
    def command(port: int, folder: Path) -> Sequence[str]:
        return [
            *(sys.executable, "-m", "headrace.cli.main", "up", "--data-dir", str(folder / "data")),
            *("--port", str(port), "--durability", durability),
        ]

    return command


def _script(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _kinesis_mock_environment(port: int) -> dict[str, str]:
    return {
        "KINESIS_MOCK_PLAIN_PORT": str(port),
        "KINESIS_MOCK_TLS_PORT": str(free_port()),
        "KINESIS_MOCK_CERT_PATH": str(NODE_MODULES / "kinesis-local" / "server.json"),
        "SHARD_LIMIT": str(SHARD_LIMIT),
    }


PROGRAMS = {
    "headrace": Program("headrace", _headrace("os")),
    "headrace-fsync": Program("headrace", _headrace("fsync")),
    # Not an emulator: what one Python process can do with the same log.
    "bare": Program(
        "headrace",
        lambda port, folder: [
            *(sys.executable, "-m", "scripts.benchmarks.bare", str(port), str(folder))
        ],
        lambda _port: {"PYTHONPATH": str(Path(__file__).parents[2])},
    ),
    "moto": Program(
        "moto", lambda port, _: [_script("moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    ),
    "ministack": Program(
        "ministack",
        lambda _port, _folder: [_script("ministack")],
        lambda port: {"GATEWAY_PORT": str(port)},
    ),
    "kinesalite": Program(
        "kinesalite",
        lambda port, _: [
            *("node", str(NODE_MODULES / "kinesalite" / "cli.js"), "--port", str(port)),
            *("--shardLimit", str(SHARD_LIMIT)),
        ],
        is_node=True,
    ),
    "kinesis-mock": Program(
        "kinesis-local",
        lambda _port, _folder: ["node", str(NODE_MODULES / "kinesis-local" / "main.js")],
        _kinesis_mock_environment,
        is_node=True,
    ),
}


def checkout(folder: str) -> Program:
    """Return headrace as another checkout has it (`git worktree add FOLDER COMMIT`), on this environment's packages."""
    path = str(Path(folder).resolve())
    environment = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    return Program("headrace", PROGRAMS["headrace"].command, lambda _port: environment)


def version(name: str) -> str:
    """Return the version of a target's package, or `not installed`."""
    program = PROGRAMS[name]
    try:
        if program.is_node:
            text = (NODE_MODULES / program.package / "package.json").read_text()
            return str(json.loads(text)["version"])
        return importlib.metadata.version(program.package)
    except (OSError, importlib.metadata.PackageNotFoundError):
        return "not installed"


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processors() -> tuple[int, int]:
    """Return the processors of the servers and of the load; (-1, -1) if the machine has only one."""
    if not hasattr(os, "sched_getaffinity"):
        return -1, -1
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else (-1, -1)


class Running:
    """A started target: its port and its processes' memory."""

    def __init__(self, name: str, folder: Path, first_cpu: int) -> None:
        self.name = name
        self.folder = folder
        self.port = 0
        self._first_cpu = first_cpu
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it on a free port; return the seconds until it answered. Raises CannotStart."""
        program = PROGRAMS[self.name]
        if program.is_node and shutil.which("node") is None:
            raise CannotStart("Node.js is not installed")
        self.port = free_port()
        environment = {
            **os.environ,
            "LOG_LEVEL": "ERROR",
            # Functions write their measurements there.
            "HEADRACE_FUNCTION_FOLDERS": str(self.folder),
            **program.environment(self.port),
        }
        started = time.perf_counter()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                program.command(self.port, self.folder),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=None if self.name.startswith("headrace") else self.folder,
                # Its children and threads inherit the processor.
                preexec_fn=self._to_first_cpu,
            )
        self._wait()
        return time.perf_counter() - started

    def _to_first_cpu(self) -> None:
        if self._first_cpu >= 0:
            os.sched_setaffinity(0, {self._first_cpu})

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_WITHIN_S
        while True:
            if self._process.poll() is not None:
                log = (self.folder / "log").read_text(errors="replace")
                raise CannotStart(f"it did not start: {log[-600:]}")
            try:
                connection = Connection(self.port)
                connection.ask("ListStreams", {})
                connection.close()
            except (OSError, RuntimeError, ValueError) as error:
                if time.monotonic() > deadline:
                    raise CannotStart(f"it did not answer in time: {error}") from error
                time.sleep(0.005)
            else:
                return

    def stop(self) -> None:
        """Stop it: by SIGTERM first."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it without warning, as a power failure would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    def rss_mb(self) -> float:
        """Return the resident memory of the process and its children, in 10^6 bytes; 0 if unknown."""
        assert self._process is not None
        return rss_mb(self._process.pid)


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process and its children, in 10^6 bytes; 0 if unknown."""
    return sum(map(_rss_bytes, _family(pid))) / 1e6


def _family(pid: int) -> list[int]:
    family = [pid]
    for each in family:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                family.extend(map(int, (task / "children").read_text().split()))
    return family


def _rss_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def running(name: str, first_cpu: int = -1) -> Generator[Running]:
    """Start a target in an empty folder; stop it at the end. Raises CannotStart.

    `first_cpu` is the processor that it may use, -1 for all.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        target = Running(name, Path(folder), first_cpu)
        try:
            target.start()
            yield target
        finally:
            target.stop()
