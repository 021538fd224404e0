"""Compares clouds of one kind call by call: all run at once, and the same request goes to each in turn.

So other load on this machine affects all of them. Two processes of one program differ by a tenth here, for their whole
life: so a benchmark starts its clouds several times and takes the median of the ratios of all starts.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from scripts.benchmarks.lambda_ import package
from scripts.benchmarks.sdk import ACCOUNT, client_of
from scripts.benchmarks.wire import Connection

STREAM, BUCKET, FUNCTION = "flights", "bench-calls", "bench"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/bench"


@dataclass(frozen=True)
class Call:
    """A repeated request: method, path, body, and the headers that name its service."""

    name: str
    service: str
    method: str
    path: str
    body: bytes
    headers: dict[str, str]

    def signed(self, access_key_id: str, session_token: str | None = None) -> bytes:
        """Return the bytes of the request; without `--auth` nobody verifies the signature."""
        scope = f"{access_key_id}/20260101/us-east-1/{self.service}/aws4_request"
        lines = {
            "Host": "127.0.0.1",
            "X-Amz-Date": "20260101T000000Z",
            **({} if session_token is None else {"X-Amz-Security-Token": session_token}),
            "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
            **self.headers,
            "Content-Length": str(len(self.body)),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{self.method} {self.path} HTTP/1.1\r\n{head}\r\n".encode() + self.body


def kinesis(name: str, operation: str, params: dict[str, Any]) -> Call:
    """Return a call of Kinesis."""
    headers = {
        "X-Amz-Target": f"Kinesis_20131202.{operation}",
        "Content-Type": "application/x-amz-json-1.1",
    }
    return Call(name, "kinesis", "POST", "/", json.dumps(params).encode(), headers)


def put_records(count: int, stream: str = STREAM) -> Call:
    """Return a PutRecords of small records."""
    records = [{"Data": "MDEyMzQ1Njc4OWFiY2RlZg==", "PartitionKey": str(n)} for n in range(count)]
    params = {"StreamName": stream, "Records": records}
    return kinesis(f"PutRecords, {count}", "PutRecords", params)


def get_records(iterator: str, limit: int) -> Call:
    """Return a GetRecords from a shard iterator."""
    params = {"ShardIterator": iterator, "Limit": limit}
    return kinesis(f"GetRecords, {limit}", "GetRecords", params)


def invoke() -> Call:
    """Return an invocation, warm after the first."""
    path = f"/2015-03-31/functions/{FUNCTION}/invocations"
    return Call("Invoke, warm", "lambda", "POST", path, b"{}", {})


def create_resources(port: int) -> str:
    """Create the stream with 500 records, the bucket, and the function of the calls; return a shard iterator."""
    streams, lambda_, s3 = (client_of(name, port) for name in ("kinesis", "lambda", "s3"))
    streams.create_stream(StreamName=STREAM, ShardCount=1)
    s3.create_bucket(Bucket=BUCKET)
    lambda_.create_function(
        FunctionName=FUNCTION,
        Runtime="python3.12",
        Handler="app.handler",
        Role=ROLE_ARN,
        Code={"ZipFile": package()},
    )
    records = [{"Data": b"0123456789abcdef", "PartitionKey": str(n)} for n in range(500)]
    streams.put_records(StreamName=STREAM, Records=records)
    return str(
        streams.get_shard_iterator(
            StreamName=STREAM, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
    )


def object_calls() -> list[Call]:
    """Return a put and a get of an object."""
    return [
        Call("S3 put, 1 KiB", "s3", "PUT", f"/{BUCKET}/k", b"x" * 1024, {}),
        Call("S3 get, 1 KiB", "s3", "GET", f"/{BUCKET}/k", b"", {}),
    ]


def repeated(starts: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command the options --rounds and --starts; `starts` is the latter's default."""

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        for name, least, default, text in (
            ("--starts", 1, starts, "Starts of all clouds."),
            ("--rounds", 20, 400, "Rounds of each call, at each start."),
        ):
            kind = click.IntRange(least)
            option = click.option(name, default=default, show_default=True, type=kind, help=text)
            command = option(command)
        return command

    return with_options


def medians_of(
    connections: Mapping[str, Connection],
    requests: Mapping[str, Sequence[tuple[str, bytes]]],
    rounds: int,
) -> dict[str, dict[str, float]]:
    """Return the median seconds of each call, by its name and the cloud's.

    Args:
        connections: a connection to each cloud, by its name.
        requests: each cloud's calls by name, in the same order.
        rounds: how often each call goes to each cloud.

    Raises click.ClickException when a cloud refuses a call.
    """
    clouds = list(connections)
    medians: dict[str, dict[str, float]] = {}
    for place, (name, _) in enumerate(requests[clouds[0]]):
        of_call = {cloud: requests[cloud][place][1] for cloud in clouds}
        for cloud in clouds:
            answer = connections[cloud].call(of_call[cloud])
            if b"Denied" in answer or b"__type" in answer or b"<Error>" in answer:
                raise click.ClickException(f"{name} fails on {cloud}: {answer[:300]!r}")
        medians[name] = _measured(connections, of_call, rounds)
    return medians


def _measured(
    connections: Mapping[str, Connection], requests: Mapping[str, bytes], rounds: int
) -> dict[str, float]:
    """Return a call's median seconds by cloud; each round calls all clouds, each time in another order."""
    clouds = list(connections)
    seconds: dict[str, list[float]] = {cloud: [] for cloud in clouds}
    warming = max(rounds // 5, 20)
    # The request before has an influence of a fifth: so each order occurs equally often.
    shuffled = random.Random(16)
    for number in range(rounds + warming):
        for cloud in shuffled.sample(clouds, len(clouds)):
            began_s = time.perf_counter()
            connections[cloud].exchange(requests[cloud])
            took_s = time.perf_counter() - began_s
            if number >= warming:
                seconds[cloud].append(took_s)
    return {cloud: statistics.median(values) for cloud, values in seconds.items()}
