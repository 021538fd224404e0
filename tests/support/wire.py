"""A connection to a `Server` without a socket: what a client sends, what it reads and when, all in the test's hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.server.connection import Refuse
from headrace.aws.server.http1 import Http1Connection
from headrace.aws.server.request_body import Bounds
from headrace.aws.server.server import Server

Handler = Callable[[HttpRequest], HttpResponse | Future[HttpResponse]]
HIGH_WATER_BYTES = 64 * 1024


class Wire(asyncio.Transport):
    """One connection. What the client has not `read` stays in the server's buffer; a new one reads all at once.

    Attributes:
        protocol: who has the server's end.
        took: what the client has read.
    """

    def __init__(self, server: Server, *, reads: bool = True) -> None:
        super().__init__()
        self.took = b""
        self.closed = False
        self.aborted = False
        self.sent_eof = False
        self.lost = False
        self._reads = reads
        self._reading = True
        self._paused = False
        self._buffer = bytearray()
        self._unread = bytearray()
        self.protocol: asyncio.Protocol = Http1Connection(server)
        self.protocol.connection_made(self)

    # --- the client's end ---------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send; what the server does not read now it gets when it reads again."""
        if self.closed:
            return
        self._unread += data
        self._deliver()

    def send_eof(self) -> None:
        """Send no more."""
        if not self.protocol.eof_received():
            self.close()

    def read(self, size_bytes: int | None = None) -> bytes:
        """Take what has come, or a part of it."""
        piece = bytes(self._buffer[:size_bytes])
        del self._buffer[: len(piece)]
        self.took += piece
        if self._paused and len(self._buffer) <= HIGH_WATER_BYTES // 4:
            self._paused = False
            self.protocol.resume_writing()
        self._lose()
        return piece

    def stop_reading(self) -> None:
        """Take nothing more, unless by `read`."""
        self._reads = False

    def leave(self) -> None:
        """Go away."""
        self._buffer.clear()
        self.abort()

    def _deliver(self) -> None:
        while self._unread and self._reading and not self.closed:
            piece = bytes(self._unread[: 256 * 1024])
            del self._unread[: len(piece)]
            self.protocol.data_received(piece)

    # --- the server's end, as asyncio calls it ------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.aborted or self.sent_eof:
            return
        self._buffer += data
        if self._reads:
            self.read()
        elif len(self._buffer) > HIGH_WATER_BYTES and not self._paused:
            self._paused = True
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def is_reading(self) -> bool:
        return self._reading and not self.closed

    def pause_reading(self) -> None:
        assert self._reading
        self._reading = False

    def resume_reading(self) -> None:
        if self._reading or self.closed:
            return
        self._reading = True
        asyncio.get_running_loop().call_soon(self._deliver)

    def write_eof(self) -> None:
        self.sent_eof = True

    def can_write_eof(self) -> bool:
        return True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True
        self._lose()

    def abort(self) -> None:
        self.closed = self.aborted = True
        self._buffer.clear()
        self._lose()

    def _lose(self) -> None:
        if self.closed and not self._buffer and not self.lost:
            self.lost = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


def server_at(
    handle: Handler,
    temp_dir: Path,
    *,
    inline: bool | Callable[[HttpRequest], bool] = True,
    refuse: Refuse | None = None,
    bounds: Bounds | None = None,
    service_of: Callable[[HttpRequest], str] | None = None,
) -> Server:
    """Return a server for wires; its time stands still until `look` is called."""
    temp_dir.mkdir(parents=True, exist_ok=True)
    is_inline = inline if callable(inline) else lambda _: bool(inline)
    return Server(
        handle,
        is_inline=is_inline,
        temp_dir=temp_dir,
        refuse=refuse,
        bounds=bounds,
        service_of=service_of,
    )


async def settle(turns: int = 200) -> None:
    """Let everything happen that needs no thread."""
    for _ in range(turns):
        await asyncio.sleep(0)
