"""The JSON 1.0/1.1 and CBOR protocols: bodies to typed inputs and back, driven by botocore's model.

Decoding returns the values that operations take: blobs are bytes, timestamps aware datetimes. Members that the model
does not know are dropped, as AWS does. A member of the wrong type raises SerializationException with AWS's sentence:
kinesalite recorded those for lists, maps, structures and blobs; AWS has since used those with `STRING_VALUE` and the
like (observed by others up to 2024 at CodeDeploy, SQS and X-Ray). A body that is empty or not JSON gets the code
without a sentence (observed: Kinesis and Firehose). Functions are compiled once per shape and are thread-safe.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

import cbor2
import msgspec

from headrace.aws.calls.errors import AwsError, serialization_error
from headrace.aws.calls.model import operation_model, protocol_of
from headrace.aws.protocols.shape_functions import (
    LIST_NOT_EXPECTED,
    Convert,
    ShapeCompiler,
    cbor_encoder_of,
    decoder_of,
    from_epoch_s,
    json_encoder_of,
)

JSON_1_1 = "application/x-amz-json-1.1"
CBOR_1_1 = "application/x-amz-cbor-1.1"

# The encoders of bodies, by whether the body is CBOR.
_DUMPS: dict[bool, Callable[[Any], bytes]] = {False: msgspec.json.encode, True: cbor2.dumps}


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
    # AWS's CBOR counts milliseconds under tag 1, where RFC 8949 counts seconds. An exception here becomes a
    # CBORDecodeError.
    # Source: SdkCborGenerator and AwsCborProtocolFactory of AWS's SDK for Java, both versions.
    return from_epoch_s(value / 1000)


def _refuse_tag(*_: Any) -> Any:
    raise ValueError("no SDK sends it")


# Tags that AWS's protocol does not use, and that expand a small body: shared references and regular expressions. An
# exception here becomes a CBORDecodeError.
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
    """Return the members of a rest-json input that are in the body. Raises SerializationException.

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
    """Return the error of a REST service for a body that is not a JSON object."""
    if service != "lambda":
        return error
    # Source: API_CreateFunction names the code (documented); the sentence is Invoke's for its payload (recorded).
    text = body.decode("utf-8", "replace")
    try:
        json.loads(text)
        at, why = 0, "an object was expected"
    except json.JSONDecodeError as wrong:
        at = wrong.pos
        character = text[at : at + 1]
        why = (
            f"Unexpected character ('{character}' (code {ord(character)}))"
            if character
            else "Unexpected end-of-input"
        )
    except (RecursionError, ValueError):  # more levels, or more digits, than Python allows
        at, why = 0, "too deep a value, or too long a number"
    return AwsError(
        "InvalidRequestContentException",
        f"Could not parse request body into json: {why}\n at [Source: (byte[]); line: 1, column: {at + 1}]",
    )


@functools.cache
def _decoder(service: str, operation: str) -> Convert:
    shape = operation_model(service, operation).input_shape
    assert shape is not None
    is_rest = protocol_of(service) == "rest-json"
    return ShapeCompiler(decoder_of, by_wire_names=is_rest).compile(shape)


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
    return _DUMPS[cbor](value)


def encode_error(error: AwsError, content_type: str) -> bytes:
    """Return an error's body."""
    value: dict[str, Any] = {"__type": error.code, "message": error.message, **error.members}
    if error.code == "SerializationException":
        # AWS's member has a capital letter here, and is absent when there is no sentence (recorded by kinesalite).
        message = value.pop("message")
        value |= {"Message": message} if message else {}
    elif not error.message:
        del value["message"]
    return _DUMPS[is_cbor(content_type)](value)


@functools.cache
def _encoder(service: str, operation: str, *, cbor: bool) -> Convert:
    shape = operation_model(service, operation).output_shape
    assert shape is not None
    return ShapeCompiler(cbor_encoder_of if cbor else json_encoder_of).compile(shape)
