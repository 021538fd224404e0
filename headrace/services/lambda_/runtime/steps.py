"""What a function's process does takes steps: a thread runs them to their end, or the event loop watches them.

An invocation on a thread of its own costs the loop two handovers to that thread and back, each as much as the rest.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from headrace.core.ports import InvokeResult
from headrace.services.lambda_.runtime.channel import RuntimeChannel, Wait
from headrace.services.lambda_.runtime.messages import Message

# It yields what it waits for, and is sent the messages that came.
Result = TypeVar("Result")
Steps = Generator[Wait, list[Message], Result]


def run_to_end(steps: Steps[Result]) -> Result:
    """Run all steps on this thread, and return their result. Steps that are given up have ended when this raises."""
    wait: Wait | None = None
    try:
        while True:
            wait = take_step(steps, wait)
    except StopIteration as ended:
        return ended.value
    finally:
        steps.close()


def take_step(steps: Steps[Result], wait: Wait | None, *, briefly: bool = False) -> Wait:
    """Wait as the steps want, and take the next one. Raises StopIteration at the end, and what the step raises.

    `wait` is what the step before returned; None before the first step.

    Take none, and return the wait, while there is nothing but what a brief look leaves: what the process said last may
    be there, and its end.
    """
    if wait is None:
        return next(steps)
    try:
        messages = [] if wait.blocks else wait.channel.poll(wait.seconds, briefly=briefly)
        if briefly and not messages and wait.channel.is_busy:
            return wait
    except Exception as error:  # noqa: BLE001 - the steps end with it, and give back what they hold
        return steps.throw(error)
    return steps.send(messages)


class Watch:
    """What waits for a watched invocation has of it: as much of a Future as that needs, without its lock.

    Everything happens on the event loop's thread.
    """

    __slots__ = ("_callbacks", "_error", "_is_done")

    def __init__(self) -> None:
        self._is_done = False
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], object]] = []

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call `fn` with this object once the invocation has ended."""
        if self._is_done:
            fn(self)
        else:
            self._callbacks.append(fn)

    def exception(self) -> BaseException | None:
        """Return why there is no result; None when there is one."""
        return self._error

    def result(self) -> None:
        """Raise what `exception` returns."""
        if self._error is not None:
            raise self._error

    def end(self, error: BaseException | None = None) -> None:
        """Tell that the invocation has ended."""
        self._is_done, self._error = True, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def watch(steps: Steps[InvokeResult], on_result: Callable[[InvokeResult], None]) -> Watch:
    """Take the first step, and let the running event loop take the others. Raises what the first step raises.

    What is returned is done once `on_result` has the result.
    """
    watched = _Watched(steps, on_result)
    watched.begin()
    return watched.done


class _Place:
    """A channel's place among an event loop's sockets. It is kept between invocations: to come and go costs more.

    The loop looks at a descriptor of its own: another thread may close the channel's, whose number may then be that of
    a connection of the loop's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, channel: RuntimeChannel) -> None:
        self.loop = loop
        self._descriptor = os.dup(channel.fileno())
        self._is_looked_at = False
        # What waits for the process, until when; None between invocations.
        self._look: Callable[[], None] | None = None
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        channel.on_close = self.close

    def wait(self, seconds: float, look: Callable[[], None]) -> None:
        """Call `look` once the process says something, or after `seconds`."""
        self._look = look
        self._due_s = self.loop.time() + seconds
        if not self._is_looked_at:
            self._is_looked_at = True
            self.loop.add_reader(self._descriptor, self._said)
        if self._timer is None:
            # It goes on after a short invocation, and serves those that follow.
            self._timer = self.loop.call_later(seconds, self._passed)

    def _said(self) -> None:
        look, self._look = self._look, None
        if look is not None:
            look()
        else:
            # It writes between invocations, has ended, or a thread runs its invocation.
            self._is_looked_at = False
            self.loop.remove_reader(self._descriptor)

    def _passed(self) -> None:
        self._timer = None
        if self._look is None:
            return
        left_s = self._due_s - self.loop.time()
        if left_s > 0:
            self._timer = self.loop.call_later(left_s, self._passed)
        else:
            self._said()

    def close(self) -> None:
        """Leave the loop, from any thread."""
        try:
            self.loop.call_soon_threadsafe(self._close)
        except RuntimeError:  # the loop has ended
            os.close(self._descriptor)

    def _close(self) -> None:
        self.loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        if self._timer is not None:
            self._timer.cancel()


_places: WeakKeyDictionary[RuntimeChannel, _Place] = WeakKeyDictionary()


def _place_of(channel: RuntimeChannel, loop: asyncio.AbstractEventLoop) -> _Place:
    place = _places.get(channel)
    if place is None or place.loop is not loop:
        if place is not None:
            place.close()
        place = _places[channel] = _Place(loop, channel)
    return place


class _Watched:
    """An invocation under way. One step is taken at a time: on the loop's thread or, if it blocks, on another one."""

    def __init__(
        self, steps: Steps[InvokeResult], on_result: Callable[[InvokeResult], None]
    ) -> None:
        self.done = Watch()
        self._steps = steps
        self._on_result = on_result
        self._loop = asyncio.get_running_loop()
        self._channel: RuntimeChannel | None = None

    def begin(self) -> None:
        """Take the first step."""
        try:
            wait = take_step(self._steps, None)
        except StopIteration as ended:
            self._finish(ended.value)
        else:
            self._wait_for(wait)

    def _wait_for(self, wait: Wait) -> None:
        """Let the loop look when the process says something, and after the wait's time."""
        if wait.blocks or wait.channel.is_busy:
            self._loop.run_in_executor(None, self._block, wait)
            return
        self._channel = wait.channel
        _place_of(wait.channel, self._loop).wait(wait.seconds, self._look)

    def _look(self) -> None:
        assert self._channel is not None
        try:
            wait = take_step(self._steps, Wait(self._channel, 0.0), briefly=True)
        except StopIteration as ended:
            self._finish(ended.value)
        except BaseException as error:  # noqa: BLE001 - who waits for the answer logs it
            self.done.end(error)
        else:
            self._wait_for(wait)

    def _block(self, wait: Wait) -> None:
        """Take a step on another thread, and come back to the loop's."""
        come_back = self._loop.call_soon_threadsafe
        try:
            wait = take_step(self._steps, wait)
        except StopIteration as ended:
            come_back(self._finish, ended.value)
        except BaseException as error:  # noqa: BLE001 - who waits for the answer logs it
            come_back(self.done.end, error)
        else:
            come_back(self._wait_for, wait)

    def _finish(self, result: InvokeResult) -> None:
        try:
            self._on_result(result)
        except Exception as error:  # noqa: BLE001 - who waits for the answer logs it
            self.done.end(error)
        else:
            self.done.end()
