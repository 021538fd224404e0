"""Computes the input of a rule's target from an event: a constant, a part, a filled template, or the whole event."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def input_of(target: Mapping[str, Any], event: Mapping[str, Any]) -> bytes:
    """Return a target's input for an event: a constant, a part, a filled template, or the whole event."""
    from moto.events.utils import EventTemplateParser

    whole: Any = whole_event(event)
    if "Input" in target:
        return str(target["Input"]).encode()
    if "InputPath" in target:
        return json.dumps(at_path(whole, str(target["InputPath"]))).encode()
    transformer = target.get("InputTransformer")
    if transformer is None:
        return json.dumps(whole).encode()
    parser: Any = EventTemplateParser
    made = parser.parse(
        input_template=transformer.get("InputTemplate", ""),
        input_paths_map=transformer.get("InputPathsMap", {}),
        event={**whole, "ingestion-time": event.get("ingestion-time", whole.get("time"))},
    )
    return json.dumps(made, default=str).encode()


def at_path(event: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as `$.detail.id`; None when it is missing."""
    part: Any = event
    for name in path.removeprefix("$").strip(".").split("."):
        part = part.get(name) if name and isinstance(part, dict) else part if not name else None
    return part


def whole_event(original: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event in EventBridge's form; moto has its time as a number of seconds."""
    event = dict(original)
    event.pop("ingestion-time", None)
    if isinstance(event.get("time"), int | float):
        event["time"] = f"{datetime.fromtimestamp(event['time'], UTC):%Y-%m-%dT%H:%M:%SZ}"
    return event
