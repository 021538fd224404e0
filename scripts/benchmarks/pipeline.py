"""Measures a pipeline end to end on several clouds: put -> function -> second stream -> function -> object in S3.

headrace beside LocalStack (in host mode, `scripts/localstack`) and ministack, one cloud at a time in one run, each
deployed from the same template by CloudFormation. The functions record when records reach them, and when they are in
S3, so the latencies are as a function sees them. Read ratios rather than figures; slow clouds get fewer records
(`--elsewhere`).
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console

from scripts.benchmarks.lambda_rows import RUNTIME, Row, exit_if_missed, show
from scripts.benchmarks.lambda_streams import Target, rate_rows
from scripts.benchmarks.sdk import client_of
from scripts.benchmarks.servers import CannotStart, rss_mb, running
from scripts.localstack_host import host
from scripts.localstack_host.installation import ROOT, HostError, Installation
from scripts.pipeline.targets import identify

LOCALSTACK = "localstack"
CLOUDS = ("headrace", LOCALSTACK, "ministack")
RECORDS, RECORDS_ELSEWHERE = 50_000, 2_000
ROUNDS = 20
DATA_BYTES = 200
RECORDS_PER_PUT = 500
RATE_GOAL, DEPLOY_GOAL = 50.0, 3.0
WITHIN_S = 120.0
LOOK_EVERY_S = 0.01
TRIGGER = "through a trigger alone, batches of 100"
SOURCE, MIDDLE, BUCKET = "bench-in", "bench-out", "bench-objects"

COPY = """
import base64, os, time
import boto3
kinesis = boto3.client("kinesis")
seen, first = 0, 0.0
def handler(event, context):
    global seen, first
    now = time.time_ns()
    first = first or time.monotonic()
    records = event["Records"]
    entries = []
    with open(os.environ["OUT"] + ".latency", "a") as out:
        for record in records:
            data = base64.b64decode(record["kinesis"]["data"])
            if data.startswith(b"t"):
                out.write(f"{(now - int(data[1:20])) / 1e6}\\n")
            entries.append({"Data": data, "PartitionKey": record["kinesis"]["partitionKey"]})
    for start in range(0, len(entries), 500):
        kinesis.put_records(StreamName=os.environ["NEXT"], Records=entries[start:start + 500])
    seen += len(records)
"""
STORE = """
import base64, os, time
import boto3
s3 = boto3.client("s3")
count = 0
def handler(event, context):
    global count
    lines = [base64.b64decode(record["kinesis"]["data"]) for record in event["Records"]]
    s3.put_object(Bucket=os.environ["BUCKET"], Key=f"{time.time_ns()}", Body=b"\\n".join(lines))
    now = time.time_ns()
    count += len(lines)
    with open(os.environ["OUT"] + ".objects", "a") as out:
        for line in lines:
            if line.startswith(b"t"):
                out.write(f"{(now - int(line[1:20])) / 1e6}\\n")
    with open(os.environ["OUT"] + ".count", "a") as out:
        out.write(f"{count} {now}\\n")
"""


def template(out: Path) -> dict[str, Any]:
    """Return the stack: two streams of one shard, two functions with their triggers, a bucket."""
    role_policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "lambda.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }

    def stream(name: str) -> dict[str, Any]:
        settings = {"StreamMode": "PROVISIONED"}
        properties = {"Name": name, "ShardCount": 1, "StreamModeDetails": settings}
        return {"Type": "AWS::Kinesis::Stream", "Properties": properties}

    def function(name: str, source: str, **variables: Any) -> dict[str, Any]:
        properties = {
            "FunctionName": name, "Runtime": RUNTIME, "Handler": "index.handler", "Timeout": 60, "MemorySize": 256,
            "Role": {"Fn::GetAtt": ["Role", "Arn"]}, "Code": {"ZipFile": source},
            "Environment": {"Variables": {"OUT": str(out), **variables}},
        }  # fmt: skip
        return {"Type": "AWS::Lambda::Function", "Properties": properties}

    def trigger(function: str, stream: str) -> dict[str, Any]:
        properties = {
            "FunctionName": {"Ref": function}, "EventSourceArn": {"Fn::GetAtt": [stream, "Arn"]},
            "StartingPosition": "TRIM_HORIZON", "BatchSize": 500,
        }  # fmt: skip
        return {"Type": "AWS::Lambda::EventSourceMapping", "Properties": properties}

    return {
        "Resources": {
            "Role": {
                "Type": "AWS::IAM::Role",
                "Properties": {"AssumeRolePolicyDocument": role_policy},
            },
            "Source": stream(SOURCE),
            "Middle": stream(MIDDLE),
            "Objects": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": BUCKET}},
            "Copy": function("bench-copy", COPY, NEXT={"Ref": "Middle"}),
            "Store": function("bench-store", STORE, BUCKET={"Ref": "Objects"}),
            "CopyTrigger": trigger("Copy", "Source"),
            "StoreTrigger": trigger("Store", "Middle"),
        }
    }


@dataclass(frozen=True)
class Started:
    """A running cloud: its name with version, its port, its start's seconds, its process, the functions' folder."""

    title: str
    port: int
    start_s: float
    pid: int
    folder: Path


@contextlib.contextmanager
def started(name: str) -> Generator[Started]:
    """Start an empty cloud; stop it at the end. Raises CannotStart."""
    began = time.perf_counter()
    if name != LOCALSTACK:
        with running(name) as server:
            took_s = time.perf_counter() - began
            title = identify(f"http://127.0.0.1:{server.port}").title
            yield Started(title, server.port, took_s, server.pid, server.folder)
        return
    installation = Installation(ROOT / ".localstack")
    if host.running(installation) is not None:
        raise CannotStart(
            "LocalStack runs already: run `scripts/localstack down`, so that its start is measured"
        )
    try:
        installation.install()
        began = time.perf_counter()
        found = host.up(installation, 0)
        took_s = time.perf_counter() - began
        title = identify(found.endpoint_url).title
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            yield Started(title, found.port, took_s, found.pid, Path(folder))
    except HostError as error:
        raise CannotStart(str(error)) from error
    finally:
        host.down(installation)


def wait(condition: Callable[[], Any], what: str) -> Any:
    """Wait for a condition's first true value, and return it. Raises CannotStart on a timeout."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(LOOK_EVERY_S)
    raise CannotStart(f"{what} did not come in {WITHIN_S:g} s")


def deploy(port: int, out: Path) -> float:
    """Create the stack; return the seconds until it is complete. Raises CannotStart with the events of a failure."""
    cloudformation = client_of("cloudformation", port, read_timeout=WITHIN_S)
    began = time.perf_counter()
    cloudformation.create_stack(
        StackName="bench", TemplateBody=json.dumps(template(out)), Capabilities=["CAPABILITY_IAM"]
    )

    def ended() -> str | None:
        stack_status = cloudformation.describe_stacks(StackName="bench")["Stacks"][0]["StackStatus"]
        return None if stack_status.endswith("_IN_PROGRESS") else str(stack_status)

    status = wait(ended, "the stack")
    took_s = time.perf_counter() - began
    if status != "CREATE_COMPLETE":
        events = cloudformation.describe_stack_events(StackName="bench")["StackEvents"]
        words = [
            f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', '')}"
            for event in events
            if event["ResourceStatus"].endswith("FAILED")
        ]
        raise CannotStart(f"the stack is {status}: {'; '.join(words)}")
    return took_s


def lines(file: Path) -> list[str]:
    """Return the complete lines that a function has written."""
    text = file.read_text() if file.exists() else ""
    return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]


def latencies(port: int, out: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Put records one at a time; return the milliseconds until each is in a function, and in an object."""
    kinesis = client_of("kinesis", port, read_timeout=WITHIN_S)
    functions, objects = out.with_suffix(".latency"), out.with_suffix(".objects")
    for number in range(rounds + 1):
        data = f"t{time.time_ns()}".encode()
        kinesis.put_record(StreamName=SOURCE, Data=data, PartitionKey="k")
        wait(lambda n=number: len(lines(objects)) > n, f"record {number} in S3")
    # The first record starts the processes.
    return [float(t) for t in lines(functions)[1:]], [float(t) for t in lines(objects)[1:]]


def rate(port: int, out: Path, records: int) -> float:
    """Put records at full speed; return records per second from the first put to the last object."""
    kinesis = client_of("kinesis", port, read_timeout=WITHIN_S)
    counts = out.with_suffix(".count")
    before = int(lines(counts)[-1].split()[0])
    entry = {"Data": b"x" * DATA_BYTES, "PartitionKey": "k"}
    began_ns = time.time_ns()
    for _ in range(records // RECORDS_PER_PUT):
        entries = [entry] * RECORDS_PER_PUT
        while entries:
            answer = kinesis.put_records(StreamName=SOURCE, Records=entries)
            refused = [one for one in answer["Records"] if one.get("ErrorCode")]
            entries = [entry] * len(refused)
    ended_ns = wait(
        lambda: next(
            (
                int(when)
                for count, when in map(str.split, lines(counts)[-1:])
                if int(count) >= before + records
            ),
            0,
        ),
        f"{records} records in S3",
    )
    return records / ((ended_ns - began_ns) / 1e9)


def measure(name: str, records: int, rounds: int) -> list[Row]:
    """Measure a cloud."""
    with started(name) as cloud:
        out = cloud.folder / "out"
        idle_mb = rss_mb(cloud.pid)
        deploy_s = deploy(cloud.port, out)
        to_function, to_object = latencies(cloud.port, out, rounds)
        a_second = rate(cloud.port, out, records)
        (through,) = rate_rows(Target(cloud.title, cloud.port, cloud.folder), records, goals=False)
        return [
            Row("start until it answers", cloud.title, cloud.start_s, "s"),
            Row("deploy the stack (8 resources)", cloud.title, deploy_s, "s"),
            Row(
                "PutRecord to the first function, p50",
                cloud.title,
                statistics.median(to_function),
                "ms",
            ),
            Row("PutRecord to the object, p50", cloud.title, statistics.median(to_object), "ms"),
            Row("put, two functions, object", cloud.title, a_second, "records/s", None, True),
            Row(TRIGGER, cloud.title, through.value, through.unit, None, True),
            Row("memory at the start", cloud.title, idle_mb, "MB"),
            Row("memory at the end", cloud.title, rss_mb(cloud.pid), "MB"),
        ]


def with_goals(rows: list[Row], ours: str, theirs: str) -> list[Row]:
    """Set the goals of headrace's rate and deployment from LocalStack's figures."""
    goals = {
        TRIGGER: RATE_GOAL,
        "deploy the stack (8 resources)": 1 / DEPLOY_GOAL,
    }
    values = {(row.what, row.target): row.value for row in rows}
    return [
        Row(
            row.what,
            row.target,
            row.value,
            row.unit,
            goals[row.what] * values[row.what, theirs],
            row.higher_is_better,
        )
        if row.target == ours and row.what in goals and (row.what, theirs) in values
        else row
        for row in rows
    ]


@click.command()
@click.option(
    "--records",
    default=RECORDS,
    show_default=True,
    type=click.IntRange(500),
    help="Records on headrace.",
)
@click.option(
    "--elsewhere",
    default=RECORDS_ELSEWHERE,
    show_default=True,
    type=click.IntRange(500),
    help="Records on the other clouds.",
)
@click.option("--rounds", default=ROUNDS, show_default=True, type=click.IntRange(2))
@click.option("--cloud", "clouds", multiple=True, type=click.Choice(CLOUDS), help="Only these.")
@click.option("--strict", is_flag=True, help="Fail when a goal is missed.")
def main(records: int, elsewhere: int, rounds: int, clouds: tuple[str, ...], strict: bool) -> None:
    """Measure a pipeline end to end."""
    console = Console()
    rows: list[Row] = []
    titles: dict[str, str] = {}
    for name in clouds or CLOUDS:
        count = records if name == "headrace" else elsewhere
        try:
            found = measure(name, count - count % RECORDS_PER_PUT, rounds)
        except (CannotStart, ClientError, BotoCoreError) as error:
            console.print(f"[yellow]left out:[/] {name}: {error}")
            continue
        titles[name] = found[0].target
        rows += found
    rows = with_goals(rows, titles.get("headrace", ""), titles.get(LOCALSTACK, ""))
    show(rows, console)
    if strict:
        exit_if_missed(rows)


if __name__ == "__main__":
    main()
