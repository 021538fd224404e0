"""Measures a good client's PutRecord latency beside idle, slow, silent and flooding clients.

Read the ratios: each comes from the same run as the figure without bad clients. The tests of the bounds count turns of
the event loop (tests/server/test_turns.py); this benchmark shows their effect in time.
"""

from __future__ import annotations

import base64
import contextlib
import json
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.servers import Running, running
from scripts.benchmarks.wire import Connection, request
from scripts.benchmarks.workloads import Load

NAME = "shared"
REQUESTS = 3000
GOAL_TIMES = 10.0
BEGIN_WITHIN_S = 60.0
RECORD_BYTES = 1_000_000
RECORDS = 12
CONSUMERS = 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
PING = bytes((0, 0, 8, 6, 0, 0, 0, 0, 0)) + bytes(8)


def _open(port: int, count: int, first: bytes = b"") -> list[socket.socket]:
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for each in connections:
        each.sendall(first)
    return connections


def idle(port: int, ready: Event, stop: Event, _: Any) -> None:
    """A thousand idle connections."""
    made = _open(port, 1000)
    ready.set()
    stop.wait()
    del made


def slow_senders(port: int, ready: Event, stop: Event, _: Any) -> None:
    """Two hundred uploads that come a byte at a time."""
    head = b"PUT /bucket/key HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000000\r\n\r\n"
    made = _open(port, 200, head + b"x" * 200_000)
    ready.set()
    while not stop.wait(0.02):
        for each in made:
            each.sendall(b"x")


def slow_readers(port: int, ready: Event, stop: Event, iterator: str) -> None:
    """Fifty clients that ask for ten megabytes, over and over, and read nothing."""
    asks = request("GetRecords", {"ShardIterator": iterator})
    made = _open(port, 50, asks * 10)
    ready.set()
    stop.wait()
    del made


def silent_subscribers(port: int, ready: Event, stop: Event, arns: list[str]) -> None:
    """Twenty subscriptions to a backlog, unread."""
    made = []
    for arn in arns:
        start = {"Type": "TRIM_HORIZON"}
        body = {"ConsumerARN": arn, "ShardId": "shardId-000000000000", "StartingPosition": start}
        made += _open(port, 1, request("SubscribeToShard", body))
    ready.set()
    stop.wait()
    del made


def header_by_header(port: int, ready: Event, stop: Event, _: Any) -> None:
    """Two hundred requests whose headers do not end."""
    made = _open(port, 200, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    ready.set()
    while not stop.wait(0.05):
        for each in made:
            with contextlib.suppress(OSError):
                each.sendall(b"X: y\r\n")


def pings(port: int, ready: Event, stop: Event, _: Any) -> None:
    """HTTP/2 pings, as many as go out, on a new connection each time one is cut off."""
    ready.set()
    while not stop.is_set():
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port)) as connection,
        ):
            connection.sendall(PREFACE)
            while not stop.is_set():
                connection.sendall(PING * 1000)


@dataclass(frozen=True)
class Measured:
    """The good client's latencies beside one kind of bad clients, and the server's memory."""

    name: str
    median_ms: float
    p99_ms: float
    rss_mb: float


def put_latencies(server: Running, name: str, requests: int) -> Measured:
    """Put records one after the other."""
    data = base64.b64encode(os.urandom(100)).decode()
    put = request("PutRecord", {"StreamName": NAME, "Data": data, "PartitionKey": "k"})
    connection = Connection(server.port)
    taken_ms: list[float] = []
    for _ in range(requests):
        begun = time.perf_counter()
        connection.exchange(put)
        taken_ms.append((time.perf_counter() - begun) * 1000)
    connection.close()
    p99_ms = statistics.quantiles(taken_ms, n=100)[98]
    return Measured(name, statistics.median(taken_ms), p99_ms, server.rss_mb())


def beside(
    server: Running, kind: Callable[[int, Event, Event, Any], None], extra: Any, requests: int
) -> Measured:
    """Measure while bad clients run in a separate process."""
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    bad = context.Process(target=kind, args=(server.port, ready, stop, extra), daemon=True)
    bad.start()
    try:
        if not ready.wait(BEGIN_WITHIN_S):
            raise RuntimeError(f"{kind.__name__} did not begin")
        return put_latencies(server, (kind.__doc__ or kind.__name__).rstrip("."), requests)
    finally:
        stop.set()
        bad.join(10)
        bad.kill()


def _fill(server: Running) -> tuple[str, list[str]]:
    """Create the stream, ten megabytes of records and consumers; return an iterator and the consumers' ARNs."""
    load = Load(server.port, 0)
    load.stream(NAME, shards=1)
    connection = Connection(server.port)
    data = base64.b64encode(bytes(RECORD_BYTES)).decode()
    for _ in range(RECORDS):
        connection.ask("PutRecord", {"StreamName": NAME, "Data": data, "PartitionKey": "k"})
    summary = connection.ask("DescribeStreamSummary", {"StreamName": NAME})
    arn = summary["StreamDescriptionSummary"]["StreamARN"]
    consumers = [
        connection.ask("RegisterStreamConsumer", {"StreamARN": arn, "ConsumerName": f"c{n}"})
        for n in range(CONSUMERS)
    ]
    connection.close()
    iterator = load.iterators(NAME, "TRIM_HORIZON")[0]
    return iterator, [consumer["Consumer"]["ConsumerARN"] for consumer in consumers]


def measure(requests: int) -> list[Measured]:
    """Measure alone, and beside each kind of bad clients. Raises CannotStart, RuntimeError."""
    with running("headrace") as server:
        iterator, arns = _fill(server)
        put_latencies(server, "warm-up", requests)
        found = [put_latencies(server, "Nobody else", requests)]
        for kind, extra in (
            (idle, None),
            (slow_senders, None),
            (header_by_header, None),
            (slow_readers, iterator),
            (silent_subscribers, arns),
            (pings, None),
        ):
            found.append(beside(server, kind, extra, requests))
        return found


@click.command()
@click.option("--requests", default=REQUESTS, show_default=True, type=click.IntRange(100))
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option("--strict", is_flag=True, help="Fail when a median is ten times as long, or longer.")
def main(requests: int, as_json: bool, strict: bool) -> None:
    """Measure a good client's latency beside bad clients."""
    found = measure(requests)
    alone = found[0]
    if as_json:
        click.echo(json.dumps([each.__dict__ for each in found]))
    else:
        table = Table(title=f"PutRecord's latency, {requests} requests one after the other")
        for column in ("beside", "median ms", "times", "99th percentile ms", "memory MB"):
            table.add_column(column, justify="left" if column == "beside" else "right")
        for each in found:
            times = each.median_ms / alone.median_ms
            table.add_row(
                each.name,
                f"{each.median_ms:.3f}",
                f"{times:.1f}",
                f"{each.p99_ms:.2f}",
                f"{each.rss_mb:.0f}",
            )
        Console().print(table)
    worst = max(found, key=lambda each: each.median_ms)
    if strict and worst.median_ms >= GOAL_TIMES * alone.median_ms:
        raise SystemExit(f"{worst.name}: {worst.median_ms / alone.median_ms:.1f} times as long")


if __name__ == "__main__":
    main()
