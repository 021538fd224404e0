"""The clouds that are compared, each in a process of its own."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from scripts.benchmarks.wire import Connection

START_WITHIN_S = 60.0
PACKAGES = {
    "headrace": "headrace",
    "headrace-fsync": "headrace",
    "moto": "moto",
    "ministack": "ministack",
}


def version(name: str) -> str:
    """Return the version of a target's package."""
    return importlib.metadata.version(PACKAGES[name])


def _command(name: str, port: int, folder: Path) -> list[str]:
    scripts = Path(sys.executable).parent
    if name == "moto":
        return [str(scripts / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    if name == "ministack":
        return [str(scripts / "ministack")]
    durability = "fsync" if name == "headrace-fsync" else "os"
    return [
        *(sys.executable, "-m", "headrace.cli.main", "up", "--data-dir", str(folder / "data")),
        *("--port", str(port), "--durability", durability),
    ]


@contextlib.contextmanager
def running(name: str) -> Generator[int]:
    """Start a target on a free port and an empty folder; yields the port; stops it at the end."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
        free.close()
        environment = {**os.environ, "GATEWAY_PORT": str(port), "LOG_LEVEL": "ERROR"}
        log_path = Path(folder) / "log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                _command(name, port, Path(folder)),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=None if name.startswith("headrace") else folder,
            )
        try:
            _wait(process, port, log_path)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log_path: Path) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while True:
        if process.poll() is not None:
            raise SystemExit(f"it did not start:\n{log_path.read_text()[-3000:]}")
        try:
            connection = Connection(port)
            connection.ask("ListStreams", {})
            connection.close()
        except (OSError, RuntimeError, ValueError) as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"it did not answer in time: {error}") from error
            time.sleep(0.05)
        else:
            return
