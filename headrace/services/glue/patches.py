"""Glue: partitions are stored as rows, UpdateTable checks the table's version, Iceberg tables have metadata.

Expressions of clients match in bounded time; connections and federated databases are shown whole.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from headrace.aws.calls.operation import operation_model
from headrace.core.patterns import (
    MatchingBudget,
    MatchTooLong,
    PatternRefused,
    glob_matches,
    java_pattern,
)
from headrace.moto.storage.dictionaries import DictRows, KeptDict
from headrace.moto.storage.stored_names import stored_as
from headrace.services.glue import iceberg_tables

# Documented: API_GetPartitions. How many parsed expressions are kept; moto keeps all.
_MOST_PREDICATE_CHARACTERS = 2048
_MOST_PREDICATES = 256


def match_partitions_in_time(utils: ModuleType) -> None:
    """Match LIKE by wildcards instead of regular expressions, and bound the expressions."""
    like: Any = utils._Like

    def evaluate(self: Any, part_keys: Any, part_input: Any) -> bool:
        kind = str(self.ident.type_(part_keys))
        if kind in ("bigint", "int", "smallint", "tinyint"):
            raise _glue_refusal("Integral data type doesn't support operation 'LIKE'")
        if kind in ("date", "decimal", "timestamp"):
            raise _glue_refusal(f"{kind.capitalize()} data type doesn't support operation 'LIKE'")
        text = self.ident.eval(part_keys, part_input)
        pattern = str(utils._cast("string", self.literal))
        return glob_matches(pattern, str(text), any_run="%", any_one="_")

    like.eval = evaluate
    cache: Any = utils._PARTITION_FILTER_EXPRESSION_CACHE
    parse: Any = cache.get

    def parse_within_bounds(expression: str | None) -> Any:
        if expression is not None and len(expression) > _MOST_PREDICATE_CHARACTERS:
            raise _glue_refusal("Expression is longer than 2048 characters")
        if len(cache._cache) >= _MOST_PREDICATES:
            cache._cache.clear()
        try:
            return parse(expression)
        except RecursionError:
            raise _glue_refusal(f"Unsupported expression '{expression}'") from None

    cache.get = parse_within_bounds


def _glue_refusal(message: str) -> Exception:
    from moto.glue.exceptions import InvalidInputException

    return InvalidInputException("GetPartitions", message)


def match_tables_in_time(models: ModuleType) -> None:
    """Match the names of tables in bounded time."""
    backend: Any = models.GlueBackend
    get_tables: Any = backend.get_tables

    @functools.wraps(get_tables)
    def get_tables_in_time(self: Any, database_name: str, expression: str | None) -> Any:
        tables = get_tables(self, database_name, None)
        if not expression:
            return tables
        # As in moto: a star matches anything, and the expression matches the start of a name.
        text = expression.replace(".*", "*").replace("*", ".*")
        try:
            java_pattern(text)  # so that the reason quotes the client's text
            pattern = java_pattern(f"(?:{text}).*")
            budget = MatchingBudget()
            return [table for table in tables if pattern.matches(table.name, budget)]
        except (PatternRefused, MatchTooLong) as error:
            raise _glue_refusal(f"Expression cannot be used: {error or 'too complex'}") from error

    backend.get_tables = get_tables_in_time


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
