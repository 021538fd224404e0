"""Expands SAM functions as AWS does: into a function, and a mapping for each event with an event source.

cfn-lint reads SAM templates untransformed. The roles that SAM generates are left out: SAM gives them every permission
that the function's events need.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.values import as_mapping

_FUNCTION = "AWS::Serverless::Function"
# SAM's name for an event's source, by event type; SAM and the mapping share the names of all other members.
_SOURCES = {"Kinesis": "Stream", "DynamoDB": "Stream", "SQS": "Queue"}

Made = tuple[str, str, dict[str, Any], tuple[str, ...]]


def expand(name: str, kind: str, properties: dict[str, Any]) -> Iterator[Made]:
    """Yield the resources that a resource expands to: logical id, type, properties, and their path in the template."""
    place = ("Resources", name, "Properties")
    if kind != _FUNCTION:
        yield name, kind, properties, place
        return
    yield name, "AWS::Lambda::Function", properties, place
    for event, written in as_mapping(properties.get("Events")).items():
        one = as_mapping(written)
        source = _SOURCES.get(str(one.get("Type")))
        if source is None:
            continue
        given = as_mapping(one.get("Properties"))
        mapping = {member: value for member, value in given.items() if member != source}
        mapping.update(EventSourceArn=given.get(source), FunctionName={"Ref": name})
        at = (*place, "Events", event, "Properties")
        yield f"{name}{event}", "AWS::Lambda::EventSourceMapping", mapping, at
