"""Reads the statements that change or show the catalogue.

Source: docs.aws.amazon.com/athena/latest/ug/ddl-reference.html (documented).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlglot import exp

from headrace.services.athena.statements import (
    Statement,
    StatementRefused,
    read_name,
    to_duckdb,
)
from headrace.services.athena.words import Words, find_added_partitions, parse_alter_words

# The classes of files that STORED AS names.
_INPUT_FORMATS = {
    "PARQUET": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "ORC": "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
}
_SERDES = {
    "PARQUET": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    "ORC": "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
    "JSON": "org.openx.data.jsonserde.JsonSerDe",
    "TEXTFILE": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
}
TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"


def _properties(tree: Any) -> list[Any]:
    properties = tree.args.get("properties")
    return list(properties.expressions) if properties is not None else []


def parse_create(tree: Any, database: str) -> Statement:
    """Parse CREATE of a database, a table or a view. Raises StatementRefused."""
    kind = str(tree.kind).upper()
    exists = bool(tree.args.get("exists"))
    if kind in ("DATABASE", "SCHEMA"):
        options: dict[str, Any] = {"if_not_exists": exists}
        for one in _properties(tree):
            if isinstance(one, exp.LocationProperty):
                options["location"] = one.this.name
            if isinstance(one, exp.SchemaCommentProperty):
                options["comment"] = one.this.name
        return Statement(
            "create_database",
            "DDL",
            "CREATE_DATABASE",
            ("", tree.this.name.lower() or tree.this.db.lower()),
            options=options,
        )
    if kind == "VIEW":
        view = tree.expression.sql("athena")
        to_duckdb(tree.expression.copy(), database)  # it must be a query that can run
        return Statement(
            "create_view", "DDL", "CREATE_VIEW", read_name(tree.this, database), view,
            options={"replace": bool(tree.args.get("replace")), "database": database},
        )  # fmt: skip
    if kind != "TABLE":
        raise StatementRefused(f"NOT_SUPPORTED: headrace does not run CREATE {kind} in Athena")
    if tree.expression is not None:
        return _parse_create_as(tree, database)
    return Statement(
        "create_table", "DDL", "CREATE_TABLE", read_name(tree.this, database),
        options={"if_not_exists": exists, "table": _table_input(tree)},
    )  # fmt: skip


def _parse_create_as(tree: Any, database: str) -> Statement:
    options: dict[str, Any] = {"if_not_exists": bool(tree.args.get("exists"))}
    is_empty = False
    for one in _properties(tree):
        if isinstance(one, exp.PartitionedByProperty):
            options["partitioned_by"] = [item.name.lower() for item in one.this.expressions]
        elif isinstance(one, exp.FileFormatProperty):
            options["format"] = str(one.this.name).upper()
        elif isinstance(one, exp.LocationProperty):
            options["location"] = one.this.name
        elif isinstance(one, exp.WithDataProperty):
            is_empty = bool(one.args.get("no"))
        elif isinstance(one, exp.Property):
            value = one.args["value"]
            items = (
                [item.name for item in value.expressions] if isinstance(value, exp.Array) else None
            )
            text = str(value.this).lower() if isinstance(value, exp.Boolean) else value.name
            options[one.name.lower()] = text if items is None else items
    if str(options.get("table_type", "HIVE")).upper() == "ICEBERG":
        options["iceberg"] = _iceberg_options(options)
    else:
        refuse_unknown(options, _OF_HIVE, "table")
        options.setdefault("external_location", options.get("location"))
    sql, tables = to_duckdb(tree.expression, database)
    if is_empty:
        sql = f"SELECT * FROM ({sql}) AS data LIMIT 0"
    return Statement(
        "create_table_as",
        "DDL",
        "CREATE_TABLE_AS_SELECT",
        read_name(tree.this, database),
        sql,
        tables,
        options,
    )


# What CREATE TABLE AS says of a Hive table (documented: create-table-as.html); `compression_level` has no effect.
_OF_HIVE = {
    "if_not_exists", "table_type", "is_external", "external_location", "location", "format", "partitioned_by",
    "field_delimiter", "write_compression", "parquet_compression", "orc_compression", "compression_level",
}  # fmt: skip


def refuse_unknown(options: Mapping[str, Any], known: Collection[str], of: str) -> None:
    """Refuse a property that a statement does not have; the words are Trino's. Raises StatementRefused."""
    for name in options:
        if name in ("bucketed_by", "bucket_count"):
            raise StatementRefused(
                "NOT_SUPPORTED: headrace does not write buckets in Athena: leave out bucketed_by and bucket_count"
            )
        if name not in known:
            raise StatementRefused(
                f"INVALID_TABLE_PROPERTY: Catalog 'awsdatacatalog' {of} property '{name}' does not exist"
            )


# What CREATE TABLE AS says of an Iceberg table beside its properties.
_OF_CREATE_AS = (
    "location",
    "external_location",
    "partitioning",
    "partitioned_by",
    "is_external",
    "if_not_exists",
)


def _iceberg_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the location, the partitions and the properties of an Iceberg table. Raises StatementRefused."""
    if str(options.get("is_external", "true")).lower() != "false":
        raise StatementRefused(
            "INVALID_TABLE_PROPERTY: Iceberg tables need is_external = false in CREATE TABLE AS"
        )
    if not options.get("location"):
        raise StatementRefused(
            "INVALID_TABLE_PROPERTY: Iceberg tables need the property location in CREATE TABLE AS"
        )
    if options.get("partitioned_by") or options.get("external_location"):
        raise StatementRefused(
            "INVALID_TABLE_PROPERTY: Iceberg tables take partitioning and location, and neither partitioned_by "
            "nor external_location"
        )
    named = {name: value for name, value in options.items() if name not in _OF_CREATE_AS}
    return {
        "location": options["location"],
        "partitions": [read_partition(text) for text in options.get("partitioning", [])],
        "properties": iceberg_properties(named),
    }


def _columns(schema: Any) -> list[dict[str, str]]:
    columns: list[dict[str, str]] = []
    for one in schema.expressions:
        if not isinstance(one, exp.ColumnDef):
            raise StatementRefused(f"FAILED: ParseException: {one.sql('hive')} is no column")
        column = {"Name": one.name.lower(), "Type": _type(one.kind)}
        for constraint in one.constraints:
            if isinstance(constraint.kind, exp.CommentColumnConstraint):
                column["Comment"] = constraint.kind.this.name
        columns.append(column)
    return columns


def _type(kind: Any) -> str:
    if kind is None:
        raise StatementRefused("FAILED: ParseException: a column has no type")
    return str(kind.sql("hive")).replace(": ", ":").replace(", ", ",").lower()


def _table_input(tree: Any) -> dict[str, Any]:
    """Return Glue's TableInput of a CREATE EXTERNAL TABLE, without its name."""
    parameters: dict[str, str] = {"EXTERNAL": "TRUE"}
    serde: dict[str, Any] = {
        "SerializationLibrary": _SERDES["TEXTFILE"],
        "Parameters": {"serialization.format": "1"},
    }
    storage: dict[str, Any] = {
        "InputFormat": TEXT_INPUT,
        "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        "SerdeInfo": serde,
        "Columns": _columns(tree.this) if isinstance(tree.this, exp.Schema) else [],
    }
    table: dict[str, Any] = {
        "TableType": "EXTERNAL_TABLE",
        "StorageDescriptor": storage,
        "PartitionKeys": [],
        "Parameters": parameters,
    }
    is_external = False
    for one in _properties(tree):
        if isinstance(one, exp.ExternalProperty):
            is_external = True
        elif isinstance(one, exp.LocationProperty):
            storage["Location"] = one.this.name
        elif isinstance(one, exp.SchemaCommentProperty):
            table["Description"] = parameters["comment"] = one.this.name
        elif isinstance(one, exp.PartitionedByProperty):
            table["PartitionKeys"] = _partition_keys(one)
        elif isinstance(
            one,
            exp.RowFormatSerdeProperty | exp.RowFormatDelimitedProperty | exp.FileFormatProperty,
        ):
            _set_row_format(one, storage, serde)
        elif isinstance(one, exp.Property):
            parameters[one.name] = one.args["value"].name
    if parameters.get("table_type", "").upper() == "ICEBERG":
        if is_external:
            raise StatementRefused(
                "FAILED: SemanticException CREATE EXTERNAL TABLE is not supported for Iceberg tables: "
                "use CREATE TABLE"
            )
        parameters.pop("EXTERNAL")
        parameters.pop("comment", None)
        names = [column["Name"] for column in storage["Columns"]]
        table["iceberg"] = {
            "partitions": [
                read_partition(key["Name"], names) for key in table.pop("PartitionKeys")
            ],
            "properties": iceberg_properties(parameters),
        }
        table["PartitionKeys"] = []
    elif not is_external:
        raise StatementRefused(
            "FAILED: SemanticException [Error 10409]: CREATE TABLE without EXTERNAL is for Iceberg tables "
            "('table_type'='ICEBERG')"
        )
    if "Location" not in storage:
        raise StatementRefused("FAILED: ParseException: no viable alternative: LOCATION is missing")
    return table


def _set_row_format(one: Any, storage: dict[str, Any], serde: dict[str, Any]) -> None:
    """Apply ROW FORMAT or STORED AS."""
    settings: dict[str, str] = serde["Parameters"]
    if isinstance(one, exp.RowFormatSerdeProperty):
        serde["SerializationLibrary"] = one.this.name
        properties = one.args.get("serde_properties")
        for setting in properties.expressions if properties is not None else []:
            settings[setting.name] = setting.args["value"].name
    elif isinstance(one, exp.RowFormatDelimitedProperty):
        for argument, name in _DELIMITERS.items():
            if one.args.get(argument) is not None:
                settings[name] = _unescape(one.args[argument].name)
        if "field.delim" in settings:
            settings["serialization.format"] = settings["field.delim"]
    else:
        _set_format(one, storage, serde)


_DELIMITERS = {
    "fields": "field.delim",
    "escaped": "escape.delim",
    "collection_items": "collection.delim",
    "map_keys": "mapkey.delim",
    "lines": "line.delim",
    "null": "serialization.null.format",
}


def _unescape(text: str) -> str:
    r"""Read a delimiter: `\t`, or the octal number of a character, such as `\001`."""
    named = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}
    if text in named:
        return named[text]
    if len(text) == 4 and text.startswith("\\") and text[1:].isdecimal():
        return chr(int(text[1:], 8))
    return text


def _set_format(one: Any, storage: dict[str, Any], serde: dict[str, Any]) -> None:
    form = one.this
    if isinstance(form, exp.InputOutputFormat):
        storage["InputFormat"] = form.args["input_format"].name
        storage["OutputFormat"] = form.args["output_format"].name
        return
    name = str(form.name).upper()
    if name in _INPUT_FORMATS:
        storage["InputFormat"] = _INPUT_FORMATS[name]
        storage["OutputFormat"] = _INPUT_FORMATS[name].replace("InputFormat", "OutputFormat")
    if name in _SERDES and serde["SerializationLibrary"] == _SERDES["TEXTFILE"]:
        serde["SerializationLibrary"] = _SERDES[name]
    elif name not in _SERDES:
        raise StatementRefused(f"NOT_SUPPORTED: headrace does not read tables STORED AS {name}")


# Documented: querying-iceberg-creating-tables.html; the others are `format` and `write_compression`.
_OF_ICEBERG = {
    "optimize_rewrite_min_data_file_size_bytes", "optimize_rewrite_max_data_file_size_bytes",
    "optimize_rewrite_data_file_threshold", "optimize_rewrite_delete_file_threshold",
    "vacuum_min_snapshots_to_keep", "vacuum_max_snapshot_age_seconds", "vacuum_max_metadata_files_to_keep",
    "write_target_data_file_size_bytes",
}  # fmt: skip
_ICEBERG_CODECS = {
    "GZIP": "gzip", "ZSTD": "zstd", "SNAPPY": "snappy", "NONE": "uncompressed", "LZ4": "lz4",
    "UNCOMPRESSED": "uncompressed",
}  # fmt: skip
_TRANSFORM = re.compile(r"(year|month|day|hour|bucket|truncate|void)s?\(([^()]*)\)", re.IGNORECASE)


def iceberg_properties(named: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of an Iceberg table that a statement names, as its metadata has them.

    Raises StatementRefused.
    """
    properties: dict[str, str] = {}
    for name, value in named.items():
        key, text = name.lower(), str(value)
        if key == "table_type":
            continue
        if key == "format":
            if text.upper() != "PARQUET":
                raise StatementRefused(
                    f"NOT_SUPPORTED: headrace writes Iceberg tables as PARQUET, and not as {text}"
                )
            properties["write.format.default"] = "parquet"
        elif key == "write_compression":
            codec = _ICEBERG_CODECS.get(text.upper())
            if codec is None:
                raise StatementRefused(
                    f"INVALID_TABLE_PROPERTY: Unsupported compression codec: {text}"
                )
            properties["write.parquet.compression-codec"] = codec
        elif key in _OF_ICEBERG:
            properties[key] = text
        else:
            raise StatementRefused(f"Unsupported table property key: {name}")
    return properties


def read_partition(text: str, columns: Sequence[str] = ()) -> dict[str, str]:
    """Return the `column`, Iceberg's `transform` and the `name` of a partition's field. Raises StatementRefused.

    Args:
        text: a column, or `day(at)`, `bucket(16, id)` or `bucket(id, 16)`, and so on.
        columns: the table's; empty when they are not known.
    """
    text = text.strip()
    match = _TRANSFORM.fullmatch(text)
    kind, arguments = (match[1].lower(), match[2].split(",")) if match else ("identity", [text])
    parts = [part.strip().strip('`"').lower() for part in arguments]
    number = next((part for part in parts if part.isdecimal()), "")
    names = [part for part in parts if not part.isdecimal()]
    takes_number = kind in ("bucket", "truncate")
    if len(names) != 1 or len(parts) != 1 + takes_number or "(" in names[0]:
        raise StatementRefused(
            f"INVALID_TABLE_PROPERTY: Unable to parse partitioning value: {text}"
        )
    if columns and names[0] not in columns:
        raise StatementRefused(
            "INVALID_TABLE_PROPERTY: Unable to parse partitioning value: Cannot find source column: "
            f"{names[0]}"
        )
    suffix = {"identity": "", "truncate": "_trunc", "void": "_null"}.get(kind, f"_{kind}")
    return {
        "column": names[0],
        "transform": f"{kind}[{number}]" if takes_number else kind,
        "name": names[0] + suffix,
    }


def _partition_keys(one: Any) -> list[dict[str, str]]:
    keys = one.this.expressions if isinstance(one.this, exp.Schema) else []
    if all(isinstance(key, exp.ColumnDef) for key in keys):
        return _columns(one.this)
    # Iceberg's: columns and transforms of them.
    return [{"Name": key.sql("hive").lower(), "Type": ""} for key in keys]


def parse_drop(tree: Any, database: str) -> Statement:
    """Parse DROP of a database, a table or a view. Raises StatementRefused."""
    kind = str(tree.args["kind"]).upper()
    target = (tree.args.get("tables") or [tree.this])[0]
    options = {
        "if_exists": bool(tree.args.get("exists")),
        "cascade": bool(tree.args.get("cascade")),
    }
    if kind in ("DATABASE", "SCHEMA"):
        return Statement(
            "drop_database", "DDL", "DROP_DATABASE", ("", target.name.lower()), options=options
        )
    if kind not in ("TABLE", "VIEW"):
        raise StatementRefused(f"NOT_SUPPORTED: headrace does not run DROP {kind} in Athena")
    return Statement(
        f"drop_{kind.lower()}", "DDL", f"DROP_{kind}", read_name(target, database), options=options
    )


def parse_alter(tree: Any, text: str, database: str) -> Statement:
    """Parse ALTER TABLE. Raises StatementRefused."""
    added = find_added_partitions(Words(text), database)
    if added is not None:
        return added
    table = read_name(tree.this, database)
    actions = tree.args.get("actions") or []
    if actions and all(isinstance(action, exp.DropPartition) for action in actions):
        partitions = [_assignments(part) for action in actions for part in action.expressions]
        return Statement(
            "drop_partitions", "DDL", "ALTER_TABLE_DROP_PARTITION", table,
            options={"partitions": partitions, "if_exists": any(a.args.get("exists") for a in actions)},
        )  # fmt: skip
    if actions and all(isinstance(action, exp.ColumnDef | exp.Schema) for action in actions):
        columns = [
            column
            for action in actions
            for column in _columns(
                action if isinstance(action, exp.Schema) else exp.Schema(expressions=[action])
            )
        ]
        return Statement(
            "add_columns", "DDL", "ALTER_TABLE_ADD_COLUMNS", table, options={"columns": columns}
        )
    return parse_alter_words(Words(text), database)


def _assignments(tree: Any) -> dict[str, str]:
    values: dict[str, str] = {}
    for one in tree.expressions if isinstance(tree, exp.Partition) else [tree]:
        if not isinstance(one, exp.EQ):
            raise StatementRefused("FAILED: ParseException: a partition is named by key = value")
        values[one.this.name.lower()] = one.expression.name
    return values
