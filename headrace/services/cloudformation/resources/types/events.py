"""Types of EventBridge: rules, pipes, and the Scheduler's groups and schedules."""

from __future__ import annotations

import json
from typing import Any, cast

from headrace.core.values import get_list
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    value_at,
)
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)
from headrace.services.cloudformation.resources.reading import (
    ReadCall,
    ReadingRules,
    moment_of,
    same,
)


@declare_sources("State")
def _schedule_state(values: Values) -> str:
    return values.get("State") or "ENABLED"


_GROUP = {"Name": "@id", "GroupName": "GroupName"}


_BEGINNING = ("StartingPosition", "StartingPositionTimestamp")


@declare_sources("SourceParameters")
def _source_parameters(values: Values) -> dict[str, Any]:
    """Return how a pipe reads from now on; its starting position does not change."""
    by_source = cast("dict[str, Any]", values.get("SourceParameters") or {})
    # The pipe's actual state: in a rollback, some changes of the failed update were never made.
    answer = values.context.call("pipes", "DescribePipe", {"Name": values.id})
    before = cast("dict[str, Any]", answer.get("SourceParameters") or {})
    members: dict[str, Any] = {}
    for source, parameters in by_source.items():
        if not isinstance(parameters, dict):
            members[source] = parameters
            continue
        own = cast("dict[str, Any]", parameters)
        for name in _BEGINNING:
            if moment_of(own.get(name)) != moment_of(value_at(before, f"{source}.{name}")):
                raise ResourceFailed(
                    f"The {name} of a pipe cannot change: give the pipe another Name, which makes another pipe"
                )
        members[source] = {name: value for name, value in own.items() if name not in _BEGINNING}
    return members


def _or_none(name: str, **nothing: str) -> ComputedProperty:
    """Return the source of a member that an update may remove."""
    return ComputedProperty((name,), lambda values: values.get(name) or nothing)


_NAME = {"Name": "@id"}


@declare_sources("Statement", "StatementId")
def _bus_policy(values: Values) -> str | None:
    """Return the bus's policy with the statement added; None for a statement given by action and principal.

    PutPermission replaces the bus's whole policy (documented: API_PutPermission).
    """
    statement = values.get("Statement")
    if statement is None:
        return None
    own = values.get("StatementId")
    others = [other for other in _statements(values) if other.get("Sid") != own]
    return json.dumps({"Version": "2012-10-17", "Statement": [*others, {**statement, "Sid": own}]})


def _statements(values: Values) -> list[dict[str, Any]]:
    params = {"Name": values.get("EventBusName") or "default"}
    policy = values.context.call("events", "DescribeEventBus", params).get("Policy") or "{}"
    return json.loads(policy).get("Statement", [])


def _bus_policy_id(values: Values) -> str:
    return f"{values.get('EventBusName') or 'default'}|{values.get('StatementId')}"


def _has_statement(values: Values) -> bool:
    return any(
        statement.get("Sid") == values.get("StatementId") for statement in _statements(values)
    )


# The template gives the statement itself, or its parts; never both.
_PUT_BUS_POLICY = [
    Call("PutPermission", {"Policy": _bus_policy}, only=("EventBusName",), when="Statement"),
    Call(
        "PutPermission",
        only=("EventBusName", "StatementId", "Action", "Principal", "Condition"),
        when="Action",
    ),
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::Events::Rule",
        "events",
        (
            ReadCall(
                "DescribeRule",
                {"Name": "@name", "EventBusName": "@EventBusName"},
                properties=same(
                    "Description EventBusName EventPattern Name RoleArn ScheduleExpression State"
                ),
            ),
            ReadCall(
                "ListTargetsByRule",
                {"Rule": "@name", "EventBusName": "@EventBusName"},
                properties=same("Targets"),
            ),
        ),
        same("Arn"),
        named=False,
    ),
)


def _rule_id(values: Values) -> str:
    """Return a rule's physical id, which includes its bus unless that is the default one (recorded)."""
    bus = values.get("EventBusName") or "default"
    return values.get("Name") if bus == "default" else f"{bus}|{values.get('Name')}"


def _lost_targets(values: Values) -> list[str]:
    kept = {target["Id"] for target in values.items("Targets")}
    old = get_list(values.old, "Targets")
    return [target["Id"] for target in old if target["Id"] not in kept]


_BUS: dict[str, Source] = {"EventBusName": lambda v: v.get("EventBusName")}
_RULE: dict[str, Source] = {**_BUS, "Rule": "@last"}
# Of two forms a rule has one; an update does not send the other one empty.
_EVENTS: dict[str, Source] = {name: name for name in ("EventPattern", "ScheduleExpression")}
_PUT_TARGETS = Call(
    "PutTargets", _RULE, only=("Targets",), only_if=lambda v: bool(v.get("Targets"))
)

DECLARED = [
    DeclaredType(
        "AWS::Events::Rule",
        "events",
        create=[Call("PutRule", _EVENTS), _PUT_TARGETS],
        id=_rule_id,
        read=Call("DescribeRule", {**_BUS, "Name": "@last"}),
        update=[
            Call(
                "RemoveTargets",
                {**_RULE, "Ids": declare_sources("Targets")(_lost_targets)},
                only=(),
                only_if=lambda v: bool(_lost_targets(v)),
            ),
            Call("PutRule", {**_BUS, **_EVENTS}),
            _PUT_TARGETS,
        ],
        delete=[
            Call(
                "RemoveTargets",
                {**_RULE, "Ids": lambda v: [target["Id"] for target in v.items("Targets")]},
                only_if=lambda v: bool(v.get("Targets")),
            ),
            Call("DeleteRule", {**_BUS, "Name": "@last"}),
        ],
        name="Name",
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.Arn"),
        attributes={"RuleName": "@last"},
        enforced=frozenset(
            {
                "Name",
                "EventBusName",
                "EventPattern",
                "ScheduleExpression",
                "State",
                "Targets",
                "Tags",
            }
        ),
    ),
    DeclaredType(
        "AWS::Events::EventBus",
        "events",
        create=[
            Call("CreateEventBus"),
            Call(
                "PutPermission", {"EventBusName": "@id", "Policy": "Policy"}, only=(), when="Policy"
            ),
        ],
        id="Name",
        read=Call("DescribeEventBus", _NAME),
        # Deleting it would delete its rules, and other resources' statements.
        deletes_others=True,
        update=[
            Call(
                "UpdateEventBus",
                _NAME,
                only=("Description", "KmsKeyIdentifier", "DeadLetterConfig", "LogConfig"),
            ),
            Call(
                "PutPermission", {"EventBusName": "@id", "Policy": "Policy"}, only=(), when="Policy"
            ),
        ],
        delete=[Call("DeleteEventBus", _NAME)],
        name="Name",
        name_length=256,
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.Arn"),
    ),
    DeclaredType(
        "AWS::Events::EventBusPolicy",
        "events",
        create=_PUT_BUS_POLICY,
        id=_bus_policy_id,
        update=_PUT_BUS_POLICY,
        delete=[
            Call("RemovePermission", {"EventBusName": "EventBusName", "StatementId": "StatementId"})
        ],
        exists=_has_statement,
    ),
    DeclaredType(
        "AWS::Events::Archive",
        "events",
        create=[Call("CreateArchive")],
        id="ArchiveName",
        read=Call("DescribeArchive", {"ArchiveName": "@last"}),
        update=[Call("UpdateArchive", {"ArchiveName": "@id"})],
        delete=[Call("DeleteArchive", {"ArchiveName": "@id"})],
        name="ArchiveName",
        name_length=48,
        names={"SourceArn": "EventSourceArn"},
        attributes={"Arn": "@answer.ArchiveArn"},
    ),
    DeclaredType(
        "AWS::Events::Connection",
        "events",
        create=[Call("CreateConnection")],
        id="Name",
        read=Call("DescribeConnection", _NAME),
        update=[Call("UpdateConnection", _NAME)],
        delete=[Call("DeleteConnection", _NAME)],
        name="Name",
        attributes={"Arn": "@answer.ConnectionArn", "ArnForPolicy": "@answer.ConnectionArn"},
    ),
    DeclaredType(
        "AWS::Events::ApiDestination",
        "events",
        create=[Call("CreateApiDestination")],
        id="Name",
        read=Call("DescribeApiDestination", _NAME),
        update=[Call("UpdateApiDestination", _NAME)],
        delete=[Call("DeleteApiDestination", _NAME)],
        name="Name",
        attributes={
            "Arn": "@answer.ApiDestinationArn",
            "ArnForPolicy": lambda v: str(v.answer["ApiDestinationArn"]).rpartition("/")[0],
        },
    ),
    DeclaredType(
        "AWS::Pipes::Pipe",
        "pipes",
        create=[Call("CreatePipe")],
        id="Name",
        read=Call("DescribePipe", _NAME),
        # Deleting it would lose its position in the source: a new pipe starts anew, and skips the records in between.
        deletes_others=True,
        update=[
            Call(
                "UpdatePipe",
                {
                    **_NAME,
                    # Always sent: an update keeps members that it omits, on AWS too.
                    "RoleArn": "RoleArn",
                    "Target": "Target",
                    "SourceParameters": _source_parameters,
                    "EnrichmentParameters": _or_none("EnrichmentParameters"),
                    "TargetParameters": _or_none("TargetParameters"),
                    "LogConfiguration": _or_none("LogConfiguration", Level="OFF"),
                    "DesiredState": declare_sources("DesiredState")(
                        lambda v: v.get("DesiredState") or "RUNNING"
                    ),
                },
                only=("Description", "Enrichment", "KmsKeyIdentifier"),
            )
        ],
        delete=[Call("DeletePipe", _NAME)],
        name="Name",
        tag=("TagResource", "UntagResource", "resourceArn", "@answer.Arn"),
    ),
    DeclaredType(
        "AWS::Scheduler::Schedule",
        "scheduler",
        create=[Call("CreateSchedule")],
        id="Name",
        read=Call("GetSchedule", _GROUP),
        update=[
            # moto forgets a state that the request omits; on AWS the default is ENABLED (documented:
            # API_UpdateSchedule).
            Call("UpdateSchedule", {"Name": "@id", "State": _schedule_state}),
        ],
        delete=[Call("DeleteSchedule", _GROUP)],
        name="Name",
    ),
    DeclaredType(
        "AWS::Scheduler::ScheduleGroup",
        "scheduler",
        create=[Call("CreateScheduleGroup")],
        id="Name",
        read=Call("GetScheduleGroup", _NAME),
        delete=[Call("DeleteScheduleGroup", _NAME)],
        name="Name",
        tag=("TagResource", "UntagResource", "ResourceArn", "@answer.Arn"),
    ),
]
