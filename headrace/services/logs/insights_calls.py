"""CloudWatch Logs Insights' calls: a query runs when it is started, and its result is kept in memory for a while."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from headrace.services.logs.insights import Event, parse_query, render_value
from headrace.services.logs.insights_expressions import QueryRefused, QueryTooLong

# How many queries' results an account keeps in a region.
MOST_QUERIES = 100
MOST_KEPT_CHARACTERS = 2**28
MOST_GROUPS = 50
# A group's name or ARN. What follows a name does not name another group: the name before it is what IAM has allowed.
_GROUP = re.compile(r"(?:arn:[\w-]+:logs:([\w-]+):(\d+):log-group:)?([^:]+)(?::\*)?", re.ASCII)


def patch() -> None:
    """Replace moto's methods; called once."""
    from moto.logs.responses import LogsResponse

    response: Any = LogsResponse
    response.start_query = _start_query
    response.get_query_results = _get_query_results


def _refuse(code: str, message: str) -> Any:
    from moto.core.exceptions import JsonRESTError

    return JsonRESTError(code, message)


def _groups(self: Any) -> list[Any]:
    """Return the groups of a query, which are named in one of three ways (documented: API_StartQuery)."""
    one, several, ids = (
        self._get_param(name) for name in ("logGroupName", "logGroupNames", "logGroupIdentifiers")
    )
    if sum(value is not None for value in (one, several, ids)) > 1:
        raise _refuse(
            "InvalidParameterException",
            "A StartQuery operation must include exactly one of logGroupName, logGroupNames or logGroupIdentifiers.",
        )
    names: list[str] = [one] if one else several or ids or []
    if not names or len(names) > MOST_GROUPS:
        raise _refuse(
            "InvalidParameterException", f"A query takes from 1 to {MOST_GROUPS} log groups."
        )
    groups: list[Any] = []
    for name in names:
        match = _GROUP.fullmatch(name)
        place = () if match is None or match[1] is None else (match[1], match[2])
        group = None if match is None else self.logs_backend.groups.get(match[3])
        if group is None or (place and place != (self.region, self.current_account)):
            raise _refuse(
                "ResourceNotFoundException",
                f"Log group '{name}' does not exist for account ID '{self.current_account}'",
            )
        groups.append(group)
    return groups


def _start_query(self: Any) -> str:
    from moto.logs.models import LogQuery
    from moto.moto_api._internal import mock_random

    text = self._get_param("queryString") or ""
    language = self._get_param("queryLanguage") or "CWLI"
    if language != "CWLI":
        raise _refuse(
            "InvalidParameterException", f"headrace runs queries of CWLI, and not of {language}."
        )
    groups = _groups(self)
    begin_s, end_s = int(self._get_param("startTime")), int(self._get_param("endTime"))
    try:
        parsed = parse_query(text)
    except QueryRefused as refusal:
        raise _refuse("MalformedQueryException", str(refusal)) from None
    # moto's own query would read every event, and leave out what it does not know.
    query: Any = LogQuery(str(mock_random.uuid1()), begin_s, end_s, "fields @message", [])
    query.query, query.log_group_names = text, [group.name for group in groups]
    query.shown, query.scanned = [], 0
    try:
        rows, query.scanned = parsed.run(_events(groups, _ms(begin_s), _ms(end_s, is_end=True)))
    except QueryTooLong:
        query.status, rows = "Timeout", []
    except QueryRefused as refusal:
        raise _refuse("MalformedQueryException", str(refusal)) from None
    most = int(self._get_param("limit") or 10_000)
    for row in rows[:most]:
        columns = [*parsed.shown, *(["@ptr"] if parsed.is_events else [])]
        query.shown.append(
            [
                {"field": name, "value": render_value(name, row[name])}
                for name in columns
                if row.get(name) is not None
            ]
        )
    query.matched = len(rows)
    queries = self.logs_backend.queries
    query.characters = sum(len(one["value"]) for row in query.shown for one in row)
    queries[query.query_id] = query
    kept = sum(getattr(one, "characters", 0) for one in queries.values())
    while len(queries) > MOST_QUERIES or (kept > MOST_KEPT_CHARACTERS and len(queries) > 1):
        kept -= getattr(queries.pop(next(iter(queries))), "characters", 0)
    return json.dumps({"queryId": query.query_id})


def _ms(moment: int, *, is_end: bool = False) -> int:
    """Return a time in milliseconds; requests have seconds, and some clients milliseconds."""
    if moment > 100_000_000_000:
        return moment
    return moment * 1000 + (999 if is_end else 0)


def _events(groups: list[Any], begin_ms: int, end_ms: int) -> Iterator[Event]:
    for group in groups:
        for stream in group.streams.values():
            for event in stream.events:
                if begin_ms <= event.timestamp <= end_ms:
                    yield Event(
                        event.timestamp, event.ingestion_time, event.message, stream.log_stream_name,
                        f"{stream.account_id}:{group.name}", str(event.event_id),
                    )  # fmt: skip


def _get_query_results(self: Any) -> str:
    query_id = self._get_param("queryId")
    query = self.logs_backend.queries.get(query_id)
    if query is None:
        raise _refuse("ResourceNotFoundException", f"Query with id {query_id} does not exist")
    statistics = {
        "recordsMatched": float(query.matched), "recordsScanned": float(query.scanned), "bytesScanned": 0.0,
    }  # fmt: skip
    return json.dumps(
        {
            "queryLanguage": "CWLI",
            "results": query.shown,
            "statistics": statistics,
            "status": query.status,
        }
    )
