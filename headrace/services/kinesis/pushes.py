"""Pushes events to subscribers: produces the response body of SubscribeToShard on the event loop.

An append schedules one callback on the loop for all subscriptions of its stream; appends that come before the callback
runs share it. The callback wakes only the subscriptions that have something to send.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any

from headrace.core.clock import Clock
from headrace.services.kinesis.store import StreamRegistry
from headrace.services.kinesis.subscriptions import Subscription

log = logging.getLogger(__name__)


class _Group:
    """The subscriptions of one stream on one event loop. Every method but `wake` runs on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.members: set[Push] = set()
        self.undo: Callable[[], None] | None = None
        self._loop = loop
        self._is_scheduled = False

    def wake(self) -> None:
        """Schedule a look for new records. Any thread may call this."""
        if self._is_scheduled:
            return
        self._is_scheduled = True
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            # The loop is closed, and so are its readers' connections.
            log.debug("an append came after the server stopped")

    def _look(self) -> None:
        # Reset the flag first: an append that comes from now on schedules another look.
        self._is_scheduled = False
        for push in self.members:
            if push.subscription.has_news():
                push.news.set()


class Pushes:
    """The subscriptions of all streams, in groups. Used on the threads of event loops only."""

    def __init__(self, clock: Clock, registry: StreamRegistry) -> None:
        self.clock = clock
        self._registry = registry
        self._groups: dict[tuple[asyncio.AbstractEventLoop, str], _Group] = {}

    def join(self, push: Push) -> None:
        """Let appends to its stream wake `push`."""
        loop, arn = asyncio.get_running_loop(), push.subscription.stream.arn
        group = self._groups.get((loop, arn))
        if group is None:
            group = self._groups[(loop, arn)] = _Group(loop)
            group.undo = self._registry.subscribe(arn, group.wake)
        group.members.add(push)
        push.leave = lambda: self._leave(loop, arn, push)

    def _leave(self, loop: asyncio.AbstractEventLoop, arn: str, push: Push) -> None:
        group = self._groups.get((loop, arn))
        if group is None:
            return
        group.members.discard(push)
        if not group.members:
            del self._groups[(loop, arn)]
            if group.undo is not None:
                group.undo()


class Push(AsyncGenerator[bytes, None]):
    """Yields the messages of one subscription, as bytes, when they become due.

    It is not a generator function, because closing it must end the subscription even before the first read.
    """

    def __init__(self, pushes: Pushes, subscription: Subscription) -> None:
        self.subscription = subscription
        self.news = asyncio.Event()
        self.leave: Callable[[], None] | None = None
        self._pushes = pushes
        self._clock = pushes.clock

    async def __anext__(self) -> bytes:
        """Wait for the next messages."""
        return await self.asend(None)

    async def asend(self, value: None) -> bytes:
        """See `__anext__`."""
        subscription = self.subscription
        if self.leave is None and not subscription.ended:
            self._pushes.join(self)
        else:
            # Give way to other tasks: a consumer that is catching up would otherwise keep the loop to itself.
            await asyncio.sleep(0)
        while True:
            # Clear first: an append that comes from now on sets the event again.
            self.news.clear()
            now_ms = self._clock.now_ms()
            messages = subscription.next_messages(now_ms)
            if messages:
                return b"".join(messages)
            if subscription.ended:
                self._finish()
                raise StopAsyncIteration
            timer = asyncio.get_running_loop().call_later(
                subscription.wait_ms(now_ms) / 1000, self.news.set
            )
            try:
                await self.news.wait()
            finally:
                timer.cancel()

    async def athrow(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> Any:
        """End the subscription and raise an exception."""
        self._finish()
        raise typ

    async def aclose(self) -> None:
        """End the subscription: the client has disconnected."""
        self._finish()

    def __del__(self) -> None:
        """End the subscription if the client disconnected before the first read."""
        self.subscription.close()

    def _finish(self) -> None:
        self.subscription.close()
        if self.leave is not None:
            self.leave()
            self.leave = None
