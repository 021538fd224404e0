"""Measures Lambda: warm and cold invocations on headrace, beside ministack's local executor in the same run.

It measures calls in process (as Firehose, mappings and other services of the cloud make them), and Invoke over HTTP on
both clouds, one request at a time. The function does nothing. Read ratios rather than figures.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from headrace.cloud import Cloud
from headrace.core.config import Config
from scripts.benchmarks import lambda_streams
from scripts.benchmarks.lambda_rows import RUNTIME, Row, exit_if_missed, show
from scripts.benchmarks.servers import CannotStart, running, version

FUNCTION = "def handler(event, context):\n    return None\n"
# A cloud that has just started still loads modules of other services.
WARM_UP_S = 2.0
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=000000000000/20260101/us-east-1/lambda/aws4_request, "
    "SignedHeaders=host, Signature=0"
)


class Target:
    """A way to create and to invoke functions."""

    def __init__(
        self, name: str, create: Callable[[str], None], invoke: Callable[[str], None]
    ) -> None:
        self.name = name
        self.create = create
        self.invoke = invoke


def package() -> bytes:
    """Return the function's deployment package."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("app.py", FUNCTION)
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

            def create(name: str) -> None:
                members = {**function(name), "Code": {"ZipFile": package()}}
                cloud.gateway.call("lambda", "CreateFunction", members)

            def invoke(name: str) -> None:
                result = cloud.lambda_.invoker.invoke(name, b"{}")
                if result.function_error:
                    raise SystemExit(result.payload.decode())

            yield Target("headrace, in process", create, invoke)
        finally:
            cloud.stop()


@contextmanager
def over_http(name: str) -> Generator[Target]:
    """Yield a cloud behind its socket. Raises CannotStart."""
    with running(name) as cloud:
        connection = http.client.HTTPConnection("127.0.0.1", cloud.port, timeout=60)
        headers = {"Authorization": AUTHORIZATION, "Content-Type": "application/json"}

        def ask(path: str, body: bytes) -> http.client.HTTPResponse:
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            answer = response.read()
            if response.status >= 300 or response.getheader("X-Amz-Function-Error"):
                raise CannotStart(f"{name}: {response.status} {answer[:300]!r}")
            return response

        def create(function_name: str) -> None:
            code = {"ZipFile": base64.b64encode(package()).decode()}
            members = {**function(function_name), "Code": code}
            ask("/2015-03-31/functions", json.dumps(members).encode())

        def invoke(function_name: str) -> None:
            ask(f"/2015-03-31/functions/{function_name}/invocations", b"{}")

        try:
            yield Target(f"{name} {version(name)}, HTTP", create, invoke)
        finally:
            connection.close()


def _timed(invoke: Callable[[str], None], name: str) -> float:
    started = time.perf_counter()
    invoke(name)
    return (time.perf_counter() - started) * 1000


def invoke_rows(target: Target, seconds: float, *, goals: bool) -> list[Row]:
    """Measure warm invocations, one after the other, on one worker."""
    target.create("warm")
    ready = time.perf_counter() + WARM_UP_S
    while time.perf_counter() < ready:
        target.invoke("warm")
    times_ms: list[float] = []
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        times_ms.append(_timed(target.invoke, "warm"))
    rate = len(times_ms) / (time.perf_counter() - started)
    p99 = statistics.quantiles(times_ms, n=100)[98]
    return [
        Row("warm invoke, p50", target.name, statistics.median(times_ms), "ms", 2.0 if goals else None),
        Row("warm invoke, p99", target.name, p99, "ms"),
        Row("warm invokes on one worker", target.name, rate, "1/s", 800.0 if goals else None, True),
    ]  # fmt: skip


def cold_rows(target: Target, rounds: int, *, goals: bool) -> list[Row]:
    """Measure first invocations, each of a new function."""
    times_ms: list[float] = []
    for number in range(rounds):
        target.create(f"cold-{number}")
        times_ms.append(_timed(target.invoke, f"cold-{number}"))
    goal = 250.0 if goals else None
    return [
        Row("cold start, p50", target.name, statistics.median(times_ms), "ms", goal),
        Row("cold start, slowest", target.name, max(times_ms), "ms"),
    ]


def measure(seconds: float, rounds: int, console: Console) -> list[Row]:
    """Measure everything, one target at a time."""
    rows: list[Row] = []
    ways = [
        (in_process, True),
        (lambda: over_http("headrace"), False),
        (lambda: over_http("ministack"), False),
    ]
    for way, goals in ways:
        try:
            with way() as target:
                rows += invoke_rows(target, seconds, goals=goals)
                rows += cold_rows(target, rounds, goals=goals)
        except CannotStart as error:
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
    console = Console()
    rows = measure(seconds, rounds, console)
    if streams:
        rows += lambda_streams.measure(lambda_streams.ROUNDS, lambda_streams.RECORDS, console)
    show(rows, console)
    if strict:
        exit_if_missed(rows)


if __name__ == "__main__":
    main()
