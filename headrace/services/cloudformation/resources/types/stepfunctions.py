"""Step Functions: state machines, versions, aliases, activities."""

from __future__ import annotations

import json
import re
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn, partition_of
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)


def _is_activity(values: Values) -> bool:
    """Whether an activity with this name exists: CreateActivity succeeds for an existing one."""
    name = values.get("Name")
    scope = values.context.region, values.context.account
    arn = make_arn("states", *scope, f"activity:{name}")
    try:
        values.context.call("stepfunctions", "DescribeActivity", {"activityArn": arn})
    except AwsError as error:
        if error.status >= 500:
            raise
        return False
    return True


@declare_sources(
    "Definition", "DefinitionString", "DefinitionS3Location", "DefinitionSubstitutions"
)
def _definition(values: Values) -> str | None:
    """Return the definition from any of its properties, with its substitutions."""
    text = values.get("DefinitionString")
    if values.get("Definition") is not None:
        text = json.dumps(values.get("Definition"))
    location = values.get("DefinitionS3Location")
    if location is not None:
        params = {"Bucket": location["Bucket"], "Key": location["Key"]}
        body: Any = values.context.call("s3", "GetObject", params)["Body"]
        text = (body if isinstance(body, bytes) else body.read()).decode()
    if text is None:
        raise ResourceFailed(
            "One of Definition, DefinitionString and DefinitionS3Location must be given"
        )
    substitutions: dict[str, Any] = values.get("DefinitionSubstitutions") or {}
    return re.sub(r"\$\{([^}]+)\}", lambda m: str(substitutions.get(m[1], m[0])), str(text))


def _has_machine(values: Values) -> bool:
    """Whether a state machine with this name exists: an identical CreateStateMachine succeeds again."""
    name = values.get("StateMachineName")
    where = f"{values.context.region}:{values.context.account}"
    arn = f"arn:{partition_of(where)}:states:{where}:stateMachine:{name}"
    context = values.context
    return bool(
        name
        and context.find_identifier(
            "stepfunctions", "DescribeStateMachine", {"stateMachineArn": arn}, arn
        )
    )


def _has_alias(values: Values) -> bool:
    """Whether the state machine has an alias with this name: an identical CreateStateMachineAlias succeeds again."""
    routes = _routes(values)
    name = values.get("Name")
    if not (routes and name):
        return False
    machine_arn = str(routes[0]["stateMachineVersionArn"]).rpartition(":")[0]
    params = {"stateMachineAliasArn": f"{machine_arn}:{name}"}
    alias = values.context.find_identifier(
        "stepfunctions", "DescribeStateMachineAlias", params, params["stateMachineAliasArn"]
    )
    return bool(alias)


@declare_sources("RoutingConfiguration", "DeploymentPreference")
def _routes(values: Values) -> list[dict[str, Any]] | None:
    """Return an alias's routes; a deployment preference routes all to its version at once.

    AWS moves traffic there step by step, and back on alarms.
    """
    preference = values.get("DeploymentPreference")
    if preference:
        return [{"stateMachineVersionArn": preference["StateMachineVersionArn"], "weight": 100}]
    routes: list[dict[str, Any]] | None = values.get("RoutingConfiguration")
    return routes and [
        {
            "stateMachineVersionArn": route["StateMachineVersionArn"],
            "weight": int(route.get("Weight", 100)),
        }
        for route in routes
    ]


@declare_sources("StateMachineRevisionId")
def _revision(values: Values) -> str | None:
    """Return the revision to publish; the first has no id that PublishStateMachineVersion takes."""
    revision = values.get("StateMachineRevisionId")
    return None if revision == "INITIAL" else revision


_ARN = {"stateMachineArn": "@id"}


DECLARED = [
    DeclaredType(
        "AWS::StepFunctions::StateMachine",
        "stepfunctions",
        create=[Call("CreateStateMachine", {"definition": _definition})],
        id="@answer.stateMachineArn",
        read=Call("DescribeStateMachine", _ARN),
        update=[Call("UpdateStateMachine", {**_ARN, "definition": _definition})],
        delete=[Call("DeleteStateMachine", _ARN)],
        name="StateMachineName",
        name_length=80,
        names={"StateMachineName": "name", "StateMachineType": "type"},
        exists=_has_machine,
        tag=("TagResource", "UntagResource", "resourceArn", "@id"),
    ),
    DeclaredType(
        "AWS::StepFunctions::StateMachineVersion",
        "stepfunctions",
        create=[
            Call(
                "PublishStateMachineVersion",
                {"stateMachineArn": "StateMachineArn", "revisionId": _revision},
            )
        ],
        id="@answer.stateMachineVersionArn",
        read=Call("DescribeStateMachine", _ARN),
        delete=[Call("DeleteStateMachineVersion", {"stateMachineVersionArn": "@id"})],
        attributes={"Arn": "@id"},
        # For a version, the answer has the version's own ARN.
        unread=frozenset({"StateMachineArn"}),
    ),
    DeclaredType(
        "AWS::StepFunctions::StateMachineAlias",
        "stepfunctions",
        create=[Call("CreateStateMachineAlias", {"routingConfiguration": _routes})],
        id="@answer.stateMachineAliasArn",
        read=Call("DescribeStateMachineAlias", {"stateMachineAliasArn": "@id"}),
        update=[
            Call(
                "UpdateStateMachineAlias",
                {"stateMachineAliasArn": "@id", "routingConfiguration": _routes},
                only=("Description",),
            )
        ],
        delete=[Call("DeleteStateMachineAlias", {"stateMachineAliasArn": "@id"})],
        name="Name",
        name_length=80,
        unique=False,
        exists=_has_alias,
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::StepFunctions::Activity",
        "stepfunctions",
        create=[Call("CreateActivity")],
        id="@answer.activityArn",
        read=Call("DescribeActivity", {"activityArn": "@id"}),
        delete=[Call("DeleteActivity", {"activityArn": "@id"})],
        name="Name",
        name_length=80,
        exists=_is_activity,
        tag=("TagResource", "UntagResource", "resourceArn", "@id"),
    ),
]
