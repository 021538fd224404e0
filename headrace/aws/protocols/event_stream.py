"""Encodes messages of `application/vnd.amazon.eventstream`, as servers send them.

    message = total length u32 | headers' length u32 | crc32 of these u32 | headers | payload | crc32 of all u32
    header  = name length u8 | name | type u8 (7: text) | value length u16 | value

All integers big-endian. Source: the event-stream specification in smithy's documentation (documented).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

CONTENT_TYPE = "application/vnd.amazon.eventstream"

_PRELUDE = struct.Struct(">II")
_U32 = struct.Struct(">I")
_TEXT_TYPE = 7
_FIXED_BYTES = 16


def encode(headers: Sequence[tuple[str, str]], payload: bytes) -> bytes:
    """Return a message with text headers."""
    parts: list[bytes] = []
    for name, value in headers:
        name_bytes, value_bytes = name.encode(), value.encode()
        parts += (
            bytes((len(name_bytes),)),
            name_bytes,
            struct.pack(">BH", _TEXT_TYPE, len(value_bytes)),
            value_bytes,
        )
    head = b"".join(parts)
    prelude = _PRELUDE.pack(len(head) + len(payload) + _FIXED_BYTES, len(head))
    begin = prelude + _U32.pack(zlib.crc32(prelude)) + head
    return b"".join((begin, payload, _U32.pack(zlib.crc32(payload, zlib.crc32(begin)))))


def event(event_type: str, payload: bytes, content_type: str) -> bytes:
    """Return an event; in RPC protocols the first event of a stream is `initial-response`."""
    headers = (
        (":message-type", "event"),
        (":event-type", event_type),
        (":content-type", content_type),
    )
    return encode(headers, payload)


def exception(exception_type: str, payload: bytes, content_type: str) -> bytes:
    """Return a modelled error; it is the stream's last message."""
    headers = (
        (":message-type", "exception"),
        (":exception-type", exception_type),
        (":content-type", content_type),
    )
    return encode(headers, payload)
