"""Measures the cost of permissions per call: a role's calls with `--iam off`, `report` and `enforce`, in one run.

Clouds of all modes run at once, and the same request goes to each in turn, so that other load on this machine affects
all of them. Two processes of one program differ by a tenth here, for their whole life: so the benchmark starts the
clouds several times and takes the median of the ratios of all starts; a second cloud with `off` shows the difference
between equal clouds. Calls of the account itself need no permission: they are not measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import statistics
import time
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.clients import client_of
from scripts.benchmarks.lambda_ import package
from scripts.benchmarks.servers import PROGRAMS, Program, running
from scripts.benchmarks.wire import Connection

MODES = ("off", "off again", "report", "enforce")
# The goal for report mode, from issue 16.
MOST_RATIO = 1.05
STREAM, BUCKET, FUNCTION, ROLE = "flights", "bench-permissions", "bench", "bench"
_NEEDED = [
    "kinesis:PutRecords", "kinesis:GetRecords", "lambda:InvokeFunction", "s3:PutObject", "s3:GetObject",
]  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A repeated request: method, path, body, and the headers that name its service."""

    name: str
    service: str
    method: str
    path: str
    body: bytes
    headers: dict[str, str]

    def signed(self, keys: dict[str, Any]) -> bytes:
        """Return the bytes of a session's request; without `--auth` nobody verifies the signature."""
        scope = f"{keys['AccessKeyId']}/20260101/us-east-1/{self.service}/aws4_request"
        lines = {
            "Host": "127.0.0.1",
            "X-Amz-Date": "20260101T000000Z",
            "X-Amz-Security-Token": str(keys["SessionToken"]),
            "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
            **self.headers,
            "Content-Length": str(len(self.body)),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{self.method} {self.path} HTTP/1.1\r\n{head}\r\n".encode() + self.body


def _kinesis(name: str, operation: str, params: dict[str, Any]) -> Call:
    headers = {
        "X-Amz-Target": f"Kinesis_20131202.{operation}",
        "Content-Type": "application/x-amz-json-1.1",
    }
    return Call(name, "kinesis", "POST", "/", json.dumps(params).encode(), headers)


def _put(count: int) -> Call:
    records = [{"Data": "MDEyMzQ1Njc4OWFiY2RlZg==", "PartitionKey": str(n)} for n in range(count)]
    return _kinesis(
        f"PutRecords, {count}", "PutRecords", {"StreamName": STREAM, "Records": records}
    )


def calls_of(iterator: str) -> list[Call]:
    """Return the calls to measure; `iterator` is the shard iterator for GetRecords."""
    path = f"/2015-03-31/functions/{FUNCTION}/invocations"
    return [
        _put(1),
        _put(100),
        _put(500),
        _kinesis("GetRecords, 100", "GetRecords", {"ShardIterator": iterator, "Limit": 100}),
        Call("Invoke, warm", "lambda", "POST", path, b"{}", {}),
        Call("S3 put, 1 KiB", "s3", "PUT", f"/{BUCKET}/k", b"x" * 1024, {}),
        Call("S3 get, 1 KiB", "s3", "GET", f"/{BUCKET}/k", b"", {}),
    ]


def prepared(port: int) -> list[tuple[str, bytes]]:
    """Create the role and the calls' resources in a cloud; return each call's name and request."""
    iam, kinesis, lambda_, s3, sts = (
        client_of(name, port) for name in ("iam", "kinesis", "lambda", "s3", "sts")
    )
    to_lambda = {"Service": "lambda.amazonaws.com"}
    trust = {"Effect": "Allow", "Principal": to_lambda, "Action": "sts:AssumeRole"}
    own = {"Effect": "Allow", "Action": _NEEDED, "Resource": "*"}
    role = iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=_policy(trust))["Role"]["Arn"]
    iam.put_role_policy(RoleName=ROLE, PolicyName="own", PolicyDocument=_policy(own))
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    s3.create_bucket(Bucket=BUCKET)
    lambda_.create_function(
        FunctionName=FUNCTION,
        Runtime="python3.12",
        Handler="app.handler",
        Role=role,
        Code={"ZipFile": package()},
    )
    keys = sts.assume_role(RoleArn=role, RoleSessionName="bench")["Credentials"]
    records = [{"Data": b"0123456789abcdef", "PartitionKey": str(n)} for n in range(100)]
    kinesis.put_records(StreamName=STREAM, Records=records)
    iterator = kinesis.get_shard_iterator(
        StreamName=STREAM, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return [(call.name, call.signed(keys)) for call in calls_of(iterator)]


def _policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def measured(
    connections: dict[str, Connection], requests: dict[str, bytes], rounds: int
) -> dict[str, float]:
    """Return a call's median seconds by mode; each round calls all modes, each time in another order."""
    seconds: dict[str, list[float]] = {mode: [] for mode in MODES}
    warming = max(rounds // 5, 20)
    # The request before has an influence of a fifth: so each order occurs equally often.
    shuffled = random.Random(16)
    for number in range(rounds + warming):
        for mode in shuffled.sample(MODES, len(MODES)):
            began_s = time.perf_counter()
            connections[mode].exchange(requests[mode])
            took_s = time.perf_counter() - began_s
            if number >= warming:
                seconds[mode].append(took_s)
    return {mode: statistics.median(values) for mode, values in seconds.items()}


def one_start(rounds: int) -> dict[str, dict[str, float]]:
    """Start a cloud of each mode; return the median seconds of each call, by its name and the mode."""
    with contextlib.ExitStack() as stack:
        servers = {mode: stack.enter_context(running(f"headrace, {mode}")) for mode in MODES}
        prepared_of = {mode: prepared(server.port) for mode, server in servers.items()}
        connections = {mode: Connection(server.port) for mode, server in servers.items()}
        medians: dict[str, dict[str, float]] = {}
        for place, (name, _) in enumerate(prepared_of["off"]):
            requests = {mode: prepared_of[mode][place][1] for mode in MODES}
            _check(connections, requests, name)
            medians[name] = measured(connections, requests, rounds)
        return medians


def _check(connections: dict[str, Connection], requests: dict[str, bytes], name: str) -> None:
    for mode, connection in connections.items():
        answer = connection.call(requests[mode])
        if b"Denied" in answer or b"__type" in answer or b"<Error>" in answer:
            raise click.ClickException(f"{name} fails with --iam {mode}: {answer[:300]!r}")


@click.command()
@click.option(
    "--rounds",
    default=400,
    show_default=True,
    type=click.IntRange(20),
    help="Rounds of each call, at each start.",
)
@click.option(
    "--starts",
    default=7,
    show_default=True,
    type=click.IntRange(1),
    help="Starts of the clouds of all modes.",
)
@click.option("--strict", is_flag=True, help="Fail when report mode costs more than its goal.")
def main(rounds: int, starts: int, *, strict: bool) -> None:
    """Measure what permissions cost."""
    plain = PROGRAMS["headrace"].command
    for mode in MODES:
        option = mode.partition(" ")[0]
        PROGRAMS[f"headrace, {mode}"] = Program(
            "headrace", lambda port, folder, option=option: [*plain(port, folder), "--iam", option]
        )
    measured_of = [one_start(rounds) for _ in range(starts)]
    table = Table("call", "off", *(f"{mode} / off" for mode in MODES[1:]), f"<= {MOST_RATIO}")
    misses: list[str] = []
    for name in measured_of[0]:
        off_s = statistics.median(start[name]["off"] for start in measured_of)
        ratios = {
            mode: statistics.median(start[name][mode] / start[name]["off"] for start in measured_of)
            for mode in MODES[1:]
        }
        is_met = ratios["report"] <= MOST_RATIO
        misses += [] if is_met else [name]
        shown = (f"{ratio:.3f}" for ratio in ratios.values())
        table.add_row(name, f"{off_s * 1e6:,.0f} µs", *shown, "yes" if is_met else "no")
    console = Console()
    console.print(table)
    console.print(
        f"Medians of {starts} starts with {rounds:,} rounds each; load average {os.getloadavg()[0]:.1f}."
    )
    if strict and misses:
        raise click.ClickException(f"More than {MOST_RATIO} in report mode: {', '.join(misses)}.")


if __name__ == "__main__":
    main()
