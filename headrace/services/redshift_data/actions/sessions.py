"""ListSessions."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import redshift_data as shapes
from headrace.core.values import BadMarker, moment, page_of, present
from headrace.services.redshift_data.backend import RedshiftData
from headrace.services.redshift_data.errors import invalid
from headrace.services.redshift_data.limits import STATEMENTS_PER_PAGE
from headrace.services.redshift_data.sessions import OpenSession


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
