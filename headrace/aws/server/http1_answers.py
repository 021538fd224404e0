"""Makes the bytes of an HTTP/1.1 answer: status line, header fields and a body of bytes."""

from __future__ import annotations

import re
from http import HTTPStatus

from headrace.aws.calls.http import HttpResponse

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
    length_bytes = None if answer.status in BODILESS else len(body)
    data = head(answer, length_bytes, keep_alive=keep_alive)
    if not has_body(method, answer.status):
        return (data,)
    return (data + body,) if len(body) < WRITE_APART_ABOVE_BYTES else (data, body)


def has_body(method: str, status: int) -> bool:
    """Whether an answer carries its body; an answer to HEAD does not."""
    return method != "HEAD" and status not in BODILESS


def head(
    answer: HttpResponse,
    length_bytes: int | None,
    *,
    keep_alive: bool = True,
    chunked: bool = False,
) -> bytes:
    """Return the status line and the header fields."""
    text = _STATUS_LINES.get(answer.status) or f"HTTP/1.1 {answer.status} \r\n"
    lines = 1
    for name, value in answer.headers:
        if len(name) == 14 and name.lower() == "content-length":
            length_bytes = None
        text += f"{name}: {value}\r\n"
        lines += 1
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
