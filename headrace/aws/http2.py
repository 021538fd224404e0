"""HTTP/2 on one connection, by h2: what the SDK for JavaScript speaks to Kinesis, and others for SubscribeToShard.

In clear text with prior knowledge (RFC 9113, 3.3): a client that speaks it begins with its preface, and
`Http1Connection` hands the connection over. Streams are answered side by side, as each is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, cast

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from headrace.aws.http import DROPPED, FileSlice, HttpRequest, HttpResponse
from headrace.aws.request_body import RequestBody
from headrace.aws.tasks import log_failure

if TYPE_CHECKING:
    from headrace.aws.server import Server

log = logging.getLogger(__name__)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MOST_STREAMS = 1000
MAX_HEADER_LIST_BYTES = 64 * 1024
# What a client may send before it hears from us: of one stream, and of all.
STREAM_WINDOW_BYTES = 1024 * 1024
CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024
FILE_READ_BYTES = 256 * 1024
# They mean the connection in HTTP/1.1 and are not allowed here (RFC 9113, 8.2.2).
_OF_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade"})
_SETTINGS = {
    SettingCodes.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
    SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
    SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST_BYTES,
}


class _Gone(Exception):
    """The stream or its connection is no more; nobody waits for the answer."""


class _Receiving:
    """A request that is arriving on a stream."""

    def __init__(self, headers: list[tuple[str, str]], body: RequestBody) -> None:
        self.pseudo = {name: value for name, value in headers if name.startswith(":")}
        self.headers: dict[str, str] = {}
        for name, value in headers:
            if not name.startswith(":"):
                known = self.headers.get(name)
                # Cookie's parts may come apart; everything else is a list.
                joint = "; " if name == "cookie" else ","
                self.headers[name] = value if known is None else f"{known}{joint}{value}"
        # h2 refuses one that differs from the authority.
        self.headers.setdefault("host", self.pseudo.get(":authority", ""))
        self.body = body

    def head(self) -> HttpRequest:
        """Return the request without its body."""
        path, _, query = self.pseudo.get(":path", "/").partition("?")
        return HttpRequest(
            method=self.pseudo.get(":method", "GET"), path=path, query=query, headers=self.headers
        )

    def request(self) -> HttpRequest:
        """Return the whole request."""
        request = self.head()
        request.body, request.body_file = self.body.finish()
        return request


class Http2Connection(asyncio.Protocol):
    """One client connection with many streams. Runs on the event loop's thread."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._h2.local_settings = Settings(client=False, initial_values=_SETTINGS)
        self._transport: asyncio.Transport | None = None
        self._receiving: dict[int, _Receiving] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # Set whenever something that a writer waits for may have changed: windows, the socket, the end.
        self._news = asyncio.Event()
        self._can_write = True
        # The client begins no more streams.
        self._is_left = False

    # --- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: our settings go out first."""
        self._transport = cast("asyncio.Transport", transport)
        self._server.opened(self)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """End every stream that is still open."""
        self._server.closed(self)
        self._transport = None
        for task in list(self._tasks.values()):
            task.cancel()
        for receiving in self._receiving.values():
            receiving.body.discard()
        self._receiving.clear()
        self._tell()

    def data_received(self, data: bytes) -> None:
        """Take frames; answer what they complete."""
        try:
            events = self._h2.receive_data(data)
        except ProtocolError as error:
            log.debug("HTTP/2: %s", error)
            self._flush()  # the GOAWAY that says why
            self.close()
            return
        if any(_is_goodbye(event) for event in events):
            # h2 takes the connection for closed, but its streams are to be answered yet (RFC 9113, 6.8). Node's
            # clients say goodbye as soon as a subscription has begun.
            self._h2.state_machine.state = ConnectionState.SERVER_OPEN
            self._is_left = True
        for event in events:
            self._take(event)
        self._flush()
        self._close_when_done()

    def pause_writing(self) -> None:
        """Hold: the socket's buffer is full."""
        self._can_write = False

    def resume_writing(self) -> None:
        """Go on."""
        self._can_write = True
        self._tell()

    def _close_when_done(self) -> None:
        if self._is_left and not self._tasks and not self._receiving:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    # --- requests -----------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        match event:
            case RequestReceived():
                # Text, by our configuration's header_encoding.
                headers = [(_text(name), _text(value)) for name, value in event.headers or []]
                body = RequestBody(self._server.temp_dir)
                self._receive(event.stream_id or 0, _Receiving(headers, body))
            case DataReceived():
                self._take_data(event)
            case StreamEnded():
                receiving = self._receiving.pop(event.stream_id or 0, None)
                if receiving is not None:
                    self._answer(event.stream_id or 0, receiving.request())
            case StreamReset():
                self._forget(event.stream_id or 0)
            case WindowUpdated() | RemoteSettingsChanged():
                self._tell()
            case ConnectionTerminated():
                if not _is_goodbye(event):
                    self.close()
            case _:
                pass  # acknowledgements, pings (answered by h2), trailers, priorities

    def _receive(self, stream_id: int, receiving: _Receiving) -> None:
        """Take a request whose headers have come, or refuse it without its body."""
        request = receiving.head()
        refusal = self._server.refusal(request)
        if refusal is None:
            self._receiving[stream_id] = receiving
            return
        self._begin(stream_id, self._turn_away(stream_id, request, refusal))

    async def _turn_away(self, stream_id: int, request: HttpRequest, refusal: HttpResponse) -> None:
        await self._serve(stream_id, request, refusal)
        with contextlib.suppress(_Gone):
            # Nothing more is wanted of the request (RFC 9113, 8.1).
            self._reset(stream_id, ErrorCodes.NO_ERROR)

    def _take_data(self, event: DataReceived) -> None:
        stream_id = event.stream_id or 0
        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream_id)
        receiving = self._receiving.get(stream_id)
        if receiving is not None and not receiving.body.add(event.data or b""):
            self._receiving.pop(stream_id).body.discard()
            self._reset(stream_id, ErrorCodes.CANCEL)

    def _forget(self, stream_id: int) -> None:
        receiving = self._receiving.pop(stream_id, None)
        if receiving is not None:
            receiving.body.discard()
        task = self._tasks.get(stream_id)
        if task is not None:
            task.cancel()

    def _answer(self, stream_id: int, request: HttpRequest) -> None:
        started = self._server.answer_inline(request)
        if isinstance(started, HttpResponse) and self._write_at_once(stream_id, request, started):
            return
        self._begin(stream_id, self._serve(stream_id, request, started))

    def _begin(self, stream_id: int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[stream_id] = task
        task.add_done_callback(lambda _: self._done(stream_id))
        task.add_done_callback(log_failure)

    def _done(self, stream_id: int) -> None:
        self._tasks.pop(stream_id, None)
        self._close_when_done()

    async def _serve(
        self,
        stream_id: int,
        request: HttpRequest,
        started: HttpResponse | Future[HttpResponse] | None,
    ) -> None:
        answer = await self._server.answer(request, started)
        try:
            await self._write(stream_id, request, answer)
        except _Gone:
            log.debug("HTTP/2: stream %d went away before its answer", stream_id)
        finally:
            if request.body_file is not None:
                request.body_file.unlink(missing_ok=True)

    # --- answers ------------------------------------------------------------------------------

    def _write_at_once(self, stream_id: int, request: HttpRequest, answer: HttpResponse) -> bool:
        """Write a small answer in one go; False when it has to wait for a window."""
        body = answer.body
        if not isinstance(body, bytes) or answer.waits or answer.status == DROPPED:
            return False
        if self._is_gone(stream_id):
            return True
        if not self._can_write:
            return False
        if len(body) > min(
            self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size
        ):
            return False
        empty = request.method == "HEAD" or not body
        self._send_head(stream_id, answer, len(body), end=empty)
        if not empty:
            self._h2.send_data(stream_id, body, end_stream=True)
        # data_received flushes when it has taken all that came.
        return True

    async def _write(self, stream_id: int, request: HttpRequest, answer: HttpResponse) -> None:
        body = answer.body
        if answer.status == DROPPED:
            self._reset(stream_id, ErrorCodes.CANCEL)
        elif isinstance(body, bytes):
            self._send_head(stream_id, answer, len(body))
            await self._send(stream_id, b"" if request.method == "HEAD" else body)
            self._end(stream_id)
        elif isinstance(body, FileSlice):
            await self._write_file(stream_id, request, answer, body)
        elif isinstance(body, AsyncGenerator):
            self._send_head(stream_id, answer, None)
            try:
                async for chunk in body:
                    await self._send(stream_id, chunk)
            finally:
                await body.aclose()
            self._end(stream_id)
        else:
            self._send_head(stream_id, answer, None)
            while (chunk := await asyncio.wrap_future(self._server.next_chunk(body))) is not None:
                await self._send(stream_id, chunk)
            self._end(stream_id)

    async def _write_file(
        self, stream_id: int, request: HttpRequest, answer: HttpResponse, part: FileSlice
    ) -> None:
        loop = asyncio.get_running_loop()
        with part.file or part.path.open("rb") as file:
            self._send_head(stream_id, answer, part.length_bytes)
            at, end = part.offset_bytes, part.offset_bytes + part.length_bytes
            if request.method == "HEAD":
                at = end
            while at < end:
                size_bytes = min(FILE_READ_BYTES, end - at)
                chunk = await loop.run_in_executor(None, os.pread, file.fileno(), size_bytes, at)
                if not chunk:
                    self._reset(stream_id, ErrorCodes.INTERNAL_ERROR)
                    return
                await self._send(stream_id, chunk)
                at += len(chunk)
        self._end(stream_id)

    def _send_head(
        self, stream_id: int, answer: HttpResponse, length_bytes: int | None, *, end: bool = False
    ) -> None:
        headers = [(":status", str(answer.status))]
        headers += [
            (name.lower(), value)
            for name, value in answer.headers
            if name.lower() not in _OF_CONNECTION
        ]
        given = any(name == "content-length" for name, _ in headers)
        if length_bytes is not None and answer.status not in (204, 304) and not given:
            headers.append(("content-length", str(length_bytes)))
        self._guard(stream_id)
        self._h2.send_headers(stream_id, headers, end_stream=end)

    async def _send(self, stream_id: int, data: bytes) -> None:
        """Send data as the client's windows and the socket allow. Raises _Gone."""
        view = memoryview(data)
        while view:
            self._guard(stream_id)
            room = min(
                self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size
            )
            if room <= 0 or not self._can_write:
                self._flush()
                self._news.clear()
                await self._news.wait()
                continue
            self._h2.send_data(stream_id, bytes(view[:room]))
            view = view[room:]
        self._flush()

    def _end(self, stream_id: int) -> None:
        self._guard(stream_id)
        self._h2.end_stream(stream_id)
        self._flush()

    def _guard(self, stream_id: int) -> None:
        if self._is_gone(stream_id):
            raise _Gone

    def _is_gone(self, stream_id: int) -> bool:
        stream = self._h2.streams.get(stream_id)
        return self._transport is None or stream is None or stream.closed

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        self._guard(stream_id)
        self._h2.reset_stream(stream_id, code)
        self._flush()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    def _tell(self) -> None:
        self._news.set()


def _is_goodbye(event: Event) -> bool:
    """Whether the client will begin no more streams, and nothing is wrong."""
    return isinstance(event, ConnectionTerminated) and event.error_code == ErrorCodes.NO_ERROR


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
