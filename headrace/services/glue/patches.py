"""Glue: partitions are stored as rows, UpdateTable checks versions, Iceberg tables have metadata, reads are whole."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from typing import Any

from headrace.aws.calls.model import operation_model
from headrace.moto.storage.dictionaries import DictRows, KeptDict
from headrace.moto.storage.stored_names import stored_as
from headrace.services.glue import iceberg_tables

# Observed by others on AWS: Iceberg, Spark and Hive report it.
_CONCURRENT = "Update table failed due to concurrent modifications."


@stored_as("glue_partition_rows")
class PartitionRows(DictRows):
    """The partitions of a table."""

    service = "glue"


def patch(module: Any) -> None:
    """Replace methods of moto's models."""
    table = module.FakeTable
    init = table.__init__

    @functools.wraps(init)
    def with_rows(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.partitions = KeptDict(PartitionRows())

    table.__init__ = with_rows


def show_connections(module: Any) -> None:
    """Show what moto keeps of connections and of federated databases, and does not show.

    Secrets are not shown: of the ways of authentication, the members of the answer's shape are.
    """
    connection, database = module.FakeConnection.as_dict, module.FakeDatabase.as_dict

    @functools.wraps(connection)
    def show_connection(self: Any, *args: Any, **named: Any) -> dict[str, Any]:
        kept = self.connection_input
        more = {name: kept.get(name) for name in ("ConnectionType", "MatchCriteria")}
        ways = _of_shape(
            operation_model("glue", "GetConnection").output_shape,
            {
                "Connection": {
                    "AuthenticationConfiguration": kept.get("AuthenticationConfiguration")
                }
            },
        )
        return {**connection(self, *args, **named), **more, **ways["Connection"]}

    @functools.wraps(database)
    def show_database(self: Any) -> dict[str, Any]:
        return {**database(self), "FederatedDatabase": self.input.get("FederatedDatabase")}

    module.FakeConnection.as_dict = show_connection
    module.FakeDatabase.as_dict = show_database


def _of_shape(shape: Any, value: Any) -> Any:
    """Return the members of a structure that its shape has."""
    if not isinstance(value, dict) or shape.type_name != "structure":
        return value
    return {
        name: _of_shape(shape.members[name], one)
        for name, one in value.items()
        if name in shape.members
    }


def patch_responses(module: Any) -> None:
    """Replace methods of moto's responses."""
    create, update = module.GlueResponse.create_table, module.GlueResponse.update_table

    @functools.wraps(create)
    def create_table(self: Any) -> Any:
        from moto.core.responses import EmptyResult
        from moto.glue.exceptions import TableAlreadyExistsException

        parameters = self.parameters
        if not (parameters.get("OpenTableFormatInput") or {}).get("IcebergInput"):
            return create(self)
        backend, database = self.glue_backend, parameters["DatabaseName"]
        if iceberg_tables.name_of(parameters) in backend.get_database(database).tables:
            raise TableAlreadyExistsException
        table = iceberg_tables.table_input_of(parameters, self.current_account, self.region)
        backend.create_table(database, table["Name"], table, parameters["OpenTableFormatInput"])
        return EmptyResult()

    @functools.wraps(update)
    def update_table(self: Any) -> Any:
        """Update a table if its version is `VersionId`; with `SkipArchive` the old version is not kept."""
        from moto.core.exceptions import JsonRESTError

        request = self.parameters
        name = request["TableInput"]["Name"]
        table = self.glue_backend.get_table(request["DatabaseName"], name)
        before = table._current_version
        if request.get("VersionId") not in (None, str(before)):
            raise JsonRESTError("ConcurrentModificationException", _CONCURRENT)
        answer = update(self)
        if request.get("SkipArchive"):
            table.versions.pop(str(before), None)
        return answer

    module.GlueResponse.create_table = create_table
    module.GlueResponse.update_table = update_table
