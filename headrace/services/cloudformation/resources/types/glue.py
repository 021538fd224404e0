"""Glue databases and tables."""

from __future__ import annotations

from typing import Any, cast

from headrace.core.values import mapped
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    boolean,
    enforced,
)

GONE = "EntityNotFoundException"
_NUMBERS = frozenset(
    {"FieldId", "SourceId", "SpecId", "SchemaId", "OrderId", "Id", "IdentifierFieldIds"}
)
_OF_ICEBERG = ("StorageDescriptor", "TableType")


def _create_database(context: Context, properties: Properties) -> ResourceResult:
    given = dict(properties["DatabaseInput"])
    given.setdefault("Name", properties.get("DatabaseName") or context.generated_name(255).lower())
    context.call("glue", "CreateDatabase", {"DatabaseInput": given})
    return ResourceResult(given["Name"])


def _update_database(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    given = {**new["DatabaseInput"], "Name": physical_id}
    context.call("glue", "UpdateDatabase", {"Name": physical_id, "DatabaseInput": given})
    return ResourceResult(physical_id)


def _delete_database(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("glue", "DeleteDatabase", {"Name": physical_id}, GONE)


def _create_table(context: Context, properties: Properties) -> ResourceResult:
    given = mapped(properties, "TableInput")
    named = properties.get("Name") or context.generated_name(255).lower()
    given.setdefault("Name", named)
    params = {"DatabaseName": properties["DatabaseName"], "TableInput": given}
    if properties.get("OpenTableFormatInput"):
        params["OpenTableFormatInput"] = _open_table(properties["OpenTableFormatInput"])
    context.call("glue", "CreateTable", params)
    return ResourceResult(given["Name"])


def _open_table(given: Properties) -> Properties:
    """Return OpenTableFormatInput with the API's member names, numbers and booleans."""
    iceberg = dict(given["IcebergInput"])
    table = iceberg.pop("IcebergTableInput", None)
    if table:
        iceberg["CreateIcebergTableInput"] = _typed(table)
    return {"IcebergInput": iceberg}


def _typed(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _typed(item, key) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_typed(item, name) for item in cast("list[Any]", value)]
    if isinstance(value, str) and name in _NUMBERS:
        return int(value)
    return boolean(value) if name == "Required" else value


def _update_table(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    given = {**mapped(new, "TableInput"), "Name": physical_id}
    names = {"DatabaseName": new["DatabaseName"]}
    present = context.call("glue", "GetTable", {**names, "Name": physical_id})["Table"]
    parameters = mapped(present, "Parameters")
    if "metadata_location" in parameters:
        # The template does not list the table's present snapshots (that AWS keeps them is assumed).
        given = {**{name: present[name] for name in _OF_ICEBERG if name in present}, **given}
        kept = {name: parameters[name] for name in ("table_type", "metadata_location")}
        given["Parameters"] = {**kept, **mapped(given, "Parameters")}
    context.call("glue", "UpdateTable", {**names, "TableInput": given})
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
