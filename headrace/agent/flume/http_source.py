"""The HTTP source: events as JSON by POST, a transaction for each request.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html#http-source; 200 once the channels have
the events, 400 for what is no JSON of events, 503 while a channel is full.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from headrace.agent.flume.events import ChannelFull, Event
from headrace.agent.flume.intake import Intake
from headrace.agent.flume.socket_sources import HANDSHAKE_S, MOST_CLIENTS
from headrace.agent.flume.tls import server_tls
from headrace.agent.properties import Section
from headrace.core.clock import Clock

_LOG = logging.getLogger("headrace.agent")
MOST_BODY_BYTES = 32 << 20
_IDLE_S = 60.0
_LOOK_S = 0.2
_CHARSETS = ("utf-8", "utf-16", "utf-32")
_HANDLERS = ("org.apache.flume.source.http.JSONHandler", "org.apache.flume.source.http.BLOBHandler")
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w-]+)", re.IGNORECASE)


class BadEvents(ValueError):
    """A body is no JSON of events. The message is one sentence."""


def read_events(body: bytes, charset: str) -> list[Event]:
    """Return the events of a JSON array. Raises BadEvents."""
    if charset.lower() not in _CHARSETS:
        raise BadEvents(f"JSON handler supports UTF-8, UTF-16 and UTF-32 only, not {charset}")
    try:
        content: Any = json.loads(body.decode(charset))
    except (ValueError, RecursionError) as error:
        raise BadEvents(f"Request has invalid JSON Syntax: {error}") from error
    if not isinstance(content, list):
        raise BadEvents("Request has invalid JSON Syntax: the body is an array of events")
    return [_event(item, charset) for item in cast("list[Any]", content)]


def _event(item: Any, charset: str) -> Event:
    if not isinstance(item, dict):
        raise BadEvents("Request has invalid JSON Syntax: an event is an object")
    event = cast("dict[str, Any]", item)
    headers: Any = event.get("headers") or {}
    if not isinstance(headers, dict):
        raise BadEvents("Request has invalid JSON Syntax: headers are an object")
    named = {_text(name): _text(value) for name, value in cast("dict[str, Any]", headers).items()}
    return Event(named, _text(event.get("body", "")).encode(charset))


def _text(value: Any) -> str:
    """Return a text; numbers and truth values become texts, as Gson does it, and half a character `?`, as in Java."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        # JSON's escapes can name half a character of UTF-16, which no channel or sink can write.
        return str(value).encode(errors="replace").decode()
    if value is None:
        return ""
    raise BadEvents("Request has invalid JSON Syntax: a header or a body is a text")


class Http:
    """The source."""

    ends = False

    def __init__(self, section: Section, intake: Intake, clock: Clock) -> None:
        """Take the keys and bind. Raises ConfigurationError, OSError."""
        del clock
        self._intake = intake
        handler = section.text("handler", _HANDLERS[0])
        if handler != _HANDLERS[0]:
            raise section.error("handler", f"the handler {handler!r} is not built")
        # Settings of Jetty's classes, which is not here.
        for prefix in (
            "QueuedThreadPool.",
            "HttpConfiguration.",
            "SslContextFactory.",
            "ServerConnector.",
        ):
            for key in section.below(prefix):
                raise section.error(prefix + key, f"{prefix}{key} of {section.owner} is not built")
        tls = server_tls(section)
        host, port = section.text("bind", "0.0.0.0"), section.number("port", most=65_535)
        room = threading.Semaphore(MOST_CLIENTS)
        # How many requests put their events now; none once `_is_ended`.
        self._puts, self._is_ended, self._change = 0, False, threading.Condition()

        class Handler(_Handler):
            put = staticmethod(self._put)

        class Server(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 128

            def process_request(self, request: Any, client_address: Any) -> None:
                room.acquire()
                super().process_request(request, client_address)

            def process_request_thread(self, request: Any, client_address: Any) -> None:
                try:
                    if tls is not None:
                        request.settimeout(HANDSHAKE_S)
                        request = tls.wrap_socket(request, server_side=True)
                    super().process_request_thread(request, client_address)
                except OSError as error:
                    _LOG.info("source %s: a client is gone: %s", intake.name, error)
                    self.shutdown_request(request)
                finally:
                    room.release()

        try:
            self._server = Server((host, port), Handler)
        except OSError as error:
            raise OSError(error.errno, f"{host} port {port}: {error.strerror}") from error
        self.port = int(self._server.server_address[1])

    def _put(self, body: bytes, charset: str) -> tuple[int, str]:
        with self._change:
            if self._is_ended:
                # What came now would stay in a memory channel that nobody empties any more.
                return 503, "The agent stops."
            self._puts += 1
        try:
            return self._put_events(body, charset)
        finally:
            with self._change:
                self._puts -= 1
                self._change.notify_all()

    def _put_events(self, body: bytes, charset: str) -> tuple[int, str]:
        try:
            self._intake.put(read_events(body, charset))
        except BadEvents as error:
            return 400, f"Bad request from client. {error}"
        except ChannelFull as error:
            self._intake.counts.failures += 1
            return 503, f"Error appending event to channel. Channel might be full. {error}"
        return 200, ""

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        del once
        with self._server:
            serving = threading.Thread(
                target=self._server.serve_forever, args=(_LOOK_S,), daemon=True
            )
            serving.start()
            self._intake.stop.wait()
            self._server.shutdown()
            serving.join()
            with self._change:
                self._is_ended = True
                self._change.wait_for(lambda: self._puts == 0)


class _Handler(BaseHTTPRequestHandler):
    protocol_version, timeout = "HTTP/1.1", _IDLE_S
    # The answer's head and body go in one packet.
    wbufsize = -1
    put: Any

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self.close_connection = True
            self._answer(411, "The request needs a Content-Length.")
            return
        if int(length) > MOST_BODY_BYTES:
            self.close_connection = True
            self._answer(413, f"A request has at most {MOST_BODY_BYTES} bytes.")
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            return
        named = _CHARSET.search(self.headers.get("Content-Type", ""))
        self._answer(*self.put(body, named[1] if named else "utf-8"))

    def _answer(self, status: int, sentence: str) -> None:
        body = sentence.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
        """Log nothing for each request."""
