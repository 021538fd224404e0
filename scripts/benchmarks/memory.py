"""Measures the memory that each operation of the soak's load keeps per call, one operation after the other. Linux only.

Calls warm up each operation first: what it loads at its first use does not count. Bounded memories (log events, metric
values, records of a table's stream) fill up during the measurement, unless `--warm-up` is large enough.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.clients import client_of
from scripts.benchmarks.measured_cloud import SOCKET, Measures
from scripts.benchmarks.servers import PROGRAMS, Program, running
from scripts.memory_calls import NAMES, operations

# headrace sends its own metrics every five seconds; until then they wait in memory.
SETTLE_S = 6.0
MOST_TYPES = 3


def measures_of(path: Path) -> Measures:
    """Return the measures of the cloud behind a socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        with connection.makefile("rb") as answer:
            return Measures(**json.load(answer))


def growth(before: Measures, after: Measures, calls: int) -> tuple[str, ...]:
    """Return a table's cells: what each call kept."""
    kept = {
        name: (count - before.objects.get(name, 0)) / calls for name, count in after.objects.items()
    }
    most = sorted(((count, name) for name, count in kept.items() if count >= 0.5), reverse=True)
    return (
        f"{(after.rss_bytes - before.rss_bytes) / calls:,.0f}",
        f"{(after.malloc_bytes - before.malloc_bytes) / calls:,.0f}",
        f"{(after.blocks - before.blocks) / calls:,.1f}",
        ", ".join(f"{count:.1f} {name}" for count, name in most[:MOST_TYPES]),
    )


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--calls", default=1000, show_default=True, type=click.IntRange(1))
@click.option("--warm-up", default=300, show_default=True, type=click.IntRange(0))
def main(names: tuple[str, ...], calls: int, warm_up: int) -> None:
    """Measure what each call keeps; NAMES: only these operations."""
    with tempfile.TemporaryDirectory(prefix="memory-") as folder:
        path = Path(folder) / "measures"
        plain = PROGRAMS["headrace"].command

        def command(port: int, data: Path) -> list[str]:
            measured = list(plain(port, data))
            measured[measured.index("headrace.cli.main")] = "scripts.benchmarks.measured_cloud"
            return measured

        environment = {SOCKET: str(path), "PYTHONUTF8": "1"}
        PROGRAMS["headrace, measured"] = Program("headrace", command, lambda _port: environment)
        with running("headrace, measured") as server:
            time.sleep(SETTLE_S)
            idle = measures_of(path)
            table = Table("operation", "resident bytes", "malloc bytes", "small objects", "by type")
            made = operations(lambda service: client_of(service, server.port))
            # Models of services are loaded at the first use, and headrace's metrics and log lines use CloudWatch.
            for call in made.values():
                call(0)
            for name in names or NAMES:
                for number in range(warm_up):
                    made[name](number)
                time.sleep(SETTLE_S)
                before = measures_of(path)
                for number in range(warm_up, warm_up + calls):
                    made[name](number)
                time.sleep(SETTLE_S)
                table.add_row(name, *growth(before, measures_of(path), calls))
    console = Console()
    console.print(table)
    console.print(
        f"Per call, {calls:,} calls each; idle {idle.rss_bytes / 1e6:.0f} MB resident;"
        f" load average {os.getloadavg()[0]:.1f}."
    )


if __name__ == "__main__":
    main()
