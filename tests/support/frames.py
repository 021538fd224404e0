"""HTTP/2 frames by hand, for what no client library would send, and for what comes back."""

from __future__ import annotations

from typing import NamedTuple

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE = range(9)
CONTINUATION = 9
NO_ERROR, PROTOCOL_ERROR, ENHANCE_YOUR_CALM = 0, 1, 11
REFUSED_STREAM, CANCEL = 7, 8
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8


class Frame(NamedTuple):
    """A frame that came."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    """Return a frame's bytes."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def number(value: int) -> bytes:
    """Return four bytes."""
    return value.to_bytes(4)


def headers(
    stream: int, *more: tuple[str, str], path: str = "/", method: str = "POST", end: bool = True
) -> bytes:
    """Return a HEADERS frame of a request to the host `t`; nothing in it needs a table."""
    fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "t")]
    block = encoded([*fields, *more])
    return frame(HEADERS, block, flags=END_HEADERS | (END_STREAM if end else 0), stream=stream)


def encoded(fields: list[tuple[str, str]]) -> bytes:
    """Return a header block by itself, that adds nothing to a table."""
    return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*field) for field in fields])


HELLO = PREFACE + frame(SETTINGS)
GOODBYE = frame(GOAWAY, bytes(8))


def frames_of(data: bytes) -> list[Frame]:
    """Return the frames in what came; the last must be whole."""
    found: list[Frame] = []
    while data:
        size = int.from_bytes(data[:3])
        assert len(data) >= 9 + size, "a part of a frame"
        found.append(
            Frame(data[3], data[4], int.from_bytes(data[5:9]) & 0x7FFFFFFF, data[9 : 9 + size])
        )
        data = data[9 + size :]
    return found


def body_of(data: bytes, stream: int = 1) -> tuple[bytes, bool]:
    """Return (what came on a stream, whether it is whole)."""
    mine = [f for f in frames_of(data) if f.stream == stream and f.kind in (DATA, HEADERS)]
    body = b"".join(f.payload for f in mine if f.kind == DATA)
    return body, any(f.flags & END_STREAM for f in mine)


def goaway_of(data: bytes) -> int | None:
    """Return the error code of the GOAWAY that came; None without one."""
    for each in frames_of(data):
        if each.kind == GOAWAY:
            return int.from_bytes(each.payload[4:8])
    return None
