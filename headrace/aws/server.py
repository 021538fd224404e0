"""The socket: HTTP/1.1 and HTTP/2 on asyncio.

One event loop thread parses, answers what never blocks, and writes; the rest runs on a pool of threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from headrace.aws.http import FileSlice, HttpRequest, HttpResponse
from headrace.aws.http1 import Http1Connection
from headrace.aws.waiting import call_when_done, when_done

log = logging.getLogger(__name__)

Handler = Callable[[HttpRequest], HttpResponse | Future[HttpResponse]]
# Given the method, the path with its query, and the headers.
Refuse = Callable[[str, str, Mapping[str, str]], HttpResponse | None]

READ_WHOLE_BELOW_BYTES = 1024 * 1024
# Threads are made as needed. Many, because a synchronous Lambda invocation holds one while the
# function's own calls need others.
MOST_THREADS = 256


class _Closable(Protocol):
    def close(self) -> None: ...


class Server:
    """Listens on one address. `start` and `stop` run on the event loop's thread.

    `refuse` is asked on the event loop's thread once a request's headers are in, so it must not block. What it
    returns is the answer, and the request's body is not read; None lets the request go on.
    """

    def __init__(
        self,
        handle: Handler,
        *,
        is_inline: Callable[[HttpRequest], bool],
        temp_dir: Path,
        refuse: Refuse | None = None,
    ) -> None:
        self._handle = handle
        self._refuse = refuse
        self._is_inline = is_inline
        self.temp_dir = temp_dir
        self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="request")
        self._server: asyncio.Server | None = None
        self._connections: set[_Closable] = set()

        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: deque[Callable[[], None]] = deque()
        self._told = False

    async def start(self, bound: socket.socket) -> None:
        """Listen on a bound socket, which is the server's from then on."""
        self.temp_dir.mkdir(parents=True, exist_ok=True)
        self._loop = loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Http1Connection(self), sock=bound, backlog=1024
        )

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def opened(self, connection: _Closable) -> None:
        """Note a connection, so that `stop` can close it."""
        self._connections.add(connection)

    def closed(self, connection: _Closable) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    def refusal(self, request: HttpRequest) -> HttpResponse | None:
        """Return the answer to a request that need not be read any further."""
        if self._refuse is None:
            return None
        return self._refuse(request.method, f"{request.path}?{request.query}", request.headers)

    async def answer(
        self, request: HttpRequest, started: HttpResponse | Future[HttpResponse] | None = None
    ) -> HttpResponse:
        """Run the handler where it may run, unless it has `started`, and wait for its answer. Never raises."""
        try:
            loop = asyncio.get_running_loop()
            answer = started
            if answer is None:
                answer = await loop.run_in_executor(self._pool, self._handle, request)
            if isinstance(answer, Future):
                answer = await asyncio.wrap_future(answer)
            if answer.waits:
                answer = await asyncio.wrap_future(when_done(answer))
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

    def call_when_done(self, answer: HttpResponse, then: Callable[[], None]) -> None:
        """Call `then` on the event loop once the answer's waits are done.

        The loop is woken once for all that are done together: of 32 clients that wait for one fsync, each wake-up
        would cost as much as the answer.
        """
        call_when_done(answer, lambda: self._tell(then))

    def _tell(self, then: Callable[[], None]) -> None:
        self._done.append(then)
        if not self._told and self._loop is not None:
            self._told = True
            self._loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        # First: whoever is done from here on tells again.
        self._told = False
        while self._done:
            self._done.popleft()()

    def next_chunk(self, body: Iterator[bytes]) -> Future[bytes | None]:
        """Take the next part of a streaming body on a thread; None at its end."""
        return self._pool.submit(next, body, None)


def _read(part: FileSlice) -> bytes:
    with part.file or part.path.open("rb") as file:
        return os.pread(file.fileno(), part.length_bytes, part.offset_bytes)
