"""Batch, Auto Scaling, CodeCommit repositories and GuardDuty's detectors; all stored."""

from __future__ import annotations

from headrace.services.cloudformation.resources.base import Properties
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    computed_from,
)


@computed_from("VPCZoneIdentifier")
def _subnets(values: Values) -> str | None:
    """Return the subnets in the API's form: one text."""
    given = values.get("VPCZoneIdentifier")
    return ",".join(given) if given else None


@computed_from("State")
def _state(values: Values) -> str:
    # The default (documented); the API sets it by itself.
    return str(values.get("State") or "ENABLED")


def _group_tags(values: Values) -> list[Properties]:
    """Return an Auto Scaling group's tags in CreateOrUpdateTags' form."""
    group = {"ResourceId": values.id, "ResourceType": "auto-scaling-group"}
    return [{**tag, **group} for tag in values.items("Tags")]


def _tags_gone(values: Values) -> list[Properties]:
    """Return the tags that the update removes."""
    kept = {tag["Key"] for tag in values.items("Tags")}
    group = {"ResourceId": values.id, "ResourceType": "auto-scaling-group"}
    before: list[Properties] = values.old.get("Tags") or []
    return [{**tag, **group} for tag in before if tag["Key"] not in kept]


@computed_from("Type")
def _type(values: Values) -> str:
    # aws-cdk-lib writes `managed`. Assumed: AWS takes it, as stacks of aws-cdk-lib deploy there.
    return str(values.get("Type")).upper()


TYPES = [
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
    DeclaredType(
        "AWS::AutoScaling::LaunchConfiguration",
        "autoscaling",
        create=[Call("CreateLaunchConfiguration")],
        id="LaunchConfigurationName",
        delete=[Call("DeleteLaunchConfiguration", {"LaunchConfigurationName": "@id"})],
        name="LaunchConfigurationName",
        name_length=255,
    ),
    DeclaredType(
        "AWS::AutoScaling::AutoScalingGroup",
        "autoscaling",
        create=[
            Call(
                "CreateAutoScalingGroup",
                {"VPCZoneIdentifier": _subnets, "AvailabilityZones": "AvailabilityZones"},
                tagged=False,
            )
        ],
        id="AutoScalingGroupName",
        read=Call("DescribeAutoScalingGroups", {"AutoScalingGroupNames": lambda v: [v.id]}),
        update=[
            Call(
                "UpdateAutoScalingGroup",
                {"AutoScalingGroupName": "@id", "VPCZoneIdentifier": _subnets},
            ),
            Call(
                "DeleteTags",
                {"Tags": computed_from("Tags")(_tags_gone)},
                only=(),
                only_if=lambda v: bool(_tags_gone(v)),
            ),
            Call(
                "CreateOrUpdateTags",
                {"Tags": computed_from("Tags")(_group_tags)},
                only=(),
                only_if=lambda v: bool(_group_tags(v)),
            ),
        ],
        # Deleting it would delete its policies, hooks and scheduled actions.
        deletes_others=True,
        delete=[
            Call(
                "DeleteAutoScalingGroup",
                {"AutoScalingGroupName": "@id", "ForceDelete": lambda _: True},
            )
        ],
        # In moto the account's own role always exists.
        names={"ServiceLinkedRoleARN": "-"},
        name="AutoScalingGroupName",
        name_length=255,
        attributes={"AutoScalingGroupARN": "@answer.AutoScalingGroups.0.AutoScalingGroupARN"},
    ),
    DeclaredType(
        "AWS::CodeCommit::Repository",
        "codecommit",
        create=[Call("CreateRepository")],
        id="@answer.repositoryMetadata.repositoryId",
        delete=[Call("DeleteRepository", {"repositoryName": "RepositoryName"})],
        attributes={
            "Arn": "@answer.repositoryMetadata.Arn",
            "Name": "RepositoryName",
            "RepositoryId": "@id",
            "CloneUrlHttp": "@answer.repositoryMetadata.cloneUrlHttp",
            "CloneUrlSsh": "@answer.repositoryMetadata.cloneUrlSsh",
        },
    ),
    DeclaredType(
        "AWS::GuardDuty::Detector",
        "guardduty",
        create=[Call("CreateDetector")],
        id="@answer.DetectorId",
        update=[Call("UpdateDetector", {"DetectorId": "@id"})],
        delete=[Call("DeleteDetector", {"DetectorId": "@id"})],
        attributes={"Id": "@id"},
    ),
]
