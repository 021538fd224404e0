"""Runs background workers on the caller's thread, one step at a time, in an order that a seed decides.

Virtual time: it stands still while code runs, and jumps to the next event.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from headrace.core.workers import (
    FIRST_BACKOFF_S,
    LONGEST_BACKOFF_S,
    Stage,
    Supervisor,
    Worker,
    WorkerDone,
    WorkerHandle,
)

# This many steps without any passing time are an endless loop.
MOST_STEPS_AT_ONCE = 200_000
# Workers that only pass on what has accumulated: they would take most steps of a simulated hour.
SELDOM_S = {"logs": 60.0, "metrics": 60.0}
# Each step looks at every worker's stage, and Python 3.11 takes five times as long for an enum's member.
_READY, _WAITING = Stage.READY, Stage.WAITING


class Livelock(AssertionError):
    """Workers run without end while no time passes."""


class Deadlock(AssertionError):
    """A worker waits for an event that nobody will ever set."""


class _Handle(WorkerHandle):
    """A worker's handle. `join` cannot wait for a step, because the step runs on the same thread.

    Attributes:
        due_us: the time until which a waiting worker waits, in microseconds; infinite for ever.
    """

    __slots__ = ("due_us",)

    def __init__(self, worker: Worker, supervisor: Supervisor) -> None:
        super().__init__(worker, supervisor)
        self.due_us: float = math.inf

    def join(self, timeout_s: float | None = None) -> bool:
        """See `WorkerHandle.join`."""
        return self.stage is Stage.ENDED


class InlineExecutor(Executor):
    """Runs each call at once when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See Executor."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the future carries it
            future.set_exception(error)
        return future


class SeededWorkers(Supervisor):
    """A `Supervisor` without threads. `tell` gets a line for each step."""

    def __init__(
        self, clock: VirtualClock, chosen: random.Random, tell: Callable[[str, str], None]
    ) -> None:
        super().__init__(clock)
        self._time = clock
        self._chosen = chosen
        self._tell = tell
        self._all: list[_Handle] = []
        self.steps = 0
        self.is_dead = False
        clock.wait_for = self.work

    # --- Supervisor ---------------------------------------------------------------------------

    def start(self, worker: Worker) -> WorkerHandle:
        """See `Supervisor.start`."""
        handle = _Handle(worker, self)
        self._all.append(handle)
        return handle

    def executor(self, threads: int, name: str) -> Executor:
        """See `Supervisor.executor`."""
        return InlineExecutor()

    def wake(self, handle: WorkerHandle) -> None:
        """See `Supervisor.wake`."""
        if handle.stage is Stage.WAITING:
            if handle.backoff_s == FIRST_BACKOFF_S:
                handle.stage = Stage.READY
        else:
            handle.is_woken = True

    def move_clock(self, move: Callable[[], None]) -> None:
        """See `Supervisor.move_clock`; no step runs meanwhile."""
        move()

    def stop(self, handle: WorkerHandle) -> None:
        """See `Supervisor.stop`."""
        handle.is_stopping = True
        if handle.stage is not Stage.RUNNING:
            self._end(handle)

    def stop_all(self, timeout_s: float = 5.0) -> None:
        """See `Supervisor.stop_all`."""
        for handle in list(self._all):
            self.stop(handle)

    def _end(self, handle: WorkerHandle) -> None:
        handle.stage = Stage.ENDED
        self._all = [one for one in self._all if one is not handle]
        handle.has_ended.set()

    # --- working ------------------------------------------------------------------------------

    def work(self, event: threading.Event | None, until_us: int | None) -> None:
        """Run steps until an event is set or a time has come; without a time, until no worker is ready.

        Raises Livelock, and Deadlock when nobody is left to set the event.
        """
        at_us, steps = self._time.now_us, 0
        while event is None or not event.is_set():
            if self.step_one():
                if self._time.now_us > at_us:
                    at_us, steps = self._time.now_us, 0
                steps += 1
                if steps > MOST_STEPS_AT_ONCE:
                    raise Livelock(f"{steps} steps without any passing time")
                continue
            due_us = self.next_due_us()
            if until_us is not None and (due_us is None or due_us > until_us):
                self._time.now_us = max(self._time.now_us, until_us)
                self.release()
                return
            if event is None and until_us is None:
                return
            if due_us is None:
                raise Deadlock("a worker waits for an event, and nobody is left to set it")
            self._time.now_us = max(self._time.now_us, due_us)
            self.release()

    def next_due_us(self) -> int | None:
        """Return the time at which the next waiting worker becomes ready."""
        soonest = min([one.due_us for one in self._all if one.stage is _WAITING], default=math.inf)
        return None if soonest == math.inf else int(soonest)

    def release(self) -> None:
        """Make the workers ready whose time has come."""
        now_us = self._time.now_us
        for one in self._all:
            if one.due_us <= now_us and one.stage is _WAITING:
                one.stage = _READY

    @property
    def is_idle(self) -> bool:
        """Whether no worker is ready."""
        return all(one.stage is not _READY for one in self._all)

    def step_one(self) -> bool:
        """Run one step of a ready worker that the seed chooses; return whether there was one."""
        if self.is_dead:
            return False
        ready = [one for one in self._all if one.stage is _READY]
        if not ready:
            return False
        handle = ready[0] if len(ready) == 1 else self._chosen.choice(ready)
        handle.stage, handle.is_woken = Stage.RUNNING, False
        self.steps += 1
        try:
            delay_s = float(handle.worker.step())
        except WorkerDone:
            self._tell("step", f"{handle.name} is done")
            self._end(handle)
            return True
        except Exception as error:  # noqa: BLE001 - the supervisor on threads retries it too
            delay_s, handle.backoff_s = (
                handle.backoff_s,
                min(handle.backoff_s * 2, LONGEST_BACKOFF_S),
            )
            handle.is_woken = False
            handle.last_failure = f"{type(error).__name__}: {error}"
            self._tell("failed", f"{handle.name} {handle.last_failure}")
        else:
            handle.backoff_s = FIRST_BACKOFF_S
            delay_s = max(delay_s, SELDOM_S.get(handle.name, 0.0))
            self._tell("step", f"{handle.name} {delay_s:.6f}")
        self._put_back(handle, delay_s)
        return True

    def _put_back(self, handle: _Handle, delay_s: float) -> None:
        if handle.is_stopping:
            self._end(handle)
        elif handle.is_woken or delay_s <= 0:
            handle.stage = Stage.READY
        else:
            handle.stage, handle.due_us = Stage.WAITING, math.inf
            if delay_s != math.inf:
                # In whole microseconds, and at least one: a difference of floats may stay just above zero for ever.
                handle.due_us = self._time.now_us + max(1, math.ceil(delay_s * US))


START_MS = 1_700_000_000_000
US = 1_000_000


class VirtualClock:
    """A `Clock` in whole microseconds, so that the same moves give the same times on every machine.

    Attributes:
        now_us: microseconds since the simulation began.
        follow: is called after every move.
        wait_for: runs workers until an event is set or a time has come; the owner of the workers sets it.
    """

    def __init__(self) -> None:
        self._now_us = 0
        self.follow: Callable[[int], None] = lambda _: None
        self.wait_for: Callable[[threading.Event, int | None], None] = self._only_move

    @property
    def now_us(self) -> int:
        """Microseconds since the simulation began."""
        return self._now_us

    @now_us.setter
    def now_us(self, now_us: int) -> None:
        if now_us != self._now_us:
            self._now_us = now_us
            self.follow(now_us)

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return START_MS + self._now_us // 1000

    def monotonic_s(self) -> float:
        """See `Clock.monotonic_s`."""
        return self._now_us / US

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """See `Clock.wait`: other workers run meanwhile."""
        if not event.is_set():
            until_us = None if timeout_s is None else self.now_us + round(timeout_s * US)
            self.wait_for(event, until_us)
        return event.is_set()

    def sleep(self, seconds: float) -> None:
        """Let time pass while no worker runs."""
        self.now_us += max(0, round(seconds * US))

    def _only_move(self, _: threading.Event, until_us: int | None) -> None:
        if until_us is not None:
            self.now_us = max(self.now_us, until_us)
