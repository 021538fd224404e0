"""ListDatabases, ListSchemas, ListTables, DescribeTable: queries of a database's catalog, answered synchronously."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from headrace.aws.operation import Call, operation
from headrace.aws.shapes import redshift_data as shapes
from headrace.core.values import BadMarker, page_of, present
from headrace.core.warehouse import Column
from headrace.services.redshift_data.backend import RedshiftData
from headrace.services.redshift_data.errors import invalid
from headrace.services.redshift_data.limits import NAMES_PER_PAGE
from headrace.services.redshift_data.results import column_of

_DATABASES = "select datname::text from pg_database where not datistemplate and datname <> 'postgres' order by 1"
_SCHEMAS = (
    "select nspname::text from pg_namespace where nspname not like 'pg_t%' and nspname <> 'headrace'"
    " and nspname like :pattern order by 1"
)
_TABLES = (
    "select c.relname::text, n.nspname::text, c.relkind::text from pg_class c join pg_namespace n"
    " on n.oid = c.relnamespace where c.relkind in ('r', 'p', 'v', 'm') and n.nspname not like 'pg_t%'"
    " and n.nspname <> 'headrace' and n.nspname like :schema and c.relname like :table order by 2, 1"
)
_COLUMNS = (
    "select a.attname::text, t.typname::text, a.atttypmod, a.attnotnull, pg_get_expr(d.adbin, d.adrelid)::text"
    " from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace"
    " join pg_type t on t.oid = a.atttypid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum"
    " where a.attnum > 0 and not a.attisdropped and c.relname = :table and n.nspname = :schema order by a.attnum"
)
_TYPES = {"jsonb": "super", "bytea": "varbyte", "text": "varchar"}
_LENGTHS = {
    "int2": 2,
    "int4": 4,
    "int8": 8,
    "float4": 4,
    "float8": 8,
    "bool": 1,
    "date": 4,
    "timestamp": 8,
}
_DIGITS = {
    "int2": 5,
    "int4": 10,
    "int8": 19,
    "float4": 8,
    "float8": 17,
    "bool": 1,
    "date": 13,
    "timestamp": 29,
}


def _rows(
    data: RedshiftData, call: Call, request: Mapping[str, Any], sql: str, **values: str
) -> list[Sequence[Any]]:
    session = data.open(call, request)
    try:
        return session.run(sql, list(values.items())).rows
    finally:
        session.close()


def _paged(items: Sequence[Any], request: Mapping[str, Any], name: str) -> dict[str, Any]:
    try:
        shown, token = page_of(
            items, request.get("NextToken"), request.get("MaxResults") or NAMES_PER_PAGE
        )
    except BadMarker:
        raise invalid("Invalid NextToken.") from None
    return present({name: shown, "NextToken": token})


@operation("ListDatabases")
def list_databases(
    data: RedshiftData, call: Call, request: shapes.ListDatabasesRequest
) -> shapes.ListDatabasesResponse:
    """Return the databases of a cluster. Source: API_ListDatabases."""
    given = cast("Mapping[str, Any]", request)
    names = [row[0] for row in _rows(data, call, given, _DATABASES)]
    return cast("shapes.ListDatabasesResponse", _paged(names, given, "Databases"))


@operation("ListSchemas")
def list_schemas(
    data: RedshiftData, call: Call, request: shapes.ListSchemasRequest
) -> shapes.ListSchemasResponse:
    """Return the schemas of a database. Source: API_ListSchemas."""
    given = cast("Mapping[str, Any]", request)
    pattern = request.get("SchemaPattern") or "%"
    names = [row[0] for row in _rows(data, call, given, _SCHEMAS, pattern=pattern)]
    return cast("shapes.ListSchemasResponse", _paged(names, given, "Schemas"))


@operation("ListTables")
def list_tables(
    data: RedshiftData, call: Call, request: shapes.ListTablesRequest
) -> shapes.ListTablesResponse:
    """Return the tables and views of a database. Source: API_ListTables."""
    given = cast("Mapping[str, Any]", request)
    rows = _rows(
        data,
        call,
        given,
        _TABLES,
        schema=request.get("SchemaPattern") or "%",
        table=request.get("TablePattern") or "%",
    )
    tables = [{"name": row[0], "schema": row[1], "type": _kind(row[1], row[2])} for row in rows]
    return cast("shapes.ListTablesResponse", _paged(tables, given, "Tables"))


def _kind(schema: str, kind: str) -> str:
    shown = "VIEW" if kind in ("v", "m") else "TABLE"
    return f"SYSTEM {shown}" if schema in ("pg_catalog", "information_schema") else shown


@operation("DescribeTable")
def describe_table(
    data: RedshiftData, call: Call, request: shapes.DescribeTableRequest
) -> shapes.DescribeTableResponse:
    """Return the columns of a table. Source: API_DescribeTable."""
    table, schema = request.get("Table"), request.get("Schema") or "public"
    if not table:
        raise invalid("Table must be provided.")  # assumed
    given = cast("Mapping[str, Any]", request)
    rows = _rows(data, call, given, _COLUMNS, table=table, schema=schema)
    columns = [_described(row, table, schema) for row in rows]
    answer = {"TableName": table, **_paged(columns, given, "ColumnList")}
    return cast("shapes.DescribeTableResponse", answer)


def _described(row: Sequence[Any], table: str, schema: str) -> dict[str, Any]:
    name, kind, modifier, not_null, default = row
    length, precision, scale = _LENGTHS.get(kind, 0), _DIGITS.get(kind, 0), 0
    if kind in ("varchar", "bpchar") and modifier > 0:
        length = precision = modifier - 4
    if kind == "numeric" and modifier > 0:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0xFFFF
        length = precision
    column = Column(
        name, _TYPES.get(kind, kind), length, precision, scale, not not_null, table, schema
    )
    shown = column_of(column)
    return shown if default is None else {**shown, "columnDefault": default}
