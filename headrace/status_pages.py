"""The cloud's pages for people: what there is, `/_headrace/`, and all Spark jobs, `/_headrace/emr`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.origins import foreign_origin
from headrace.aws.pages import json_response, page, refusal, wants_json
from headrace.core.html import element, link, table
from headrace.services.emr.pages import EmrPages
from headrace.services.emr_serverless.backend import PAGES_PATH as SERVERLESS_PATH
from headrace.services.emr_serverless.pages import ServerlessPages
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.history import HistoryOnDemand, link_event_logs
from headrace.spark_submit.job_pages import (
    HISTORY_PATH,
    HOME_PATH,
    IDLE_REFRESH_S,
    REFRESH_S,
    STATUS_PATH,
)
from headrace.spark_submit.spark_home import why_no_spark

SPARK_PATH = "/_headrace/spark"
# Of clusters, and of applications, on the status page.
SHOWN = 20
_PAGES = (
    (STATUS_PATH, "EMR: clusters, steps, EMR Serverless; their Spark UIs and logs"),
    (HISTORY_PATH, "Spark's history server, started by the visit"),
    (SPARK_PATH, "Whether Spark jobs can be run on this machine (JSON)"),
    ("/_headrace/firehose", "Firehose: each delivery stream's buffers and deliveries (JSON)"),
    ("/_headrace/faults", "Faults on demand (JSON)"),
    ("/_headrace/fidelity", "Fidelity: what of the stacks is only stored or ignored (JSON)"),
    ("/_headrace/health", "Health (JSON)"),
)
_LAMBDA_TRACE = "/_headrace/lambda/trace?mapping=<id or function>"


@dataclass(frozen=True, slots=True)
class StatusPages:
    """The pages. Thread-safe.

    Attributes:
        emr: those of clusters and steps.
        serverless: those of applications and job runs.
        history: the history server.
        data_dir: the cloud's.
        endpoint_url: the cloud's URL.
    """

    emr: EmrPages
    serverless: ServerlessPages
    history: HistoryOnDemand
    data_dir: Path
    endpoint_url: Callable[[], str]

    def answer(self, request: HttpRequest) -> HttpResponse | None:
        """Answer a page; None when the path is not one of these pages'."""
        path = request.path.rstrip("/")
        # Split before it is decoded: an id with an escaped slash is an id, and no such thing.
        parts = [unquote(part) for part in path.split("/")[3:]]
        if not parts and path == HOME_PATH.rstrip("/"):
            answer = self._home
        elif path in (STATUS_PATH, SERVERLESS_PATH):
            answer = self._status
        elif path == SPARK_PATH:
            answer = self._spark
        elif path == HISTORY_PATH or path.startswith(f"{HISTORY_PATH}/"):
            answer = self._history
        elif path.startswith((f"{STATUS_PATH}/", f"{SERVERLESS_PATH}/")):
            answer = self._part
        else:
            return None
        if request.method not in ("GET", "HEAD"):
            sentence = f"{request.method} is not for {request.path}."
            return refusal(request, 405, "Not allowed", sentence)
        return answer(request, parts)

    def _home(self, request: HttpRequest, _: list[str]) -> HttpResponse:
        if wants_json(request):
            base = self.endpoint_url()
            return json_response({"pages": {f"{base}{path}": text for path, text in _PAGES}})
        rows = [(link(path, path), text) for path, text in _PAGES]
        rows.append(
            (element("code", _LAMBDA_TRACE), "Lambda: what a mapping did with a record (JSON)")
        )
        return page("headrace", table((), rows))

    def _status(self, request: HttpRequest, _: list[str]) -> HttpResponse:
        if wants_json(request):
            base = self.endpoint_url()
            return json_response(
                {
                    "clusters": self.emr.described(base),
                    "applications": self.serverless.described(base),
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
            trail=[(HOME_PATH, "headrace")],
            refresh_s=REFRESH_S if self.emr.busy or self.serverless.busy else IDLE_REFRESH_S,
        )

    def _spark(self, request: HttpRequest, _: list[str]) -> HttpResponse:
        return json_response({"problem": why_no_spark()})

    def _part(self, request: HttpRequest, parts: list[str]) -> HttpResponse:
        pages = self.serverless if request.path.startswith(f"{SERVERLESS_PATH}/") else self.emr
        return pages.answer(request, parts, self.endpoint_url())

    def _history(self, request: HttpRequest, parts: list[str]) -> HttpResponse:
        """Start the history server if need be, and lead there: to an application's page if one is named."""
        if foreign_origin(request.headers) is not None:
            # A link of another site may show a page; a process is started by somebody who is here.
            here = link(request.path, "Start the history server, or go on to it")
            return page("Spark history", element("p", here), trail=[(HOME_PATH, "headrace")])
        application_id = "/".join(parts[1:])
        known = link_event_logs(self.data_dir)
        if application_id and application_id not in known:
            sentence = f"There is no event log of an application {application_id}."
            return refusal(request, 404, "No such application", sentence)
        try:
            url = self.history.ensure(application_id or None)
        except JobRefused as error:
            return refusal(request, 503, "No history server", str(error))
        return HttpResponse(302, [("Location", url), ("Cache-Control", "no-store")])
