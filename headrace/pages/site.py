"""Lists all pages of a cloud in the order in which the start page shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.aws.faults.faults import Faults
from headrace.aws.protocols.service import ServiceApi
from headrace.pages import custom_responses, faults, fidelity, health, home, permissions
from headrace.pages.data import path_of, route_to
from headrace.pages.health import Health
from headrace.pages.home import Listed
from headrace.pages.routes import Answer, Route, Routes
from headrace.pages.spark import SPARK_PATH, SparkPages
from headrace.permissions.decisions.decisions import Decisions
from headrace.services.opensearch.indexes.home import PATH as SEARCH_PATH
from headrace.spark_submit.page_paths import HISTORY_PATH, STATUS_PATH


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
            *custom_responses.routes(receive_response),
            Route(SEARCH_PATH, search, below=True),
            *messages,
        ]
    )
