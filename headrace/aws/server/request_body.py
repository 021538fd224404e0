"""Holds the bodies of requests in memory, within limits over all connections, and otherwise in temporary files.

The limits on what one client, and all clients together, may hold of the server: bytes, counts, seconds.

The figures are headrace's own unless a source is named. `docs/security.md` has the same table for people.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The server's bounds. Tests make small ones.

    Attributes:
        connections: how many may be open, and at most half of the files that the process may open; beyond that the
            longest idle one is closed, or the new one's first request gets 503.
        busy_s: a connection that was used within this time is not closed to make room: its client's next request may
            be on its way.
        surplus: how many connections beyond `connections` may wait for their first request's headers; the next get 503
            without having asked.
        requests: how many may be running or waiting for a thread, over all connections; beyond that 503.
        turn_requests, turn_frames, turn_bytes: how much the event loop processes of one connection before it serves the
            others.
        threads: the threads that run requests which may block.
        service_threads: how many of these the requests to one service may hold.
        connection_threads: how many of these one connection's requests may hold (HTTP/2 has many at once).
        streams: how many streams of one HTTP/2 connection may be open.
        arriving_bytes: the bytes of incomplete bodies in memory, over all connections; beyond that they go to files.
        held_bytes: the bytes of complete bodies of unanswered requests; beyond that requests wait.
        small_body_bytes: bodies up to this size do not wait for memory.
        body_room_s: how long a request waits for memory for its body; then 503.
        unsent_bytes: the bytes of answers that clients do not read, over all connections; beyond that the connection
            with the most is closed.
        head_bytes, headers: the size and number of one request's header fields; beyond that 431.
        framing_bytes: the size of a chunked body's extensions and trailers, beyond twice the body's own size and 16
            bytes a chunk (the bound of Go's server since CVE-2023-39326); beyond that 400.
        head_s: the time from a request's first byte to its last header field; then 408.
        body_idle_s: the time without a byte of an incomplete body; then 408, or S3's RequestTimeout.
        answer_idle_s: the time without the client reading a byte of its answer: the length of a SubscribeToShard
            session.
        keep_alive_s: how long an unused connection stays open: longer than every SDK's pool keeps one (Java 60 s,
            .NET 60 s, Go and Rust 90 s, curl and PHP 118 s, browsers 300 s; botocore and Node.js keep theirs until
            the server closes).
        linger_s, linger_bytes: how long and how much a connection is still read after its last answer, so that the
            client can read the answer.
    """

    connections: int = 8192
    busy_s: float = 5.0
    surplus: int = 256
    requests: int = 4096
    turn_requests: int = 8
    turn_frames: int = 8
    turn_bytes: int = 64 * KIB
    threads: int = 512
    service_threads: int = 256
    connection_threads: int = 64
    streams: int = 256
    arriving_bytes: int = 128 * MIB
    held_bytes: int = 256 * MIB
    small_body_bytes: int = 16 * KIB
    body_room_s: float = 20.0
    unsent_bytes: int = 256 * MIB
    head_bytes: int = 64 * KIB
    headers: int = 256
    framing_bytes: int = 16 * KIB
    head_s: float = 60.0
    body_idle_s: float = 60.0
    answer_idle_s: float = 300.0
    keep_alive_s: float = 900.0
    linger_s: float = 2.0
    linger_bytes: int = 1 * MIB


SPOOL_ABOVE_BYTES = 16 * 1024 * 1024
SMALL_PIECE_BYTES = 4 * 1024
JOINED_BYTES = 256 * 1024
# A part of a multipart upload has at most 5 GiB; signed chunks make it a little longer.
MAX_BODY_BYTES = 5 * 1024**3 + 16 * 1024 * 1024


class BodyTooLarge(Exception):
    """The body is larger than any request's body may be."""


class NoMemoryForBody(Exception):
    """No memory became free for a body within the time that a request waits for it."""


class BodyMemory:
    """A limit on the bytes of bodies in memory. Used on the event loop's thread only."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._line: deque[tuple[int, asyncio.Future[None], float]] = deque()

    def take(self, size_bytes: int) -> bool:
        """Reserve bytes; return False when too few are free, or others wait for them."""
        if self._line or self.held_bytes + size_bytes > self.limit_bytes:
            return False
        self.held_bytes += size_bytes
        return True

    def take_anyway(self, size_bytes: int) -> None:
        """Reserve bytes, even beyond the limit."""
        self.held_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """Release bytes, and serve the requests that wait for them."""
        self.held_bytes -= size_bytes
        while self._line:
            wanted_bytes, turn, _ = self._line[0]
            if not turn.done():
                if self.held_bytes and self.held_bytes + wanted_bytes > self.limit_bytes:
                    return
                self.held_bytes += wanted_bytes
                turn.set_result(None)
            self._line.popleft()

    async def wait_for(self, size_bytes: int, deadline_s: float) -> None:
        """Reserve bytes once they are free, in order; `expire` ends the wait. Raises NoMemoryForBody."""
        if self.take(size_bytes):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((size_bytes, turn, deadline_s))
        self.give(0)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give(size_bytes)
            raise

    def expire(self, now_s: float) -> None:
        """Fail the waits whose time is over. All waits are equally long, so the first in the queue expires first."""
        while self._line and (self._line[0][2] <= now_s or self._line[0][1].done()):
            _, turn, _ = self._line.popleft()
            if not turn.done():
                turn.set_exception(NoMemoryForBody())
        self.give(0)


class Bodies:
    """The resources that the bodies of all connections share: the folder of temporary files, and limits on memory.

    Attributes:
        arriving: the limit for incomplete bodies. It is separate from `held`, so that clients that send slowly cannot
            block the requests of others.
        held: the limit for bodies whose requests are being answered.
    """

    def __init__(self, temp_dir: Path, bounds: Bounds) -> None:
        self.temp_dir = temp_dir
        self.bounds = bounds
        self.arriving = BodyMemory(bounds.arriving_bytes)
        self.held = BodyMemory(bounds.held_bytes)


@dataclass(eq=False)
class RequestBody:
    """The body of one request, from its first byte until the request is answered. Used on the event loop's thread.

    Attributes:
        size_bytes: how many bytes have arrived.
        data: the complete body, unless it is in a file.
        file: the file with the complete body when it is over 16 MiB; the receiver may move it.
        must_load: the body is in a file only because memory was short; `load` it before the request is handled.
    """

    _bodies: Bodies
    size_bytes: int = 0
    data: bytes = b""
    file: Path | None = None
    must_load: bool = False
    _pieces: list[bytes | bytearray] = field(default_factory=list[bytes | bytearray])
    _spool: IO[bytes] | None = None
    _arriving_bytes: int = 0
    _held_bytes: int = 0

    def add(self, data: bytes) -> None:
        """Add the next bytes. Raises BodyTooLarge, and OSError when a file cannot be written."""
        self.size_bytes += len(data)
        if self.size_bytes > MAX_BODY_BYTES:
            raise BodyTooLarge
        if self._spool is not None:
            self._spool.write(data)
            return
        last = self._pieces[-1] if self._pieces else b""
        if len(data) >= SMALL_PIECE_BYTES:
            self._pieces.append(data)
        elif isinstance(last, bytearray) and len(last) < JOINED_BYTES:
            last += data
        else:
            # Small pieces are joined as they come: a separate object for each would take more memory than its bytes.
            self._pieces.append(bytearray(data) if self._pieces else data)
        if self.size_bytes > SPOOL_ABOVE_BYTES or not self._bodies.arriving.take(len(data)):
            self.spool()
        else:
            self._arriving_bytes += len(data)

    def spool(self) -> None:
        """Move the body to a file, and write later bytes there. Raises OSError."""
        if self._spool is not None:
            return
        # The file stays after it is closed, since the receiver may move it.
        file = tempfile.NamedTemporaryFile(dir=self._bodies.temp_dir, delete=False)  # noqa: SIM115
        self._spool = cast("IO[bytes]", file)
        self.file = Path(file.name)
        self._spool.writelines(self._pieces)
        self._forget_pieces()

    def finish(self) -> None:
        """Note that the body is complete. Raises OSError."""
        if self._spool is None:
            only = self._pieces[0] if len(self._pieces) == 1 else None
            self.data = only if isinstance(only, bytes) else b"".join(self._pieces)
            self._forget_pieces()
            size_bytes = self.size_bytes
            if size_bytes <= self._bodies.bounds.small_body_bytes:
                self._bodies.held.take_anyway(size_bytes)
                self._held_bytes = size_bytes
            elif self._bodies.held.take(size_bytes):
                self._held_bytes = size_bytes
            else:
                self._pieces.append(self.data)
                self.data = b""
                self.spool()
        if self._spool is not None:
            self._spool.close()
            self._spool = None
            self.must_load = self.size_bytes <= SPOOL_ABOVE_BYTES

    async def load(self, now_s: float) -> None:
        """Wait for memory and read the body back from its file. Raises NoMemoryForBody and OSError."""
        assert self.file is not None
        if self.size_bytes <= self._bodies.bounds.small_body_bytes:
            self._bodies.held.take_anyway(self.size_bytes)
        else:
            deadline_s = now_s + self._bodies.bounds.body_room_s
            await self._bodies.held.wait_for(self.size_bytes, deadline_s)
        self._held_bytes = self.size_bytes
        self.data = await asyncio.get_running_loop().run_in_executor(None, self.file.read_bytes)
        self.file.unlink(missing_ok=True)
        self.file, self.must_load = None, False

    def release(self) -> None:
        """Release the body, when its request is answered or will never be complete. Idempotent."""
        self._forget_pieces()
        self.data = b""
        if self._held_bytes:
            self._bodies.held.give(self._held_bytes)
            self._held_bytes = 0
        if self._spool is not None:
            with contextlib.suppress(OSError):  # a full disk; the file is deleted anyway
                self._spool.close()
            self._spool = None
        if self.file is not None:
            self.file.unlink(missing_ok=True)
            self.file = None

    def _forget_pieces(self) -> None:
        self._pieces = []
        if self._arriving_bytes:
            self._bodies.arriving.give(self._arriving_bytes)
            self._arriving_bytes = 0
