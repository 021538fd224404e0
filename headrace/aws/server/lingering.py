"""Connections that get one more answer and end: those that linger, and those beyond the bound.

`Lingering` keeps a connection open after its last answer until the client has read it. Closing a socket with unread
bytes resets the connection, and the reset overtakes the answer: the client would see "connection reset by peer" instead
of the reason. So further bytes are read and dropped for a short time.

Starts tasks of the event loop, and logs those that fail.

Refuses a connection beyond the bound: answers its first request with 503 in AWS's words, and closes it.
"""

from __future__ import annotations

import asyncio
import logging

from headrace.aws.calls.http import HttpResponse
from headrace.aws.server.answers import busy_for, head, plain
from headrace.aws.server.connection import CALM_DOWN, PREFACE, OpenConnections

log = logging.getLogger(__name__)


def log_failure(task: asyncio.Task[None]) -> None:
    """Log what a finished task raised; for `add_done_callback`."""
    if not task.cancelled() and task.exception() is not None:
        log.error("a connection failed", exc_info=task.exception())


class Lingering(asyncio.Protocol):
    """The protocol of a connection after its last answer is written."""

    def __init__(self, server: OpenConnections, transport: asyncio.Transport) -> None:
        self._server = server
        self._transport = transport
        self._since_s = server.now_s
        self._left_bytes = server.bounds.linger_bytes

    @classmethod
    def take_over(cls, server: OpenConnections, transport: asyncio.Transport) -> None:
        """Close a connection once its client has closed it too, or has had time to read."""
        if transport.is_closing():
            return
        self = cls(server, transport)
        transport.set_protocol(self)
        server.opened(self)
        transport.write_eof()
        if not transport.is_reading():
            transport.resume_reading()

    @property
    def is_idle(self) -> bool:
        """True: the connection may be closed at any time."""
        return True

    @property
    def idle_since_s(self) -> float:
        """Minus infinity: lingering connections are closed first to make room."""
        return float("-inf")

    @property
    def unsent_bytes(self) -> int:
        """See `headrace.aws.server.connection.Connection`."""
        return self._transport.get_write_buffer_size()

    def data_received(self, data: bytes) -> None:
        """Drop the bytes."""
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has closed it too."""
        self._server.closed(self)

    def look(self, now_s: float) -> None:
        """Close the connection when its time is over."""
        bounds = self._server.bounds
        waits_s = bounds.answer_idle_s if self.unsent_bytes else bounds.linger_s
        if now_s - self._since_s > waits_s:
            self.abort()

    def close(self) -> None:
        """Close the connection now."""
        self._transport.close()

    def abort(self) -> None:
        """Close the connection now, even with unsent bytes."""
        self._transport.abort()


_HEAD_END = b"\r\n\r\n"


class Surplus(asyncio.Protocol):
    """The protocol of a connection for which there is no room, until its first request's headers have arrived."""

    def __init__(self, server: OpenConnections, transport: asyncio.Transport) -> None:
        self._server = server
        self._transport = transport
        self._since_s = server.now_s
        self._received = b""

    @classmethod
    def take_over(cls, server: OpenConnections, transport: asyncio.Transport) -> None:
        """Hear what a new connection asks, unless too many others do; and refuse it."""
        self = cls(server, transport)
        transport.set_protocol(self)
        server.opened(self)
        if server.is_overfull:
            answer = plain(503, "too many connections")
            self._end_with(_write_answer(answer))

    @property
    def is_idle(self) -> bool:
        """False: the client is owed an answer."""
        return False

    @property
    def idle_since_s(self) -> float:
        """See `headrace.aws.server.connection.Connection`."""
        return self._since_s

    @property
    def unsent_bytes(self) -> int:
        """See `headrace.aws.server.connection.Connection`."""
        return self._transport.get_write_buffer_size()

    def data_received(self, data: bytes) -> None:
        """Answer once the headers are complete."""
        self._received += data
        if PREFACE.startswith(self._received[: len(PREFACE)]):
            if len(self._received) >= len(PREFACE):
                self._end_with(CALM_DOWN)
        elif _HEAD_END in self._received or len(self._received) > self._server.bounds.head_bytes:
            answer = busy_for(self._received.partition(_HEAD_END)[0])
            self._end_with(_write_answer(answer))

    def _end_with(self, data: bytes) -> None:
        self._transport.write(data)
        self._server.closed(self)
        Lingering.take_over(self._server, self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the list of open connections."""
        self._server.closed(self)

    def look(self, now_s: float) -> None:
        """Close it if its headers do not arrive."""
        if now_s - self._since_s > self._server.bounds.linger_s:
            self.close()

    def close(self) -> None:
        """See `headrace.aws.server.connection.Connection`."""
        self._transport.close()

    def abort(self) -> None:
        """See `headrace.aws.server.connection.Connection`."""
        self._transport.abort()


def _write_answer(answer: HttpResponse) -> bytes:
    assert isinstance(answer.body, bytes)
    return head(answer, len(answer.body), keep_alive=False) + answer.body
