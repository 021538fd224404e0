"""Measures Firehose from put to object: records per second, the delay beyond the buffer's interval, and memory.

The client puts prebuilt requests over sockets, so that it costs little (`client` is its share of a processor while it
puts); the time runs from the first put until the last record is in an object, which includes the last buffer's interval
of a second. Each case runs twice: with direct puts, and with a Kinesis stream as the source. LocalStack and ministack
run direct puts in the same run: both write an object at each put, so each gets as many requests as it handles in half a
minute. Read ratios rather than figures.
"""

from __future__ import annotations

import io
import json
import statistics
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.firehose_cases import (
    BUCKET,
    CASES,
    FUNCTION,
    PASS,
    RECORDS_PER_PUT,
    ROLE,
    SHARDS,
    STREAM,
    Case,
    bodies,
    record,
    single_bodies,
    stream_bodies,
)
from scripts.benchmarks.lambda_rows import RUNTIME
from scripts.benchmarks.pipeline import started
from scripts.benchmarks.sdk import client_of
from scripts.benchmarks.servers import CannotStart, rss_mb, running
from scripts.benchmarks.wire import Connection, closed_loop

CLIENTS = 2
WITHIN_S = 300.0
LOOK_EVERY_S = 0.02
# 500 active partitions are AWS's limit; their buffers of 64 MiB are not full.
MOST_PARTITIONS, LARGE_BYTES = 500, 5_000
# The amounts of data put, in MB: the last is more than all buffers of a stream may hold.
PUT_MB = (100, 400, 1_500)
# Far more partitions than may be active: records beyond the limit go to the error output.
MANY_PARTITIONS = 10_000
OTHERS_S, SLOW_ANSWER_S = 30.0, 120.0
SINGLE_CLIENTS, SINGLE_S = 32, 5.0


def put_for(port: int, made: list[bytes], seconds: float) -> int:
    """Send requests one after the other, for a limited time; return how many. Raises the connection's errors."""
    connection = Connection(port)
    # A slow cloud takes longer for one request than the benchmark's connections wait.
    connection.socket.settimeout(SLOW_ANSWER_S)
    try:
        began_s = time.monotonic()
        for sent, body in enumerate(made):
            if time.monotonic() - began_s > seconds:
                return sent
            connection.exchange(body)
        return len(made)
    finally:
        connection.close()


def put_all(port: int, made: list[bytes]) -> None:
    """Send all requests over a few connections. Raises the connections' errors."""
    failures: list[Exception] = []

    def run(mine: list[bytes]) -> None:
        connection = Connection(port)
        try:
            for body in mine:
                connection.exchange(body)
        except (OSError, RuntimeError) as error:  # the caller reports it
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(made[n::CLIENTS],)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def status(port: int) -> dict[str, Any]:
    """Return headrace's own status of the delivery stream."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/_headrace/firehose") as answer:
        return json.loads(answer.read())[0]


def delivered_bytes(s3: Any) -> int:
    """Return the size of all objects."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    return sum(item["Size"] for page in pages for item in page.get("Contents", []))


def wait(condition: Callable[[], bool], pid: Callable[[], float]) -> tuple[float, float]:
    """Wait until all is delivered; return the seconds, and the peak memory in MB."""
    start_s, most_mb = time.monotonic(), 0.0
    while not condition():
        if time.monotonic() - start_s > WITHIN_S:
            raise CannotStart("nothing more was delivered")
        most_mb = max(most_mb, pid())
        time.sleep(LOOK_EVERY_S)
    return time.monotonic() - start_s, most_mb


def prepare(port: int, destination: dict[str, Any], *, of_stream: bool = False) -> Any:
    """Create the bucket, the destination's needs, and the delivery stream; return an S3 client."""
    s3 = client_of("s3", port)
    s3.create_bucket(Bucket=BUCKET)
    if "DataFormatConversionConfiguration" in destination:
        glue = client_of("glue", port)
        glue.create_database(DatabaseInput={"Name": "d"})
        columns = [
            {"Name": name, "Type": kind}
            for name, kind in (("n", "bigint"), ("c", "string"), ("a", "int"), ("p", "string"))
        ]
        table = {"Name": "t", "StorageDescriptor": {"Columns": columns}}
        glue.create_table(DatabaseName="d", TableInput=table)
    if "Lambda" in json.dumps(destination):
        make_function(port)
    source: dict[str, Any] = {}
    if of_stream:
        kinesis = client_of("kinesis", port)
        kinesis.create_stream(StreamName=STREAM, ShardCount=SHARDS)
        arn = f"arn:aws:kinesis:us-east-1:000000000000:stream/{STREAM}"
        source = {
            "DeliveryStreamType": "KinesisStreamAsSource",
            "KinesisStreamSourceConfiguration": {"KinesisStreamARN": arn, "RoleARN": ROLE},
        }
    firehose = client_of("firehose", port)
    firehose.create_delivery_stream(
        DeliveryStreamName=STREAM,
        **source,
        ExtendedS3DestinationConfiguration={
            "RoleARN": ROLE,
            "BucketARN": f"arn:aws:s3:::{BUCKET}",
            **destination,
        },
    )
    # LocalStack creates it in the background.
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        delivery_stream = firehose.describe_delivery_stream(DeliveryStreamName=STREAM)
        if delivery_stream["DeliveryStreamDescription"]["DeliveryStreamStatus"] == "ACTIVE":
            return s3
        time.sleep(LOOK_EVERY_S)
    raise CannotStart("the delivery stream did not become ACTIVE")


def make_function(port: int) -> None:
    """Create the function that returns records unchanged, and start it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("index.py", PASS)
    client = client_of("lambda", port)
    client.create_function(
        FunctionName=FUNCTION,
        Runtime=RUNTIME,
        Handler="index.handler",
        Role=ROLE,
        Timeout=60,
        Code={"ZipFile": buffer.getvalue()},
    )
    client.get_waiter("function_active_v2").wait(FunctionName=FUNCTION)
    client.invoke(FunctionName=FUNCTION, Payload=b'{"records": []}')


def measure(case: Case, made: list[bytes], count: int, *, of_stream: bool) -> dict[str, float]:
    """Return headrace's figures for a case, with direct puts or with a Kinesis stream as the source."""
    with running("headrace") as target:
        prepare(target.port, case.destination, of_stream=of_stream)
        pid = target.pid
        start_s, client_s = time.monotonic(), time.process_time()
        put_all(target.port, made)
        put_s, client_s = time.monotonic() - start_s, time.process_time() - client_s
        delivered: list[float] = []
        sorted_s = 0.0

        def is_done() -> bool:
            nonlocal sorted_s
            now, now_s = status(target.port), time.monotonic() - start_s
            if now["delivered_records"]:
                delivered.append(now_s)
            if not sorted_s and now["delivered_records"] + now["buffered_records"] >= count:
                sorted_s = now_s
            return now["delivered_records"] >= count

        _, most_mb = wait(is_done, lambda: rss_mb(pid))
        whole_s = delivered[-1]
        if case.destination["BufferingHints"]["IntervalInSeconds"] >= 60:
            # AWS's shortest interval is not work, so leave it out: add the time until all records are buffered to the
            # time of all deliveries.
            whole_s = sorted_s + delivered[-1] - delivered[0]
        return {
            "puts/s": count / put_s,
            "records/s": count / whole_s,
            "MB": most_mb,
            "client": client_s / put_s,
        }


def measure_single_puts(name: str, seconds: float = SINGLE_S) -> float:
    """Return the PutRecords a second of many clients, each of which waits for its answer."""
    with started(name) as target:
        prepare(target.port, CASES[0].destination)
        made = single_bodies(SINGLE_CLIENTS)
        closed_loop(target.port, SINGLE_CLIENTS, made, seconds / 10)
        start_s = time.monotonic()
        puts = len(closed_loop(target.port, SINGLE_CLIENTS, made, seconds))
        return puts / (time.monotonic() - start_s)


def measure_delay(rounds: int) -> float:
    """Return the median of the milliseconds that a record waits beyond the buffer's interval of a second."""
    found: list[float] = []
    with running("headrace") as target:
        prepare(target.port, CASES[0].destination)
        for number in range(1, rounds + 1):
            start_s = time.monotonic()
            put_all(target.port, bodies(1))

            def is_there(count: int = number) -> bool:
                return status(target.port)["delivered_records"] >= count

            wait(is_there, lambda: 0.0)
            found.append((time.monotonic() - start_s - 1.0) * 1000)
    return statistics.median(found)


@dataclass(frozen=True)
class Partitions:
    """The memory of partitions: for `put_mb` of data, of which at most `held_mb` waited in buffers."""

    active: int
    put_mb: float
    held_mb: float
    rise_mb: float


def measure_partitions(put_mb: int, keys: int, size_bytes: int) -> Partitions:
    """Return the memory for this much data in this many partitions; no buffer is due before 15 minutes."""
    case = next(case for case in CASES if case.name.startswith("JQ"))
    hints = {"SizeInMBs": 64, "IntervalInSeconds": 900}
    rounds = max(1, round(put_mb * 1e6 / (keys * size_bytes)))
    made = bodies(keys, keys=keys, size_bytes=size_bytes)
    count = rounds * keys
    with running("headrace") as target:
        prepare(target.port, {**case.destination, "BufferingHints": hints})
        before_mb = rss_mb(target.pid)
        held, active, most_mb = 0, 0, before_mb

        def is_taken() -> bool:
            nonlocal held, active
            now = status(target.port)
            held, active = max(held, now["buffered_records"]), max(active, now["active_partitions"])
            return now["buffered_records"] + now["delivered_records"] >= count

        for _ in range(rounds):
            put_all(target.port, made)
            is_taken()
            most_mb = max(most_mb, rss_mb(target.pid))
        _, late_mb = wait(is_taken, lambda: rss_mb(target.pid))
        return Partitions(
            active,
            count * size_bytes / 1e6,
            held * size_bytes / 1e6,
            max(most_mb, late_mb) - before_mb,
        )


def measure_other(name: str, count: int) -> dict[str, float]:
    """Return another cloud's figures for the plain case, measured by the size of its objects.

    It gets requests for half a minute, and then time to deliver them.
    """
    made = bodies(count)
    with started(name) as target:
        s3 = prepare(target.port, CASES[0].destination)
        start_s = time.monotonic()
        taken = min(count, put_for(target.port, made, OTHERS_S) * RECORDS_PER_PUT)
        put_s = time.monotonic() - start_s
        size_bytes = sum(len(record(number)) for number in range(taken))
        wait(lambda: delivered_bytes(s3) >= size_bytes, lambda: 0.0)
        whole_s = time.monotonic() - start_s
        return {"puts/s": taken / put_s, "records/s": taken / whole_s}


def measure_cases(records: int, only: str | None, table: Table) -> dict[str, float]:
    """Measure headrace's cases; return the figures of the plain case with direct puts, None if it is left out."""
    plain: dict[str, float] = {}
    for of_stream in (False, True):
        source = "Kinesis" if of_stream else "direct"
        for case in CASES:
            if only and not f"{source} {case.name}".startswith(only):
                continue
            count = int(records * case.share)
            made = stream_bodies(count) if of_stream else bodies(count)
            found = measure(case, made, count, of_stream=of_stream)
            if case is CASES[0] and not of_stream:
                plain = found
            table.add_row(
                source,
                case.name,
                "headrace",
                f"{found['puts/s']:,.0f}",
                f"{found['records/s']:,.0f}",
                f"{case.goal:,.0f}" if case.goal else "",
                f"{found['MB']:,.0f}",
                f"{found['client']:.0%}",
            )
    return plain


@click.command()
@click.option("--records", default=600_000, show_default=True)
@click.option(
    "--elsewhere", default=10_000, show_default=True, help="Most records for other clouds."
)
@click.option("--only", help="Only the cases that begin with this, such as 'direct GZIP'.")
@click.option("--peers/--no-peers", default=True, help="Also LocalStack and ministack.")
@click.option("--memory/--no-memory", default=True, help="Also delay, and memory of partitions.")
def main(records: int, elsewhere: int, only: str | None, *, peers: bool, memory: bool) -> None:
    """Measure Firehose."""
    heads = ("source", "case", "cloud", "put, records/s", "put to object, records/s")
    table = Table(*heads, "goal", "MB", "client")
    plain = measure_cases(records, only, table)
    for name in ("localstack", "ministack") if peers else ():
        try:
            found = measure_other(name, elsewhere)
            rate = found["records/s"]
            ratio = " / ".join(f"{plain[name] / found[name]:,.0f}" for name in found if plain)
            row = (f"{found['puts/s']:,.0f}", f"{rate:,.0f}", ratio and f"headrace x {ratio}")
        except (CannotStart, OSError, RuntimeError, BotoCoreError, ClientError) as error:
            row = (f"failed: {' '.join(str(error).split())[:80]}", "")
        table.add_row("direct", CASES[0].name, name, *row)
    for name in ("headrace", *(("localstack", "ministack") if peers else ())):
        try:
            puts = f"{measure_single_puts(name):,.0f}"
        except (CannotStart, OSError, RuntimeError, BotoCoreError, ClientError) as error:
            puts = f"failed: {' '.join(str(error).split())[:80]}"
        table.add_row("direct", f"PutRecord, {SINGLE_CLIENTS} clients", name, puts)
    console = Console(width=140)
    console.print(table)
    if not memory:
        return
    console.print(f"delay over the interval: {measure_delay(10):,.0f} ms (median of 10)")
    shapes = [(put_mb, MOST_PARTITIONS, LARGE_BYTES) for put_mb in PUT_MB]
    for put_mb, keys, size_bytes in (*shapes, (PUT_MB[0], MANY_PARTITIONS, 1_000)):
        found = measure_partitions(put_mb, keys, size_bytes)
        console.print(
            f"{keys:,} partitions, {found.active} active, buffers of 64 MiB: {found.put_mb:,.0f} MB put,"
            f" {found.held_mb:,.0f} MB at most in the buffers:"
            f" {found.rise_mb:,.0f} MB of memory more"
        )


if __name__ == "__main__":
    main()
