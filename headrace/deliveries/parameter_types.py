"""Converts the parameters of a state, a schedule or an API's integration to the types of the called operation.

Their members begin with a capital letter, whatever the service's API uses (documented:
https://docs.aws.amazon.com/step-functions/latest/dg/supported-services-awssdk.html).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from headrace.aws.calls.operation import service_model


def convert_parameters(service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in the operation's form: its own names, bytes from text, times from ISO text."""
    shape: Any = service_model(service).operation_model(operation).input_shape
    return {} if shape is None else _convert(shape, params)


def _convert(shape: Any, value: Any) -> Any:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, Mapping):
        members = {name.lower(): name for name in shape.members}
        members_converted: dict[str, Any] = {}
        for name, inner in cast("Mapping[str, Any]", value).items():
            member = name if name in shape.members else members.get(name.lower(), name)
            known = shape.members.get(member)
            members_converted[member] = inner if known is None else _convert(known, inner)
        return members_converted
    if kind == "list" and isinstance(value, list):
        return [_convert(shape.member, element) for element in cast("list[Any]", value)]
    if kind == "map" and isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return {name: _convert(shape.value, element) for name, element in pairs.items()}
    if kind == "blob" and not isinstance(value, bytes | bytearray):
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        return text.encode()
    if kind == "timestamp" and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value
