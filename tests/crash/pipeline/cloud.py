"""The cloud under test: started, killed, stopped, paused, given another time, and left without room on its disk."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from tests.crash.pipeline.zygote import OFFSET
from tests.support.server import boto_client, wait_until
from tests.support.small_disk import NoSmallDisk, SmallDisk

DISK_BYTES = 4 * 1024**3
_REPOSITORY = Path(__file__).parents[3]


def _free_port() -> int:
    """Return a free port that no client is given for its own end.

    Whoever connects again and again to such a port while nobody listens there ends up connected to himself, and the
    cloud that starts finds its address in use.
    """
    ports = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(ports.read_text().split()[0]) if ports.exists() else 32_768
    for port in random.SystemRandom().sample(range(10_000, first), 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class CloudUnderTest:
    """One data directory and the processes that run on it, one after another. Not thread-safe.

    Attributes:
        incarnation: how many processes there have been.
        endpoint_url: the same for all of them.
        data_dir: of all of them.
        disk: the small disk that the data lies on, or None where none can be made.
        without_disk: why not.
    """

    def __init__(self, root: Path, *, without_disk: str = "") -> None:
        """Make it; `without_disk` says why this process may not mount, empty when it may."""
        root.mkdir(parents=True, exist_ok=True)
        self.incarnation = 0
        self.disk: SmallDisk | None = None
        self.without_disk = without_disk
        self._inside = root / "disk"
        self._clock_file = root / "clock"
        self._clock_file.write_bytes(OFFSET.pack(0))
        self.log = root / "headrace.log"
        self._stack = contextlib.ExitStack()
        if not without_disk:
            disk = SmallDisk(self._inside, DISK_BYTES, in_own_namespace=True)
            try:
                self.disk = self._stack.enter_context(disk)
            except NoSmallDisk as error:
                self.without_disk = str(error)
        self._inside.mkdir(exist_ok=True)
        self.data_dir = self._inside / "data"
        self.port = _free_port()
        self._zygote: subprocess.Popen[str] | None = None
        self._alone: subprocess.Popen[bytes] | None = None
        self.pid = 0

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.crash.pipeline.zygote", str(self._clock_file)]
        self._zygote = subprocess.Popen(
            command,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_REPOSITORY,
        )  # fmt: skip
        self._hear()
        return self

    def __exit__(self, *_: object) -> None:
        if self.pid:
            self.kill9()
        assert self._zygote is not None
        self._zygote.kill()
        self._zygote.communicate()
        self._stack.close()

    @property
    def endpoint_url(self) -> str:
        """Where it answers, when it does."""
        return f"http://127.0.0.1:{self.port}"

    def client(self, service: str) -> Any:
        """Return a boto3 client that never retries."""
        return boto_client(service, self.endpoint_url, connect_timeout=5, read_timeout=60)

    def _hear(self) -> dict[str, Any]:
        assert self._zygote is not None
        assert self._zygote.stdout is not None
        return json.loads(self._zygote.stdout.readline())

    def _wish(self, **what: Any) -> dict[str, Any]:
        assert self._zygote is not None
        assert self._zygote.stdin is not None
        self._zygote.stdin.write(json.dumps(what) + "\n")
        self._zygote.stdin.flush()
        return self._hear()

    # --- life ---------------------------------------------------------------------------------

    def start(self, *, cold: bool = False) -> None:
        """Start a process and return when it answers; a cold one imports everything itself."""
        self.incarnation += 1
        arguments = ["up", "--data-dir", str(self.data_dir), "--port", str(self.port)]
        if cold:
            command = [sys.executable, "-m", "headrace.cli.main", *arguments]
            with self.log.open("ab") as log:
                self._alone = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
            self.pid = self._alone.pid
        else:
            self.pid = int(self._wish(start=arguments, log=str(self.log))["pid"])
        wait_until(self._is_up, what=f"the start of cloud {self.incarnation}; see {self.log}")

    def _is_up(self) -> bool:
        if not Path(f"/proc/{self.pid}/exe").exists():
            raise AssertionError(f"the cloud ended at once; see {self.log}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/_headrace/health")
            page = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return False
        finally:
            connection.close()
        return bool(page["status"] == "ok" and page["pid"] == self.pid)

    def page(self, path: str) -> Any:
        """Return one of the cloud's own JSON pages."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def _gone(self) -> int:
        pid, self.pid = self.pid, 0
        if self._alone is not None:
            alone, self._alone = self._alone, None
            return alone.wait(60)
        return int(self._wish(wait=pid)["status"])

    def kill9(self) -> None:
        """Kill it as a power switch would, as far as the process can tell."""
        os.kill(self.pid, signal.SIGKILL)
        self._gone()

    def terminate(self) -> None:
        """Stop it as `headrace down` does."""
        os.kill(self.pid, signal.SIGTERM)
        status = self._gone()
        assert status == 0, f"the cloud that was stopped ended with {status}; see {self.log}"

    def pause(self, seconds: float) -> None:
        """Stop its process for a while, as a laptop that sleeps does."""
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGCONT)

    # --- surroundings -------------------------------------------------------------------------

    def shift_clock(self, offset_ms: int) -> None:
        """Let its clock differ by so much from now on."""
        with self._clock_file.open("r+b") as file:
            file.write(OFFSET.pack(offset_ms))

    def fill_disk(self, leave_bytes: int) -> None:
        """Leave it so much room to write, or, without a disk of its own, let no file grow."""
        if self.disk is not None:
            self.disk.fill(leave_bytes=leave_bytes)
        else:
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (leave_bytes, resource.RLIM_INFINITY))

    def empty_disk(self) -> None:
        """Give it room again."""
        if self.disk is not None:
            self.disk.resize(DISK_BYTES)
        elif self.pid:
            most = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, most)
