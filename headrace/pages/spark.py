"""The pages about Spark jobs: `/_headrace/emr`, the history server, and whether this machine can run jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import json_response, page
from headrace.aws.gateway.hosts import foreign_origin
from headrace.core.html import element, link
from headrace.pages.emr import EmrPages
from headrace.pages.emr_serverless import ServerlessPages
from headrace.pages.jobs import IDLE_REFRESH_S, REFRESH_S
from headrace.pages.parts import HOME, refusal, wants_json
from headrace.pages.routes import Route, for_people
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.history import HistoryOnDemand, link_event_logs
from headrace.spark_submit.page_paths import HISTORY_PATH, SERVERLESS_PATH, STATUS_PATH
from headrace.spark_submit.spark_home import why_no_spark
from headrace.spark_submit.sparks import Sparks

SPARK_PATH = "/_headrace/spark"
# How many clusters, and how many applications, the status page shows.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class SparkPages:
    """The pages. Thread-safe.

    Attributes:
        emr: the pages of clusters and steps.
        serverless: the pages of applications and job runs.
        history: the history server.
        sparks: chooses the Spark of each job.
        data_dir: the cloud's data directory.
        endpoint_url: the cloud's URL.
    """

    emr: EmrPages
    serverless: ServerlessPages
    history: HistoryOnDemand
    sparks: Sparks
    data_dir: Path
    endpoint_url: Callable[[], str]

    def routes(self) -> list[Route]:
        """Return the routes to the pages."""
        return [
            *for_people(HISTORY_PATH, self._history, below=True),
            *for_people(STATUS_PATH, self._emr, below=True),
            *for_people(SERVERLESS_PATH, self._serverless, below=True),
            *for_people(SPARK_PATH, self._spark),
        ]

    def _emr(self, request: HttpRequest, rest: list[str]) -> HttpResponse:
        if not rest:
            return self._status(request)
        return self.emr.answer(request, rest, self.endpoint_url())

    def _serverless(self, request: HttpRequest, rest: list[str]) -> HttpResponse:
        if not rest:
            return self._status(request)
        return self.serverless.answer(request, rest, self.endpoint_url())

    def _status(self, request: HttpRequest) -> HttpResponse:
        if wants_json(request):
            base = self.endpoint_url()
            return json_response(
                {
                    "clusters": self.emr.describe(base),
                    "applications": self.serverless.describe(base),
                    "history": {"page": f"{base}{HISTORY_PATH}", "server": self.history.url},
                }
            )
        most = 1_000_000 if "all" in request.query_params() else SHOWN
        return page(
            "EMR",
            element("p", link(HISTORY_PATH, "Spark history server")),
            self.emr.section(most),
            element("h1", "EMR Serverless"),
            self.serverless.section(most),
            trail=[HOME],
            refresh_s=REFRESH_S if self.emr.busy or self.serverless.busy else IDLE_REFRESH_S,
        )

    def _spark(self, _request: HttpRequest, _rest: list[str]) -> HttpResponse:
        return json_response({"problem": why_no_spark(installed=self.sparks.installed)})

    def _history(self, request: HttpRequest, rest: list[str]) -> HttpResponse:
        """Start the history server if needed, and redirect to it, or to an application's page there."""
        if foreign_origin(request.headers) is not None:
            # A link from another site may show a page, but may not start a process.
            here = link(request.path, "Start the history server, or go on to it")
            return page("Spark history", element("p", here), trail=[HOME])
        application_id = "/".join(rest)
        known = link_event_logs(self.data_dir)
        if application_id and application_id not in known:
            sentence = f"There is no event log of an application {application_id}."
            return refusal(request, 404, "No such application", sentence)
        try:
            url = self.history.ensure(application_id or None)
        except JobRefused as error:
            return refusal(request, 503, "No history server", str(error))
        return HttpResponse(302, [("Location", url), ("Cache-Control", "no-store")])
