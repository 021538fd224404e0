"""Runs the statements that change or show Glue's catalogue.

Source: docs.aws.amazon.com/athena/latest/ug/ddl-reference.html (documented); the sentences of refusals are those of
Hive and Trino where they are known, else assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from headrace.aws.calls.errors import AwsError
from headrace.core.patterns import glob_matches
from headrace.core.ports import BucketNotFound
from headrace.services.athena.catalog import Catalog
from headrace.services.athena.hive_types import (
    TABLE_EXISTS,
    VIEW_MARK,
    CatalogRefused,
    NoHiveType,
    input_of,
    is_iceberg,
    parse_type,
    split_location,
    view_query,
)
from headrace.services.athena.iceberg_tables import IcebergTables, create_lines, read_parts
from headrace.services.athena.projection import ProjectionRefused
from headrace.services.athena.table_text import (
    HEADING,
    create_hive_lines,
    described_line,
    detail_lines,
)

_FAILED = "FAILED: Execution Error, return code 1 from org.apache.hadoop.hive.ql.exec.DDLTask. "


@dataclass(frozen=True, slots=True)
class Shown:
    """What a statement on the catalogue answers: its columns' names, and its lines."""

    columns: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


class CatalogStatements:
    """The statements on one account's catalogue in a region. Thread-safe, as the catalogue is."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._iceberg = IcebergTables(catalog)

    def act(self, statement: Mapping[str, Any]) -> Shown:
        """Run a statement, as `Statement.to_dict` has it. Raises CatalogRefused, AwsError."""
        acts: dict[str, Callable[[Mapping[str, Any]], Shown]] = {
            "create_database": self._create_database,
            "drop_database": self._drop_database,
            "create_table": self._create_table,
            "drop_table": self._drop_table,
            "create_view": self._create_view,
            "drop_view": self._drop_view,
            "add_partitions": self._add_named_partitions,
            "drop_partitions": self._drop_partitions,
            "add_columns": self._add_columns,
            "drop_column": self._refuse_hive,
            "change_column": self._refuse_hive,
            "set_properties": self._alter_properties,
            "unset_properties": self._alter_properties,
            "rename_table": self._rename_table,
            "altered": lambda _: Shown(),  # the query's process has committed it
            "nothing": lambda _: Shown(),  # a prepared statement is kept or dropped before
            "repair": self._repair,
            "show_databases": self._show_databases,
            "show_tables": self._show_tables,
            "show_views": self._show_tables,
            "show_partitions": self._show_partitions,
            "show_columns": self._show_columns,
            "show_properties": self._show_properties,
            "show_create": self._show_create,
            "describe": self._describe_table,
        }
        try:
            return acts[str(statement["action"])](statement)
        except (NoHiveType, ProjectionRefused) as error:
            raise CatalogRefused(f"FAILED: SemanticException {error}") from error
        except BucketNotFound as error:
            raise CatalogRefused(
                f"{_FAILED}MetaException: the location's bucket does not exist"
            ) from error

    def _create_database(self, statement: Mapping[str, Any]) -> Shown:
        name, options = statement["table"][1], statement["options"]
        database = {"Name": name}
        if "location" in options:
            database["LocationUri"] = options["location"]
        if "comment" in options:
            database["Description"] = options["comment"]
        try:
            self._catalog.call("CreateDatabase", DatabaseInput=database)
        except AwsError as error:
            if error.code != "AlreadyExistsException":
                raise
            if not options["if_not_exists"]:
                raise CatalogRefused(f"{_FAILED}Database {name} already exists") from error
        return Shown()

    def _drop_database(self, statement: Mapping[str, Any]) -> Shown:
        name, options = statement["table"][1], statement["options"]
        try:
            tables = list(self._catalog.pages("GetTables", "TableList", DatabaseName=name))
        except AwsError as error:
            if error.code != "EntityNotFoundException":
                raise
            if options["if_exists"]:
                return Shown()
            raise CatalogRefused(
                f"FAILED: SemanticException [Error 10072]: Database does not exist: {name}"
            ) from error
        if tables and not options["cascade"]:
            raise CatalogRefused(
                f"{_FAILED}InvalidOperationException(message:Database {name} is not empty. One or more tables exist.)"
            )
        self._catalog.call("DeleteDatabase", Name=name)
        return Shown()

    def _create_table(self, statement: Mapping[str, Any]) -> Shown:
        database, name = statement["table"]
        table = {**statement["options"]["table"], "Name": name}
        try:
            self._catalog.check_new(database, name)
        except CatalogRefused as error:
            if not str(error).startswith(TABLE_EXISTS):
                raise
            if statement["options"]["if_not_exists"]:
                return Shown()
            raise CatalogRefused(
                f"{_FAILED}AlreadyExistsException(message:Table {name} already exists.)"
            ) from error
        split_location(table["StorageDescriptor"]["Location"])
        for column in [*table["StorageDescriptor"]["Columns"], *table["PartitionKeys"]]:
            if column["Type"]:
                parse_type(column["Type"])
        made = table.pop("iceberg", None)
        if made is not None:
            table["properties"] = made["properties"]
            self._iceberg.create(database, table, made["partitions"])
            return Shown()
        self._catalog.call("CreateTable", DatabaseName=database, TableInput=table)
        return Shown()

    def _drop_table(self, statement: Mapping[str, Any]) -> Shown:
        return self._drop(statement, "TABLE")

    def _drop_view(self, statement: Mapping[str, Any]) -> Shown:
        return self._drop(statement, "VIEW")

    def _drop(self, statement: Mapping[str, Any], kind: str) -> Shown:
        database, name = statement["table"]
        try:
            table = self._catalog.table(database, name)
        except CatalogRefused:
            if statement["options"]["if_exists"]:
                return Shown()
            raise
        if (table.get("TableType") == "VIRTUAL_VIEW") is not (kind == "VIEW"):
            what = "a view" if kind == "TABLE" else "a table"
            raise CatalogRefused(
                f"FAILED: SemanticException [Error 10018]: Cannot drop {what} with DROP {kind}"
            )
        self._catalog.call("DeleteTable", DatabaseName=database, Name=name)
        if is_iceberg(table):
            # Documented: such a table is managed, and its files go with it.
            bucket, prefix = split_location(table["StorageDescriptor"]["Location"])
            for folder in ("data/", "metadata/"):
                files = list(self._catalog.list_objects(bucket, prefix + folder))
                self._catalog.delete_objects([f"s3://{bucket}/{one.key}" for one in files])
        return Shown()

    def _create_view(self, statement: Mapping[str, Any]) -> Shown:
        database, name = statement["table"]
        view = {
            "originalSql": statement["sql"],
            "catalog": "awsdatacatalog",
            # That of the names in the query which have none.
            "schema": statement["options"]["database"],
        }
        text = base64.b64encode(json.dumps(view).encode()).decode()
        table = {
            "Name": name,
            "TableType": "VIRTUAL_VIEW",
            "ViewOriginalText": f"{VIEW_MARK}{text} */",
            "ViewExpandedText": "/* Presto View */",
            "Parameters": {"presto_view": "true", "comment": "Presto View"},
            "PartitionKeys": [],
            "StorageDescriptor": {"Columns": [], "Location": "", "SerdeInfo": {}},
        }
        try:
            there = self._catalog.table(database, name)
        except CatalogRefused as error:
            if not str(error).startswith("TABLE_NOT_FOUND"):
                raise
            self._catalog.call("CreateTable", DatabaseName=database, TableInput=table)
            return Shown()
        if not statement["options"]["replace"] or there.get("TableType") != "VIRTUAL_VIEW":
            raise CatalogRefused(f"View already exists: 'awsdatacatalog.{database}.{name}'")
        self._catalog.call("UpdateTable", DatabaseName=database, TableInput=table)
        return Shown()

    def _add_columns(self, statement: Mapping[str, Any]) -> Shown:
        database, name = statement["table"]
        table = self._catalog.table(database, name)
        columns = statement["options"]["columns"]
        for column in columns:
            parse_type(column["Type"])
        storage = table["StorageDescriptor"]
        names = {
            column["Name"].lower()
            for column in [*storage["Columns"], *table.get("PartitionKeys", [])]
        }
        twice = next((column["Name"] for column in columns if column["Name"] in names), None)
        if twice is not None:
            raise CatalogRefused(f"{_FAILED}Duplicate column name: {twice}")
        changed = input_of(table)
        changed["StorageDescriptor"] = {**storage, "Columns": [*storage["Columns"], *columns]}
        self._catalog.call("UpdateTable", DatabaseName=database, TableInput=changed)
        return Shown()

    def _alter_properties(self, statement: Mapping[str, Any]) -> Shown:
        database, name = statement["table"]
        table = self._catalog.table(database, name)
        parameters = {
            **(table.get("Parameters") or {}),
            **statement["options"].get("properties", {}),
        }
        for removed in statement["options"].get("names", ()):
            parameters.pop(removed, None)
        changed = {**input_of(table), "Parameters": parameters}
        self._catalog.call("UpdateTable", DatabaseName=database, TableInput=changed)
        return Shown()

    def _rename_table(self, statement: Mapping[str, Any]) -> Shown:
        """Give an Iceberg table another name; its files stay where they are."""
        database, name = statement["table"]
        table = self._catalog.table(database, name)
        if not is_iceberg(table):
            raise CatalogRefused("NOT_SUPPORTED: Athena renames Iceberg tables alone")
        new_database, new_name = statement["options"]["to"]
        self._catalog.check_new(new_database, new_name)
        renamed = {**input_of(table), "Name": new_name}
        self._catalog.call("CreateTable", DatabaseName=new_database, TableInput=renamed)
        self._catalog.call("DeleteTable", DatabaseName=database, Name=name)
        return Shown()

    def _refuse_hive(self, statement: Mapping[str, Any]) -> Shown:
        what = str(statement["action"]).upper().replace("_", " ")
        raise CatalogRefused(
            f"NOT_SUPPORTED: headrace runs ALTER TABLE {what} on Iceberg tables alone"
        )

    # Partitions

    def _keys(self, table: Mapping[str, Any]) -> list[str]:
        keys = [key["Name"].lower() for key in table.get("PartitionKeys") or []]
        if not keys:
            raise CatalogRefused(
                f"FAILED: SemanticException [Error 10241]: Table {table['Name']} is not a partitioned table"
            )
        return keys

    def _values(self, keys: Sequence[str], named: Mapping[str, str]) -> list[str]:
        if set(named) != set(keys):
            raise CatalogRefused(
                f"FAILED: SemanticException [Error 10006]: a partition is named by {', '.join(keys)}"
            )
        return [named[key] for key in keys]

    def _add_named_partitions(self, statement: Mapping[str, Any]) -> Shown:
        table = self._catalog.table(*statement["table"])
        keys = self._keys(table)
        root = table["StorageDescriptor"]["Location"].rstrip("/")
        partitions: list[tuple[list[str], str]] = []
        for one in statement["options"]["partitions"]:
            values = self._values(keys, one["values"])
            folder = "/".join(
                f"{key}={quote(value, safe=' ')}" for key, value in zip(keys, values, strict=True)
            )
            partitions.append((values, one["location"] or f"{root}/{folder}"))
        self._catalog.add_partitions(
            table, partitions, if_not_exists=bool(statement["options"]["if_not_exists"])
        )
        return Shown()

    def _drop_partitions(self, statement: Mapping[str, Any]) -> Shown:
        table = self._catalog.table(*statement["table"])
        keys = self._keys(table)
        known = [[str(value) for value in one["Values"]] for one in self._catalog.partitions(table)]
        for named in statement["options"]["partitions"]:
            unknown = next((key for key in named if key not in keys), None)
            if unknown is not None:
                raise CatalogRefused(
                    f"FAILED: SemanticException [Error 10006]: Partition not found ({unknown})"
                )
            chosen = [
                values
                for values in known
                if all(values[keys.index(key)] == value for key, value in named.items())
            ]
            if not chosen and not statement["options"]["if_exists"]:
                raise CatalogRefused(
                    f"FAILED: SemanticException [Error 10006]: Partition not found {named}"
                )
            for values in chosen:
                self._catalog.call(
                    "DeletePartition",
                    DatabaseName=table["DatabaseName"],
                    TableName=table["Name"],
                    PartitionValues=values,
                )
        return Shown()

    def _repair(self, statement: Mapping[str, Any]) -> Shown:
        """Add the partitions whose folders have Hive's form, `key=value`, and are not in the catalogue."""
        table = self._catalog.table(*statement["table"])
        keys = self._keys(table)
        root = table["StorageDescriptor"]["Location"].rstrip("/")
        bucket, prefix = split_location(root)
        folders: dict[str, list[str]] = {}
        for info in self._catalog.list_objects(bucket, prefix):
            parts = info.key[len(prefix) :].split("/")[: len(keys)]
            pairs = [part.split("=", 1) for part in parts]
            if len(pairs) == len(keys) and all(
                len(pair) == 2 and pair[0].lower() == key
                for pair, key in zip(pairs, keys, strict=True)
            ):
                folders["/".join(parts)] = [unquote(pair[1]) for pair in pairs]
        there = [(values, f"{root}/{folder}") for folder, values in folders.items()]
        added = self._catalog.add_partitions(table, there, if_not_exists=True)
        names = [
            f"{table['Name']}:"
            + "/".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
            for values in added
        ]
        if not names:
            return Shown()
        missing = "Partitions not in metastore:\t" + "\t".join(names)
        return Shown(
            (), (missing, *(f"Repair: Added partition to metastore {name}" for name in names))
        )

    # What is shown

    def _show_databases(self, statement: Mapping[str, Any]) -> Shown:
        names = sorted(one["Name"] for one in self._catalog.pages("GetDatabases", "DatabaseList"))
        return Shown(("database_name",), _matching(names, statement))

    def _show_tables(self, statement: Mapping[str, Any]) -> Shown:
        database = statement["table"][0]
        try:
            tables = list(self._catalog.pages("GetTables", "TableList", DatabaseName=database))
        except AwsError as error:
            if error.code != "EntityNotFoundException":
                raise
            raise CatalogRefused(f"SCHEMA_NOT_FOUND: Schema '{database}' does not exist") from error
        is_views = statement["action"] == "show_views"
        names = sorted(
            one["Name"] for one in tables if not is_views or one.get("TableType") == "VIRTUAL_VIEW"
        )
        return Shown(("views" if is_views else "tab_name",), _matching(names, statement))

    def _show_partitions(self, statement: Mapping[str, Any]) -> Shown:
        table = self._catalog.table(*statement["table"])
        keys = self._keys(table)
        lines = sorted(
            "/".join(f"{key}={value}" for key, value in zip(keys, one["Values"], strict=True))
            for one in self._catalog.partitions(table)
        )
        return Shown(("partition",), tuple(lines))

    def _columns(self, table: Mapping[str, Any]) -> list[Mapping[str, str]]:
        storage: Mapping[str, Any] = table.get("StorageDescriptor") or {}
        return [*(storage.get("Columns") or []), *(table.get("PartitionKeys") or [])]

    def _show_columns(self, statement: Mapping[str, Any]) -> Shown:
        table = self._catalog.table(*statement["table"])
        return Shown(("field",), tuple(f"{column['Name']:<20}" for column in self._columns(table)))

    def _show_properties(self, statement: Mapping[str, Any]) -> Shown:
        table = self._catalog.table(*statement["table"])
        parameters: Mapping[str, str] = table.get("Parameters") or {}
        name = statement["options"]["property"]
        if name:
            missing = (
                f"Table {table['DatabaseName']}.{table['Name']} does not have property: {name}"
            )
            return Shown(("prpt_name",), (str(parameters.get(name, missing)),))
        lines = tuple(f"{name}\t{value}" for name, value in sorted(parameters.items()))
        return Shown(("prpt_name", "prpt_value"), lines)

    def _describe_table(self, statement: Mapping[str, Any]) -> Shown:
        table = self._catalog.table(*statement["table"])
        if is_iceberg(table) and not statement["options"]["column"]:
            rows = [
                (one["Name"], one["Type"], one.get("Comment", "")) for one in self._columns(table)
            ]
            parts = read_parts(self._iceberg.read_metadata(table))
            lines = [
                "# Table schema:\t\t", "# col_name\tdata_type\tcomment", *("\t".join(row) for row in rows),
                "\t\t", "# Partition spec:\t\t", "# field_name\tfield_transform\tcolumn_name",
                *("\t".join(part) for part in parts),
            ]  # fmt: skip
            return Shown(("col_name", "data_type", "comment"), tuple(lines))
        name, style = statement["options"]["column"], statement["options"]["style"]
        columns = self._columns(table)
        if name:
            columns = [column for column in columns if column["Name"].lower() == name]
            if not columns:
                raise CatalogRefused(f"{_FAILED}Invalid column reference {name}")
        lines = [described_line(column) for column in columns]
        if style == "FORMATTED":
            lines = [described_line(HEADING), "\t \t ", *lines]
        if table.get("PartitionKeys") and not name:
            lines += [
                "\t \t ", "# Partition Information\t \t ",
                described_line(HEADING), "\t \t ",
                *(described_line(key) for key in table["PartitionKeys"]),
            ]  # fmt: skip
        if style and not name:
            lines += ["\t \t ", *detail_lines(table, is_formatted=style == "FORMATTED")]
        return Shown(("col_name", "data_type", "comment"), tuple(lines))

    def _show_create(self, statement: Mapping[str, Any]) -> Shown:
        table = self._catalog.table(*statement["table"])
        name = f"{table['DatabaseName']}.{table['Name']}"
        if table.get("TableType") == "VIRTUAL_VIEW":
            return Shown(
                ("Create View",),
                (f"CREATE VIEW {name} AS", *view_query(table)["view"].splitlines()),
            )
        if statement["options"]["kind"] == "VIEW":
            raise CatalogRefused(f"Relation '{name}' is a table, not a view")
        if is_iceberg(table):
            lines = create_lines(table, name, self._iceberg.read_metadata(table))
            return Shown(("createtab_stmt",), tuple(lines))
        return Shown(("createtab_stmt",), tuple(create_hive_lines(table, name)))


def _matching(names: Sequence[str], statement: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names that match a statement's pattern: stars, and alternatives between bars."""
    patterns = str(statement["options"].get("pattern") or "*").lower().split("|")
    return tuple(
        name for name in names if any(glob_matches(pattern, name.lower()) for pattern in patterns)
    )
