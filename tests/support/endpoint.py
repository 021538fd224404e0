"""An HTTP server whose every byte a test decides: it answers, drips, or hangs as it is told."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """A request as it came; names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: socket.socket

    @property
    def json(self) -> Any:
        """The body's JSON, unpacked."""
        packed = self.headers.get("content-encoding") == "gzip"
        return json.loads(gzip.decompress(self.body) if packed else self.body)


# Returns the bytes to answer with; None when it has answered, or does not.
Behaviour = Callable[[Request], bytes | None]


def answer(status: int, body: bytes | str = b"", **headers: str) -> bytes:
    """Return the bytes of an answer; underscores of headers' names become hyphens."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Words", f"Content-Length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + data


def json_answer(status: int, value: Any) -> bytes:
    """Return the bytes of an answer in JSON."""
    return answer(status, json.dumps(value), Content_Type="application/json")


@dataclass
class Endpoint:
    """A running server.

    Attributes:
        behaviours: what to do with the next requests, in order; then `usual`.
        requests: all that came, whole.
        released: set at the end; a behaviour that hangs waits for it.
    """

    port: int
    usual: Behaviour
    scheme: str = "http"
    behaviours: list[Behaviour] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def hang(self, _: Request) -> None:
        """Answer nothing until the test is over."""
        self.released.wait(30)


@contextmanager
def endpoint(usual: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[Endpoint]:
    """Run a server on 127.0.0.1, a thread for each connection, one request on each; with `tls` it speaks https."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Endpoint(listener.getsockname()[1], usual, "http" if tls is None else "https")
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=serve, args=(connection,), daemon=True)
            threads.append(thread)
            thread.start()

    def serve(connection: socket.socket) -> None:
        if tls is not None:
            try:
                connection = tls.wrap_socket(connection, server_side=True)
            except OSError:
                connection.close()
                return  # the client does not trust the certificate, as some tests want
        with connection:
            request = read_request(connection)
            if request is None:
                return
            behave = server.behaviours.pop(0) if server.behaviours else server.usual
            server.requests.append(request)
            try:
                data = behave(request)
                if data is not None:
                    connection.sendall(data)
            except OSError:
                return  # the client has gone, as some tests want

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield server
    finally:
        server.released.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(10)
        for thread in threads:
            thread.join(10)


def read_request(connection: socket.socket) -> Request | None:
    """Return the next request of a connection, None when it ends first."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    method, path, _ = first.split(" ", 2)
    parts, size = [body], len(body)
    while size < int(headers.get("content-length", 0)):
        chunk = connection.recv(1 << 20)
        if not chunk:
            return None
        parts.append(chunk)
        size += len(chunk)
    return Request(method, path, headers, b"".join(parts), connection)
