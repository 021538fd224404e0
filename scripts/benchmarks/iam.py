"""Measures the cost of permissions per call: a role's calls with `--iam off`, `report` and `enforce`, in one run.

See `interleaved` for how clouds are compared. A second cloud with `off` shows the difference between equal clouds.
Calls of the account itself need no permission: they are not measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.clients import client_of
from scripts.benchmarks.interleaved import Call, get_records, invoke, medians_of, put_records
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


def calls_of(iterator: str) -> list[Call]:
    """Return the calls to measure; `iterator` is the shard iterator for GetRecords."""
    return [
        *(put_records(STREAM, count) for count in (1, 100, 500)),
        get_records(iterator, 100),
        invoke(FUNCTION),
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
    key_id, token = keys["AccessKeyId"], keys["SessionToken"]
    return [(call.name, call.signed(key_id, token)) for call in calls_of(iterator)]


def _policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def one_start(rounds: int) -> dict[str, dict[str, float]]:
    """Start a cloud of each mode; return the median seconds of each call, by its name and the mode."""
    with contextlib.ExitStack() as stack:
        servers = {mode: stack.enter_context(running(f"headrace, {mode}")) for mode in MODES}
        prepared_of = {mode: prepared(server.port) for mode, server in servers.items()}
        connections = {mode: Connection(server.port) for mode, server in servers.items()}
        return medians_of(connections, prepared_of, rounds)


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
