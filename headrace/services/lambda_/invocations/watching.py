"""Runs an invocation without a thread: the event loop waits for the function's process, beside its own sockets.

An invocation on a thread of its own costs the loop two handovers to that thread and back, each as much as the rest.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Future

from headrace.core.ports import InvokeResult
from headrace.services.lambda_.runtime.channel import RuntimeChannel, Wait
from headrace.services.lambda_.runtime.process import Steps, take_step


def watch(steps: Steps[InvokeResult], on_result: Callable[[InvokeResult], None]) -> Future[None]:
    """Take the first step, and let the running event loop take the others. Raises what the first step raises.

    Return a Future that is done once `on_result` has the result.
    """
    watched = _Watched(steps, on_result)
    watched.begin()
    return watched.done


class _Watched:
    """An invocation under way. One step is taken at a time: on the loop's thread or, if it blocks, on another one."""

    def __init__(
        self, steps: Steps[InvokeResult], on_result: Callable[[InvokeResult], None]
    ) -> None:
        self.done: Future[None] = Future()
        self._steps = steps
        self._on_result = on_result
        self._loop = asyncio.get_running_loop()
        self._channel: RuntimeChannel | None = None
        # What the loop looks at, also when another thread has closed the channel: the process is free before the end.
        self._descriptor = -1
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Take the first step."""
        try:
            wait = next(self._steps)
        except StopIteration as ended:
            self._finish(ended.value)
        else:
            self._wait_for(wait)

    def _wait_for(self, wait: Wait | None) -> None:
        """Let the loop look when the process says something, and after the wait's time. None: the end has come."""
        if wait is None or wait.blocks or wait.channel.is_busy:
            self._stop_waiting()
            if wait is not None:
                self._loop.run_in_executor(None, self._block, wait)
            return
        if self._channel is None:
            self._channel, self._descriptor = wait.channel, wait.channel.fileno()
            self._loop.add_reader(self._descriptor, self._look)
        self._timer = self._loop.call_later(wait.seconds, self._look)

    def _stop_waiting(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            self._loop.remove_reader(self._descriptor)

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._channel is not None:
            self._step(Wait(self._channel, 0.0), self._wait_for, briefly=True)

    def _block(self, wait: Wait) -> None:
        """Take a step on another thread, and come back to the loop's."""
        self._step(wait, functools.partial(self._loop.call_soon_threadsafe, self._wait_for))

    def _step(
        self, wait: Wait, then: Callable[[Wait | None], object], *, briefly: bool = False
    ) -> None:
        try:
            wait = take_step(self._steps, wait, briefly=briefly)
        except StopIteration as ended:
            then(None)
            self._finish(ended.value)
        except BaseException as error:  # noqa: BLE001 - who waits for the answer logs it
            then(None)
            self.done.set_exception(error)
        else:
            then(wait)

    def _finish(self, result: InvokeResult) -> None:
        self._on_result(result)
        self.done.set_result(None)
