"""GetStatementResult and GetStatementResultV2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import redshift_data as shapes
from headrace.core.values import BadMarker, page_of
from headrace.services.redshift_data.backend import RedshiftData
from headrace.services.redshift_data.errors import invalid, no_result
from headrace.services.redshift_data.limits import ROWS_PER_PAGE
from headrace.services.redshift_data.results import csv_of, fields_of
from headrace.services.redshift_data.state import Statement, StoredResult


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
