"""Decompresses a record of CloudWatch Logs, and splits a record into parts, before the function gets them."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from headrace.services.firehose.errors import invalid

# A record of 1,000 KiB can decompress to a thousand times its size.
MOST_INFLATED_BYTES = 64 * 1024 * 1024
# Source: docs.aws.amazon.com/firehose/latest/dev/dynamic-partitioning-multirecord-deaggergation.html (documented).
MOST_SUB_RECORDS = 500
_GZIP = 31
_decode = msgspec.json.Decoder().decode
_scan = json.JSONDecoder().raw_decode


class UnsplittableRecord(ValueError):
    """The record does not have the form that the processor needs."""


def inflate_logs(data: bytes) -> bytes:
    """Decompress a record of CloudWatch Logs: all members of a GZIP file. Raises UnsplittableRecord."""
    members: list[bytes] = []
    left, room = data, MOST_INFLATED_BYTES
    while left:
        inflate = zlib.decompressobj(_GZIP)
        try:
            part = inflate.decompress(left, room + 1)
        except zlib.error as error:
            raise UnsplittableRecord(f"not a GZIP file: {error}") from error
        if len(part) > room:
            raise UnsplittableRecord(f"it inflates to more than {MOST_INFLATED_BYTES} bytes")
        if not inflate.eof:
            raise UnsplittableRecord("the GZIP file ends early")
        members.append(part)
        room -= len(part)
        left = inflate.unused_data
    if not members:
        raise UnsplittableRecord("the record is empty")
    return b"".join(members)


def parse_logs(text: bytes) -> dict[str, Any]:
    """Decompress a record of CloudWatch Logs and check that it is JSON. Raises UnsplittableRecord."""
    try:
        envelope = _decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnsplittableRecord(f"not JSON: {error}") from error
    if not isinstance(envelope, dict):
        raise UnsplittableRecord("not a JSON object")
    return cast("dict[str, Any]", envelope)


def messages_of(envelope: Mapping[str, Any]) -> bytes:
    """Return the messages of the log events, each followed by a newline; none for a control message."""
    kind = envelope.get("messageType")
    if kind == "CONTROL_MESSAGE":
        return b""
    events = envelope.get("logEvents")
    if kind != "DATA_MESSAGE" or not isinstance(events, list):
        raise UnsplittableRecord("not a message of CloudWatch Logs")
    messages: list[str] = []
    for event in cast("list[Any]", events):
        message = cast("dict[str, Any]", event).get("message") if isinstance(event, dict) else None
        if not isinstance(message, str):
            raise UnsplittableRecord("a log event has no message")
        messages.append(message)
    return "".join(f"{message}\n" for message in messages).encode()


def delimiter_of_parameter(parameters: Mapping[str, str]) -> bytes:
    """Return the delimiter of a RecordDeAggregation processor with DELIMITED. Raises AwsError."""
    delimiter = parameters.get("Delimiter")
    if not delimiter:
        raise invalid("Delimiter should be present for DELIMITED")
    try:
        return base64.b64decode(delimiter, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("Delimiter must be base64 encoded.") from error


def json_parts(data: bytes) -> list[bytes]:
    """Return the JSON objects in a record, in sequence or on separate lines. Raises UnsplittableRecord."""
    try:
        if isinstance(_decode(data), dict):
            return [data.strip()]
    except (msgspec.DecodeError, RecursionError):
        pass  # Probably several values: the code below finds them.
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UnsplittableRecord("not UTF-8") from error
    parts: list[bytes] = []
    offset = 0
    while offset < len(text):
        if text[offset].isspace():
            offset += 1
            continue
        try:
            value, end = _scan(text, offset)
        except (ValueError, RecursionError) as error:
            raise UnsplittableRecord(f"not JSON: {error}") from error
        if not isinstance(value, dict):
            raise UnsplittableRecord("a part is not a JSON object")
        parts.append(text[offset:end].encode())
        offset = end
        if len(parts) > MOST_SUB_RECORDS:
            raise UnsplittableRecord(f"a record can have at most {MOST_SUB_RECORDS} parts")
    if not parts:
        raise UnsplittableRecord("the record is empty")
    return parts


def split_at_delimiter(data: bytes, delimiter: bytes) -> list[bytes]:
    """Split a record at a delimiter; leave out empty parts. Raises UnsplittableRecord."""
    parts = [part for part in data.split(delimiter) if part]
    if len(parts) > MOST_SUB_RECORDS:
        raise UnsplittableRecord(f"a record can have at most {MOST_SUB_RECORDS} parts")
    if not parts:
        raise UnsplittableRecord("the record is empty")
    return parts
