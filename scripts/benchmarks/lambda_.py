"""Measures Lambda: warm and cold invocations on headrace, beside ministack's local executor in the same run.

It measures calls in process (as Firehose, mappings and other services of the cloud make them), and Invoke over HTTP on
both clouds, by one client and by eight. The function does nothing. Read ratios rather than figures.
"""

from __future__ import annotations

import base64
import io
import json
import random
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from headrace.cloud import Cloud
from headrace.core.config import Config
from scripts.benchmarks import lambda_streams
from scripts.benchmarks.lambda_rows import RUNTIME, Row, exit_if_missed, show
from scripts.benchmarks.servers import CannotStart, running, version
from scripts.benchmarks.wire import Connection, closed_loop

FUNCTION = "def handler(event, context):\n    return None\n"
# A cloud that has just started still loads modules of other services.
WARM_UP_S = 2.0
CLIENTS = 8
# A file of a large package, as a library's: Lambda unpacks it, and the function does not read it.
LARGE_BYTES, LARGE_FILES = 5_000_000, 50


@dataclass(frozen=True)
class Target:
    """A way to create and to invoke functions.

    `create` takes a name and a package. `load` invokes a function by so many clients, each one call after another, for
    some seconds, and returns the seconds that each call took.
    """

    name: str
    create: Callable[[str, bytes], None]
    invoke: Callable[[str], None]
    load: Callable[[str, int, float], list[float]]
    clients: tuple[int, ...] = (1, CLIENTS)


def package(more_bytes: int = 0) -> bytes:
    """Return the function's deployment package, with so many more bytes that cannot be compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("app.py", FUNCTION)
        for number in range(LARGE_FILES if more_bytes else 0):
            data = random.Random(number).randbytes(more_bytes // LARGE_FILES)
            archive.writestr(f"library/{number}.so", data)
    return buffer.getvalue()


def function(name: str) -> dict[str, object]:
    """Return the members of CreateFunction except the code."""
    return {
        "FunctionName": name,
        "Runtime": RUNTIME,
        "Handler": "app.handler",
        "Role": "arn:aws:iam::000000000000:role/bench",
        "MemorySize": 256,
        "Timeout": 30,
    }


@contextmanager
def in_process() -> Generator[Target]:
    """Yield headrace without its socket."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        cloud = Cloud(Config(data_dir=Path(folder)))
        cloud.start()
        try:

            def create(name: str, code: bytes) -> None:
                members = {**function(name), "Code": {"ZipFile": code}}
                cloud.gateway.call("lambda", "CreateFunction", members)

            def invoke(name: str) -> None:
                result = cloud.lambda_.invoker.invoke(name, b"{}")
                if result.function_error:
                    raise SystemExit(result.payload.decode())

            def load(name: str, _clients: int, seconds: float) -> list[float]:
                times_s: list[float] = []
                ends_s = time.perf_counter() + seconds
                while time.perf_counter() < ends_s:
                    times_s.append(_timed(lambda: invoke(name)))
                return times_s

            yield Target("headrace, in process", create, invoke, load, clients=(1,))
        finally:
            cloud.stop()


@contextmanager
def over_http(name: str) -> Generator[Target]:
    """Yield a cloud behind its socket. Raises CannotStart."""
    with running(name) as cloud:
        connection = Connection(cloud.port)

        def create(function_name: str, code: bytes) -> None:
            body = {**function(function_name), "Code": {"ZipFile": base64.b64encode(code).decode()}}
            connection.call(post("/2015-03-31/functions", json.dumps(body).encode()))

        def invoke(function_name: str) -> None:
            answer = connection.call(invocation(function_name))
            if answer not in (b"null", b""):
                raise CannotStart(f"{name}: {answer[:300]!r}")

        def load(function_name: str, clients: int, seconds: float) -> list[float]:
            return closed_loop(cloud.port, clients, [invocation(function_name)], seconds)

        try:
            yield Target(f"{name} {version(name)}, HTTP", create, invoke, load)
        finally:
            connection.close()


def post(path: str, body: bytes) -> bytes:
    """Return the bytes of a request of Lambda."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Authorization: AWS4-HMAC-SHA256 Credential=000000000000/20260101/us-east-1/lambda/aws4_request, "
        f"SignedHeaders=host, Signature=0\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def invocation(name: str) -> bytes:
    """Return the bytes of an Invoke."""
    return post(f"/2015-03-31/functions/{name}/invocations", b"{}")


def _timed(call: Callable[[], None]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


# By clients, invocations a second.
GOALS = {1: 2_000.0, CLIENTS: 4_000.0}


def invoke_rows(target: Target, seconds: float, *, goals: bool) -> list[Row]:
    """Measure warm invocations: each client makes one after the other."""
    target.create("warm", package())
    target.invoke("warm")
    rows: list[Row] = []
    for clients in target.clients:
        by = "1 client" if clients == 1 else f"{clients} clients"
        target.load("warm", clients, WARM_UP_S)
        times_s = target.load("warm", clients, seconds)
        goal = GOALS[clients] if goals else None
        cuts = [cut * 1000 for cut in statistics.quantiles(times_s, n=100)]
        rows += [
            Row(f"warm invoke, {by}, p50", target.name, cuts[49], "ms"),
            Row(f"warm invoke, {by}, p99", target.name, cuts[98], "ms"),
            Row(f"warm invokes, {by}", target.name, len(times_s) / seconds, "1/s", goal, True),
        ]
    return rows


def cold_rows(target: Target, rounds: int, *, goals: bool) -> list[Row]:
    """Measure first invocations, each of a new function, with a small package and with a large one."""
    rows: list[Row] = []
    for size, more_bytes, goal in (("small", 0, None), ("5 MB", LARGE_BYTES, 60.0)):
        code = package(more_bytes)
        times_ms: list[float] = []
        for number in range(rounds):
            name = f"cold-{size.replace(' ', '-')}-{number}"
            target.create(name, code)
            times_ms.append(_timed(lambda name=name: target.invoke(name)) * 1000)
        what, p50 = f"cold start, {size} package", statistics.median(times_ms)
        rows += [
            Row(f"{what}, p50", target.name, p50, "ms", goal if goals else None),
            Row(f"{what}, slowest", target.name, max(times_ms), "ms"),
        ]
    return rows


def measure(seconds: float, rounds: int, console: Console) -> list[Row]:
    """Measure everything, one target at a time."""
    rows: list[Row] = []
    ways = [
        (in_process, False),
        (lambda: over_http("headrace"), True),
        (lambda: over_http("ministack"), False),
    ]
    for way, goals in ways:
        try:
            with way() as target:
                rows += invoke_rows(target, seconds, goals=goals)
                rows += cold_rows(target, rounds, goals=goals)
        except (CannotStart, RuntimeError) as error:
            console.print(f"[yellow]left out:[/] {error}")
    return rows


@click.command()
@click.option("--seconds", default=3.0, show_default=True, type=click.FloatRange(0.1))
@click.option(
    "--rounds", default=10, show_default=True, type=click.IntRange(2), help="Cold starts."
)
@click.option("--streams/--no-streams", default=True, help="Kinesis mappings too.")
@click.option("--strict", is_flag=True, help="Fail when a goal is missed.")
def main(seconds: float, rounds: int, *, streams: bool, strict: bool) -> None:
    """Measure Lambda's invocations, and the path from a stream to a function (alone: lambda_streams)."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    rows = measure(seconds, rounds, console)
    if streams:
        rows += lambda_streams.measure(lambda_streams.ROUNDS, lambda_streams.RECORDS, console)
    show(rows, console)
    if strict:
        exit_if_missed(rows)


if __name__ == "__main__":
    main()
