"""HTTP/1.1 on one connection, by httptools.

Header and body leave in one write (two small writes cost 40 ms of delayed acknowledgement).
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

import httptools

from headrace.aws.http import DROPPED, FileSlice, HttpRequest, HttpResponse
from headrace.aws.http2 import PREFACE, Http2Connection
from headrace.aws.request_body import MAX_BODY_BYTES, RequestBody
from headrace.aws.tasks import log_failure
from headrace.aws.waiting import settled

if TYPE_CHECKING:
    from headrace.aws.server import Server

MAX_HEADER_BYTES = 64 * 1024
MOST_PIPELINED = 16

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


# A request as SDKs send it, whole in one piece, is taken apart here in a third of the time that the parser's calls back
# into Python take. Everything else, and everything that is odd in any way, is the parser's.
_USUAL_START = b"POST / HTTP/1.1\r\n"
_UNUSUAL = frozenset({"connection", "expect", "transfer-encoding", "upgrade"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MOST_NAMES_KEPT = 1000
_names: dict[str, str] = {}


def _lower_name(name: str) -> str | None:
    """Return a header's name in lower case; None when it is no token."""
    lower = _names.get(name)
    if lower is None and _TOKEN.fullmatch(name):
        lower = name.lower()
        if len(_names) < _MOST_NAMES_KEPT:
            _names[name] = lower
    return lower


def _usual_request(data: bytes) -> HttpRequest | None:
    """Return the one whole request that `data` is; None when it is anything but that."""
    if not data.startswith(_USUAL_START):
        return None
    end = data.find(b"\r\n\r\n", 0, MAX_HEADER_BYTES)
    if end < 0:
        return None
    text = data[len(_USUAL_START) : end].decode("latin-1")
    lines = text.split("\r\n")
    if not "".join(lines).isprintable():
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        lower = _lower_name(name)
        if lower is None or not colon or lower in headers:
            return None
        headers[lower] = value.strip(" \t")
    length = headers.get("content-length", "")
    if not length.isdecimal() or len(length) > 10 or int(length) != len(data) - end - 4:
        return None
    if not _UNUSUAL.isdisjoint(headers):
        return None
    return HttpRequest("POST", "/", "", headers, data[end + 4 :])


class Http1Connection(asyncio.Protocol):
    """One client connection: requests in order, answers in the same order."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[HttpRequest, bool]] = deque()
        self._busy = False
        self._half_closed = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._failed = False
        self._first = b""
        self._begun = False
        self._parsing = False
        self._streaming: asyncio.Task[None] | None = None
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._body = RequestBody(self._server.temp_dir)

    # --- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        self._transport = None
        self._writable.set()
        self._body.discard()
        self._stop_streaming()

    def data_received(self, data: bytes) -> None:
        if self._failed:
            return
        if not self._begun:
            data = self._first + data
            if PREFACE.startswith(data[: len(PREFACE)]):
                self._first = data
                if len(data) >= len(PREFACE):
                    self._hand_over()
                return
            self._begun = True
        if not self._parsing:
            request = _usual_request(data)
            if request is not None:
                self._take(request, keep_alive=True)
                return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, b"upgrades are not supported\n")
        except httptools.HttpParserError:
            self._refuse(400, b"bad request\n")

    def _hand_over(self) -> None:
        """Give the connection to HTTP/2, whose preface the client began with."""
        assert self._transport is not None
        transport, self._transport = self._transport, None
        self._server.closed(self)
        successor = Http2Connection(self._server)
        transport.set_protocol(successor)
        successor.connection_made(transport)
        successor.data_received(self._first)

    def eof_received(self) -> bool:
        # A client that will send no more still wants its answers, but to one that goes on until it is told to
        # stop, this tells.
        self._half_closed = True
        self._stop_streaming()
        return self._busy

    def _stop_streaming(self) -> None:
        if self._streaming is not None:
            self._streaming.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # --- httptools callbacks ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._parsing = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_header(len(name) + len(value))
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1").strip(" \t")  # llhttp keeps what trails
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known},{text}"

    def _count_header(self, size_bytes: int) -> None:
        self._header_bytes += size_bytes
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(431, b"request header fields too large\n")
            raise httptools.HttpParserError("headers too large")

    def on_headers_complete(self) -> None:
        if not self._busy and self._is_turned_away():
            raise httptools.HttpParserError("refused")
        length = self._headers.get("content-length", "")
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            self._refuse(413, b"body too large\n")
            raise httptools.HttpParserError("body too large")
        if self._headers.get("expect", "").lower() == "100-continue" and self._transport:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _is_turned_away(self) -> bool:
        """Refuse the request that begins here, if it may not go on, without its body."""
        answer = self._server.refusal(self._request())
        if answer is None:
            return False
        self._failed = True
        self._write(self._request(), answer, keep_alive=False)
        return True

    def on_body(self, body: bytes) -> None:
        if not self._body.add(body):
            self._refuse(413, b"body too large\n")
            raise httptools.HttpParserError("body too large")

    def on_message_complete(self) -> None:
        self._parsing = False
        request = self._request()
        request.body, request.body_file = self._body.finish()
        keep_alive = self._parser.should_keep_alive()
        self._reset()
        self._take(request, keep_alive=keep_alive)

    def _request(self) -> HttpRequest:
        """Return the request without its body."""
        path, _, query = self._url.decode("latin-1").partition("?")
        if "://" in path.partition("?")[0][:8]:  # absolute form, as proxies send it
            path = "/" + path.split("://", 1)[1].partition("/")[2]
        return HttpRequest(
            method=self._parser.get_method().decode("ascii"),
            path=path,
            query=query,
            headers=self._headers,
        )

    # --- answering ----------------------------------------------------------------------------

    def _take(self, request: HttpRequest, *, keep_alive: bool) -> None:
        if not self._busy:
            answer = self._server.answer_inline(request)
            if isinstance(answer, HttpResponse) and isinstance(answer.body, bytes):
                if answer.waits:
                    self._busy = True
                    self._server.call_when_done(
                        answer, lambda: self._finish(request, answer, keep_alive=keep_alive)
                    )
                    return
                self._write(request, answer, keep_alive=keep_alive)
                return
            self._busy = True
            self._begin_task(request, answer, keep_alive=keep_alive)
            return
        self._waiting.append((request, keep_alive))
        if len(self._waiting) >= MOST_PIPELINED and self._transport is not None:
            self._transport.pause_reading()

    def _begin_task(
        self,
        request: HttpRequest,
        started: HttpResponse | Future[HttpResponse] | None,
        *,
        keep_alive: bool,
    ) -> None:
        task = asyncio.get_running_loop().create_task(
            self._serve(request, started, keep_alive=keep_alive)
        )
        task.add_done_callback(log_failure)

    def _finish(self, request: HttpRequest, answer: HttpResponse, *, keep_alive: bool) -> None:
        """Write an answer that was waited for, and go on; no task, since many wait for one fsync."""
        answer = settled(answer)
        self._busy = False
        self._write(request, answer, keep_alive=keep_alive)
        if request.body_file is not None:
            request.body_file.unlink(missing_ok=True)
        while self._waiting and keep_alive and not self._busy:
            request, keep_alive = self._waiting.popleft()
            self._take(request, keep_alive=keep_alive)
        if self._busy:
            return
        if self._half_closed:
            self.close()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    async def _serve(
        self,
        request: HttpRequest,
        started: HttpResponse | Future[HttpResponse] | None,
        *,
        keep_alive: bool,
    ) -> None:
        while True:
            answer = await self._server.answer(request, started)
            await self._write_any(request, answer, keep_alive=keep_alive)
            if request.body_file is not None:
                request.body_file.unlink(missing_ok=True)
            if not self._waiting or not keep_alive:
                break
            started = None
            request, keep_alive = self._waiting.popleft()
        self._busy = False
        if self._half_closed:
            self.close()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    async def _write_any(
        self, request: HttpRequest, answer: HttpResponse, *, keep_alive: bool
    ) -> None:
        if self._transport is None:
            return
        if answer.status == DROPPED:
            self._transport.abort()
        elif isinstance(answer.body, bytes):
            self._write(request, answer, keep_alive=keep_alive)
        elif isinstance(answer.body, FileSlice):
            await self._write_file(request, answer, answer.body, keep_alive=keep_alive)
        elif isinstance(answer.body, AsyncGenerator):
            await self._write_as_it_comes(answer, answer.body)
        else:
            await self._write_stream(answer, answer.body)
        if not self._writable.is_set():
            await self._writable.wait()

    def _write(self, request: HttpRequest, answer: HttpResponse, *, keep_alive: bool) -> None:
        if self._transport is None:
            return
        if answer.status == DROPPED:
            self._transport.abort()
            return
        body = answer.body
        assert isinstance(body, bytes)
        head = _head(answer, None if answer.status in (204, 304) else len(body), keep_alive)
        self._transport.write(head if request.method == "HEAD" else head + body)
        if not keep_alive:
            self._transport.close()

    async def _write_file(
        self, request: HttpRequest, answer: HttpResponse, part: FileSlice, *, keep_alive: bool
    ) -> None:
        assert self._transport is not None
        head = _head(answer, part.length_bytes, keep_alive)
        with part.file or part.path.open("rb") as file:
            self._transport.write(head)
            if request.method != "HEAD":
                await asyncio.get_running_loop().sendfile(
                    self._transport, file, part.offset_bytes, part.length_bytes
                )
        if not keep_alive:
            self.close()

    async def _write_stream(self, answer: HttpResponse, body: Iterator[bytes]) -> None:
        self._send(_head(answer, None, True, chunked=True))
        while self._open:
            chunk = await asyncio.wrap_future(self._server.next_chunk(body))
            if chunk is None:
                self._send(b"0\r\n\r\n")
                return
            if chunk:
                self._send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await self._writable.wait()

    async def _write_as_it_comes(
        self, answer: HttpResponse, body: AsyncGenerator[bytes, None]
    ) -> None:
        self._send(_head(answer, None, True, chunked=True))
        self._streaming = asyncio.current_task()
        try:
            async for chunk in body:
                if chunk:
                    self._send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                await self._writable.wait()
            self._send(b"0\r\n\r\n")
        except asyncio.CancelledError:
            # The client is gone, and nobody awaits this task.
            self.close()
        finally:
            self._streaming = None
            await body.aclose()

    @property
    def _open(self) -> bool:
        """Whether the client is still there; asked anew after every wait."""
        return self._transport is not None

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _refuse(self, status: int, message: bytes) -> None:
        if self._failed:
            return  # it has its answer
        self._failed = True
        if self._transport is not None:
            answer = HttpResponse(status, [("Content-Type", "text/plain")], message)
            self._transport.write(_head(answer, len(message), False) + message)
            self._transport.close()


def _head(
    answer: HttpResponse, length_bytes: int | None, keep_alive: bool, *, chunked: bool = False
) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in answer.headers]
    if length_bytes is not None and not any(
        len(name) == 14 and name.lower() == "content-length" for name, _ in answer.headers
    ):
        lines.append(f"Content-Length: {length_bytes}\r\n")
    if chunked:
        lines.append("Transfer-Encoding: chunked\r\n")
    if not keep_alive:
        lines.append("Connection: close\r\n")
    lines.append("\r\n")
    status = _STATUS_LINES.get(answer.status) or f"HTTP/1.1 {answer.status} \r\n".encode()
    return status + "".join(lines).encode("latin-1", "replace")
