"""Batch: compute environments, queues, job definitions."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)


@declare_sources("State")
def _state(values: Values) -> str:
    # The default (documented); the API sets it by itself.
    return str(values.get("State") or "ENABLED")


@declare_sources("Type")
def _type(values: Values) -> str:
    # aws-cdk-lib writes `managed`. Assumed: AWS takes it, as stacks of aws-cdk-lib deploy there.
    return str(values.get("Type")).upper()


DECLARED = [
    DeclaredType(
        "AWS::Batch::ComputeEnvironment",
        "batch",
        create=[Call("CreateComputeEnvironment", {"state": _state, "type": _type})],
        id="@answer.computeEnvironmentArn",
        update=[Call("UpdateComputeEnvironment", {"computeEnvironment": "@id"})],
        delete=[
            Call(
                "UpdateComputeEnvironment",
                {"computeEnvironment": "@id", "state": lambda _: "DISABLED"},
            ),
            Call("DeleteComputeEnvironment", {"computeEnvironment": "@id"}),
        ],
        name="ComputeEnvironmentName",
        name_length=128,
        attributes={"ComputeEnvironmentArn": "@id"},
    ),
    DeclaredType(
        "AWS::Batch::JobQueue",
        "batch",
        create=[Call("CreateJobQueue", {"state": _state})],
        id="@answer.jobQueueArn",
        update=[Call("UpdateJobQueue", {"jobQueue": "@id"})],
        delete=[
            Call("UpdateJobQueue", {"jobQueue": "@id", "state": lambda _: "DISABLED"}),
            Call("DeleteJobQueue", {"jobQueue": "@id"}),
        ],
        name="JobQueueName",
        name_length=128,
        attributes={"JobQueueArn": "@id"},
    ),
    DeclaredType(
        "AWS::Batch::JobDefinition",
        "batch",
        create=[Call("RegisterJobDefinition")],
        id="@answer.jobDefinitionArn",
        delete=[Call("DeregisterJobDefinition", {"jobDefinition": "@id"})],
        name="JobDefinitionName",
        name_length=128,
        unique=False,
        attributes={"JobDefinitionArn": "@id"},
    ),
]
