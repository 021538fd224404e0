"""Continuous delivery: CodeBuild projects, CodeDeploy applications and deployment groups; all stored."""

from __future__ import annotations

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Values,
    computed_from,
)


@computed_from("Tags")
def _project_tags(values: Values) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.tags.items()]


def _or(name: str, default: int) -> ComputedProperty:
    """Return the source of a member with its default (documented)."""
    return ComputedProperty((name,), lambda values: values.get(name) or default)


def _deployment_group(values: Values) -> str:
    place = values.context.region, values.context.account
    name = f"deploymentgroup:{values.get('ApplicationName')}/{values.id}"
    return make_arn("codedeploy", *place, name)


def _is_registered(values: Values) -> bool:
    answer = values.context.call("servicecatalog-appregistry", "ListApplications", {})
    return any(each["name"] == values.get("Name") for each in answer["applications"])


def _arn_of_application(values: Values) -> str:
    place = values.context.region, values.context.account
    return make_arn("servicecatalog", *place, f"/applications/{values.id}")


TYPES = [
    DeclaredType(
        "AWS::CodeDeploy::Application",
        "codedeploy",
        create=[Call("CreateApplication")],
        id="ApplicationName",
        # Deleting it would delete its deployment groups.
        deletes_others=True,
        tag=(
            "TagResource",
            "UntagResource",
            "ResourceArn",
            lambda v: (
                f"arn:aws:codedeploy:{v.context.region}:{v.context.account}:application:{v.id}"
            ),
        ),
        delete=[Call("DeleteApplication", {"applicationName": "@id"})],
        name="ApplicationName",
        name_length=100,
    ),
    DeclaredType(
        "AWS::CodeDeploy::DeploymentGroup",
        "codedeploy",
        create=[Call("CreateDeploymentGroup")],
        id="DeploymentGroupName",
        update=[Call("UpdateDeploymentGroup", {"currentDeploymentGroupName": "@id"}, empties=True)],
        tag=("TagResource", "UntagResource", "ResourceArn", _deployment_group),
        delete=[
            Call(
                "DeleteDeploymentGroup",
                {"applicationName": "ApplicationName", "deploymentGroupName": "@id"},
            )
        ],
        name="DeploymentGroupName",
        name_length=100,
    ),
    DeclaredType(
        "AWS::CodeBuild::Project",
        "codebuild",
        create=[Call("CreateProject")],
        id="Name",
        read=Call("BatchGetProjects", {"names": lambda v: [v.id]}),
        update=[
            Call(
                "UpdateProject",
                {
                    "name": "@id",
                    "tags": _project_tags,
                    "timeoutInMinutes": _or("TimeoutInMinutes", 60),
                    "queuedTimeoutInMinutes": _or("QueuedTimeoutInMinutes", 480),
                },
                empties=True,
            )
        ],
        delete=[Call("DeleteProject", {"name": "@id"})],
        name="Name",
        name_length=255,
        attributes={"Arn": "@answer.projects.0.arn", "Id": "@id"},
    ),
    DeclaredType(
        "AWS::ResourceGroups::Group",
        "resource-groups",
        create=[Call("CreateGroup")],
        id="Name",
        read=Call("GetGroup", {"GroupName": "@id"}),
        update=[
            Call("UpdateGroup", {"GroupName": "@id"}, only=("Description",)),
            Call(
                "UpdateGroupQuery",
                {"GroupName": "@id"},
                only=("ResourceQuery",),
                when="ResourceQuery",
            ),
            Call("PutGroupConfiguration", {"Group": "@id"}, only=("Configuration",)),
        ],
        tag=("Tag", "Untag", "Arn", "@answer.Group.GroupArn"),
        delete=[Call("DeleteGroup", {"GroupName": "@id"})],
        attributes={"Arn": "@answer.Group.GroupArn"},
    ),
    DeclaredType(
        "AWS::ServiceCatalogAppRegistry::Application",
        "servicecatalog-appregistry",
        create=[Call("CreateApplication", {"clientToken": lambda v: v.context.ids.uuid()})],
        id="@answer.application.id",
        exists=_is_registered,
        update=[Call("UpdateApplication", {"application": "@id"}, only=("Description",))],
        delete=[Call("DeleteApplication", {"application": "@id"})],
        attributes={
            "Id": "@id",
            "Arn": _arn_of_application,
            "ApplicationName": "Name",
            "ApplicationTagKey": lambda _: "awsApplication",
            "ApplicationTagValue": _arn_of_application,
        },
    ),
]
