"""Kinesis: what headrace does in a second, beside moto's server and ministack in the same run.

One load client on raw sockets with prebuilt bodies; one server at a time, each on a fresh folder. The machine is
shared by client and server: read ratios rather than figures.
"""

from __future__ import annotations

import base64
import json
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from scripts.benchmarks.servers import PACKAGES, running, version
from scripts.benchmarks.wire import Connection, closed_loop, request

SHARDS = 4
RECORDS_A_REQUEST = 500
CLIENTS = 32
# Few enough to be built in a moment; enough that partition keys are many.
BODIES = 32
POLL_EVERY_S = 0.001
PUT_EVERY_S = 0.005
ONE_SHARD = {"PartitionKey": "k", "ExplicitHashKey": "0"}

Result = dict[str, float]


@dataclass(frozen=True)
class Load:
    """A running target, and how long to load it."""

    port: int
    seconds: float

    def stream(self, name: str) -> None:
        """Make a stream and wait until it takes records."""
        connection = Connection(self.port)
        connection.ask("CreateStream", {"StreamName": name, "ShardCount": SHARDS})
        deadline = time.monotonic() + 30
        while True:
            answer = connection.ask("DescribeStreamSummary", {"StreamName": name})
            if answer["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE":
                break
            if time.monotonic() > deadline:
                raise SystemExit(f"{name} did not become ACTIVE")
            time.sleep(0.05)
        connection.close()

    def iterators(self, name: str, kind: str) -> list[str]:
        """Return an iterator of each shard."""
        connection = Connection(self.port)
        shards = connection.ask("ListShards", {"StreamName": name})["Shards"]
        found = [
            connection.ask(
                "GetShardIterator",
                {"StreamName": name, "ShardId": shard["ShardId"], "ShardIteratorType": kind},
            )["ShardIterator"]
            for shard in shards
        ]
        connection.close()
        return found


def put_records(load: Load, name: str, data_bytes: int) -> Result:
    """PutRecords of 500, one client."""
    load.stream(name)
    bodies = [
        request(
            "PutRecords",
            {
                "StreamName": name,
                "Records": [
                    {
                        "Data": base64.b64encode(os.urandom(data_bytes)).decode(),
                        "PartitionKey": f"key-{number}-{i}",
                    }
                    for i in range(RECORDS_A_REQUEST)
                ],
            },
        )
        for number in range(BODIES)
    ]
    started = time.perf_counter()
    latencies = closed_loop(load.port, 1, bodies, load.seconds)
    elapsed = time.perf_counter() - started
    return {"records/s": len(latencies) * RECORDS_A_REQUEST / elapsed, **_latency(latencies)}


def drain(load: Load, name: str) -> Result:
    """GetRecords from the beginning of each shard until there is no more, or time is up."""
    connection = Connection(load.port)
    count = 0
    started = time.perf_counter()
    stop_at = started + load.seconds
    for first in load.iterators(name, "TRIM_HORIZON"):
        iterator: str | None = first
        while iterator and time.perf_counter() < stop_at:
            start, stop = connection.exchange(request("GetRecords", {"ShardIterator": iterator}))
            found = connection.buffer.count(b'"SequenceNumber"', start, stop)
            if not found:
                break
            count += found
            iterator = next_iterator(connection.buffer, start, stop)
    elapsed = time.perf_counter() - started
    connection.close()
    return {"records/s": count / elapsed}


def next_iterator(buffer: bytearray | bytes, start: int, stop: int) -> str | None:
    """Return NextShardIterator, found without parsing the records."""
    at = buffer.rfind(b'"NextShardIterator"', start, stop)
    if at < 0:
        return None
    quote = buffer.find(b'"', at + 19)
    # Parsed: moto's iterators hold newlines, escaped.
    return json.loads(buffer[quote : buffer.index(b'"', quote + 1) + 1])


def put_record(load: Load, name: str, clients: int) -> Result:
    """PutRecord of 100 bytes, closed loop."""
    load.stream(name)
    data = base64.b64encode(os.urandom(100)).decode()
    bodies = [
        request("PutRecord", {"StreamName": name, "Data": data, "PartitionKey": f"key-{i}"})
        for i in range(1000)
    ]
    started = time.perf_counter()
    latencies = closed_loop(load.port, clients, bodies, load.seconds)
    elapsed = time.perf_counter() - started
    return {"records/s": len(latencies) / elapsed, **_latency(latencies)}


def put_to_seen(load: Load, name: str) -> Result:
    """From the moment a PutRecord is sent until a poller (1 ms between polls) has the record."""
    load.stream(name)
    sent: dict[bytes, float] = {}
    seen: list[float] = []
    failures: list[str] = []
    done = threading.Event()
    # All keys go to one shard: one poller.
    iterator: str | None = load.iterators(name, "LATEST")[0]

    def put_on() -> None:
        connection = Connection(load.port)
        stop_at = time.perf_counter() + load.seconds
        while time.perf_counter() < stop_at:
            data = base64.b64encode(b"%012d" % len(sent))
            body = {"StreamName": name, "Data": data.decode(), **ONE_SHARD}
            prepared = request("PutRecord", body)
            sent[data] = time.perf_counter()
            connection.call(prepared)
            time.sleep(PUT_EVERY_S)
        connection.close()

    def put_and_say_so() -> None:
        try:
            put_on()
        except RuntimeError as error:
            failures.append(str(error))
        finally:
            done.set()

    producer = threading.Thread(target=put_and_say_so)
    producer.start()
    connection = Connection(load.port)
    give_up_at = time.perf_counter() + 3 * load.seconds
    while iterator and time.perf_counter() < give_up_at:
        was_done = done.is_set()
        try:
            body = connection.call(request("GetRecords", {"ShardIterator": iterator}))
        except RuntimeError as error:
            # A peer that fails when a put and a get meet is still measured.
            failures.append(str(error))
            connection.close()
            connection = Connection(load.port)
            continue
        now = time.perf_counter()
        seen.extend(now - sent[part.split(b'"', 2)[1]] for part in body.split(b'"Data":')[1:])
        iterator = next_iterator(body, 0, len(body))
        if was_done and len(seen) >= len(sent):
            break
        time.sleep(POLL_EVERY_S)
    producer.join()
    connection.close()
    if not seen:
        raise SystemExit(f"no record was seen: {failures[:1]}")
    return {**_latency(seen), "records": len(seen), "failures": len(failures)}


def _latency(seconds: Sequence[float]) -> Result:
    ordered = sorted(seconds)
    return {
        "p50 ms": ordered[len(ordered) // 2] * 1000,
        "p99 ms": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1000,
    }


@dataclass(frozen=True)
class Workload:
    """A line of the report; `metrics` are shown, the first is the one that is compared."""

    name: str
    run: Callable[[Load], Result]
    metrics: tuple[str, ...]


WORKLOADS = (
    Workload(
        "PutRecords 500 x 100 B", lambda load: put_records(load, "small", 100), ("records/s",)
    ),
    Workload("GetRecords drain, 100 B", lambda load: drain(load, "small"), ("records/s",)),
    Workload(
        "PutRecords 500 x 1 KiB", lambda load: put_records(load, "large", 1024), ("records/s",)
    ),
    Workload("GetRecords drain, 1 KiB", lambda load: drain(load, "large"), ("records/s",)),
    Workload(
        "PutRecord, 1 client",
        lambda load: put_record(load, "one", 1),
        ("records/s", "p50 ms", "p99 ms"),
    ),
    Workload(
        f"PutRecord, {CLIENTS} clients",
        lambda load: put_record(load, "many", CLIENTS),
        ("records/s", "p50 ms", "p99 ms"),
    ),
    Workload("put to seen", lambda load: put_to_seen(load, "seen"), ("p50 ms", "p99 ms")),
)


@click.command()
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(1), help="Medians of so many."
)
@click.option("--quick", is_flag=True, help="One short round.")
@click.option(
    "--peers",
    default="moto,ministack",
    show_default=True,
    help="Comma-separated; also headrace-fsync. Empty: headrace alone.",
)
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), help="Write all rounds there too."
)
def main(rounds: int, peers: str, json_path: Path | None, *, quick: bool) -> None:
    """Measure Kinesis, and how many times faster headrace is than its peers."""
    targets = ["headrace", *filter(None, peers.split(","))]
    unknown = set(targets) - set(PACKAGES)
    if unknown:
        raise click.UsageError(f"no such target: {', '.join(sorted(unknown))}")
    rounds, seconds = (1, 1.0) if quick else (rounds, 3.0)
    results = measure(targets, rounds, seconds)
    medians = {
        target: {name: _medians(found) for name, found in lines.items()}
        for target, lines in results.items()
    }
    # Piped into a file, a table has no terminal whose width it could take.
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(targets, medians, rounds))
    if json_path is not None:
        report = {
            "machine": {
                "cpus": os.cpu_count(),
                "platform": platform.platform(),
                "python": sys.version.split()[0],
            },
            "versions": {target: version(target) for target in targets},
            "rounds": rounds,
            "seconds": seconds,
            "medians": medians,
            "all": results,
        }
        json_path.write_text(json.dumps(report, indent=2) + "\n")


def measure(
    targets: Sequence[str], rounds: int, seconds: float
) -> dict[str, dict[str, list[Result]]]:
    """Run every workload on every target, round after round, one target at a time."""
    results: dict[str, dict[str, list[Result]]] = {
        target: {workload.name: [] for workload in WORKLOADS} for target in targets
    }
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=rounds * len(targets) * len(WORKLOADS))
        for _ in range(rounds):
            for target in targets:
                with running(target) as port:
                    for workload in WORKLOADS:
                        progress.update(bar, description=f"{target}: {workload.name}")
                        result = workload.run(Load(port, seconds))
                        results[target][workload.name].append(result)
                        progress.advance(bar)
    return results


def _medians(found: Sequence[Result]) -> Result:
    return {metric: statistics.median(one[metric] for one in found) for metric in found[0]}


def table(targets: Sequence[str], medians: dict[str, dict[str, Result]], rounds: int) -> Table:
    """Return the report; a ratio above 1 is in headrace's favour."""
    report = Table(title=f"Kinesis, {SHARDS} shards, medians of {rounds}, {os.cpu_count()} CPUs")
    report.add_column("workload")
    report.add_column("metric")
    for target in targets:
        report.add_column(f"{target} {version(target)}", justify="right")
    for peer in targets[1:]:
        report.add_column(f"vs {peer}", justify="right", style="bold")
    for workload in WORKLOADS:
        for metric in workload.metrics:
            values = [medians[target][workload.name][metric] for target in targets]
            ratios = [
                values[0] / value if metric == "records/s" else value / values[0]
                for value in values[1:]
            ]
            report.add_row(
                workload.name if metric == workload.metrics[0] else "",
                metric,
                *(f"{value:,.0f}" if metric == "records/s" else f"{value:.2f}" for value in values),
                *(f"{ratio:.1f}x" for ratio in ratios),
            )
    return report


if __name__ == "__main__":
    main()
