"""A thread pool that no single connection or service can fill.

A pool with one queue, first come first served, would let the requests of one client, or invocations of one slow
function, take every thread, and requests of others would wait behind them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

log = logging.getLogger(__name__)

_Key = TypeVar("_Key", bound=Hashable)


class Job:
    """A call that runs on a thread, or waits for one.

    Attributes:
        done: the Future of its result, on the event loop.
    """

    __slots__ = ("arguments", "call", "done", "owner", "running", "service")

    def __init__(
        self,
        owner: Hashable,
        service: str,
        call: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> None:
        self.owner = owner
        self.service = service
        self.call = call
        self.arguments = arguments
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.running: Future[Any] | None = None

    def cancel(self) -> None:
        """Cancel the call, unless a thread has begun it."""
        if self.running is None:
            self.done.cancel()
        else:
            self.running.cancel()


class NoThread(Exception):
    """The machine refuses the first thread, so the job is not run."""


class _Threads(ThreadPoolExecutor):
    """Threads that are made as needed; when the machine refuses another one, jobs wait for those that there are.

    Python's own executor then raises, and runs the job nevertheless: its client would be told that it failed.
    """

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()  # type: ignore[misc]
        except RuntimeError as error:
            if not self._threads:
                # Nobody else takes jobs from the queue, and it holds this one only.
                self._work_queue.get_nowait()  # type: ignore[attr-defined]
                raise NoThread(str(error)) from error
            log.warning("requests wait for a thread: %s", error)


class FairPool:
    """Runs jobs on threads that are made as needed. Used on the event loop's thread.

    Services take turns, and within a service its owners (connections) do. A service never has more than `per_service`
    threads, an owner never more than `per_owner`.
    """

    def __init__(self, threads: int, *, per_service: int, per_owner: int, name: str) -> None:
        self._executor = _Threads(threads, thread_name_prefix=name)
        self._most = threads
        self._per_service = per_service
        self._per_owner = per_owner
        self._running = 0
        self._of_service: Counter[str] = Counter()
        self._of_owner: Counter[Hashable] = Counter()
        # By service, then by owner; the next in turn is first.
        self._waiting: OrderedDict[str, OrderedDict[Hashable, deque[Job]]] = OrderedDict()

    def submit(
        self, owner: Hashable, service: str, call: Callable[..., Any], *arguments: Any
    ) -> Job:
        """Run a call in its turn. Raises NoThread, and RuntimeError after `stop`."""
        job = Job(owner, service, call, arguments)
        queues = self._waiting.get(service)
        if self._may_run(service, owner) and (queues is None or owner not in queues):
            self._start(job)
        else:
            if queues is None:
                queues = self._waiting[service] = OrderedDict()
            queues.setdefault(owner, deque()).append(job)
        return job

    def stop(self) -> None:
        """Start no more jobs, and cancel those that have not begun."""
        waiting, self._waiting = self._waiting, OrderedDict()
        for queues in waiting.values():
            for queue in queues.values():
                for job in queue:
                    job.done.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _may_run(self, service: str, owner: Hashable) -> bool:
        return (
            self._running < self._most
            and self._of_service[service] < self._per_service
            and self._of_owner[owner] < self._per_owner
        )

    def _start(self, job: Job) -> None:
        job.running = self._executor.submit(job.call, *job.arguments)
        self._running += 1
        self._of_service[job.service] += 1
        self._of_owner[job.owner] += 1
        loop = asyncio.get_running_loop()

        def tell(_: Future[Any]) -> None:
            # Once the loop is closed, nothing waits for the result.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._end, job)

        job.running.add_done_callback(tell)

    def _end(self, job: Job) -> None:
        self._running -= 1
        _count_down(self._of_service, job.service)
        _count_down(self._of_owner, job.owner)
        if not job.done.done():
            _copy(job)
        # The Future refers to its callback, which refers to the job: a reference cycle would keep a body of megabytes
        # until the garbage collector runs.
        job.running, job.arguments = None, ()
        if self._waiting:
            self._start_waiting()

    def _start_waiting(self) -> None:
        while (job := self._next()) is not None:
            if not job.done.cancelled():
                self._start(job)

    def _next(self) -> Job | None:
        """Remove and return the next job in turn; None when none may run now."""
        for service, queues in self._waiting.items():
            for owner, queue in queues.items():
                if not self._may_run(service, owner):
                    continue
                job = queue.popleft()
                queues.move_to_end(owner)
                self._waiting.move_to_end(service)
                if not queue:
                    del queues[owner]
                if not queues:
                    del self._waiting[service]
                return job
        return None


def _copy(job: Job) -> None:
    assert job.running is not None
    if job.running.cancelled():
        job.done.cancel()
    elif (error := job.running.exception()) is not None:
        job.done.set_exception(error)
    else:
        job.done.set_result(job.running.result())


def _count_down(counter: Counter[_Key], key: _Key) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
