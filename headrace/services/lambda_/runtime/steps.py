"""What a function's process does takes steps: a thread runs them to their end, or the event loop watches them.

An invocation on a thread of its own costs the loop two handovers to that thread and back, each as much as the rest.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import TypeVar

from headrace.core.ports import InvokeResult
from headrace.services.lambda_.runtime.channel import Message, RuntimeChannel, Wait

# It yields what it waits for, and is sent the messages that came.
Result = TypeVar("Result")
Steps = Generator[Wait, list[Message], Result]


def run_to_end(steps: Steps[Result]) -> Result:
    """Run all steps on this thread, and return their result. Steps that are given up have ended when this raises."""
    try:
        wait = next(steps)
        while True:
            wait = take_step(steps, wait)
    except StopIteration as ended:
        return ended.value
    finally:
        steps.close()


def take_step(steps: Steps[Result], wait: Wait, *, briefly: bool = False) -> Wait:
    """Wait as the steps want, and take the next one. Raises StopIteration at the end, and what the step raises."""
    try:
        messages = [] if wait.blocks else wait.channel.poll(wait.seconds, briefly=briefly)
    except Exception as error:  # noqa: BLE001 - the steps end with it, and give back what they hold
        return steps.throw(error)
    return steps.send(messages)


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
