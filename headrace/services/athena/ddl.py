"""Reads the statements that change or show the catalogue.

Source: docs.aws.amazon.com/athena/latest/ug/ddl-reference.html (documented).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import TokenError

from headrace.services.athena.statements import (
    CATALOG,
    Statement,
    StatementRefused,
    read_name,
    to_duckdb,
)

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


def parse_alter_words(words: Words, database: str) -> Statement:
    """Parse what Athena's ALTER TABLE does beside partitions and ADD COLUMNS. Raises StatementRefused."""
    if not words.skip("ALTER", "TABLE"):
        verb = words.peek()
        raise StatementRefused(f"NOT_SUPPORTED: headrace does not run {verb} in Athena")
    table = words.table(database)
    options: dict[str, Any] = {}
    if words.skip("DROP", "COLUMN"):
        action, options["column"] = "drop_column", words.take().lower()
    elif words.skip("CHANGE"):
        words.skip("COLUMN")
        action, options["column"] = "change_column", words.take().lower()
        options |= _changed_column(words)
    elif words.skip("RENAME", "TO"):
        action, options["to"] = "rename_table", words.table(table[0])
    elif words.skip("SET", "TBLPROPERTIES", "("):
        action, options["properties"] = "set_properties", dict[str, str]()
        while not words.skip(")"):
            name = words.take()
            words.skip("=")
            options["properties"][name] = words.take()
            words.skip(",")
    elif words.skip("UNSET", "TBLPROPERTIES", "("):
        action, options["names"] = "unset_properties", list[str]()
        while not words.skip(")"):
            options["names"].append(words.take())
            words.skip(",")
    else:
        raise StatementRefused(
            "NOT_SUPPORTED: of ALTER TABLE headrace runs ADD and DROP PARTITION, ADD COLUMNS, DROP and CHANGE COLUMN, "
            "RENAME TO, SET and UNSET TBLPROPERTIES in Athena"
        )
    words.end()
    return Statement(action, "DDL", f"ALTER_{action.upper()}", table, options=options)


def _changed_column(words: Words) -> dict[str, Any]:
    """Read what CHANGE COLUMN makes of a column: its name, type, comment and place."""
    column = {"Name": words.take().lower(), "Type": words.take().lower()}
    options: dict[str, Any] = {"to": column}
    while words.peek() and words.peek() not in ("COMMENT", "FIRST", "AFTER"):
        column["Type"] += words.take().lower()
    if words.skip("COMMENT"):
        column["Comment"] = words.take()
    options["is_first"] = words.skip("FIRST")
    options["after"] = words.take().lower() if words.skip("AFTER") else ""
    return options


def _assignments(tree: Any) -> dict[str, str]:
    values: dict[str, str] = {}
    for one in tree.expressions if isinstance(tree, exp.Partition) else [tree]:
        if not isinstance(one, exp.EQ):
            raise StatementRefused("FAILED: ParseException: a partition is named by key = value")
        values[one.this.name.lower()] = one.expression.name
    return values


# Statements that sqlglot keeps as text


class Words:
    """The tokens of a statement, read from the left."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            # With a word before it: sqlglot keeps what follows a command's word as one token.
            self.tokens = sqlglot.tokenize(f"x {text}", read="hive")[1:]
        except TokenError as error:
            raise StatementRefused(f"SYNTAX_ERROR: {error}") from error
        self.at = 0

    def peek(self) -> str:
        """Return the next word in upper case; empty at the end."""
        return self.tokens[self.at].text.upper() if self.at < len(self.tokens) else ""

    def take(self) -> str:
        """Read the next word. Raises StatementRefused at the end."""
        if self.at >= len(self.tokens):
            raise StatementRefused(f"line 1:{len(self.text) + 1}: mismatched input '<EOF>'")
        self.at += 1
        return str(self.tokens[self.at - 1].text)

    def skip(self, *words: str) -> bool:
        """Skip words if the text goes on with them."""
        ahead = [token.text.upper() for token in self.tokens[self.at : self.at + len(words)]]
        if ahead == list(words):
            self.at += len(words)
            return True
        return False

    def table(self, database: str) -> tuple[str, str]:
        """Read a table's name: its database and itself."""
        parts = [self.take()]
        while self.peek() == "." and len(parts) < 3:
            self.take()
            parts.append(self.take())
        if (len(parts) == 3 or not database) and len(parts) > 1 and parts[0].lower() != CATALOG:
            raise StatementRefused(f"CATALOG_NOT_FOUND: Catalog '{parts[0]}' not found")
        return ([database, *parts][-2]).lower(), parts[-1].lower()

    def rest(self) -> str:
        """Return the text that has not been read."""
        return self.text[self.tokens[self.at].start - 2 :] if self.at < len(self.tokens) else ""

    def end(self) -> None:
        """Refuse what follows. Raises StatementRefused."""
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            raise StatementRefused(
                f"line {token.line}:{token.col}: mismatched input '{token.text}'"
            )


def parse_show(words: Words, database: str) -> Statement:
    """Parse what follows SHOW. Raises StatementRefused."""
    what = words.take().upper()
    options: dict[str, Any] = {}
    if what in ("DATABASES", "SCHEMAS"):
        words.skip("LIKE")
        options["pattern"] = words.take() if words.peek() else ""
        words.end()
        return Statement("show_databases", "UTILITY", "SHOW_DATABASES", options=options)
    if what in ("TABLES", "VIEWS"):
        if words.skip("IN") or words.skip("FROM"):
            # A database's name, alone or behind the catalogue's, is read as a table's.
            database = words.table("")[1]
        words.skip("LIKE")
        options["pattern"] = words.take() if words.peek() else ""
        words.end()
        return Statement(
            f"show_{what.lower()}", "UTILITY", f"SHOW_{what}", (database, ""), options=options
        )
    if what == "CREATE":
        kind = words.take().upper()
        table = words.table(database)
        words.end()
        return Statement(
            "show_create", "UTILITY", f"SHOW_CREATE_{kind}", table, options={"kind": kind}
        )
    if what == "PARTITIONS":
        table = words.table(database)
        words.end()
        return Statement("show_partitions", "UTILITY", "SHOW_PARTITIONS", table)
    if what == "TBLPROPERTIES":
        table = words.table(database)
        options["property"] = words.take() if words.skip("(") else ""
        if options["property"] and not words.skip(")"):
            raise StatementRefused("FAILED: ParseException: SHOW TBLPROPERTIES names one property")
        words.end()
        return Statement(
            "show_properties", "UTILITY", "SHOW_TABLE_PROPERTIES", table, options=options
        )
    if what == "COLUMNS" and (words.skip("IN") or words.skip("FROM")):
        table = words.table(database)
        if words.skip("IN") or words.skip("FROM"):
            table = words.take().lower(), table[1]
        words.end()
        return Statement("show_columns", "UTILITY", "SHOW_COLUMNS", table)
    raise StatementRefused(f"NOT_SUPPORTED: headrace does not run SHOW {what} in Athena")


def parse_describe(words: Words, database: str) -> Statement:
    """Parse what follows DESCRIBE. Raises StatementRefused."""
    style = words.take().upper() if words.peek() in ("EXTENDED", "FORMATTED") else ""
    table = words.table(database)
    if words.skip("PARTITION", "("):  # which has its table's columns
        while words.take() != ")":
            pass
    column = words.take().lower() if words.peek() else ""
    words.end()
    return Statement(
        "describe", "UTILITY", "DESCRIBE_TABLE", table, options={"style": style, "column": column}
    )


def find_added_partitions(words: Words, database: str) -> Statement | None:
    """Parse `ALTER TABLE name ADD [IF NOT EXISTS] PARTITION ...`; None for another statement."""
    if not words.skip("ALTER", "TABLE"):
        return None
    table = words.table(database)
    if not words.skip("ADD") or words.peek() not in ("IF", "PARTITION"):
        return None
    if_not_exists = words.skip("IF", "NOT", "EXISTS")
    partitions: list[dict[str, Any]] = []
    while words.skip("PARTITION", "("):
        values: dict[str, str] = {}
        while not words.skip(")"):
            key = words.take().lower()
            if not words.skip("="):
                raise StatementRefused(
                    "FAILED: ParseException: a partition is named by key = value"
                )
            sign = words.take() if words.peek() == "-" else ""
            values[key] = sign + words.take()
            words.skip(",")
        location = words.take() if words.skip("LOCATION") else ""
        partitions.append({"values": values, "location": location})
    words.end()
    if not partitions:
        raise StatementRefused(
            "FAILED: ParseException: ADD needs PARTITION (key = value, ...) or COLUMNS (...)"
        )
    return Statement(
        "add_partitions", "DDL", "ALTER_TABLE_ADD_PARTITION", table,
        options={"partitions": partitions, "if_not_exists": if_not_exists},
    )  # fmt: skip
