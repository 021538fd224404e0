"""Firehose from put to object: records a second, the delay over the buffer's interval, and memory.

Direct puts by prebuilt requests over sockets, so that the client costs little; the time runs from the first put until
the last record is in an object. ministack, which takes direct puts too, stands beside in the same run, with fewer
records: it writes an object at each put. Read ratios rather than figures.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.clients import client_of
from scripts.benchmarks.servers import CannotStart, Running, rss_mb, running
from scripts.benchmarks.wire import Connection, request

BUCKET, STREAM = "bench-objects", "bench"
ROLE = "arn:aws:iam::000000000000:role/r"
RECORDS_PER_PUT, CLIENTS, KEYS = 500, 2, 100
WITHIN_S = 300.0
LOOK_EVERY_S = 0.02
MIB = 1024 * 1024


@dataclass(frozen=True)
class Case:
    """What a delivery stream does with its records; `goal` in records a second."""

    name: str
    destination: dict[str, Any]
    goal: float


def _processors(kind: str, **parameters: str) -> dict[str, Any]:
    given = [{"ParameterName": n, "ParameterValue": v} for n, v in parameters.items()]
    return {"Enabled": True, "Processors": [{"Type": kind, "Parameters": given}]}


_SMALL = {"BufferingHints": {"SizeInMBs": 5, "IntervalInSeconds": 1}}
_LARGE = {"BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 1}}
_ERRORS = {"ErrorOutputPrefix": "errors/!{firehose:error-output-type}/"}
CASES = (
    Case("plain", _SMALL, 150_000),
    Case("GZIP", {**_SMALL, "CompressionFormat": "GZIP"}, 150_000),
    Case(
        "Parquet",
        {
            **_LARGE,
            "DataFormatConversionConfiguration": {
                "SchemaConfiguration": {"RoleARN": ROLE, "DatabaseName": "d", "TableName": "t"},
                "InputFormatConfiguration": {"Deserializer": {"OpenXJsonSerDe": {}}},
                "OutputFormatConfiguration": {"Serializer": {"ParquetSerDe": {}}},
            },
        },
        80_000,
    ),
    Case(
        f"JQ, {KEYS} partitions",
        {
            **_ERRORS,
            "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 60},
            "Prefix": "in/!{partitionKeyFromQuery:c}/",
            "DynamicPartitioningConfiguration": {"Enabled": True},
            "ProcessingConfiguration": _processors(
                "MetadataExtraction", MetadataExtractionQuery="{c:.c}", JsonParsingEngine="JQ-1.6"
            ),
        },
        50_000,
    ),
)


def bodies(count: int) -> list[bytes]:
    """Return the requests of `count` records of about 100 bytes."""
    made: list[bytes] = []
    for start in range(0, count, RECORDS_PER_PUT):
        records = [
            {"Data": base64.b64encode(record(number)).decode()}
            for number in range(start, min(start + RECORDS_PER_PUT, count))
        ]
        body = request("PutRecordBatch", {"DeliveryStreamName": STREAM, "Records": records})
        made.append(
            body.replace(b"Kinesis_20131202.", b"Firehose_20150804.").replace(
                b"/kinesis/aws4", b"/firehose/aws4"
            )
        )
    return made


def record(number: int) -> bytes:
    """Return a JSON record of 100 bytes."""
    given = json.dumps({"n": number, "c": f"c{number % KEYS}", "a": number * 7 % 1000})
    return f'{given[:-1]}, "p": "{"x" * (100 - len(given) - 9)}"}}'.encode()


def put_all(port: int, made: list[bytes]) -> None:
    """Send all requests over a few connections. Raises what a connection raises."""
    failures: list[Exception] = []

    def run(mine: list[bytes]) -> None:
        connection = Connection(port)
        try:
            for body in mine:
                connection.exchange(body)
        except (OSError, RuntimeError) as error:  # told by the caller
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
    """Return headrace's own account of the stream."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/_headrace/firehose") as answer:
        return json.loads(answer.read())[0]


def delivered_bytes(s3: Any) -> int:
    """Return the size of all objects."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    return sum(item["Size"] for page in pages for item in page.get("Contents", []))


def wait(condition: Callable[[], bool], pid: Callable[[], float]) -> tuple[float, float]:
    """Wait; return the seconds, and the most memory in MB that was seen."""
    start_s, most_mb = time.monotonic(), 0.0
    while not condition():
        if time.monotonic() - start_s > WITHIN_S:
            raise CannotStart("nothing more was delivered")
        most_mb = max(most_mb, pid())
        time.sleep(LOOK_EVERY_S)
    return time.monotonic() - start_s, most_mb


def prepare(target: Running, destination: dict[str, Any]) -> Any:
    """Make the bucket, the table and the delivery stream; return a client of S3."""
    s3 = client_of("s3", target.port)
    s3.create_bucket(Bucket=BUCKET)
    if "DataFormatConversionConfiguration" in destination:
        glue = client_of("glue", target.port)
        glue.create_database(DatabaseInput={"Name": "d"})
        columns = [
            {"Name": name, "Type": kind}
            for name, kind in (("n", "bigint"), ("c", "string"), ("a", "int"), ("p", "string"))
        ]
        table = {"Name": "t", "StorageDescriptor": {"Columns": columns}}
        glue.create_table(DatabaseName="d", TableInput=table)
    client_of("firehose", target.port).create_delivery_stream(
        DeliveryStreamName=STREAM,
        ExtendedS3DestinationConfiguration={
            "RoleARN": ROLE,
            "BucketARN": f"arn:aws:s3:::{BUCKET}",
            **destination,
        },
    )
    return s3


def measure(case: Case, made: list[bytes], count: int) -> dict[str, float]:
    """Return headrace's figures of a case."""
    with running("headrace") as target:
        prepare(target, case.destination)
        pid = target.pid
        start_s = time.monotonic()
        put_all(target.port, made)
        put_s = time.monotonic() - start_s
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
            # AWS's least interval is no work: the time until all is in its buffer, and that of all deliveries.
            whole_s = sorted_s + delivered[-1] - delivered[0]
        return {"puts/s": count / put_s, "records/s": count / whole_s, "MB": most_mb}


def measure_other(name: str, made: list[bytes], count: int) -> dict[str, float]:
    """Return another cloud's figures of the plain case: its objects are counted by size."""
    size_bytes = sum(len(record(number)) for number in range(count))
    with running(name) as target:
        s3 = prepare(target, CASES[0].destination)
        start_s = time.monotonic()
        put_all(target.port, made)
        put_s = time.monotonic() - start_s
        wait(lambda: delivered_bytes(s3) >= size_bytes, lambda: 0.0)
        whole_s = time.monotonic() - start_s
        return {"puts/s": count / put_s, "records/s": count / whole_s}


@click.command()
@click.option("--records", default=200_000, show_default=True)
@click.option("--elsewhere", default=10_000, show_default=True, help="Records for other clouds.")
@click.option("--only", help="Only the cases whose name begins with this.")
@click.option("--peers/--no-peers", default=True, help="Also ministack.")
def main(records: int, elsewhere: int, only: str | None, *, peers: bool) -> None:
    """Measure Firehose."""
    made = bodies(records)
    table = Table("case", "cloud", "put, records/s", "put to object, records/s", "goal", "MB")
    for case in CASES:
        if only and not case.name.startswith(only):
            continue
        found = measure(case, made, records)
        table.add_row(
            case.name,
            "headrace",
            f"{found['puts/s']:,.0f}",
            f"{found['records/s']:,.0f}",
            f"{case.goal:,.0f}",
            f"{found['MB']:,.0f}",
        )
    if peers:
        try:
            found = measure_other("ministack", bodies(elsewhere), elsewhere)
            row = (f"{found['puts/s']:,.0f}", f"{found['records/s']:,.0f}", "", "")
        except (CannotStart, OSError, RuntimeError, BotoCoreError, ClientError) as error:
            row = (f"failed: {' '.join(str(error).split())[:80]}", "", "", "")
        table.add_row("plain", "ministack", *row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
