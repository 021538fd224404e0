"""AppConfig: applications, environments, profiles, strategies and deployments."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
)

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


DECLARED = [
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
