"""Who watches a queue while it is empty: one poller does, whatever the others are doing. Stepped by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from headrace.core.ports import InvokeResult, QueueMessage
from headrace.services.lambda_.mappings.mapping import Mapping
from headrace.services.lambda_.mappings.sqs import IdleQueueWatch, QueuePoller
from headrace.services.lambda_.permits import EVERYTHING
from tests.support.clock import FakeClock

QUEUE = "arn:aws:sqs:us-east-1:000000000000:work"
FUNCTION = "arn:aws:lambda:us-east-1:000000000000:function:f"


class Bench:
    """A queue, a function, and the pollers between them."""

    def __init__(self, pollers: int) -> None:
        self.clock = FakeClock()
        self.waiting: list[str] = []
        self.looks = 0
        self.asked = 0
        self.invoked: list[int] = []
        self.missing = False
        self.woken: list[int] = []
        # What happens while the function runs.
        self.during: Any = lambda: None
        mapping = Mapping("u", "0" * 12, "us-east-1", FUNCTION, QUEUE, "", None, True, 0)
        mapping.change({"BatchSize": 1})
        self.queues = self.invoker = self
        self.metrics = self
        self.permits = EVERYTHING
        self.watch = IdleQueueWatch()
        ports: Any = self
        self.pollers = [QueuePoller(mapping, n, ports, self.watch) for n in range(pollers)]
        for number, poller in enumerate(self.pollers):
            poller.wake = lambda n=number: self.woken.append(n)

    def is_empty(self, queue_arn: str) -> bool:
        self.looks += 1
        if self.missing:
            raise LookupError(queue_arn)
        return not self.waiting

    def receive(self, queue_arn: str, *, most: int) -> list[QueueMessage]:
        self.asked += 1
        found, self.waiting = self.waiting[:most], self.waiting[most:]
        return [QueueMessage(body, body, body, "", {}, {}) for body in found]

    def delete(self, queue_arn: str, receipt_handles: Any) -> None:
        """Remove nothing: they are gone when they are received."""

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        self.invoked.append(1)
        self.during()
        return InvokeResult(b"null", None, "$LATEST", "r")

    def put(self, metrics: Any, *, account: str, region: str) -> None:
        """Take no metrics."""

    def role_of(self, function_arn: str) -> str:
        return "arn:aws:iam::000000000000:role/r"

    def take_woken(self) -> list[int]:
        woken, self.woken = self.woken, []
        return woken


def test_one_poller_watches_an_empty_queue_and_never_asks_it() -> None:
    bench = Bench(3)
    delays = [poller.step() for poller in bench.pollers]
    assert delays == [pytest.approx(0.1), math.inf, math.inf]
    assert bench.pollers[0].step() == pytest.approx(0.2)
    assert bench.pollers[0].step() == pytest.approx(0.2)
    assert bench.asked == 0


def test_the_watch_is_handed_on_before_the_function_is_invoked() -> None:
    bench = Bench(2)
    for poller in bench.pollers:
        poller.step()
    bench.waiting = ["a", "b"]
    inside: list[Any] = []

    def during() -> None:
        # The first is in an invocation of fifteen minutes: the second is woken, and finds the next message.
        if not inside:
            inside.append(bench.take_woken())
            inside.append(bench.pollers[1].step())

    bench.during = during
    assert bench.pollers[0].step() == 0.0
    assert inside == [[1], 0.0]
    assert len(bench.invoked) == 2
    # Who is idle first watches from now on.
    assert bench.pollers[0].step() < math.inf
    assert bench.pollers[1].step() == math.inf


def test_a_watcher_that_is_stopped_leaves_the_watch_to_another() -> None:
    bench = Bench(2)
    for poller in bench.pollers:
        poller.step()
    bench.pollers[0].stop()
    assert bench.take_woken() == [1]
    assert bench.pollers[1].step() < math.inf


def test_a_poller_that_is_stopped_while_it_looks_does_not_keep_the_watch() -> None:
    bench = Bench(2)
    first, second = bench.pollers
    look = bench.is_empty

    def stopped_meanwhile(queue_arn: str) -> bool:
        first.stop()
        return look(queue_arn)

    bench.is_empty = stopped_meanwhile  # type: ignore[method-assign] - for one look
    first.step()
    bench.is_empty = look  # type: ignore[method-assign]
    assert second.step() < math.inf


def test_a_queue_that_is_gone_is_watched_by_one_too() -> None:
    bench = Bench(2)
    bench.missing = True
    assert [poller.step() for poller in bench.pollers] == [pytest.approx(0.2), math.inf]
    bench.missing, bench.waiting = False, ["a"]
    bench.pollers[0].step()
    assert bench.take_woken() == [1]
