"""A standalone Spark cluster on this machine: a master, and workers with folders of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark

import headrace.spark
from tests.support.server import REGION, wait_until

HOME = Path(pyspark.__file__).parent
ROOT = Path(headrace.spark.__file__).parents[2]


class Cluster:
    """A master, and workers with folders of their own."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(HOME),
            "PYTHONPATH": str(ROOT),
        }
        self.master = ""
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int = 2) -> None:
        log = self._spawn(
            "master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        wait_until(
            lambda: "Starting Spark master at" in log.read_text(), within_s=120, what="the master"
        )
        self.master = log.read_text().partition("Starting Spark master at ")[2].split()[0]
        for number in range(workers):
            name = f"worker-{number}"
            options = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir"]
            log = self._spawn(
                name, "worker.Worker", *options, str(self.folder / name / "work"), self.master
            )
            wait_until(
                lambda log=log: "Successfully registered" in log.read_text(),
                within_s=120,
                what=name,
            )

    def _spawn(self, name: str, main: str, *arguments: str) -> Path:
        (self.folder / name / "tmp").mkdir(parents=True)
        log = self.folder / name / "log"
        with log.open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *arguments],
                    stdout=output, stderr=output, start_new_session=True,
                    env={**self.environment, "TMPDIR": str(self.folder / name / "tmp")},
                )
            )  # fmt: skip
        return log

    def stop(self) -> None:
        for process in self._processes:
            kill_session(process)

    def executors(self) -> list[int]:
        """The executors' JVMs of this cluster."""
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    line = (entry / "cmdline").read_bytes()
                    if b"CoarseGrainedExecutorBackend" in line and str(self.folder) in str(
                        (entry / "cwd").readlink()
                    ):
                        found.append(int(entry.name))
        return found


def kill_session(process: subprocess.Popen[bytes]) -> None:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(int(entry.name)) == process.pid:
                    os.kill(int(entry.name), signal.SIGKILL)
    process.wait()
