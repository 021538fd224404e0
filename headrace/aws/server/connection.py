"""The interfaces between a connection and its server, so that neither imports the other.

One request and its answer, and the resources that they hold: memory, files, a place in the queue.

Checks whether a text has the form of a Host header's value: a name or an address, and a port.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headrace.aws.calls.http import Answer, Handler, HttpRequest, HttpResponse
from headrace.aws.calls.operation import SharedWrite
from headrace.aws.server.request_body import Bodies, Bounds, RequestBody
from headrace.aws.server.thread_pool import Job

# A name or an address (RFC 3986's host, without the comma that a list of two would have), and a port.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._~%!$&'()*+;=-]*)(?::[0-9]{0,5})?")
_MOST_KEPT = 1000
# A cache of values that have this form; callers for which speed matters look here first.
WELL_FORMED: set[str | None] = set()


def is_host(value: str) -> bool:
    """Whether `value` is a valid Host header; an empty one is."""
    if value in WELL_FORMED:
        return True
    if _HOST.fullmatch(value) is None:
        return False
    if len(WELL_FORMED) < _MOST_KEPT:
        WELL_FORMED.add(value)
    return True


@dataclass(eq=False, slots=True)
class Exchange:
    """One request, its body and its answer. Used on the event loop's thread.

    Attributes:
        answer: the answer or its Future; or the handler that makes it on a thread; None before the request is handled.
        keep_alive: whether the connection stays open for further requests (HTTP/1.1).
        is_http10: whether the client speaks HTTP/1.0, which has no chunked bodies.
        lingers: whether the client sent bytes that were not read; see `headrace.aws.server.lingering`.
        is_left: the client is gone, so nothing waits for the answer.
        job: the queued or running call on a thread.
    """

    request: HttpRequest
    body: RequestBody | None = None
    answer: Answer | Handler | None = field(default=None, kw_only=True)
    keep_alive: bool = field(default=True, kw_only=True)
    is_http10: bool = field(default=False, kw_only=True)
    lingers: bool = field(default=False, kw_only=True)
    is_left: bool = field(default=False, init=False)
    job: Job | None = field(default=None, init=False)

    def leave(self) -> None:
        """Note that the client is gone: cancel the request unless it already runs."""
        self.is_left = True
        if self.job is not None:
            self.job.cancel()

    def release(self) -> None:
        """Release the resources of an answered request. Idempotent."""
        if self.body is not None:
            self.body.release()


# The first bytes of a client that speaks HTTP/2. They stand here, since h2 is imported for such a client only.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# A server's first and last frames: SETTINGS, and GOAWAY with ENHANCE_YOUR_CALM and no stream begun, so that a client
# sends its requests again on another connection.
CALM_DOWN = bytes.fromhex("000000040000000000000008070000000000000000000000000b")
# Takes a request's method, its path with a question mark and its query, and its headers (as `HttpRequest.headers`).
Refuse = Callable[[str, str, Mapping[str, str]], HttpResponse | None]


class Connection(Protocol):
    """A connection as the server sees it. All on the event loop's thread."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress, so that the connection may be closed to make room."""
        ...

    @property
    def idle_since_s(self) -> float:
        """The time of the last activity, by the server's `now_s`."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """How many bytes of answers the client has not read."""
        ...

    def look(self, now_s: float) -> None:
        """End requests and answers that have taken too long."""
        ...

    def close(self) -> None:
        """Close after the written bytes are sent."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class OpenConnections(Protocol):
    """The server's list of open connections: the part of the server that a lingering connection uses."""

    @property
    def bounds(self) -> Bounds:
        """The server's limits."""
        ...

    @property
    def now_s(self) -> float:
        """See `headrace.aws.server.server.Server`."""
        ...

    def opened(self, connection: Connection) -> bool:
        """Note a connection; False when there are too many, and none of them is idle."""
        ...

    @property
    def is_overfull(self) -> bool:
        """Whether too many connections are open even for hearing what the newest one asks."""
        ...

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        ...


class Receiver(OpenConnections, Protocol):
    """The part of the server that a connection uses while a request arrives."""

    @property
    def bodies(self) -> Bodies:
        """The storage of request bodies."""
        ...

    def refusal(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> HttpResponse | None:
        """Return the answer to a request that is refused by its headers; None when it is accepted."""
        ...

    def warn_about_client(self, sentence: str, *arguments: object) -> None:
        """Log a warning about a client, at a limited rate."""
        ...


class RequestTaker(Receiver, Protocol):
    """The part of the server that a connection uses to take requests and write their answers."""

    @property
    def at_once(self) -> Callable[[HttpRequest], Answer | Handler]:
        """Refuses a complete request, or answers it if it never blocks; else returns the handler for a thread."""
        ...

    @property
    def answer_or_handler(self) -> Callable[[HttpRequest], Answer | Handler]:
        """Answers a request that was not refused, if it never blocks; else returns the handler for a thread."""
        ...

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the context of clients that begin with a TLS handshake; None when they are not served."""
        ...

    def is_behind(self, connection: Connection, unsent_bytes: int) -> None:
        """Note how many bytes of answers a connection's client has not read."""
        ...

    @property
    def puts_off(self) -> bool:
        """Whether answers are put off to the turn's end: so many connections are open that it pays."""
        ...

    def write_at_turns_end(
        self,
        transport: asyncio.Transport,
        data: bytes,
        shared: SharedWrite | None,
        answer_again: Callable[[HttpRequest], None],
        request: HttpRequest,
    ) -> None:
        """Write an answer once all requests that are there have been answered.

        If the write that it shares fails, `answer_again` gets the request instead.
        """
        ...

    def write_unwritten(self) -> None:
        """Write now what `write_at_turns_end` has put off."""
        ...

    async def answer(self, exchange: Exchange, owner: object) -> HttpResponse:
        """Run the request's handler, unless it already runs, and wait for the answer. Never raises."""
        ...

    async def run(self, owner: object, service: str, call: Callable[[], None]) -> None:
        """Run a call on a thread, in its turn; not when the server stops. Raises what it raises, and NoThread."""
        ...

    def call_when_done(self, answer: HttpResponse, then: Callable[[HttpResponse], None]) -> None:
        """Call `then` on the event loop with the answer to send once the answer's waits are done."""
        ...

    def parts(
        self, exchange: Exchange, owner: object, answer: HttpResponse
    ) -> AsyncGenerator[bytes, None]:
        """Return the parts of an answer body that is not bytes; the caller closes the generator."""
        ...
