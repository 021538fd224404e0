"""The supervisor: wake, back off, end."""

from __future__ import annotations

import math
import threading

from headrace.core.clock import SystemClock
from headrace.core.workers import Supervisor, WorkerDone
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
