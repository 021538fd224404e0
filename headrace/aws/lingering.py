"""Keeps a connection open after its last answer until the client has read it.

A socket that is closed with unread bytes in it resets the connection, and a reset overtakes the answer: the client
would see "connection reset by peer" in place of the reason. So what still comes is read and dropped, for a moment.
"""

from __future__ import annotations

import asyncio

from headrace.aws.connection import Register


class Lingering(asyncio.Protocol):
    """Takes a connection over once its last answer is written."""

    def __init__(self, server: Register, transport: asyncio.Transport) -> None:
        self._server = server
        self._transport = transport
        self._since_s = server.now_s
        self._left_bytes = server.bounds.linger_bytes

    @classmethod
    def take_over(cls, server: Register, transport: asyncio.Transport) -> None:
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
        """The first to make room."""
        return float("-inf")

    @property
    def unsent_bytes(self) -> int:
        """See `headrace.aws.connection.Connection`."""
        return self._transport.get_write_buffer_size()

    def data_received(self, data: bytes) -> None:
        """Drop it."""
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has closed it too."""
        self._server.closed(self)

    def look(self, now_s: float) -> None:
        """Close it when its time is over."""
        bounds = self._server.bounds
        waits_s = bounds.answer_idle_s if self.unsent_bytes else bounds.linger_s
        if now_s - self._since_s > waits_s:
            self.abort()

    def close(self) -> None:
        """Close it now."""
        self._transport.close()

    def abort(self) -> None:
        """Close it now, whatever is unsent."""
        self._transport.abort()
