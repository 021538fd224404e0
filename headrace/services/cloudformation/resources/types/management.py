"""Types of management and of developer tools.

CodeBuild's projects.

CodeCommit's repositories.

CodeDeploy: applications and deployment groups.

CodePipeline's pipelines, as stored settings: nothing here runs their actions.

CloudTrail's trails.

AWS Config: rules, recorders and delivery channels, as stored settings: nothing here is recorded or evaluated.

Budgets, as stored settings: nothing here costs anything, and nobody is told.

Resource Groups.

Service Catalog AppRegistry: applications, attribute groups, and what belongs to an application.
"""

from __future__ import annotations

import json
from typing import Any

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
    build_arn,
    declare_sources,
    own_name,
)
from headrace.services.cloudformation.resources.declared_calls import read_by


def _is_registered(values: Values) -> bool:
    answer = values.context.call("servicecatalog-appregistry", "ListApplications", {})
    return any(application["name"] == values.get("Name") for application in answer["applications"])


_SERVICE = "servicecatalog-appregistry"
_TOKEN: dict[str, Source] = {"clientToken": lambda v: v.context.ids.uuid()}


@declare_sources("Attributes")
def _attributes(values: Values) -> str:
    return json.dumps(values.get("Attributes"), separators=(",", ":"))


def _is_group(values: Values) -> bool:
    answer = values.context.call(_SERVICE, "ListAttributeGroups", {})
    return any(group["name"] == values.get("Name") for group in answer["attributeGroups"])


def _part(number: int) -> Source:
    return lambda values: values.id.split("|")[number]


@declare_sources("Budget")
def _name_budget(values: Values) -> dict[str, Any]:
    """Return the budget with its name; a generated one, which the physical id needs again, when it has none."""
    budget = values.get("Budget")
    name = budget.get("BudgetName") or values.context.generate_name(100)
    values.properties["Budget"] = {**budget, "BudgetName": name}
    return values.properties["Budget"]


_ACCOUNT: dict[str, Source] = {"AccountId": lambda v: v.context.account}


_RECORDER = {"ConfigurationRecorderName": "@id"}


@declare_sources("ArtifactStores")
def _map_stores(values: Values) -> dict[str, Any] | None:
    """Return the artifact stores by their regions, as the API has them."""
    stores = values.items("ArtifactStores")
    return {store["Region"]: store["ArtifactStore"] for store in stores} or None


_STORES = {"artifactStores": _map_stores}


def _deployment_group(values: Values) -> str:
    scope = values.context.region, values.context.account
    name = f"deploymentgroup:{values.get('ApplicationName')}/{values.id}"
    return make_arn("codedeploy", *scope, name)


@declare_sources("Tags")
def _project_tags(values: Values) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.tags.items()]


def _or(name: str, default: int) -> ComputedProperty:
    """Return the source of a member with its default (documented)."""
    return ComputedProperty((name,), lambda values: values.get(name) or default)


_START_LOGGING = Call(
    "StartLogging",
    {"Name": "@id"},
    only=(),
    when="IsLogging",
    only_if=lambda v: v.is_on("IsLogging"),
)


DECLARED = [
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
            build_arn("codedeploy", "application:"),
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
        "AWS::CodePipeline::Pipeline",
        "codepipeline",
        create=[Call("CreatePipeline", _STORES, into="pipeline")],
        id="Name",
        name="Name",
        read=Call("GetPipeline", {"name": "@id"}),
        update=[Call("UpdatePipeline", {"name": "@id", **_STORES}, into="pipeline")],
        delete=[Call("DeletePipeline", {"name": "@id"})],
        attributes={"Version": "@answer.pipeline.version", "Arn": "@answer.metadata.pipelineArn"},
    ),
    DeclaredType(
        "AWS::CloudTrail::Trail",
        "cloudtrail",
        create=[
            Call(
                "CreateTrail",
                {
                    "Name": "TrailName",
                    "TagsList": lambda v: (
                        [{"Key": k, "Value": x} for k, x in v.tags.items()] or None
                    ),
                },
            ),
            Call(
                "PutEventSelectors",
                {"TrailName": "@id", "EventSelectors": "EventSelectors"},
                only=(),
                when="EventSelectors",
            ),
            _START_LOGGING,
        ],
        id="@answer.Name",
        read=Call("GetTrail", {"Name": "@id"}),
        read_as={
            "EventSelectors": read_by(
                "cloudtrail", "GetEventSelectors", {"TrailName": "@id"}, "EventSelectors"
            ),
            "IsLogging": read_by("cloudtrail", "GetTrailStatus", {"Name": "@id"}, "IsLogging"),
        },
        update=[
            Call("UpdateTrail", {"Name": "@id"}),
            _START_LOGGING,
            Call("StopLogging", {"Name": "@id"}, only=(), without="IsLogging"),
            Call(
                "PutEventSelectors",
                {"TrailName": "@id", "EventSelectors": "EventSelectors"},
                only=(),
                when="EventSelectors",
            ),
        ],
        delete=[Call("DeleteTrail", {"Name": "@id"})],
        name="TrailName",
        name_length=128,
        attributes={"Arn": "@answer.TrailARN", "SnsTopicArn": "@answer.Trail.SnsTopicARN"},
    ),
    DeclaredType(
        "AWS::Config::ConfigRule",
        "config",
        create=[
            Call(
                "PutConfigRule",
                {"ConfigRuleName": own_name("ConfigRuleName", 128)},
                into="ConfigRule",
            )
        ],
        id="ConfigRuleName",
        name="ConfigRuleName",
        name_length=128,
        read=Call("DescribeConfigRules", {"ConfigRuleNames": lambda v: [v.id]}),
        # The call replaces the tags, too.
        update=[
            Call(
                "PutConfigRule",
                {
                    "ConfigRuleName": "@id",
                    "Tags": lambda v: [{"Key": key, "Value": v.tags[key]} for key in v.tags],
                },
                into="ConfigRule",
            )
        ],
        delete=[Call("DeleteConfigRule", {"ConfigRuleName": "@id"})],
        attributes={
            "Arn": "@answer.ConfigRules.0.ConfigRuleArn",
            "ConfigRuleId": "@answer.ConfigRules.0.ConfigRuleId",
        },
    ),
    DeclaredType(
        "AWS::Config::ConfigurationRecorder",
        "config",
        create=[Call("PutConfigurationRecorder", into="ConfigurationRecorder")],
        id="Name",
        name="Name",
        names={"RoleARN": "roleARN"},
        read=Call(
            "DescribeConfigurationRecorders", {"ConfigurationRecorderNames": lambda v: [v.id]}
        ),
        update=[Call("PutConfigurationRecorder", {"name": "@id"}, into="ConfigurationRecorder")],
        delete=[Call("DeleteConfigurationRecorder", _RECORDER)],
    ),
    DeclaredType(
        "AWS::Config::DeliveryChannel",
        "config",
        create=[Call("PutDeliveryChannel", into="DeliveryChannel")],
        id="Name",
        name="Name",
        read=Call("DescribeDeliveryChannels", {"DeliveryChannelNames": lambda v: [v.id]}),
        update=[Call("PutDeliveryChannel", {"name": "@id"}, into="DeliveryChannel")],
        delete=[Call("DeleteDeliveryChannel", {"DeliveryChannelName": "@id"})],
    ),
    DeclaredType(
        "AWS::Budgets::Budget",
        "budgets",
        create=[Call("CreateBudget", {**_ACCOUNT, "Budget": _name_budget})],
        id="Budget.BudgetName",
        read=Call("DescribeBudget", {**_ACCOUNT, "BudgetName": "@id"}),
        update=[
            Call(
                "UpdateBudget",
                {
                    **_ACCOUNT,
                    "NewBudget": declare_sources("Budget")(
                        lambda v: {**v.get("Budget"), "BudgetName": v.id}
                    ),
                },
            )
        ],
        delete=[Call("DeleteBudget", {**_ACCOUNT, "BudgetName": "@id"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::ResourceGroups::Group",
        "resource-groups",
        create=[Call("CreateGroup")],
        id="Name",
        read=Call("GetGroup", {"GroupName": "@id"}),
        read_as={
            "ResourceQuery": read_by(
                "resource-groups", "GetGroupQuery", {"GroupName": "@id"}, "GroupQuery.ResourceQuery"
            )
        },
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
            "Arn": build_arn("servicecatalog", "/applications/"),
            "ApplicationName": "Name",
            "ApplicationTagKey": lambda _: "awsApplication",
            "ApplicationTagValue": build_arn("servicecatalog", "/applications/"),
        },
    ),
    DeclaredType(
        "AWS::ServiceCatalogAppRegistry::AttributeGroup",
        _SERVICE,
        create=[Call("CreateAttributeGroup", {**_TOKEN, "attributes": _attributes})],
        id="@answer.attributeGroup.id",
        exists=_is_group,
        update=[
            Call(
                "UpdateAttributeGroup",
                {"attributeGroup": "@id", "attributes": _attributes},
                only=("Name", "Description"),
            )
        ],
        delete=[Call("DeleteAttributeGroup", {"attributeGroup": "@id"})],
        attributes={"Id": "@id", "Arn": "@answer.attributeGroup.arn"},
    ),
    DeclaredType(
        "AWS::ServiceCatalogAppRegistry::AttributeGroupAssociation",
        _SERVICE,
        create=[Call("AssociateAttributeGroup")],
        id=lambda v: f"{v.answer['applicationArn']}|{v.answer['attributeGroupArn']}",
        delete=[
            Call(
                "DisassociateAttributeGroup",
                {"application": "Application", "attributeGroup": "AttributeGroup"},
            )
        ],
        attributes={"ApplicationArn": _part(0), "AttributeGroupArn": _part(1)},
    ),
    DeclaredType(
        "AWS::ServiceCatalogAppRegistry::ResourceAssociation",
        _SERVICE,
        create=[Call("AssociateResource")],
        id=lambda v: "|".join(
            (v.answer["applicationArn"], v.answer["resourceArn"], str(v.get("ResourceType")))
        ),
        delete=[
            Call(
                "DisassociateResource",
                {
                    "application": "Application",
                    "resourceType": "ResourceType",
                    "resource": "Resource",
                },
            )
        ],
        attributes={"ApplicationArn": _part(0), "ResourceArn": _part(1)},
    ),
]
