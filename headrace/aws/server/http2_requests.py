"""The request of one HTTP/2 stream, while it arrives and while it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.server.exchange import Exchange
from headrace.aws.server.host_names import is_host
from headrace.aws.server.request_body import MAX_BODY_BYTES, Bodies, RequestBody
from headrace.aws.server.server_errors import body_too_large, plain

# When a request is refused by its headers, a body up to this size is read and dropped; for a longer one the stream is
# reset.
MAX_UNWANTED_BODY_BYTES = 64 * 1024


class ArrivingRequest:
    """A request that is arriving. h2 has checked its header fields: their characters, and which must be there once.

    Attributes:
        headers, method, path, query: as in `HttpRequest`.
        unwanted_bytes: how many bytes of the body came after the request had been answered.
        since_s: when bytes last came.
    """

    def __init__(self, fields: Iterable[tuple[bytes, bytes]], bodies: Bodies, now_s: float) -> None:
        self.body = RequestBody(bodies)
        self.since_s = now_s
        self.unwanted_bytes: int | None = None
        self.headers: dict[str, str] = {}
        pseudo: dict[str, str] = {}
        for raw_name, raw_value in fields:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            if name.startswith(":"):
                pseudo[name] = value
                continue
            known = self.headers.get(name)
            # A client may split Cookie into several fields, joined by "; "; other repeated fields are lists.
            joint = "; " if name == "cookie" else ","
            self.headers[name] = value if known is None else f"{known}{joint}{value}"
        self.headers.setdefault("host", pseudo.get(":authority", ""))
        self.method = pseudo.get(":method", "GET")
        self._target = pseudo.get(":path", "/")
        self.path, _, self.query = self._target.partition("?")

    def problem(self) -> HttpResponse | None:
        """Return the answer to an invalid request, None for a valid one."""
        if not is_host(self.headers["host"]):
            return plain(400, "the host is not a host and a port")
        if self.method == "CONNECT":
            return plain(501, "this server is not a proxy")
        if not self._target.startswith("/") and (self._target, self.method) != ("*", "OPTIONS"):
            return plain(400, "the request's target is not a path")
        if not self._target.isascii() or not self._target.isprintable() or " " in self._target:
            return plain(400, "the request's target has characters that must be escaped")
        length = self.headers.get("content-length", "0")
        if not length.isdecimal():
            return plain(400, "a request has one Content-Length")
        return body_too_large(self.headers) if int(length) > MAX_BODY_BYTES else None

    def take(self, data: bytes) -> bool:
        """Add bytes of the body; False when too many unwanted ones have come. Raises BodyTooLarge and OSError."""
        if self.unwanted_bytes is None:
            self.body.add(data)
            return True
        self.unwanted_bytes += len(data)
        return self.unwanted_bytes <= MAX_UNWANTED_BODY_BYTES

    def request(self) -> HttpRequest:
        """Return the request with its body."""
        return HttpRequest(
            method=self.method,
            path=self.path,
            query=self.query,
            headers=self.headers,
            body=self.body.data,
            body_file=self.body.file,
        )


class RequestInProgress:
    """A request on a stream, and the task that answers it."""

    __slots__ = ("exchange", "is_written", "task")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        # Whether the request is answered: until then the task holds resources of the server.
        self.is_written = False
        self.task: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """Note that the client no longer waits for the answer."""
        self.exchange.leave()
        if self.is_written and self.task is not None:
            self.task.cancel()
