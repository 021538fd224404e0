"""A real cloud in a process of its own, to be killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config as BotocoreConfig

from tests.support.environments import cloud_python
from tests.support.small_disk import SmallDisk
from tests.support.warm_server import ForkedProcess, warm_server

if TYPE_CHECKING:
    from typing import Self

REGION = "us-east-1"
LONGEST_PAUSE_S = 0.1


def wait_until(
    condition: Any,
    *,
    within_s: float = 30.0,
    what: str = "the condition",
    most_pause_s: float = 0.02,
) -> Any:
    """Return the first true value of `condition()`; fail when there is none in time.

    Most conditions ask a cloud: what is long in coming is asked for at a twentieth of the time that it has taken.
    """
    began_s = time.monotonic()
    pause_s = 0.001
    while True:
        value = condition()
        if value:
            return value
        waited_s = time.monotonic() - began_s
        if waited_s > within_s:
            raise AssertionError(f"{what}: not within {within_s:g} s")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, max(most_pause_s, min(waited_s / 20, LONGEST_PAUSE_S)))


class ServerProcess:
    """`headrace up` on a free port. A context manager; `kill9` and `start` again at will.

    Its functions may write where the data directory lies, so that tests see what they do; not with `walls_only`.
    """

    def __init__(
        self,
        data_dir: Path,
        *arguments: str,
        disk: SmallDisk | None = None,
        walls_only: bool = False,
        before: str = "",
    ) -> None:
        """Describe it; with a `disk`, `data_dir` is a folder on it, as this process sees it.

        `before` names a function, `module:function`, that the cloud's process calls first; not with a `disk`.
        """
        self.data_dir = data_dir
        self._disk = disk
        self._before = before
        # A folder on a small disk is not seen from here.
        alone = walls_only or disk is not None
        shared = () if alone else ("--function-folder", str(data_dir.parent))
        self._arguments = (*arguments, *shared)
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self.port = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint_url(self) -> str:
        """The URL of the running cloud."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start, and wait until it is healthy. A restart takes the port it had."""
        run_file = self.data_dir / "headrace.json"
        run_file.unlink(missing_ok=True)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        where, log_folder = self.data_dir, self.data_dir
        if self._disk is not None:
            where = self._disk.inside / self.data_dir.relative_to(self._disk.outside)
            log_folder = self._disk.inside.parent  # the disk may be full
        arguments = ["up", "--data-dir", str(where), "--port", str(self.port), *self._arguments]
        log_path = log_folder / "headrace.log"
        if self._disk is None:
            self._process = warm_server(cloud_python()).start(arguments, log_path, self._before)
        else:
            command = self._disk.command(cloud_python(), "-m", "headrace.cli.main", *arguments)
            with log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
                )  # fmt: skip
        wait_until(lambda: self._health(run_file), what="the cloud's health")
        return self

    def _health(self, run_file: Path) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self._disk.inside.parent if self._disk else self.data_dir) / "headrace.log"
            raise AssertionError(log.read_text()[-4000:])
        try:
            record = json.loads(run_file.read_text())
            self.port = int(record["port"])
            with urllib.request.urlopen(
                f"{record['endpoint_url']}/_headrace/health", timeout=2
            ) as page:
                return bool(json.load(page)["status"] == "ok")
        except (OSError, ValueError, urllib.error.URLError):
            return False

    def page(self, path: str) -> Any:
        """Return one of the cloud's own JSON pages."""
        with urllib.request.urlopen(self.endpoint_url + path, timeout=10) as page:
            return json.load(page)

    def kill9(self) -> None:
        """Kill the process as a power switch would, as far as the process can tell."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Stop it as `headrace down` does."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError("the cloud did not stop when asked") from None

    def client(self, service: str, **config: Any) -> Any:
        """Return a boto3 client that never retries."""
        return boto_client(service, self.endpoint_url, **config)


def boto_client(service: str, endpoint_url: str, **config: Any) -> Any:
    """Return a boto3 client of a local cloud that never retries."""
    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=endpoint_url,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=BotocoreConfig(retries={"total_max_attempts": 1}, **config),
    )
