"""Refuses a connection beyond the bound: answers its first request with 503 in AWS's words, and closes it."""

from __future__ import annotations

import asyncio

from headrace.aws.calls.http import HttpResponse
from headrace.aws.server.connection import CALM_DOWN, PREFACE, OpenConnections
from headrace.aws.server.http1_answers import head
from headrace.aws.server.lingering import Lingering
from headrace.aws.server.server_errors import busy_for, plain

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
