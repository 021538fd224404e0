"""Wait conditions, and the handles whose URLs receive the signals."""

from __future__ import annotations

import json

from headrace.core.arn import make_arn
from headrace.services.cloudformation import limits
from headrace.services.cloudformation.custom_responses import PATH
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    nothing_to_delete,
)
from headrace.services.cloudformation.signals import (
    HANDLE,
    ExpectedSignals,
    check_condition,
    token_of,
    wait_for,
    whole_number,
)

_CONDITION = "AWS::CloudFormation::WaitCondition"


def _open(context: Context, properties: Properties) -> ResourceResult:
    token = context.ids.hex(32)
    return ResourceResult(f"{context.endpoint_url}{PATH}{token}", {"Id": token})


def _keep(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    return ResourceResult(physical_id, {"Id": token_of(physical_id)})


def _close(context: Context, physical_id: str, properties: Properties) -> None:
    context.signals.forget(token_of(physical_id))


def _wait(context: Context, properties: Properties) -> ResourceResult:
    name = make_arn(
        "cloudformation",
        context.region,
        context.account,
        f"{context.stack_id.rpartition(':')[2]}/{context.logical_id}",
    )
    if "Handle" not in properties:
        return ResourceResult(name, {"Data": "{}"})  # the CreationPolicy does the waiting
    if "Timeout" not in properties:
        raise ResourceFailed("Property Timeout cannot be empty.")  # assumed
    try:
        expected = ExpectedSignals(
            whole_number("Count", properties.get("Count", 1), 1, limits.SIGNALS),
            whole_number("Timeout", properties["Timeout"], 0, limits.WAIT_SECONDS),
        )
    except TemplateError as error:
        raise ResourceFailed(str(error)) from error
    context.note_made(name)
    received = wait_for(
        context.signals,
        token_of(str(properties["Handle"])),
        expected,
        monotonic_s=context.clock.monotonic_s,
        pause=context.pause,
        on_signal=lambda _: None,
    )
    check_condition(received, expected)
    data = {signal.unique_id: signal.data for signal in received}
    return ResourceResult(name, {"Data": json.dumps(data, separators=(",", ":"))})


TYPES = [
    ResourceType(HANDLE, {}, _open, _close, update=_keep),
    ResourceType(
        _CONDITION,
        enforced("Count", "Handle", "Timeout"),
        _wait,
        nothing_to_delete,
        fixed=True,
    ),
]
