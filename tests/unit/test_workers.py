"""The supervisor: wake, back off, end."""

from __future__ import annotations

import math
import threading
from typing import ClassVar

import pytest

from headrace.core.clock import SystemClock
from headrace.core.workers import Supervisor, WorkerDone, WorkerHandle
from tests.support.clock import FakeClock
from tests.support.server import wait_until


class Recorder:
    """A worker that does what its script says and notes each step."""

    name = "recorder"

    def __init__(self, *script: float | Exception) -> None:
        self.script = list(script)
        self.steps = 0
        self.stepped = threading.Event()

    def step(self) -> float:
        self.steps += 1
        self.stepped.set()
        action = self.script.pop(0) if self.script else math.inf
        if isinstance(action, Exception):
            raise action
        return action


def test_a_woken_worker_steps_again_without_waiting():
    supervisor, worker = Supervisor(SystemClock()), Recorder(math.inf, math.inf)
    handle = supervisor.start(worker)
    wait_until(lambda: worker.steps == 1)
    handle.wake()
    wait_until(lambda: worker.steps == 2)
    supervisor.stop_all()
    assert not handle.alive


def test_a_failing_worker_backs_off_longer_each_time_and_goes_on():
    clock = FakeClock()
    began = clock.monotonic_s()
    worker = Recorder(ValueError("one"), ValueError("two"), ValueError("three"), WorkerDone())
    handle = Supervisor(clock).start(worker)
    assert handle.join(10)
    assert worker.steps == 4
    # 0.1 + 0.2 + 0.4 seconds, by the worker's clock.
    assert round(clock.monotonic_s() - began, 3) == 0.7


def test_a_done_worker_ends_its_thread():
    handle = Supervisor(SystemClock()).start(Recorder(WorkerDone()))
    assert handle.join(10)


def test_a_wake_during_a_step_is_not_lost():
    entered, release = threading.Event(), threading.Event()

    class Slow:
        name = "slow"
        steps = 0

        def step(self) -> float:
            self.steps += 1
            entered.set()
            release.wait(10)
            return math.inf

    worker, supervisor = Slow(), Supervisor(SystemClock())
    handle = supervisor.start(worker)
    assert entered.wait(10)
    handle.wake()
    release.set()
    wait_until(lambda: worker.steps == 2)
    supervisor.stop_all()


def test_a_failing_worker_is_not_woken_from_its_back_off(caplog: pytest.LogCaptureFixture):
    """A full disk, say: each append wakes the worker, and each of its steps would fail again."""
    clock = FakeClock()
    began_s = clock.monotonic_s()
    handles: list[WorkerHandle] = []

    class Failing:
        name = "failing"
        steps_at_s: ClassVar[list[float]] = []

        def step(self) -> float:
            self.steps_at_s.append(round(clock.monotonic_s() - began_s, 1))
            if handles:
                handles[0].wake()
            if len(self.steps_at_s) == 4:
                raise WorkerDone
            raise OSError("No space left")

    handles.append(Supervisor(clock).start(Failing()))
    assert handles[0].join(10)
    assert Failing.steps_at_s == [0.0, 0.1, 0.3, 0.7]
    failures = [record for record in caplog.records if "failing failed" in record.message]
    assert [bool(record.exc_info) for record in failures] == [True, False, False]


def test_a_failing_worker_that_is_stopped_does_not_wait_for_its_next_try():
    worker = Recorder(*(ValueError("again") for _ in range(20)))
    supervisor = Supervisor(SystemClock())
    handle = supervisor.start(worker)
    wait_until(lambda: worker.steps >= 3)
    handle.stop()
    assert handle.join(0.3)
