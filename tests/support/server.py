"""A real cloud in a process of its own, to be killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

import boto3
from botocore.config import Config as BotocoreConfig

REGION = "us-east-1"


def wait_until(condition: Any, *, within_s: float = 30.0, what: str = "the condition") -> Any:
    """Return the first true value of `condition()`; fail when there is none in time."""
    deadline = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within_s} s")
        time.sleep(0.02)


class ServerProcess:
    """`headrace up` on a free port. A context manager; `kill9` and `start` again at will.

    Its functions may write where the data directory lies, so that tests see what they do; not with `walls_only`.
    """

    def __init__(self, data_dir: Path, *arguments: str, walls_only: bool = False) -> None:
        self.data_dir = data_dir
        shared = () if walls_only else ("--function-folder", str(data_dir.parent))
        self._arguments = (*arguments, *shared)
        self._process: subprocess.Popen[bytes] | None = None
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
        with (self.data_dir / "headrace.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace.cli.main", "up", "--data-dir",
                 str(self.data_dir), "--port", str(self.port), *self._arguments],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        wait_until(lambda: self._health(run_file), what="the cloud's health")
        return self

    def _health(self, run_file: Path) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError((self.data_dir / "headrace.log").read_text()[-4000:])
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
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.endpoint_url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=BotocoreConfig(retries={"total_max_attempts": 1}, **config),
        )
