"""AppConfig: applications, environments, profiles."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

_APPLICATION = {"ApplicationId": "@id"}


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
]
