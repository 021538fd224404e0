"""Serves a WebSocket on a connection whose HTTP/1.1 request opened it: frames by wsproto, messages in turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from wsproto import ConnectionType
from wsproto.connection import Connection as Frames
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from headrace.aws.calls.http import WebSocketUser
from headrace.aws.server.connection import RequestTaker
from headrace.aws.server.lingering import log_failure

log = logging.getLogger(__name__)

# Documented, of API Gateway: apigateway/latest/developerguide/apigateway-execution-service-websocket-limits-table.html.
MOST_MESSAGE_BYTES = 128 * 1024
IDLE_S, LONGEST_S = 600.0, 7200.0
# Messages that wait for those before them; then the client is not read.
_MOST_WAITING = 32
_GOING_AWAY, _BROKEN, _NO_CODE, _TOO_BIG = 1001, 1002, 1005, 1009
_LOST = 1006


class WebSocketConnection(asyncio.Protocol):
    """One WebSocket. Runs on the event loop's thread; any thread may call `send` and `end`."""

    def __init__(self, server: RequestTaker, user: WebSocketUser, service: str) -> None:
        self._server, self._user, self._service = server, user, service
        self._frames = Frames(ConnectionType.SERVER)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._message: list[str | bytes] = []
        self._message_bytes = 0
        self._calls: deque[Callable[[], None]] = deque()
        self._serving: asyncio.Task[None] | None = None
        self._ended = False
        self._since_s = self._began_s = server.now_s

    # --- called by the server -----------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """See `headrace.aws.server.connection.Connection`: it is not closed to make room."""
        return False

    @property
    def idle_since_s(self) -> float:
        """See `headrace.aws.server.connection.Connection`."""
        return self._since_s

    @property
    def unsent_bytes(self) -> int:
        """See `headrace.aws.server.connection.Connection`."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def look(self, now_s: float) -> None:
        """See `headrace.aws.server.connection.Connection`."""
        self._server.is_behind(self, self.unsent_bytes)
        if self._ended:
            # It stays open until its client has read what was sent.
            if now_s - self._since_s > self._server.bounds.answer_idle_s:
                self.abort()
        elif now_s - self._since_s > IDLE_S or now_s - self._began_s > LONGEST_S:
            self._end(_GOING_AWAY, "Going away")

    def close(self) -> None:
        """See `headrace.aws.server.connection.Connection`."""
        self._end(_GOING_AWAY, "Going away")

    def abort(self) -> None:
        """See `headrace.aws.server.connection.Connection`."""
        if self._transport is not None:
            self._transport.abort()

    # --- called by the user, on any thread ----------------------------------------------------

    def send(self, data: str | bytes) -> bool:
        """Send a message; False when the connection has ended. Never waits."""
        if self._ended or self._loop.is_closed():
            return False
        event = TextMessage(data) if isinstance(data, str) else BytesMessage(data)
        self._loop.call_soon_threadsafe(self._write, event)
        return True

    def end(self) -> None:
        """End the connection."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end, 1000, "")

    # --- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; the server has made room for the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the user, if the client has said nothing before."""
        self._server.closed(self)
        self._transport = None
        self._leave(_LOST, "")

    def data_received(self, data: bytes) -> None:
        """Take the messages of a client."""
        self._since_s = self._server.now_s
        if self._ended:
            return
        try:
            self._frames.receive_data(data)
            for event in self._frames.events():
                self._take(event)
        except RemoteProtocolError as error:
            self._end(_BROKEN, str(error))

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self._server.is_behind(self, self.unsent_bytes)

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        self._server.is_behind(self, 0)

    # --- messages -----------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        if self._ended:
            return
        match event:
            case TextMessage() | BytesMessage():
                self._add(event)
            case Ping():
                self._write(event.response())
            case CloseConnection():
                self._write(event.response())
                self._leave(int(event.code or _NO_CODE), event.reason or "")
                if self._transport is not None:
                    self._transport.close()
            case _:
                pass

    def _add(self, event: TextMessage | BytesMessage) -> None:
        part = event.data if isinstance(event, TextMessage) else bytes(event.data)
        if part:
            # Empty fragments count for no bytes: without end, they would still fill the memory.
            self._message.append(part)
        self._message_bytes += len(part.encode()) if isinstance(part, str) else len(part)
        if self._message_bytes > MOST_MESSAGE_BYTES:
            self._end(_TOO_BIG, "Message Too Big")
        elif event.message_finished:
            message = (
                "".join(part for part in self._message if isinstance(part, str))
                if isinstance(event, TextMessage)
                else b"".join(part for part in self._message if isinstance(part, bytes))
            )
            self._message, self._message_bytes = [], 0
            self._call(lambda: self._user.received(message))

    def _call(self, call: Callable[[], None]) -> None:
        """Let the user do something on a thread, after what was before."""
        self._calls.append(call)
        transport = self._transport
        if len(self._calls) > _MOST_WAITING and transport is not None and transport.is_reading():
            transport.pause_reading()
        if self._serving is None:
            self._serving = self._loop.create_task(self._serve())
            self._serving.add_done_callback(log_failure)

    async def _serve(self) -> None:
        while self._calls:
            try:
                await self._server.run(self, self._service, self._calls[0])
            except Exception as error:  # noqa: BLE001 - as for a request: the client's next one is served
                log.warning("a message of a WebSocket failed: %s: %s", type(error).__name__, error)
            self._calls.popleft()
            transport = self._transport
            if transport is None or transport.is_closing() or len(self._calls) > _MOST_WAITING:
                continue
            if not transport.is_reading():
                transport.resume_reading()
        self._serving = None

    def _write(self, event: Event) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        try:
            self._transport.write(self._frames.send(event))
        except LocalProtocolError:
            return  # it has ended meanwhile
        self._since_s = self._server.now_s

    def _end(self, code: int, reason: str) -> None:
        """Close the connection, if it is open."""
        if self._ended or self._transport is None:
            return
        self._write(CloseConnection(code, reason[:100]))
        self._leave(code, reason)
        self._transport.close()

    def _leave(self, code: int, reason: str) -> None:
        if not self._ended:
            self._ended = True
            self._call(lambda: self._user.closed(code, reason))
