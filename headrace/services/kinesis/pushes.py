"""Subscriptions on the event loop: the body of SubscribeToShard's answer, woken by appends.

An append wakes its stream's subscriptions through one callback on the loop, however many there are and however
many appends come before it runs; those with nothing new are not woken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.services.kinesis.subscriptions import Subscription

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis

log = logging.getLogger(__name__)


class _Group:
    """The subscriptions of one stream on one event loop. All but `wake` runs on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.members: set[Push] = set()
        self.undo: Callable[[], None] | None = None
        self._loop = loop
        self._is_scheduled = False

    def wake(self) -> None:
        """Look for news soon. From any thread."""
        if self._is_scheduled:
            return
        self._is_scheduled = True
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            # The loop is closed, and whoever read on it is gone.
            log.debug("an append came after the server stopped")

    def _look(self) -> None:
        # Before looking: an append from now on schedules another look.
        self._is_scheduled = False
        for push in self.members:
            if push.subscription.has_news():
                push.news.set()


class Pushes:
    """The groups of all streams. Used on event loops' threads only."""

    def __init__(self, kinesis: Kinesis) -> None:
        self.kinesis = kinesis
        self._groups: dict[tuple[asyncio.AbstractEventLoop, str], _Group] = {}

    def join(self, push: Push) -> None:
        """Let appends wake `push`."""
        loop, arn = asyncio.get_running_loop(), push.subscription.stream.arn
        group = self._groups.get((loop, arn))
        if group is None:
            group = self._groups[(loop, arn)] = _Group(loop)
            group.undo = self.kinesis.subscribe(arn, group.wake)
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
    """The bytes of one subscription, as they become due.

    A class and not a generator function: closing one that was never begun must free its place too.
    """

    def __init__(self, pushes: Pushes, subscription: Subscription) -> None:
        self.subscription = subscription
        self.news = asyncio.Event()
        self.leave: Callable[[], None] | None = None
        self._pushes = pushes
        self._clock = pushes.kinesis.clock

    async def __anext__(self) -> bytes:
        """Wait for what is due."""
        return await self.asend(None)

    async def asend(self, value: None) -> bytes:
        """See `__anext__`."""
        subscription = self.subscription
        if self.leave is None and not subscription.ended:
            self._pushes.join(self)
        else:
            # A consumer that catches up must not hold the loop from one event to the next.
            await asyncio.sleep(0)
        while True:
            # Before looking: an append from now on sets it again.
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
        """End with an exception."""
        self._finish()
        raise typ

    async def aclose(self) -> None:
        """End; the client is gone."""
        self._finish()

    def __del__(self) -> None:
        """Free the place of one that was made for a client who was gone already, and never begun."""
        self.subscription.close()

    def _finish(self) -> None:
        self.subscription.close()
        if self.leave is not None:
            self.leave()
            self.leave = None
