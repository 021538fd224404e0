"""Lists databases, schemas, tables and sessions; describes tables: queries of the catalog, answered synchronously."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import redshift_data as shapes
from headrace.core.ports.warehouses import Column
from headrace.core.values import BadMarker, moment, page_of, present
from headrace.services.redshift_data.backend import CatalogRequest, RedshiftData
from headrace.services.redshift_data.errors import NAMES_PER_PAGE, STATEMENTS_PER_PAGE, invalid
from headrace.services.redshift_data.execution import OpenSession
from headrace.services.redshift_data.state import column_of

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


_T = TypeVar("_T")


def _rows(
    data: RedshiftData, call: Call, request: CatalogRequest, sql: str, **values: str
) -> list[Sequence[Any]]:
    session = data.open(call, request)
    try:
        return session.run(sql, list(values.items())).rows
    finally:
        session.close()


def _cut_page(items: Sequence[_T], request: CatalogRequest) -> tuple[list[_T], str | None]:
    """Return a page and the token of the next. Raises AwsError."""
    try:
        return page_of(items, request.get("NextToken"), request.get("MaxResults") or NAMES_PER_PAGE)
    except BadMarker:
        raise invalid("Invalid NextToken.") from None


@operation("ListDatabases")
def list_databases(
    data: RedshiftData, call: Call, request: shapes.ListDatabasesRequest
) -> shapes.ListDatabasesResponse:
    """Return the databases of a cluster. Source: API_ListDatabases."""
    names = [str(row[0]) for row in _rows(data, call, request, _DATABASES)]
    shown, token = _cut_page(names, request)
    return present({"Databases": shown, "NextToken": token})


@operation("ListSchemas")
def list_schemas(
    data: RedshiftData, call: Call, request: shapes.ListSchemasRequest
) -> shapes.ListSchemasResponse:
    """Return the schemas of a database. Source: API_ListSchemas."""
    pattern = request.get("SchemaPattern") or "%"
    names = [str(row[0]) for row in _rows(data, call, request, _SCHEMAS, pattern=pattern)]
    shown, token = _cut_page(names, request)
    return present({"Schemas": shown, "NextToken": token})


@operation("ListTables")
def list_tables(
    data: RedshiftData, call: Call, request: shapes.ListTablesRequest
) -> shapes.ListTablesResponse:
    """Return the tables and views of a database. Source: API_ListTables."""
    rows = _rows(
        data,
        call,
        request,
        _TABLES,
        schema=request.get("SchemaPattern") or "%",
        table=request.get("TablePattern") or "%",
    )
    tables: list[shapes.TableMember] = [
        {"name": row[0], "schema": row[1], "type": _kind(row[1], row[2])} for row in rows
    ]
    shown, token = _cut_page(tables, request)
    return present({"Tables": shown, "NextToken": token})


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
    rows = _rows(data, call, request, _COLUMNS, table=table, schema=schema)
    columns = [_describe_column(row, table, schema) for row in rows]
    shown, token = _cut_page(columns, request)
    return present({"TableName": table, "ColumnList": shown, "NextToken": token})


def _describe_column(row: Sequence[Any], table: str, schema: str) -> shapes.ColumnMetadata:
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


@operation("ListSessions")
def list_sessions(
    data: RedshiftData, call: Call, request: shapes.ListSessionsRequest
) -> shapes.ListSessionsResponse:
    """Return the open sessions, newest first. Source: API_ListSessions."""
    shown = [_describe(held) for held in data.sessions.all(call.account, call.region)]
    filter_names = ("SessionId", "Status", "ClusterIdentifier", "WorkgroupName", "Database")
    sessions = [
        item
        for item in shown
        if all(item.get(n) == request.get(n) for n in filter_names if request.get(n))
    ]
    try:
        page, token = page_of(
            sessions, request.get("NextToken"), request.get("MaxResults") or STATEMENTS_PER_PAGE
        )
    except BadMarker:
        raise invalid("Invalid NextToken.") from None
    return present({"Sessions": page, "NextToken": token})


def _describe(held: OpenSession) -> shapes.SessionData:
    opened = held.opened_by
    name = "ClusterIdentifier" if opened.target == "cluster" else "WorkgroupName"
    return present(
        {
            "SessionId": held.id,
            "Status": "BUSY" if held.statement_id else "AVAILABLE",
            "CreatedAt": moment(held.created_ms),
            "UpdatedAt": moment(held.updated_ms),
            "Database": opened.database,
            "DbUser": opened.db_user or None,
            name: opened.target_name,
            "SessionAliveSeconds": held.keep_s,
            "SessionTtl": moment(held.ends_ms),
            "CurrentStatementId": held.statement_id or None,
        }
    )
