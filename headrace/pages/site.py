"""Lists all pages of a cloud in the order of the start page, `/_headrace/`, and has those without a room of their own.

These are the start page (the dashboard for people, a list of all pages for programs), the JSON pages of services' own
data, `PUT /_headrace/cfn-response/<token>` (the answers of CloudFormation's custom resources), the API of faults on
demand (`/_headrace/faults`), the calls that AWS would deny and a role's smallest policy (`/_headrace/iam`), and what
headrace accepts without effect (`/_headrace/fidelity`; `?stack=<name>` limits it to one stack). There, a row of a stack
names a resource and its property, a row of a service has an empty stack name, an operation and its parameter, and some
have a note on the consequence. A row without a property is about the whole resource, or the whole call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import ADMIN, element, json_response, page, table
from headrace.aws.gateway.faults import FaultRefused, Faults
from headrace.aws.protocols.owned_service import with_newer
from headrace.aws.protocols.service import DataPage, FidelityTable, NothingToShow, ServiceApi
from headrace.moto import without_effect
from headrace.pages import access, health
from headrace.pages.health import Health
from headrace.pages.routes import HOME, Answer, Route, Routes, for_people, wants_json
from headrace.pages.spark import SPARK_PATH, SparkPages
from headrace.permissions.decisions.decisions import Decisions
from headrace.permissions.decisions.explanations import InvalidQuestion, policy_of, why
from headrace.permissions.decisions.report import accesses_seen, report_of
from headrace.services.cloudformation.signals import PATH
from headrace.services.iam.answers import NOTES, moto_tables
from headrace.services.opensearch.home import PATH as SEARCH_PATH
from headrace.spark_submit import HISTORY_PATH, STATUS_PATH


def routes(receive: Callable[[str, bytes], bool]) -> list[Route]:
    """Return the route; `receive` takes a token and an answer, and returns whether a stack waits for it."""

    def answer(request: HttpRequest, _: list[str]) -> HttpResponse:
        token = request.path.removeprefix(PATH)
        return HttpResponse(200 if receive(token, request.body) else 404)

    return [Route(PATH.rstrip("/"), answer, ("PUT",), below=True)]


def path_of(page: DataPage) -> str:
    """Return the path that leads to a page."""
    return f"{ADMIN}/{page.path}"


def route_to(page: DataPage) -> Route:
    """Return the route to a page."""
    return Route(path_of(page), partial(_answer, page), ("GET",))


def _answer(page: DataPage, request: HttpRequest, _: list[str]) -> HttpResponse:
    try:
        return json_response(page.data(request.query_params()))
    except NothingToShow as error:
        return json_response({"message": str(error)}, 404)


def build_site(
    *,
    apis: Iterable[ServiceApi],
    spark: SparkPages,
    state: Health,
    rules: Faults,
    decisions: Decisions,
    receive_response: Callable[[str, bytes], bool],
    search: Answer,
    endpoint_url: Callable[[], str],
    page: Answer,
    dashboard: Iterable[Route],
    messages: Iterable[Route],
) -> Routes:
    """Return the pages of services, Spark jobs, the cloud's state, faults, domains, messages, and the dashboard."""
    apis = list(apis)
    shown = [page for api in apis for page in api.pages]
    data = [Listed(path_of(page), page.title, page.query) for page in shown]
    listed = [
        Listed(STATUS_PATH, "EMR: clusters, steps, EMR Serverless; their Spark UIs and logs"),
        Listed(HISTORY_PATH, "Spark's history server, started by the visit"),
        Listed(SPARK_PATH, "Whether Spark jobs can be run on this machine (JSON)"),
        *(page for page in data if not page.query),
        Listed(PERMISSIONS_PATH, "Permissions: what AWS would deny"),
        Listed(FAULTS_PATH, "Faults on demand (JSON)"),
        Listed(FIDELITY_PATH, "Fidelity: what is only stored or ignored (JSON)"),
        Listed(health.PATH, "Health (JSON)"),
        *(page for page in data if page.query),
    ]
    return Routes(
        [
            *home_routes(listed, endpoint_url, page),
            *dashboard,
            *state.routes(),
            *spark.routes(),
            *(route_to(page) for page in shown),
            *fault_routes(rules),
            *permission_routes(decisions),
            *fidelity_routes(apis),
            *routes(receive_response),
            Route(SEARCH_PATH, search, below=True),
            *messages,
        ]
    )


class Listed(NamedTuple):
    """A page in the list; `query` is an example of its required parameters."""

    path: str
    title: str
    query: str = ""


def home_routes(
    pages: Sequence[Listed], endpoint_url: Callable[[], str], page: Answer
) -> list[Route]:
    """Return the routes: `page` answers people, and programs get the list of all pages."""

    def answer(request: HttpRequest, rest: list[str]) -> HttpResponse:
        if wants_json(request):
            base = endpoint_url()
            listed = [page for page in pages if not page.query]
            return json_response(
                {"pages": {f"{base}{entry.path}": entry.title for entry in listed}}
            )
        return page(request, rest)

    return for_people(ADMIN, answer)


FAULTS_PATH = "/_headrace/faults"


def fault_routes(faults: Faults) -> list[Route]:
    """Return the route to the faults: GET lists them, POST adds one, DELETE removes all, or one by its id."""
    return [Route(FAULTS_PATH, partial(_answer_faults, faults), below=True)]


def _answer_faults(faults: Faults, request: HttpRequest, _: list[str]) -> HttpResponse:
    rule_id = request.decoded_path.removeprefix(FAULTS_PATH).removeprefix("/")
    if request.method == "GET" and not rule_id:
        return json_response({"faults": [rule.to_json() for rule in faults.rules]})
    if request.method == "POST" and not rule_id:
        return _add(faults, request)
    if request.method == "DELETE":
        if not rule_id:
            return json_response({"removed": faults.clear()})
        if faults.remove(rule_id):
            return json_response({"removed": 1})
        return json_response({"message": f"There is no fault {rule_id!r}."}, 404)
    return json_response({"message": f"{request.method} is not for {request.path}."}, 405)


def _add(faults: Faults, request: HttpRequest) -> HttpResponse:
    try:
        value = msgspec.json.decode(request.body)
    except msgspec.DecodeError:
        return json_response({"message": "A fault is a JSON object."}, 400)
    try:
        rule = faults.add(value)
    except FaultRefused as error:
        return json_response({"message": str(error)}, 400)
    return json_response(rule.to_json(), 201)


FIDELITY_PATH = "/_headrace/fidelity"


def fidelity_routes(apis: Sequence[ServiceApi]) -> list[Route]:
    """Return the route to the report."""
    return [Route(FIDELITY_PATH, partial(_answer_fidelity, apis), ("GET",))]


def _answer_fidelity(
    apis: Sequence[ServiceApi], request: HttpRequest, _: list[str]
) -> HttpResponse:
    stack = request.query_params().get("stack", "")
    rows = [row for api in apis if api.fidelity_rows for row in api.fidelity_rows(stack)]
    if not stack:
        rows += [row for api in apis for row in rows_of(api)]
        for name, table in moto_tables().items():
            rows += _rows(name, table, NOTES)
        rows += [
            {
                "stack": "", "service": row.service, "operation": row.operation, "property": row.member,
                "level": "stored", "note": row.sentence,
            }
            for row in without_effect.ROWS
            if not row.is_ignored
        ]  # fmt: skip
    return json_response(rows)


def rows_of(api: ServiceApi) -> Iterator[Mapping[str, str]]:
    """Yield the rows of a service's fidelity table."""
    table = with_newer(api.name, api.by_name(), api.fidelity)
    yield from _rows(api.name, table, api.fidelity_notes)


def _rows(
    service: str, table: FidelityTable, notes: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    for operation, parameters in table.items():
        for name, level in parameters.items():
            note = notes.get(f"{operation}.{name}")
            yield {
                "stack": "",
                "service": service,
                "operation": operation,
                "property": name,
                "level": level,
                **({} if note is None else {"note": note}),
            }


PERMISSIONS_PATH = "/_headrace/iam"


def permission_routes(decisions: Decisions) -> list[Route]:
    """Return the routes: GET and DELETE of the report, GET of `/accesses`, `/policy` and `/why`."""
    return [
        Route(f"{PERMISSIONS_PATH}/policy", partial(_policy, decisions), ("GET",)),
        Route(f"{PERMISSIONS_PATH}/why", partial(_why, decisions), ("GET",)),
        Route(f"{PERMISSIONS_PATH}/accesses", partial(_accesses, decisions), ("GET",)),
        Route(access.S3_PATH, partial(access.answer_s3_access, decisions), ("POST",)),
        Route(PERMISSIONS_PATH, partial(_report, decisions)),
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
