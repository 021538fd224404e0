"""Measures our producer and consumer group beside boto3 loops, aiokpl, async-kinesis and kcl-rs, on one server.

Each client runs in a process of its own on the second processor, the server on the first; the clients take turns, and
the medians of the turns count. Read ratios rather than figures: machines differ, and are shared.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.client_programs import CPU, RATE
from scripts.benchmarks.sdk import client_of
from scripts.benchmarks.servers import processors, running

SHARDS = 4


@dataclass(frozen=True)
class Row:
    """A client: its program, a share of the records (the slow ones get fewer), what it must reach, its package.

    One whose first record takes more than a minute (`is_slow`) has one turn.
    """

    label: str
    program: str
    share: float = 1.0
    times_boto3: float | None = None
    package: str | None = None
    is_slow: bool = False


PUTS = (
    Row("boto3 loop", "put_boto3", 0.25),
    Row("headrace", "put_headrace", times_boto3=3),
    Row("headrace, aggregated", "put_headrace_aggregated", times_boto3=8),
    Row("headrace, aggregated, put_many", "put_many_headrace_aggregated", times_boto3=8),
    Row("aiokpl, aggregated", "put_aiokpl", 0.05, package="aiokpl"),
    Row("async-kinesis", "put_async_kinesis", 0.05, package="kinesis"),
)
READS = (
    Row("boto3 loop", "read_boto3"),
    Row("headrace", "read_headrace", times_boto3=6),
    Row("async-kinesis", "read_async_kinesis", package="kinesis"),
    Row("kcl-rs", "read_kcl_rs", package="kcl_rs", is_slow=True),
)
LATENCY = Row("headrace", "latency_headrace")


@click.command()
@click.option("--records", default=400_000, show_default=True, help="Of 100 B, for our clients.")
@click.option("--turns", default=3, show_default=True, help="How often each client runs.")
def main(records: int, turns: int) -> None:
    """Measure the clients."""
    console = Console()
    server_cpu, client_cpu = processors()
    with running("headrace", server_cpu) as server:
        kinesis = client_of("kinesis", server.port)
        for name in ("puts", "reads"):
            kinesis.create_stream(StreamName=name, ShardCount=SHARDS)
            kinesis.get_waiter("stream_exists").wait(StreamName=name)

        def measure(rows: Sequence[Row], stream: str, count: int) -> dict[str, dict[str, float]]:
            return _medians(rows, server.port, stream, count, turns, client_cpu)

        puts = measure(PUTS, "puts", records)
        latency = measure((LATENCY,), "puts", records)
        _run(PUTS[1], server.port, "reads", records, client_cpu)
        # The producer has put one before its clock ran.
        reads = measure(READS, "reads", records + 1)
    console.print(_table("put, 100 B", PUTS, puts))
    console.print(_table("put to acknowledgement", (LATENCY,), latency))
    console.print(_table("read, 100 B", READS, reads))


def _medians(
    rows: Sequence[Row], port: int, stream: str, count: int, turns: int, cpu: int
) -> dict[str, dict[str, float]]:
    figures: dict[str, list[dict[str, float]]] = {}
    for turn in range(turns):
        for row in rows:
            missing = row.package is not None and importlib.util.find_spec(row.package) is None
            if missing or (row.is_slow and turn):
                continue
            share = count if stream == "reads" else int(count * row.share) // 500 * 500
            figures.setdefault(row.label, []).append(_run(row, port, stream, share, cpu))
    return {
        label: {name: statistics.median(turn[name] for turn in turns_of) for name in turns_of[0]}
        for label, turns_of in figures.items()
    }


def _run(row: Row, port: int, stream: str, count: int, cpu: int) -> dict[str, float]:
    command = [sys.executable, "-m", "scripts.benchmarks.client_programs", row.program]
    done = subprocess.run(
        [*command, str(port), stream, str(count)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"},
        preexec_fn=(lambda: os.sched_setaffinity(0, {cpu})) if cpu >= 0 else None,
    )
    if done.returncode:
        raise click.ClickException(f"{row.label}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _table(title: str, rows: Sequence[Row], figures: dict[str, dict[str, float]]) -> Table:
    table = Table(title=title)
    names = list(dict.fromkeys(name for row in figures.values() for name in row))
    for name in ("client", *names, "times boto3", "by CPU", "goal"):
        table.add_column(name, justify="left" if name == "client" else "right")
    boto3 = figures.get("boto3 loop", {})
    for row in rows:
        values = figures.get(row.label)
        if values is None:
            table.add_row(row.label, "not measured")
            continue
        cells = [_cell(name, values) for name in names]
        ratios, goal = ["", ""], ""
        if boto3 and RATE in values:
            times, times_by_cpu = values[RATE] / boto3[RATE], boto3[CPU] / values[CPU]
            ratios = [f"{times:.1f}", f"{times_by_cpu:.1f}"]
            if row.times_boto3 is not None:
                goal = f">= {row.times_boto3:g}x: {'met' if times >= row.times_boto3 else 'MISSED'}"
        table.add_row(row.label, *cells, *ratios, goal)
    return table


def _cell(name: str, values: dict[str, float]) -> str:
    if name not in values:
        return ""
    return f"{values[name]:,.0f}" if name == RATE else f"{values[name]:.2f}"


if __name__ == "__main__":
    main()
