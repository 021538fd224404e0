"""Writes the answers of one HTTP/1.1 connection: whole, in parts as they come, or from a file.

Header and body of an answer leave in one write (two small writes cost 40 ms of delayed acknowledgement).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from headrace.aws.calls.http import DROPPED, FileSlice, HttpResponse
from headrace.aws.server.answer_parts import length_of
from headrace.aws.server.connection import Connection, RequestTaker
from headrace.aws.server.exchange import Exchange
from headrace.aws.server.http1_answers import has_body, head, whole

FILE_PIECE_BYTES = 16 * 1024 * 1024


class AnswerWriter:
    """Writes the answers of the connection `owner`. Runs on the event loop's thread.

    Attributes:
        transport: None before the connection is made, and once it is gone.
        writable: set while the socket accepts more bytes.
        sending: the task that sends a file; None when there is none.
        since_s: when the last piece of a file was begun, by the server's clock.
    """

    def __init__(self, server: RequestTaker, owner: Connection) -> None:
        self.transport: asyncio.Transport | None = None
        self.writable = asyncio.Event()
        self.writable.set()
        self.since_s = server.now_s
        self._server = server
        self._owner = owner
        # The task that writes a body without an end, until it is stopped.
        self._streaming: asyncio.Task[None] | None = None
        self.sending: asyncio.Task[None] | None = None

    def stop_streaming(self) -> None:
        """Stop the task that writes a body without an end."""
        if self._streaming is not None:
            self._streaming.cancel()

    def stop_sending(self) -> None:
        """Stop sending a file; call this before the socket is closed, since its descriptor may be reused at once."""
        if self.sending is not None:
            self.sending.cancel()

    def send(self, data: bytes) -> None:
        """Send bytes, unless the connection is gone."""
        if self.transport is not None:
            self.transport.write(data)

    def write(self, exchange: Exchange, answer: HttpResponse) -> bool:
        """Write an answer whose body is bytes; return whether it was sent, rather than the connection dropped."""
        if answer.status == DROPPED:
            self._owner.abort()
            return False
        pieces = whole(answer, exchange.request.method, keep_alive=exchange.keep_alive)
        if self.transport is not None:
            for piece in pieces:
                self.transport.write(piece)
        return True

    async def write_long(self, exchange: Exchange, answer: HttpResponse) -> bool:
        """Write an answer whose body is a file or an iterator; return whether all of it was written.

        Raises OSError.
        """
        if isinstance(answer.body, FileSlice):
            return await self._write_file(exchange, answer, answer.body)
        return await self._write_parts(exchange, answer)

    async def _write_parts(self, exchange: Exchange, answer: HttpResponse) -> bool:
        """Write the parts of a body as they are made, at the client's pace."""
        length_bytes = length_of(answer)
        chunked = length_bytes is None and not exchange.is_http10
        parts = self._server.parts(exchange, self._owner, answer)
        if isinstance(answer.body, AsyncGenerator):
            self._streaming = asyncio.current_task()
        try:
            if not self._is_open:
                return False
            self.send(head(answer, length_bytes, keep_alive=exchange.keep_alive, chunked=chunked))
            if has_body(exchange.request.method, answer.status):
                async for part in parts:
                    if part:
                        self.send(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
                    await self.writable.wait()
                    if not self._is_open:
                        return False
                if chunked:
                    self.send(b"0\r\n\r\n")
        except asyncio.CancelledError:
            # The client is gone, and nothing awaits this task.
            self._owner.close()
            return False
        else:
            return True
        finally:
            self._streaming = None
            await parts.aclose()

    async def _write_file(self, exchange: Exchange, answer: HttpResponse, part: FileSlice) -> bool:
        """Let the kernel send a slice of a file, which takes a quarter of the work of reading it. Raises OSError."""
        loop, transport = asyncio.get_running_loop(), self.transport
        with part.file or part.path.open("rb") as file:
            if transport is None:
                return False
            transport.write(head(answer, part.length_bytes, keep_alive=exchange.keep_alive))
            at, end = part.offset_bytes, part.offset_bytes + part.length_bytes
            if not has_body(exchange.request.method, answer.status):
                at = end
            self.sending = asyncio.current_task()
            try:
                while at < end and self._is_open:
                    # In pieces, so that progress of the client is noticed.
                    self.since_s = self._server.now_s
                    sent = await loop.sendfile(transport, file, at, min(end - at, FILE_PIECE_BYTES))
                    if not sent:
                        raise OSError(f"{part.path} ends {end - at} bytes too soon")
                    at += sent
            except asyncio.CancelledError:
                return False  # the connection was closed, and nothing awaits this task
            finally:
                self.sending = None
        return True

    @property
    def _is_open(self) -> bool:
        """Whether the client is still connected; call this after every wait."""
        return self.transport is not None
