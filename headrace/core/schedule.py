"""The schedule of background workers: which are ready, waiting (for a time or a wake), running or ended.

Pure bookkeeping, so that tests can step it: no thread, no lock, no clock. Not thread-safe; `Supervisor` holds its
lock around every call. Seconds are those of a monotonic clock.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from enum import Enum
from typing import Generic, TypeVar

FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 30.0
# How many outdated entries the heap may hold beyond the valid ones before it is swept.
_STALE_AT_MOST = 64


class Stage(Enum):
    """The state of a worker."""

    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    ENDED = "ended"


class ScheduleEntry:
    """One worker's entry in the schedule. Only the schedule changes its fields."""

    __slots__ = ("backoff_s", "due_s", "is_stopping", "is_woken", "ready_s", "stage")

    def __init__(self) -> None:
        self.stage = Stage.READY
        # A wake came during the step: another step follows.
        self.is_woken = False
        self.is_stopping = False
        self.due_s = math.inf
        # When it became due; minus infinity when it was woken.
        self.ready_s = -math.inf
        self.backoff_s = FIRST_BACKOFF_S


T = TypeVar("T", bound=ScheduleEntry)


class Schedule(Generic[T]):
    """All workers of a supervisor. A worker runs one step at a time; ready workers are served in order."""

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

    def end(self, turn: T) -> None:
        """Remove a running worker whose step has returned for the last time."""
        turn.stage = Stage.ENDED

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
