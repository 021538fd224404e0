"""Measures this checkout of headrace beside another one, in one run: puts, reads, a warm invocation, S3's put and get.

    git worktree add ../before COMMIT
    scripts/bench checkouts ../before

See `interleaved` for how clouds are compared. Both run on the packages of this environment.
"""

from __future__ import annotations

import contextlib
import os
import statistics

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.interleaved import (
    STREAM,
    create_resources,
    get_records,
    invoke,
    kinesis,
    medians_of,
    object_calls,
    put_records,
    repeated,
)
from scripts.benchmarks.servers import PROGRAMS, checkout, running
from scripts.benchmarks.wire import Connection

HERE, BEFORE = "headrace", "headrace-before"


def prepared(port: int) -> list[tuple[str, bytes]]:
    """Create the calls' resources in a cloud; return each call's name and request."""
    iterator = create_resources(port)
    record = {"StreamName": STREAM, "Data": "MDEyMzQ1Njc4OWFiY2RlZg==", "PartitionKey": "k"}
    calls = [
        kinesis("ListStreams", "ListStreams", {}),
        kinesis("PutRecord", "PutRecord", record),
        *map(put_records, (1, 100, 500)),
        *(get_records(iterator, limit) for limit in (100, 500)),
        invoke(),
        *object_calls(),
    ]
    return [(call.name, call.signed("test")) for call in calls]


def one_start(rounds: int) -> dict[str, dict[str, float]]:
    """Start both clouds; return the median seconds of each call, by its name and the cloud's."""
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(running(name)) for name in (BEFORE, HERE)}
        requests = {name: prepared(server.port) for name, server in servers.items()}
        connections = {name: Connection(server.port) for name, server in servers.items()}
        return medians_of(connections, requests, rounds)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@repeated(starts=5)
def main(folder: str, rounds: int, starts: int) -> None:
    """Measure headrace beside the checkout in FOLDER."""
    PROGRAMS[BEFORE] = checkout(folder)
    measured_of = [one_start(rounds) for _ in range(starts)]
    table = Table("call", "before", "now", "now / before")
    for name in measured_of[0]:
        before_s, now_s = (
            statistics.median(start[name][cloud] for start in measured_of)
            for cloud in (BEFORE, HERE)
        )
        ratio = statistics.median(start[name][HERE] / start[name][BEFORE] for start in measured_of)
        shown = (f"{seconds * 1e6:,.0f} µs" for seconds in (before_s, now_s))
        table.add_row(name, *shown, f"{ratio:.3f}")
    console = Console()
    console.print(table)
    console.print(
        f"Medians of {starts} starts with {rounds:,} rounds each; load average {os.getloadavg()[0]:.1f}."
    )


if __name__ == "__main__":
    main()
