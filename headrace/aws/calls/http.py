"""An HTTP request and an HTTP response, as the server and the gateway exchange them, without a socket."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import parse_qsl, unquote

import msgspec

from headrace.aws.calls.operation import Call, Pending, SharedWrite, Signer

# The header of an answer to a call that is accepted and has not, or not whole, the effect that it has on AWS.
WITHOUT_EFFECT = "x-headrace-without-effect"
READ_WHOLE_BELOW_BYTES = 1024 * 1024


class ChunkSignatures(Protocol):
    """Checks the signatures of one upload's chunks; each signature covers the one before."""

    def is_right(self, sha256: str, signature: str) -> bool:
        """Whether the next chunk, whose SHA-256 is given in hexadecimal, has this signature."""
        ...

    def is_right_trailer(self, trailers: bytes, signature: str) -> bool:
        """Whether the trailers, `name:value` and a line feed each, have this signature."""
        ...


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A response body: `length_bytes` of a file from `offset_bytes` on.

    `file` is the open file, when another file may replace it before it is sent; the sender of the body closes it.
    """

    path: Path
    offset_bytes: int
    length_bytes: int
    file: IO[bytes] | None = None


class WebSocket(Protocol):
    """The server's side of an open WebSocket. Thread-safe."""

    def send(self, data: str | bytes) -> bool:
        """Send a message; False when the connection has ended. Never waits."""
        ...

    def end(self) -> None:
        """End the connection."""
        ...


class WebSocketUser(Protocol):
    """What a WebSocket serves. Its methods are called in turn; the last two on threads, so that they may wait."""

    def opened(self, socket: WebSocket) -> None:
        """Take the open connection; never waits."""
        ...

    def received(self, message: str | bytes) -> None:
        """Take a message."""
        ...

    def closed(self, code: int, reason: str) -> None:
        """Note the end; 1006 without a word of the client's."""
        ...


DROPPED = 0

# An iterator runs on a thread of the server's pool. An asynchronous one runs on the event loop, must never block, and
# is closed when the client goes away.
Body = bytes | FileSlice | Iterator[bytes] | AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a request says about its signature; empty when it is unsigned. `credential_scopes` reads it.

    Attributes:
        access_key, date, region, service: the parts of the credential; empty when it is malformed.
        algorithm: such as `AWS4-HMAC-SHA256`; `AWS` for Signature Version 2.
        token: the session token; empty without one.
        credential: the whole text of the credential.
        is_query: the signature is in the query, not in the Authorization header.
        is_whole: an Authorization header has all components.
    """

    access_key: str = ""
    region: str = ""
    service: str = ""
    date: str = ""
    algorithm: str = ""
    token: str = field(default="", repr=False)
    credential: str = ""
    is_query: bool = False
    is_whole: bool = True


class NeedsThread(Exception):
    """A request that was to be answered on the event loop's thread may block; nothing has been changed."""


def _text(part: bytes | str) -> str:
    return part if isinstance(part, str) else part.decode("latin-1")


# A msgspec.Struct, as the answer and the `Call` are: it is made in less than half of a dataclass's time.
class HttpRequest(msgspec.Struct):
    """A request with its complete body.

    Attributes:
        path: percent-encoded, without the query.
        query: percent-encoded, without the question mark.
        headers: by lower-case name; a repeated header's values are joined with commas.
        body: empty when `body_file` is set.
        body_file: a body over 16 MiB, as a temporary file under the data directory. The receiver may move it; otherwise
            it is deleted after the answer.
        head: the request line and the header lines, or else the header fields, as the client wrote them; empty when
            only `headers` are known. `fields` reads it.
        scope: who signed it; `headrace.aws.signatures.credential_scopes.scope_of` sets it.
        service: botocore's name of the service; `ServiceNames.service_of` sets it.
        call: set by the gateway.
        signer: who signed a request to a resource's own endpoint; set by `Gateway.admit`, None for nobody.
        chunk_signatures: with `--auth`, checks the chunks of a body that is signed chunk by chunk.
        may_share: see `Call.may_share`.
        at_once: it is answered on the event loop's thread: whoever would have to wait raises `NeedsThread`.
    """

    method: str
    path: str
    query: str = ""
    headers: dict[str, str] = {}
    body: bytes = b""
    body_file: Path | None = None
    head: bytes | Sequence[tuple[bytes | str, bytes | str]] = b""
    scope: Scope | None = None
    service: str = ""
    call: Call | None = None
    signer: Signer | None = None
    chunk_signatures: ChunkSignatures | None = None
    may_share: bool = False
    at_once: bool = False

    @property
    def decoded_path(self) -> str:
        """The path without percent-encoding."""
        return unquote(self.path)

    def fields(self) -> list[tuple[str, str]]:
        """Return the header fields as the client wrote them: each with its own spelling, repeated ones too."""
        head = self.head
        if isinstance(head, bytes) and head:
            lines = [line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:]]
            return [(name, value.strip(" \t")) for name, _, value in lines]
        pairs = self.headers.items() if isinstance(head, bytes) else head
        return [(_text(name), _text(value).strip(" \t")) for name, value in pairs]

    def query_params(self) -> dict[str, str]:
        """Return the query's parameters; of a repeated one the last; `?acl` gives `{"acl": ""}`."""
        return dict(parse_qsl(self.query, keep_blank_values=True))


class HttpResponse(msgspec.Struct):
    """A response. The server adds Content-Length, or chunks an iterator.

    Status 0 drops the connection (in HTTP/2: resets the stream) without an answer, for fault injection.

    Attributes:
        waits: what must be done before the answer is sent, such as an fsync; see
        `headrace.aws.server.answers`. failure: returns the answer to send instead when one of `waits` failed.
        websocket: of an answer 101, what the connection serves from then on.
        shared: see `Call.shared`; only an answer to a request with `may_share` has one.
    """

    status: int
    headers: list[tuple[str, str]] = []
    body: Body = b""
    waits: list[Pending] | None = None
    failure: Callable[[], HttpResponse] | None = None
    websocket: WebSocketUser | None = None
    shared: SharedWrite | None = None


Answer = HttpResponse | Future[HttpResponse]
Handler = Callable[[HttpRequest], Answer]


def answer_in_memory(handler: Handler, request: HttpRequest) -> Answer:
    """Answer a request on a thread that may block, and read a short file body there. Raises OSError."""
    answer = handler(request)
    if isinstance(answer, HttpResponse):
        body = answer.body
        if isinstance(body, FileSlice) and body.length_bytes < READ_WHOLE_BELOW_BYTES:
            with body.file or body.path.open("rb") as file:
                answer.body = os.pread(file.fileno(), body.length_bytes, body.offset_bytes)
    return answer
