"""Serves HTTP/2 on one connection, by h2. The SDKs for JavaScript and Java use it for Kinesis.

In clear text with prior knowledge (RFC 9113, 3.3): such a client begins with the preface, and `Http1Connection` hands
the connection over. Streams are answered concurrently, in any order.
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

from headrace.aws.calls.http import HttpResponse
from headrace.aws.server.answers import body_not_stored, body_too_large
from headrace.aws.server.connection import PREFACE, Exchange, RequestTaker
from headrace.aws.server.http2_answers import (
    AnswerSender,
    ArrivingRequest,
    RequestInProgress,
    StreamClosed,
)
from headrace.aws.server.http2_frames import (
    CONNECTION_WINDOW_BYTES,
    MOST_TABLE_BYTES,
    ExcessiveLoad,
    Frame,
    FrameGuard,
    FrameReader,
    FrameTooLarge,
    Kind,
    h2_of,
)
from headrace.aws.server.lingering import Lingering, log_failure
from headrace.aws.server.request_body import BodyTooLarge

log = logging.getLogger(__name__)

# A header block counts as one more frame for each so many bytes.
HEADER_BYTES_A_TURN = 512
# A request counts as so many more frames, since it is decoded, routed, and perhaps answered.
HEADERS_TURNS = 2


class Http2Connection(asyncio.Protocol):
    """One client connection with many streams. Runs on the event loop's thread."""

    def __init__(self, server: RequestTaker) -> None:
        self._server = server
        self._bounds = server.bounds
        self._h2 = h2_of(self._bounds)
        self._frames = FrameReader(self._h2.max_inbound_frame_size)
        self._guard = FrameGuard(self._bounds, server.now_s)
        self._sender = AnswerSender(
            self._h2,
            self._guard,
            write=self._write,
            now_s=lambda: server.now_s,
            fell_behind=self._fell_behind,
        )
        self._transport: asyncio.Transport | None = None
        self._receiving: dict[int, ArrivingRequest] = {}
        self._answering: dict[int, RequestInProgress] = {}
        self._is_greeted = False
        self._is_scheduled = False
        # The client opens no more streams.
        self._is_left = False
        # By the server's clock: when bytes last came, and when the current incomplete frame began to arrive.
        self._since_s = server.now_s
        self._part_since_s: float | None = None

    # --- called by the server -----------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """See `headrace.aws.server.connection.Connection`."""
        return not (self._receiving or self._answering)

    @property
    def idle_since_s(self) -> float:
        """See `headrace.aws.server.connection.Connection`."""
        return self._since_s

    @property
    def unsent_bytes(self) -> int:
        """See `headrace.aws.server.connection.Connection`."""
        if self._transport is None:
            return 0
        return self._sender.unsent_bytes + self._transport.get_write_buffer_size()

    def look(self, now_s: float) -> None:
        """See `headrace.aws.server.connection.Connection`."""
        if self._transport is None:
            return
        bounds = self._bounds
        self._server.is_behind(self, self.unsent_bytes)
        if self._transport.is_closing():
            # The client does not read the bytes that were written last.
            if now_s - self._since_s > bounds.answer_idle_s:
                self.abort()
            return
        for stream_id in self._sender.late(now_s, bounds.answer_idle_s):
            self._server.warn_about_client("an answer is dropped: its client does not read it")
            self._drop(stream_id, ErrorCodes.CANCEL)
        for stream_id, receiving in list(self._receiving.items()):
            if now_s - receiving.since_s > bounds.body_idle_s:
                self._drop(stream_id, ErrorCodes.CANCEL)
        part_s = 0.0 if self._part_since_s is None else now_s - self._part_since_s
        idle_s = now_s - self._since_s if self.is_idle else 0.0
        if part_s > bounds.head_s or idle_s > bounds.keep_alive_s:
            self.close()

    def close(self) -> None:
        """Send GOAWAY and close."""
        if self._transport is not None and not self._transport.is_closing():
            self._since_s = self._server.now_s
            self._h2.close_connection(ErrorCodes.NO_ERROR)
            self._sender.flush()
            self._sender.close()
            self._transport.close()

    def abort(self) -> None:
        """See `headrace.aws.server.connection.Connection`."""
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: send this server's settings first."""
        self._transport = cast("asyncio.Transport", transport)
        self._server.opened(self)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES)
        self._h2.receive_data(PREFACE)
        self._sender.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """End every stream that is still open."""
        self._server.closed(self)
        self._transport = None
        self._sender.close()
        for answering in list(self._answering.values()):
            answering.leave()
        for receiving in self._receiving.values():
            receiving.body.release()
        self._receiving.clear()

    def data_received(self, data: bytes) -> None:
        """Take frames; answer what they complete."""
        self._since_s = self._server.now_s
        self._frames.add(data)
        if not self._is_scheduled:
            self._advance()

    def pause_writing(self) -> None:
        """Stop writing: the socket's buffer is full."""
        self._sender.can_write = False
        self._fell_behind()

    def resume_writing(self) -> None:
        """Continue writing."""
        self._sender.can_write = True
        self._server.is_behind(self, self.unsent_bytes)
        self._sender.tell()

    def _fell_behind(self) -> None:
        self._server.is_behind(self, self.unsent_bytes)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    # --- frames -------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Process frames that have arrived, up to the limit of one turn."""
        turns = self._bounds.turn_frames
        try:
            while self._transport is not None and turns > 0:
                frame = self._frames.next()
                if frame is None:
                    break
                turns -= 1
                if frame.kind in (Kind.HEADERS, Kind.CONTINUATION):
                    turns -= HEADERS_TURNS + frame.payload_bytes // HEADER_BYTES_A_TURN
                self._receive(frame)
        except ExcessiveLoad as error:
            self._server.warn_about_client("an HTTP/2 client is cut off: %s", error)
            self._end(ErrorCodes.ENHANCE_YOUR_CALM, str(error))
        except FrameTooLarge:
            self._end(ErrorCodes.FRAME_SIZE_ERROR)
        except ProtocolError as error:
            log.debug("HTTP/2: %s", error)
            self._leave()  # h2 has queued a GOAWAY with the reason
        if self._transport is None:
            return
        self._sender.flush()
        self._read_on(has_more=turns <= 0)
        self._close_when_done()

    def _read_on(self, *, has_more: bool) -> None:
        """Continue reading; when frames are left from this turn, let other connections have their turn first."""
        assert self._transport is not None
        if has_more:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._advance_now)
        if has_more == self._transport.is_reading() and not self._transport.is_closing():
            if has_more:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        if not has_more and (self._frames.has_part or self._guard.in_headers):
            if self._part_since_s is None:
                self._part_since_s = self._since_s
        else:
            self._part_since_s = None

    def _advance_now(self) -> None:
        self._is_scheduled = False
        self._advance()

    def _receive(self, frame: Frame) -> None:
        """Process one frame. Raises ExcessiveLoad and h2's ProtocolError."""
        if not self._is_greeted and frame.kind != Kind.SETTINGS:
            self._end(ErrorCodes.PROTOCOL_ERROR, "SETTINGS comes first")
            return
        self._is_greeted = True
        in_headers = self._guard.in_headers
        self._guard.check(frame, self._server.now_s, wanted=frame.stream_id in self._receiving)
        if frame.is_goodbye and not in_headers:
            # Not passed to h2, which would consider the connection closed. Open streams must still be answered (RFC
            # 9113, 6.8): Node's clients send GOAWAY as soon as a subscription has begun, and then open their windows,
            # acknowledge settings and answer pings for as long as it lasts.
            self._is_left = True
            if frame.goodbye_code != ErrorCodes.NO_ERROR:
                self._leave()
            return
        for event in self._h2.receive_data(frame.data):
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self._begin(event)
            case DataReceived():
                self._take_data(event)
            case StreamEnded():
                self._end_request(event.stream_id or 0)
            case StreamReset():
                self._forget(event.stream_id or 0)
            case RemoteSettingsChanged():
                if self._h2.encoder.header_table_size > MOST_TABLE_BYTES:
                    self._h2.encoder.header_table_size = MOST_TABLE_BYTES
                self._sender.tell()
            case WindowUpdated():
                self._sender.tell()
            case _:
                pass  # nothing to do for acknowledgements, pings (h2 answers them), trailers, priorities

    def _end(self, code: ErrorCodes, reason: str = "") -> None:
        """Close the connection, with the reason."""
        if self._transport is not None:
            self._h2.close_connection(code, reason.encode() or None)
            self._leave()

    def _leave(self) -> None:
        """Close the connection once the client had time to read the last frames."""
        transport = self._transport
        if transport is not None:
            self._sender.flush()
            self.connection_lost(None)
            Lingering.take_over(self._server, transport)

    def _close_when_done(self) -> None:
        if self._is_left and self._transport is not None and self.is_idle:
            self._since_s = self._server.now_s
            self._transport.close()

    # --- requests -----------------------------------------------------------------------------

    def _begin(self, event: RequestReceived) -> None:
        stream_id = event.stream_id or 0
        if len(self._receiving) + len(self._answering) >= self._bounds.streams:
            # Requests of streams that were reset still run, and count (CVE-2023-44487).
            self._sender.reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        receiving = ArrivingRequest(event.headers or [], self._server.bodies, self._server.now_s)
        self._receiving[stream_id] = receiving
        refusal = receiving.problem() or self._server.refusal(
            receiving.method, receiving.path, receiving.query, receiving.headers
        )
        if refusal is not None:
            self._refuse(stream_id, receiving, refusal)
        elif receiving.headers.get("expect", "").lower() == "100-continue":
            self._sender.say_continue(stream_id)

    def _refuse(self, stream_id: int, receiving: ArrivingRequest, answer: HttpResponse) -> None:
        """Answer before the body is complete; the rest of the body is dropped."""
        receiving.body.release()
        receiving.unwanted_bytes = 0
        exchange = Exchange(receiving.request(), answer=answer)
        self._answer(stream_id, exchange)

    def _take_data(self, event: DataReceived) -> None:
        stream_id = event.stream_id or 0
        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream_id)
        receiving = self._receiving.get(stream_id)
        if receiving is None:
            return
        receiving.since_s = self._server.now_s
        data = event.data or b""
        try:
            if receiving.take(data):
                return
        except BodyTooLarge:
            self._refuse(stream_id, receiving, body_too_large(receiving.headers))
            return
        except OSError as error:
            self._server.warn_about_client("a request's body cannot be stored: %s", error)
            self._refuse(stream_id, receiving, body_not_stored(receiving.headers))
            return
        # The answer is complete; this asks the client to stop sending (RFC 9113, 8.1).
        del self._receiving[stream_id]
        self._sender.reset(stream_id, ErrorCodes.NO_ERROR)

    def _end_request(self, stream_id: int) -> None:
        receiving = self._receiving.pop(stream_id, None)
        if receiving is None or receiving.unwanted_bytes is not None:
            return
        try:
            receiving.body.finish()
        except OSError as error:
            self._server.warn_about_client("a request's body cannot be stored: %s", error)
            self._refuse(stream_id, receiving, body_not_stored(receiving.headers))
            return
        self._answer(stream_id, Exchange(receiving.request(), receiving.body))

    def _forget(self, stream_id: int) -> None:
        receiving = self._receiving.pop(stream_id, None)
        if receiving is not None:
            receiving.body.release()
        answering = self._answering.get(stream_id)
        if answering is not None:
            answering.leave()

    def _drop(self, stream_id: int, code: ErrorCodes) -> None:
        self._sender.reset(stream_id, code)
        self._forget(stream_id)

    def _answer(self, stream_id: int, exchange: Exchange) -> None:
        started = exchange.answer
        if started is None and exchange.request.body_file is None:
            started = self._server.answer_or_handler(exchange.request)
        if isinstance(started, HttpResponse) and self._sender.write_at_once(
            stream_id, exchange.request.method, started
        ):
            exchange.release()
            return
        exchange.answer = started
        answering = self._answering[stream_id] = RequestInProgress(exchange)
        answering.task = asyncio.get_running_loop().create_task(self._serve(stream_id, answering))
        answering.task.add_done_callback(lambda _: self._finish_stream(stream_id))
        answering.task.add_done_callback(log_failure)

    def _finish_stream(self, stream_id: int) -> None:
        self._answering.pop(stream_id, None)
        self._close_when_done()

    async def _serve(self, stream_id: int, answering: RequestInProgress) -> None:
        exchange = answering.exchange
        answer = await self._server.answer(exchange, self)
        answering.is_written = True
        parts = None
        if not isinstance(answer.body, bytes):
            parts = self._server.parts(exchange, self, answer)
        try:
            await self._sender.write(stream_id, exchange.request.method, answer, parts)
        except StreamClosed:
            log.debug("HTTP/2: stream %d went away before its answer", stream_id)
        except OSError as error:
            self._server.warn_about_client(
                "the answer to %s broke off: %s", exchange.request.path, error
            )
            self._sender.reset(stream_id, ErrorCodes.INTERNAL_ERROR)
        except Exception:
            log.exception("the answer to %s broke off", exchange.request.path)
            self._sender.reset(stream_id, ErrorCodes.INTERNAL_ERROR)
        finally:
            if parts is not None:
                await parts.aclose()
            exchange.release()
