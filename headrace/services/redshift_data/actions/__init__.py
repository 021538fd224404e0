"""The Redshift Data API's operations: all of them.

The catalog (databases, schemas, tables and their columns) is read by queries that are answered synchronously.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, TypeVar

from headrace.aws.calls.operation import Action, Call, operation
from headrace.aws.shapes import redshift_data as shapes
from headrace.core.ports.warehouses import Column
from headrace.core.values import BadMarker, moment, page_of, present
from headrace.services.redshift_data.backend import CatalogRequest, RedshiftData, RunRequest
from headrace.services.redshift_data.errors import (
    NAMES_PER_PAGE,
    ROWS_PER_PAGE,
    STATEMENTS_PER_PAGE,
    invalid,
    no_result,
)
from headrace.services.redshift_data.execution import OpenSession
from headrace.services.redshift_data.state import (
    ENDED,
    Part,
    Statement,
    StoredResult,
    column_of,
    csv_of,
    fields_of,
)


@operation("GetStatementResult")
def get_statement_result(
    data: RedshiftData, call: Call, request: shapes.GetStatementResultRequest
) -> shapes.GetStatementResultResponse:
    """Return a page of a result as typed fields. Source: API_GetStatementResult."""
    statement, kept, rows, token = _page(data, call, request)
    if statement.result_format != "JSON":
        raise invalid("The result is CSV; use GetStatementResultV2.")  # assumed
    answer: shapes.GetStatementResultResponse = {
        "ColumnMetadata": kept.columns,
        "TotalNumRows": len(kept.rows),
        "Records": [fields_of(row) for row in rows],
    }
    if token:
        answer["NextToken"] = token
    return answer


@operation("GetStatementResultV2")
def get_statement_result_v2(
    data: RedshiftData, call: Call, request: shapes.GetStatementResultV2Request
) -> shapes.GetStatementResultV2Response:
    """Return a page of a result as CSV. Source: API_GetStatementResultV2."""
    statement, kept, rows, token = _page(data, call, request)
    if statement.result_format != "CSV":
        raise invalid("The result is JSON; use GetStatementResult.")  # assumed
    text = csv_of(kept, rows, first=not request.get("NextToken"))
    answer: shapes.GetStatementResultV2Response = {
        "ColumnMetadata": kept.columns,
        "TotalNumRows": len(kept.rows),
        "Records": [{"CSVRecords": text}],
        "ResultFormat": "CSV",
    }
    if token:
        answer["NextToken"] = token
    return answer


def _page(
    data: RedshiftData,
    call: Call,
    request: shapes.GetStatementResultRequest | shapes.GetStatementResultV2Request,
) -> tuple[Statement, StoredResult, Sequence[Any], str | None]:
    """Return a statement, its result, the rows of a page, and the next page's token. Raises AwsError."""
    statement, number = data.find(call, request["Id"])
    data.wait(statement, int(request.get("WaitTimeSeconds", 0)))
    if statement.is_batch and number is None:
        raise no_result(request["Id"])
    part = statement.parts[number or 0]
    kept = data.store.result(request["Id"]) if part.has_result else None
    if kept is None or statement.status != "FINISHED":
        raise no_result(request["Id"])
    try:
        rows, token = page_of(kept.rows, request.get("NextToken"), ROWS_PER_PAGE)
    except BadMarker:
        raise invalid("Invalid NextToken.") from None
    return statement, kept, rows, token


@operation("ExecuteStatement")
def execute_statement(
    data: RedshiftData, call: Call, request: shapes.ExecuteStatementInput
) -> shapes.ExecuteStatementOutput:
    """Begin to run one statement. Source: API_ExecuteStatement."""
    statement = data.execute(call, request, [request["Sql"]], is_batch=False)
    return _begin(data, request, statement)


@operation("BatchExecuteStatement")
def batch_execute_statement(
    data: RedshiftData, call: Call, request: shapes.BatchExecuteStatementInput
) -> shapes.BatchExecuteStatementOutput:
    """Begin to run statements one after the other, as one transaction. Source: API_BatchExecuteStatement."""
    statement = data.execute(call, request, list(request["Sqls"]), is_batch=True)
    return _begin(data, request, statement)


def _begin(
    data: RedshiftData,
    request: RunRequest,
    statement: Statement,
) -> shapes.ExecuteStatementOutput:
    answer: shapes.ExecuteStatementOutput = {
        "Id": statement.id,
        "CreatedAt": moment(statement.created_ms),
        "Database": statement.database,
        **_owner(statement),
    }
    wait_s = request.get("WaitTimeSeconds")
    if wait_s:
        data.wait(statement, int(wait_s))
        answer["Status"] = statement.status
        answer["RedshiftPid"] = statement.pid
        answer["HasResultSet"] = statement.has_result
    return answer


class StatementOwner(TypedDict, total=False):
    """The members of several answers that say where, in which session and as whom a statement runs."""

    ClusterIdentifier: str
    WorkgroupName: str
    SecretArn: str
    DbUser: str
    SessionId: str


def _owner(statement: Statement) -> StatementOwner:
    owner: StatementOwner = (
        {"ClusterIdentifier": statement.target_name}
        if statement.target == "cluster"
        else {"WorkgroupName": statement.target_name}
    )
    if statement.secret_arn:
        owner["SecretArn"] = statement.secret_arn
    elif statement.db_user:
        owner["DbUser"] = statement.db_user
    if statement.session_id:
        owner["SessionId"] = statement.session_id
    return owner


@operation("DescribeStatement")
def describe_statement(
    data: RedshiftData, call: Call, request: shapes.DescribeStatementRequest
) -> shapes.DescribeStatementResponse:
    """Return a statement's status. Source: API_DescribeStatement."""
    statement, number = data.find(call, request["Id"])
    data.wait(statement, int(request.get("WaitTimeSeconds", 0)))
    answer: shapes.DescribeStatementResponse = {
        "Id": request["Id"],
        "Database": statement.database,
        **_owner(statement),
        "RedshiftPid": statement.pid,
        "ResultFormat": statement.result_format,
    }
    if number is not None or not statement.is_batch:
        part = statement.parts[number or 0]
        error = statement.error if number is None else part.error
        answer = {**answer, **_of_part(part, request["Id"], error)}
        if number is None:
            answer["Status"] = statement.status
            answer["UpdatedAt"] = moment(statement.updated_ms)
    else:
        answer = {
            **answer,
            "Status": statement.status,
            "CreatedAt": moment(statement.created_ms),
            "UpdatedAt": moment(statement.updated_ms),
            "Duration": statement.duration_ns if statement.status in ENDED else -1,
            "HasResultSet": statement.has_result,
            "ResultRows": -1,
            "ResultSize": -1,
            "RedshiftQueryId": 0,
            "ExecutionMode": statement.mode,
            "SubStatements": [
                _of_part(part, statement.part_id(n), part.error)
                for n, part in enumerate(statement.parts)
            ],
        }
        if statement.error:
            answer["Error"] = statement.error
    if statement.parameters:
        answer["QueryParameters"] = _parameters(statement)
    return answer


def _parameters(statement: Statement) -> list[shapes.SqlParameter]:
    return [{"name": name, "value": value} for name, value in statement.parameters]


def _of_part(part: Part, part_id: str, error: str) -> shapes.SubStatementData:
    described: shapes.SubStatementData = {
        "Id": part_id,
        "QueryString": part.sql,
        "Status": part.status,
        "CreatedAt": moment(part.created_ms),
        "UpdatedAt": moment(part.updated_ms),
        "Duration": part.duration_ns if part.status in ENDED else -1,
        "HasResultSet": part.has_result,
        "ResultRows": part.rows,
        "ResultSize": part.size_bytes,
        "RedshiftQueryId": part.query_id,
    }
    if error:
        described["Error"] = error
    return described


@operation("ListStatements")
def list_statements(
    data: RedshiftData, call: Call, request: shapes.ListStatementsRequest
) -> shapes.ListStatementsResponse:
    """Return the statements of the last day, newest first. Source: API_ListStatements."""
    # Without a status, AWS lists finished statements (documented: API_ListStatements).
    status = request.get("Status", "FINISHED")
    statements = [
        s
        for s in data.store.all()
        if (s.account, s.region) == (call.account, call.region)
        and status in ("ALL", s.status)
        and s.name.startswith(request.get("StatementName", ""))
        and request.get("Database", s.database) == s.database
        and _is_of(s, request)
    ]
    try:
        shown, token = page_of(
            statements, request.get("NextToken"), request.get("MaxResults") or STATEMENTS_PER_PAGE
        )
    except BadMarker:
        raise invalid("Invalid NextToken.") from None
    return present({"Statements": [_describe(s) for s in shown], "NextToken": token})


def _is_of(statement: Statement, request: shapes.ListStatementsRequest) -> bool:
    named = (
        ("cluster", request.get("ClusterIdentifier")),
        ("workgroup", request.get("WorkgroupName")),
    )
    for kind, name in named:
        if name:
            return (statement.target, statement.target_name) == (kind, name)
    return True


def _describe(statement: Statement) -> shapes.StatementData:
    sqls = [part.sql for part in statement.parts]
    return present(
        {
            "Id": statement.id,
            "QueryString": None if statement.is_batch else sqls[0],
            "QueryStrings": sqls if statement.is_batch else None,
            "SecretArn": statement.secret_arn or None,
            "Status": statement.status,
            "StatementName": statement.name or None,
            "CreatedAt": moment(statement.created_ms),
            "UpdatedAt": moment(statement.updated_ms),
            "QueryParameters": _parameters(statement) or None,
            "IsBatchStatement": statement.is_batch,
            "ResultFormat": statement.result_format,
        }
    )


@operation("CancelStatement")
def cancel_statement(
    data: RedshiftData, call: Call, request: shapes.CancelStatementRequest
) -> shapes.CancelStatementResponse:
    """Stop a statement. Source: API_CancelStatement."""
    statement, _ = data.find(call, request["Id"])
    data.cancel(statement)
    return {"Status": True}


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
    shown = [_describe_session(held) for held in data.sessions.all(call.account, call.region)]
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


def _describe_session(held: OpenSession) -> shapes.SessionData:
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


ACTIONS: list[Action] = [
    execute_statement,
    batch_execute_statement,
    describe_statement,
    cancel_statement,
    list_statements,
    list_sessions,
    get_statement_result,
    get_statement_result_v2,
    list_databases,
    list_schemas,
    list_tables,
    describe_table,
]
