"""Glue databases and tables."""

from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    Properties,
    ResourceType,
    enforced,
)

GONE = "EntityNotFoundException"


def _create_database(context: Context, properties: Properties) -> Made:
    given = dict(properties["DatabaseInput"])
    given.setdefault("Name", properties.get("DatabaseName") or context.generated_name(255).lower())
    context.call("glue", "CreateDatabase", {"DatabaseInput": given})
    return Made(given["Name"])


def _update_database(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    given = {**new["DatabaseInput"], "Name": physical_id}
    context.call("glue", "UpdateDatabase", {"Name": physical_id, "DatabaseInput": given})
    return Made(physical_id)


def _delete_database(context: Context, physical_id: str, properties: Properties) -> None:
    context.gone_is_fine("glue", "DeleteDatabase", {"Name": physical_id}, GONE)


def _create_table(context: Context, properties: Properties) -> Made:
    given = dict(properties["TableInput"])
    given.setdefault("Name", context.generated_name(255).lower())
    context.call(
        "glue", "CreateTable", {"DatabaseName": properties["DatabaseName"], "TableInput": given}
    )
    return Made(given["Name"])


def _update_table(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    given = {**new["TableInput"], "Name": physical_id}
    context.call("glue", "UpdateTable", {"DatabaseName": new["DatabaseName"], "TableInput": given})
    return Made(physical_id)


def _delete_table(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"DatabaseName": properties["DatabaseName"], "Name": physical_id}
    context.gone_is_fine("glue", "DeleteTable", params, GONE)


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
        enforced("CatalogId", "DatabaseName", "TableInput"),
        _create_table,
        _delete_table,
        update=_update_table,
        named_by=("TableInput", "Name"),
        replace_on=frozenset({"CatalogId", "DatabaseName"}),
    ),
]
