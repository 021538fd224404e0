"""Sends answers on the streams of one HTTP/2 connection, as fast as the client's flow-control windows allow.

The request of one HTTP/2 stream, while it arrives and while it is answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from h2.connection import H2Connection
from h2.errors import ErrorCodes

from headrace.aws.calls.http import DROPPED, HttpRequest, HttpResponse
from headrace.aws.server.answers import body_too_large, clean, has_body, length_of, plain
from headrace.aws.server.connection import Exchange, is_host
from headrace.aws.server.http2_frames import FrameGuard
from headrace.aws.server.request_body import MAX_BODY_BYTES, Bodies, RequestBody

# When a request is refused by its headers, a body up to this size is read and dropped; for a longer one the stream is
# reset.
MAX_UNWANTED_BODY_BYTES = 64 * 1024


class ArrivingRequest:
    """A request that is arriving. h2 has checked its header fields: their characters, and which must be there once.

    Attributes:
        fields: the header fields, pseudo ones too.
        headers, method, path, query: as in `HttpRequest`.
        unwanted_bytes: how many bytes of the body came after the request had been answered.
        since_s: when bytes last came.
    """

    def __init__(self, fields: Sequence[tuple[bytes, bytes]], bodies: Bodies, now_s: float) -> None:
        self.fields = fields
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
            head=self.fields,
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


# Headers that describe an HTTP/1.1 connection and are not allowed in HTTP/2 (RFC 9113, 8.2.2).
_OF_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade"})
MOST_FRAME_BYTES = 64 * 1024
# How many streams of a connection send how many frames each before other streams and connections have their turn.
STREAMS_A_TURN = 4
FRAMES_A_TURN = 8


class StreamClosed(Exception):
    """The stream or its connection is closed; nothing waits for the answer."""


@dataclass(slots=True)
class _Waiting:
    """An answer that waits for its client's windows or for the socket."""

    left_bytes: int
    since_s: float


class AnswerSender:
    """Sends the answers of one connection. Runs on the event loop's thread.

    Attributes:
        can_write: whether the socket accepts more bytes; after setting it, call `tell`.
        unsent_bytes: the bytes of answers that wait for the client.
    """

    def __init__(
        self,
        connection: H2Connection,
        guard: FrameGuard,
        *,
        write: Callable[[bytes], None],
        now_s: Callable[[], float],
        fell_behind: Callable[[], None],
    ) -> None:
        self.can_write = True
        self.unsent_bytes = 0
        self._h2 = connection
        self._frames = guard
        self._write = write
        self._now_s = now_s
        self._fell_behind = fell_behind
        self._is_closed = False
        self._waiting: dict[int, _Waiting] = {}
        self._turns = STREAMS_A_TURN
        self._line: deque[asyncio.Future[None]] = deque()
        self._is_turning = False
        # Set whenever the state that writers wait for may have changed: windows, the socket, the end.
        self._news = asyncio.Event()

    def flush(self) -> None:
        """Write the bytes that h2 has queued."""
        data = self._h2.data_to_send()
        if data:
            self._write(data)

    def tell(self) -> None:
        """Make the writers check their state again."""
        self._news.set()

    def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        self.tell()

    def is_gone(self, stream_id: int) -> bool:
        """Whether a stream is closed for sending."""
        stream = self._h2.streams.get(stream_id)
        return self._is_closed or stream is None or stream.closed

    def late(self, now_s: float, most_s: float) -> list[int]:
        """Return the streams whose client has read nothing for longer than `most_s`."""
        return [
            stream_id
            for stream_id, waiting in self._waiting.items()
            if now_s - waiting.since_s > most_s
        ]

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Reset a stream, if it is still open."""
        if not self.is_gone(stream_id):
            self._h2.reset_stream(stream_id, code)
            self.flush()

    def say_continue(self, stream_id: int) -> None:
        """Send 100 Continue, so that the client sends its body."""
        self._h2.send_headers(stream_id, [(":status", "100")])

    def write_at_once(self, stream_id: int, method: str, answer: HttpResponse) -> bool:
        """Queue a small answer at once; return False when it must wait for a window. Call `flush` afterwards."""
        body = answer.body
        if not isinstance(body, bytes) or answer.waits or answer.status == DROPPED:
            return False
        if self.is_gone(stream_id):
            return True
        room_bytes = min(
            self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size
        )
        if not self.can_write or len(body) > room_bytes:
            return False
        empty = not body or not has_body(method, answer.status)
        self._send_head(stream_id, answer, end=empty)
        if not empty:
            self._h2.send_data(stream_id, body, end_stream=True)
            self._frames.sent(len(body))
        return True

    async def write(
        self,
        stream_id: int,
        method: str,
        answer: HttpResponse,
        parts: AsyncGenerator[bytes, None] | None,
    ) -> None:
        """Write an answer, whose body is `parts` unless it is bytes. Raises StreamClosed, and what `parts` raises."""
        if answer.status == DROPPED:
            self.reset(stream_id, ErrorCodes.CANCEL)
            return
        body, takes_body = answer.body, has_body(method, answer.status)
        if not takes_body or body == b"":
            self._send_head(stream_id, answer, end=True)
        elif isinstance(body, bytes):
            self._send_head(stream_id, answer)
            await self._send(stream_id, body, end=True)
        elif parts is not None:
            self._send_head(stream_id, answer)
            self.flush()
            async for part in parts:
                await self._send(stream_id, part)
            self._guard(stream_id)
            self._h2.end_stream(stream_id)
        self.flush()

    def _send_head(self, stream_id: int, answer: HttpResponse, *, end: bool = False) -> None:
        headers = [(":status", str(answer.status))]
        headers += [
            (clean(name).lower(), clean(value).strip(" \t"))
            for name, value in answer.headers
            if name.lower() not in _OF_CONNECTION
        ]
        length_bytes = length_of(answer)
        has_length = any(name == "content-length" for name, _ in headers)
        if length_bytes is not None and answer.status not in (204, 304) and not has_length:
            headers.append(("content-length", str(length_bytes)))
        self._guard(stream_id)
        self._h2.send_headers(stream_id, headers, end_stream=end)

    async def _send(self, stream_id: int, data: bytes, *, end: bool = False) -> None:
        """Send data as the client's windows and the socket allow. Raises StreamClosed."""
        view = memoryview(data)
        frames = 0
        try:
            while view:
                self._guard(stream_id)
                room_bytes = min(
                    self._h2.local_flow_control_window(stream_id),
                    self._h2.max_outbound_frame_size,
                    MOST_FRAME_BYTES,
                )
                if room_bytes <= 0 or not self.can_write:
                    await self._wait(stream_id, len(view))
                elif not frames:
                    await self._take_turn()
                    frames = FRAMES_A_TURN
                else:
                    frames -= 1
                    piece, view = bytes(view[:room_bytes]), view[room_bytes:]
                    self._h2.send_data(stream_id, piece, end_stream=end and not view)
                    self._frames.sent(len(piece))
            self.flush()
        finally:
            self._note(stream_id, 0)

    async def _take_turn(self) -> None:
        """Wait until it is this stream's turn to send."""
        if self._turns and not self._line:
            self._turns -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._line.append(turn)
            await turn
        if not self._is_turning:
            self._is_turning = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self.flush()
        self._turns = STREAMS_A_TURN
        while self._line and self._turns:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                self._turns -= 1
        self._is_turning = bool(self._line)
        if self._is_turning:
            asyncio.get_running_loop().call_soon(self._next_turn)

    async def _wait(self, stream_id: int, left_bytes: int) -> None:
        self.flush()
        self._note(stream_id, left_bytes)
        self._news.clear()
        self._fell_behind()
        await self._news.wait()

    def _note(self, stream_id: int, left_bytes: int) -> None:
        known = self._waiting.get(stream_id)
        self.unsent_bytes += left_bytes - (0 if known is None else known.left_bytes)
        if not left_bytes:
            self._waiting.pop(stream_id, None)
        elif known is None:
            self._waiting[stream_id] = _Waiting(left_bytes, self._now_s())
        elif known.left_bytes != left_bytes:
            known.left_bytes, known.since_s = left_bytes, self._now_s()

    def _guard(self, stream_id: int) -> None:
        if self.is_gone(stream_id):
            raise StreamClosed
