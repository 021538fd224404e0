"""The workers of one service's jobs: EMR's clusters, or EMR Serverless' job runs."""

from __future__ import annotations

import threading
from typing import Generic, Protocol, TypeVar

from headrace.core.clock import Clock
from headrace.core.workers import Supervisor, Worker, WorkerHandle
from headrace.spark_submit.job import POLL_S, STOP_GRACE_S


class JobWorker(Worker, Protocol):
    """A worker with job processes. `step` is not called after the first call of these methods."""

    def shut_down(self) -> None:
        """Ask the processes to end, because the cloud stops."""
        ...

    def abandon(self) -> None:
        """Kill the processes that outlived `shut_down`, and store how the jobs ended."""
        ...

    @property
    def busy(self) -> bool:
        """Return whether a process of a job still runs."""
        ...


W = TypeVar("W", bound=JobWorker)


class JobWorkers(Generic[W]):
    """The job workers of one service, by the id of their cluster or job run. Thread-safe."""

    def __init__(self, clock: Clock, supervisor: Supervisor) -> None:
        self._clock = clock
        self._supervisor = supervisor
        self._lock = threading.Lock()
        self._workers: dict[str, tuple[W, WorkerHandle]] = {}

    def start(self, key: str, worker: W) -> None:
        """Run a worker on a thread until it is done or stopped."""
        with self._lock:
            self._workers = {k: running for k, running in self._workers.items() if running[1].alive}
            self._workers[key] = worker, self._supervisor.start(worker)

    def wake(self, key: str) -> None:
        """Wake a worker after a change, if it is not done."""
        with self._lock:
            worker = self._workers.get(key)
        if worker is not None:
            worker[1].wake()

    def stop(self) -> None:
        """Stop the workers and end their processes: first by SIGTERM, after STOP_GRACE_S by SIGKILL."""
        with self._lock:
            workers, self._workers = list(self._workers.values()), {}
        for _, handle in workers:
            handle.stop()
        for worker, handle in workers:
            handle.join(STOP_GRACE_S)
            worker.shut_down()
        deadline_s = self._clock.monotonic_s() + STOP_GRACE_S
        never = threading.Event()
        while self._clock.monotonic_s() < deadline_s and any(w.busy for w, _ in workers):
            self._clock.wait(never, POLL_S)
        for worker, _ in workers:
            worker.abandon()
