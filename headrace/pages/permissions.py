"""Shows the calls that AWS would deny, the reasons, and a role's smallest policy: `/_headrace/iam`."""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import json_response, page
from headrace.core.html import element, table
from headrace.pages import s3_access
from headrace.pages.routes import HOME, Route, wants_json
from headrace.permissions.decisions.decisions import Decisions
from headrace.permissions.decisions.explanations import InvalidQuestion, policy_of, why
from headrace.permissions.decisions.report import accesses_seen, report_of

PATH = "/_headrace/iam"


def routes(decisions: Decisions) -> list[Route]:
    """Return the routes: GET and DELETE of the report, GET of `/accesses`, `/policy` and `/why`."""
    return [
        Route(f"{PATH}/policy", partial(_policy, decisions), ("GET",)),
        Route(f"{PATH}/why", partial(_why, decisions), ("GET",)),
        Route(f"{PATH}/accesses", partial(_accesses, decisions), ("GET",)),
        Route(s3_access.PATH, partial(s3_access.answer, decisions), ("POST",)),
        Route(PATH, partial(_report, decisions)),
    ]


def _report(decisions: Decisions, request: HttpRequest, _: list[str]) -> HttpResponse:
    if request.method == "DELETE":
        return json_response({"forgotten": decisions.clear()})
    if request.method not in ("GET", "HEAD"):
        return json_response({"message": f"{request.method} is not for {request.path}."}, 405)
    report = report_of(decisions)
    if wants_json(request) or "text/html" not in request.headers.get("accept", ""):
        return json_response(report)
    return page("What AWS would deny", _table(report), trail=[HOME])


def _accesses(decisions: Decisions, _: HttpRequest, __: list[str]) -> HttpResponse:
    return json_response({"accesses": accesses_seen(decisions)})


def _table(report: dict[str, Any]) -> Any:
    if not report["denied"]:
        seen = f"{report['accesses']:,} accesses of {report['callers']} callers were looked at."
        return element("p", f"Nothing. {seen}")
    rows = [
        (
            element("code", row["principal"]),
            element("code", row["action"]),
            element("code", row["resource"]),
            row["reason"],
            f"{row['count']:,}",
            row["last"],
        )
        for row in report["denied"]
    ]
    return table(("Who", "Action", "Resource", "Why", "Times", "Last"), rows)


def _policy(decisions: Decisions, request: HttpRequest, _: list[str]) -> HttpResponse:
    try:
        role = request.query_params().get("role", "")
        return json_response(policy_of(decisions, role, decisions.account, decisions.region))
    except InvalidQuestion as error:
        return json_response({"message": str(error)}, 400)


def _why(decisions: Decisions, request: HttpRequest, _: list[str]) -> HttpResponse:
    query = request.query_params()
    try:
        answer = why(
            decisions, query.get("arn", ""), query.get("action", ""), query.get("resource", "")
        )
        return json_response(answer)
    except InvalidQuestion as error:
        return json_response({"message": str(error)}, 400)
