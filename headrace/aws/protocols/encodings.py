"""Encodings of single services: base64 in JSON, event streams, Smithy RPC v2 CBOR.

Checks the base64 texts of a request, many at once, and computes their decoded size without decoding them.

Encodes messages of `application/vnd.amazon.eventstream`, as servers send them.

    message = total length u32 | headers' length u32 | crc32 of these u32 | headers | payload | crc32 of all u32
    header  = name length u8 | name | type u8 (7: text) | value length u16 | value

All integers big-endian. Source: the event-stream specification in smithy's documentation (documented).

Translates Smithy RPC v2 CBOR, which the newest SDKs use for CloudWatch, to AWS's JSON protocol and back.

A request becomes the JSON request of the same operation, and its JSON answer becomes CBOR, so that permissions,
strictness and the service see one form only. Source:
https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html.
"""

from __future__ import annotations

import base64
import re
import string
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import cbor2
import msgspec
from botocore.exceptions import UnknownServiceError
from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import operation_model, service_model

_PROTOCOL = "rpc-v2-cbor"
_PATH = re.compile(r"/service/([\w.-]{1,200})/operation/(\w{1,200})")


def is_rpc(request: HttpRequest) -> bool:
    """Whether a request uses this protocol."""
    return request.headers.get("smithy-protocol") == _PROTOCOL


def answer_as_cbor(
    request: HttpRequest, service: str, answer_json: Callable[[HttpRequest], HttpResponse]
) -> HttpResponse:
    """Answer a request by the answer of `answer_json` to the same request in JSON. `service` is botocore's name."""
    try:
        operation, asked = _as_json(request, service)
    except AwsError as error:
        return _response(error.status, [], {"__type": error.code, "message": error.message})
    answer = answer_json(asked)
    value: Any = msgspec.json.decode(bytes(cast("bytes", answer.body)) or b"{}")
    if "Message" in value and answer.status >= 300:
        value["message"] = value.pop("Message")
    if answer.status < 300:
        value = _with_types(operation_model(service, operation).output_shape, value)
    kept = [(name, text) for name, text in answer.headers if name.lower() not in _OF_A_BODY]
    return _response(answer.status, kept, value)


_OF_A_BODY = ("content-type", "content-length", "x-amzn-errortype")


def _response(status: int, headers: list[tuple[str, str]], value: Any) -> HttpResponse:
    kind = [("Content-Type", "application/cbor"), ("smithy-protocol", _PROTOCOL)]
    return HttpResponse(status, [*kind, *headers], cbor2.dumps(value))


def _as_json(request: HttpRequest, service: str) -> tuple[str, HttpRequest]:
    """Return the operation and the request in JSON. Raises AwsError."""
    path = _PATH.fullmatch(request.path)
    operation = "" if path is None else path[2]
    try:
        model = service_model(service)
    except UnknownServiceError as error:  # a name in a signature that no service has
        raise AwsError(
            "UnknownOperationException", f"headrace has no service {service}."
        ) from error
    metadata: Mapping[str, Any] = model.metadata
    if "jsonVersion" not in metadata or operation not in model.operation_names:
        raise AwsError(
            "UnknownOperationException", f"{service} has no operation {operation or request.path}."
        )
    try:
        value: Any = cbor2.loads(request.body, semantic_decoders=_TAGS) if request.body else {}
        body = msgspec.json.encode(_plain(value))
    except (cbor2.CBORDecodeError, EOFError, ValueError, TypeError, RecursionError) as error:
        raise AwsError("SerializationException", "The body is not the CBOR of an input.") from error
    headers = {
        **{name: text for name, text in request.headers.items() if name != "smithy-protocol"},
        "content-type": f"application/x-amz-json-{metadata['jsonVersion']}",
        "content-length": str(len(body)),
        "x-amz-target": f"{metadata['targetPrefix']}.{operation}",
    }
    return operation, msgspec.structs.replace(
        request, path="/", query="", headers=headers, body=body
    )


def _refuse_tag(*_: Any) -> Any:
    raise ValueError("the protocol has no such tag")


def _seconds(value: Any, _immutable: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("no time")
    return value


# Times are seconds under tag 1; other tags, such as shared references, could expand a small body.
_TAGS: dict[int, Callable[..., Any]] = {
    **dict.fromkeys(
        (25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000), _refuse_tag
    ),
    1: _seconds,
}


def _plain(value: Any) -> Any:
    """Return a decoded value as AWS's JSON writes it, with base64 for bytes. Raises ValueError when JSON cannot."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        if not all(isinstance(name, str) for name, _ in pairs):
            raise ValueError("a key that is no text")
        return {name: _plain(item) for name, item in pairs}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if value is None or isinstance(value, str | int | float):
        if isinstance(value, float) and value - value != 0:
            raise ValueError("JSON has no such number")
        return value
    raise ValueError("no value of the protocol")


def _with_types(shape: Shape | None, value: Any) -> Any:
    """Return an answer's JSON value with times under tag 1 and blobs as bytes."""
    if shape is None or value is None:
        return value
    if isinstance(shape, StructureShape):
        members = cast("Mapping[str, Any]", shape.members)
        return {name: _with_types(members.get(name), item) for name, item in value.items()}
    if isinstance(shape, ListShape):
        return [_with_types(shape.member, item) for item in value]
    if isinstance(shape, MapShape):
        return {name: _with_types(shape.value, item) for name, item in value.items()}
    if shape.type_name == "timestamp":
        seconds = datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value
        return cbor2.CBORTag(1, seconds)
    if shape.type_name == "blob":
        return base64.b64decode(value)
    return float(value) if shape.type_name in ("double", "float") else value


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


# The characters that may stand before padding.
_BEFORE_ONE, _BEFORE_TWO = "AEIMQUYcgkosw048", "AQgw"
_LOOSE_END = re.compile(f"[^{_BEFORE_TWO}]==,|[^{_BEFORE_ONE}=]=,").search
# Whether one text of whole groups of four is canonical base64: padding only at the end, unused bits zero.
is_base64_text = re.compile(f"[A-Za-z0-9+/]*(?:[{_BEFORE_ONE}]=|[{_BEFORE_TWO}]==)?").fullmatch
_BASE64 = (string.ascii_letters + string.digits + "+/").encode()


def is_base64(data: Sequence[str], lengths: set[int]) -> bool:
    """Whether joined texts of these lengths, all multiples of four, are base64; see `count_padding`."""
    return count_padding(data, lengths) is not None


def count_padding(data: Sequence[str], lengths: set[int]) -> int | None:
    """Return the number of `=` in joined texts of these lengths, all multiples of four; None when they are not base64.

    The texts must be as SDKs write base64: no other characters, `=` only once or twice at an end, and unused bits zero,
    since readers get the stored text unchanged and their decoders may be strict. The action checks texts that fail one
    by one.

    The decoded size is three quarters of the lengths, less this number.
    """
    joined = "".join(data)
    if not joined.isascii():
        return None
    left = joined.encode("ascii").translate(None, _BASE64)
    if not left:
        return 0
    if left.strip(b"="):
        return None
    return len(left) if _is_padded_well(data, lengths, joined, len(left)) else None


def _is_padded_well(data: Sequence[str], lengths: set[int], joined: str, padding: int) -> bool:
    """Whether all `padding` characters `=` are at the ends of texts."""
    if len(lengths) == 1 and padding % len(data) == 0:
        # The texts have one length, so most likely the same padding: their ends are at equal distances.
        (length,) = lengths
        last, before = joined[length - 1 :: length], joined[length - 2 :: length]
        if padding == len(data) and not last.strip("="):
            return not before.strip(_BEFORE_ONE)
        if padding == 2 * len(data) and not last.strip("=") and not before.strip("="):
            return not joined[length - 3 :: length].strip(_BEFORE_TWO)
    ends = ",".join([text[-3:] for text in data]) + ","
    return padding == ends.count("=,") + ends.count("==,") and not _LOOSE_END(ends)
