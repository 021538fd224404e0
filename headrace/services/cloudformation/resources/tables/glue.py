"""Glue beside its databases and tables: jobs, crawlers, triggers, connections, schemas."""

from __future__ import annotations

from typing import Any

from headrace.aws.errors import AwsError
from headrace.services.cloudformation.resources.declaration import Call, Declared, Values, made_of

_NAME = {"Name": "@id"}


@made_of("Registry")
def _registry(values: Values) -> dict[str, str] | None:
    """Return a schema's registry as the API names it."""
    given = values.get("Registry")
    if not given:
        return None
    if given.get("Arn"):
        return {"RegistryArn": given["Arn"]}
    if not given.get("Name"):
        # The sentence is assumed.
        raise AwsError(
            "InvalidInputException", "One of registryName or registryArn has to be provided."
        )
    return {"RegistryName": given["Name"]}


@made_of("ConnectionInput")
def _connection(values: Values) -> dict[str, Any]:
    """Return a connection as CreateConnection takes it: a template may leave out its name and properties."""
    given: dict[str, Any] = {"ConnectionProperties": {}, **(values.get("ConnectionInput") or {})}
    given["Name"] = given.get("Name") or values.context.generated_name(255)
    values.properties["ConnectionInput"] = given
    return given


TYPES = [
    Declared(
        "AWS::Glue::Job",
        "glue",
        create=[Call("CreateJob")],
        id="@answer.Name",
        read=Call("GetJob", {"JobName": "@id"}),
        delete=[Call("DeleteJob", {"JobName": "@id"})],
        name="Name",
        name_length=255,
    ),
    Declared(
        "AWS::Glue::Crawler",
        "glue",
        create=[Call("CreateCrawler", {"Schedule": "Schedule.ScheduleExpression"})],
        id="Name",
        read=Call("GetCrawler", _NAME),
        delete=[Call("DeleteCrawler", _NAME)],
        name="Name",
        name_length=255,
    ),
    Declared(
        "AWS::Glue::Trigger",
        "glue",
        create=[Call("CreateTrigger")],
        id="@answer.Name",
        read=Call("GetTrigger", _NAME),
        delete=[Call("DeleteTrigger", _NAME)],
        name="Name",
        name_length=255,
    ),
    Declared(
        "AWS::Glue::Workflow",
        "glue",
        create=[Call("CreateWorkflow")],
        id="@answer.Name",
        read=Call("GetWorkflow", _NAME),
        update=[Call("UpdateWorkflow", _NAME)],
        delete=[Call("DeleteWorkflow", _NAME)],
        name="Name",
        name_length=255,
    ),
    Declared(
        "AWS::Glue::Registry",
        "glue",
        create=[Call("CreateRegistry", {"RegistryName": "Name"})],
        id="@answer.RegistryArn",
        read=Call(
            "GetRegistry",
            {
                "RegistryId": lambda v: (
                    {"RegistryArn": v.id} if ":" in v.id else {"RegistryName": v.id}
                )
            },
        ),
        delete=[Call("DeleteRegistry", {"RegistryId": lambda v: {"RegistryArn": v.id}})],
        name="Name",
        name_length=255,
        attributes={"Arn": "@id"},
    ),
    Declared(
        "AWS::Glue::Schema",
        "glue",
        create=[Call("CreateSchema", {"SchemaName": "Name", "RegistryId": _registry})],
        id="@answer.SchemaArn",
        read=Call("GetSchema", {"SchemaId": lambda v: {"SchemaArn": v.id}}),
        delete=[Call("DeleteSchema", {"SchemaId": lambda v: {"SchemaArn": v.id}})],
        attributes={"Arn": "@id", "InitialSchemaVersionId": "@answer.SchemaVersionId"},
    ),
    Declared(
        "AWS::Glue::Connection",
        "glue",
        create=[Call("CreateConnection", {"ConnectionInput": _connection})],
        id="ConnectionInput.Name",
        read=Call("GetConnection", _NAME),
        delete=[Call("DeleteConnection", {"ConnectionName": "@id"})],
    ),
    Declared(
        "AWS::Glue::SecurityConfiguration",
        "glue",
        create=[Call("CreateSecurityConfiguration")],
        id="@answer.Name",
        read=Call("GetSecurityConfiguration", _NAME),
        delete=[Call("DeleteSecurityConfiguration", _NAME)],
        name="Name",
        name_length=255,
        names={"S3Encryptions": "S3Encryption"},
    ),
]
