"""SAM's functions as what AWS makes of them: a function, and a mapping for each event that has a source.

cfn-lint looks at SAM templates as they are written. The roles that SAM makes are left out: it gives a role what the
function's events need by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

_FUNCTION = "AWS::Serverless::Function"
# What SAM calls the source of an event, by the event's type; all other members are named as the mapping's are.
_SOURCES = {"Kinesis": "Stream", "DynamoDB": "Stream", "SQS": "Queue"}

Made = tuple[str, str, dict[str, Any], tuple[str, ...]]


def made_of(name: str, kind: str, properties: dict[str, Any]) -> Iterator[Made]:
    """Yield the resources that a resource stands for: logical id, type, properties, and where these are written."""
    place = ("Resources", name, "Properties")
    if kind != _FUNCTION:
        yield name, kind, properties, place
        return
    yield name, "AWS::Lambda::Function", properties, place
    for event, written in _mapping(properties.get("Events")).items():
        one = _mapping(written)
        source = _SOURCES.get(str(one.get("Type")))
        if source is None:
            continue
        given = _mapping(one.get("Properties"))
        mapping = {member: value for member, value in given.items() if member != source}
        mapping.update(EventSourceArn=given.get(source), FunctionName={"Ref": name})
        at = (*place, "Events", event, "Properties")
        yield f"{name}{event}", "AWS::Lambda::EventSourceMapping", mapping, at


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, Mapping) else {}
