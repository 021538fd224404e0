"""Types of configuration: SSM parameters; AppConfig's applications, environments, profiles and deployments."""

from __future__ import annotations

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.base import Properties
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
    list_removed_tags,
)
from headrace.services.cloudformation.resources.declared_calls import read_by
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same

_APPLICATION = {"ApplicationId": "@id"}
_STRATEGY: dict[str, Source] = {"DeploymentStrategyId": "@id"}
_DEPLOYMENT: dict[str, Source] = {
    "ApplicationId": "ApplicationId",
    "EnvironmentId": "EnvironmentId",
    "DeploymentNumber": "@last",
}


def _is_unfinished(values: Values) -> bool:
    deployment = values.context.call(
        "appconfig",
        "GetDeployment",
        {
            "ApplicationId": values.get("ApplicationId"),
            "EnvironmentId": values.get("EnvironmentId"),
            "DeploymentNumber": int(values.last),
        },
    )
    return deployment["State"] in ("DEPLOYING", "BAKING")


def _is_replaced(properties: Properties) -> bool:
    """Whether a document is replaced when it changes: the default UpdateMethod (documented)."""
    return properties.get("UpdateMethod") != "NewVersion"


def _pairs(values: Values) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in values.tags.items()]


def _retag(kind: str) -> list[Call]:
    """Return the calls that change the tags of a `Document` or a `Parameter`."""
    thing: dict[str, Source] = {"ResourceType": lambda _: kind, "ResourceId": "@id"}
    put, gone = declare_sources("Tags")(lambda v: _pairs(v) or None), list_removed_tags("Tags")
    return [
        Call("AddTagsToResource", {**thing, "Tags": put}, only=(), when="Tags"),
        Call(
            "RemoveTagsFromResource",
            {**thing, "TagKeys": gone},
            only=(),
            only_if=lambda v: gone(v) is not None,
        ),
    ]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::SSM::Parameter",
        "ssm",
        (
            ReadCall(
                "GetParameter",
                {"Name": "@id", "WithDecryption": True},
                "Parameter",
                same("Name Type Value"),
            ),
        ),
        same("Type Value"),
    ),
)


DECLARED = [
    DeclaredType(
        "AWS::SSM::Parameter",
        "ssm",
        create=[Call("PutParameter")],
        id="Name",
        update=[Call("PutParameter", {"Overwrite": lambda _: True}), *_retag("Parameter")],
        delete=[Call("DeleteParameter", {"Name": "@id"})],
        name="Name",
        generate=lambda c: f"CFN-{c.logical_id}-{c.ids.alnum(12)}",
        attributes={
            "Type": "Type",
            "Value": "Value",
            "Arn": lambda v: make_arn(
                "ssm",
                v.context.region,
                v.context.account,
                f"parameter/{v.id.removeprefix('/')}",
            ),
        },
        enforced=frozenset({"Name", "Type", "Value", "AllowedPattern", "Tags"}),
    ),
    DeclaredType(
        "AWS::SSM::Document",
        "ssm",
        create=[Call("CreateDocument")],
        id="Name",
        read=Call("DescribeDocument", {"Name": "@id"}),
        read_as={"Content": read_by("ssm", "GetDocument", {"Name": "@id"}, "Content")},
        recreated_if=_is_replaced,
        update=[
            Call(
                "UpdateDocument",
                {"Name": "@id", "DocumentVersion": lambda _: "$LATEST"},
                only=("Content", "Attachments", "VersionName", "DocumentFormat", "TargetType"),
            ),
            Call(
                "UpdateDocumentDefaultVersion",
                {
                    "Name": "@id",
                    # Assumed: the version that a template creates is the one that runs.
                    "DocumentVersion": declare_sources("Content")(
                        lambda v: v.answer["DocumentDescription"]["DocumentVersion"]
                    ),
                },
                only=(),
                only_if=lambda v: "DocumentDescription" in v.answer,
            ),
            *_retag("Document"),
        ],
        delete=[Call("DeleteDocument", {"Name": "@id"})],
        name="Name",
        name_length=128,
    ),
    DeclaredType(
        "AWS::AppConfig::Application",
        "appconfig",
        create=[Call("CreateApplication")],
        id="@answer.Id",
        update=[Call("UpdateApplication", _APPLICATION)],
        delete=[Call("DeleteApplication", _APPLICATION)],
        attributes={"ApplicationId": "@id"},
    ),
    DeclaredType(
        "AWS::AppConfig::Environment",
        "appconfig",
        create=[Call("CreateEnvironment")],
        id="@answer.Id",
        update=[Call("UpdateEnvironment", {"EnvironmentId": "@id"})],
        delete=[
            Call("DeleteEnvironment", {"ApplicationId": "ApplicationId", "EnvironmentId": "@id"})
        ],
        attributes={"EnvironmentId": "@id"},
    ),
    DeclaredType(
        "AWS::AppConfig::ConfigurationProfile",
        "appconfig",
        create=[Call("CreateConfigurationProfile")],
        id="@answer.Id",
        update=[Call("UpdateConfigurationProfile", {"ConfigurationProfileId": "@id"})],
        delete=[
            Call(
                "DeleteConfigurationProfile",
                {"ApplicationId": "ApplicationId", "ConfigurationProfileId": "@id"},
            )
        ],
        attributes={"ConfigurationProfileId": "@id"},
    ),
    DeclaredType(
        "AWS::AppConfig::HostedConfigurationVersion",
        "appconfig",
        create=[Call("CreateHostedConfigurationVersion")],
        id=lambda v: str(v.answer["VersionNumber"]),
        delete=[
            Call(
                "DeleteHostedConfigurationVersion",
                {
                    "ApplicationId": "ApplicationId",
                    "ConfigurationProfileId": "ConfigurationProfileId",
                    "VersionNumber": "@id",
                },
            )
        ],
        attributes={"VersionNumber": "@id"},
    ),
    DeclaredType(
        "AWS::AppConfig::DeploymentStrategy",
        "appconfig",
        create=[Call("CreateDeploymentStrategy")],
        id="@answer.Id",
        read=Call("GetDeploymentStrategy", _STRATEGY),
        update=[Call("UpdateDeploymentStrategy", _STRATEGY, empties=True)],
        delete=[Call("DeleteDeploymentStrategy", _STRATEGY)],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::AppConfig::Deployment",
        "appconfig",
        create=[Call("StartDeployment")],
        id=lambda v: (
            f"{v.get('ApplicationId')}|{v.get('EnvironmentId')}|{v.answer['DeploymentNumber']}"
        ),
        read=Call("GetDeployment", _DEPLOYMENT),
        # A deployment that is over cannot be taken back.
        delete=[Call("StopDeployment", _DEPLOYMENT, only_if=_is_unfinished)],
        attributes={"DeploymentNumber": "@last", "State": "@answer.State"},
    ),
]
