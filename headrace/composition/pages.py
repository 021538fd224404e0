"""Builds the cloud's own pages, and passes them the services that they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.composition.foundation import Foundation
from headrace.composition.services import Services
from headrace.dashboard.api import Dashboard
from headrace.dashboard.static_files import page_file
from headrace.pages import sqs_messages
from headrace.pages.access import PageAccess
from headrace.pages.emr import EmrPages
from headrace.pages.emr_serverless import ServerlessPages
from headrace.pages.health import Health
from headrace.pages.routes import Routes
from headrace.pages.site import build_site
from headrace.pages.spark import SparkPages
from headrace.permissions.decisions.decisions import Decisions
from headrace.services.emr.api import FOLDER as EMR_FOLDER
from headrace.services.emr_serverless.api import FOLDER as EMR_SERVERLESS_FOLDER
from headrace.services.sqs.patches import list_messages
from headrace.spark_submit.history import HistoryOnDemand


def build_pages(
    base: Foundation,
    services: Services,
    *,
    decisions: Decisions,
    guard: PageAccess | None,
    history: HistoryOnDemand,
    is_started: Callable[[], bool],
    mqtt: Callable[[], dict[str, int] | None],
    dashboard: Dashboard,
) -> Routes:
    """Return the pages of a cloud; with `--auth`, `guard` decides who may see them."""
    config, clock = base.config, base.clock
    spark = SparkPages(
        emr=EmrPages(clock, services.emr.store, config.data_dir / EMR_FOLDER),
        serverless=ServerlessPages(
            clock, services.emr_serverless.store, config.data_dir / EMR_SERVERLESS_FOLDER
        ),
        history=history,
        sparks=services.sparks,
        data_dir=config.data_dir,
        endpoint_url=base.endpoint_url,
    )
    state = Health(
        is_started=is_started,
        moto=base.moto.engine.status,
        services=lambda: base.gateway.owned,
        losses=lambda: [*services.kinesis.losses, *services.firehose.losses],
        mqtt=mqtt,
        endpoint_url=base.endpoint_url,
        data_dir=config.data_dir,
        knows=lambda request: guard is None or guard.knows(request, clock.now_ms()),
    )
    engine = base.moto.engine

    def list_loaded(
        account: str, region: str, name: str, show_invisible: bool, show_delayed: bool, now_ms: int
    ) -> list[dict[str, Any]] | None:
        engine.warm_up()
        return list_messages(account, region, name, show_invisible, show_delayed, now_ms)

    return build_site(
        apis=base.gateway.owned.values(),
        spark=spark,
        state=state,
        rules=base.gateway.faults,
        decisions=decisions,
        receive_response=services.cloudformation.receive_response,
        search=services.search.answer,
        endpoint_url=base.endpoint_url,
        page=page_file,
        dashboard=dashboard.routes(),
        messages=sqs_messages.routes(list_loaded, region=config.region, clock=clock, ids=base.ids),
    )
