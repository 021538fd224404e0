"""One connection of a function's process to its Runtime API: parses its requests, writes the replies."""

from __future__ import annotations

import base64
import contextlib
import re
import socket
from dataclasses import dataclass
from typing import NamedTuple

import httptools

from headrace.services.lambda_.errors import RESPONSE_PAYLOAD_BYTES

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


@dataclass(slots=True)
class ResponsePart:
    """A part of a streamed response. `content_type` is that of the whole response."""

    request_id: str
    content_type: str
    data: bytes


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
