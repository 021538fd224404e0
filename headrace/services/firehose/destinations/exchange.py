"""Sends one HTTP request to a server outside the cloud, with limits on the answer's time and size.

The time limit is for the whole exchange, so a server that sends one byte a minute blocks nothing, and a stopping cloud
does not wait for a server. urllib's limit is only for each read.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

import httptools

from headrace.aws.calls.errors import AwsError
from headrace.deliveries.outside_http import own_answer

# How often a wait checks whether the cloud stops.
_LOOK_EVERY_S = 0.25
_CHUNK_BYTES = 1 << 18
# The limit of an answer's head, which is kept in memory.
_HEAD_BYTES = 1 << 18
# The limit for connecting, and for the TLS handshake.
_CONNECT_WITHIN_S = 10.0


class ExchangeFailed(Exception):
    """There is no answer; the message says why. The server may have acted on the request."""


class ConnectFailed(ExchangeFailed):
    """No connection: the name, the address or the port is wrong, or no server listens."""


class HandshakeFailed(ExchangeFailed):
    """The server has no trusted certificate (`is_unverified`), or does not speak TLS."""

    def __init__(self, message: str, *, is_unverified: bool) -> None:
        super().__init__(message)
        self.is_unverified = is_unverified


class ConnectionLost(ExchangeFailed):
    """The connection ended before the end of the answer."""


class TimedOut(ExchangeFailed):
    """The answer was not complete in time."""


class AnswerTooLarge(ExchangeFailed):
    """The answer exceeds the size limit."""


class NotHttp(ExchangeFailed):
    """The server's answer is not HTTP."""


class Stopped(ExchangeFailed):
    """The cloud stops; the exchange is abandoned."""


@dataclass(slots=True)
class Answer:
    """A server's answer. The names in `headers` are in lower case; of a repeated header, the last value is kept."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an exchange: total seconds, bytes of the answer's body, and the stop of the cloud."""

    within_s: float
    answer_bytes: int
    stopping: threading.Event


def exchange(
    method: str, url: str, headers: Mapping[str, str], body: bytes, limits: Limits
) -> Answer:
    """Send one request on a new connection and return the answer, whatever its status; follow no redirect.

    Time is the machine's, not the cloud's, because the network runs in real time. Raises ExchangeFailed. Thread-safe.
    """
    try:
        own = own_answer(method, url, body, headers)
    except AwsError as error:
        raise ConnectFailed(f"{error.message}.") from error
    if own is not None:
        status, answered, content = own
        return Answer(status, {name.lower(): value for name, value in answered}, content)
    parts = urlsplit(url)
    deadline_s = time.monotonic() + limits.within_s
    wait = _Wait(deadline_s, limits.stopping)
    with _connect(parts, wait) as connection:
        reading = _Reading(connection, limits.answer_bytes, wait, is_head=method == "HEAD")
        try:
            _send(connection, _head(method, parts, headers, len(body)), wait)
            _send(connection, body, wait)
        except ConnectionLost:
            # A server that refuses a body may answer and close before it has read everything.
            return reading.answer()
        return reading.answer()


class _Wait:
    """The time left to wait for a socket."""

    def __init__(self, deadline_s: float, stopping: threading.Event) -> None:
        self._deadline_s = deadline_s
        self._stopping = stopping

    def slice_s(self) -> float:
        """Return the length of the next wait. Raises TimedOut, Stopped."""
        if self._stopping.is_set():
            raise Stopped("The cloud stops.")
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimedOut("There was no whole answer in time.")
        return min(left_s, _LOOK_EVERY_S)

    def connect_s(self) -> float:
        """Return how long connecting may take."""
        return min(_CONNECT_WITHIN_S, max(0.001, self._deadline_s - time.monotonic()))


def _connect(parts: SplitResult, wait: _Wait) -> socket.socket:
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        connection = socket.create_connection((host, port), timeout=wait.connect_s())
    except TimeoutError as error:
        raise TimedOut(f"{host}:{port} did not take a connection in time.") from error
    except (OSError, UnicodeError) as error:
        raise ConnectFailed(f"No connection to {host}:{port}: {error}.") from error
    if parts.scheme != "https":
        return connection
    try:
        # OpenSSL reads the user's own certificates from SSL_CERT_FILE.
        return ssl.create_default_context().wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        connection.close()
        raise HandshakeFailed(error.verify_message, is_unverified=True) from error
    except (OSError, ValueError) as error:
        connection.close()
        raise HandshakeFailed(
            f"{host}:{port} makes no TLS: {error}.", is_unverified=False
        ) from error


def _head(method: str, parts: SplitResult, headers: Mapping[str, str], length: int) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc.rpartition("@")[2]
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name}: {_remove_line_ends(value)}" for name, value in headers.items()]
    if length or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


def _remove_line_ends(value: str) -> str:
    """Return a header's value without line ends: access keys and attributes are the client's text."""
    return value.replace("\r", " ").replace("\n", " ").replace("\0", " ")


def _send(connection: socket.socket, data: bytes, wait: _Wait) -> None:
    view = memoryview(data)
    while view:
        part = view[:_CHUNK_BYTES]
        view = view[_call_when_ready(connection, wait, lambda part=part: connection.send(part)) :]


def _call_when_ready(connection: socket.socket, wait: _Wait, act: Callable[[], int]) -> int:
    """Run a non-blocking call as soon as the socket is ready; return its result. Raises ExchangeFailed."""
    while True:
        connection.settimeout(wait.slice_s())
        try:
            return act()
        except (TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            continue
        except OSError as error:
            raise ConnectionLost(f"The connection ended: {error}.") from error


class _Reading:
    """Reads one answer; httptools calls the methods that begin with `on_`."""

    def __init__(
        self, connection: socket.socket, most_bytes: int, wait: _Wait, *, is_head: bool
    ) -> None:
        self._connection = connection
        self._most_bytes = most_bytes
        self._wait = wait
        self._is_head = is_head
        self._answer = Answer()
        self._body = bytearray()
        self._head_bytes = 0
        self._in_body = False
        self._is_done = False
        self._parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        # An interim answer (100 Continue) comes before the real one.
        self._is_done = self._answer.status >= 200

    def answer(self) -> Answer:
        """Return the answer. Raises ExchangeFailed."""
        buffer = bytearray(_CHUNK_BYTES)
        while not self._is_done:
            count = _call_when_ready(
                self._connection, self._wait, lambda: self._connection.recv_into(buffer)
            )
            if not count:
                self._end()
                break
            try:
                self._parser.feed_data(bytes(memoryview(buffer)[:count]))
            except httptools.HttpParserError as error:
                # Ignore anything after a complete answer.
                if self._is_done:
                    break
                raise NotHttp(f"The answer is no HTTP: {error}.") from error
            self._check_size(count)
            if self._is_head and self._in_body:
                break
        self._answer.body = bytes(self._body)
        return self._answer

    def _check_size(self, count: int) -> None:
        if not self._in_body:
            self._head_bytes += count
        if len(self._body) > self._most_bytes or self._head_bytes > _HEAD_BYTES:
            raise AnswerTooLarge(f"The answer has more than {self._most_bytes} bytes.")

    def _end(self) -> None:
        """Check an answer at the connection's end: it is complete only if it had no length."""
        if not self._in_body:
            raise ConnectionLost("The connection ended before the answer.")
        headers = self._answer.headers
        if "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower():
            raise ConnectionLost("The connection ended in the answer.")
