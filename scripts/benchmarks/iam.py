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

from scripts.benchmarks.interleaved import (
    ROLE_ARN,
    create_resources,
    get_records,
    invoke,
    medians_of,
    object_calls,
    put_records,
    repeated,
)
from scripts.benchmarks.sdk import client_of
from scripts.benchmarks.servers import PROGRAMS, Program, running
from scripts.benchmarks.wire import Connection

MODES = ("off", "off again", "report", "enforce")
# The goal for report mode, from issue 16.
MOST_RATIO = 1.05
ROLE = ROLE_ARN.rpartition("/")[2]
_NEEDED = [
    "kinesis:PutRecords", "kinesis:GetRecords", "lambda:InvokeFunction", "s3:PutObject", "s3:GetObject",
]  # fmt: skip


def prepared(port: int) -> list[tuple[str, bytes]]:
    """Create the role and the calls' resources in a cloud; return each call's name and request."""
    iam, sts = client_of("iam", port), client_of("sts", port)
    to_lambda = {"Service": "lambda.amazonaws.com"}
    trust = {"Effect": "Allow", "Principal": to_lambda, "Action": "sts:AssumeRole"}
    own = {"Effect": "Allow", "Action": _NEEDED, "Resource": "*"}
    iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=_policy(trust))
    iam.put_role_policy(RoleName=ROLE, PolicyName="own", PolicyDocument=_policy(own))
    iterator = create_resources(port)
    keys = sts.assume_role(RoleArn=ROLE_ARN, RoleSessionName="bench")["Credentials"]
    calls = [
        *map(put_records, (1, 100, 500)),
        get_records(iterator, 100),
        invoke(),
        *object_calls(),
    ]
    return [(call.name, call.signed(keys["AccessKeyId"], keys["SessionToken"])) for call in calls]


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
@repeated(starts=7)
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
