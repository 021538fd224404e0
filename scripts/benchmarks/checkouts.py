"""Measures this checkout of headrace beside another one, in one run: puts, reads, a warm invocation, S3's put and get.

    git worktree add /tmp/before COMMIT
    scripts/bench checkouts /tmp/before

See `interleaved` for how clouds are compared. Both run on the packages of this environment.
"""

from __future__ import annotations

import contextlib
import os
import statistics

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.clients import ACCOUNT, client_of
from scripts.benchmarks.interleaved import (
    Call,
    get_records,
    invoke,
    kinesis,
    medians_of,
    put_records,
)
from scripts.benchmarks.lambda_ import package
from scripts.benchmarks.servers import PROGRAMS, checkout, running
from scripts.benchmarks.wire import Connection

HERE, BEFORE = "headrace", "headrace-before"
STREAM, BUCKET, FUNCTION = "flights", "bench-checkouts", "bench"


def prepared(port: int) -> list[tuple[str, bytes]]:
    """Create the calls' resources in a cloud; return each call's name and request."""
    streams, lambda_, s3 = (client_of(name, port) for name in ("kinesis", "lambda", "s3"))
    streams.create_stream(StreamName=STREAM, ShardCount=1)
    s3.create_bucket(Bucket=BUCKET)
    lambda_.create_function(
        FunctionName=FUNCTION,
        Runtime="python3.12",
        Handler="app.handler",
        Role=f"arn:aws:iam::{ACCOUNT}:role/bench",
        Code={"ZipFile": package()},
    )
    records = [{"Data": b"0123456789abcdef", "PartitionKey": str(n)} for n in range(500)]
    streams.put_records(StreamName=STREAM, Records=records)
    iterator = streams.get_shard_iterator(
        StreamName=STREAM, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    record = {"StreamName": STREAM, "Data": "MDEyMzQ1Njc4OWFiY2RlZg==", "PartitionKey": "k"}
    calls = [
        kinesis("ListStreams", "ListStreams", {}),
        kinesis("PutRecord", "PutRecord", record),
        *(put_records(STREAM, count) for count in (1, 100, 500)),
        *(get_records(iterator, limit) for limit in (100, 500)),
        invoke(FUNCTION),
        Call("S3 put, 1 KiB", "s3", "PUT", f"/{BUCKET}/k", b"x" * 1024, {}),
        Call("S3 get, 1 KiB", "s3", "GET", f"/{BUCKET}/k", b"", {}),
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
@click.option(
    "--rounds",
    default=400,
    show_default=True,
    type=click.IntRange(20),
    help="Rounds of each call, at each start.",
)
@click.option(
    "--starts",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="Starts of both clouds.",
)
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
