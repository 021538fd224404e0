"""Checks that an input has all members that AWS's model requires; the XML parser does not check this."""

from __future__ import annotations

from typing import Any, cast

from headrace.aws.calls.errors import malformed_xml
from headrace.aws.calls.model import operation_model
from headrace.services.s3.errors import invalid_argument


def check_required(operation: str, params: dict[str, Any]) -> None:
    """Refuse an input that lacks a required member. Raises AwsError MalformedXML, InvalidArgument."""
    # botocore has no types: its shapes are Any here.
    shape: Any = cast("Any", operation_model("s3", operation)).input_shape
    if shape is None:
        return
    payload: str | None = shape.serialization.get("payload")
    for name in shape.required_members:
        if name not in params:
            if name == payload:
                raise malformed_xml()
            raise invalid_argument(f"{name} is required", name, "")
    if payload in params and not _is_complete(shape.members[payload], params[payload]):
        raise malformed_xml()


def _is_complete(shape: Any, value: Any) -> bool:
    if shape.type_name == "structure" and isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return all(members.get(name) is not None for name in shape.required_members) and all(
            _is_complete(shape.members[name], member)
            for name, member in members.items()
            if name in shape.members and member is not None
        )
    if shape.type_name == "list" and isinstance(value, list):
        return all(_is_complete(shape.member, item) for item in cast("list[Any]", value))
    return True
