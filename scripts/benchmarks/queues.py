"""Measures Kinesis queues beside the SQS queues of moto and ministack, which have no Kinesis queues.

Records of 100 bytes, batches of 10; raw sockets on the second processor, one server at a time on the first.
"""

from __future__ import annotations

import base64
import json
import os
import re
import select
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from scripts.benchmarks import report
from scripts.benchmarks.report import Line
from scripts.benchmarks.servers import CannotStart, Running, processors, running
from scripts.benchmarks.wire import Connection

PEERS = ("moto", "ministack")
CLIENTS = 8
DATA_BYTES = 100
PEERS_MESSAGES = 500
# A server's first requests find it still importing, and its memory grows with what it imports.
WARM_UP_S = 3.0
STREAM, QUEUE = "flights", "bench"
TIMEOUT_S = 15
_HANDLE = re.compile(rb'"ReceiptHandle"\s*:\s*"([^"]*)"')
DRAINED = "receive and acknowledge, 8 clients"
WOKEN = "put to received, long poll"
BACKLOG = "backlog, more memory"
Figures = dict[str, Any]


@dataclass
class KinesisQueue:
    """A queue of headrace: the requests to fill and to drain it."""

    connection: Connection
    arn: str = ""
    per_fill: int = 500
    data: list[str] = field(default_factory=list[str])

    def make(self) -> None:
        """Create the stream and the queue."""
        self.ask(
            "CreateStream", {"StreamName": STREAM, "StreamModeDetails": {"StreamMode": "ON_DEMAND"}}
        )
        summary = self.ask("DescribeStreamSummary", {"StreamName": STREAM})
        stream = summary["StreamDescriptionSummary"]["StreamARN"]
        made = self.ask(
            "CreateQueue", {"QueueName": QUEUE, "StreamConfigurationList": [{"StreamARN": stream}]}
        )
        self.arn = made["QueueDescription"]["QueueARN"]

    def ask(self, operation: str, body: Any) -> Any:
        """Call an operation."""
        return json.loads(self.connection.call(self._request(operation, body)) or b"{}")

    def _request(self, operation: str, body: Any) -> bytes:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return _request("kinesis", f"Kinesis_20131202.{operation}", "1.1", data)

    def fill(self, number: int) -> bytes:
        """Return a request that puts `per_fill` records."""
        records = [{"Data": _data(), "PartitionKey": f"{number}-{n}"} for n in range(self.per_fill)]
        return self._request("PutRecords", {"StreamName": STREAM, "Records": records})

    def put(self) -> bytes:
        """Return a request that puts one record."""
        body = {"StreamName": STREAM, "Data": _data(), "PartitionKey": "k"}
        return self._request("PutRecord", body)

    def receive(self, wait_s: int) -> bytes:
        """Return a request for ten records."""
        return self._request(
            "ReceiveQueueRecords", {"QueueARN": self.arn, "WaitTimeSeconds": wait_s}
        )

    def acknowledge(self, handles: Sequence[bytes]) -> bytes:
        """Return a request that acknowledges records."""
        entries = b'"},{"ReceiptHandle":"'.join(handles)
        body = b'{"QueueARN":"%b","Entries":[{"ReceiptHandle":"%b"}]}' % (
            self.arn.encode(),
            entries,
        )
        return self._request("AcknowledgeQueueRecords", body)


@dataclass
class SqsQueue:
    """A queue of SQS: the same requests."""

    connection: Connection
    url: str = ""
    per_fill: int = 10

    def make(self) -> None:
        """Create the queue."""
        answer = self.connection.call(self._request("CreateQueue", {"QueueName": QUEUE}))
        self.url = json.loads(answer)["QueueUrl"]

    def _request(self, operation: str, body: Any) -> bytes:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return _request("sqs", f"AmazonSQS.{operation}", "1.0", data)

    def fill(self, number: int) -> bytes:
        """Return a request that sends `per_fill` messages."""
        entries = [{"Id": f"{number}-{n}", "MessageBody": _data()} for n in range(self.per_fill)]
        return self._request("SendMessageBatch", {"QueueUrl": self.url, "Entries": entries})

    def put(self) -> bytes:
        """Return a request that sends one message."""
        return self._request("SendMessage", {"QueueUrl": self.url, "MessageBody": _data()})

    def receive(self, wait_s: int) -> bytes:
        """Return a request for ten messages."""
        body = {"QueueUrl": self.url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": wait_s}
        return self._request("ReceiveMessage", body)

    def acknowledge(self, handles: Sequence[bytes]) -> bytes:
        """Return a request that deletes messages."""
        entries = b",".join(
            b'{"Id":"%d","ReceiptHandle":"%b"}' % (number, handle)
            for number, handle in enumerate(handles)
        )
        body = b'{"QueueUrl":"%b","Entries":[%b]}' % (self.url.encode(), entries)
        return self._request("DeleteMessageBatch", body)


AnyQueue = KinesisQueue | SqsQueue


def _data() -> str:
    return base64.b64encode(os.urandom(DATA_BYTES * 3 // 4)).decode()


def _request(service: str, target: str, version: str, data: bytes) -> bytes:
    head = (
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"X-Amz-Target: {target}\r\nContent-Type: application/x-amz-json-{version}\r\n"
        "X-Amz-Date: 20260101T000000Z\r\n"
        f"Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request,"
        f" SignedHeaders=host, Signature=0\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def drain(queue: AnyQueue, port: int, records: int, seconds: float) -> Figures:
    """Let each client receive ten records and acknowledge them, again and again; return the rate."""
    for number in range(records // queue.per_fill):
        queue.connection.call(queue.fill(number))
    receive, received = queue.receive(1), 0
    by_fd = {one.socket.fileno(): one for one in (Connection(port) for _ in range(CLIENTS))}
    acknowledges: dict[int, int] = {}
    poll = select.epoll()
    for fd, connection in by_fd.items():
        poll.register(fd, select.EPOLLIN)
        connection.send(receive)
    began = time.perf_counter()
    is_empty = False
    # What a slow server has not answered by then does not count.
    while by_fd and time.perf_counter() < began + 3 * seconds:
        ready = poll.poll(TIMEOUT_S)
        if not ready:
            raise RuntimeError(f"no answer within {TIMEOUT_S} s")
        for fd, _ in ready:
            connection = by_fd[fd]
            before = connection.socket
            where = connection.receive()
            if where is None:
                continue
            if connection.socket is not before:
                # It was closed after the answer and reopened, perhaps with the same file descriptor.
                del by_fd[fd]
                handled = acknowledges.pop(fd, 0)
                fd = connection.socket.fileno()
                by_fd[fd] = connection
                poll.register(fd, select.EPOLLIN)
                if handled:
                    acknowledges[fd] = handled
            handled = acknowledges.pop(fd, 0)
            received += handled
            if handled or where[1] - where[0] == 0:
                is_over = is_empty or time.perf_counter() - began > seconds
                if is_over:
                    poll.unregister(fd)
                    by_fd.pop(fd).close()
                else:
                    connection.send(receive)
                continue
            handles = _HANDLE.findall(connection.buffer, *where)
            if not handles:
                is_empty = True
                poll.unregister(fd)
                by_fd.pop(fd).close()
                continue
            acknowledges[fd] = len(handles)
            connection.send(queue.acknowledge(handles))
    took_s = time.perf_counter() - began
    for connection in by_fd.values():
        connection.close()
    return {"records/s": received / took_s, "emptied": float(is_empty)}


def warm_up(queue: AnyQueue, port: int) -> None:
    """Create the queue, and use it until the server has started wholly."""
    queue.make()
    until = time.perf_counter() + WARM_UP_S
    while time.perf_counter() < until:
        wake(queue, port, 2)


def wake(queue: AnyQueue, port: int, rounds: int) -> Figures:
    """Put one record while a receive waits, again and again; return the time from the put to the record."""
    took_ms: list[float] = []
    receive, put = queue.receive(20), queue.put()
    waiting = Connection(port)
    for _ in range(rounds):
        put_at: list[float] = []
        waiting.send(receive)
        time.sleep(0.005)  # the receive waits before the record comes

        def put_one(at: list[float] = put_at) -> None:
            at.append(time.perf_counter())
            queue.connection.call(put)

        thread = threading.Thread(target=put_one)
        thread.start()
        while (where := waiting.receive()) is None:
            pass
        arrived = time.perf_counter()
        thread.join()
        took_ms.append((arrived - put_at[0]) * 1000)
        handles = _HANDLE.findall(waiting.buffer, *where)
        waiting.call(queue.acknowledge(handles))
    waiting.close()
    cuts = statistics.quantiles(took_ms, n=100)
    return {"p50 ms": cuts[49], "p99 ms": cuts[98]}


def backlog(queue: AnyQueue, server: Running, records: int) -> Figures:
    """Put records that nobody receives, receive ten; return how much more memory the server has."""
    before = server.rss_mb()
    bodies = [queue.fill(number) for number in range(20)]
    for number in range(records // queue.per_fill):
        queue.connection.call(bodies[number % len(bodies)])
    queue.connection.call(queue.receive(1))
    return {"MB": server.rss_mb() - before, "records": float(report.RESIDENT_RECORDS)}


def run_all(
    target: str, seconds: float, records: int, backlog_records: int, say: Callable[[str], None]
) -> dict[str, Figures]:
    """Run every workload against a target. Raises CannotStart."""
    first_cpu, _ = processors()
    figures: dict[str, Figures] = {}

    def connect(server: Running) -> AnyQueue:
        connection = Connection(server.port)
        return KinesisQueue(connection) if target == report.US else SqsQueue(connection)

    with running(target, first_cpu) as server:
        queue = connect(server)
        say(f"{target}: {WOKEN}")
        warm_up(queue, server.port)
        # A peer's long poll may look for messages once a second only.
        figures[WOKEN] = wake(queue, server.port, 200 if target == report.US else 20)
        say(f"{target}: {DRAINED}")
        figures[DRAINED] = drain(queue, server.port, records, seconds)
        queue.connection.close()
    # Another server: what the drain has left behind is not the backlog's.
    with running(target, first_cpu) as server:
        queue = connect(server)
        say(f"{target}: {BACKLOG}")
        warm_up(queue, server.port)
        figures[BACKLOG] = backlog(queue, server, backlog_records)
        queue.connection.close()
    return figures


def _all_or_errors(target: str, *arguments: Any) -> dict[str, Figures]:
    try:
        return run_all(target, *arguments)
    except (CannotStart, RuntimeError, OSError, KeyError, ValueError) as error:
        return {name: {"error": str(error)} for name in (WOKEN, DRAINED, BACKLOG)}


@click.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=5.0, show_default=True, type=click.FloatRange(0.1))
@click.option("--quick", is_flag=True, help="One short round, with a small backlog.")
@click.option("--alone", is_flag=True, help="Only headrace.")
def main(rounds: int, seconds: float, *, quick: bool, alone: bool) -> None:
    """Measure Kinesis queues, and the SQS queues of the peers."""
    rounds, seconds = (1, min(seconds, 2.0)) if quick else (rounds, seconds)
    targets = (report.US,) if alone else (report.US, *PEERS)
    results: dict[str, dict[str, list[Figures]]] = {n: {} for n in (WOKEN, DRAINED, BACKLOG)}
    with Progress(transient=True) as progress:
        task = progress.add_task("", total=None)

        def say(text: str) -> None:
            progress.update(task, description=text)

        for _ in range(rounds):
            for target in targets:
                is_ours = target == report.US
                # moto's receive becomes slower with each message that waits.
                records = int(60_000 * seconds) if is_ours else PEERS_MESSAGES
                waiting = (100_000 if quick else 1_000_000) if is_ours else PEERS_MESSAGES
                for name, figures in _all_or_errors(target, seconds, records, waiting, say).items():
                    results[name].setdefault(target, []).append(figures)
    medians = {
        name: {target: report.median_of(figures) for target, figures in by_target.items()}
        for name, by_target in results.items()
    }
    lines = [
        Line(DRAINED, "records/s", report.Goal(">= 20,000", lambda v: v[report.US] >= 20_000)),
        Line(WOKEN, "p50 ms", report.at_most(2, "ms")),
        Line(WOKEN, "p99 ms", None),
        Line(BACKLOG, "MB", report.at_most(50, "MB")),
    ]
    console = Console(width=None if sys.stdout.isatty() else 160)
    title = f"queues, records of {DATA_BYTES} B, batches of 10, medians of {rounds} x {seconds:g} s"
    console.print(report.table(lines, list(targets), medians, title))
    console.print(
        f"The peers' backlog is {PEERS_MESSAGES:,} messages; headrace's 1,000,000 records (100,000 with --quick)."
    )
    for sentence in report.errors(medians):
        console.print(sentence, markup=False, highlight=False)


if __name__ == "__main__":
    main()
