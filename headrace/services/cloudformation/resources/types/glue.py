"""Glue: the catalog, jobs and what starts them, schemas, connections."""

from __future__ import annotations

import hashlib
import json
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.values import get_mapping
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    attribute_text,
    boolean,
    enforced,
)
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    build_arn,
    declare_sources,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same

GONE = "EntityNotFoundException"
_NUMBERS = frozenset(
    {"FieldId", "SourceId", "SpecId", "SchemaId", "OrderId", "Id", "IdentifierFieldIds"}
)
_OF_ICEBERG = ("StorageDescriptor", "TableType")


def _create_database(context: Context, properties: Properties) -> ResourceResult:
    members = _convert_parameters(properties["DatabaseInput"])
    members.setdefault("Name", properties.get("DatabaseName") or context.generate_name(255).lower())
    context.call("glue", "CreateDatabase", {"DatabaseInput": members})
    return ResourceResult(members["Name"])


def _update_database(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    members = {**_convert_parameters(new["DatabaseInput"]), "Name": physical_id}
    context.call("glue", "UpdateDatabase", {"Name": physical_id, "DatabaseInput": members})
    return ResourceResult(physical_id)


def _delete_database(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("glue", "DeleteDatabase", {"Name": physical_id}, GONE)


def _create_table(context: Context, properties: Properties) -> ResourceResult:
    members = _convert_parameters(get_mapping(properties, "TableInput"))
    named = properties.get("Name") or context.generate_name(255).lower()
    members.setdefault("Name", named)
    params = {"DatabaseName": properties["DatabaseName"], "TableInput": members}
    if properties.get("OpenTableFormatInput"):
        params["OpenTableFormatInput"] = _open_table(properties["OpenTableFormatInput"])
    context.call("glue", "CreateTable", params)
    return ResourceResult(members["Name"])


def _convert_parameters(value: Any, name: str = "") -> Any:
    """Return a copy with the parameters of tables, columns, formats and databases as text, which Glue keeps."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        if name == "Parameters":
            return {key: attribute_text(item) for key, item in members}
        return {key: _convert_parameters(item, key) for key, item in members}
    if isinstance(value, list):
        return [_convert_parameters(item) for item in cast("list[Any]", value)]
    return value


def _open_table(members: Properties) -> Properties:
    """Return OpenTableFormatInput with the API's member names, numbers and booleans."""
    iceberg = dict(members["IcebergInput"])
    table = iceberg.pop("IcebergTableInput", None)
    if table:
        iceberg["CreateIcebergTableInput"] = _convert_types(table)
    return {"IcebergInput": iceberg}


def _convert_types(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {
            key: _convert_types(item, key) for key, item in cast("dict[str, Any]", value).items()
        }
    if isinstance(value, list):
        return [_convert_types(item, name) for item in cast("list[Any]", value)]
    if isinstance(value, str) and name in _NUMBERS:
        return int(value)
    return boolean(value) if name == "Required" else value


def _update_table(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    members = {**_convert_parameters(get_mapping(new, "TableInput")), "Name": physical_id}
    names = {"DatabaseName": new["DatabaseName"]}
    present = context.call("glue", "GetTable", {**names, "Name": physical_id})["Table"]
    parameters = get_mapping(present, "Parameters")
    if "metadata_location" in parameters:
        # The template does not list the table's present snapshots (that AWS keeps them is assumed).
        members = {**{name: present[name] for name in _OF_ICEBERG if name in present}, **members}
        kept = {name: parameters[name] for name in ("table_type", "metadata_location")}
        members["Parameters"] = {**kept, **get_mapping(members, "Parameters")}
    context.call("glue", "UpdateTable", {**names, "TableInput": members})
    return ResourceResult(physical_id)


def _delete_table(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"DatabaseName": properties["DatabaseName"], "Name": physical_id}
    context.delete_if_exists("glue", "DeleteTable", params, GONE)


TYPES = [
    ResourceType(
        "AWS::Glue::Database",
        enforced("CatalogId", "DatabaseInput", "DatabaseName"),
        _create_database,
        _delete_database,
        update=_update_database,
        replace_on=frozenset({"CatalogId", "DatabaseName"}),
        named_by=("DatabaseInput", "Name"),
    ),
    ResourceType(
        "AWS::Glue::Table",
        enforced("CatalogId", "DatabaseName", "Name", "OpenTableFormatInput", "TableInput"),
        _create_table,
        _delete_table,
        update=_update_table,
        named_by=("TableInput", "Name"),
        replace_on=frozenset({"CatalogId", "DatabaseName", "Name", "OpenTableFormatInput"}),
    ),
]


_NAME = {"Name": "@id"}


def _tag(kind: str) -> tuple[str, str, str, Source]:
    """Return the calls for the tags of a resource whose ARN is made from its name."""
    return "TagResource", "UntagResource", "ResourceArn", build_arn("glue", f"{kind}/")


@declare_sources("Registry")
def _registry(values: Values) -> dict[str, str] | None:
    """Return a schema's registry in the API's form."""
    registry = values.get("Registry")
    if not registry:
        return None
    if registry.get("Arn"):
        return {"RegistryArn": registry["Arn"]}
    if not registry.get("Name"):
        # The sentence is assumed.
        raise AwsError(
            "InvalidInputException", "One of registryName or registryArn has to be provided."
        )
    return {"RegistryName": registry["Name"]}


@declare_sources("ConnectionInput")
def _connection(values: Values) -> dict[str, Any]:
    """Return a connection in CreateConnection's form: a template may omit its name and properties."""
    members: dict[str, Any] = {"ConnectionProperties": {}, **(values.get("ConnectionInput") or {})}
    members["Name"] = members.get("Name") or values.context.generate_name(255)
    values.properties["ConnectionInput"] = members
    return members


@declare_sources("ConnectionInput")
def _connection_changed(values: Values) -> dict[str, Any]:
    """Return a connection in UpdateConnection's form. Raises ResourceFailed for another name (documented)."""
    members: dict[str, Any] = {"ConnectionProperties": {}, **(values.get("ConnectionInput") or {})}
    if members.get("Name") not in (None, values.id):
        raise ResourceFailed(f"The Name of connection {values.id} cannot be updated.")  # assumed
    return {**members, "Name": values.id}


@declare_sources("Schedule")
def _schedule(values: Values) -> str:
    # Documented: an empty text removes the schedule.
    return str(values.get("Schedule.ScheduleExpression") or "")


_BY_ARN: dict[str, Source] = {"RegistryId": lambda v: {"RegistryArn": v.id}}


_SCHEMA: dict[str, Source] = {"SchemaId": lambda v: {"SchemaArn": v.id}}


_PARTITION: dict[str, Source] = {
    "CatalogId": "CatalogId",
    "DatabaseName": "DatabaseName",
    "TableName": "TableName",
    "PartitionValues": "PartitionInput.Values",
}


def _partition_id(values: Values) -> str:
    """Return the parts of a partition's primary identifier; that its hash of the values is SHA-256 is assumed."""
    text = json.dumps(values.get("PartitionInput.Values"))
    names = [str(values.get(name)) for name in ("CatalogId", "DatabaseName", "TableName")]
    return "|".join([*names, hashlib.sha256(text.encode()).hexdigest()])


_BY_ID = ("TagResource", "UntagResource", "ResourceArn", "@id")

_CLASSIFIERS = ("CsvClassifier", "GrokClassifier", "JsonClassifier", "XMLClassifier")


def _find_classifier_name(properties: Properties) -> tuple[str, str | None]:
    """Return the kind of classifier that properties describe, and the name that they give it."""
    for kind in _CLASSIFIERS:
        if properties.get(kind):
            return kind, get_mapping(properties, kind).get("Name")
    return "", None


def _classifier_source(kind: str) -> Source:
    """Return the source of a classifier of a kind, with its name; its form is that of the API."""

    @declare_sources(kind)
    def name_classifier(values: Values) -> dict[str, Any] | None:
        classifier = values.get(kind)
        if not classifier:
            return None
        name = values.last or classifier.get("Name") or values.context.generate_name(255)
        # The physical id needs a generated name again.
        values.properties[kind] = {**classifier, "Name": name}
        return values.properties[kind]

    return name_classifier


def _has_classifier(values: Values) -> bool:
    name = _find_classifier_name(values.properties)[1]
    classifiers = values.context.call("glue", "GetClassifiers", {})["Classifiers"]
    return any(name == members["Name"] for one in classifiers for members in one.values())


def _is_other_classifier(old: Properties, new: Properties) -> bool:
    """Whether a classifier becomes one of another kind or name, which no update makes of it (documented)."""
    return _find_classifier_name(old) != _find_classifier_name(new)


_UNENCRYPTED = {
    "EncryptionAtRest": {"CatalogEncryptionMode": "DISABLED"},
    "ConnectionPasswordEncryption": {"ReturnConnectionPasswordEncrypted": False},
}


def _holds_settings(values: Values) -> bool:
    name = "DataCatalogEncryptionSettings"
    answer = values.context.call("glue", f"Get{name}", {"CatalogId": values.id})
    settings = get_mapping(answer, name)
    return all(settings.get(key) == value for key, value in values.get(name).items())


_CLASSIFIER = {kind: _classifier_source(kind) for kind in _CLASSIFIERS}


DECLARED = [
    DeclaredType(
        "AWS::Glue::Classifier",
        "glue",
        create=[Call("CreateClassifier", _CLASSIFIER)],
        id=lambda v: _find_classifier_name(v.properties)[1],
        read=Call("GetClassifier", {"Name": "@id"}),
        exists=_has_classifier,
        update=[Call("UpdateClassifier", _CLASSIFIER)],
        delete=[Call("DeleteClassifier", {"Name": "@id"})],
        replaced_if=_is_other_classifier,
        attributes={"Name": "@id"},
    ),
    DeclaredType(
        "AWS::Glue::DataCatalogEncryptionSettings",
        "glue",
        create=[Call("PutDataCatalogEncryptionSettings")],
        id="CatalogId",
        read=Call("GetDataCatalogEncryptionSettings", {"CatalogId": "@id"}),
        update=[Call("PutDataCatalogEncryptionSettings")],
        # The settings go back to what a catalog has at first.
        delete=[
            Call(
                "PutDataCatalogEncryptionSettings",
                {"CatalogId": "@id", "DataCatalogEncryptionSettings": lambda _: _UNENCRYPTED},
            )
        ],
        unread=frozenset({"CatalogId"}),
        holds=_holds_settings,
    ),
    DeclaredType(
        "AWS::Glue::Job",
        "glue",
        create=[Call("CreateJob")],
        id="@answer.Name",
        read=Call("GetJob", {"JobName": "@id"}),
        update=[Call("UpdateJob", {"JobName": "@id"}, into="JobUpdate")],
        tag=_tag("job"),
        delete=[Call("DeleteJob", {"JobName": "@id"})],
        name="Name",
        name_length=255,
    ),
    DeclaredType(
        "AWS::Glue::Crawler",
        "glue",
        create=[Call("CreateCrawler", {"Schedule": "Schedule.ScheduleExpression"})],
        id="Name",
        read=Call("GetCrawler", _NAME),
        update=[Call("UpdateCrawler", {**_NAME, "Schedule": _schedule}, empties=True)],
        tag=_tag("crawler"),
        delete=[Call("DeleteCrawler", _NAME)],
        name="Name",
        name_length=255,
    ),
    DeclaredType(
        "AWS::Glue::Trigger",
        "glue",
        create=[Call("CreateTrigger")],
        id="@answer.Name",
        read=Call("GetTrigger", _NAME),
        # headrace runs no trigger: StartTrigger is refused, and a changed StartOnCreation starts none.
        update=[Call("UpdateTrigger", _NAME, into="TriggerUpdate")],
        tag=_tag("trigger"),
        delete=[Call("DeleteTrigger", _NAME)],
        name="Name",
        name_length=255,
    ),
    DeclaredType(
        "AWS::Glue::Workflow",
        "glue",
        create=[Call("CreateWorkflow")],
        id="@answer.Name",
        read=Call("GetWorkflow", _NAME),
        update=[Call("UpdateWorkflow", _NAME)],
        tag=_tag("workflow"),
        delete=[Call("DeleteWorkflow", _NAME)],
        name="Name",
        name_length=255,
    ),
    DeclaredType(
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
        update=[Call("UpdateRegistry", _BY_ARN, only=("Description",))],
        tag=_BY_ID,
        delete=[Call("DeleteRegistry", _BY_ARN)],
        name="Name",
        name_length=255,
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::Glue::Schema",
        "glue",
        create=[Call("CreateSchema", {"SchemaName": "Name", "RegistryId": _registry})],
        id="@answer.SchemaArn",
        read=Call("GetSchema", _SCHEMA),
        update=[Call("UpdateSchema", _SCHEMA, only=("Compatibility", "Description"))],
        tag=_BY_ID,
        delete=[Call("DeleteSchema", _SCHEMA)],
        attributes={"Arn": "@id", "InitialSchemaVersionId": "@answer.SchemaVersionId"},
    ),
    DeclaredType(
        "AWS::Glue::Connection",
        "glue",
        create=[Call("CreateConnection", {"ConnectionInput": _connection})],
        id="ConnectionInput.Name",
        read=Call("GetConnection", _NAME),
        read_as={"ConnectionInput": "@answer.Connection"},
        update=[Call("UpdateConnection", {**_NAME, "ConnectionInput": _connection_changed})],
        tag=_tag("connection"),
        delete=[Call("DeleteConnection", {"ConnectionName": "@id"})],
    ),
    DeclaredType(
        "AWS::Glue::Partition",
        "glue",
        create=[Call("CreatePartition")],
        id=_partition_id,
        read=Call("GetPartition", _PARTITION),
        read_as={"PartitionInput": "@answer.Partition"},
        update=[
            Call(
                "UpdatePartition",
                {
                    "CatalogId": "CatalogId",
                    "DatabaseName": "DatabaseName",
                    "TableName": "TableName",
                    "PartitionValueList": "PartitionInput.Values",
                },
                only=("PartitionInput",),
            )
        ],
        delete=[Call("DeletePartition", _PARTITION)],
        attributes={"IdentifierPartitionInputValues": "@last"},
    ),
    DeclaredType(
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
    DeclaredType(
        "AWS::Glue::SchemaVersion",
        "glue",
        create=[Call("RegisterSchemaVersion", {"SchemaId": "Schema"})],
        id="@answer.SchemaVersionId",
        read=Call("GetSchemaVersion", {"SchemaVersionId": "@id"}),
        # A version is gone with its schema: moto has no call that deletes one.
        delete=[],
        attributes={"VersionId": "@id"},
    ),
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::Glue::Database",
        "glue",
        (ReadCall("GetDatabase", {"Name": "@id"}, "Database", {"DatabaseInput": "."}),),
    ),
    ReadingRules(
        "AWS::Glue::Table",
        "glue",
        (
            ReadCall(
                "GetTable",
                {"DatabaseName": "@DatabaseName", "Name": "@id"},
                "Table",
                same("DatabaseName", TableInput="."),
            ),
        ),
        named=False,
    ),
)
