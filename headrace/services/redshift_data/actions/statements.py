"""ExecuteStatement, BatchExecuteStatement, DescribeStatement, ListStatements, CancelStatement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.operation import Call, operation
from headrace.aws.shapes import redshift_data as shapes
from headrace.core.values import BadMarker, moment, page_of, present
from headrace.services.redshift_data.backend import RedshiftData
from headrace.services.redshift_data.errors import invalid
from headrace.services.redshift_data.limits import STATEMENTS_PER_PAGE
from headrace.services.redshift_data.state import ENDED, Part, Statement


@operation("ExecuteStatement")
def execute_statement(
    data: RedshiftData, call: Call, request: shapes.ExecuteStatementInput
) -> shapes.ExecuteStatementOutput:
    """Begin to run one statement. Source: API_ExecuteStatement."""
    given = cast("Mapping[str, Any]", request)
    statement = data.execute(call, given, [request["Sql"]], is_batch=False)
    return cast("shapes.ExecuteStatementOutput", _begun(data, given, statement))


@operation("BatchExecuteStatement")
def batch_execute_statement(
    data: RedshiftData, call: Call, request: shapes.BatchExecuteStatementInput
) -> shapes.BatchExecuteStatementOutput:
    """Begin to run statements one after the other, as one transaction. Source: API_BatchExecuteStatement."""
    given = cast("Mapping[str, Any]", request)
    statement = data.execute(call, given, list(request["Sqls"]), is_batch=True)
    return cast("shapes.BatchExecuteStatementOutput", _begun(data, given, statement))


def _begun(data: RedshiftData, given: Mapping[str, Any], statement: Statement) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "Id": statement.id,
        "CreatedAt": moment(statement.created_ms),
        "Database": statement.database,
        **_target(statement),
        **_who(statement),
        **_session(statement),
    }
    if given.get("WaitTimeSeconds"):
        data.wait(statement, int(given["WaitTimeSeconds"]))
        answer |= {
            "Status": statement.status,
            "RedshiftPid": statement.pid,
            "HasResultSet": statement.has_result,
        }
    return answer


def _target(statement: Statement) -> dict[str, Any]:
    name = "ClusterIdentifier" if statement.target == "cluster" else "WorkgroupName"
    return {name: statement.target_name}


def _session(statement: Statement) -> dict[str, str]:
    return {"SessionId": statement.session_id} if statement.session_id else {}


def _who(statement: Statement) -> dict[str, Any]:
    if statement.secret_arn:
        return {"SecretArn": statement.secret_arn}
    return {"DbUser": statement.db_user} if statement.db_user else {}


@operation("DescribeStatement")
def describe_statement(
    data: RedshiftData, call: Call, request: shapes.DescribeStatementRequest
) -> shapes.DescribeStatementResponse:
    """Return a statement's status. Source: API_DescribeStatement."""
    statement, number = data.find(call, request["Id"])
    data.wait(statement, int(request.get("WaitTimeSeconds", 0)))
    answer: dict[str, Any] = {
        "Id": request["Id"],
        "Database": statement.database,
        **_target(statement),
        **_who(statement),
        **_session(statement),
        "RedshiftPid": statement.pid,
        "ResultFormat": statement.result_format,
    }
    if number is not None or not statement.is_batch:
        part = statement.parts[number or 0]
        answer |= _of_part(part) | {"QueryString": part.sql}
        if number is None:
            answer |= {
                "Status": statement.status,
                "UpdatedAt": moment(statement.updated_ms),
                "Error": statement.error or None,
            }
    else:
        answer |= {
            "Status": statement.status,
            "CreatedAt": moment(statement.created_ms),
            "UpdatedAt": moment(statement.updated_ms),
            "Duration": statement.duration_ns if statement.status in ENDED else -1,
            "Error": statement.error or None,
            "HasResultSet": statement.has_result,
            "ResultRows": -1,
            "ResultSize": -1,
            "RedshiftQueryId": 0,
            "ExecutionMode": statement.mode,
            "SubStatements": [
                present({"Id": statement.part_id(n), "QueryString": part.sql, **_of_part(part)})
                for n, part in enumerate(statement.parts)
            ],
        }
    if statement.parameters:
        answer["QueryParameters"] = _parameters(statement)
    return cast("shapes.DescribeStatementResponse", present(answer))


def _parameters(statement: Statement) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in statement.parameters]


def _of_part(part: Part) -> dict[str, Any]:
    return {
        "Status": part.status,
        "CreatedAt": moment(part.created_ms),
        "UpdatedAt": moment(part.updated_ms),
        "Duration": part.duration_ns if part.status in ENDED else -1,
        "Error": part.error or None,
        "HasResultSet": part.has_result,
        "ResultRows": part.rows,
        "ResultSize": part.size_bytes,
        "RedshiftQueryId": part.query_id,
    }


@operation("ListStatements")
def list_statements(
    data: RedshiftData, call: Call, request: shapes.ListStatementsRequest
) -> shapes.ListStatementsResponse:
    """Return the statements of the last day, newest first. Source: API_ListStatements."""
    # Without a status, AWS lists finished statements (documented: API_ListStatements).
    wanted = request.get("Status", "FINISHED")
    found = [
        s
        for s in data.store.all()
        if (s.account, s.region) == (call.account, call.region)
        and wanted in ("ALL", s.status)
        and s.name.startswith(request.get("StatementName", ""))
        and request.get("Database", s.database) == s.database
        and _is_of(s, cast("Mapping[str, Any]", request))
    ]
    try:
        shown, token = page_of(
            found, request.get("NextToken"), request.get("MaxResults") or STATEMENTS_PER_PAGE
        )
    except BadMarker:
        raise invalid("Invalid NextToken.") from None
    return cast(
        "shapes.ListStatementsResponse",
        present({"Statements": [_listed(s) for s in shown], "NextToken": token}),
    )


def _is_of(statement: Statement, request: Mapping[str, Any]) -> bool:
    for name, kind in (("ClusterIdentifier", "cluster"), ("WorkgroupName", "workgroup")):
        if request.get(name):
            return (statement.target, statement.target_name) == (kind, request[name])
    return True


def _listed(statement: Statement) -> dict[str, Any]:
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
