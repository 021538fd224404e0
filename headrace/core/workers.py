"""Background work: a worker does one unit at a time; the supervisor owns its thread.

Threads and not asyncio because what workers call blocks (files, SQLite, subprocesses, moto). See DECISIONS.md.
"""

from __future__ import annotations

import logging
import math
import threading
from typing import Protocol

from headrace.core.clock import Clock

log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 30.0


class WorkerDone(Exception):
    """Raised by `Worker.step` when there will never be more work; its thread ends."""


class Worker(Protocol):
    """One loop of background work. `step` is called by one thread at a time."""

    name: str

    def step(self) -> float:
        """Do one unit of work and return the seconds until the next (`math.inf`: until woken).

        Raising means back off, which no wake cuts short, and try again; raising `WorkerDone` ends the worker.
        """
        ...


class WorkerHandle:
    """A running worker. Thread-safe."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=worker.name, daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """The worker's name."""
        return self._worker.name

    @property
    def alive(self) -> bool:
        """Whether its thread is still running."""
        return self._thread.is_alive()

    def wake(self) -> None:
        """Make the next step happen now; a wake during a step is not lost."""
        self._wake.set()

    def stop(self) -> None:
        """Ask the worker to end after the step it is in. Does not wait."""
        self._stopping = True
        self._stop.set()
        self._wake.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread to end; return whether it did."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        backoff_s, last_failure = FIRST_BACKOFF_S, ""
        while not self._stopping:
            # Cleared before the step, so that a wake that arrives while it runs leads to another.
            self._wake.clear()
            try:
                delay_s = self._worker.step()
                backoff_s, last_failure = FIRST_BACKOFF_S, ""
            except WorkerDone:
                return
            except Exception as error:
                # The traceback once, and not again for the same failure.
                failure = f"{type(error).__name__}: {error}"
                log.error(  # noqa: TRY400 - with a traceback, or without
                    "worker %s failed; next try in %.1f s: %s",
                    self.name,
                    backoff_s,
                    failure,
                    exc_info=None if failure == last_failure else error,
                )
                last_failure = failure
                # Not to be woken from: what wakes it would fail as well, again and again.
                self._clock.wait(self._stop, backoff_s)
                backoff_s = min(backoff_s * 2, LONGEST_BACKOFF_S)
                continue
            if self._stopping:
                return
            if delay_s > 0:
                self._clock.wait(self._wake, None if delay_s == math.inf else delay_s)


class Supervisor:
    """Starts and stops workers. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._handles: list[WorkerHandle] = []

    def start(self, worker: Worker) -> WorkerHandle:
        """Run `worker` on a thread of its own until it is done or stopped."""
        handle = WorkerHandle(worker, self._clock)
        with self._lock:
            self._handles = [h for h in self._handles if h.alive]
            self._handles.append(handle)
        return handle

    def stop_all(self, timeout_s: float = 5.0) -> None:
        """Stop every worker and wait up to `timeout_s` in all for their current steps."""
        with self._lock:
            handles, self._handles = self._handles, []
        for handle in handles:
            handle.stop()
        deadline_s = self._clock.monotonic_s() + timeout_s
        for handle in handles:
            if not handle.join(max(0.0, deadline_s - self._clock.monotonic_s())):
                log.warning("worker %s did not stop in time", handle.name)
