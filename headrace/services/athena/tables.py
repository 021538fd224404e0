"""Makes a table of Glue's catalogue a view or a table of DuckDB: Parquet, ORC, JSON, text, CSV and Iceberg.

It runs in the child process of `headrace.services.athena.child` alone. Parquet files are read by DuckDB when the query
asks for them; what DuckDB reads otherwise than Athena is read here, by SerDe, and stored in DuckDB.
Source: docs.aws.amazon.com/athena/latest/ug/supported-serdes.html and serde-about.html (documented).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from headrace.services.athena.hive_types import HiveType, information_name, literal, quote
from headrace.services.athena.serdes import read_rows
from headrace.services.athena.statements import (
    CATALOG,
    OWN_INFORMATION,
    PATH,
    WITH_PATH,
    StatementRefused,
    Table,
    read_scalar,
)

ROWS_AT_ONCE = 50_000
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def define(
    connection: duckdb.DuckDBPyConnection, table: Table, open_iceberg: Callable[[Table], Any]
) -> None:
    """Define a table in DuckDB, under its database. Raises StatementRefused.

    `open_iceberg` returns pyiceberg's table, or raises StatementRefused.
    """
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(table.database)}")
    kind = table.format
    if kind != "iceberg" and table.part:
        base = table.name.partition("$")[0]
        raise StatementRefused(
            f"TABLE_NOT_FOUND: Table 'awsdatacatalog.{table.database}.{table.name}' does not exist"
            if "=" not in table.part
            else f"NOT_SUPPORTED: The table {base} has no versions: Iceberg tables have"
        )
    if kind == "parquet":
        _define_parquet(connection, table)
        return
    if kind == "iceberg":
        table.stored = open_iceberg(table)
        if table.part and "=" not in table.part:
            _define_metadata(connection, table)
            return
        batches = _iceberg_batches(connection, table)
    else:
        batches = (_orc_batches if kind == "orc" else _row_batches)(table)
    schema = pa.schema([(name, hive.to_arrow()) for name, hive in [*table.columns, *table.keys]])
    schema = schema.append(pa.field(PATH, pa.string()))
    refusals: list[StatementRefused] = []
    kept = _keep_refusal(batches, refusals)
    connection.register("_batches", pa.RecordBatchReader.from_batches(schema, kept))
    try:
        connection.execute(f"CREATE TABLE {_name_with_path(table)} AS SELECT * FROM _batches")
    except duckdb.Error:
        if refusals:
            raise refusals[0] from None
        raise
    connection.unregister("_batches")
    connection.execute(
        f"CREATE VIEW {_full_name(table)} AS SELECT * EXCLUDE ({quote(PATH)}) FROM {_name_with_path(table)}"
    )


def _keep_refusal(
    batches: Iterator[pa.RecordBatch], refusals: list[StatementRefused]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches; keep a refusal, of which DuckDB makes an error of its own."""
    try:
        yield from batches
    except StatementRefused as refusal:
        refusals.append(refusal)
        raise


def _full_name(table: Table) -> str:
    return f"{quote(table.database)}.{quote(table.name)}"


def _name_with_path(table: Table) -> str:
    return f"{quote(table.database)}.{quote(table.name + WITH_PATH)}"


def define_information(
    connection: duckdb.DuckDBPyConnection, databases: Sequence[Mapping[str, Any]]
) -> None:
    """Define the tables of `information_schema`: schemata, tables and columns."""
    rows: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {
        "schemata": (("catalog_name", "schema_name"), []),
        "tables": (("table_catalog", "table_schema", "table_name", "table_type"), []),
        "columns": (
            (
                "table_catalog", "table_schema", "table_name", "column_name", "ordinal_position", "column_default",
                "is_nullable", "data_type", "comment", "extra_info",
            ),
            [],
        ),
    }  # fmt: skip
    for database in databases:
        schema = (CATALOG, database["name"])
        rows["schemata"][1].append(schema)
        for table in database["tables"]:
            rows["tables"][1].append((*schema, table["name"], table["kind"]))
            for number, (name, kind) in enumerate(table["columns"], 1):
                extra = "partition key" if name in table["keys"] else None
                rows["columns"][1].append(
                    (
                        *schema,
                        table["name"],
                        name,
                        number,
                        None,
                        "YES",
                        information_name(kind),
                        None,
                        extra,
                    )
                )
    connection.execute(f"CREATE SCHEMA {quote(OWN_INFORMATION)}")
    for name, (columns, values) in rows.items():
        kinds = [pa.int64() if column == "ordinal_position" else pa.string() for column in columns]
        arrays = [pa.array([row[i] for row in values], kind) for i, kind in enumerate(kinds)]
        connection.register("_rows", pa.table(arrays, names=list(columns)))
        connection.execute(f"CREATE TABLE {quote(OWN_INFORMATION)}.{name} AS SELECT * FROM _rows")
        connection.unregister("_rows")


# Parquet


def _define_parquet(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    if not table.files:
        columns = [*table.columns, *table.keys, (PATH, HiveType("string"))]
        nulls = ", ".join(f"CAST(NULL AS {hive.duckdb}) AS {quote(name)}" for name, hive in columns)
        connection.execute(f"CREATE VIEW {_name_with_path(table)} AS SELECT {nulls} WHERE false")
    else:
        connection.execute(
            f"CREATE VIEW {_name_with_path(table)} AS {_parquet_query(connection, table)}"
        )
    connection.execute(
        f"CREATE VIEW {_full_name(table)} AS SELECT * EXCLUDE ({quote(PATH)}) FROM {_name_with_path(table)}"
    )


def _parquet_query(connection: duckdb.DuckDBPyConnection, table: Table) -> str:
    paths = ", ".join(literal(file["path"]) for file in table.files)
    read = f"read_parquet([{paths}], union_by_name=true, filename='$file', hive_partitioning=false)"
    there = {
        str(row[0]).lower(): str(row[0])
        for row in connection.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()
    }
    parts = [
        f"CAST({'data.' + quote(there[name]) if name in there else 'NULL'} AS {hive.duckdb}) AS {quote(name)}"
        for name, hive in table.columns
    ]
    # Which partition a file is of stands in a table beside it: a partition's values need not stand in its path.
    files = f"{quote(table.database)}.{quote(f'{table.name}$files')}"
    keys = [(name, hive, f"key{number}") for number, (name, hive) in enumerate(table.keys)]
    of_file: dict[str, Any] = {
        "path": [file["path"] for file in table.files],
        "uri": [file["uri"] for file in table.files],
    }
    for number, (_, _, column) in enumerate(keys):
        of_file[column] = pa.array(
            [_key(file["values"][number]) for file in table.files], pa.string()
        )
    connection.register("_files", pa.table(of_file))
    connection.execute(f"CREATE TABLE {files} AS SELECT * FROM _files")
    connection.unregister("_files")
    parts += [
        f"CAST(files.{column} AS {hive.duckdb}) AS {quote(name)}" for name, hive, column in keys
    ]
    parts.append(f"files.uri AS {quote(PATH)}")
    return f'SELECT {", ".join(parts)} FROM {read} AS data JOIN {files} AS files ON data."$file" = files.path'


def _key(value: str) -> str | None:
    return None if value == NULL_PARTITION else value


# Files that are read here


def _batch(
    table: Table, file: Mapping[str, Any], columns: list[Any], length: int
) -> pa.RecordBatch:
    names = [name for name, _ in [*table.columns, *table.keys]]
    for (_, hive), value in zip(table.keys, file["values"], strict=True):
        text = _key(value)
        item = None if text is None else read_scalar(hive, text)
        columns.append(pa.array([item] * length, hive.to_arrow()))
    columns.append(pa.array([file["uri"]] * length, pa.string()))
    return pa.RecordBatch.from_arrays(columns, [*names, PATH])


def _row_batches(table: Table) -> Iterator[pa.RecordBatch]:
    kinds = [hive.to_arrow() for _, hive in table.columns]
    for file in table.files:
        rows: list[Sequence[Any]] = []

        def pack(rows: list[Sequence[Any]], file: Mapping[str, Any] = file) -> pa.RecordBatch:
            columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
            return _batch(table, file, columns, len(rows))

        try:
            for row in read_rows(table, file):
                rows.append(row)
                if len(rows) == ROWS_AT_ONCE:
                    yield pack(rows)
                    rows = []
            if rows:
                yield pack(rows)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as error:
            raise StatementRefused(
                f"HIVE_BAD_DATA: Error reading {file['uri']}: {error}"
            ) from error


# ORC and Iceberg


def _orc_batches(table: Table) -> Iterator[pa.RecordBatch]:
    from pyarrow import orc

    for file in table.files:
        try:
            stored = orc.ORCFile(file["path"])
            for number in range(stored.nstripes):
                stripe = stored.read_stripe(number)
                yield _batch(table, file, _cast_columns(table, stripe), stripe.num_rows)
        except pa.ArrowException as error:
            raise StatementRefused(
                f"HIVE_CANNOT_OPEN_SPLIT: Error reading {file['uri']}: {error}"
            ) from error


def _cast_columns(table: Table, batch: Any) -> list[Any]:
    at = {name.lower(): number for number, name in enumerate(batch.schema.names)}
    return [
        batch.column(at[name]).cast(hive.to_arrow())
        if name in at
        else pa.nulls(batch.num_rows, hive.to_arrow())
        for name, hive in table.columns
    ]


def _iceberg_batches(
    connection: duckdb.DuckDBPyConnection, table: Table
) -> Iterator[pa.RecordBatch]:
    """Return the rows of the version that a query names; the table's columns become those of that version."""
    from headrace.services.athena import iceberg

    snapshot_id = None
    if table.part:
        kind, _, expression = table.part.partition("=")
        if kind == "timestamp":  # as a number, which no time zone of the machine changes
            expression = f"epoch_us(CAST({expression} AS TIMESTAMPTZ))"
        ((value,),) = connection.execute(f"SELECT {expression}").fetchall()
        snapshot_id = iceberg.find_snapshot(table.stored, kind, value)
    schema, batches = iceberg.read(table.stored, snapshot_id)
    table.columns, table.keys = iceberg.columns_of(schema), []

    def pack() -> Iterator[pa.RecordBatch]:
        uri = ""
        for batch, of in batches:
            if of.file_path != uri:
                uri = of.file_path
                table.read_bytes += of.file_size_in_bytes
            file = {"values": [], "uri": uri}
            yield _batch(table, file, _cast_columns(table, batch), batch.num_rows)

    return pack()


def _define_metadata(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Define what an Iceberg table says of itself: `"t$files"` and so on. Raises StatementRefused."""
    from headrace.services.athena.iceberg_metadata import METADATA_TABLES

    inspect = METADATA_TABLES.get(table.part)
    if inspect is None:
        raise StatementRefused(
            f"TABLE_NOT_FOUND: Table 'awsdatacatalog.{table.database}.{table.name}' does not exist"
        )
    connection.register("_rows", inspect(table.stored))
    connection.execute(f"CREATE TABLE {_full_name(table)} AS SELECT * FROM _rows")
    connection.unregister("_rows")
