"""Checks pipes when they are made and changed, and keeps the settings that UpdatePipe has no members for."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.validate import validate
from headrace.core.event_patterns import BadEventPattern, compile_pattern
from headrace.core.ports import CallerIdentity
from headrace.moto.current_cloud import CURRENT
from headrace.services.pipes.delivery import SESSION
from headrace.services.pipes.execution_log import check_configuration

_TARGETS = frozenset(
    {"events", "execute-api", "firehose", "kinesis", "lambda", "logs", "sns", "sqs", "states"}
)
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
        request: dict[str, Any] = {"Name": name, "RoleArn": named["role_arn"]}
        request.update({"Source": named["source"], "Target": named["target"]})
        validate("pipes", "CreatePipe", request, code="ValidationException")
        _check_ends(self, name, named)
        _check_filters(named.get("source_parameters"))
        _check_dead_letters(named["role_arn"], named.get("source_parameters"))
        return create(self, name, *args, **named)

    @functools.wraps(update)
    def update_pipe(self: Any, name: str, *args: Any, **named: Any) -> Any:
        _check_ends(self, name, named)
        _check_filters(source_parameters := named.get("source_parameters"))
        _check_dead_letters(named["role_arn"], source_parameters)
        if source_parameters is not None and name in self.pipes:
            named["source_parameters"] = _with_fixed(
                self.pipes[name].source_parameters, source_parameters
            )
        return update(self, name, *args, **named)

    module.EventBridgePipesBackend.create_pipe = create_pipe
    module.EventBridgePipesBackend.update_pipe = update_pipe


def _check_ends(backend: Any, name: str, named: dict[str, Any]) -> None:
    _check_target(str(named.get("target") or ""), str(backend.region_name))
    configuration = named.get("log_configuration")
    if configuration is not None:
        required = {"Name": name, "RoleArn": named["role_arn"]}
        check_configuration(configuration, required, str(backend.account_id))


def _check_target(arn: str, region: str) -> None:
    """Refuse a pipe to where headrace delivers nothing, or to another Region. Raises AwsError."""
    parts = arn.split(":", 5)
    if len(parts) < 6:
        return
    if parts[2] not in _TARGETS:
        raise AwsError(
            "NotImplemented", f"headrace's pipes do not deliver to {parts[2]}: {arn}", 501
        )
    if parts[3] not in ("", region):
        # Documented: a pipe's source and target are in its Region. The sentence is assumed.
        raise AwsError(
            "ValidationException", f"The target {arn} is not in the pipe's Region {region}."
        )


def _check_filters(source_parameters: dict[str, Any] | None) -> None:
    """Refuse an invalid pattern (EventBridge's sentence for rules; assumed for pipes). Raises AwsError."""
    for one in ((source_parameters or {}).get("FilterCriteria") or {}).get("Filters") or []:
        try:
            if one.get("Pattern"):
                compile_pattern(one["Pattern"])
        except BadEventPattern as error:
            message = f"Event pattern is not valid. Reason: {error}"
            raise AwsError("ValidationException", message) from error


def _check_dead_letters(role_arn: str, source_parameters: dict[str, Any] | None) -> None:
    """Refuse a dead-letter queue that is not there, or that the role may not send to. Raises AwsError.

    Observed by users (aws-samples/serverless-patterns #1543, #1857): AWS makes such a pipe CREATE_FAILED, with this
    sentence as its StateReason. Here the call has it.
    """
    from moto.sqs.models import sqs_backends

    for members in (source_parameters or {}).values():
        config = members.get("DeadLetterConfig") if isinstance(members, dict) else None
        arn = str((config or {}).get("Arn", ""))
        parts = arn.split(":")
        if parts[2:3] != ["sqs"] or len(parts) < 6:
            continue
        acting = CallerIdentity(role_arn, SESSION)
        regions: Any = sqs_backends[parts[4]]
        if (
            parts[3] not in regions
            or parts[5] not in regions[parts[3]].queues
            or CURRENT.guard.denial(acting, "sqs:SendMessage", arn)
        ):
            raise AwsError(
                "ValidationException",
                "Input parameter is invalid from the request due to : "
                f"Error occurred while sending message to SQS queue: {arn}",
            )


def _with_fixed(before: dict[str, Any] | None, members_given: dict[str, Any]) -> dict[str, Any]:
    members = dict(members_given)
    for source, parameters in (before or {}).items():
        if not isinstance(parameters, dict):
            continue
        kept = {name: parameters[name] for name in _FIXED & set(parameters)}
        if kept:
            members[source] = {**members.get(source, {}), **kept}
    return members
