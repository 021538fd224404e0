"""Counts request bodies' bytes in memory over all connections; makes requests wait when there is no room."""

from __future__ import annotations

import asyncio
from collections import deque


class NoRoom(Exception):
    """There was no room for a body within the time that a request waits for it."""


class BodyRoom:
    """A number of bytes that may be held. Used on the event loop's thread only."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._line: deque[tuple[int, asyncio.Future[None], float]] = deque()

    def take(self, size_bytes: int) -> bool:
        """Hold more; False when there is no room, or others wait for it."""
        if self._line or self.held_bytes + size_bytes > self.limit_bytes:
            return False
        self.held_bytes += size_bytes
        return True

    def take_anyway(self, size_bytes: int) -> None:
        """Hold more, whether there is room or not."""
        self.held_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """Hold less, and let in who waits."""
        self.held_bytes -= size_bytes
        while self._line:
            wanted_bytes, turn, _ = self._line[0]
            if not turn.done():
                if self.held_bytes and self.held_bytes + wanted_bytes > self.limit_bytes:
                    return
                self.held_bytes += wanted_bytes
                turn.set_result(None)
            self._line.popleft()

    async def wait_for(self, size_bytes: int, deadline_s: float) -> None:
        """Hold more once there is room, in turn; `expire` is told the time. Raises NoRoom."""
        if self.take(size_bytes):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((size_bytes, turn, deadline_s))
        self.give(0)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give(size_bytes)
            raise

    def expire(self, now_s: float) -> None:
        """Send away who has waited until now. Everybody waits for the same time, so the first is the first due."""
        while self._line and (self._line[0][2] <= now_s or self._line[0][1].done()):
            _, turn, _ = self._line.popleft()
            if not turn.done():
                turn.set_exception(NoRoom())
        self.give(0)
