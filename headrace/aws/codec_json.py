"""The JSON 1.0/1.1 and CBOR protocols: bodies to typed inputs and back, driven by botocore's model.

Decoding gives values as operations take them: blobs are bytes, timestamps aware datetimes; members that the
model does not know are dropped, as AWS does; a member of the wrong type is AWS's SerializationException, in AWS's
sentences: kinesalite's recorded ones for lists, maps, structures and blobs, and those with `STRING_VALUE` and its like
that AWS has used since (observed by others up to 2024 at Kinesis's siblings, such as CodeDeploy, SQS and X-Ray). A body
that is no JSON, or empty, gets the bare code, with no sentence at all (observed: Kinesis and Firehose).
Functions are compiled once per shape and are thread-safe.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import cbor2
import msgspec
from botocore.model import Shape

from headrace.aws.errors import AwsError, serialization_error
from headrace.aws.model import operation_model
from headrace.aws.shape_functions import (
    LIST_NOT_EXPECTED,
    MAP_NOT_EXPECTED,
    Convert,
    ShapeCompiler,
)

JSON_1_1 = "application/x-amz-json-1.1"
CBOR_1_1 = "application/x-amz-cbor-1.1"

_LONG_MAX = 2**63
_EPOCH = "milliseconds since epoch"
_NOT_BASE64 = re.compile("[^A-Za-z0-9+/=]|=[^=]")
# Of a blob that is no base64: it may be ten megabytes.
_MOST_SHOWN = 1000


def is_cbor(content_type: str) -> bool:
    """Whether a request with this Content-Type carries CBOR."""
    return content_type.startswith("application/x-amz-cbor")


def answer_type(content_type: str) -> str:
    """Return the Content-Type of the answer to a request with this one."""
    if is_cbor(content_type):
        return CBOR_1_1
    return content_type if content_type.startswith("application/x-amz-json") else JSON_1_1


# --- decoding ---------------------------------------------------------------------------------


def decode_body(body: bytes, content_type: str) -> dict[str, Any]:
    """Return the request's top-level structure. Raises AwsError SerializationException."""
    try:
        value = _load_cbor(body) if is_cbor(content_type) else msgspec.json.decode(body)
    except (
        EOFError,
        msgspec.DecodeError,
        cbor2.CBORDecodeError,
        UnicodeDecodeError,
        RecursionError,
    ) as error:
        raise serialization_error() from error
    if isinstance(value, list):
        raise serialization_error(LIST_NOT_EXPECTED)  # assumed: as for a member
    if not isinstance(value, dict):
        raise serialization_error()
    return cast("dict[str, Any]", value)


def _decode_epoch_ms(value: Any, _immutable: bool) -> datetime:
    # AWS's CBOR counts milliseconds under tag 1, where RFC 8949 counts seconds. What is raised here becomes
    # a CBORDecodeError.
    # Source: SdkCborGenerator and AwsCborProtocolFactory of AWS's SDK for Java, both versions.
    return _from_epoch_s(value / 1000)


def _refuse_tag(*_: Any) -> Any:
    raise ValueError("no SDK sends it")


# What AWS's protocol has no use for, and could make much of little: values that stand for others, by number, and
# regular expressions. What is raised becomes a CBORDecodeError.
_CBOR_TAGS = {
    **dict.fromkeys(
        (25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000), _refuse_tag
    ),
    1: _decode_epoch_ms,
}


def _load_cbor(body: bytes) -> Any:
    return cbor2.loads(body, semantic_decoders=_CBOR_TAGS)


def decode_input(service: str, operation: str, body: bytes, content_type: str) -> dict[str, Any]:
    """Return the operation's input. Raises AwsError SerializationException."""
    raw = decode_body(body, content_type)
    shape = operation_model(service, operation).input_shape
    if shape is None:
        return {}
    return cast("dict[str, Any]", _decoder(service, operation)(raw))


def decode_rest_json(service: str, operation: str, body: bytes) -> dict[str, Any]:
    """Return the members of a rest-json input that its body holds. Raises SerializationException.

    A raw payload (a blob, such as Invoke's) is returned as bytes under its member's name.
    """
    shape = operation_model(service, operation).input_shape
    if shape is None:
        return {}
    payload = shape.serialization.get("payload")
    if payload is not None and shape.members[payload].type_name in ("blob", "string"):
        return {payload: body} if body else {}
    if not body:
        return {}
    try:
        value = decode_body(body, JSON_1_1)
    except AwsError as error:
        raise _unreadable(service, body, error) from error
    decoded = cast(
        "dict[str, Any]", _decoder(service, operation)({payload: value} if payload else value)
    )
    return {
        name: item
        for name, item in decoded.items()
        if "location" not in shape.members[name].serialization
    }


def _unreadable(service: str, body: bytes, error: AwsError) -> AwsError:
    """Return what a REST service says of a body that is no JSON object."""
    if service != "lambda":
        return error
    # Source: API_CreateFunction names the code (documented); the sentence is Invoke's for its payload (recorded).
    text = body.decode("utf-8", "replace")
    try:
        json.loads(text)
        place, why = 0, "an object was expected"
    except json.JSONDecodeError as wrong:
        place = wrong.pos
        found = text[place : place + 1]
        why = (
            f"Unexpected character ('{found}' (code {ord(found)}))"
            if found
            else "Unexpected end-of-input"
        )
    except (RecursionError, ValueError):  # more levels, or more digits, than Python takes
        place, why = 0, "too deep a value, or too long a number"
    return AwsError(
        "InvalidRequestContentException",
        f"Could not parse request body into json: {why}\n at [Source: (byte[]); line: 1, column: {place + 1}]",
    )


@functools.cache
def _decoder(service: str, operation: str) -> Convert:
    shape = operation_model(service, operation).input_shape
    assert shape is not None
    return ShapeCompiler(_decode_leaf).compile(shape)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    if isinstance(value, bytes):  # CBOR alone has these two; their names are assumed
        return "BLOB_VALUE"
    if isinstance(value, datetime):
        return "TIMESTAMP_VALUE"
    return "STRING_VALUE" if isinstance(value, str) else "NUMBER_VALUE"


def _refuse(value: Any, wanted: str) -> AwsError:
    if isinstance(value, Mapping):
        return serialization_error(MAP_NOT_EXPECTED)
    if isinstance(value, list | tuple):
        return serialization_error(LIST_NOT_EXPECTED)
    return serialization_error(f"{_kind(value)} can not be converted to {wanted}")


def _decode_string(value: Any) -> str:
    if not isinstance(value, str):
        raise _refuse(value, "a String")
    return value


def _decode_integer(value: Any, wanted: str = "an Integer") -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(value, wanted)
    if not -_LONG_MAX <= value < _LONG_MAX:
        raise serialization_error(f"NUMBER_VALUE out of range for {wanted}")
    return int(value)


def _decode_long(value: Any) -> int:
    return _decode_integer(value, "a Long")


def _decode_double(value: Any, wanted: str = "a Double") -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(value, wanted)
    return float(value)


def _decode_float(value: Any) -> float:
    return _decode_double(value, "a Float")


def _decode_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse(value, "a Boolean")
    return value


def _decode_blob(value: Any) -> bytes:
    if isinstance(value, bytes):  # CBOR
        return value
    if not isinstance(value, str):
        raise _refuse(value, "a Blob")
    try:
        decoded = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _not_base64(value) from error
    if value.endswith("=") and base64.b64encode(decoded).decode() != value:
        raise _not_base64(value)  # bits before the padding that count for nothing
    return decoded


def _not_base64(text: str) -> AwsError:
    """Return what AWS says of a text that is not base64 (recorded by kinesalite, AWS's own spelling)."""
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    if len(text) % 4:
        why = f"Base64 encoded length is expected a multiple of 4 bytes but found: {len(text)}"
    elif (wrong := _NOT_BASE64.search(text)) is not None:
        why = f"Invalid Base64 character: '{wrong[0][0]}'"
    else:
        why = "Invalid last non-pad Base64 character dectected"
    return serialization_error(f"'{shown}' can not be converted to a Blob: {why}")


def _decode_timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):  # CBOR, tag 1
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(value, _EPOCH)
    try:
        return _from_epoch_s(value)
    except (OverflowError, ValueError, OSError) as error:
        raise serialization_error(f"NUMBER_VALUE can not be converted to {_EPOCH}") from error


def _from_epoch_s(value: float) -> datetime:
    # Rounded to the millisecond: AWS's timestamps have no finer grain, and 1.1 is not 1.0999999.
    milliseconds = round(value * 1000)
    whole = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return whole.replace(microsecond=milliseconds % 1000 * 1000)


_DECODE: dict[str, Convert] = {
    "string": _decode_string,
    "character": _decode_string,
    "integer": _decode_integer,
    "long": _decode_long,
    "float": _decode_float,
    "double": _decode_double,
    "boolean": _decode_boolean,
    "blob": _decode_blob,
    "timestamp": _decode_timestamp,
}


def _decode_leaf(shape: Shape) -> Convert:
    return _DECODE[shape.type_name]


# --- encoding ---------------------------------------------------------------------------------


def encode_output(
    service: str, operation: str, output: Mapping[str, Any] | None, content_type: str
) -> bytes:
    """Return the response body; empty for an operation without output."""
    shape = operation_model(service, operation).output_shape
    if shape is None:
        return b""
    cbor = is_cbor(content_type)
    value = _encoder(service, operation, cbor=cbor)(output or {})
    return _dump(value, cbor=cbor)


def encode_error(error: AwsError, content_type: str) -> bytes:
    """Return an error's body."""
    value: dict[str, Any] = {"__type": error.code, "message": error.message, **error.members}
    if error.code == "SerializationException":
        # AWS's own member here has a capital, and is not there when there is nothing to say (recorded by kinesalite).
        message = value.pop("message")
        value |= {"Message": message} if message else {}
    elif not error.message:
        del value["message"]
    return _dump(value, cbor=is_cbor(content_type))


def _dump(value: Any, *, cbor: bool) -> bytes:
    return cbor2.dumps(value) if cbor else msgspec.json.encode(value)


@functools.cache
def _encoder(service: str, operation: str, *, cbor: bool) -> Convert:
    shape = operation_model(service, operation).output_shape
    assert shape is not None
    return ShapeCompiler(_encode_leaf_cbor if cbor else _encode_leaf_json).compile(shape)


def _same(value: Any) -> Any:
    return value


def _encode_blob_json(value: Any) -> str:
    data = value.encode() if isinstance(value, str) else value
    return base64.b64encode(data).decode("ascii")


def _encode_timestamp_json(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    return round(value.timestamp() * 1000) / 1000


def _encode_timestamp_cbor(value: Any) -> Any:
    # Milliseconds: see `_decode_epoch_ms`.
    if isinstance(value, datetime):
        value = value.timestamp()
    return cbor2.CBORTag(1, round(value * 1000))


def _encode_leaf_json(shape: Shape) -> Convert:
    return {"blob": _encode_blob_json, "timestamp": _encode_timestamp_json}.get(
        shape.type_name, _same
    )


def _encode_leaf_cbor(shape: Shape) -> Convert:
    return {"timestamp": _encode_timestamp_cbor}.get(shape.type_name, _same)
