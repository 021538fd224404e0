"""Requests to one AWS JSON service over a kept connection: what botocore does per request, without its cost.

A `Wire` has one connection and sends one request at a time. It signs with signature version 4 (documented:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html), reads HTTP/1.1, and goes
through a proxy where the environment names one. It retries nothing but a kept connection that the server had closed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from headrace.client import cbor
from headrace.client.access import AwsAccess
from headrace.client.pages import Keys, is_here

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0
_RECEIVE_BYTES = 1 << 18
_COPIED_BYTES = 1 << 16
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_DATE = re.compile(rb"\r\ndate: *([^\r]+)", re.IGNORECASE)
_SIGNED = "content-type;host;x-amz-date;x-amz-target"
JSON, CBOR = "application/x-amz-json-1.1", "application/x-amz-cbor-1.1"
_CLOCK_ERRORS = frozenset(
    {"InvalidSignatureException", "RequestTimeTooSkewed", "SignatureDoesNotMatch"}
)
_KEY_ERRORS = frozenset({"ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException"})
_WORST_SKEW_S = 240


class WireError(Exception):
    """A request got no answer that can be read; whether it was executed is unknown. The message is one sentence."""


class NotSent(WireError):
    """There is no connection: the request was not executed."""


class ServiceError(Exception):
    """The service refused a request.

    Attributes:
        code: AWS's code, such as `ProvisionedThroughputExceededException`.
        message: AWS's sentence.
        status: the HTTP status.
    """

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status = code, message, status

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed later: a throttle, the service's fault, keys that were renewed."""
        return self.status >= 500 or self.code in _PASSING


_PASSING = _KEY_ERRORS | {
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "Throttling",
    "RequestLimitExceeded",
    "LimitExceededException",
    "KMSThrottlingException",
    "InternalFailure",
    "InternalFailureException",
    "ServiceUnavailable",
    "RequestTimeTooSkewed",
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go, and how they are signed."""

    url: str
    region: str
    service: str
    prefix: str

    @classmethod
    def kinesis(cls, access: AwsAccess) -> Target:
        """Return Kinesis as botocore finds it."""
        if access.endpoint_url and access.region:
            url, region = access.endpoint_url.rstrip("/"), access.region
            return cls(url, region, "kinesis", "Kinesis_20131202.")
        client = access.client("kinesis")
        return cls(client.meta.endpoint_url, str(access.region), "kinesis", "Kinesis_20131202.")


class Wire:
    """One connection to a service. Not thread-safe: each thread has its own."""

    def __init__(self, access: AwsAccess, target: Target) -> None:
        """This sends nothing yet."""
        parts = urlsplit(target.url)
        self._access, self._target = access, target
        self._host, self._tls = parts.hostname or "", parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._header_host = parts.netloc.rpartition("@")[2]
        self._path = parts.path or "/"
        self._socket: socket.socket | None = None
        self._signing_key = (("", ""), b"")
        self._signed_second = (0, "", "")
        self._skew_s = 0

    def call(self, action: str, body: bytes, content_type: str = JSON) -> bytes:
        """Send a request and return the body of its answer.

        Raises:
            ServiceError: the service refused it.
            WireError: there is no answer; it may have been executed.
        """
        status, head, answer = self._exchange(action, body, content_type)
        if status == 200:
            return answer
        error = service_error(status, answer)
        if self._mend(error, head):
            status, _, answer = self._exchange(action, body, content_type)
            if status == 200:
                return answer
            error = service_error(status, answer)
        raise error

    def open(self, action: str, body: bytes) -> Callable[[], bytes]:
        """Send a request whose answer is a stream; return what reads its next bytes, b"" at the end.

        The connection belongs to the stream until `close`. Raises as `call`, and so does the returned function.
        """
        connection = self._connect()
        try:
            _send_all(connection, self._head(action, body, JSON), body)
            received = bytearray()
            while (end := received.find(b"\r\n\r\n")) < 0:
                received += self._receive(connection)
        except OSError as error:
            self.close()
            raise WireError(self._sentence(error)) from error
        head = bytes(received[: end + 2])
        status = int(head[9:12])
        rest = bytes(received[end + 4 :])
        if status != 200:
            raise service_error(status, self._body(connection, head, rest))
        return _Chunks(self, connection, rest, chunked=bool(_CHUNKED.search(head))).read

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        connection, self._socket = self._socket, None
        if connection is not None:
            # A thread that waits for bytes is woken by this, and not by closing alone.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _exchange(self, action: str, body: bytes, content_type: str) -> tuple[int, bytes, bytes]:
        message = self._head(action, body, content_type), body
        was_kept = self._socket is not None
        try:
            return self._send(self._socket or self._connect(), *message)
        except _ClosedBeforeAnswer:
            self.close()
            if not was_kept:
                raise
        except BaseException:
            # An answer may be half read: it must not be taken for the next one's.
            self.close()
            raise
        # The server had closed the kept connection: it has not seen this request, or not read it.
        try:
            return self._send(self._connect(), *message)
        except BaseException:
            self.close()
            raise

    def _send(
        self, connection: socket.socket, request_head: bytes, request_body: bytes
    ) -> tuple[int, bytes, bytes]:
        try:
            _send_all(connection, request_head, request_body)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError) as error:
            raise _ClosedBeforeAnswer(self._sentence(error)) from error
        except OSError as error:
            raise WireError(self._sentence(error)) from error
        try:
            received = connection.recv(_RECEIVE_BYTES)
        except (ConnectionResetError, ssl.SSLEOFError) as error:
            raise _ClosedBeforeAnswer(self._sentence(error)) from error
        except OSError as error:
            raise WireError(self._sentence(error)) from error
        if not received:
            raise _ClosedBeforeAnswer(f"{self._target.url} closed the connection")
        try:
            while (end := received.find(b"\r\n\r\n")) < 0:
                received += self._receive(connection)
            head = received[: end + 2]
            status = int(head[9:12])
            body = self._body(connection, head, received[end + 4 :])
        except OSError as error:
            raise WireError(self._sentence(error)) from error
        except ValueError as error:
            raise WireError(f"{self._target.url} does not speak HTTP") from error
        if _CLOSES.search(head):
            self.close()
        return status, head, body

    def _body(self, connection: socket.socket, head: bytes, rest: bytes) -> bytes:
        length = _LENGTH.search(head)
        if length is not None:
            missing = int(length[1]) - len(rest)
            parts = [rest]
            while missing > 0:
                part = self._receive(connection)
                parts.append(part)
                missing -= len(part)
            return b"".join(parts) if len(parts) > 1 else rest
        if _CHUNKED.search(head):
            read = _Chunks(self, connection, rest, chunked=True).read
            return b"".join(iter(read, b""))
        return b""

    def _receive(self, connection: socket.socket) -> bytes:
        part = connection.recv(_RECEIVE_BYTES)
        if not part:
            raise WireError(f"{self._target.url} closed the connection within an answer")
        return part

    def _connect(self) -> socket.socket:
        self.close()
        try:
            connection = self._dial()
            if self._tls:
                connection = _tls_context().wrap_socket(connection, server_hostname=self._host)
        except OSError as error:
            raise NotSent(self._sentence(error)) from error
        connection.settimeout(READ_TIMEOUT_S)
        self._socket = connection
        return connection

    def _dial(self) -> socket.socket:
        proxy = _proxy_of(self._target.url, self._host, is_tls=self._tls)
        host, port = (self._host, self._port) if proxy is None else proxy
        connection = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if proxy is not None:
            where = f"{self._host}:{self._port}"
            connection.sendall(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += self._receive(connection)
            if answer[9:12] != b"200":
                connection.close()
                raise WireError(f"the proxy {host}:{port} refused a connection to {where}")
        return connection

    def _sentence(self, error: OSError) -> str:
        return (
            f"no answer from {self._target.url}: {error.strerror or error or type(error).__name__}"
        )

    def _mend(self, error: ServiceError, head: bytes) -> bool:
        """Renew the keys, or take the server's clock, after a refusal that names them; return whether to try again."""
        if error.code in _KEY_ERRORS:
            self._access.drop_keys()
            return True
        date = _DATE.search(head)
        if error.code not in _CLOCK_ERRORS or date is None:
            return False
        # Imported by the first clock that is wrong.
        from email.utils import parsedate_to_datetime

        server_s = int(parsedate_to_datetime(date[1].decode()).timestamp())
        skew_s = server_s - time.time_ns() // 1_000_000_000
        if abs(skew_s - self._skew_s) < _WORST_SKEW_S:
            return False
        self._skew_s, self._signed_second = skew_s, (0, "", "")
        return True

    def _head(self, action: str, body: bytes, content_type: str) -> bytes:
        keys = self._access.keys()
        target = self._target.prefix + action
        stamp, day = self._time()
        signed = _SIGNED
        lines = f"content-type:{content_type}\nhost:{self._header_host}\nx-amz-date:{stamp}\n"
        token = ""
        if keys.token:
            signed = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
            lines += f"x-amz-security-token:{keys.token}\n"
            token = f"X-Amz-Security-Token: {keys.token}\r\n"
        digest = hashlib.sha256(body).hexdigest()
        canonical = f"POST\n{self._path}\n\n{lines}x-amz-target:{target}\n\n{signed}\n{digest}"
        scope = f"{day}/{self._target.region}/{self._target.service}/aws4_request"
        whole = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{whole}"
        signature = hmac.digest(self._key(keys, day), text.encode(), "sha256").hex()
        return (
            f"POST {self._path} HTTP/1.1\r\nHost: {self._header_host}\r\nContent-Type: {content_type}\r\n"
            f"X-Amz-Target: {target}\r\nX-Amz-Date: {stamp}\r\n{token}"
            f"Authorization: AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, "
            f"SignedHeaders={signed}, Signature={signature}\r\nUser-Agent: headrace-client\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()

    def _time(self) -> tuple[str, str]:
        second = time.time_ns() // 1_000_000_000 + self._skew_s
        if second != self._signed_second[0]:
            moment = time.gmtime(second)
            self._signed_second = (
                second,
                time.strftime("%Y%m%dT%H%M%SZ", moment),
                time.strftime("%Y%m%d", moment),
            )
        return self._signed_second[1:]

    def _key(self, keys: Keys, day: str) -> bytes:
        if self._signing_key[0] != (keys.secret, day):
            key = f"AWS4{keys.secret}".encode()
            for part in (day, self._target.region, self._target.service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._signing_key = ((keys.secret, day), key)
        return self._signing_key[1]


class _ClosedBeforeAnswer(WireError):
    """The server closed the connection before the first byte of an answer."""


class _Chunks:
    """The body of an answer, chunk by chunk (RFC 9112, 7.1)."""

    def __init__(
        self, wire: Wire, connection: socket.socket, received: bytes, *, chunked: bool
    ) -> None:
        self._wire, self._connection, self._received = wire, connection, received
        self._chunked, self._ended = chunked, False

    def read(self) -> bytes:
        """Return the next bytes, b"" at the end. Raises WireError."""
        if self._ended:
            return b""
        try:
            return self._next_chunk() if self._chunked else self._next_bytes()
        except (OSError, ValueError) as error:
            self._wire.close()
            raise WireError(f"an answer stopped: {error}") from error

    def _next_bytes(self) -> bytes:
        part, self._received = self._received, b""
        part = part or self._connection.recv(_RECEIVE_BYTES)
        self._ended = not part
        return part

    def _next_chunk(self) -> bytes:
        while (line_end := self._received.find(b"\r\n")) < 0:
            self._more()
        length = int(self._received[:line_end].partition(b";")[0], 16)
        start, end = line_end + 2, line_end + 2 + length
        while len(self._received) < end + 2:
            self._more()
        chunk, self._received = self._received[start:end], self._received[end + 2 :]
        self._ended = length == 0
        return chunk

    def _more(self) -> None:
        part = self._connection.recv(_RECEIVE_BYTES)
        if not part:
            raise OSError("the connection was closed")
        self._received += part


def service_error(status: int, body: bytes) -> ServiceError:
    """Return the error in the body of an answer in AWS's JSON."""
    members: dict[str, Any] = {}
    with contextlib.suppress(ValueError, TypeError):
        # An error may come in JSON also when CBOR was asked for: from a proxy, or a gate before the service.
        members = dict(json.loads(body) if body[:1] == b"{" else cbor.loads(body))
    code = str(members.get("__type") or "UnknownError").rpartition("#")[2]
    message = str(members.get("message") or members.get("Message") or f"HTTP status {status}")
    return ServiceError(code, message, status)


def _send_all(connection: socket.socket, head: bytes, body: bytes) -> None:
    """Send a request in one piece, but for a large one, whose copy would cost more than a second call."""
    if len(body) < _COPIED_BYTES:
        connection.sendall(head + body)
        return
    connection.sendall(head)
    connection.sendall(body)


def _tls_context() -> ssl.SSLContext:
    """Return a context with the CAs that botocore would take."""
    bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
    return ssl.create_default_context(cafile=bundle or None)


def _proxy_of(url: str, host: str, *, is_tls: bool) -> tuple[str, int] | None:
    if is_here(url):
        return None
    # A client of this machine starts sooner without it.
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(host):
        return None
    proxy = getproxies().get("https" if is_tls else "http")
    if not proxy:
        return None
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return parts.hostname or "", parts.port or 80
