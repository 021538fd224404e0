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
FIRST_BUFFER_BYTES = 1 << 18


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
    """One kept-alive connection; opens itself again when the server closes it after an answer.

    Answers are received into one buffer that is used again and again: fresh memory for each would cost the
    client more than the server needs to answer.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.socket = self._open()
        self.buffer = bytearray(FIRST_BUFFER_BYTES)
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
        self._received_bytes = self._wanted_bytes = 0
        self.socket.sendall(data)

    def receive(self) -> tuple[int, int] | None:
        """Take what has arrived; once the answer is whole, return where its body lies in `buffer`.

        Raises RuntimeError when the answer is an error.
        """
        room = max(self._wanted_bytes, self._received_bytes + 1)
        if len(self.buffer) < room:
            self.buffer.extend(bytes(max(room, 2 * len(self.buffer)) - len(self.buffer)))
        with memoryview(self.buffer) as view:
            part_bytes = self.socket.recv_into(view[self._received_bytes :])
        self._received_bytes += part_bytes
        if part_bytes and self._received_bytes < self._wanted_bytes:
            return None
        where = self._whole_body(ended=not part_bytes)
        if where is None:
            return None
        if self.buffer[9:12] != b"200":
            message = bytes(self.buffer[where[0] : where[1]][:300])
            raise RuntimeError(f"{self.buffer[9:12].decode()}: {message.decode(errors='replace')}")
        return where

    def _whole_body(self, *, ended: bool) -> tuple[int, int] | None:
        end = self.buffer.find(b"\r\n\r\n", 0, self._received_bytes)
        if end < 0:
            if ended:
                raise RuntimeError("the server closed the connection")
            return None
        head = bytes(self.buffer[:end]).lower()
        start, stop = end + 4, self._received_bytes
        at = head.find(b"content-length:")
        if at >= 0:
            self._wanted_bytes = start + int(head[at + 15 :].split(b"\r\n", 1)[0])
            if stop < self._wanted_bytes:
                if ended:
                    raise RuntimeError("the answer is cut off")
                return None
        elif b"transfer-encoding: chunked" in head:
            if not self.buffer.endswith(b"0\r\n\r\n", start, stop):
                return None
            whole = _unchunk(bytes(self.buffer[start:stop]))
            self.buffer[start : start + len(whole)] = whole
            stop = start + len(whole)
        elif not ended:
            return None
        if ended or b"connection: close" in head or head.startswith(b"http/1.0"):
            self.socket.close()
            self.socket = self._open()
        return start, stop

    def exchange(self, data: bytes) -> tuple[int, int]:
        """Send a request; return where the answer's body lies in `buffer`."""
        self.send(data)
        while True:
            where = self.receive()
            if where is not None:
                return where

    def call(self, data: bytes) -> bytes:
        """Send a request; return the answer's body."""
        start, stop = self.exchange(data)
        return bytes(self.buffer[start:stop])

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
