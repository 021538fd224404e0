"""Measures the Kinesis source's driver mode beside its distributed mode: on local cores, local-cluster and standalone.

Each row is a query in a driver of its own that counts the same backlog on two cores. The bytes are those of the
driver's sockets (its JVM and the Python process that plans): what came from the cloud, and what went to the executors.
They are looked at 20 times a second, so those of a connection's last moment may be missing.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from headrace.spark.registering import register
from scripts.benchmarks.servers import running
from scripts.benchmarks.spark_measures import Bench, set_credentials
from tests.support.spark_cluster import ROOT, Cluster

CORES = 2
LOCAL_CLUSTER = f"local-cluster[{CORES},1,1024]"
WARM_UP = 100_000
PUTS = 15
_SOCKET = re.compile(r"bytes_(sent|received):(\d+)")


def query(asked: dict[str, Any]) -> dict[str, float]:
    """Count the backlog in this process's driver; return rows per second, and the time from a put to its row."""
    spark: Any = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, asked["endpoint_url"], Path(folder))
        more = {
            "readMode": asked["mode"],
            "metadataPath": f"{folder}/metadata",
            "maxTasks": str(CORES),
        }
        bench.count("kinesis", "warm-up", WARM_UP, **more)
        print("warm", flush=True)
        run = bench.count("kinesis", "backlog", asked["records"], **more)
        latencies_ms = bench.latency_ms(asked["single"], stateful=False, puts=PUTS, **more)
    spark.stop()
    return {"rate": run.rate, "p50": statistics.median(latencies_ms)}


class DriverBytes:
    """Counts the bytes of a session's sockets, by where they lead."""

    def __init__(self, session: int, cloud_port: int) -> None:
        self._session, self._cloud_port = session, cloud_port
        self._of_socket: dict[tuple[str, str], tuple[str, int]] = {}

    def look(self) -> None:
        """Note each socket's counts so far."""
        listed = subprocess.run(
            ["ss", "-tinpH", "state", "established"], capture_output=True, text=True, check=True
        )
        sockets = re.sub(r"\n\s", " ", listed.stdout).splitlines()
        places = {_address(line, 2): _pid_of(line) for line in sockets}
        for line in sockets:
            here, there = _address(line, 2), _address(line, 3)
            if not self._is_ours(_pid_of(line)) or self._is_ours(places.get(there, 0)):
                continue
            counts = {name: int(count) for name, count in _SOCKET.findall(line)}
            of_cloud = there.rpartition(":")[2] == str(self._cloud_port)
            kind = "received" if of_cloud else "sent"
            self._of_socket[here, there] = kind, counts.get(kind, 0)

    def total(self, kind: str) -> int:
        """Return the bytes `received` from the cloud, or `sent` to executors."""
        return sum(count for name, count in self._of_socket.values() if name == kind)

    def _is_ours(self, pid: int) -> bool:
        try:
            return bool(pid) and os.getsid(pid) == self._session and not _is_executor(pid)
        except ProcessLookupError:
            return False


def _address(line: str, column: int) -> str:
    # A JVM's sockets of IPv4 have the form of IPv6.
    return line.split()[column].replace("[::ffff:", "").replace("]", "")


def _pid_of(line: str) -> int:
    pid = re.search(r"pid=(\d+)", line)
    return int(pid[1]) if pid else 0


def _is_executor(pid: int) -> bool:
    """Whether a process is of an executor: those of local-cluster are in the driver's session."""
    while pid > 1:
        process = Path("/proc", str(pid))
        if b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
            return True
        pid = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    return False


def measured(
    environment: dict[str, str], master: str, mode: str, port: int, records: int
) -> dict[str, float]:
    """Return a query's figures. Raises ClickException with the end of its output."""
    conf = "--conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false --conf spark.driver.host=127.0.0.1"
    conf += " --conf spark.executor.memory=1g --conf spark.sql.shuffle.partitions=2"
    asked = {
        "endpoint_url": f"http://127.0.0.1:{port}", "mode": mode, "records": records, "single": f"s-{uuid.uuid4().hex}"
    }  # fmt: skip
    program = "from scripts.benchmarks.spark_cluster import query; import json, sys; "
    program += "print('figures', json.dumps(query(json.loads(sys.argv[1]))))"
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program, json.dumps(asked)],
            env={**environment, "PYSPARK_SUBMIT_ARGS": f"--master {master} {conf} pyspark-shell"},
            stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True, cwd=ROOT,
        )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        counted = DriverBytes(process.pid, port)
        counted.look()
        before = {kind: counted.total(kind) for kind in ("received", "sent")}
        while process.poll() is None:
            counted.look()
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        last = process.stdout.read().strip().rpartition("\n")[2]
        if process.returncode or line != "warm\n" or not last.startswith("figures "):
            errors.seek(0)
            raise click.ClickException(errors.read()[-3000:] + last)
    figures = json.loads(last.removeprefix("figures "))
    return figures | {kind: counted.total(kind) - before[kind] for kind in before}


@contextmanager
def standalone(endpoint_url: str) -> Iterator[Cluster]:
    """Run a standalone cluster of two workers of a core each."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        cluster = Cluster(Path(folder), endpoint_url)
        try:
            cluster.start(CORES)
            yield cluster
        finally:
            cluster.stop()


@click.command()
@click.option("--records", default=1_600_000, show_default=True, help="Backlog of 100 B records.")
@click.option("--turns", default=3, show_default=True, help="How often each query runs.")
def main(records: int, turns: int) -> None:
    """Measure driver mode beside distributed mode."""
    table = Table(
        "master", "mode", "rows/s", "put to row, p50 ms", "cloud to driver, MB",
        "driver to executors, MB",
        title=f"{records:,} records of 100 B",
    )  # fmt: skip
    with running("headrace") as cloud, standalone(f"http://127.0.0.1:{cloud.port}") as cluster:
        set_credentials()
        endpoint_url = f"http://127.0.0.1:{cloud.port}"
        filler = Bench(None, endpoint_url, Path())
        filler.fill("warm-up", WARM_UP, 100)
        filler.fill("backlog", records, 100)
        cases = [
            (f"local[{CORES}]", "driver"),
            *((m, k) for m in (LOCAL_CLUSTER, cluster.master) for k in ("driver", "executors")),
        ]
        runs: dict[tuple[str, str], list[dict[str, float]]] = {case: [] for case in cases}
        for _ in range(turns):
            for master, mode in cases:
                figures = measured(cluster.environment, master, mode, cloud.port, records)
                runs[master, mode].append(figures)
        for (master, mode), figures in runs.items():
            middle = sorted(figures, key=lambda one: one["rate"])[len(figures) // 2]
            name = "standalone, 2 workers" if master.startswith("spark:") else master
            sizes = (f"{middle[kind] / 1e6:,.2f}" for kind in ("received", "sent"))
            table.add_row(name, mode, f"{middle['rate']:,.0f}", f"{middle['p50']:,.0f}", *sizes)
    Console().print(table)


if __name__ == "__main__":
    main()
