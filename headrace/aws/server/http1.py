"""Serves HTTP/1.1 on one connection: requests in turn, their answers, and the connection's end."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import cast

from headrace.aws.calls.http import Answer, Handler, HttpRequest, HttpResponse, WebSocketUser
from headrace.aws.server.answers import (
    BODILESS,
    WRITE_APART_ABOVE_BYTES,
    AnswerWriter,
    short,
)
from headrace.aws.server.connection import PREFACE, Exchange, RequestTaker
from headrace.aws.server.http1_reader import RequestReader
from headrace.aws.server.lingering import Lingering, Surplus, log_failure
from headrace.aws.server.request_body import RequestBody
from headrace.aws.server.tls import HANDSHAKE, begin_tls
from headrace.aws.server.usual_request import KeptHead, usual_request

log = logging.getLogger(__name__)


class Http1Connection(asyncio.Protocol):
    """One client connection: requests in order, answers in the same order. Runs on the event loop's thread.

    While a request is being answered, or its client does not read the answer, further bytes are held without parsing;
    when too many are held, the connection is no longer read.
    """

    def __init__(self, server: RequestTaker) -> None:
        self._server = server
        self._bounds = server.bounds
        self._kept = KeptHead()
        self._reader = RequestReader(server, self._say_continue)
        self._writable = asyncio.Event()
        self._writable.set()
        self._writer = AnswerWriter(server, self, self._writable)
        self._transport: asyncio.Transport | None = None
        # The bytes that came before it was clear whether the client speaks HTTP/2.
        self._first: bytes = b""
        self._begun = False
        # Whether bytes that arrive may be parsed at once: none are held, and no request is being answered.
        self._is_free = False
        self._held: bytearray = bytearray()
        # A usual request whose short body has not arrived: many clients send it by itself, right after the head. It is
        # parsed whole when that comes; the parser gets it if that does not come until the server looks.
        self._part: bytes = b""
        self._current: Exchange | None = None
        self._is_scheduled = False
        self._half_closed = False
        # The connection takes no more requests.
        self._ended = False
        # The time of the last activity, by the server's clock.
        self._since_s = server.now_s
        self._unsent_before_bytes: int = 0

    # --- called by the server -----------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return not (
            self._current
            or self._reader.is_arriving
            or self._part
            or self._has_more
            or not self._writable.is_set()
        )

    @property
    def idle_since_s(self) -> float:
        return self._since_s

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def look(self, now_s: float) -> None:
        if self._transport is None:
            return
        if self._transport.is_closing() or not self._writable.is_set():
            self._look_at_answer(now_s)
        elif self._writer.sending is not None:
            if now_s - max(self._since_s, self._writer.since_s) > self._bounds.answer_idle_s:
                self._abort_unread()
        elif self._current is not None:
            self._since_s = now_s
        elif self._part:
            since_s = self._since_s
            self._take(b"")
            # Its time limit counts from its arrival.
            self._reader.since_s = since_s
            self._advance()
        elif self._reader.is_arriving:
            is_late, answer = self._reader.late(now_s)
            if is_late and answer is not None:
                self._end_with(answer)
            elif is_late:
                self.close()
        elif now_s - self._since_s > self._bounds.keep_alive_s:
            self.close()

    def _look_at_answer(self, now_s: float) -> None:
        unsent_bytes = self.unsent_bytes
        self._server.is_behind(self, unsent_bytes)
        if unsent_bytes != self._unsent_before_bytes:
            self._unsent_before_bytes, self._since_s = unsent_bytes, now_s
        elif now_s - self._since_s > self._bounds.answer_idle_s:
            self._abort_unread()

    def _abort_unread(self) -> None:
        self._server.warn_about_client(
            "a connection is closed because its client does not read its answer"
        )
        self.abort()

    def close(self) -> None:
        self._since_s = self._server.now_s
        self._server.write_unwritten()
        self._writer.stop_sending()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._writer.stop_sending()
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._writer.transport = cast("asyncio.Transport", transport)
        if not self._server.opened(self):
            self._server.warn_about_client(
                "connections are refused: %d are open", self._bounds.connections
            )
            self.connection_lost(None)
            Surplus.take_over(self._server, cast("asyncio.Transport", transport))

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        self._transport = self._writer.transport = None
        self._ended = True
        self._is_free = False
        self._writable.set()
        self._held.clear()
        self._part = b""
        self._reader.close()
        if self._current is not None:
            self._current.leave()
            self._writer.stop()

    def data_received(self, data: bytes) -> None:
        if not self._is_free:
            self._receive(data)
        elif self._take(data, may_put_off=True):
            self._advance()

    def _receive(self, data: bytes) -> None:
        if self._ended:
            return
        self._since_s = self._server.now_s
        if not self._begun:
            data = self._first + data
            if data[0] == HANDSHAKE and self._speak_tls(data):
                return
            if PREFACE.startswith(data[: len(PREFACE)]):
                self._first = data
                self._reader.await_head()
                if len(data) >= len(PREFACE):
                    self._hand_over()
                return
            if self._first:
                self._reader.forget()
            self._begun, self._first = True, b""
        if self._current is not None or self._has_more or not self._writable.is_set():
            self._held += data
        else:
            self._take(data)
        self._advance()

    def _hand_over(self) -> None:
        """Hand the connection to HTTP/2: the client began with its preface."""
        # Imported by the first client that speaks it: few do, and it takes as long as a service.
        from headrace.aws.server.http2 import Http2Connection

        assert self._transport is not None
        transport, first = self._transport, self._first[len(PREFACE) :]
        self.connection_lost(None)
        successor = Http2Connection(self._server)
        transport.set_protocol(successor)
        successor.connection_made(transport)
        successor.data_received(first)

    def _speak_websocket(self, user: WebSocketUser, service: str) -> None:
        """Hand the connection to a WebSocket, which its client may have left meanwhile."""
        # Imported by the first client, as HTTP/2 is.
        from headrace.aws.server.websockets import WebSocketConnection

        transport, first = self._transport, self._reader.rest + bytes(self._held)
        successor = WebSocketConnection(self._server, user, service)
        user.opened(successor)
        if transport is None:
            successor.connection_lost(None)
            return
        self.connection_lost(None)
        transport.set_protocol(successor)
        successor.connection_made(transport)
        transport.resume_reading()
        if first:
            successor.data_received(first)

    def _speak_tls(self, first: bytes) -> bool:
        """Hand the connection to TLS, whose client began with a handshake. Return False without a certificate."""
        transport, context = self._transport, self._server.tls_context()
        if transport is None or context is None:
            return False
        # Until the handshake ends, this connection stays counted, and is closed when it is idle for too long.
        begin_tls(
            transport,
            first,
            Http1Connection(self._server),
            context,
            lambda: self.connection_lost(None),
        )
        return True

    def eof_received(self) -> bool:
        # A client that has finished sending still wants its answers; but an answer without an end is stopped now.
        self._half_closed = True
        if self._writer.streaming is not None:
            self._writer.stop_streaming()
        return bool(self._current or self._has_more)

    def pause_writing(self) -> None:
        self._is_free = False
        self._writable.clear()
        self._since_s = self._server.now_s
        self._server.is_behind(self, self.unsent_bytes)

    def resume_writing(self) -> None:
        self._writable.set()
        self._since_s = self._server.now_s
        self._server.is_behind(self, 0)
        self._advance()

    # --- turns --------------------------------------------------------------------------------

    @property
    def _has_more(self) -> bool:
        """Whether bytes or requests are waiting behind the current request."""
        return bool(self._held or self._reader.ready)

    def _advance(self) -> None:
        """Answer waiting requests and parse held bytes, until a request must wait or the connection's turn is over."""
        turns = self._bounds.turn_requests
        while self._has_more and self._current is None and self._writable.is_set():
            if self._transport is None:
                return
            if not turns:
                self._advance_soon()
                break
            turns -= 1
            if self._reader.ready:
                self._begin(self._reader.ready.popleft())
            else:
                self._feed_held()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        is_busy = bool(self._current or self._has_more or not self._writable.is_set())
        self._is_free = self._begun and not (self._ended or is_busy)
        if self._half_closed:
            if self.is_idle:
                transport.close()
        elif bool(self._held) == transport.is_reading():
            if self._held:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _advance_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._advance_now)

    def _advance_now(self) -> None:
        self._is_scheduled = False
        self._advance()

    def _feed_held(self) -> None:
        size_bytes = max(self._bounds.turn_bytes, self._reader.body_left_bytes)
        piece = bytes(self._held[:size_bytes])
        del self._held[:size_bytes]
        self._take(piece)

    def _end_with(self, answer: HttpResponse) -> None:
        """Take no more requests; send `answer` as the connection's last, after the answers to earlier requests."""
        if self._ended:
            return
        self._ended, self._is_free = True, False
        request = HttpRequest(self._reader.method, "/")
        exchange = Exchange(request, answer=answer, keep_alive=False, lingers=True)
        self._reader.forget()
        self._held.clear()
        self._reader.ready.append(exchange)
        self._advance_soon()

    def _say_continue(self) -> None:
        if self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # --- answers ------------------------------------------------------------------------------

    def _take(self, data: bytes, *, may_put_off: bool = False) -> bool:
        """Answer `data`, or begin to, if it is one whole request as SDKs send it; feed anything else to the parser.

        Return whether requests or bytes wait now. An answer may be put off until the turn ends when nothing else can be
        written to this connection before.
        """
        server, reader, kept = self._server, self._reader, self._kept
        self._since_s = server.now_s
        request, part = None, self._part
        if part:
            self._part, data = b"", part + data
        if not reader.is_arriving and not self._held:
            request = usual_request(data, kept, self._bounds.small_body_bytes)
        if request is None:
            if kept.lacks_body:
                kept.lacks_body = False
                if not part:
                    self._part = data
                    return False
            if len(data) > max(self._bounds.turn_bytes, reader.body_left_bytes):
                self._held += data
                return True
            last = reader.feed(data)
            if last is not None:
                self._end_with(last)
            elif reader.rest:
                self._held[:0], reader.rest = reader.rest, b""
            return bool(self._held or reader.ready)
        request.may_share = may_put_off and server.puts_off
        answer = server.at_once(request)
        # A handler that runs later, on a thread, must not.
        request.may_share = False
        transport = self._transport
        if (
            isinstance(answer, HttpResponse)
            and isinstance(body := answer.body, bytes)
            and not answer.waits
            and answer.status not in BODILESS
            and len(body) < WRITE_APART_ABOVE_BYTES
            and transport is not None
        ):
            whole = short(answer, body)
            if may_put_off:
                server.write_at_turns_end(
                    transport, whole, answer.shared, self._answer_again, request
                )
            else:
                transport.write(whole)
        else:
            self._begin_with(Exchange(request), answer)
        return False

    def _answer_again(self, request: HttpRequest) -> None:
        """Answer a request by itself: the write that it shared failed, with nothing written."""
        if self._transport is not None:
            self._begin_with(Exchange(request), self._server.at_once(request))
            self._advance()

    def _begin(self, exchange: Exchange) -> None:
        """Answer a request at once if possible; else start a task for it."""
        answer = exchange.answer
        if answer is None and exchange.request.body_file is None:
            answer = self._server.answer_or_handler(exchange.request)
        self._begin_with(exchange, answer)

    def _begin_with(self, exchange: Exchange, answer: Answer | Handler | None) -> None:
        if isinstance(answer, HttpResponse) and isinstance(answer.body, bytes):
            if answer.waits:
                self._current, self._is_free = exchange, False
                self._server.call_when_done(answer, functools.partial(self._finish, exchange))
                return
            self._write(exchange, answer)
            exchange.release()
            return
        exchange.answer = answer
        self._current, self._is_free = exchange, False
        task = asyncio.get_running_loop().create_task(self._serve(exchange))
        task.add_done_callback(log_failure)

    def _finish(self, exchange: Exchange, answer: HttpResponse) -> None:
        """Write an answer whose waits are done, and continue; without a task, since many answers wait for one fsync."""
        self._write(exchange, answer)
        self._end_exchange(exchange.body)

    async def _serve(self, exchange: Exchange) -> None:
        answer = await self._server.answer(exchange, self)
        try:
            if isinstance(answer.body, bytes):
                is_written = self._writer.write(exchange, answer)
            else:
                is_written = await self._writer.write_long(exchange, answer)
            if answer.websocket is not None:
                self._speak_websocket(answer.websocket, exchange.request.service)
            elif is_written and not exchange.keep_alive:
                self._close_after(exchange)
        except ConnectionError:
            self.abort()
        except OSError as error:  # the body's file failed
            self._server.warn_about_client(
                "the answer to %s broke off: %s", exchange.request.path, error
            )
            self.abort()
        except Exception:
            log.exception("the answer to %s broke off", exchange.request.path)
            self.abort()
        finally:
            self._end_exchange(exchange.body)

    def _end_exchange(self, body: RequestBody | None) -> None:
        """Release the request's body, and begin the next request."""
        if body is not None:
            body.release()
        self._since_s = max(self._since_s, self._writer.since_s)
        self._current = None
        self._advance()

    def _write(self, exchange: Exchange, answer: HttpResponse) -> None:
        if self._writer.write(exchange, answer) and not exchange.keep_alive:
            self._close_after(exchange)

    def _close_after(self, exchange: Exchange) -> None:
        """Close the connection after its last answer."""
        transport = self._transport
        if transport is None:
            return
        if (exchange.lingers or self._has_more) and not self._half_closed:
            self.connection_lost(None)
            Lingering.take_over(self._server, transport)
        else:
            self._ended = True
            self._held.clear()
            self._reader.close()
            transport.close()
