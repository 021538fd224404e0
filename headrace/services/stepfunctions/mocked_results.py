"""Holds TestState's mocked results of tasks against the model of the operation that the task would call.

The sentences are recorded (LocalStack's test_field_validation_mode snapshots): the first difference is told. Members
that the model does not have are taken; with PRESENT, required members may be missing.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

from botocore.exceptions import UnknownServiceError
from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import service_model

_SERVICES = {"states": "stepfunctions", "sfn": "stepfunctions"}
# Their payloads are JSON in state machines, not the model's bytes.
_AS_JSON = {("lambda", "invoke", "Payload")}
_WORDS = {"structure": "an object", "list": "an array", "map": "an object", "boolean": "a boolean"}
_NUMBERS = {"integer", "long", "float", "double"}


def check(resource: str, value: Any, *, is_strict: bool) -> None:
    """Raise AwsError when a task's mocked result is none that its service would give."""
    parts = resource.split(":")
    if len(parts) < 7 or parts[2] != "states":  # a function, an activity
        return
    service, action = parts[-2], parts[-1].partition(".")[0]
    shape = _output_of(_SERVICES.get(service, service), action)
    if shape is not None:
        _check(shape, value, "", (service, action), is_strict)


def _output_of(service: str, action: str) -> Shape | None:
    """Return the shape of an operation's output; None for what has no model, such as `http:invoke`."""
    try:
        model = service_model(service)
    except UnknownServiceError:
        return None
    name = action[:1].upper() + action[1:]
    return model.operation_model(name).output_shape if name in model.operation_names else None


def _check(shape: Shape, value: Any, name: str, place: tuple[str, str], is_strict: bool) -> None:
    kind = shape.type_name
    if (*place, name) in _AS_JSON or shape.metadata.get("document"):
        return
    if not _has_type(kind, value):
        what = "a number" if kind in _NUMBERS else _WORDS.get(kind, "a string")
        raise _error(f"Field '{name}' must be {what}")
    if isinstance(shape, StructureShape):
        _check_members(shape, value, place, is_strict)
    elif isinstance(shape, ListShape):
        for item in cast("list[Any]", value):
            _check(shape.member, item, name, place, is_strict)
    elif isinstance(shape, MapShape):
        for item in cast("dict[str, Any]", value).values():
            _check(shape.value, item, name, place, is_strict)
    else:
        _check_constraints(shape, value, name)


def _check_members(
    shape: StructureShape, value: dict[str, Any], place: tuple[str, str], is_strict: bool
) -> None:
    # Documented: Step Functions writes names of members with a capital letter.
    members = {key[:1].upper() + key[1:]: member for key, member in shape.members.items()}
    if is_strict:
        for key in shape.required_members:
            name = key[:1].upper() + key[1:]
            if name not in value:
                raise _error(f"Required field '{name}' is missing")
    for name, one in value.items():
        if name in members and one is not None:
            _check(members[name], one, name, place, is_strict)


def _has_type(kind: str, value: Any) -> bool:
    if kind in ("structure", "map"):
        return isinstance(value, dict)
    if kind == "list":
        return isinstance(value, list)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in _NUMBERS:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, str)  # text, times and bytes


def _check_constraints(shape: Shape, value: Any, name: str) -> None:
    metadata = shape.metadata
    if metadata.get("enum") and value not in metadata["enum"]:
        raise _error(f"Field '{name}' is not an expected value")
    low, high = metadata.get("min"), metadata.get("max")
    if shape.type_name in _NUMBERS:
        if low is not None and value < low:
            raise _error(f"Field '{name}' is less than the minimum value")
        if high is not None and value > high:
            raise _error(f"Field '{name}' exceeds the maximum value")
        return
    if shape.type_name not in ("string", "blob"):
        return
    length = _length(shape, value)
    if low is not None and length < low:
        raise _error(f"Field '{name}' is smaller than the minimum length")
    if high is not None and length > high:  # assumed
        raise _error(f"Field '{name}' exceeds the maximum length")


def _length(shape: Shape, value: str) -> int:
    if shape.type_name == "blob":
        try:
            return len(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError):
            return len(value)
    return len(value)


def _error(sentence: str) -> AwsError:
    return AwsError("ValidationException", f"Mock result schema validation error: {sentence}")
