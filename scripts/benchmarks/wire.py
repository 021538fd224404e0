"""A load client that costs little: prebuilt requests over raw sockets."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Sequence
from typing import Any

_SCOPE = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kinesis/aws4_request,"
    " SignedHeaders=host, Signature=0"
)
RECEIVE_BYTES = 1 << 20


def request(operation: str, body: Any) -> bytes:
    """Return the bytes of a Kinesis request."""
    data = json.dumps(body).encode()
    head = (
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"X-Amz-Target: Kinesis_20131202.{operation}\r\n"
        "Content-Type: application/x-amz-json-1.1\r\n"
        f"Authorization: {_SCOPE}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


class Connection:
    """One kept-alive connection; opens itself again when the server closes it after an answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.socket = self._open()
        self._received: list[bytes] = []
        self._received_bytes = 0
        self._wanted_bytes = 0

    def _open(self) -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send a whole request."""
        self._received = []
        self._received_bytes = self._wanted_bytes = 0
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """Take what has arrived; return the body once it is whole. Raises RuntimeError on an error."""
        part = self.socket.recv(RECEIVE_BYTES)
        self._received.append(part)
        self._received_bytes += len(part)
        # Joined when it may be whole, not each time: a drain's answers come in many parts.
        if part and self._received_bytes < self._wanted_bytes:
            return None
        data = b"".join(self._received)
        self._received = [data]
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if not part:
                raise RuntimeError("the server closed the connection")
            return None
        head = data[:end].lower()
        at = head.find(b"content-length:")
        if at >= 0:
            length = int(head[at + 15 :].split(b"\r\n", 1)[0])
            self._wanted_bytes = end + 4 + length
            if self._received_bytes < self._wanted_bytes:
                if not part:
                    raise RuntimeError("the answer is cut off")
                return None
            body = data[end + 4 :]
        elif b"transfer-encoding: chunked" in head:
            if not data.endswith(b"0\r\n\r\n"):
                return None
            body = _unchunk(data[end + 4 :])
        elif part:
            return None
        else:
            body = data[end + 4 :]
        if data[9:12] != b"200":
            raise RuntimeError(f"{data[9:12].decode()}: {body[:300].decode(errors='replace')}")
        if b"connection: close" in head or data.startswith(b"HTTP/1.0"):
            self.socket.close()
            self.socket = self._open()
        return body

    def call(self, data: bytes) -> bytes:
        """Send a request and return the answer's body."""
        self.send(data)
        while True:
            body = self.receive()
            if body is not None:
                return body

    def ask(self, operation: str, body: Any) -> Any:
        """Call an operation; for set-up, where speed does not matter."""
        return json.loads(self.call(request(operation, body)) or b"{}")


def _unchunk(rest: bytes) -> bytes:
    parts: list[bytes] = []
    while True:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return b"".join(parts)
        parts.append(rest[:length])
        rest = rest[length + 2 :]


def closed_loop(port: int, clients: int, requests: Sequence[bytes], seconds: float) -> list[float]:
    """Let each client send one request after another; return every request's latency in seconds."""
    latencies: list[float] = []
    with selectors.DefaultSelector() as selector:
        sent: dict[int, float] = {}
        number = 0
        connections = [Connection(port) for _ in range(clients)]
        stop_at = time.perf_counter() + seconds

        def send(connection: Connection) -> None:
            nonlocal number
            sent[id(connection)] = time.perf_counter()
            connection.send(requests[number % len(requests)])
            number += 1

        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            send(connection)
        while selector.get_map():
            for key, _ in selector.select(60):
                connection = key.data
                before = connection.socket
                if connection.receive() is None:
                    continue
                now = time.perf_counter()
                latencies.append(now - sent[id(connection)])
                if now >= stop_at:
                    selector.unregister(before)
                    connection.close()
                    continue
                if connection.socket is not before:
                    selector.unregister(before)
                    selector.register(connection.socket, selectors.EVENT_READ, connection)
                send(connection)
    return latencies
