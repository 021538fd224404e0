"""Measures the cost of an idle cloud: threads, processor and memory with 0, 200 and 1,000 mappings.

Each mapping has its own queue, or shares a stream with a few others, and nothing is ever put. `--against` also measures
another checkout of headrace (`git worktree add FOLDER COMMIT`) in the same run.
"""

from __future__ import annotations

import io
import os
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from scripts.benchmarks.sdk import ACCOUNT, client_of
from scripts.benchmarks.servers import PROGRAMS, Running, checkout, running

FUNCTION = "idle"
BEFORE = "headrace-before"
SHARED_BY = 4
SETTLE_S = 3.0
AT_ONCE = 8
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """The resources of an idle cloud: threads, a share of one processor (0 to 1), and memory."""

    threads: int
    processor: float
    resident_mb: float


def make_functions(lambda_: Any) -> None:
    """Create functions for the mappings: a stream may have one mapping to each function."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("app.py", "def handler(event, context):\n    return None\n")
    for number in range(SHARED_BY):
        lambda_.create_function(
            FunctionName=f"{FUNCTION}-{number}",
            Runtime="python3.12",
            Handler="app.handler",
            Role=f"arn:aws:iam::{ACCOUNT}:role/bench",
            Code={"ZipFile": buffer.getvalue()},
        )


def add_mappings(port: int, source: str, count: int) -> None:
    """Create `count` mappings and their sources."""
    lambda_, kinesis, sqs = (
        client_of(name, port, max_pool_connections=AT_ONCE) for name in ("lambda", "kinesis", "sqs")
    )
    make_functions(lambda_)

    def add_source(number: int) -> str:
        name = f"idle-{number}"
        if source == "kinesis":
            kinesis.create_stream(StreamName=name, ShardCount=1)
            name = f"stream/{name}"
        else:
            sqs.create_queue(QueueName=name)
        return f"arn:aws:{source}:us-east-1:{ACCOUNT}:{name}"

    def add_mapping(number: int) -> None:
        lambda_.create_event_source_mapping(
            FunctionName=f"{FUNCTION}-{number % SHARED_BY}",
            EventSourceArn=arns[number // shared_by],
            **({"StartingPosition": "LATEST"} if source == "kinesis" else {}),
        )

    # An account has at most 500 shards, as on AWS.
    shared_by = SHARED_BY if source == "kinesis" else 1
    with ThreadPoolExecutor(AT_ONCE) as pool:
        arns = list(pool.map(add_source, range(-(-count // shared_by))))
        list(pool.map(add_mapping, range(count)))


def processor_s(pid: int) -> float:
    """Return a process's processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def threads(pid: int) -> int:
    """Return the number of a process's threads."""
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())


def cost_of(server: Running, seconds: float) -> Cost:
    """Leave a cloud idle for a while, and return its cost."""
    pid = server.pid
    time.sleep(SETTLE_S)
    began_s, used_s = time.perf_counter(), processor_s(pid)
    time.sleep(seconds)
    took_s = time.perf_counter() - began_s
    share = (processor_s(pid) - used_s) / took_s
    return Cost(threads(pid), share, server.rss_mb())


@click.command()
@click.option("--mappings", default="0,200,1000", show_default=True, help="Comma-separated counts.")
@click.option("--source", type=click.Choice(["kinesis", "sqs"]), multiple=True)
@click.option("--seconds", default=15.0, show_default=True, type=click.FloatRange(1))
@click.option(
    "--against", type=click.Path(exists=True, file_okay=False), help="Another checkout's folder."
)
def main(mappings: str, source: tuple[str, ...], seconds: float, against: str | None) -> None:
    """Measure idle clouds."""
    targets = ["headrace"]
    if against is not None:
        PROGRAMS[BEFORE] = checkout(against)
        targets.insert(0, BEFORE)
    table = Table("mappings", "of", "target", "threads", "of one processor", "resident")
    for count in map(int, mappings.split(",")):
        for kind in (source or ("kinesis", "sqs")) if count else ("",):
            for target in targets:
                with running(target) as server:
                    if count:
                        add_mappings(server.port, kind, count)
                    cost = cost_of(server, seconds)
                share, memory = f"{cost.processor:.1%}", f"{cost.resident_mb:.0f} MB"
                table.add_row(f"{count:,}", kind, target, str(cost.threads), share, memory)
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
