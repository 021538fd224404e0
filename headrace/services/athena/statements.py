"""A statement of Athena's as plain values, and a query as DuckDB's SQL.

It runs in the child process of `headrace.services.athena.child` alone, which bounds its time and memory.

A table of Glue's catalogue as the parent process describes it to a query's process.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from headrace.services.athena.functions import FunctionRefused, translate
from headrace.services.athena.hive_types import HiveType, parse_type

# The end of a SerDe's class -> how its files are read.
_FORMATS = {
    "ParquetHiveSerDe": "parquet",
    "OrcSerde": "orc",
    "JsonSerDe": "json",
    "LazySimpleSerDe": "text",
    "OpenCSVSerde": "csv",
}


class Table:
    """A table as the parent describes it.

    Attributes:
        columns: the names and types of its columns.
        keys: those of its partition keys.
        files: its objects: `path` in this machine's file system, `uri` in S3, `values` of the partition keys,
            `size_bytes`.
        parameters: those of its SerDe, and then those of the table.
        metadata: where an Iceberg table's metadata lies in S3; empty for others.
    """

    def __init__(self, database: str, name: str, described: Mapping[str, Any]) -> None:
        self.database, self.name = database, name
        self.columns = [(column, parse_type(kind)) for column, kind in described["columns"]]
        self.keys = [(column, parse_type(kind)) for column, kind in described["keys"]]
        self.files: list[dict[str, Any]] = described["files"]
        self.serde = str(described["serde"])
        self.parameters: dict[str, str] = described["parameters"]
        self.metadata: str = described.get("metadata", "")
        # What a query asks of an Iceberg table beside its rows: `files`, or `version=7`, behind a dollar sign.
        self.part = split_part(name)[1]
        # What has been read of an Iceberg table's files.
        self.read_bytes = 0
        # pyiceberg's table, once it is defined.
        self.stored: Any = None

    @property
    def format(self) -> str:
        """How its files are read. Raises StatementRefused."""
        if self.metadata:
            return "iceberg"
        kind = _FORMATS.get(self.serde.rsplit(".", 1)[-1])
        if kind is None:
            raise StatementRefused(
                f"NOT_SUPPORTED: headrace does not read tables of the SerDe {self.serde}"
            )
        return kind


def split_part(name: str) -> tuple[str, str]:
    """Return a table's name in the catalogue, and which part of it a query names behind a dollar sign."""
    base, _, part = name.partition("$")
    return (base, part) if base else (name, "")


_WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "integer": 32, "bigint": 64}


def read_scalar(hive: HiveType, text: str) -> Any:
    """Convert a text to a type without parts. Raises ValueError."""
    kind = hive.name
    if kind in ("string", "varchar", "char"):
        return text
    if kind in _WHOLE:
        number = int(text)
        if not -(2 ** (_WHOLE[kind] - 1)) <= number < 2 ** (_WHOLE[kind] - 1):
            raise ValueError(f"{text[:50]} is no {kind}")
        return number
    if kind in ("double", "float", "real"):
        return float(text)
    if kind == "boolean":
        if text.strip().lower() not in ("true", "false"):
            raise ValueError(f"{text[:50]} is no boolean")
        return text.strip().lower() == "true"
    if kind == "decimal":
        return _decimal(hive, text)
    if kind == "date":
        return date.fromisoformat(text.strip())
    if kind == "timestamp":
        moment = datetime.fromisoformat(text.strip())
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return text.encode()


def _decimal(hive: HiveType, text: str) -> Decimal:
    scale = hive.sizes[1] if len(hive.sizes) == 2 else 0
    try:
        number = Decimal(text.strip())
        if not math.isfinite(number) or number.adjusted() > 60:
            raise ValueError(f"{text[:50]} is no decimal")
        return number.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation as error:
        raise ValueError(f"{text[:50]} is no decimal") from error


CATALOG = "awsdatacatalog"
# The pseudo column with an object's URI, and what a table that shows it has behind its name.
PATH = "$path"
WITH_PATH = "$with_path"
# Athena's schema of the catalogue itself; DuckDB has one of its own under the name.
INFORMATION = "information_schema"
OWN_INFORMATION = "$information_schema"


class StatementRefused(Exception):
    """A statement cannot run. The message is Athena's StateChangeReason.

    Attributes:
        category: Athena's: 1 for the system, 2 for the user, 3 for others.
    """

    def __init__(self, message: str, category: int = 2) -> None:
        super().__init__(message)
        self.category = category


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as plain values.

    Attributes:
        action: `query`, `explain`, `insert`, `create_table_as`, `unload`, or an action on the catalogue.
        kind: Athena's StatementType: DML, DDL or UTILITY.
        substatement: Athena's SubstatementType.
        table: the database and name of the table on which it acts; the database may be empty.
        sql: a query of DuckDB's.
        tables: the database and name of each table that the query reads.
        options: what else the action needs.
    """

    action: str
    kind: str
    substatement: str
    table: tuple[str, str] = ("", "")
    sql: str = ""
    tables: tuple[tuple[str, str], ...] = ()
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain values."""
        return asdict(self)


def read_name(tree: Any, database: str) -> tuple[str, str]:
    """Return the database and the name of a table, in lower case. Raises StatementRefused."""
    if isinstance(tree, exp.Schema):
        tree = tree.this
    if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
        raise StatementRefused("SYNTAX_ERROR: a table's name is missing")
    _check_catalog(tree)
    return (tree.db or database).lower(), tree.name.lower()


def _check_catalog(table: Any) -> None:
    if table.catalog and table.catalog.lower() != CATALOG:
        raise StatementRefused(f"CATALOG_NOT_FOUND: Catalog '{table.catalog}' not found")


def to_duckdb(tree: Any, database: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return a query as DuckDB's SQL, in which each table has its database, and the tables that it reads."""
    tables: dict[tuple[str, str], None] = {}
    shown = WITH_PATH if any(column.name == PATH for column in tree.find_all(exp.Column)) else ""
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier):
            # DuckDB's own table functions read files.
            name = table.this.name if isinstance(table.this, exp.Func) else str(table.this)
            raise StatementRefused(
                f"FUNCTION_NOT_FOUND: Table function '{name[:200]}' not registered"
            )
        if not table.db and _is_common(table):
            continue
        name = read_name(table, database)
        if not name[0]:
            raise StatementRefused(
                "MISSING_SCHEMA_NAME: Schema must be specified when session schema is not set"
            )
        version = table.args.get("version")
        if version is None and "=" in split_part(name[1])[1]:
            # A version is an expression that runs: it comes from FOR VERSION and FOR TIMESTAMP alone, and not by name.
            raise StatementRefused(
                f"TABLE_NOT_FOUND: Table '{CATALOG}.{name[0]}.{name[1]}' does not exist"
            )
        if version is not None:
            at = translate(version.expression.copy()).sql("duckdb")
            name = name[0], f"{name[1]}${str(version.this).lower()}={at}"
            alias = table.alias or table.name.lower()
            table.set("version", None)
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        tables[name] = None
        table.set("catalog", None)
        schema = OWN_INFORMATION if name[0] == INFORMATION else name[0]
        table.set("db", exp.to_identifier(schema, quoted=True))
        table.set("this", exp.to_identifier(name[1] + shown, quoted=True))
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name[1], quoted=True)))
    for column in tree.find_all(exp.Column):
        # `db.table.column`: the table has its name as an alias.
        column.set("db", None)
        column.set("catalog", None)
    _name_columns(tree)
    try:
        return translate(tree).sql("duckdb"), tuple(tables)
    except FunctionRefused as error:
        raise StatementRefused(str(error)) from error


def _name_columns(tree: Any) -> None:
    """Name a query's columns that have no name as Trino does: `_col0` and so on."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    for number, one in enumerate(tree.expressions if isinstance(tree, exp.Select) else ()):
        if not isinstance(one, exp.Column | exp.Star | exp.Alias | exp.Aliases | exp.Dot):
            one.replace(exp.alias_(one.copy(), f"_col{number}"))


def _is_common(table: Any) -> bool:
    """Whether a name is that of a common table expression in whose reach it stands."""
    node = table.parent
    name = table.name.lower()
    while node is not None:
        if isinstance(node, exp.Query) and any(cte.alias.lower() == name for cte in node.ctes):
            # Not within its own definition, unless it is recursive.
            inside = next((cte for cte in node.ctes if cte.alias.lower() == name), None)
            with_ = node.args.get("with_") or node.args.get("with")
            recursive = bool(with_ is not None and with_.args.get("recursive"))
            if recursive or inside is None or not _is_within(table, inside):
                return True
        node = node.parent
    return False


def _is_within(node: Any, ancestor: Any) -> bool:
    while node is not None:
        if node is ancestor:
            return True
        node = node.parent
    return False
