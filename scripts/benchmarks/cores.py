"""Measures what one process makes of two processors: Kinesis alone and mixed services, by 4, 8 and 16 clients.

The load has the second processor in each run. The server has the first one alone, then both: the second one adds what
threads do while another one holds the interpreter's lock. A probe puts a record every five milliseconds, over a
connection of its own: what it waits for, beyond the same on an idle server, is the event loop's queue and the lock.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.interleaved import BUCKET, STREAM, Call, kinesis, object_calls
from scripts.benchmarks.report import US
from scripts.benchmarks.sdk import client_of
from scripts.benchmarks.servers import Running, processors, running
from scripts.benchmarks.wire import Connection, closed_loop
from scripts.benchmarks.workloads import PUT_EVERY_S, latency

CLIENTS = (4, 8, 16)
TABLE, QUEUE = "cores", "cores"
# The server is still importing moto's services before.
SETTLED_S = 8.0


@dataclass(frozen=True)
class Figures:
    """One run: requests a second, processors used by the server, the probe's latencies."""

    rate: float
    cpus: float
    p50_ms: float
    p99_ms: float


def _json_call(service: str, target: str, body: dict[str, Any]) -> Call:
    headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"}
    return Call(target, service, "POST", "/", json.dumps(body).encode(), headers)


def put(number: int) -> Call:
    """Return a PutRecord."""
    record = {"StreamName": STREAM, "Data": "MDEyMzQ1Njc4OWFiY2RlZg==", "PartitionKey": str(number)}
    return kinesis("PutRecord", "PutRecord", record)


def prepared(port: int) -> dict[str, list[bytes]]:
    """Create what the calls need; return the requests of each kind of load."""
    streams, s3, tables, queues = (
        client_of(name, port) for name in ("kinesis", "s3", "dynamodb", "sqs")
    )
    streams.create_stream(StreamName=STREAM, ShardCount=4)
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"x" * 1024)
    tables.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
    )
    url = queues.create_queue(QueueName=QUEUE)["QueueUrl"]
    mixed = [
        call
        for number in range(64)
        for call in (
            put(number),
            _json_call(
                "dynamodb",
                "DynamoDB_20120810.PutItem",
                {"TableName": TABLE, "Item": {"k": {"S": str(number)}, "v": {"N": "1"}}},
            ),
            _json_call("sqs", "AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "x" * 100}),
            *object_calls(),
        )
    ]
    return {
        "Kinesis": [put(number).signed("test") for number in range(256)],
        "mixed": [call.signed("test") for call in mixed],
    }


def _load(
    pipe: Pipe, cpu: int, port: int, clients: int, requests: Sequence[bytes], s: float
) -> None:
    """Send requests on a processor for `s` seconds; send back how many were answered."""
    if cpu >= 0:
        os.sched_setaffinity(0, {cpu})
    pipe.send(len(closed_loop(port, clients, requests, s)))


def _cpu_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _probe(port: int, until_s: float) -> Iterator[float]:
    """Put a record every few milliseconds; yield how long each took, in seconds."""
    connection, request = Connection(port), put(0).signed("test")
    while time.perf_counter() < until_s:
        began_s = time.perf_counter()
        connection.exchange(request)
        yield time.perf_counter() - began_s
        time.sleep(PUT_EVERY_S)
    connection.close()


def measure(
    server: Running, cpu: int, clients: int, requests: Sequence[bytes], s: float
) -> Figures:
    """Load a server for `s` seconds; without clients, only probe it."""
    ours, theirs = multiprocessing.Pipe()
    load = multiprocessing.Process(
        target=_load, args=(theirs, cpu, server.port, clients, requests, s)
    )
    before_s, began_s = _cpu_s(server.pid), time.perf_counter()
    if clients:
        load.start()
    figures = latency(list(_probe(server.port, began_s + s)))
    took_s, used_s = time.perf_counter() - began_s, _cpu_s(server.pid) - before_s
    count = 0
    if clients:
        count = int(ours.recv())
        load.join()
    return Figures(count / s, used_s / took_s, figures["p50 ms"], figures["p99 ms"])


def one_start(cpus: int, seconds: float) -> dict[tuple[str, int], Figures]:
    """Start a server on one or two processors; return the figures by kind of load and number of clients."""
    first, second = processors()
    with running(US, first if cpus == 1 else -1) as server:
        requests = prepared(server.port)
        time.sleep(SETTLED_S)
        figures = {("idle", 0): measure(server, second, 0, (), seconds)}
        for kind, bodies in requests.items():
            closed_loop(server.port, 4, bodies, 0.5)
            for clients in CLIENTS:
                figures[kind, clients] = measure(server, second, clients, bodies, seconds)
        return figures


@click.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Starts.")
@click.option("--seconds", default=3.0, show_default=True, type=float, help="Of each load.")
def main(rounds: int, seconds: float) -> None:
    """Measure one process on one and on two processors."""
    starts = {cpus: [one_start(cpus, seconds) for _ in range(rounds)] for cpus in (1, 2)}
    table = Table("load", "clients", "processors", "requests/s", "used", "probe p50 ms", "p99 ms")
    for kind, clients in starts[1][0]:
        for cpus, measured in starts.items():
            runs = [figures[kind, clients] for figures in measured]
            rate, used, p50_ms, p99_ms = (
                statistics.median(getattr(run, name) for run in runs)
                for name in ("rate", "cpus", "p50_ms", "p99_ms")
            )
            shown = (f"{rate:,.0f}", f"{used:.2f}", f"{p50_ms:.2f}", f"{p99_ms:.2f}")
            table.add_row(kind, str(clients), str(cpus), *shown)
    console = Console()
    console.print(table)
    console.print(f"Medians of {rounds} starts; load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
