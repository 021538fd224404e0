"""Reads requests from the bytes of an HTTP/1.1 connection, by httptools: request line, headers, body.

An ambiguous request is refused, never guessed at: when two servers read one request differently, one client's bytes can
become another client's request (request smuggling). The parser (llhttp, by httptools) refuses a Content-Length beside a
Transfer-Encoding, two Content-Lengths, folded lines, bare LF, spaces before the colon and invalid chunk sizes; this
module implements the rules that the parser leaves to its user. Source: RFC 9112, 3.2, 6.1 and 7.1.2.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import httptools

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.server.answers import (
    body_late,
    body_not_stored,
    body_too_large,
    internal_failure,
    plain,
)
from headrace.aws.server.connection import Exchange, Receiver, is_host
from headrace.aws.server.request_body import MAX_BODY_BYTES, BodyTooLarge, Bounds, RequestBody

log = logging.getLogger(__name__)

# When a request is refused by its headers, a body up to this size is read and dropped, so that the connection can be
# used again; for a larger one the connection is closed.
MAX_UNWANTED_BODY_BYTES = 64 * 1024
# The most bytes that a chunk's size and line ends take.
FRAMING_BYTES_A_CHUNK = 16


# Stands for the parser of a connection until it is needed, and again once the connection is closed.
_NO_PARSER = httptools.HttpRequestParser(object())


class BadRequest(Exception):
    """The request is refused, and its connection closed, since the start of the next request is unknown.

    Attributes:
        status: the HTTP status.
        message: what is wrong, for a person who debugs the client.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class _BodyUnwanted(Exception):
    """The request is refused without waiting for its body."""


class RequestHead:
    """A request's line and header fields, as the parser finds them.

    Attributes:
        headers: by lower-case name; a repeated header's values are joined with commas.
        fields: the header fields, as the client wrote them.
        method, path, query: as in `HttpRequest`, once the head is complete.
        version: `1.0` or `1.1`, once the head is complete.
        length: the Content-Length, once the head is complete; None without one.
        chunked: whether the body is chunked, once the head is complete.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.headers: dict[str, str] = {}
        self.fields: list[tuple[bytes, bytes]] = []
        self.method = "GET"
        self.version = "1.1"
        self.path = ""
        self.query = ""
        self.length: int | None = None
        self.chunked = False
        self._bounds = bounds
        self._url = b""
        self._size_bytes = 0
        self._hosts = 0

    def add_target(self, target: bytes) -> None:
        """Add a part of the request line's target. Raises BadRequest."""
        self._url += target
        self._grow(len(target))

    def add_header(self, name: bytes, value: bytes) -> None:
        """Add a header field. Raises BadRequest."""
        self._grow(len(name) + len(value))
        self.fields.append((name, value))
        key = name.decode("latin-1").lower()
        if key == "host":
            self._hosts += 1
        text = value.decode("latin-1").strip(" \t")  # llhttp keeps trailing blanks
        known = self.headers.get(key)
        self.headers[key] = text if known is None else f"{known},{text}"

    def _grow(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        if self._size_bytes > self._bounds.head_bytes or len(self.fields) >= self._bounds.headers:
            raise BadRequest(431, "request header fields too large")

    def complete(self, method: str, version: str) -> None:
        """Check the complete head. Raises BadRequest."""
        self.method, self.version = method, version
        if version not in ("1.0", "1.1"):
            raise BadRequest(505, "HTTP/1.1, HTTP/1.0 and HTTP/2 are spoken here")
        if method == "CONNECT":
            raise BadRequest(501, "this server is not a proxy")
        if self._hosts > 1 or (version == "1.1" and self._hosts == 0):
            raise BadRequest(400, "a request has one Host header")
        self._take_target(method)
        if not is_host(self.headers.get("host", "")):
            raise BadRequest(400, "the Host header is not a host and a port")
        coding = self.headers.get("transfer-encoding")
        if coding is not None and version == "1.0":
            raise BadRequest(400, "HTTP/1.0 has no Transfer-Encoding")
        if coding is not None and coding.lower() != "chunked":
            raise BadRequest(501, "the only Transfer-Encoding known is chunked")
        self.chunked = coding is not None
        length = self.headers.get("content-length")
        self.length = (
            None if length is None else int(length)
        )  # the parser has checked that these are digits

    def without_offer(self) -> bytes:
        """Return the bytes of a head with the same body and connection headers that offers no other protocol."""
        lines = ["POST / HTTP/1.1"]
        if self.chunked:
            lines.append("Transfer-Encoding: chunked")
        else:
            lines.append(f"Content-Length: {self.length or 0}")
        if "close" in self.headers.get("connection", "").lower():
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode()

    def _take_target(self, method: str) -> None:
        self.path, _, self.query = self._url.decode("latin-1").partition("?")
        if self.path.startswith("/") or (self.path == "*" and method == "OPTIONS"):
            return
        # Absolute form, as to a proxy: its host overrides the Host header (RFC 9112, 3.2.2).
        scheme, separator, rest = self._url.decode("latin-1").partition("://")
        if not separator or scheme.lower() not in ("http", "https"):
            raise BadRequest(400, "the request's target is neither a path nor a URL")
        location, _, self.query = rest.partition("?")
        authority, slash, path = location.partition("/")
        if not authority or "@" in authority:
            raise BadRequest(400, "the request's target has no proper host")
        self.headers["host"] = authority
        self.path = slash + path or "/"


@dataclass(eq=False, slots=True)
class RequestReader:
    """Reads the requests of one connection as they arrive. Runs on the event loop's thread.

    The `on_...` methods are httptools' callbacks.

    Attributes:
        ready: requests that are complete, or whose answer is already known.
        rest: the bytes after a request that offers another protocol, which must be fed again.
        body_left_bytes: how many bytes of a body of known length are still to come.
        is_arriving: whether a part of a request has arrived.
        since_s: when the last bytes arrived, by the server's clock.
    """

    _server: Receiver
    _say_continue: Callable[[], None]
    ready: deque[Exchange] = field(default_factory=deque[Exchange])
    rest: bytes = b""
    body_left_bytes: int = 0
    is_arriving: bool = False
    since_s: float = 0.0
    # Made for the first request that is not usual. It and this listener refer to each other, until `close`.
    _parser: httptools.HttpRequestParser = _NO_PARSER
    _head: RequestHead | None = None
    _body: RequestBody | None = None
    # Bytes of the body that are parsed and not yet in `_body`.
    _pieces: list[bytes] = field(default_factory=list[bytes])
    _refusal: HttpResponse | None = None
    # When the head began to arrive, by the server's clock; None while none is arriving.
    _head_since_s: float | None = None
    _head_fed_bytes: int = 0
    _framing_bytes: int = 0
    # Whether the parser gets a head for the second time.
    _is_repeated: bool = False

    @property
    def method(self) -> str:
        """The method of the request that is arriving; GET while there is none."""
        return "GET" if self._head is None else self._head.method

    def await_head(self) -> None:
        """Start the time limit for a head: bytes that may begin one have arrived."""
        if not self.is_arriving:
            self.is_arriving, self._head_since_s = True, self._server.now_s

    def feed(self, data: bytes) -> HttpResponse | None:
        """Parse new bytes; return the connection's last answer when it must be closed."""
        self.await_head()
        self.since_s = self._server.now_s
        arriving = self._body
        had_bytes = 0 if arriving is None else arriving.size_bytes
        if self._parser is _NO_PARSER:
            self._parser = httptools.HttpRequestParser(self)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_offer(data[cast("int", upgrade.args[0]) :])
            return None
        except httptools.HttpParserCallbackError as error:
            return self._refusal or self._answer_to(error.__context__)
        except httptools.HttpParserError:
            return plain(400, "bad request")
        # Bound the bytes that the parser buffers or skips without a callback: an endless header field, or chunk
        # extension.
        if self._head_since_s is not None:
            self._head_fed_bytes += len(data)
            if (
                self._head_fed_bytes
                > self._server.bounds.head_bytes + self._server.bounds.turn_bytes
            ):
                return plain(431, "request header fields too large")
        elif (body := self._body) is not None:
            try:
                if self._pieces:
                    self._store_pieces(body)
            except (BodyTooLarge, OSError) as error:
                return self._answer_to(error)
            if body is arriving:
                return self._count_framing(len(data), body.size_bytes - had_bytes)
        return None

    def _answer_to(self, error: BaseException | None) -> HttpResponse:
        """Return the answer to a request for which a callback raised an error."""
        headers = {} if self._head is None else self._head.headers
        match error:
            case BadRequest():
                return plain(error.status, error.message)
            case BodyTooLarge():
                return body_too_large(headers)
            case OSError():
                self._server.warn_about_client("a request's body cannot be stored: %s", error)
                return body_not_stored(headers)
            case _:
                log.error("a request cannot be read", exc_info=error)
                return internal_failure()

    def _decline_offer(self, rest: bytes) -> None:
        """Continue in HTTP/1.1 after a client has offered to upgrade to another protocol; a client must expect this.

        Java's own client offers HTTP/2 in its first request (RFC 9110, 7.8). The parser treats such a request as the
        connection's last; the bytes after it may be its body, and must not be read as a request.
        """
        self.rest = rest
        self._parser = httptools.HttpRequestParser(self)
        if self._head is not None:
            self._is_repeated = True
            self._parser.feed_data(self._head.without_offer())
            self._is_repeated = False

    def _count_framing(self, fed_bytes: int, body_bytes: int) -> HttpResponse | None:
        """Return the last answer when chunk framing outweighs the body too much; None to continue."""
        extra_bytes = fed_bytes - 3 * body_bytes
        self._framing_bytes = max(0, self._framing_bytes + extra_bytes)
        if self._framing_bytes > self._server.bounds.framing_bytes:
            return plain(400, "too little body between chunk extensions")
        return None

    def late(self, now_s: float) -> tuple[bool, HttpResponse | None]:
        """Return whether a time limit has passed, and the connection's last answer, if there is one."""
        if self._head_since_s is not None:
            is_late = now_s - self._head_since_s > self._server.bounds.head_s
            # No answer before a request has begun: the client could take it for the answer to its next request.
            return is_late, None if self._head is None else plain(408, "no header fields came")
        if self._head is None or now_s - self.since_s <= self._server.bounds.body_idle_s:
            return False, None
        return True, body_late(self._head.headers)

    def forget(self) -> None:
        """Release the resources of a request that will never be complete."""
        if self._body is not None:
            self._body.release()
        self._head = self._body = self._refusal = self._head_since_s = None
        self.is_arriving = False
        self._pieces.clear()
        self.body_left_bytes = 0

    def close(self) -> None:
        """Stop reading."""
        self.forget()
        self._parser = _NO_PARSER
        for exchange in self.ready:
            exchange.release()
        self.ready.clear()

    # --- httptools ----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_repeated:
            return
        self._head, self.is_arriving = RequestHead(self._server.bounds), True
        if self._head_since_s is None:
            self._head_since_s = self.since_s

    def on_url(self, url: bytes) -> None:
        if self._head is not None and not self._is_repeated:
            self._head.add_target(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer after the body is not a header field (RFC 9110, 6.5.1): the request was checked without it.
        if self._head is not None and self._body is None:
            self._head.add_header(name, value)

    def on_headers_complete(self) -> None:
        arrived = self._head
        if self._is_repeated or arrived is None:
            return
        self._head_since_s, self._head_fed_bytes = None, 0
        method = self._parser.get_method().decode("ascii")
        arrived.complete(method, self._parser.get_http_version())
        length = arrived.length or 0
        expects = arrived.headers.get("expect", "").lower() == "100-continue"
        self._refusal = self._server.refusal(method, arrived.path, arrived.query, arrived.headers)
        if self._refusal is not None and (
            expects or arrived.chunked or length > MAX_UNWANTED_BODY_BYTES
        ):
            raise _BodyUnwanted
        if length > MAX_BODY_BYTES:
            raise BodyTooLarge
        self._body = RequestBody(self._server.bodies)
        self.body_left_bytes = length
        self._framing_bytes = 0
        if expects and (arrived.chunked or length):
            self._say_continue()

    def on_chunk_header(self) -> None:
        self._framing_bytes -= FRAMING_BYTES_A_CHUNK

    def on_body(self, body: bytes) -> None:
        self.body_left_bytes = max(0, self.body_left_bytes - len(body))
        if self._refusal is None:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        arrived, body = self._head, self._body
        assert arrived is not None
        assert body is not None
        if self._parser.should_upgrade() and (arrived.length or arrived.chunked):
            return  # the body is yet to come: see _decline_offer
        self._store_pieces(body)
        body.finish()
        request = HttpRequest(
            method=arrived.method,
            path=arrived.path,
            query=arrived.query,
            headers=arrived.headers,
            body=body.data,
            body_file=body.file,
            head=arrived.fields,
        )
        keep_alive = arrived.version == "1.1" and self._parser.should_keep_alive()
        exchange = Exchange(
            request,
            body,
            keep_alive=keep_alive,
            answer=self._refusal,
            is_http10=arrived.version == "1.0",
        )
        self._head = self._body = self._refusal = None
        self.is_arriving = False
        self.ready.append(exchange)

    def _store_pieces(self, body: RequestBody) -> None:
        """Add the parsed bytes to the body. Raises BodyTooLarge and OSError."""
        for piece in self._pieces:
            body.add(piece)
        self._pieces.clear()
