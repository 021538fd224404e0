"""The interfaces between a connection and its server, so that neither imports the other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol

from headrace.aws.bounds import Bounds
from headrace.aws.exchange import Exchange
from headrace.aws.http import Answer, Handler, HttpRequest, HttpResponse
from headrace.aws.request_body import Bodies

# Takes a request's method, its path with a question mark and its query, and its headers (as `HttpRequest.headers`).
Refuse = Callable[[str, str, Mapping[str, str]], HttpResponse | None]


class Connection(Protocol):
    """A connection as the server sees it. All on the event loop's thread."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being asked or answered, so that it may be closed to make room."""
        ...

    @property
    def idle_since_s(self) -> float:
        """When something last happened, by the server's `now_s`."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """The bytes of answers that the client has not taken."""
        ...

    def look(self, now_s: float) -> None:
        """Close, or answer, what has been waited for too long."""
        ...

    def close(self) -> None:
        """Close, after what was written is sent."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class Register(Protocol):
    """The server's list of open connections, which is all that a connection waiting for its end uses."""

    @property
    def bounds(self) -> Bounds:
        """How much of everything there may be, and for how long."""
        ...

    @property
    def now_s(self) -> float:
        """See `headrace.aws.server.Server`."""
        ...

    def opened(self, connection: Connection) -> bool:
        """Note a connection; False when there are too many, and none of them is idle."""
        ...

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        ...


class Receiver(Register, Protocol):
    """The part of the server that a connection uses while a request arrives."""

    @property
    def bodies(self) -> Bodies:
        """Where requests' bodies are kept."""
        ...

    def refusal(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> HttpResponse | None:
        """Return the answer to a request that goes no further than its headers; None when it goes on."""
        ...

    def complain(self, sentence: str, *arguments: object) -> None:
        """Warn of what a client does, once in a while."""
        ...


class Answerer(Receiver, Protocol):
    """All of the server that a connection uses to take requests and write their answers."""

    @property
    def at_once(self) -> Callable[[HttpRequest], Answer | Handler]:
        """Refuses a request that came whole, or answers it if it never blocks; else gives what does on a thread."""
        ...

    @property
    def answer_or_handler(self) -> Callable[[HttpRequest], Answer | Handler]:
        """Answers a request that is not refused, if it never blocks; else gives what does on a thread."""
        ...

    def is_behind(self, connection: Connection, unsent_bytes: int) -> None:
        """Note how much of its answers a connection's client has not taken."""
        ...

    async def answer(self, exchange: Exchange, owner: object) -> HttpResponse:
        """Run the handler where it may run, unless its answer is under way, and wait for it. Never raises."""
        ...

    def call_when_done(self, answer: HttpResponse, then: Callable[[], None]) -> None:
        """Call `then` on the event loop once the answer's waits are done."""
        ...

    def parts(
        self, exchange: Exchange, owner: object, answer: HttpResponse
    ) -> AsyncGenerator[bytes, None]:
        """Return the parts of an answer's body that is not bytes. To be closed by who takes them."""
        ...
