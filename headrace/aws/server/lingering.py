"""Keeps a connection open after its last answer until the client has read it.

Closing a socket with unread bytes resets the connection, and the reset overtakes the answer: the client would see
"connection reset by peer" instead of the reason. So further bytes are read and dropped for a short time.
"""

from __future__ import annotations

import asyncio

from headrace.aws.server.connection import OpenConnections


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
