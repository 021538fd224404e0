"""Serves AWS's Lambda Runtime API to one function process, without a thread of its own.

The thread that invokes the function also serves the process's HTTP requests and reads its output. So a warm invocation
costs two socket writes and no switch between threads. Between invocations nobody reads: the process waits for the
response to `GET .../next`, like a frozen execution environment on AWS.

Protocol: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html (documented).
Not thread-safe: one thread at a time.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import re
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import httptools

from headrace.services.lambda_.errors import RESPONSE_PAYLOAD_BYTES
from headrace.services.lambda_.runtime.messages import (
    ErrorReported,
    Invocation,
    Message,
    PackageWanted,
    ProcessEnded,
    ReadyForInvocation,
    Responded,
    ResponsePart,
)
from headrace.services.lambda_.runtime.peers import is_of_process

log = logging.getLogger(__name__)

PREFIX = "/2018-06-01/runtime/"
READ_BYTES = 256 * 1024
_SEND_TIMEOUT_S = 30.0
# A function that sends headers without an end must not use up memory that all functions share.
_HEAD_BYTES = 1024 * 1024
# Headers that browsers always send, and the Host that the process must send.
_OF_A_PAGE = (b"origin", b"sec-fetch-site")
_HERE = re.compile(rb"(127\.0\.0\.1|localhost)(:\d+)?$")
# How `python_client.py` sends a response, and with it the question for the next invocation.
_RESPONSE = re.compile(
    rb"POST %b/invocation/([-\w]+)/response HTTP/1\.1\r\nHost: (127\.0\.0\.1:\d+)\r\n"
    rb"Content-Type: [ -~]*\r\nContent-Length: (\d{1,7})\r\n\r\n" % PREFIX[:-1].encode()
)
_NEXT = b"GET %binvocation/next HTTP/1.1\r\nHost: %b\r\n\r\n"
# headrace's own path, which node_sdk.cjs requests.
_SDK_PREFIX = "/headrace/sdk/"
# More than the largest response: what one call of `poll` reads of each descriptor.
_MOST_BYTES = 32 * READ_BYTES
# A brief call reads so much; in short lines it takes 30 ms to cut.
_BRIEF_BYTES = 64 * 1024
_LEAST_READ_BYTES = 4096
_MOST_UNSENT_BYTES = 64 * 1024
_ACCEPTED = (
    b"HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"
    b'{"status":"OK"}'
)
# A runtime needs one connection, and an extension needs another. The limit keeps a function that opens many more from
# using up descriptors that all functions share.
_MOST_CONNECTIONS = 16


class Round(NamedTuple):
    """A response with the question for the next invocation, in one piece."""

    request_id: str
    body: bytes


@dataclass(slots=True)
class Request:
    """A whole request."""

    method: str
    path: str
    body: bytes
    length_bytes: int
    error_type: str
    error_body: bytes


class RuntimeConnection:
    """One HTTP/1.1 connection from the process: parses requests, writes replies.

    Attributes:
        unsent: replies that go before the next one, in one write.
        has_more: whether `receive` has left something.
    """

    def __init__(self, peer: socket.socket) -> None:
        self.socket = peer
        self.unsent = b""
        self.has_more = False
        self._parser = httptools.HttpRequestParser(self)
        self._done: list[Request | ResponsePart | Round] = []
        # No request has arrived in part.
        self._is_between = True
        self._reset()

    def _reset(self) -> None:
        self._path = b""
        self._body = bytearray()
        self._length_bytes = 0
        self._error_type = ""
        self._error_body = b""
        self._content_type = ""
        self._streaming_id = ""
        self._is_streaming = False
        self._head_bytes = 0
        self._in_head = True

    def receive(self, most_bytes: int) -> bool:
        """Read the data that has arrived. Return False when the peer has closed or does not send HTTP."""
        read_bytes = min(READ_BYTES, most_bytes)
        self.has_more = False
        for _ in range(most_bytes // read_bytes):
            try:
                data = self.socket.recv(read_bytes)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            if not (self._is_between and self._take_round(data)):
                try:
                    self._parser.feed_data(data)
                except httptools.HttpParserError:
                    return False
            if self._in_head and not self._is_between:
                self._head_bytes += len(data)
                if self._head_bytes > _HEAD_BYTES:
                    return False
            if len(data) < read_bytes:
                return True
        self.has_more = True
        return True

    def _take_round(self, data: bytes) -> bool:
        """Take what is exactly a response and the next question; False for anything else, which the parser reads.

        Its callbacks into Python cost more than the rest of a short invocation's way back.
        """
        found = _RESPONSE.match(data)
        if found is None:
            return False
        end = found.end() + int(found[3])
        if data[end:] != _NEXT % (PREFIX.encode(), found[2]):
            return False
        self._done.append(Round(found[1].decode(), data[found.end() : end]))
        return True

    def take(self) -> list[Request | ResponsePart | Round]:
        """Return the complete requests, and the parts of streams, that have arrived."""
        done, self._done = self._done, []
        return done

    def reply(self, status: str, headers: list[str], body: bytes) -> None:
        """Add a response to those that are not sent yet."""
        lines = "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}"])
        self.unsent += lines.encode("latin-1", "replace") + b"\r\n\r\n" + body

    def reply_text(self, text: str) -> None:
        """Write a response that is a text."""
        self.reply("200 OK", [], text.encode())
        self.write()

    def write(self) -> bytes | None:
        """Write the unsent replies without waiting; return what does not fit in, None when the peer is gone."""
        data, self.unsent = self.unsent, b""
        try:
            return data[self.socket.send(data) :] if data else data
        except BlockingIOError:
            return data
        except OSError:
            return None

    def write_whole(self, data: bytes) -> bool:
        """Write data, and wait while the peer reads. Return False when it is gone or does not read."""
        try:
            self.socket.settimeout(_SEND_TIMEOUT_S)
            self.socket.sendall(data)
            self.socket.setblocking(False)
        except OSError:
            return False
        return True

    # Callbacks of httptools.

    def on_message_begin(self) -> None:
        self._is_between = False
        self._reset()

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        if lowered == b"lambda-runtime-function-error-type":
            self._error_type = value.decode("latin-1")
        elif lowered == b"lambda-runtime-function-error-body":
            with contextlib.suppress(ValueError):
                self._error_body = base64.b64decode(value)
        elif lowered == b"lambda-runtime-function-response-mode":
            self._is_streaming = value.lower() == b"streaming"
        elif lowered == b"content-type":
            self._content_type = value.decode("latin-1")
        elif lowered in _OF_A_PAGE or (lowered == b"host" and not _HERE.match(value)):
            # This is a web page that scans for open ports; it would take an invocation away from the function.
            raise PermissionError("only the function's own process may use the Runtime API")
        elif lowered == b"expect":
            with contextlib.suppress(OSError):
                self.socket.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_headers_complete(self) -> None:
        self._in_head = False
        parts = self._path.decode().split("/")
        if self._is_streaming and parts[-1] == "response":
            self._streaming_id = parts[-2]
            self._stream(b"")

    def _stream(self, data: bytes) -> None:
        self._done.append(ResponsePart(self._streaming_id, self._content_type, data))

    def on_body(self, data: bytes) -> None:
        if self._streaming_id:
            self._stream(data)
            return
        self._length_bytes += len(data)
        # The bytes of a response beyond the limit are counted, but not stored.
        if self._length_bytes <= RESPONSE_PAYLOAD_BYTES:
            self._body += data

    def on_message_complete(self) -> None:
        self._is_between = True
        method = self._parser.get_method().decode()
        self._done.append(
            Request(
                method,
                self._path.decode(),
                bytes(self._body),
                self._length_bytes,
                self._error_type,
                self._error_body,
            )
        )


class Wait(NamedTuple):
    """What a running invocation waits for.

    Attributes:
        channel: the process's; its messages are wanted, or none when there are none after `seconds`.
        blocks: nothing is waited for, but what comes next takes a moment and needs a thread.
    """

    channel: RuntimeChannel
    seconds: float
    blocks: bool = False


class RuntimeChannel:
    """The connection to one function process: its socket, its output pipe, and the signal of its end."""

    def __init__(self, on_output: Callable[[bytes], None]) -> None:
        """Take the function that gets the output."""
        self._on_output = on_output
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._connections: set[RuntimeConnection] = set()
        self._waiting: RuntimeConnection | None = None
        # Where the current invocation was sent: most likely, the next message comes from there.
        self._invoked: RuntimeConnection | None = None
        # Whether the process has asked for its next invocation.
        self.ready = False
        self._messages: list[Message] = []
        self._most_bytes = _MOST_BYTES
        # Whether the last call of `poll` has left something that takes long, for one that is not brief.
        self.is_busy = False
        # Called by `close`.
        self.on_close: Callable[[], None] | None = None
        self._output: int | None = None
        self._end_signal: int | None = None
        self._only_pid: int | None = None

    def fileno(self) -> int:
        """Return a descriptor that is readable when `poll` has something to do."""
        # macOS's selector has one too.
        return cast("selectors.EpollSelector", self._selector).fileno()

    @property
    def address(self) -> str:
        """The value of AWS_LAMBDA_RUNTIME_API."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def attach(self, *, output: int, end_signal: int | None, only_pid: int | None = None) -> None:
        """Read a process's output from the descriptor `output`, which the channel closes, and watch for its end.

        `end_signal` is a descriptor that becomes readable when the process ends. Without it, the caller notices the
        end at its next check. With `only_pid`, only that process and its descendants may connect.
        """
        self._only_pid = only_pid
        os.set_blocking(output, False)
        self._output = output
        self._selector.register(output, selectors.EVENT_READ, self._read_output)
        if end_signal is not None:
            self._end_signal = end_signal
            self._selector.register(end_signal, selectors.EVENT_READ, self._handle_exit)

    def close(self) -> None:
        """Close every descriptor. A process that still runs loses its connection and ends."""
        if self.on_close is not None:
            self.on_close()
            self.on_close = None
        for connection in list(self._connections):
            self._drop(connection)
        if self._output is not None:
            os.close(self._output)
        self._output = self._end_signal = None
        self._listener.close()
        self._selector.close()

    def poll(self, timeout_s: float, *, briefly: bool = False) -> list[Message]:
        """Serve the process for up to `timeout_s`; return its messages. `briefly`: leave what takes long."""
        self._most_bytes = _BRIEF_BYTES if briefly else _MOST_BYTES
        self.is_busy = False
        if briefly and self._invoked is not None:
            self._read(self._invoked)
        if not self._messages:
            for key, _ in self._selector.select(timeout_s):
                cast("Callable[[], None]", key.data)()
        messages, self._messages = self._messages, []
        return messages

    def send(self, invocation: Invocation, deadline_ms: int) -> bytes | None:
        """Send an invocation to the process, which must be waiting; it times out at `deadline_ms` of the wall clock.

        Return what did not fit into the socket, for `send_rest`; None when the process is gone.
        """
        connection, self._waiting, self.ready = self._waiting, None, False
        assert connection is not None
        self._invoked = connection
        headers = [
            "Content-Type: application/json",
            f"Lambda-Runtime-Aws-Request-Id: {invocation.request_id}",
            f"Lambda-Runtime-Deadline-Ms: {deadline_ms}",
            f"Lambda-Runtime-Invoked-Function-Arn: {invocation.function_arn}",
            f"Lambda-Runtime-Trace-Id: {invocation.trace_id}",
        ]
        if invocation.client_context:
            headers.append(f"Lambda-Runtime-Client-Context: {invocation.client_context}")
        connection.reply("200 OK", headers, invocation.payload)
        return connection.write()

    def send_rest(self, rest: bytes) -> bool:
        """Wait until the process has read enough of its invocation. Return False when it does not, or is gone."""
        return self._invoked is not None and self._invoked.write_whole(rest)

    def drain_output(self, *, briefly: bool = False) -> bool:
        """Read what the process has written so far, or a part of it; return False when there may be more."""
        self._most_bytes = _BRIEF_BYTES if briefly else _MOST_BYTES
        self.is_busy = False
        self._read_output()
        return not self.is_busy

    def _read_output(self) -> None:
        left_bytes = self._most_bytes
        while self._output is not None:
            if left_bytes <= 0:
                self.is_busy = True
                return
            try:
                data = os.read(self._output, min(READ_BYTES, left_bytes))
            except BlockingIOError:
                return
            if not data:
                self._selector.unregister(self._output)
                os.close(self._output)
                self._output = None
                return
            # A process that writes line by line as fast as they are read never stops either.
            left_bytes -= max(len(data), _LEAST_READ_BYTES)
            self._on_output(data)

    # --- the socket ---------------------------------------------------------------------------

    def _leaves(self) -> bool:
        """Whether this call of `poll` leaves something that takes long."""
        is_brief = self._most_bytes < _MOST_BYTES
        self.is_busy = self.is_busy or is_brief
        return is_brief

    def _handle_exit(self) -> None:
        assert self._end_signal is not None
        if self._leaves():
            return
        self._selector.unregister(self._end_signal)
        # The process's last messages may still be in the sockets; handle them before its end.
        for connection in list(self._connections):
            self._read(connection)
        self._messages.append(ProcessEnded())

    def _accept(self) -> None:
        # Who connects is read from many files.
        if self._leaves():
            return
        with contextlib.suppress(BlockingIOError):
            peer, _ = self._listener.accept()
            if len(self._connections) >= _MOST_CONNECTIONS:
                peer.close()
                return
            if self._only_pid is not None and not is_of_process(self._only_pid, peer):
                # Another function, or any program of this machine: it would take the function's event.
                log.warning("a program other than the function connected to its Runtime API")
                peer.close()
                return
            # Send small segments at once: a body in a second segment would wait for a delayed acknowledgement.
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setblocking(False)
            connection = RuntimeConnection(peer)
            self._connections.add(connection)
            self._selector.register(peer, selectors.EVENT_READ, lambda: self._read(connection))

    def _drop(self, connection: RuntimeConnection) -> None:
        self._connections.discard(connection)
        if self._waiting is connection:
            self._waiting, self.ready = None, False
        if self._invoked is connection:
            self._invoked = None
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.socket.close()

    def _read(self, connection: RuntimeConnection) -> None:
        open_still = connection.receive(self._most_bytes)
        self.is_busy = self.is_busy or connection.has_more
        for item in connection.take():
            self._hear(connection, item)
        # What waits goes with the next invocation: the process has asked for that already.
        waits = self._waiting is connection and len(connection.unsent) <= _MOST_UNSENT_BYTES
        if not open_still or not (waits or connection.write() == b""):
            self._drop(connection)

    def _hear(self, connection: RuntimeConnection, item: Request | ResponsePart | Round) -> None:
        if isinstance(item, Round):
            connection.unsent += _ACCEPTED
            self._waiting, self.ready = connection, True
            self._messages += [Responded(*item), ReadyForInvocation()]
        elif isinstance(item, Request):
            self._serve(connection, item)
        else:
            self._messages.append(item)

    def _serve(self, connection: RuntimeConnection, request: Request) -> None:
        path = request.path.partition("?")[0]
        if path.startswith(_SDK_PREFIX):
            package = path.removeprefix(_SDK_PREFIX)
            self._messages.append(PackageWanted(package, connection.reply_text))
            return
        route = path.removeprefix(PREFIX) if path.startswith(PREFIX) else ""
        parts = route.split("/")
        match (request.method, parts):
            case ("GET", ["invocation", "next"]):
                self._waiting, self.ready = connection, True
                self._messages.append(ReadyForInvocation())
                return
            case ("POST", ["invocation", request_id, "response"]) if request.error_type:
                # If a stream ended with an error, the error is in the trailers.
                error = ErrorReported(request_id, request.error_type, request.error_body)
                self._messages.append(error)
            case ("POST", ["invocation", request_id, "response"]):
                over = request.length_bytes > RESPONSE_PAYLOAD_BYTES
                size = request.length_bytes if over else 0
                self._messages.append(Responded(request_id, request.body, size))
            case ("POST", ["invocation", request_id, "error"]):
                self._messages.append(ErrorReported(request_id, request.error_type, request.body))
            case ("POST", ["init", "error"]):
                self._messages.append(ErrorReported(None, request.error_type, request.body))
            case _:
                connection.reply("404 Not Found", [], b'{"errorType":"InvalidPath"}')
                return
        connection.unsent += _ACCEPTED
