"""Listens on the socket and serves HTTP/1.1 and HTTP/2, on asyncio.

One event loop thread parses, answers what never blocks, and writes; the rest runs on a pool of threads.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import logging
import resource
import shutil
import socket
import ssl
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import cast

from headrace.aws.calls.http import (
    DROPPED,
    Answer,
    FileSlice,
    Handler,
    HttpRequest,
    HttpResponse,
    answer_in_memory,
)
from headrace.aws.calls.operation import SharedWrite
from headrace.aws.server.answers import (
    body_not_stored,
    busy,
    file_parts,
    internal_failure,
    iterator_parts,
)
from headrace.aws.server.connection import Connection, Exchange, Refuse
from headrace.aws.server.http1 import Http1Connection
from headrace.aws.server.request_body import Bodies, Bounds, NoMemoryForBody, RequestBody
from headrace.aws.server.thread_pool import FairPool, NoThread
from headrace.aws.server.tls import Tls

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
COMPLAIN_EVERY_S = 30.0
# From so many connections on, the answers of a turn are written together.
_MANY_CONNECTIONS = 8
_LARGEST_PUT_OFF_BYTES = 64 * 1024
# See `Server.write_at_turns_end`.
_PutOff = tuple[
    asyncio.Transport, bytes, SharedWrite | None, Callable[[HttpRequest], None], HttpRequest
]


def _succeeds(shared: SharedWrite) -> bool:
    """Return whether a shared write succeeds; a defect of one must not cost the others their answers."""
    try:
        return shared.write()
    except Exception:
        log.exception("a write that requests share failed")
        return False


def call_when_done(answer: HttpResponse, then: Callable[[], None]) -> None:
    """Call `then` when all waits of the answer are done, on the thread that finishes the last one.

    `then` must be quick: the thread that syncs for many requests delays all of them.
    """
    waits = answer.waits or []
    if len(waits) == 1:
        waits[0].add_done_callback(lambda _: then())
        return
    lock, left = threading.Lock(), len(waits)

    def one_done(_: object) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            then()

    for wait in waits:
        wait.add_done_callback(one_done)


def finish_waits(answer: HttpResponse) -> HttpResponse:
    """Return the answer to send now that its waits are done: the answer, or its failure when one of them failed."""
    waits, failure = answer.waits or [], answer.failure
    error = next((error for wait in waits if (error := wait.exception()) is not None), None)
    # A Future and its waiters refer to each other. The garbage collector would have to free such cycles, and would stop
    # all requests for tens of milliseconds, several times a second.
    waits.clear()
    answer.waits = answer.failure = None
    if error is None:
        return answer
    log.error("an answer's wait failed", exc_info=error)
    return failure() if failure is not None else HttpResponse(500)


def when_done(answer: HttpResponse) -> Future[HttpResponse]:
    """Return a Future of the answer to send once its waits are done."""
    done: Future[HttpResponse] = Future()
    # Whoever waits for it may be cancelled, as by a client that goes away; it gets its result all the same.
    done.set_running_or_notify_cancel()
    if answer.waits:
        call_when_done(answer, lambda: done.set_result(finish_waits(answer)))
    else:
        done.set_result(answer)
    return done


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket without accepting connections yet; port 0 takes a free port. Raises OSError.

    It listens already, so that early connections, such as from a restarted mapping's function, wait instead of being
    refused.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small parts of an answer at once only where the protocol is named: the second would wait 40 ms for
    # the client's delayed acknowledgement of the first.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(1024)
    except OSError:
        bound.close()
        raise
    return bound


class Server:
    """Listens on one address. `start` and `stop` run on the event loop's thread.

    `refuse` is called on the event loop's thread once a request's headers have arrived, so it must not block. It
    returns the answer (whose body is bytes, without waits), and then the request's body is not read; or None to accept
    the request. `service_of` names the service of a request; threads are shared among services. `answer_or_handler`
    answers an accepted request if it never blocks, and else returns the handler that answers it on a thread. `at_once`
    does the work of `refuse` and `answer_or_handler` for a complete request. They never raise. With `tls`, a connection
    that begins with a TLS handshake gets TLS.

    Attributes:
        now_s: the clock of connections, which advances by whole seconds. It stops while the process is suspended;
            otherwise a client that sent bytes meanwhile would be closed as idle.
        puts_off: see `RequestTaker.puts_off`.
    """

    def __init__(
        self,
        handle: Handler,
        *,
        is_inline: Callable[[HttpRequest], bool],
        temp_dir: Path,
        refuse: Refuse | None = None,
        service_of: Callable[[HttpRequest], str] | None = None,
        at_once: Callable[[HttpRequest], Answer | Handler] | None = None,
        answer_or_handler: Callable[[HttpRequest], Answer | Handler] | None = None,
        bounds: Bounds | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.bounds = bounds or Bounds()
        self.now_s = 0.0
        self._handle = handle
        self._is_inline = is_inline
        self.refuse = refuse
        self._service_of = service_of
        self._tls = tls
        self.answer_or_handler = answer_or_handler or self._answer_or_handler
        self.at_once = at_once or self._refuse_or_answer
        self.bodies = Bodies(temp_dir, self.bounds)
        self._pool = FairPool(
            self.bounds.threads,
            per_service=self.bounds.service_threads,
            per_owner=self.bounds.connection_threads,
            name="request",
        )
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self.puts_off = False
        # Connections whose clients do not read their answers as fast as they are written.
        self._behind: dict[Connection, int] = {}
        self._unsent_bytes = 0
        self._answering = 0
        self._complained_s: dict[str, float] = {}
        self._looking: asyncio.TimerHandle | None = None
        self._looked_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._done: deque[tuple[HttpResponse, Callable[[HttpResponse], None]]] = deque()
        self._told = False
        # An answer leaves at once; those that it lets a connection begin wait for the loop's next turn.
        self._is_telling = False
        # Answers that are written when the loop's turn ends.
        self._unwritten: list[_PutOff] = []

    async def start(self, bound: socket.socket) -> None:
        """Accept connections on a bound socket, which the server owns from then on."""
        # Files in this folder are incomplete bodies of an earlier process that was killed.
        shutil.rmtree(self.bodies.temp_dir, ignore_errors=True)
        self.bodies.temp_dir.mkdir(parents=True, exist_ok=True)
        # Leave file descriptors for shard logs and functions.
        most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most_files != resource.RLIM_INFINITY:
            most = min(self.bounds.connections, most_files // 2)
            self.bounds = replace(self.bounds, connections=most)
        self._loop = loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._server = await loop.create_server(
            lambda: Http1Connection(self), sock=bound, backlog=1024
        )

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
        if self._looking is not None:
            self._looking.cancel()
        for connection in list(self._connections):
            connection.close()
        self._pool.stop()

    def tls_context(self) -> ssl.SSLContext | None:
        """See `RequestTaker.tls_context`."""
        if self._tls is None:
            return None
        try:
            return self._tls.context()
        except OSError as error:
            self.warn_about_client("TLS is not served: %s", error)
            return None

    # --- connections --------------------------------------------------------------------------

    def opened(self, connection: Connection) -> bool:
        """Note a connection; False when there are too many, and none of them is idle."""
        has_room = self._make_room()
        self._connections.add(connection)
        self.puts_off = len(self._connections) >= _MANY_CONNECTIONS
        if self._looking is None and self._loop is not None:
            self._looked_s = self._loop.time()
            self._looking = self._loop.call_later(LOOK_EVERY_S, self._look_regularly)
        return has_room

    @property
    def is_overfull(self) -> bool:
        """Whether too many connections are open even for hearing what the newest one asks."""
        return len(self._connections) > self.bounds.connections + self.bounds.surplus

    def _make_room(self) -> bool:
        """Make room for one more connection; return False when no other is idle."""
        excess = len(self._connections) + 1 - self.bounds.connections
        if excess <= 0:
            return True
        before_s = self.now_s - self.bounds.busy_s
        idle = [
            connection
            for connection in self._connections
            if connection.is_idle and connection.idle_since_s <= before_s
        ]
        for connection in heapq.nsmallest(excess, idle, key=lambda each: each.idle_since_s):
            connection.close()
        if idle:
            self.warn_about_client(
                "idle connections are closed, because %d are open", self.bounds.connections
            )
        return len(idle) >= excess

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
        self.puts_off = len(self._connections) >= _MANY_CONNECTIONS
        self.is_behind(connection, 0)

    def is_behind(self, connection: Connection, unsent_bytes: int) -> None:
        """Note how many bytes of answers a connection's client has not read.

        When too many bytes wait in total, the connection with the most is closed: usually its client reads nothing.
        """
        self._unsent_bytes += unsent_bytes - self._behind.pop(connection, 0)
        if unsent_bytes:
            self._behind[connection] = unsent_bytes
        while self._unsent_bytes > self.bounds.unsent_bytes:
            worst = max(self._behind, key=self._behind.__getitem__)
            size_bytes = self._behind.pop(worst)
            self._unsent_bytes -= size_bytes
            self.warn_about_client(
                "a client is cut off because it left %d bytes of its answers unread", size_bytes
            )
            worst.abort()

    def warn_about_client(self, sentence: str, *arguments: object) -> None:
        """Log a warning about a client, at a limited rate, so that one client cannot fill the log."""
        before_s = self._complained_s.get(sentence)
        if before_s is None or self.now_s - before_s >= COMPLAIN_EVERY_S:
            self._complained_s[sentence] = self.now_s
            log.warning(sentence, *arguments)

    def _look_regularly(self) -> None:
        assert self._loop is not None
        now_s = self._loop.time()
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        self._looking = None
        if self._connections:
            self._looking = self._loop.call_later(LOOK_EVERY_S, self._look_regularly)
        self.look(min(passed_s, 2 * LOOK_EVERY_S))

    def look(self, passed_s: float) -> None:
        """Advance `now_s`, and end requests, answers and waits that have taken too long."""
        self.now_s += passed_s
        self.bodies.held.expire(self.now_s)
        for connection in list(self._connections):
            connection.look(self.now_s)

    # --- requests -----------------------------------------------------------------------------

    def refusal(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> HttpResponse | None:
        """Return the answer to a request that is refused by its headers; None when it is accepted."""
        if self.refuse is None:
            return None
        try:
            return self.refuse(method, f"{path}?{query}", headers)
        except Exception:
            log.exception("whether to refuse %s %s could not be told", method, path)
            return internal_failure()

    def _refuse_or_answer(self, request: HttpRequest) -> Answer | Handler:
        refusal = self.refusal(request.method, request.path, request.query, request.headers)
        return refusal or self.answer_or_handler(request)

    def _answer_or_handler(self, request: HttpRequest) -> Answer | Handler:
        if not self._is_inline(request):
            return self._handle
        try:
            return self._handle(request)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return internal_failure()

    async def answer(self, exchange: Exchange, owner: object) -> HttpResponse:
        """Run the request's handler, unless it already runs, and wait for the answer. Never raises.

        Returns DROPPED when the client left before the handler ran.
        """
        is_under_way = exchange.answer is not None and not callable(exchange.answer)
        if self._answering >= self.bounds.requests and not is_under_way:
            self.warn_about_client("requests are refused: %d are running", self._answering)
            return busy(exchange.request.headers)
        self._answering += 1
        try:
            return await self._answer(exchange, owner)
        except NoMemoryForBody:
            return busy(exchange.request.headers)
        except NoThread as error:
            self.warn_about_client("requests are refused: %s", error)
            return busy(exchange.request.headers)
        except asyncio.CancelledError:
            if not exchange.is_left:
                raise
            return HttpResponse(DROPPED)
        except Exception:
            request = exchange.request
            log.exception("%s %s failed", request.method, request.path)
            return internal_failure()
        finally:
            self._answering -= 1

    async def _answer(self, exchange: Exchange, owner: object) -> HttpResponse:
        request, answer = exchange.request, exchange.answer
        if answer is None or callable(answer):
            try:
                was_loaded = await self._hold_body(exchange)
            except OSError:
                log.exception("the body of %s %s cannot be held", request.method, request.path)
                return body_not_stored(request.headers)
            if was_loaded:
                answer = self.answer_or_handler(request)
        if answer is None or callable(answer):
            if exchange.is_left:
                return HttpResponse(DROPPED)
            handler = answer or self._handle
            service = self._service(request)
            exchange.job = self._pool.submit(owner, service, answer_in_memory, handler, request)
            answer = cast("Answer", await exchange.job.done)
        if isinstance(answer, Future):
            answer = await asyncio.wrap_future(answer)
        if answer.waits:
            answer = await asyncio.wrap_future(when_done(answer))
        return answer

    async def _hold_body(self, exchange: Exchange) -> bool:
        """Reserve memory for the body, load it; return whether this had to wait. Raises NoMemoryForBody, OSError."""
        request, body = exchange.request, exchange.body
        if body is None:
            if len(request.body) <= self.bounds.small_body_bytes:
                return False
            body = exchange.body = RequestBody(self.bodies)
            body.add(request.body)
            body.finish()
        had_to = body.must_load
        if had_to:
            request.body = b""
            await body.load(self.now_s)
        request.body, request.body_file = body.data, body.file
        return had_to

    async def run(self, owner: object, service: str, call: Callable[[], None]) -> None:
        """See `RequestTaker.run`."""
        if self._server is None or not self._server.is_serving():
            return  # it stops: nothing more is run
        await self._pool.submit(owner, service, call).done

    def call_when_done(self, answer: HttpResponse, then: Callable[[HttpResponse], None]) -> None:
        """Call `then` on the event loop with the answer to send once the answer's waits are done.

        The loop is woken once for all answers that are done together: with 32 clients waiting for one fsync, each
        wake-up would cost as much as the answer. With few clients an answer that is done on the loop's own thread
        leaves at once; a turn of the loop would cost a third of it.
        """
        call_when_done(answer, lambda: self._tell(answer, then))

    def _tell(self, answer: HttpResponse, then: Callable[[HttpResponse], None]) -> None:
        is_here = threading.get_ident() == self._thread
        if is_here and not (self.puts_off or self._is_telling):
            self._is_telling = True
            try:
                then(finish_waits(answer))
            finally:
                self._is_telling = False
            return
        self._done.append((answer, then))
        if not self._told and self._loop is not None:
            self._told = True
            # On the loop's own thread nobody has to be woken.
            (self._loop.call_soon if is_here else self._loop.call_soon_threadsafe)(self._go_on)

    def _go_on(self) -> None:
        # Reset first, so that an answer that is done from here on schedules the next round.
        self._told = False
        while self._done:
            answer, then = self._done.popleft()
            then(finish_waits(answer))

    def write_at_turns_end(
        self,
        transport: asyncio.Transport,
        data: bytes,
        shared: SharedWrite | None,
        answer_again: Callable[[HttpRequest], None],
        request: HttpRequest,
    ) -> None:
        """Write an answer once all requests that are there have been answered; see `RequestTaker`.

        Each write wakes a client, which then takes the processor from the requests that wait: with 32 clients, writing
        the answers of a turn together serves 13 % more requests. Few clients would only wait longer, and a large
        answer is not held beside others.
        """
        if shared is None and (not self.puts_off or len(data) > _LARGEST_PUT_OFF_BYTES):
            transport.write(data)
            return
        unwritten = self._unwritten
        if not unwritten:
            asyncio.get_running_loop().call_soon(self.write_unwritten)
        unwritten.append((transport, data, shared, answer_again, request))

    def write_unwritten(self) -> None:
        """Write now what `write_at_turns_end` has put off."""
        unwritten, self._unwritten = self._unwritten, []
        succeeded: set[SharedWrite] = set()
        for transport, data, shared, answer_again, request in unwritten:
            if shared is None or shared in succeeded:
                transport.write(data)
            elif _succeeds(shared):
                succeeded.add(shared)
                transport.write(data)
            else:
                answer_again(request)

    def parts(
        self, exchange: Exchange, owner: object, answer: HttpResponse
    ) -> AsyncGenerator[bytes, None]:
        """Return the parts of an answer body that is not bytes; the caller closes the generator."""
        body = answer.body
        if isinstance(body, FileSlice):
            return file_parts(body)
        if isinstance(body, AsyncGenerator):
            return body
        assert not isinstance(body, bytes)
        service = self._service(exchange.request)
        return iterator_parts(body, functools.partial(self._pool.submit, owner, service))

    def _service(self, request: HttpRequest) -> str:
        return "" if self._service_of is None else self._service_of(request)
