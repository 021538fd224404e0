"""EventBridge Pipes: sources and targets must be ARNs; UpdatePipe keeps the settings that it has no members for."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.validate import validate
from headrace.core.event_patterns import BadEventPattern, compile_pattern

# Documented: UpdatePipeSourceParameters has none of these, so no update changes them.
_FIXED = {
    "AdditionalBootstrapServers",
    "ConsumerGroupID",
    "QueueName",
    "StartingPosition",
    "StartingPositionTimestamp",
    "TopicName",
    "VirtualHost",
}


def patch(module: Any) -> None:
    """Patch `moto.pipes.models`, where new parameters replace all old ones, and any text is accepted as a source."""
    create = module.EventBridgePipesBackend.create_pipe
    update = module.EventBridgePipesBackend.update_pipe

    @functools.wraps(create)
    def create_pipe(self: Any, name: str, *args: Any, **named: Any) -> Any:
        request = {"Name": name, "RoleArn": named["role_arn"]}
        request.update({"Source": named["source"], "Target": named["target"]})
        validate("pipes", "CreatePipe", request, code="ValidationException")
        _check_filters(named.get("source_parameters"))
        return create(self, name, *args, **named)

    @functools.wraps(update)
    def update_pipe(self: Any, name: str, *args: Any, **named: Any) -> Any:
        source_parameters = named.get("source_parameters")
        _check_filters(source_parameters)
        if source_parameters is not None and name in self.pipes:
            named["source_parameters"] = _with_fixed(
                self.pipes[name].source_parameters, source_parameters
            )
        return update(self, name, *args, **named)

    module.EventBridgePipesBackend.create_pipe = create_pipe
    module.EventBridgePipesBackend.update_pipe = update_pipe


def _check_filters(source_parameters: dict[str, Any] | None) -> None:
    """Refuse an invalid pattern (EventBridge's sentence for rules; assumed for pipes). Raises AwsError."""
    criteria = (source_parameters or {}).get("FilterCriteria") or {}
    for one in criteria.get("Filters") or []:
        try:
            if one.get("Pattern"):
                compile_pattern(one["Pattern"])
        except BadEventPattern as error:
            message = f"Event pattern is not valid. Reason: {error}"
            raise AwsError("ValidationException", message) from error


def _with_fixed(before: dict[str, Any] | None, members_given: dict[str, Any]) -> dict[str, Any]:
    members = dict(members_given)
    for source, parameters in (before or {}).items():
        if not isinstance(parameters, dict):
            continue
        kept = {name: parameters[name] for name in _FIXED & set(parameters)}
        if kept:
            members[source] = {**members.get(source, {}), **kept}
    return members
