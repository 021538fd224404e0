"""HTTP connections that are kept open between requests, with the standard library alone."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_MOST_IDLE = 32
_CONNECT_S, _ANSWER_S = 60.0, 60.0
Origin = tuple[str, str]


class Unreachable(Exception):
    """A service does not answer."""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """Sends requests, and keeps up to 32 connections open. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Origin, list[HTTPConnection]] = {}

    def close(self) -> None:
        """Close the connections that no request uses."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connection in (one for kept in idle.values() for one in kept):
            connection.close()

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        """Send a request and return the whole answer. Raises Unreachable."""
        connection, answer = self.open(method, url, headers, body)
        try:
            content = answer.read()
        except (OSError, HTTPException) as error:
            connection.close()
            raise Unreachable(f"{_origin(url)[1]} broke off its answer: {error!r}") from error
        names = {name.lower(): value for name, value in answer.getheaders()}
        if answer.will_close:
            connection.close()
        else:
            self._keep(_origin(url), connection)
        return Answer(answer.status, names, content)

    def open(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        timeout_s: float = _ANSWER_S,
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Send a request and return its connection, which the caller closes, and the unread answer.

        Raises Unreachable. A request on a kept connection that the service has closed meanwhile is sent once more.
        """
        origin = _origin(url)
        parts = urlsplit(url)
        target = parts.path or "/"
        target += f"?{parts.query}" if parts.query else ""
        while True:
            connection, is_kept = self._take(origin)
            try:
                connection.request(method, target, body, {**headers})
                if connection.sock is not None:
                    connection.sock.settimeout(timeout_s)
                return connection, connection.getresponse()
            except (OSError, HTTPException) as error:
                connection.close()
                if not is_kept:
                    raise Unreachable(f"{origin[1]} cannot be reached: {error!r}") from error

    def _take(self, origin: Origin) -> tuple[HTTPConnection, bool]:
        with self._lock:
            kept = self._idle.get(origin)
            if kept:
                return kept.pop(), True
        return _connection(*origin), False

    def _keep(self, origin: Origin, connection: HTTPConnection) -> None:
        with self._lock:
            kept = self._idle.setdefault(origin, [])
            if len(kept) < _MOST_IDLE:
                kept.append(connection)
                return
        connection.close()


class _Plain(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        # Head and body are sent separately: without this the second waits for the first one's delayed
        # acknowledgement, 40 ms per call.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Secure(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _origin(url: str) -> Origin:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _connection(scheme: str, netloc: str) -> HTTPConnection:
    proxy = None if proxy_bypass(netloc.rpartition("@")[2]) else getproxies().get(scheme)
    near = urlsplit(proxy).netloc.rpartition("@")[2] if proxy else netloc
    if scheme == "https":
        bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
        connection = _Secure(
            near, timeout=_CONNECT_S, context=ssl.create_default_context(cafile=bundle)
        )
        if proxy:
            connection.set_tunnel(netloc)
        return connection
    return _Plain(near, timeout=_CONNECT_S)
