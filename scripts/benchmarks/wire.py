"""A cheap load client: prebuilt requests over raw sockets."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

_SCOPE = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kinesis/aws4_request,"
    " SignedHeaders=host, Signature=0"
)
FIRST_BUFFER_BYTES = 1 << 18
TIMEOUT_S = 15


def request(operation: str, body: Any) -> bytes:
    """Return the bytes of a Kinesis request."""
    data = json.dumps(body).encode()
    head = (
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"X-Amz-Target: Kinesis_20131202.{operation}\r\n"
        "Content-Type: application/x-amz-json-1.1\r\n"
        "X-Amz-Date: 20260101T000000Z\r\n"
        f"Authorization: {_SCOPE}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


class Connection:
    """One keep-alive connection; it reopens itself when the server closes it after an answer.

    It reuses one buffer for all answers: new memory for each would cost the client more time than the server
    needs to answer.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.socket = self._open()
        self.buffer = bytearray(FIRST_BUFFER_BYTES)
        self._received_bytes = 0
        self._wanted_bytes = 0

    def _open(self) -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT_S)
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
        """Receive the data that has arrived; return the body's position in `buffer` once the answer is complete.

        Raises RuntimeError when the answer is an error.
        """
        room = max(self._wanted_bytes, self._received_bytes + 1)
        if len(self.buffer) < room:
            self.buffer.extend(bytes(max(room, 2 * len(self.buffer)) - len(self.buffer)))
        with memoryview(self.buffer) as view:
            part_bytes = self.socket.recv_into(view[self._received_bytes :])
        self._received_bytes += part_bytes
        return self._taken(part_bytes)

    def _taken(self, part_bytes: int) -> tuple[int, int] | None:
        if part_bytes and self._received_bytes < self._wanted_bytes:
            return None
        where = self._whole_body(ended=not part_bytes)
        if where is None:
            return None
        if self.buffer[9:10] != b"2":
            message = bytes(self.buffer[where[0] : where[1]][:300])
            raise RuntimeError(f"{self.buffer[9:12].decode()}: {message.decode(errors='replace')}")
        return where

    def is_answered(self) -> bool:
        """Receive arrived data; return whether the answer is complete. Raises RuntimeError for an error."""
        if self._received_bytes == 0:
            part_bytes = self.socket.recv_into(self.buffer)
            self._received_bytes = part_bytes
            end = self.buffer.find(b"\r\n\r\n", 0, part_bytes)
            if end > 0 and self.buffer.startswith(b"HTTP/1.1 200") and not self._is_last(end):
                at = self.buffer.find(b"ontent-", 0, end)
                while at > 0 and self.buffer[at + 7 : at + 14].lower() != b"length:":
                    at = self.buffer.find(b"ontent-", at + 7, end)
                if at > 0 and end + 4 + int(self.buffer[at + 14 : self.buffer.find(b"\r", at)]) == (
                    part_bytes
                ):
                    return True
            return self._taken(part_bytes) is not None
        return self.receive() is not None

    def _is_last(self, end: int) -> bool:
        return self.buffer.find(b"onnection: close", 0, end) > 0

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
        """Send a request; return the position of the answer's body in `buffer`."""
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
        """Call an operation, for set-up, where speed does not matter."""
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
    """Let each client send one request after another; return every request's latency in seconds.

    An answer in one piece, as nearly all are, costs the client only some ten microseconds, so that the client does not
    dominate the measurement. Raises RuntimeError when an answer is an error.
    """
    latencies: list[float] = []
    connections = {
        each.socket.fileno(): each for each in (Connection(port) for _ in range(clients))
    }
    sent: dict[int, float] = {}
    number, kinds, now = 0, len(requests), time.perf_counter
    poll = select.epoll()
    try:
        for fd, connection in connections.items():
            poll.register(fd, select.EPOLLIN)
            sent[fd] = now()
            connection.send(requests[number % kinds])
            number += 1
        stop_at = now() + seconds
        while connections:
            ready = poll.poll(TIMEOUT_S)
            if not ready:
                raise RuntimeError(f"no answer within {TIMEOUT_S} s")
            for fd, _ in ready:
                connection = connections[fd]
                before = connection.socket
                if not connection.is_answered():
                    continue
                at = now()
                latencies.append(at - sent.pop(fd))
                if connection.socket is not before:
                    # The connection was closed after the answer and reopened, perhaps with the same file descriptor.
                    del connections[fd]
                    fd = connection.socket.fileno()
                    connections[fd] = connection
                    poll.register(fd, select.EPOLLIN)
                if at >= stop_at:
                    poll.unregister(fd)
                    connections.pop(fd).close()
                    continue
                sent[fd] = now()
                connection.send(requests[number % kinds])
                number += 1
    finally:
        poll.close()
        for connection in connections.values():
            connection.close()
    return latencies
