"""Measures moto's services in headrace beside moto's own server, which stores nothing: plain requests of one client.

The load client is as in the Kinesis benchmark: raw sockets on the second processor, one server at a time on the first.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click
from rich.console import Console
from rich.progress import Progress

from scripts.benchmarks import report
from scripts.benchmarks.report import Line
from scripts.benchmarks.servers import CannotStart, Running, processors, running
from scripts.benchmarks.wire import Connection

PEER = "moto"
LEASES = 300
# However busy the machine.
LEAST_REQUESTS = 10
# Three times moto's own server, although headrace writes to the disk.
GOAL = report.times_the_best(3)
RATE = "requests/s"
RESTART = "kill -9 and restart"
RESTART_WRITES = 100_000
QUICK_RESTART_WRITES = 10_000
TABLE = {
    "TableName": "leases",
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "leaseKey", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "leaseKey", "AttributeType": "S"}],
}
# Versions of the services' Query protocols.
SNS, STS = "2010-03-31", "2011-06-15"
Figures = dict[str, Any]


class Client:
    """One connection for all services, with the messages that it has received."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connection = Connection(port)
        self.url = f"http://127.0.0.1:{port}/000000000000/q"
        self.topic_arn = ""
        self.handles: list[str] = []

    def dynamodb(self, operation: str, **params: Any) -> bytes:
        """Run an operation of DynamoDB; return the answer's body."""
        return self._ask(_request("dynamodb", f"DynamoDB_20120810.{operation}", params))

    def sqs(self, operation: str, **params: Any) -> Any:
        """Run an operation of SQS on the queue."""
        request = _request("sqs", f"AmazonSQS.{operation}", {"QueueUrl": self.url, **params})
        return json.loads(self._ask(request) or b"{}")

    def query(self, service: str, version: str, operation: str, **params: str) -> bytes:
        """Run an operation of a service whose protocol is Query; return the answer's body."""
        body = urlencode({"Action": operation, "Version": version, **params}).encode()
        return self._ask(_head(service, "application/x-www-form-urlencoded", "", body))

    def events(self, operation: str, **params: Any) -> bytes:
        """Run an operation of EventBridge; return the answer's body."""
        return self._ask(_request("events", f"AWSEvents.{operation}", params, "1.1"))

    def _ask(self, request: bytes) -> bytes:
        start, stop = self.connection.exchange(request)
        return bytes(self.connection.buffer[start:stop])

    def make(self) -> None:
        """Create the table with all leases, the queue and the topic."""
        self.dynamodb("CreateTable", **TABLE)
        for number in range(LEASES):
            put_item(self, number)
        request = _request("sqs", "AmazonSQS.CreateQueue", {"QueueName": "q"})
        self.url = json.loads(self._ask(request))["QueueUrl"]
        made = self.query("sns", SNS, "CreateTopic", Name="t").decode()
        self.topic_arn = made.partition("<TopicArn>")[2].partition("</TopicArn>")[0]


def _request(service: str, target: str, body: Any, version: str = "1.0") -> bytes:
    data = json.dumps(body).encode()
    kind = f"application/x-amz-json-{version}"
    return _head(service, kind, f"X-Amz-Target: {target}\r\n", data)


def _head(service: str, content_type: str, more: str, body: bytes) -> bytes:
    head = (
        f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}Content-Type: {content_type}\r\n"
        f"Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request,"
        f" SignedHeaders=host, Signature=0\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _lease(number: int) -> dict[str, Any]:
    return {"leaseKey": {"S": f"shardId-{number % LEASES:012}"}}


def put_item(client: Client, number: int) -> None:
    """Put one complete lease."""
    checkpoint = {"S": f"4957{number:052}"}
    item = {**_lease(number), "leaseCounter": {"N": str(number)}, "checkpoint": checkpoint}
    client.dynamodb("PutItem", TableName="leases", Item={**item, "leaseOwner": {"S": "worker-1"}})


def update_lease(client: Client, number: int) -> None:
    """Renew a lease as the Kinesis Client Library 1.x for Java does: with legacy members and a condition."""
    client.dynamodb(
        "UpdateItem",
        TableName="leases",
        Key=_lease(number),
        AttributeUpdates={"leaseCounter": {"Value": {"N": str(number)}, "Action": "PUT"}},
        Expected={"leaseOwner": {"Value": {"S": "worker-1"}}},
    )


def get_item(client: Client, number: int) -> None:
    """Read a lease."""
    client.dynamodb("GetItem", TableName="leases", Key=_lease(number), ConsistentRead=True)


def send_message(client: Client, number: int) -> None:
    """Send a message."""
    client.sqs("SendMessage", MessageBody=f"message {number} {'x' * 100}")


def query(client: Client, number: int) -> None:
    """Find a lease by its key."""
    key = _lease(number)["leaseKey"]
    client.dynamodb(
        "Query",
        TableName="leases",
        KeyConditionExpression="leaseKey = :key",
        ExpressionAttributeValues={":key": key},
    )


def receive_message(client: Client, _: int) -> bool:
    """Receive a message that was sent before; return whether there was one."""
    messages = client.sqs("ReceiveMessage", MaxNumberOfMessages=1).get("Messages", ())
    client.handles += [message["ReceiptHandle"] for message in messages]
    return bool(messages)


def delete_message(client: Client, _: int) -> bool:
    """Delete a message that was received before; return whether there was one."""
    if client.handles:
        client.sqs("DeleteMessage", ReceiptHandle=client.handles.pop())
    return bool(client.handles)


def publish(client: Client, number: int) -> None:
    """Publish to a topic without a subscriber."""
    client.query("sns", SNS, "Publish", TopicArn=client.topic_arn, Message=f"message {number}")


def put_events(client: Client, number: int) -> None:
    """Put an event on the default bus, which has no rule."""
    detail = json.dumps({"number": number})
    client.events("PutEvents", Entries=[{"Source": "bench", "DetailType": "t", "Detail": detail}])


def assume_role(client: Client, number: int) -> None:
    """Take the credentials of a role."""
    role = "arn:aws:iam::000000000000:role/bench"
    client.query("sts", STS, "AssumeRole", RoleArn=role, RoleSessionName=f"session-{number}")


@dataclass(frozen=True)
class Workload:
    """A repeated request; one that returns False is not repeated."""

    name: str
    run: Callable[[Client, int], bool | None]


WORKLOADS = (
    Workload("PutItem", put_item),
    Workload("UpdateItem (KCL's lease)", update_lease),
    Workload("GetItem", get_item),
    Workload("Query", query),
    Workload("SendMessage", send_message),
    Workload("ReceiveMessage", receive_message),
    Workload("DeleteMessage", delete_message),
    Workload("Publish", publish),
    Workload("PutEvents", put_events),
    Workload("AssumeRole", assume_role),
)


def measure(client: Client, workload: Workload, seconds: float) -> Figures:
    """Run a workload for some seconds, or until it returns False; return its rate and latencies."""
    took_ms: list[float] = []
    ends_at = time.perf_counter() + seconds
    for number in itertools.count():
        before = time.perf_counter()
        if before >= ends_at and number >= LEAST_REQUESTS:
            break
        goes_on = workload.run(client, number)
        took_ms.append((time.perf_counter() - before) * 1000)
        if goes_on is False:
            break
    return {RATE: len(took_ms) / sum(took_ms) * 1000, **_latencies(took_ms)}


def _latencies(took_ms: Sequence[float]) -> Figures:
    cuts = statistics.quantiles(took_ms, n=100)
    return {"p50 ms": cuts[49], "p99 ms": cuts[98], "max ms": max(took_ms)}


def run_all(target: str, seconds: float, say: Callable[[str], None]) -> dict[str, Figures]:
    """Run every workload against a target. Raises CannotStart."""
    first_cpu, _ = processors()
    with running(target, first_cpu) as server:
        client = Client(server.port)
        client.make()
        for number in range(LEASES):
            put_item(client, number)
        figures: dict[str, Figures] = {}
        for workload in WORKLOADS:
            say(f"{target}: {workload.name}")
            figures[workload.name] = measure(client, workload, seconds)
        client.connection.close()
        return figures


def restart(writes: int, say: Callable[[str], None]) -> Figures:
    """Write this many leases and messages, kill headrace, start it again. Raises CannotStart, RuntimeError."""
    first_cpu, _ = processors()
    with running(report.US, first_cpu) as server:
        client = Client(server.port)
        client.make()
        for number in range(LEASES):
            put_item(client, number)
        took_ms: list[float] = []
        for number in range(writes):
            before = time.perf_counter()
            update_lease(client, number)
            took_ms.append((time.perf_counter() - before) * 1000)
            if number % 1000 == 0:
                say(f"{number:,} of {writes:,} lease writes")
        for number in range(writes // 10):
            _ten_messages(client, number)
            if number % 100 == 0:
                say(f"{number * 10:,} of {writes:,} messages sent and deleted")
        size_mb = _size_bytes(server.folder / "data") / 1e6
        server.kill()
        return {**_restarted(server, writes), "data MB": size_mb, **_latencies(took_ms)}


def _ten_messages(client: Client, number: int) -> None:
    entries = [{"Id": str(n), "MessageBody": f"message {number}{n}"} for n in range(10)]
    client.sqs("SendMessageBatch", Entries=entries)
    messages = client.sqs("ReceiveMessage", MaxNumberOfMessages=10)["Messages"]
    gone = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
    client.sqs("DeleteMessageBatch", Entries=gone)


def _restarted(server: Running, writes: int) -> Figures:
    """Start again; return the seconds until DynamoDB and SQS have answered correctly."""
    started = time.perf_counter()
    server.start()
    client = Client(server.port)
    last = json.loads(client.dynamodb("GetItem", TableName="leases", Key=_lease(writes - 1)))
    dynamodb_s = time.perf_counter() - started
    left = client.sqs("GetQueueAttributes", AttributeNames=["All"])["Attributes"]
    sqs_s = time.perf_counter() - started
    client.connection.close()
    if last["Item"]["leaseCounter"]["N"] != str(writes - 1):
        raise RuntimeError("a lease differs from its acknowledged state")
    if left["ApproximateNumberOfMessages"] != "0":
        raise RuntimeError("deleted messages are there again")
    return {"s to DynamoDB": dynamodb_s, "s to SQS": sqs_s, "MB": server.rss_mb(), "records": 1e9}


def _size_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


RESTART_GOALS = {
    "s to DynamoDB": report.at_most(2, "s"),
    "s to SQS": report.at_most(2, "s"),
    "data MB": report.at_most(20, "MB"),
    "p50 ms": None,
    "p99 ms": None,
    "max ms": None,
}


@click.command()
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(1), help="Rounds of the medians."
)
@click.option(
    "--seconds", default=3.0, show_default=True, type=click.FloatRange(0.1), help="Per workload."
)
@click.option("--quick", is_flag=True, help="One short round, and a restart after 10,000 writes.")
@click.option(
    "--restart/--no-restart",
    "with_restart",
    default=True,
    help="Kill and restart after 100,000 writes.",
)
def main(rounds: int, seconds: float, *, quick: bool, with_restart: bool) -> None:
    """Measure moto's services in headrace, and in moto's own server."""
    rounds, seconds = (1, min(seconds, 1.0)) if quick else (rounds, seconds)
    results: dict[str, dict[str, list[Figures]]] = {w.name: {} for w in WORKLOADS}
    writes = QUICK_RESTART_WRITES if quick else RESTART_WRITES
    with Progress(transient=True) as progress:
        task = progress.add_task("", total=None)

        def say(text: str) -> None:
            progress.update(task, description=text)

        for _ in range(rounds):
            for target in (PEER, report.US):
                for name, found in _all_or_errors(target, seconds, say).items():
                    results[name].setdefault(target, []).append(found)
        restarted = [_restart_or_error(writes, say)] if with_restart else []
    medians = {
        name: {target: report.median_of(found) for target, found in by_target.items()}
        for name, by_target in results.items()
    }
    lines = [Line(w.name, RATE, GOAL) for w in WORKLOADS]
    lines += [Line(w.name, metric, None) for w in WORKLOADS for metric in ("p50 ms", "p99 ms")]
    lines.sort(key=lambda line: [w.name for w in WORKLOADS].index(line.workload))
    if restarted:
        name = f"{RESTART}, {writes:,} writes"
        medians[name] = {report.US: report.median_of(restarted)}
        lines += [Line(name, metric, goal) for metric, goal in RESTART_GOALS.items()]
    console = Console(width=None if sys.stdout.isatty() else 160)
    title = f"moto's services, one client, medians of {rounds} x {seconds:g} s"
    console.print(report.table(lines, [report.US, PEER], medians, title))
    for sentence in report.errors(medians):
        console.print(sentence, markup=False, highlight=False)


def _all_or_errors(target: str, seconds: float, say: Callable[[str], None]) -> dict[str, Figures]:
    try:
        return run_all(target, seconds, say)
    except (CannotStart, RuntimeError, OSError) as error:
        return {w.name: {"error": str(error)} for w in WORKLOADS}


def _restart_or_error(writes: int, say: Callable[[str], None]) -> Figures:
    try:
        return restart(writes, say)
    except (CannotStart, RuntimeError, OSError) as error:
        return {"error": str(error)}


if __name__ == "__main__":
    main()
