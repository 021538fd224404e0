"""The JSON 1.0/1.1 and CBOR protocols: bodies to typed inputs and back, driven by botocore's model.

Decoding returns the values that operations take: blobs are bytes, timestamps aware datetimes. Members that the model
does not know are dropped, as AWS does. A member of the wrong type raises SerializationException with AWS's sentence:
kinesalite recorded those for lists, maps, structures and blobs; AWS has since used those with `STRING_VALUE` and the
like (observed by others up to 2024 at CodeDeploy, SQS and X-Ray). A body that is empty or not JSON gets the code
without a sentence (observed: Kinesis and Firehose). Functions are compiled once per shape and are thread-safe.

Compiles a shape of botocore's model into one function that converts a value of that shape, member by member.

First come structures, lists and maps; then scalars, from the wire (JSON or CBOR) and to it.
The codec reads and writes the bytes.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import cbor2
import msgspec
from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.calls.errors import AwsError, serialization_error
from headrace.aws.calls.operation import operation_model, protocol_of
from headrace.aws.protocols.jackson import explain

Convert = Callable[[Any], Any]

# AWS's sentences for SerializationException.
LIST_NOT_EXPECTED = "Start of list found where not expected"
MAP_NOT_EXPECTED = "Start of structure or map found where not expected."

_LONG_MAX = 2**63
_EPOCH = "milliseconds since epoch"
_NOT_BASE64 = re.compile("[^A-Za-z0-9+/=]|=[^=]")
# How much of an invalid base64 text the sentence shows: the text may have ten megabytes.
_MOST_SHOWN = 1000


def _wire_names(shape: StructureShape) -> dict[str, str]:
    """Return the members' names by those that rest-json writes into a body, where these are others."""
    return {
        wire_name: name
        for name, member in shape.members.items()
        if "location" not in member.serialization
        and (wire_name := member.serialization.get("name", name)) != name
    }


class ShapeCompiler:
    """Compiles a shape into one function, recursive shapes included; `leaf` returns the functions of scalars.

    With `by_wire_names`, structures come with the names that rest-json writes: some models have others.
    """

    def __init__(self, leaf: Callable[[Shape], Convert], *, by_wire_names: bool = False) -> None:
        self._leaf = leaf
        self._by_wire_names = by_wire_names
        self._structures: dict[str, Convert] = {}

    def compile(self, shape: Shape) -> Convert:
        """Return the function of a shape; it raises AwsError for a value of another type."""
        if isinstance(shape, StructureShape):
            # A document type accepts any value.
            return _as_it_is if shape.is_document_type else self._structure(shape)
        if isinstance(shape, ListShape):
            return self._list(shape)
        if isinstance(shape, MapShape):
            return self._map(shape)
        return self._leaf(shape)

    def _structure(self, shape: StructureShape) -> Convert:
        known = self._structures.get(shape.name)
        if known is not None:
            return known
        members: dict[str, Convert] = {}
        wire_names = _wire_names(shape) if self._by_wire_names else {}

        def convert(value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise serialization_error(
                    LIST_NOT_EXPECTED if isinstance(value, list) else "Expected null"
                )
            pairs = cast("Mapping[str, Any]", value)
            if wire_names:
                pairs = {wire_names.get(name, name): item for name, item in pairs.items()}
            return {
                name: function(item)
                for name, item in pairs.items()
                if item is not None and (function := members.get(name)) is not None
            }

        # Registered before its members are compiled, so that a recursive shape finds itself.
        self._structures[shape.name] = convert
        for name, member in shape.members.items():
            members[name] = self.compile(member)
        return convert

    def _list(self, shape: ListShape) -> Convert:
        item = self.compile(shape.member)

        def convert(value: Any) -> Any:
            if not isinstance(value, (list, tuple)):
                if isinstance(value, dict):
                    raise serialization_error(MAP_NOT_EXPECTED)
                raise serialization_error("Expected list or null")
            return [item(element) for element in cast("list[Any]", value)]

        return convert

    def _map(self, shape: MapShape) -> Convert:
        item = self.compile(shape.value)

        def convert(value: Any) -> Any:
            if not isinstance(value, Mapping):
                if isinstance(value, list):
                    raise serialization_error(LIST_NOT_EXPECTED)
                raise serialization_error("Expected map or null")
            pairs = cast("Mapping[str, Any]", value)
            return {key: item(element) for key, element in pairs.items()}

        return convert


def _as_it_is(value: Any) -> Any:
    return value


# --- scalars from the wire --------------------------------------------------------------------


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    if isinstance(value, bytes):  # only CBOR has these two types; their names are assumed
        return "BLOB_VALUE"
    if isinstance(value, datetime):
        return "TIMESTAMP_VALUE"
    return "STRING_VALUE" if isinstance(value, str) else "NUMBER_VALUE"


def _refuse(value: Any, type_name: str) -> AwsError:
    if isinstance(value, Mapping):
        return serialization_error(MAP_NOT_EXPECTED)
    if isinstance(value, (list, tuple)):
        return serialization_error(LIST_NOT_EXPECTED)
    return serialization_error(f"{_kind(value)} can not be converted to {type_name}")


def _decode_string(value: Any) -> str:
    if not isinstance(value, str):
        raise _refuse(value, "a String")
    return value


def _decode_integer(value: Any, type_name: str = "an Integer") -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(value, type_name)
    if not -_LONG_MAX <= value < _LONG_MAX:
        raise serialization_error(f"NUMBER_VALUE out of range for {type_name}")
    return int(value)


def _decode_long(value: Any) -> int:
    return _decode_integer(value, "a Long")


def _decode_double(value: Any, type_name: str = "a Double") -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(value, type_name)
    try:
        return float(value)
    except OverflowError as error:  # hundreds of digits
        raise serialization_error(f"NUMBER_VALUE out of range for {type_name}") from error


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
        raise _not_base64(value)  # the unused bits before the padding are not zero
    return decoded


def _not_base64(text: str) -> AwsError:
    """Return AWS's sentence about a text that is not base64 (recorded by kinesalite, with AWS's spelling)."""
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
        return from_epoch_s(value)
    except (OverflowError, ValueError, OSError) as error:
        raise serialization_error(f"NUMBER_VALUE can not be converted to {_EPOCH}") from error


def from_epoch_s(value: float) -> datetime:
    """Return a time from seconds since 1970."""
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


def decoder_of(shape: Shape) -> Convert:
    """Return the decoder of a scalar; it raises AwsError SerializationException."""
    return _DECODE[shape.type_name]


# --- scalars to the wire ----------------------------------------------------------------------


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
    # Milliseconds: see `codec_json._decode_epoch_ms`.
    if isinstance(value, datetime):
        value = value.timestamp()
    return cbor2.CBORTag(1, round(value * 1000))


def json_encoder_of(shape: Shape) -> Convert:
    """Return the encoder of a scalar for JSON."""
    return {"blob": _encode_blob_json, "timestamp": _encode_timestamp_json}.get(
        shape.type_name, _same
    )


def cbor_encoder_of(shape: Shape) -> Convert:
    """Return the encoder of a scalar for CBOR."""
    return {"timestamp": _encode_timestamp_cbor}.get(shape.type_name, _same)


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
    why = explain(body, "an object was expected")
    return AwsError(
        "InvalidRequestContentException",
        f"Could not parse request body into json: {why}",
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
