"""An HTTP/1.1 connection's answers: their bytes, the parts that come later, and the errors of the server itself.

Header and body of an answer leave in one write (two small writes cost 40 ms of delayed acknowledgement). A body that is
a file or an iterator becomes an asynchronous generator of parts; the consumer always closes it, which closes the file
or the stream behind it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import DROPPED, FileSlice, HttpResponse
from headrace.aws.protocols import codec_json
from headrace.aws.server.connection import Connection, Exchange, RequestTaker
from headrace.aws.server.thread_pool import Job
from headrace.aws.signatures.credential_scopes import scope_of_headers

log = logging.getLogger(__name__)

FILE_READ_BYTES = 256 * 1024

Submit = Callable[..., Job]


async def file_parts(part: FileSlice) -> AsyncGenerator[bytes, None]:
    """Yield a slice of a file, piece by piece. Raises OSError, also when the file has become shorter."""
    loop = asyncio.get_running_loop()
    with part.file or part.path.open("rb") as file:
        at, end = part.offset_bytes, part.offset_bytes + part.length_bytes
        while at < end:
            size_bytes = min(FILE_READ_BYTES, end - at)
            piece = await loop.run_in_executor(None, os.pread, file.fileno(), size_bytes, at)
            if not piece:
                raise OSError(f"{part.path} ends {end - at} bytes too soon")
            at += len(piece)
            yield piece


async def iterator_parts(body: Iterator[bytes], submit: Submit) -> AsyncGenerator[bytes, None]:
    """Yield the parts of an iterator, which runs on the threads of `submit`."""
    pending: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            pending = submit(next, body, None).done
            # Shielded, so that the end of the thread's call is known: a running generator cannot be closed.
            piece = await asyncio.shield(pending)
            if piece is None:
                return
            yield piece
    finally:
        if pending is None or pending.done():
            _close(body)
        else:
            pending.add_done_callback(lambda last: _close_after(last, body))


def _close_after(last: asyncio.Future[bytes | None], body: Iterator[bytes]) -> None:
    if not last.cancelled() and last.exception() is not None:
        log.info("an answer's body failed after its client had gone: %s", last.exception())
    _close(body)


def _close(body: Iterator[bytes]) -> None:
    close = getattr(cast("Any", body), "close", None)
    if close is not None:
        close()


def length_of(answer: HttpResponse) -> int | None:
    """Return the body's length in bytes, when it is known."""
    body = answer.body
    if isinstance(body, FileSlice):
        return body.length_bytes
    return len(body) if isinstance(body, bytes) else None


_TEXT = [("Content-Type", "text/plain")]


def plain(status: int, message: str) -> HttpResponse:
    """Return a plain text answer to an invalid HTTP request, whose AWS protocol is unknown."""
    return HttpResponse(status, list(_TEXT), f"{message}\n".encode())


def internal_failure() -> HttpResponse:
    """Return the answer when the server itself fails; the log has the traceback."""
    return plain(500, "internal failure")


def busy(headers: Mapping[str, str]) -> HttpResponse:
    """Return 503: the server has more requests than its limits allow.

    Source: S3's ErrorResponses (SlowDown), and the common errors of AWS's other APIs (ServiceUnavailable); documented.
    """
    if _is_s3(headers):
        return _shape_error(headers, AwsError("SlowDown", "Please reduce your request rate.", 503))
    message = "The request has failed due to a temporary failure of the server."
    return _shape_error(headers, AwsError("ServiceUnavailable", message, 503))


def busy_for(head: bytes) -> HttpResponse:
    """Return `busy` for a request whose head was not parsed, because no connection is left for it."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    fields = (line.partition(":") for line in lines)
    return busy({name.strip().lower(): value.strip() for name, _, value in fields})


def body_late(headers: Mapping[str, str]) -> HttpResponse:
    """Return the answer to a request whose body stopped arriving.

    Source: S3's ErrorResponses (RequestTimeout), documented; 408 and the connection closed of CloudWatch, observed
    (Stack Overflow 78983877, 2024-09-09).
    """
    if not _is_s3(headers):
        return plain(408, "the request's body stopped coming")
    message = (
        "Your socket connection to the server was not read from or written to within the timeout period."
        " Idle connections will be closed."
    )
    return _shape_error(headers, AwsError("RequestTimeout", message, 400))


def body_too_large(headers: Mapping[str, str]) -> HttpResponse:
    """Return the answer to a body over 5 GiB. Source: S3's ErrorResponses (EntityTooLarge); documented."""
    if _is_s3(headers):
        message = "Your proposed upload exceeds the maximum allowed object size."
        return _shape_error(headers, AwsError("EntityTooLarge", message, 400))
    return _shape_error(
        headers, AwsError("RequestEntityTooLargeException", "Request is too large", 413)
    )


def body_not_stored(headers: Mapping[str, str]) -> HttpResponse:
    """Return the answer to a body that does not fit on the disk."""
    message = "The server could not store the request's body; its log says why."
    code = "InternalError" if _is_s3(headers) else "InternalFailure"
    return _shape_error(headers, AwsError(code, message, 500))


def _is_s3(headers: Mapping[str, str]) -> bool:
    if "x-amz-target" in headers or _is_form(headers):
        return False
    return scope_of_headers(headers).service in ("", "s3", "s3express")


def _is_form(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").startswith("application/x-www-form-urlencoded")


def _shape_error(headers: Mapping[str, str], error: AwsError) -> HttpResponse:
    content_type = headers.get("content-type", "")
    if _is_s3(headers):
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{error.code}</Code><Message>{error.message}</Message></Error>"
        )
        return HttpResponse(error.status, [("Content-Type", "application/xml")], text.encode())
    if _is_form(headers):
        kind = "Sender" if error.status < 500 else "Receiver"
        text = (
            f"<ErrorResponse><Error><Type>{kind}</Type><Code>{error.code}</Code>"
            f"<Message>{error.message}</Message></Error></ErrorResponse>"
        )
        return HttpResponse(error.status, [("Content-Type", "text/xml")], text.encode())
    if not codec_json.is_cbor(content_type) and not content_type.startswith("application/x-amz-"):
        content_type = codec_json.JSON_1_1
    return HttpResponse(
        error.status,
        [("Content-Type", content_type), ("x-amzn-ErrorType", error.code)],
        codec_json.encode_error(error, content_type),
    )


_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]+")
# Statuses without a body; 0 drops the connection.
BODILESS = frozenset({0, 101, 204, 304})
# Header and body of a small answer are joined into one packet; for a large one the copy would cost more.
WRITE_APART_ABOVE_BYTES = 256 * 1024


def whole(answer: HttpResponse, method: str, *, keep_alive: bool) -> tuple[bytes, ...]:
    """Return the pieces to write of an answer whose body is bytes, to a request with this method."""
    body = answer.body
    assert isinstance(body, bytes)
    is_short = len(body) < WRITE_APART_ABOVE_BYTES
    if keep_alive and is_short and has_body(method, answer.status):
        return (short(answer, body),)
    length_bytes = None if answer.status in BODILESS else len(body)
    data = head(answer, length_bytes, keep_alive=keep_alive)
    if not has_body(method, answer.status):
        return (data,)
    return (data + body,) if is_short else (data, body)


def has_body(method: str, status: int) -> bool:
    """Whether an answer carries its body; an answer to HEAD does not."""
    return method != "HEAD" and status not in BODILESS


# By status and headers but the last: how answers begin that have been written before, up to the request id.
_beginnings: dict[tuple[int | tuple[str, str], ...], str] = {}
_MOST_BEGINNINGS = 100


def short(answer: HttpResponse, body: bytes) -> bytes:
    """Return an answer with this short body, to a request that is not HEAD, on a connection that stays open."""
    headers = answer.headers
    # Services that headrace owns answer with a content type and a request id, an Invoke with a version between them.
    name, value = headers[-1] if headers else ("", "")
    if name == _REQUEST_ID and value.isprintable():
        first = headers[0]
        key = (answer.status, first) if len(headers) == 2 else (answer.status, *headers[:-1])
        begin = _beginnings.get(key) or _begin(answer.status, headers[:-1])
        if begin:
            text = f"{begin}{value}\r\nContent-Length: {len(body)}\r\n\r\n"
            return text.encode("latin-1", "replace") + body
    return head(answer, len(body)) + body


_REPEATED = ["Content-Type", "X-Amz-Executed-Version"]
_REQUEST_ID = "x-amzn-RequestId"


def _begin(status: int, headers: list[tuple[str, str]]) -> str:
    """Return how answers with this status begin that have these headers again and again; else nothing."""
    if [name for name, _ in headers] not in (_REPEATED[:1], _REPEATED):
        return ""
    if len(_beginnings) >= _MOST_BEGINNINGS:
        _beginnings.clear()
    text = f"{head(HttpResponse(status, headers), None)[:-2].decode('latin-1')}{_REQUEST_ID}: "
    _beginnings[status, *headers] = text
    return text


def head(
    answer: HttpResponse,
    length_bytes: int | None,
    *,
    keep_alive: bool = True,
    chunked: bool = False,
) -> bytes:
    """Return the status line and the header fields."""
    text = _STATUS_LINES.get(answer.status) or f"HTTP/1.1 {answer.status} \r\n"
    lines = 1 + len(answer.headers)
    for name, value in answer.headers:
        if len(name) == 14 and name.lower() == "content-length":
            length_bytes = None
        text = f"{text}{name}: {value}\r\n"
    if text.count("\n") != lines or text.count("\r") != lines:
        # Line ends in a client's text, such as an object's metadata, would begin another header, or the body.
        fields = ((clean(name), clean(value)) for name, value in answer.headers)
        return head(
            HttpResponse(answer.status, list(fields)),
            length_bytes,
            keep_alive=keep_alive,
            chunked=chunked,
        )
    if length_bytes is not None:
        text += f"Content-Length: {length_bytes}\r\n"
    if chunked:
        text += "Transfer-Encoding: chunked\r\n"
    if not keep_alive:
        text += "Connection: close\r\n"
    return (text + "\r\n").encode("latin-1", "replace")


def clean(value: str) -> str:
    """Return a header's name or value without characters that would end it."""
    return _CONTROL.sub(" ", value)


FILE_PIECE_BYTES = 16 * 1024 * 1024


@dataclass(eq=False)
class AnswerWriter:
    """Writes the answers of the connection `_owner`. Runs on the event loop's thread.

    Attributes:
        transport: None before the connection is made, and once it is gone.
        writable: set while the socket accepts more bytes.
        sending: the task that sends a file; None when there is none.
        streaming: the task that writes a body without an end; None when there is none.
        since_s: when the last piece of a file was begun, by the server's clock.
    """

    _server: RequestTaker
    _owner: Connection
    writable: asyncio.Event
    transport: asyncio.Transport | None = None
    sending: asyncio.Task[None] | None = None
    streaming: asyncio.Task[None] | None = None
    since_s: float = 0.0

    def stop_streaming(self) -> None:
        """Stop the task that writes a body without an end."""
        if self.streaming is not None:
            self.streaming.cancel()

    def stop(self) -> None:
        """Stop both tasks: the connection is gone."""
        for task in (self.streaming, self.sending):
            if task is not None:
                task.cancel()

    def stop_sending(self) -> None:
        """Stop sending a file; call this before the socket is closed, since its descriptor may be reused at once."""
        if self.sending is not None:
            self.sending.cancel()

    def send(self, data: bytes) -> None:
        """Send bytes, unless the connection is gone."""
        if self.transport is not None:
            self.transport.write(data)

    def write(self, exchange: Exchange, answer: HttpResponse) -> bool:
        """Write an answer whose body is bytes; return whether it was sent, rather than the connection dropped."""
        if answer.status == DROPPED:
            self._owner.abort()
            return False
        pieces = whole(answer, exchange.request.method, keep_alive=exchange.keep_alive)
        if self.transport is not None:
            for piece in pieces:
                self.transport.write(piece)
        return True

    async def write_long(self, exchange: Exchange, answer: HttpResponse) -> bool:
        """Write an answer whose body is a file or an iterator; return whether all of it was written.

        Raises OSError.
        """
        if isinstance(answer.body, FileSlice):
            return await self._write_file(exchange, answer, answer.body)
        return await self._write_parts(exchange, answer)

    async def _write_parts(self, exchange: Exchange, answer: HttpResponse) -> bool:
        """Write the parts of a body as they are made, at the client's pace."""
        length_bytes = length_of(answer)
        chunked = length_bytes is None and not exchange.is_http10
        parts = self._server.parts(exchange, self._owner, answer)
        if isinstance(answer.body, AsyncGenerator):
            self.streaming = asyncio.current_task()
        try:
            if not self._is_open:
                return False
            self.send(head(answer, length_bytes, keep_alive=exchange.keep_alive, chunked=chunked))
            if has_body(exchange.request.method, answer.status):
                async for part in parts:
                    if part:
                        self.send(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
                    await self.writable.wait()
                    if not self._is_open:
                        return False
                if chunked:
                    self.send(b"0\r\n\r\n")
        except asyncio.CancelledError:
            # The client is gone, and nothing awaits this task.
            self._owner.close()
            return False
        else:
            return True
        finally:
            self.streaming = None
            await parts.aclose()

    async def _write_file(self, exchange: Exchange, answer: HttpResponse, part: FileSlice) -> bool:
        """Let the kernel send a slice of a file, which takes a quarter of the work of reading it. Raises OSError."""
        loop, transport = asyncio.get_running_loop(), self.transport
        with part.file or part.path.open("rb") as file:
            if transport is None:
                return False
            transport.write(head(answer, part.length_bytes, keep_alive=exchange.keep_alive))
            at, end = part.offset_bytes, part.offset_bytes + part.length_bytes
            if not has_body(exchange.request.method, answer.status):
                at = end
            self.sending = asyncio.current_task()
            try:
                while at < end and self._is_open:
                    # In pieces, so that progress of the client is noticed.
                    self.since_s = self._server.now_s
                    sent = await loop.sendfile(transport, file, at, min(end - at, FILE_PIECE_BYTES))
                    if not sent:
                        raise OSError(f"{part.path} ends {end - at} bytes too soon")
                    at += sent
            except asyncio.CancelledError:
                return False  # the connection was closed, and nothing awaits this task
            finally:
                self.sending = None
        return True

    @property
    def _is_open(self) -> bool:
        """Whether the client is still connected; call this after every wait."""
        return self.transport is not None
