"""The supervisor: wake, back off, end."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

from headrace.core.clock import SystemClock
from headrace.core.workers import Stage, Supervisor, WorkerDone, WorkerHandle
from tests.support.clock import FakeClock, HandClock
from tests.support.server import wait_until


class Recorder:
    """A worker that does what its script says and notes each step."""

    name = "recorder"

    def __init__(self, *script: float | BaseException) -> None:
        self.script = list(script)
        self.steps = 0
        self.stepped = threading.Event()

    def step(self) -> float:
        self.steps += 1
        self.stepped.set()
        action = self.script.pop(0) if self.script else math.inf
        if isinstance(action, BaseException):
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


def test_a_done_worker_ends():
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


# --- threads ----------------------------------------------------------------------------------


class Blocked:
    """A worker whose step lasts until it is let go."""

    def __init__(self, name: str = "blocked") -> None:
        self.name = name
        self.entered, self.release = threading.Event(), threading.Event()
        self.steps = 0

    def step(self) -> float:
        self.steps += 1
        self.entered.set()
        assert self.release.wait(30)
        return math.inf


def wait_for_rest(*handles: WorkerHandle) -> None:
    """Wait until no step runs: a worker waits from the end of its step on, which follows what the step does."""
    wait_until(lambda: all(handle.stage is Stage.WAITING for handle in handles))


@pytest.fixture
def hand_clock() -> HandClock:
    return HandClock()


@pytest.fixture
def supervisor(hand_clock: HandClock) -> Iterator[Supervisor]:
    made = Supervisor(hand_clock, most_threads=40, kept_threads=3)
    yield made
    made.stop_all(0)


def test_workers_that_wait_cost_no_threads(supervisor: Supervisor, hand_clock: HandClock):
    workers = [Recorder(*[math.inf] * 9) for _ in range(500)]
    handles = [supervisor.start(worker) for worker in workers]
    wait_until(lambda: all(worker.steps == 1 for worker in workers))
    for turn in (2, 3):
        for handle in handles:
            handle.wake()
        wait_until(lambda n=turn: all(worker.steps == n for worker in workers))
    assert supervisor.threads <= 40
    # What a burst has needed goes when it was not needed for a while.
    wait_until(lambda: (hand_clock.advance(10), supervisor.threads <= 3)[1])
    assert all(handle.alive for handle in handles)


def test_workers_that_look_every_now_and_then_share_one_thread(
    supervisor: Supervisor, hand_clock: HandClock
):
    used: set[int] = set()

    class Looking(Recorder):
        def step(self) -> float:
            used.add(threading.get_ident())
            return super().step()

    workers = [Looking(*[0.25] * 9) for _ in range(200)]
    handles = [supervisor.start(worker) for worker in workers]
    wait_until(lambda: all(worker.steps == 1 for worker in workers))
    for turn in range(2, 6):
        wait_for_rest(*handles)
        used.clear()
        hand_clock.advance(0.25)
        wait_until(lambda n=turn: all(worker.steps == n for worker in workers))
        assert len(used) == 1


def test_steps_that_last_hold_nobody_up(supervisor: Supervisor):
    """As invocations of fifteen minutes do: there are threads for the others, up to the limit."""
    slow = [Blocked() for _ in range(39)]
    for worker in slow:
        supervisor.start(worker)
    for worker in slow:
        assert worker.entered.wait(10)
    quick = [Recorder(math.inf, math.inf) for _ in range(100)]
    handles = [supervisor.start(worker) for worker in quick]
    wait_until(lambda: all(worker.steps == 1 for worker in quick))
    for handle in handles:
        handle.wake()
    wait_until(lambda: all(worker.steps == 2 for worker in quick))
    for worker in slow:
        worker.release.set()


def test_beyond_the_limit_steps_wait_in_order():
    supervisor = Supervisor(SystemClock(), most_threads=2)
    order: list[str] = []

    class Noting(Blocked):
        def step(self) -> float:
            order.append(self.name)
            return super().step()

    workers = [Noting(str(number)) for number in range(5)]
    for worker in workers:
        supervisor.start(worker)
    assert workers[0].entered.wait(10)
    assert workers[1].entered.wait(10)
    assert not workers[2].entered.is_set()
    assert supervisor.threads == 2
    for number, worker in enumerate(workers):
        worker.release.set()
        # One thread is free at a time: two would begin two steps at once.
        assert workers[min(number + 2, 4)].entered.wait(10)
    # The first two began on two threads at once.
    assert sorted(order[:2]) == ["0", "1"]
    assert order[2:] == ["2", "3", "4"]
    supervisor.stop_all()


def test_a_worker_that_always_has_work_lets_the_others_have_their_turn():
    supervisor = Supervisor(SystemClock(), most_threads=1)

    class Busy:
        name = "busy"
        steps = 0

        def step(self) -> float:
            self.steps += 1
            return 0.0

    busy, other = Busy(), Recorder(math.inf)
    supervisor.start(busy)
    supervisor.start(other)
    assert other.stepped.wait(10)
    before = busy.steps
    wait_until(lambda: busy.steps > before)
    supervisor.stop_all()


def test_a_workers_steps_never_overlap_and_no_wake_is_lost():
    supervisor = Supervisor(SystemClock(), kept_threads=4)

    class Counting:
        """Counts what was put before its step began, as a poller reads what was appended."""

        name = "counting"

        def __init__(self) -> None:
            self.put, self.seen = 0, 0
            self.inside = threading.Lock()

        def step(self) -> float:
            assert self.inside.acquire(blocking=False), "two steps at a time"
            self.seen = self.put
            self.inside.release()
            return math.inf

    workers = [Counting() for _ in range(5)]
    handles = [supervisor.start(worker) for worker in workers]
    lock = threading.Lock()

    def put(number: int) -> None:
        with lock:
            workers[number % 5].put += 1
        handles[number % 5].wake()

    with ThreadPoolExecutor(6) as putters:
        list(putters.map(put, range(5000)))
    wait_until(lambda: all(worker.seen == worker.put == 1000 for worker in workers))
    supervisor.stop_all()


def test_a_worker_that_waits_is_stopped_at_once(supervisor: Supervisor):
    worker = Recorder(3600.0)
    handle = supervisor.start(worker)
    wait_until(lambda: worker.steps == 1)
    wait_for_rest(handle)
    handle.stop()
    assert handle.join(0)
    handle.wake()
    assert (worker.steps, handle.alive) == (1, False)


def test_a_worker_that_is_in_a_step_ends_after_it(supervisor: Supervisor):
    worker = Blocked()
    handle = supervisor.start(worker)
    assert worker.entered.wait(10)
    handle.stop()
    handle.wake()
    assert not handle.join(0)
    worker.release.set()
    assert handle.join(10)
    assert worker.steps == 1


def test_delays_are_kept_by_the_clock(supervisor: Supervisor, hand_clock: HandClock):
    soon, late = Recorder(1.0, 1.0), Recorder(60.0)
    handles = supervisor.start(late), supervisor.start(soon)
    wait_until(lambda: soon.steps == late.steps == 1)
    wait_for_rest(*handles)
    hand_clock.advance(1.0)
    wait_until(lambda: soon.steps == 2)
    assert late.steps == 1
    wait_for_rest(*handles)
    hand_clock.advance(59.0)
    wait_until(lambda: (soon.steps, late.steps) == (3, 2))


def test_a_step_that_the_clock_moves_in_is_followed_by_another(
    supervisor: Supervisor, hand_clock: HandClock
):
    class Evaluation(Blocked):
        """It looks at the time as it begins, and again in a minute."""

        def step(self) -> float:
            self.seen_s = hand_clock.monotonic_s()
            super().step()
            return 60.0

    hand_clock.watch(supervisor)
    worker = Evaluation()
    supervisor.start(worker)
    assert worker.entered.wait(10)
    hand_clock.advance(3600)
    worker.release.set()
    wait_until(lambda: worker.seen_s == hand_clock.monotonic_s())
    wait_until(lambda: worker.steps == 2)


def test_what_leaves_a_step_backs_the_worker_off_and_not_its_thread(
    supervisor: Supervisor, hand_clock: HandClock
):
    worker = Recorder(SystemExit("no"), math.inf)
    supervisor.start(worker)
    wait_until(lambda: worker.steps == 1)
    assert supervisor.threads == 1
    wait_until(lambda: (hand_clock.advance(0.1), worker.steps == 2)[1])


def test_a_machine_that_gives_no_thread_is_asked_again(
    supervisor: Supervisor, hand_clock: HandClock, monkeypatch: pytest.MonkeyPatch
):
    refused = threading.Event()
    first = Blocked()
    supervisor.start(first)
    assert first.entered.wait(10)
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "worker":
            refused.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    waiting, stopped = Recorder(math.inf), Recorder(math.inf)
    supervisor.start(waiting)
    handle = supervisor.start(stopped)
    assert refused.wait(10)
    handle.stop()
    assert handle.join(10)
    monkeypatch.setattr(threading.Thread, "start", start)
    wait_until(lambda: (hand_clock.advance(1), waiting.steps == 1)[1])
    first.release.set()


def test_after_stop_all_no_thread_is_left_and_it_may_begin_again():
    supervisor = Supervisor(SystemClock())
    for _ in range(2):
        workers = [Recorder(math.inf) for _ in range(20)]
        handles = [supervisor.start(worker) for worker in workers]
        wait_until(lambda w=workers: all(worker.steps == 1 for worker in w))
        supervisor.stop_all()
        assert not any(handle.alive for handle in handles)
        wait_until(lambda: supervisor.threads == 0)


# --- failures ---------------------------------------------------------------------------------


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
