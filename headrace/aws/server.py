"""The socket: HTTP/1.1 by httptools on asyncio.

One event loop thread parses, answers what never blocks, and writes; the rest runs on a pool of threads.
Header and body leave in one write (two small writes cost 40 ms of delayed acknowledgement).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import IO, cast

import httptools

from headrace.aws.http import FileSlice, HttpRequest, HttpResponse

log = logging.getLogger(__name__)

Handler = Callable[[HttpRequest], HttpResponse | Future[HttpResponse]]

SPOOL_ABOVE_BYTES = 16 * 1024 * 1024
MAX_BODY_BYTES = 5 * 1024**3 + 16 * 1024 * 1024
MAX_HEADER_BYTES = 64 * 1024
READ_WHOLE_BELOW_BYTES = 1024 * 1024
MOST_PIPELINED = 16
# Threads are made as needed. Many, because a synchronous Lambda invocation holds one while the
# function's own calls need others.
MOST_THREADS = 256

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class Server:
    """Listens on one address. `start` and `stop` run on the event loop's thread."""

    def __init__(
        self,
        handle: Handler,
        *,
        is_inline: Callable[[HttpRequest], bool],
        temp_dir: Path,
    ) -> None:
        self._handle = handle
        self._is_inline = is_inline
        self._temp_dir = temp_dir
        self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="request")
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def start(self, bound: socket.socket) -> None:
        """Listen on a bound socket, which is the server's from then on."""
        self._temp_dir.mkdir(parents=True, exist_ok=True)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), sock=bound, backlog=1024)

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def opened(self, connection: _Connection) -> None:
        """Note a connection, so that `stop` can close it."""
        self._connections.add(connection)

    def closed(self, connection: _Connection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    def spool(self) -> IO[bytes]:
        """Return a temporary file for a large body; the name outlives its closing."""
        return cast("IO[bytes]", tempfile.NamedTemporaryFile(dir=self._temp_dir, delete=False))

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Run the handler where it may run, and wait for its answer. Never raises."""
        try:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._pool, self._handle, request)
            if isinstance(answer, Future):
                answer = await asyncio.wrap_future(answer)
            if isinstance(answer.body, FileSlice) and (
                answer.body.length_bytes < READ_WHOLE_BELOW_BYTES
            ):
                answer.body = await loop.run_in_executor(self._pool, _read, answer.body)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return HttpResponse(500, [("Content-Type", "text/plain")], b"internal failure\n")
        return answer

    def answer_inline(self, request: HttpRequest) -> HttpResponse | Future[HttpResponse] | None:
        """Answer at once when the request never blocks; None when it must go to a thread."""
        if not self._is_inline(request):
            return None
        try:
            return self._handle(request)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return HttpResponse(500, [("Content-Type", "text/plain")], b"internal failure\n")

    def next_chunk(self, body: Iterator[bytes]) -> Future[bytes | None]:
        """Take the next part of a streaming body on a thread; None at its end."""
        return self._pool.submit(next, body, None)


def _read(part: FileSlice) -> bytes:
    with part.file or part.path.open("rb") as file:
        return os.pread(file.fileno(), part.length_bytes, part.offset_bytes)


class _Connection(asyncio.Protocol):
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
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._chunks: list[bytes] = []
        self._body_bytes = 0
        self._file: IO[bytes] | None = None

    # --- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        self._transport = None
        self._writable.set()
        if self._file is not None:
            self._discard(self._file)

    def data_received(self, data: bytes) -> None:
        if self._failed:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, b"upgrades are not supported\n")
        except httptools.HttpParserError:
            self._refuse(400, b"bad request\n")

    def eof_received(self) -> bool:
        # A client that will send no more still wants its answers.
        self._half_closed = True
        return self._busy

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # --- httptools callbacks ------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_header(len(name) + len(value))
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known},{text}"

    def _count_header(self, size_bytes: int) -> None:
        self._header_bytes += size_bytes
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(431, b"request header fields too large\n")
            raise httptools.HttpParserError("headers too large")

    def on_headers_complete(self) -> None:
        length = self._headers.get("content-length", "")
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            self._refuse(413, b"body too large\n")
            raise httptools.HttpParserError("body too large")
        if self._headers.get("expect", "").lower() == "100-continue" and self._transport:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > MAX_BODY_BYTES:
            self._refuse(413, b"body too large\n")
            raise httptools.HttpParserError("body too large")
        if self._file is not None:
            self._file.write(body)
            return
        self._chunks.append(body)
        if self._body_bytes > SPOOL_ABOVE_BYTES:
            self._file = self._server.spool()
            self._file.writelines(self._chunks)
            self._chunks = []

    def on_message_complete(self) -> None:
        path, _, query = self._url.decode("latin-1").partition("?")
        if "://" in path.partition("?")[0][:8]:  # absolute form, as proxies send it
            path = "/" + path.split("://", 1)[1].partition("/")[2]
        body_file = None
        if self._file is not None:
            self._file.close()
            body_file = Path(self._file.name)
        request = HttpRequest(
            method=self._parser.get_method().decode("ascii"),
            path=path,
            query=query,
            headers=self._headers,
            body=self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks),
            body_file=body_file,
        )
        keep_alive = self._parser.should_keep_alive()
        self._reset()
        self._take(request, keep_alive=keep_alive)

    # --- answering ----------------------------------------------------------------------------

    def _take(self, request: HttpRequest, *, keep_alive: bool) -> None:
        if not self._busy:
            answer = self._server.answer_inline(request)
            if isinstance(answer, HttpResponse):
                self._write(request, answer, keep_alive=keep_alive)
                return
            self._busy = True
            task = asyncio.get_running_loop().create_task(
                self._serve(request, answer, keep_alive=keep_alive)
            )
            task.add_done_callback(_log_failure)
            return
        self._waiting.append((request, keep_alive))
        if len(self._waiting) >= MOST_PIPELINED and self._transport is not None:
            self._transport.pause_reading()

    async def _serve(
        self,
        request: HttpRequest,
        started: Future[HttpResponse] | None,
        *,
        keep_alive: bool,
    ) -> None:
        while True:
            if started is not None:
                answer = await asyncio.wrap_future(started)
            else:
                answer = await self._server.answer(request)
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
        if isinstance(answer.body, bytes):
            self._write(request, answer, keep_alive=keep_alive)
        elif isinstance(answer.body, FileSlice):
            await self._write_file(request, answer, answer.body, keep_alive=keep_alive)
        else:
            await self._write_stream(answer, answer.body)
        if not self._writable.is_set():
            await self._writable.wait()

    def _write(self, request: HttpRequest, answer: HttpResponse, *, keep_alive: bool) -> None:
        if self._transport is None:
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

    @property
    def _open(self) -> bool:
        """Whether the client is still there; asked anew after every wait."""
        return self._transport is not None

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _refuse(self, status: int, message: bytes) -> None:
        self._failed = True
        if self._transport is not None:
            answer = HttpResponse(status, [("Content-Type", "text/plain")], message)
            self._transport.write(_head(answer, len(message), False) + message)
            self._transport.close()

    @staticmethod
    def _discard(file: IO[bytes]) -> None:
        file.close()
        Path(file.name).unlink(missing_ok=True)


def _head(
    answer: HttpResponse, length_bytes: int | None, keep_alive: bool, *, chunked: bool = False
) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in answer.headers]
    given = {name.lower() for name, _ in answer.headers}
    if length_bytes is not None and "content-length" not in given:
        lines.append(f"Content-Length: {length_bytes}\r\n")
    if chunked:
        lines.append("Transfer-Encoding: chunked\r\n")
    if not keep_alive:
        lines.append("Connection: close\r\n")
    status = _STATUS_LINES.get(answer.status) or f"HTTP/1.1 {answer.status} \r\n".encode()
    return status + "".join(lines).encode("latin-1", "replace") + b"\r\n"


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a connection failed", exc_info=task.exception())
