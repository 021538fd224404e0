"""Types of configuration: SSM parameters; AppConfig's applications, environments, profiles and deployments."""

from __future__ import annotations

from collections.abc import Callable

from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    stored,
)
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
    list_removed_tags,
    tags_of,
)
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


def _put(context: Context, name: str, properties: Properties, *, overwrite: bool) -> ResourceResult:
    params = {
        "Name": name,
        "Type": properties["Type"],
        "Value": str(properties["Value"]),
        "Description": properties.get("Description", ""),
        "Overwrite": overwrite,
    }
    for key in ("AllowedPattern", "Tier"):
        if key in properties:
            params[key] = properties[key]
    context.call("ssm", "PutParameter", params)
    return ResourceResult(name, {"Type": properties["Type"], "Value": str(properties["Value"])})


def _create(context: Context, properties: Properties) -> ResourceResult:
    name = properties.get("Name") or context.made_up(
        lambda: f"CFN-{context.logical_id}-{context.ids.alnum(12)}"
    )
    result = _put(context, name, properties, overwrite=False)
    context.note_made(name)
    tags = context.merge_tags(tags_of(properties.get("Tags") or {}))
    if tags:
        params = {"ResourceType": "Parameter", "ResourceId": name}
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        context.call("ssm", "AddTagsToResource", {**params, "Tags": listed})
    return result


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    return _put(context, physical_id, new, overwrite=True)


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("ssm", "DeleteParameter", {"Name": physical_id}, "ParameterNotFound")


TYPES = [
    ResourceType(
        "AWS::SSM::Parameter",
        {
            **enforced("Name", "Type", "Value", "AllowedPattern", "Tags"),
            **stored("Description", "Tier"),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"Name"}),
        named_by=("Name",),
    )
]


def _has_gone(name: str) -> Callable[[Values], bool]:
    """Return whether an update removes tags."""
    return lambda values: list_removed_tags(name)(values) is not None


def _is_replaced(properties: Properties) -> bool:
    """Whether a document is replaced when it changes: the default UpdateMethod (documented)."""
    return properties.get("UpdateMethod") != "NewVersion"


_DOCUMENT: dict[str, Source] = {"ResourceType": lambda _: "Document", "ResourceId": "@id"}


def _pairs(values: Values) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in values.tags.items()]


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
        "AWS::SSM::Document",
        "ssm",
        create=[Call("CreateDocument")],
        id="Name",
        read=Call("DescribeDocument", {"Name": "@id"}),
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
            Call(
                "AddTagsToResource",
                {**_DOCUMENT, "Tags": declare_sources("Tags")(lambda v: _pairs(v) or None)},
                only=(),
                when="Tags",
            ),
            Call(
                "RemoveTagsFromResource",
                {**_DOCUMENT, "TagKeys": list_removed_tags("Tags")},
                only=(),
                only_if=_has_gone("Tags"),
            ),
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
