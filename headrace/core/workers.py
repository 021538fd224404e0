"""Runs background workers on a few shared threads: a worker does one unit of work at a time.

Threads and not asyncio because workers make blocking calls (files, SQLite, subprocesses, moto). A waiting worker uses
no thread: a few wait for all workers, so a thousand idle event source mappings cost the same as ten.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from enum import Enum
from typing import Generic, Protocol, TypeVar

from headrace.core.clock import Clock

log = logging.getLogger(__name__)

# How many steps may run at the same time. A step may be a function's invocation of fifteen minutes, and AWS lets an
# account run a thousand of them; the rest is for all other workers.
MOST_THREADS = 1100
# This many threads always wait for work; surplus threads end when they were not needed for a while.
KEPT_THREADS = 8
_TRIM_EVERY_S = 10.0
# How long to wait after the machine refused another thread.
_THREAD_RETRY_S = 1.0
# How long a due worker waits for a busy thread before a new one is started: many workers poll now and then, and finish
# quickly. A worker that was woken does not wait.
_PATIENCE_S = 0.002
FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 30.0
# How many outdated entries the heap may hold beyond the valid ones before it is swept.
_STALE_AT_MOST = 64


class WorkerDone(Exception):
    """Raised by `Worker.step` when there will be no more work; the worker ends."""


class Worker(Protocol):
    """One loop of background work. `step` is called by one thread at a time, not always by the same one."""

    name: str

    def step(self) -> float:
        """Do one unit of work and return the seconds until the next (`math.inf`: until woken).

        A step that raises is tried again after a backoff; raising `WorkerDone` ends the worker.
        """
        ...


class Stage(Enum):
    """The state of a worker."""

    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    ENDED = "ended"


class ScheduleEntry:
    """One worker's entry in the schedule. Only the schedule and the supervisor change its fields."""

    __slots__ = ("backoff_s", "due_s", "is_stopping", "is_woken", "ready_s", "stage")

    def __init__(self) -> None:
        self.stage = Stage.READY
        # A wake came during the step: another step follows.
        self.is_woken = False
        self.is_stopping = False
        self.due_s = math.inf
        self.ready_s = -math.inf  # when it became due; minus infinity when it was woken
        self.backoff_s = FIRST_BACKOFF_S


T = TypeVar("T", bound=ScheduleEntry)


class Schedule(Generic[T]):
    """Which workers are ready, waiting (for a time or a wake), running or ended; ready workers are served in order.

    Pure bookkeeping, so that tests can step it: no thread, no lock, no clock (seconds are monotonic). Not thread-safe:
    `Supervisor` holds its lock around every call.
    """

    def __init__(self) -> None:
        self._ready: deque[T] = deque()
        self._due: list[tuple[float, int, T]] = []
        self._timed = 0
        self._count = 0

    def add(self, turn: T) -> None:
        """Add a new worker; its first step is due now."""
        self._ready.append(turn)

    def next(self) -> T | None:
        """Return the first ready worker and mark it running; None when none is ready."""
        while self._ready:
            turn = self._ready.popleft()
            # A worker that was stopped while it was ready has ended.
            if turn.stage is Stage.READY:
                turn.stage = Stage.RUNNING
                # Cleared before the step, so that a wake during the step causes another step.
                turn.is_woken = False
                return turn
        return None

    def give_back(self, turn: T) -> None:
        """Put a worker that `next` returned back at the front: there was no thread for its step."""
        turn.stage = Stage.ENDED if turn.is_stopping else Stage.READY
        self._ready.appendleft(turn)

    def wake(self, turn: T) -> bool:
        """Make a worker's next step due now; return whether this made the worker ready.

        A worker whose last step failed still waits for its next try.
        """
        if turn.stage is Stage.WAITING:
            if turn.backoff_s > FIRST_BACKOFF_S:
                return False
            self._make_ready(turn, -math.inf)
            return True
        turn.is_woken = True
        return False

    def stop(self, turn: T) -> None:
        """End a worker: now, or after the step that it is in."""
        turn.is_stopping = True
        if turn.stage is not Stage.RUNNING:
            self._leave_heap(turn)
            turn.stage = Stage.ENDED

    def finish(self, turn: T, delay_s: float, now_s: float) -> None:
        """Record that a worker's step has ended, and that the next one is due in `delay_s`."""
        turn.backoff_s = FIRST_BACKOFF_S
        self._put_back(turn, delay_s, now_s)

    def fail(self, turn: T, now_s: float) -> None:
        """Record that a worker's step has raised; the delay before the next try doubles each time.

        A wake does not shorten the delay, or frequent wakes would make it fail again and again.
        """
        turn.is_woken = False
        delay_s, turn.backoff_s = turn.backoff_s, min(turn.backoff_s * 2, LONGEST_BACKOFF_S)
        self._put_back(turn, delay_s, now_s)

    def release_due(self, now_s: float) -> None:
        """Make every worker ready that is due."""
        while self._due and self._due[0][0] <= now_s:
            due_s, _, turn = heapq.heappop(self._due)
            if turn.stage is Stage.WAITING and turn.due_s == due_s:
                self._make_ready(turn, now_s)

    @property
    def next_due_s(self) -> float:
        """When the next worker is due; infinite when none waits for a time."""
        while self._due and not _holds(self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else math.inf

    @property
    def ready_s(self) -> float:
        """Since when the first ready worker has been ready; infinite when none is ready."""
        while self._ready:
            if self._ready[0].stage is Stage.READY:
                return self._ready[0].ready_s
            self._ready.popleft()
        return math.inf

    def _put_back(self, turn: T, delay_s: float, now_s: float) -> None:
        if turn.is_stopping:
            turn.stage = Stage.ENDED
        elif turn.is_woken or delay_s <= 0:
            turn.stage = Stage.READY
            turn.ready_s = -math.inf if turn.is_woken else now_s
            self._ready.append(turn)
        else:
            turn.stage, turn.due_s = Stage.WAITING, now_s + delay_s
            if delay_s != math.inf:
                self._timed += 1
                self._count += 1
                heapq.heappush(self._due, (turn.due_s, self._count, turn))

    def _make_ready(self, turn: T, ready_s: float) -> None:
        self._leave_heap(turn)
        turn.stage, turn.ready_s = Stage.READY, ready_s
        self._ready.append(turn)

    def _leave_heap(self, turn: T) -> None:
        """Invalidate a waiting worker's entry in the heap; the heap is swept when most entries are invalid."""
        if turn.stage is not Stage.WAITING or turn.due_s == math.inf:
            return
        turn.due_s = math.inf
        self._timed -= 1
        if len(self._due) > 2 * self._timed + _STALE_AT_MOST:
            self._due = [entry for entry in self._due if _holds(entry)]
            heapq.heapify(self._due)


def _holds(entry: tuple[float, int, ScheduleEntry]) -> bool:
    due_s, _, turn = entry
    return turn.stage is Stage.WAITING and turn.due_s == due_s


class WorkerHandle(ScheduleEntry):
    """A worker that a supervisor runs. Thread-safe."""

    __slots__ = ("_supervisor", "has_ended", "last_failure", "worker")

    def __init__(self, worker: Worker, supervisor: Supervisor) -> None:
        super().__init__()
        self.worker = worker
        self._supervisor = supervisor
        self.has_ended = threading.Event()
        self.last_failure = ""

    @property
    def name(self) -> str:
        """The worker's name."""
        return self.worker.name

    @property
    def alive(self) -> bool:
        """Whether a step runs or may follow."""
        return self.stage is not Stage.ENDED

    def wake(self) -> None:
        """Run the next step now, unless the last one failed; a wake during a step is not lost."""
        self._supervisor.wake(self)

    def stop(self) -> None:
        """End the worker after its current step. Does not wait."""
        self._supervisor.stop(self)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the worker to end; return whether it has."""
        return self.has_ended.wait(timeout_s)


class _Runner:
    """A thread that runs steps. `gate` opens when `handle` is set to the next worker, or to None to end the thread."""

    __slots__ = ("gate", "handle")

    def __init__(self, handle: WorkerHandle) -> None:
        self.handle: WorkerHandle | None = handle
        self.gate = threading.Lock()  # takes half the time of an Event
        self.gate.acquire()

    def give(self, handle: WorkerHandle | None) -> None:
        """Make the thread run a worker's step, or end. Call this only while the thread is parked."""
        self.handle = handle
        self.gate.release()


class Supervisor:
    """Runs workers on a few shared threads. Thread-safe.

    A due step runs on a parked thread. When none is parked, the keeper (the thread that watches the time) starts
    another, up to `most_threads`. Beyond that, steps wait in order. `threads` counts them, parked or not.
    """

    def __init__(
        self, clock: Clock, *, most_threads: int = MOST_THREADS, kept_threads: int = KEPT_THREADS
    ) -> None:
        self._clock = clock
        self._most_threads = most_threads
        self._kept_threads = kept_threads
        self._lock = threading.Lock()
        self._schedule: Schedule[WorkerHandle] = Schedule()
        self._handles: set[WorkerHandle] = set()
        # The thread that was parked last is used first, so that surplus threads stay unused and can end.
        self._parked: list[_Runner] = []
        self._least_parked = 0
        self.threads = 0
        self._keeper: threading.Thread | None = None
        self._keeper_call = threading.Event()
        self._keeper_due_s = math.inf
        # Until when not to start another thread, since the machine has refused one.
        self._refused_s = -math.inf
        self._trim_s = math.inf
        self._is_closed = False

    def start(self, worker: Worker) -> WorkerHandle:
        """Run `worker` from now on until it is done or stopped."""
        handle = WorkerHandle(worker, self)
        with self._lock:
            self._is_closed = False
            self._handles.add(handle)
            self._schedule.add(handle)
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, name="workers", daemon=True)
                self._keeper.start()
            self._hand_out()
            self._call_keeper()
        return handle

    def executor(self, threads: int, name: str) -> Executor:
        """Return an executor for calls beside the workers, with at most `threads` threads; the caller shuts it down."""
        return ThreadPoolExecutor(threads, thread_name_prefix=name)

    def wake(self, handle: WorkerHandle) -> None:
        """See `WorkerHandle.wake`."""
        with self._lock:
            if self._schedule.wake(handle):
                self._hand_out()
                self._call_keeper()

    def move_clock(self, move: Callable[[], None]) -> None:
        """Call `move`, by which a test moves the clock, and start the steps that are due then.

        A step that runs meanwhile may have seen the old time, and its delay counts from the new one: another follows.
        """
        with self._lock:
            move()
            for handle in self._handles:
                if handle.stage is Stage.RUNNING:
                    handle.is_woken = True
        self._keeper_call.set()

    def stop(self, handle: WorkerHandle) -> None:
        """See `WorkerHandle.stop`."""
        with self._lock:
            self._schedule.stop(handle)
            self._forget_ended(handle)

    def stop_each(self, handles: Sequence[WorkerHandle], timeout_s: float = 5.0) -> None:
        """Stop these workers and wait up to `timeout_s` in all for their current steps."""
        for handle in handles:
            handle.stop()
        deadline_s = self._clock.monotonic_s() + timeout_s
        for handle in handles:
            if not handle.join(max(0.0, deadline_s - self._clock.monotonic_s())):
                log.warning("worker %s did not stop in time", handle.name)

    def stop_all(self, timeout_s: float = 5.0) -> None:
        """Stop every worker and wait up to `timeout_s` in all for their current steps."""
        with self._lock:
            handles = list(self._handles)
        self.stop_each(handles, timeout_s)
        with self._lock:
            self._is_closed = True
            self._retire(len(self._parked))
            self._keeper_call.set()

    # --- with the lock held -------------------------------------------------------------------

    def _hand_out(self, most: int = MOST_THREADS) -> None:
        """Give ready workers to parked threads."""
        for _ in range(min(most, len(self._parked))):
            handle = self._schedule.next()
            if handle is None:
                return
            self._parked.pop().give(handle)
            self._least_parked = min(self._least_parked, len(self._parked))

    def _call_keeper(self) -> None:
        """Wake the keeper when ready workers found no thread, so that it starts threads now."""
        if self._schedule.ready_s < math.inf and self.threads < self._most_threads:
            self._keeper_call.set()

    def _forget_ended(self, handle: WorkerHandle) -> None:
        if handle.stage is Stage.ENDED:
            self._handles.discard(handle)
            handle.has_ended.set()

    def _retire(self, count: int) -> None:
        """End the threads that have been parked longest."""
        retired, self._parked = self._parked[:count], self._parked[count:]
        self.threads -= len(retired)
        self._least_parked = len(self._parked)
        for runner in retired:
            runner.give(None)

    # --- the threads that run steps -----------------------------------------------------------

    def _run(self, runner: _Runner) -> None:
        thread = threading.current_thread()
        while (handle := runner.handle) is not None:
            thread.name = handle.name
            delay_s = self._step(handle)
            with self._lock:
                self._take_back(handle, delay_s)
                runner.handle = self._schedule.next()
                if runner.handle is not None:
                    continue
                if self._is_closed:
                    self.threads -= 1
                    return
                thread.name = "worker"
                self._parked.append(runner)
                if len(self._parked) == self._kept_threads + 1:
                    self._keeper_call.set()
            runner.gate.acquire()

    @staticmethod
    def _step(handle: WorkerHandle) -> float | WorkerDone | None:
        """Run one step; return its delay, None when it has failed, WorkerDone when it was the last."""
        try:
            delay_s = float(handle.worker.step())
        except WorkerDone as done:
            return done
        except (Exception, SystemExit) as error:
            failure = f"{type(error).__name__}: {error}"
            log.error(  # noqa: TRY400 - with a traceback, or without
                "worker %s failed; next try in %.1f s: %s",
                handle.name,
                handle.backoff_s,
                failure,
                exc_info=None if failure == handle.last_failure else error,
            )
            handle.last_failure = failure
            return None
        handle.last_failure = ""
        return delay_s

    def _take_back(self, handle: WorkerHandle, delay_s: float | WorkerDone | None) -> None:
        now_s = self._clock.monotonic_s()
        if isinstance(delay_s, WorkerDone):
            handle.stage = Stage.ENDED
        elif delay_s is None:
            self._schedule.fail(handle, now_s)
        else:
            self._schedule.finish(handle, delay_s, now_s)
        self._forget_ended(handle)
        if handle.due_s < self._keeper_due_s:
            self._keeper_call.set()

    # --- the thread that watches the time -----------------------------------------------------

    def _keep(self) -> None:
        """Make workers ready when they are due, start missing threads, end surplus ones."""
        reached_s = -math.inf
        while True:
            with self._lock:
                self._keeper_call.clear()
                if self._is_closed:
                    self._keeper = None
                    return
                # The wait until `reached_s` is over, even when the clock has not moved.
                now_s = max(reached_s, self._clock.monotonic_s())
                self._schedule.release_due(now_s)
                # One thread runs all due steps; it gets help only when it falls behind.
                self._hand_out(1)
                missing, until_s = self._find_missing(now_s)
                self._keeper_due_s = until_s = min(until_s, self._schedule.next_due_s)
                until_s = min(until_s, self._trim(now_s))
            if missing is not None:
                # Outside the lock: a start takes long, and other threads wake workers meanwhile.
                self._start_thread(missing, now_s)
            elif until_s == math.inf:
                self._keeper_call.wait()
                reached_s = -math.inf
            elif until_s <= now_s or self._clock.wait(self._keeper_call, until_s - now_s):
                reached_s = -math.inf
            else:
                reached_s = until_s

    def _find_missing(self, now_s: float) -> tuple[WorkerHandle | None, float]:
        """Return a worker that needs a new thread now, and else None and when to check again."""
        while (patient_s := self._schedule.ready_s + _PATIENCE_S) <= now_s:
            if not self._parked:
                if self.threads >= self._most_threads:
                    return None, math.inf
                if now_s < self._refused_s:
                    return None, self._refused_s
                return self._schedule.next(), math.inf
            self._hand_out(1)
        return None, patient_s

    def _start_thread(self, handle: WorkerHandle, now_s: float) -> None:
        """Run a worker on a new thread; when the machine refuses one, the worker waits for an existing thread."""
        with self._lock:
            self.threads += 1
        try:
            runner = _Runner(handle)
            threading.Thread(target=self._run, args=(runner,), name="worker", daemon=True).start()
        except RuntimeError as error:
            log.warning("the machine refuses a thread beside %d: %s", self.threads - 1, error)
            with self._lock:
                self.threads -= 1
                self._refused_s = now_s + _THREAD_RETRY_S
                self._schedule.give_back(handle)
                self._forget_ended(handle)

    def _trim(self, now_s: float) -> float:
        """End the threads that nobody needed since the last trim; return when to trim next."""
        if len(self._parked) <= self._kept_threads:
            self._trim_s = math.inf
        elif self._trim_s == math.inf or now_s >= self._trim_s:
            if self._trim_s < math.inf:
                least = min(self._least_parked, len(self._parked))
                self._retire(max(0, least - self._kept_threads))
            self._trim_s, self._least_parked = now_s + _TRIM_EVERY_S, len(self._parked)
        return self._trim_s
