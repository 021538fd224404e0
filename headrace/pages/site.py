"""Lists all pages of a cloud in the order in which the start page shows them.

The JSON pages of services' own data, and `PUT /_headrace/cfn-response/<token>`, where CloudFormation's custom resources
answer, are here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import ADMIN, json_response
from headrace.aws.gateway.faults import Faults
from headrace.aws.protocols.service import DataPage, NothingToShow, ServiceApi
from headrace.pages import faults, fidelity, health, home, permissions
from headrace.pages.health import Health
from headrace.pages.home import Listed
from headrace.pages.routes import Answer, Route, Routes
from headrace.pages.spark import SPARK_PATH, SparkPages
from headrace.permissions.decisions.decisions import Decisions
from headrace.services.cloudformation.signals import PATH
from headrace.services.opensearch.indexes.home import PATH as SEARCH_PATH
from headrace.spark_submit.page_paths import HISTORY_PATH, STATUS_PATH


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
        Listed(permissions.PATH, "Permissions: what AWS would deny"),
        Listed(faults.PATH, "Faults on demand (JSON)"),
        Listed(fidelity.PATH, "Fidelity: what is only stored or ignored (JSON)"),
        Listed(health.PATH, "Health (JSON)"),
        *(page for page in data if page.query),
    ]
    return Routes(
        [
            *home.routes(listed, endpoint_url, page),
            *dashboard,
            *state.routes(),
            *spark.routes(),
            *(route_to(page) for page in shown),
            *faults.routes(rules),
            *permissions.routes(decisions),
            *fidelity.routes(apis),
            *routes(receive_response),
            Route(SEARCH_PATH, search, below=True),
            *messages,
        ]
    )
