"""Types of containers: ECS, ECR, Batch.

ECS: clusters and task definitions, as stored settings.

ECR repositories, without images.

Batch: compute environments, queues, job definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.base import Properties
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
    own_name,
)


@declare_sources("State")
def _state(values: Values) -> str:
    # The default (documented); the API sets it by itself.
    return str(values.get("State") or "ENABLED")


@declare_sources("Type")
def _type(values: Values) -> str:
    # aws-cdk-lib writes `managed`. Assumed: AWS takes it, as stacks of aws-cdk-lib deploy there.
    return str(values.get("Type")).upper()


def _cluster_settings(values: Values) -> list[Properties]:
    # Documented: Container Insights is disabled by default.
    return values.items("ClusterSettings") or [{"Name": "containerInsights", "Value": "disabled"}]


_ECS_TAGS = ("TagResource", "UntagResource", "resourceArn", "@id")


@declare_sources("NetworkConfiguration")
def _network(values: Values) -> dict[str, Any] | None:
    """Return a service's network. Without security groups it has its VPC's (documented), which moto leaves out."""
    settings = values.get("NetworkConfiguration.AwsvpcConfiguration")
    if settings is None:
        return None
    network: dict[str, Any] = {
        "subnets": settings.get("Subnets") or [],
        "securityGroups": settings.get("SecurityGroups") or [],
    }
    if "AssignPublicIp" in settings:
        network["assignPublicIp"] = settings["AssignPublicIp"]
    return {"awsvpcConfiguration": network}


_PROVIDER_ARN = "@answer.capacityProviders.0.capacityProviderArn"


@declare_sources("CapacityProviders")
def _providers(values: Values) -> list[str]:
    return list(values.get("CapacityProviders") or [])


def _is_active(values: Values) -> bool:
    """Whether a cluster of this name is active: a deleted one can be described for a while, as on AWS."""
    name = values.id or values.get("ClusterName")
    if not name:
        return False
    answer = values.context.call("ecs", "DescribeClusters", {"clusters": [name]})
    return any(cluster["status"] == "ACTIVE" for cluster in answer["clusters"])


def _has_providers(values: Values) -> bool:
    answer = values.context.call("ecs", "DescribeClusters", {"clusters": [values.get("Cluster")]})
    return any(cluster.get("capacityProviders") for cluster in answer["clusters"])


_REPOSITORY: dict[str, Source] = {"repositoryName": "@id"}
_POLICY: dict[str, Source] = {**_REPOSITORY, "policyText": "RepositoryPolicyText"}
_LIFECYCLE: dict[str, Source] = {
    **_REPOSITORY,
    "lifecyclePolicyText": "LifecyclePolicy.LifecyclePolicyText",
}
_OWN = "@answer.repositories.0"


def _live_policy(operation: str, member: str) -> Callable[[Values], Any]:
    """Return what reads a repository's policy; one that was deleted is empty."""

    def read(values: Values) -> Any:
        try:
            return values.context.call("ecr", operation, {"repositoryName": values.id})[member]
        except AwsError as error:
            if not error.code.endswith("PolicyNotFoundException"):
                raise
            return {}

    return read


def _live_lifecycle(values: Values) -> Any:
    text = _live_policy("GetLifecyclePolicy", "lifecyclePolicyText")(values)
    return {"LifecyclePolicyText": text} if text else {}


DECLARED = [
    DeclaredType(
        "AWS::ECR::Repository",
        "ecr",
        create=[
            Call("CreateRepository"),
            Call("SetRepositoryPolicy", _POLICY, only=(), when="RepositoryPolicyText"),
            Call("PutLifecyclePolicy", _LIFECYCLE, only=(), when="LifecyclePolicy"),
        ],
        id="RepositoryName",
        name="RepositoryName",
        name_length=256,
        name_lower=True,
        read=Call("DescribeRepositories", {"repositoryNames": lambda v: [v.id]}),
        read_as={
            "LifecyclePolicy": _live_lifecycle,
            "RepositoryPolicyText": _live_policy("GetRepositoryPolicy", "policyText"),
        },
        update=[
            Call("PutImageTagMutability"),
            Call("PutImageScanningConfiguration"),
            Call("SetRepositoryPolicy", _POLICY, only=(), when="RepositoryPolicyText"),
            Call("DeleteRepositoryPolicy", _REPOSITORY, only=(), without="RepositoryPolicyText"),
            Call("PutLifecyclePolicy", _LIFECYCLE, only=(), when="LifecyclePolicy"),
            Call("DeleteLifecyclePolicy", _REPOSITORY, only=(), without="LifecyclePolicy"),
        ],
        delete=[Call("DeleteRepository", {**_REPOSITORY, "force": "EmptyOnDelete"})],
        tag=("TagResource", "UntagResource", "resourceArn", f"{_OWN}.repositoryArn"),
        attributes={"Arn": f"{_OWN}.repositoryArn", "RepositoryUri": f"{_OWN}.repositoryUri"},
    ),
    DeclaredType(
        "AWS::ECS::Cluster",
        "ecs",
        create=[Call("CreateCluster")],
        id="ClusterName",
        read=Call("DescribeClusters", {"clusters": lambda v: [v.id]}),
        read_as={"ClusterSettings": "@answer.clusters.0.settings"},
        # Deleting it would delete its services and tasks.
        deletes_others=True,
        update=[
            Call(
                "UpdateCluster",
                {
                    "cluster": "@id",
                    "settings": declare_sources("ClusterSettings")(_cluster_settings),
                },
            ),
            Call(
                "PutClusterCapacityProviders",
                {
                    "cluster": "@id",
                    "capacityProviders": declare_sources("CapacityProviders")(
                        lambda v: v.get("CapacityProviders") or []
                    ),
                    "defaultCapacityProviderStrategy": declare_sources(
                        "DefaultCapacityProviderStrategy"
                    )(lambda v: v.get("DefaultCapacityProviderStrategy") or []),
                },
                only=(),
            ),
        ],
        tag=("TagResource", "UntagResource", "resourceArn", "@answer.clusters.0.clusterArn"),
        delete=[Call("DeleteCluster", {"cluster": "@id"})],
        name="ClusterName",
        name_length=255,
        exists=_is_active,
        attributes={"Arn": "@answer.clusters.0.clusterArn"},
    ),
    DeclaredType(
        "AWS::ECS::TaskDefinition",
        "ecs",
        create=[
            Call(
                "RegisterTaskDefinition",
                {"family": own_name("Family", 255)},
            )
        ],
        id="@answer.taskDefinition.taskDefinitionArn",
        tag=_ECS_TAGS,
        delete=[Call("DeregisterTaskDefinition", {"taskDefinition": "@id"})],
        attributes={"TaskDefinitionArn": "@id"},
    ),
    DeclaredType(
        "AWS::ECS::Service",
        "ecs",
        create=[
            Call(
                "CreateService",
                {
                    "serviceName": own_name("ServiceName", 255),
                    # Without it, moto fails for Fargate clusters.
                    "desiredCount": lambda v: v.get("DesiredCount") or 0,
                    "networkConfiguration": _network,
                },
            )
        ],
        id="@answer.service.serviceArn",
        update=[
            Call(
                "UpdateService",
                {
                    "cluster": "Cluster",
                    "service": lambda v: v.id.rpartition("/")[2],
                    "desiredCount": declare_sources("DesiredCount")(
                        lambda v: v.get("DesiredCount") or 0
                    ),
                    "forceNewDeployment": "ForceNewDeployment.EnableForceNewDeployment",
                },
                empties=True,
            )
        ],
        tag=_ECS_TAGS,
        delete=[
            Call(
                "DeleteService",
                {
                    "cluster": "Cluster",
                    "service": lambda v: v.id.rpartition("/")[2],
                    "force": lambda _: True,
                },
            )
        ],
        attributes={"Name": "@answer.service.serviceName", "ServiceArn": "@id"},
    ),
    DeclaredType(
        "AWS::ECS::CapacityProvider",
        "ecs",
        create=[Call("CreateCapacityProvider")],
        id="Name",
        read=Call("DescribeCapacityProviders", {"capacityProviders": lambda v: [v.id]}),
        update=[Call("UpdateCapacityProvider", {"name": "@id"})],
        tag=("TagResource", "UntagResource", "resourceArn", _PROVIDER_ARN),
        delete=[Call("DeleteCapacityProvider", {"capacityProvider": "@id"})],
        name="Name",
        name_length=255,
    ),
    DeclaredType(
        "AWS::ECS::ClusterCapacityProviderAssociations",
        "ecs",
        create=[Call("PutClusterCapacityProviders", {"capacityProviders": _providers})],
        id="Cluster",
        update=[
            Call(
                "PutClusterCapacityProviders",
                {
                    "cluster": "@id",
                    "capacityProviders": _providers,
                    "defaultCapacityProviderStrategy": "DefaultCapacityProviderStrategy",
                },
                always=True,
            )
        ],
        delete=[
            Call(
                "PutClusterCapacityProviders",
                {
                    "cluster": "@id",
                    "capacityProviders": lambda _: [],
                    "defaultCapacityProviderStrategy": lambda _: [],
                },
            )
        ],
        exists=_has_providers,
    ),
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
