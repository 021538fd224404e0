"""ECR repositories, without images."""

import json

from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    ignored,
    stored,
    tag_list,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same


def _create(context: Context, properties: Properties) -> ResourceResult:
    name = properties.get("RepositoryName") or context.generate_name(256, lower=True)
    params = {"repositoryName": name, "tags": tag_list(properties, context)}
    repository = context.call("ecr", "CreateRepository", params)["repository"]
    context.note_made(name)
    _configure(context, name, properties)
    return ResourceResult(
        name, {"Arn": repository["repositoryArn"], "RepositoryUri": repository["repositoryUri"]}
    )


def _configure(context: Context, name: str, properties: Properties) -> None:
    if "ImageTagMutability" in properties:
        context.call(
            "ecr",
            "PutImageTagMutability",
            {
                "repositoryName": name,
                "imageTagMutability": properties["ImageTagMutability"],
            },
        )
    if "RepositoryPolicyText" in properties:
        context.call(
            "ecr",
            "SetRepositoryPolicy",
            {
                "repositoryName": name,
                "policyText": json.dumps(properties["RepositoryPolicyText"]),
            },
        )


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    _configure(context, physical_id, new)
    answer = context.call("ecr", "DescribeRepositories", {"repositoryNames": [physical_id]})
    repository = answer["repositories"][0]
    return ResourceResult(
        physical_id,
        {"Arn": repository["repositoryArn"], "RepositoryUri": repository["repositoryUri"]},
    )


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"repositoryName": physical_id, "force": bool(properties.get("EmptyOnDelete"))}
    context.delete_if_exists("ecr", "DeleteRepository", params, "RepositoryNotFoundException")


TYPES = [
    ResourceType(
        "AWS::ECR::Repository",
        {
            **enforced("RepositoryName", "EmptyOnDelete", "Tags"),
            **stored("ImageTagMutability", "RepositoryPolicyText"),
            **ignored("LifecyclePolicy", "ImageScanningConfiguration", "EncryptionConfiguration"),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"RepositoryName"}),
        named_by=("RepositoryName",),
    )
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::ECR::Repository",
        "ecr",
        (
            ReadCall(
                "DescribeRepositories",
                {"repositoryNames": ["@id"]},
                "repositories.0",
                same("", RepositoryName="repositoryName", ImageTagMutability="imageTagMutability"),
            ),
        ),
        {"Arn": "repositoryArn", "RepositoryUri": "repositoryUri"},
    ),
)
