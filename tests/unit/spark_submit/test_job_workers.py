"""The workers of jobs: woken, and stopped in order."""

from __future__ import annotations

import math
import threading

from headrace.core.workers import Supervisor, WorkerDone
from headrace.spark_submit.job_workers import JobWorkers
from tests.support.clock import FakeClock
from tests.support.server import wait_until


class Waiting:
    """A worker that waits until it is woken, and notes what is asked of it."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.name = "waiting"
        self.busy = False
        self.calls: list[str] = []
        self.steps = 0
        self.done = False
        self._stubborn = stubborn

    def step(self) -> float:
        self.steps += 1
        if self.done:
            raise WorkerDone
        return math.inf

    def shut_down(self) -> None:
        self.calls.append("shut_down")
        self.busy = self._stubborn

    def abandon(self) -> None:
        self.calls.append("abandon")


class PatientClock(FakeClock):
    """Waits for wakes as the machine's clock does; its time moves only in timed waits."""

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        return event.wait() if timeout_s is None else super().wait(event, timeout_s)


def test_workers_are_asked_to_shut_down_and_then_abandoned() -> None:
    clock = PatientClock()
    workers = JobWorkers[Waiting](clock, Supervisor(clock))
    quick, stubborn = Waiting(), Waiting(stubborn=True)
    workers.start("a", quick)
    workers.start("b", stubborn)
    begun_s = clock.monotonic_s()
    workers.stop()
    assert quick.calls == stubborn.calls == ["shut_down", "abandon"]
    # The stubborn one's processes had their grace.
    assert clock.monotonic_s() - begun_s >= 3


def test_a_wake_makes_a_worker_look_and_a_worker_that_is_done_is_forgotten() -> None:
    clock = PatientClock()
    workers, worker = JobWorkers[Waiting](clock, Supervisor(clock)), Waiting()
    workers.start("a", worker)
    wait_until(lambda: worker.steps == 1)
    worker.done = True
    workers.wake("a")
    wait_until(lambda: worker.steps == 2)
    workers.wake("a")
    workers.wake("nobody")
    wait_until(lambda: not any(t.name == "waiting" and t.is_alive() for t in threading.enumerate()))
    workers.start("b", Waiting())
    workers.stop()
    assert worker.calls == []
