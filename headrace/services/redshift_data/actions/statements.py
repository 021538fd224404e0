"""ExecuteStatement, BatchExecuteStatement, DescribeStatement, ListStatements, CancelStatement.

GetStatementResult and GetStatementResultV2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import redshift_data as shapes
from headrace.core.values import BadMarker, moment, page_of, present
from headrace.services.redshift_data.backend import RedshiftData, RunRequest
from headrace.services.redshift_data.errors import (
    ROWS_PER_PAGE,
    STATEMENTS_PER_PAGE,
    invalid,
    no_result,
)
from headrace.services.redshift_data.state import (
    ENDED,
    Part,
    Statement,
    StoredResult,
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
