"""Checks the types of members in the bodies of rest-json services that moto answers; moto takes any type.

The sentences are those of AWS's older JSON framework: recorded of API Gateway (LocalStack, 2024 and 2025: a boolean and
a number as texts), and of the other types by dynalite, whose author compared them with AWS.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from botocore.model import Shape

from headrace.aws.calls.errors import serialization_error
from headrace.aws.calls.operation import operation_model
from headrace.aws.protocols.codec_json import (
    LIST_NOT_EXPECTED,
    MAP_NOT_EXPECTED,
    Convert,
    ShapeCompiler,
)

_TYPE_NAMES = {
    "string": "String",
    "boolean": "Boolean",
    "integer": "Integer",
    "long": "Long",
    "float": "Float",
    "double": "Double",
}
# How much of a text a sentence shows: it may have ten megabytes.
_MOST_SHOWN = 1000
_TEXTS_OF_BOOLEANS = frozenset(("TRUE", "FALSE", "1", "0", "YES", "NO"))
_NUMBER = "com.amazon.coral.value.json.numbers.TruncatingBigNumber"


def check_types(service: str, operation: str, body: bytes) -> None:
    """Refuse a member of another type in a rest-json body. Raises SerializationException.

    Whoever reads the body refuses what is no JSON object.
    """
    shape = operation_model(service, operation).input_shape
    payload = None if shape is None else shape.serialization.get("payload")
    if shape is None or not body or (payload and shape.members[payload].type_name != "structure"):
        return
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if isinstance(value, dict):
        _type_checker(service, operation)({payload: value} if payload else value)


@functools.cache
def _type_checker(service: str, operation: str) -> Convert:
    shape = operation_model(service, operation).input_shape
    assert shape is not None
    return ShapeCompiler(_check_type_of, by_wire_names=True).compile(shape)


def _check_type_of(shape: Shape) -> Convert:
    wanted = _TYPE_NAMES.get(shape.type_name, "")

    def check(value: Any) -> Any:
        if value is None or not wanted:  # blobs and times have several forms
            return value
        if isinstance(value, dict):
            raise serialization_error(MAP_NOT_EXPECTED)
        if isinstance(value, list):
            raise serialization_error(LIST_NOT_EXPECTED)
        kind = _type_name(value)
        if kind == wanted or (wanted == "Boolean" and str(value).upper() in _TEXTS_OF_BOOLEANS):
            return value
        if kind == "Number" and wanted not in ("String", "Boolean"):
            return value
        if wanted == "Boolean" and kind == "String":
            raise serialization_error(
                f"'{value.upper()[:_MOST_SHOWN]}' can not be converted to an Boolean"
            )
        name = _NUMBER if kind == "Number" else f"java.lang.{kind}"
        raise serialization_error(f"class {name} can not be converted to an {wanted}")

    return check


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "Boolean"
    return "String" if isinstance(value, str) else "Number"
