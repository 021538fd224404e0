"""Measures what a person waits for at the shell: headrace's commands beside the AWS CLI, and `cdk deploy` twice.

A command's time is that of its process, and the processor time that of its process and its children.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.lambda_rows import Row, show
from scripts.benchmarks.servers import free_port, running
from scripts.pipeline.run import ASSEMBLY, ROOT, Run, command
from scripts.pipeline.stages import start

STREAM = "bench"
CDK = str(ROOT / "cdk" / "node_modules" / ".bin" / "cdk")
COMMAND_GOAL_MS = 150.0
SECOND_DEPLOY_GOAL_S = 3.0


def list_commands(port: int) -> dict[str, list[str]]:
    """Return the commands by their names; the stream must exist."""
    url = f"http://127.0.0.1:{port}"
    here = Path(sys.executable).parent
    headrace, aws = str(here / "headrace"), str(here / "aws")
    record = ["--stream-name", STREAM, "--partition-key", "k", "--data", "aGVsbG8="]
    return {
        "headrace --help": [headrace, "--help"],
        "headrace put": [headrace, "put", STREAM, "hello", "--endpoint-url", url],
        "headrace status": [headrace, "status", "--endpoint-url", url],
        "aws kinesis put-record": [aws, "--endpoint-url", url, "kinesis", "put-record", *record],
    }


def run_once(command: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its milliseconds, and those of processor time. Raises click.ClickException."""
    used_before, began_s = _used_s(), time.perf_counter()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
    )
    took_ms, used_ms = (time.perf_counter() - began_s) * 1000, (_used_s() - used_before) * 1000
    if done.returncode:
        raise click.ClickException(f"{' '.join(command)}: {done.stderr[-500:]}")
    return took_ms, used_ms


def _used_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def command_table(rounds: int) -> Table:
    """Measure each command in turn; the first round compiles modules, and does not count."""
    with running("headrace") as server:
        commands = list_commands(server.port)
        url = f"http://127.0.0.1:{server.port}"
        create = ["kinesis", "create-stream", "--stream-name", STREAM, "--shard-count", "1"]
        run_once([commands["aws kinesis put-record"][0], "--endpoint-url", url, *create])
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(rounds + 1):
            for name, command in commands.items():
                times[name].append(run_once(command))
    table = Table("command", "ms", "processor time, ms", "goal", "met")
    for name, found in times.items():
        took_ms, used_ms = (statistics.median(each[at] for each in found[1:]) for at in range(2))
        is_ours = name.startswith("headrace")
        goal, met = (
            (f"< {COMMAND_GOAL_MS:g} ms", took_ms < COMMAND_GOAL_MS) if is_ours else ("", None)
        )
        shown = {None: "", True: "yes", False: "[red]no[/]"}[met]
        table.add_row(name, f"{took_ms:,.0f}", f"{used_ms:,.0f}", goal, shown)
    return table


def deploy_first(run: Run) -> None:
    """Run what a user runs on a new cloud."""
    command([CDK, "bootstrap", f"aws://{run.account}/{run.region}"], run, cwd=run.data_dir)
    deploy_again(run)


def deploy_again(run: Run) -> None:
    """Run what a user runs who has changed nothing: the CLI starts the app, and deploys each stack."""
    options = ["--output", str(run.data_dir / ASSEMBLY), "--require-approval", "never"]
    command([CDK, "deploy", "--all", "--concurrency", "4", *options], run, cwd=ROOT / "cdk")


def deploy_rows() -> list[Row]:
    """Deploy the stacks of `cdk/` with the CDK CLI, synthesis and bootstrap included; then again without a change."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        run: Run = start(Path(folder) / "data", free_port())
        try:
            for what, work, goal in (
                ("bootstrap and cdk deploy", lambda: deploy_first(run), None),
                ("cdk deploy, again", lambda: deploy_again(run), SECOND_DEPLOY_GOAL_S),
            ):
                began_s = time.perf_counter()
                work()
                rows.append(Row(what, "headrace", time.perf_counter() - began_s, "s", goal))
        finally:
            down = [sys.executable, "-m", "headrace.cli.main", "down"]
            subprocess.run(
                [*down, "--data-dir", str(run.data_dir)], check=True, capture_output=True
            )
    return rows


@click.command()
@click.option("--rounds", default=10, show_default=True, type=click.IntRange(1))
@click.option("--deploy/--no-deploy", "with_deploy", default=True, help="`cdk deploy` twice too.")
def main(rounds: int, *, with_deploy: bool) -> None:
    """Measure commands, and deployments by the CDK CLI."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(command_table(rounds))
    if with_deploy:
        show(deploy_rows(), console)
    console.print(f"Medians of {rounds}; load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
