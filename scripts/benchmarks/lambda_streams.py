"""Measures Kinesis to Lambda: from PutRecord to the handler, and 100-record batches through a no-op handler.

headrace and ministack over HTTP, in the same run. The handler itself takes the time and writes it to a file, so the
figures are as a function sees them. Read ratios rather than figures.
"""

from __future__ import annotations

import io
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console

from scripts.benchmarks.lambda_rows import RUNTIME, Row, exit_if_missed, show
from scripts.benchmarks.sdk import client_of
from scripts.benchmarks.servers import CannotStart, running, version

BATCH = 100
ROUNDS = 200
RECORDS = 200_000
RECORDS_PER_PUT = 500
DATA_BYTES = 100
LATENCY_GOAL_MS = 10.0
RATE_GOAL = 50_000.0
WITHIN_S = 60.0

TIMER = """
import base64, os, time
def handler(event, context):
    now = time.time_ns()
    with open(os.environ["OUT"], "a") as out:
        for record in event["Records"]:
            sent = int(base64.b64decode(record["kinesis"]["data"]))
            out.write(f"{(now - sent) / 1e6}\\n")
"""
COUNTER = """
import os, time
seen, first = 0, 0.0
def handler(event, context):
    global seen, first
    first = first or time.time()
    seen += len(event["Records"])
    if seen >= int(os.environ["TOTAL"]):
        with open(os.environ["OUT"], "w") as out:
            out.write(f"{seen / (time.time() - first)}\\n")
"""


class Target:
    """A cloud behind its socket; `title` names it in the table."""

    def __init__(self, title: str, port: int, folder: Path) -> None:
        self.name = title
        self._folder = folder
        self.kinesis = client_of("kinesis", port, read_timeout=WITHIN_S)
        self.lambda_ = client_of("lambda", port, read_timeout=WITHIN_S)

    def stream(self, name: str) -> str:
        """Create a stream of one shard; return its ARN."""
        self.kinesis.create_stream(StreamName=name, ShardCount=1)

        def summary() -> Any:
            stream_summary = self.kinesis.describe_stream_summary(StreamName=name)
            return stream_summary["StreamDescriptionSummary"]

        wait(lambda: summary()["StreamStatus"] == "ACTIVE", f"{self.name}: stream {name}")
        return summary()["StreamARN"]

    def map(self, name: str, source: str, arn: str, **environment: str) -> Path:
        """Create a function that reads a stream in batches; return the file that it writes."""
        out = self._folder / f"{name}.out"
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("app.py", source)
        self.lambda_.create_function(
            FunctionName=name,
            Runtime=RUNTIME,
            Handler="app.handler",
            Role="arn:aws:iam::000000000000:role/bench",
            Timeout=30,
            MemorySize=256,
            Environment={"Variables": {"OUT": str(out), **environment}},
            Code={"ZipFile": buffer.getvalue()},
        )
        self.lambda_.create_event_source_mapping(
            FunctionName=name,
            EventSourceArn=arn,
            StartingPosition="TRIM_HORIZON",
            BatchSize=BATCH,
        )
        return out


def wait(condition: Callable[[], Any], what: str) -> Any:
    """Wait for a condition's first true value, and return it. Raises CannotStart on a timeout."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    raise CannotStart(f"{what} did not come in {WITHIN_S:g} s")


def lines(file: Path) -> list[str]:
    """Return the complete lines that a function has written."""
    text = file.read_text() if file.exists() else ""
    return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]


def latency_rows(target: Target, rounds: int, *, goals: bool) -> list[Row]:
    """Measure from the sending of PutRecord to the handler's entry, one record at a time."""
    out = target.map("timer", TIMER, target.stream("latency"))
    for number in range(rounds + 5):
        data = str(time.time_ns()).encode()
        target.kinesis.put_record(StreamName="latency", Data=data, PartitionKey="k")
        wait(lambda n=number: len(lines(out)) > n, f"{target.name}: record {number} in the handler")
    # The first records start the process.
    times_ms = [float(line) for line in lines(out)[5:]]
    goal = LATENCY_GOAL_MS if goals else None
    what = "PutRecord to handler entry"
    return [
        Row(f"{what}, p50", target.name, statistics.median(times_ms), "ms", goal),
        Row(f"{what}, slowest", target.name, max(times_ms), "ms"),
    ]


def rate_rows(target: Target, records: int, *, goals: bool) -> list[Row]:
    """Measure how fast a shard's backlog goes through a no-op handler."""
    arn = target.stream("rate")
    entry = {"Data": b"x" * DATA_BYTES, "PartitionKey": "k"}
    for _ in range(records // RECORDS_PER_PUT):
        target.kinesis.put_records(StreamName="rate", Records=[entry] * RECORDS_PER_PUT)
    out = target.map("counter", COUNTER, arn, TOTAL=str(records))
    (rate,) = wait(lambda: lines(out), f"{target.name}: {records} records through the handler")
    goal = RATE_GOAL if goals else None
    what = f"{DATA_BYTES} B records in batches of {BATCH}"
    return [Row(what, target.name, float(rate), "records/s", goal, True)]


def measure(rounds: int, records: int, console: Console) -> list[Row]:
    """Measure everything, one cloud at a time."""
    rows: list[Row] = []
    for name in ("headrace", "ministack"):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            try:
                with running(name) as cloud:
                    target = Target(f"{name} {version(name)}, HTTP", cloud.port, Path(folder))
                    rows += latency_rows(target, rounds, goals=name == "headrace")
                    rows += rate_rows(target, records, goals=name == "headrace")
            except (CannotStart, ClientError, BotoCoreError) as error:
                console.print(f"[yellow]left out:[/] {name}: {error}")
    return rows


@click.command()
@click.option("--rounds", default=ROUNDS, show_default=True, type=click.IntRange(2))
@click.option("--records", default=RECORDS, show_default=True, type=click.IntRange(500))
@click.option("--strict", is_flag=True, help="Fail when a goal is missed.")
def main(rounds: int, records: int, strict: bool) -> None:
    """Measure the path from a Kinesis stream to a Lambda function."""
    console = Console()
    rows = measure(rounds, records - records % RECORDS_PER_PUT, console)
    show(rows, console)
    if strict:
        exit_if_missed(rows)


if __name__ == "__main__":
    main()
