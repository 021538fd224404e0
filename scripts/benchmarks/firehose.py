"""Firehose from put to object: records a second, the delay over the buffer's interval, and memory.

Puts by prebuilt requests over sockets, so that the client costs little (`client` is its share of a processor while it
puts); the time runs from the first put until the last record is in an object, the last buffer's interval of a second
included. LocalStack and ministack, which take direct puts too, stand beside in the same run, with fewer records: both
write an object at each put. Read ratios rather than figures.
"""

from __future__ import annotations

import base64
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

from scripts.benchmarks.clients import client_of
from scripts.benchmarks.lambda_rows import RUNTIME
from scripts.benchmarks.pipeline import started
from scripts.benchmarks.servers import CannotStart, rss_mb, running
from scripts.benchmarks.wire import Connection, request

BUCKET, STREAM = "bench-objects", "bench"
ROLE = "arn:aws:iam::000000000000:role/r"
RECORDS_PER_PUT, CLIENTS, KEYS = 500, 2, 100
WITHIN_S = 300.0
LOOK_EVERY_S = 0.02
MIB = 1024 * 1024


@dataclass(frozen=True)
class Case:
    """What a delivery stream does with its records; `goal` in records a second, 0 for none.

    Attributes:
        of_stream: the records come from a Kinesis stream of four shards, and not by direct puts.
        share: of the records, how many this case gets.
    """

    name: str
    destination: dict[str, Any]
    goal: float = 0.0
    of_stream: bool = False
    share: float = 1.0


def _processors(kind: str, **parameters: str) -> dict[str, Any]:
    given = [{"ParameterName": n, "ParameterValue": v} for n, v in parameters.items()]
    return {"Enabled": True, "Processors": [{"Type": kind, "Parameters": given}]}


_SMALL = {"BufferingHints": {"SizeInMBs": 5, "IntervalInSeconds": 1}}
_LARGE = {"BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 1}}
FUNCTION = "bench"
SHARDS = 4
_JQ = "MetadataExtraction"
PASS = """
def handler(event, context):
    return {"records": [{"recordId": r["recordId"], "result": "Ok", "data": r["data"]} for r in event["records"]]}
"""
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
                _JQ, MetadataExtractionQuery="{c:.c}", JsonParsingEngine="JQ-1.6"
            ),
        },
        50_000,
    ),
    Case(
        "Lambda",
        {
            **_SMALL,
            "ProcessingConfiguration": _processors(
                "Lambda", LambdaArn="arn:aws:lambda:us-east-1:000000000000:function:" + FUNCTION
            ),
        },
        share=0.25,
    ),
    Case("Kinesis source, GZIP", {**_SMALL, "CompressionFormat": "GZIP"}, of_stream=True),
)
# 500 partitions are active at once, which is AWS's limit; their buffers of 64 MiB are not full.
MOST_PARTITIONS, LARGE_BYTES = 500, 1_000


def bodies(count: int, *, keys: int = KEYS, size_bytes: int = 100) -> list[bytes]:
    """Return the requests of `count` records."""
    made: list[bytes] = []
    for start in range(0, count, RECORDS_PER_PUT):
        records = [
            {"Data": base64.b64encode(record(number, keys, size_bytes)).decode()}
            for number in range(start, min(start + RECORDS_PER_PUT, count))
        ]
        body = request("PutRecordBatch", {"DeliveryStreamName": STREAM, "Records": records})
        made.append(
            body.replace(b"Kinesis_20131202.", b"Firehose_20150804.").replace(
                b"/kinesis/aws4", b"/firehose/aws4"
            )
        )
    return made


def stream_bodies(count: int) -> list[bytes]:
    """Return the requests that put `count` records into the Kinesis stream."""
    return [
        request(
            "PutRecords",
            {
                "StreamName": STREAM,
                "Records": [
                    {
                        "Data": base64.b64encode(record(number)).decode(),
                        "PartitionKey": f"k{number}",
                    }
                    for number in range(start, min(start + RECORDS_PER_PUT, count))
                ],
            },
        )
        for start in range(0, count, RECORDS_PER_PUT)
    ]


def record(number: int, keys: int = KEYS, size_bytes: int = 100) -> bytes:
    """Return a JSON record of so many bytes."""
    given = json.dumps({"n": number, "c": f"c{number % keys}", "a": number * 7 % 1000})
    return f'{given[:-1]}, "p": "{"x" * (size_bytes - len(given) - 9)}"}}'.encode()


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


def prepare(port: int, destination: dict[str, Any], *, of_stream: bool = False) -> Any:
    """Make the bucket, what the destination needs, and the delivery stream; return a client of S3."""
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
    # LocalStack makes it in the background.
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        found = firehose.describe_delivery_stream(DeliveryStreamName=STREAM)
        if found["DeliveryStreamDescription"]["DeliveryStreamStatus"] == "ACTIVE":
            return s3
        time.sleep(LOOK_EVERY_S)
    raise CannotStart("the delivery stream did not become ACTIVE")


def make_function(port: int) -> None:
    """Make the function that gives records back as they are, and have it started."""
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


def measure(case: Case, made: list[bytes], count: int) -> dict[str, float]:
    """Return headrace's figures of a case."""
    with running("headrace") as target:
        prepare(target.port, case.destination, of_stream=case.of_stream)
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
            # AWS's least interval is no work: the time until all is in its buffer, and that of all deliveries.
            whole_s = sorted_s + delivered[-1] - delivered[0]
        return {
            "puts/s": count / put_s,
            "records/s": count / whole_s,
            "MB": most_mb,
            "client": client_s / put_s,
        }


def measure_delay(rounds: int) -> float:
    """Return the milliseconds that a record waits longer than the buffer's interval of a second; the median."""
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


def measure_partitions(count: int) -> tuple[int, float, float]:
    """Return how many partitions are active with `count` records of 1,000 bytes, their MB, and the memory's rise."""
    case = next(case for case in CASES if case.name.startswith("JQ"))
    with running("headrace") as target:
        prepare(target.port, case.destination)
        before_mb = rss_mb(target.pid)
        put_all(target.port, bodies(count, keys=MOST_PARTITIONS, size_bytes=LARGE_BYTES))
        _, most_mb = wait(
            lambda: status(target.port)["buffered_records"] >= count, lambda: rss_mb(target.pid)
        )
        active = int(status(target.port)["active_partitions"])
        return active, count * LARGE_BYTES / 1e6, most_mb - before_mb


def measure_other(name: str, made: list[bytes], count: int) -> dict[str, float]:
    """Return another cloud's figures of the plain case: its objects are counted by size."""
    size_bytes = sum(len(record(number)) for number in range(count))
    with started(name) as target:
        s3 = prepare(target.port, CASES[0].destination)
        start_s = time.monotonic()
        put_all(target.port, made)
        put_s = time.monotonic() - start_s
        wait(lambda: delivered_bytes(s3) >= size_bytes, lambda: 0.0)
        whole_s = time.monotonic() - start_s
        return {"puts/s": count / put_s, "records/s": count / whole_s}


@click.command()
@click.option("--records", default=600_000, show_default=True)
@click.option("--elsewhere", default=10_000, show_default=True, help="Records for other clouds.")
@click.option("--only", help="Only the cases whose name begins with this.")
@click.option("--peers/--no-peers", default=True, help="Also LocalStack and ministack.")
def main(records: int, elsewhere: int, only: str | None, *, peers: bool) -> None:
    """Measure Firehose."""
    columns = (
        "case",
        "cloud",
        "put, records/s",
        "put to object, records/s",
        "goal",
        "MB",
        "client",
    )
    table = Table(*columns)
    for case in CASES:
        if only and not case.name.startswith(only):
            continue
        count = int(records * case.share)
        made = stream_bodies(count) if case.of_stream else bodies(count)
        found = measure(case, made, count)
        table.add_row(
            case.name,
            "headrace",
            f"{found['puts/s']:,.0f}",
            f"{found['records/s']:,.0f}",
            f"{case.goal:,.0f}" if case.goal else "",
            f"{found['MB']:,.0f}",
            f"{found['client']:.0%}",
        )
    for name in ("localstack", "ministack") if peers else ():
        try:
            found = measure_other(name, bodies(elsewhere), elsewhere)
            row = (f"{found['puts/s']:,.0f}", f"{found['records/s']:,.0f}")
        except (CannotStart, OSError, RuntimeError, BotoCoreError, ClientError) as error:
            row = (f"failed: {' '.join(str(error).split())[:80]}", "")
        table.add_row("plain", name, *row)
    console = Console(width=130)
    console.print(table)
    if not only:
        console.print(f"delay over the interval: {measure_delay(10):,.0f} ms (median of 10)")
        active, data_mb, rise_mb = measure_partitions(records // 3)
        console.print(
            f"{active} active partitions, {data_mb:,.0f} MB in their buffers: {rise_mb:,.0f} MB of memory more"
        )


if __name__ == "__main__":
    main()
