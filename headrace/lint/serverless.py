"""SAM's functions as what AWS makes of them: a function, and a mapping for each event that has a source.

cfn-lint looks at SAM templates as they are written. The roles that SAM makes are left out: it gives a role what the
function's events need by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.values import mapping_in

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
    for event, written in mapping_in(properties.get("Events")).items():
        one = mapping_in(written)
        source = _SOURCES.get(str(one.get("Type")))
        if source is None:
            continue
        given = mapping_in(one.get("Properties"))
        mapping = {member: value for member, value in given.items() if member != source}
        mapping.update(EventSourceArn=given.get(source), FunctionName={"Ref": name})
        at = (*place, "Events", event, "Properties")
        yield f"{name}{event}", "AWS::Lambda::EventSourceMapping", mapping, at
