"""Limits on a request's body while it is decoded: its unpacked size, its depth, its number of parameters.

A few kilobytes can be a gigabyte of zeros in gzip, a hundred thousand nested lists, or entities that expand without
end. The bounds are far beyond what SDKs send; they are headrace's own (assumed) where no source is named. The bodies of
services that headrace owns are bounded where they are decoded: `codec_json` (JSON and CBOR), `services/s3/bodies`
(XML), `services/lambda_/packages/unzip` (functions' code).
"""

from __future__ import annotations

import contextlib
import re
import zlib
from typing import Any
from xml.parsers import expat

from headrace.aws.calls.errors import AwsError, malformed_xml, serialization_error
from headrace.aws.calls.http import HttpRequest

# The largest body that is held in memory: larger ones are files, which only S3 accepts.
MOST_UNPACKED_BYTES = 16 * 1024 * 1024
# DynamoDB, whose items nest deepest, allows 32 levels of two brackets each (documented: its quotas).
MOST_JSON_LEVELS = 100
MOST_XML_LEVELS = 100
MOST_FORM_FIELDS = 10_000
MOST_GZIP_MEMBERS = 1000
_GZIP = 16 + zlib.MAX_WBITS
# Unpacked in pieces: zlib copies the bytes behind each gzip member, which for a whole body of many members would be
# thousands of copies.
_PIECE_BYTES = 64 * 1024
# Bytes that decoders skip at the start: byte order marks, white space, and the zero bytes of UTF-16 and UTF-32.
_BEFORE_TEXT = b"\xef\xbb\xbf\xfe\xff \t\r\n\0"
# A string without an end matches up to the end of the text: otherwise a retry from each quote would take quadratic
# time.
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def check_body(request: HttpRequest) -> None:
    """Unpack a gzip body in place, and check its size and depth. Raises AwsError.

    For callers that pass the body to a decoder without own bounds, such as moto's.
    """
    if request.body_file is not None:
        raise _too_large()
    if request.headers.get("content-encoding", "").strip().lower() == "gzip":
        request.body = unpack(request.body)
        request.headers = {**request.headers, "content-length": str(len(request.body))}
        del request.headers["content-encoding"]
    first = request.body.lstrip(_BEFORE_TEXT)[:1]
    if first in (b"{", b"["):
        check_json(request.body)
    elif first == b"<":
        check_xml(request.body)
    else:
        check_form(request)


def unpack(packed: bytes) -> bytes:
    """Return the content of a gzip body with one or more members. Raises AwsError."""
    parts: list[bytes] = []
    room_bytes, members = MOST_UNPACKED_BYTES, 0
    unpacker = None
    try:
        for at in range(0, len(packed), _PIECE_BYTES):
            piece = packed[at : at + _PIECE_BYTES]
            while piece:
                if unpacker is None:
                    unpacker = zlib.decompressobj(_GZIP)
                    members += 1
                part = unpacker.decompress(piece, room_bytes + 1)
                room_bytes -= len(part)
                if room_bytes < 0 or members > MOST_GZIP_MEMBERS:
                    raise _too_large()
                parts.append(part)
                piece = unpacker.unused_data
                if unpacker.eof:
                    unpacker = None
    except zlib.error as error:
        raise serialization_error("The body is not in the GZIP format") from error
    if unpacker is not None:
        raise serialization_error("The body ends in the middle of its gzip stream")
    return b"".join(parts)


def check_json(body: bytes) -> None:
    """Refuse JSON that nests too deeply for a recursive decoder. Raises AwsError SerializationException."""
    if body.count(b"{") + body.count(b"[") <= MOST_JSON_LEVELS:
        return
    level = 0
    for token in _JSON_TOKEN.finditer(body):
        first = token[0][:1]
        if first in b"[{":
            level += 1
            if level > MOST_JSON_LEVELS:
                raise serialization_error("The body is nested too deeply")
        elif first in b"]}":
            level -= 1


def check_xml(body: bytes) -> None:
    """Refuse a document type (which can define entities) and elements that nest too deeply. Raises AwsError.

    The parser refuses a body that is not XML.
    """
    level = 0

    def start(*_: Any) -> None:
        nonlocal level
        level += 1
        if level > MOST_XML_LEVELS:
            raise malformed_xml()

    def end(_: str) -> None:
        nonlocal level
        level -= 1

    def refuse(*_: Any) -> None:
        raise malformed_xml()

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = refuse
    with contextlib.suppress(expat.ExpatError):
        parser.Parse(body, True)


def check_form(request: HttpRequest) -> None:
    """Refuse more parameters than any request of the query protocol has. Raises AwsError."""
    form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    if form and request.body.count(b"&") >= MOST_FORM_FIELDS:
        raise AwsError("MalformedQueryString", "The request has too many parameters.", 400)


def _too_large() -> AwsError:
    return AwsError("RequestEntityTooLargeException", "Request is too large", 413)
