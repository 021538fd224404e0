"""SubscribeToShard through AWS's SDK for JavaScript, whose HTTP/2 says GOAWAY as soon as a subscription has begun."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.kinesis.live import LiveCloud
from tests.support.clock import FakeClock
from tests.support.server import ServerProcess, wait_until

FOLDER = Path(__file__).parent / "js"


def fill(kinesis: Any, name: str, records: int, consumers: int = 1) -> list[str]:
    """Make a stream of numbered records; return the ARNs of its consumers."""
    kinesis.create_stream(StreamName=name, ShardCount=1)
    for begin in range(0, records, 500):
        numbers = range(begin, min(records, begin + 500))
        batch = [{"Data": str(number).encode(), "PartitionKey": "k"} for number in numbers]
        assert kinesis.put_records(StreamName=name, Records=batch)["FailedRecordCount"] == 0
    summary = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    return [
        kinesis.register_stream_consumer(StreamARN=summary["StreamARN"], ConsumerName=f"c{n}")[
            "Consumer"
        ]["ConsumerARN"]
        for n in range(consumers)
    ]


def read(node: str, endpoint_url: str, arns: list[str], records: int, *ending: str) -> list[Any]:
    """Run the program; return what each consumer saw."""
    done = subprocess.run(
        [node, "subscribe.mjs", endpoint_url, ",".join(arns), str(records), *ending],
        cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    consumers = json.loads(done.stdout)["consumers"]
    assert len(consumers) == len(arns)
    return consumers


@pytest.mark.parametrize("records", [5, 500, 50_000])
def test_a_backlog_comes_whole_in_order_and_once(server: ServerProcess, node: str, records: int):
    arns = fill(server.client("kinesis"), f"backlog-{records}", records)
    (seen,) = read(node, server.endpoint_url, arns, records)
    assert (seen["records"], seen["firstWrong"], seen["subscriptions"]) == (records, None, 1)


def test_consumers_side_by_side(server: ServerProcess, node: str):
    arns = fill(server.client("kinesis"), "side-by-side", 5_000, consumers=3)
    for seen in read(node, server.endpoint_url, arns, 5_000):
        assert (seen["records"], seen["firstWrong"]) == (5_000, None)


@pytest.mark.parametrize("ending", ["abort", "destroy"])
def test_a_subscription_that_is_cut_off_can_be_gone_on_with(
    server: ServerProcess, node: str, ending: str
):
    """By its stream's reset, and by its session's end, while records are pushed."""
    arns = fill(server.client("kinesis"), f"cut-off-{ending}", 25_000)
    (seen,) = read(node, server.endpoint_url, arns, 25_000, ending)
    assert (seen["records"], seen["firstWrong"], seen["subscriptions"]) == (25_000, None, 2)


class StillClock(FakeClock):
    """A clock that workers wait on without moving it."""

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        return event.wait(timeout_s)


@pytest.fixture
def live(data_dir: Path) -> Iterator[tuple[LiveCloud, StillClock]]:
    clock = StillClock()
    with LiveCloud(data_dir, clock=clock) as running:
        yield running, clock


def test_a_subscription_ends_after_five_minutes(live: tuple[LiveCloud, StillClock], node: str):
    """Properly: the SDK sees the end of its events, no error, and subscribes again."""
    cloud, clock = live
    kinesis = cloud.client()
    arns = fill(kinesis, "long", 1_000)
    pushed: list[int] = []
    cloud.cloud.kinesis.subscriptions.observe = lambda event: pushed.append(event.records)
    program = subprocess.Popen(
        [node, "subscribe.mjs", f"http://127.0.0.1:{cloud.port}", arns[0], "1001"],
        cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: sum(pushed) == 1_000, what="the backlog")
        clock.advance(301)
        kinesis.put_record(StreamName="long", Data=b"1000", PartitionKey="k")
        out, error = program.communicate(timeout=30)
    finally:
        program.kill()
        program.wait()
    assert program.returncode == 0, error
    (seen,) = json.loads(out)["consumers"]
    assert (seen["records"], seen["firstWrong"], seen["subscriptions"]) == (1_001, None, 2)
