"""The pages about Spark jobs: clusters, steps, applications, job runs, and whether this machine can run jobs.

Applications and job runs on the status page, and each run's page, whose URL GetDashboardForJobRun returns.

The pages are `/_headrace/emr-serverless/<application>/<job run>[/<log>]`; `?attempt=<number>` shows an earlier attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import (
    Html,
    duration_of,
    element,
    iso_time,
    join,
    json_response,
    link,
    page,
    table,
    time_of,
)
from headrace.aws.gateway.hosts import foreign_origin
from headrace.core.clock import Clock
from headrace.pages.emr import (
    IDLE_REFRESH_S,
    REFRESH_S,
    TRAIL,
    EmrPages,
    SparkLinks,
    facts_table,
    log_excerpts,
    log_links,
    log_text,
    spark_links,
)
from headrace.pages.routes import HOME, Route, for_people, refusal, state, text_response, wants_json
from headrace.services.emr_serverless.runner import LOGS, attempt_folder
from headrace.services.emr_serverless.state import Application, Attempt, JobRun, Store
from headrace.spark_submit import HISTORY_PATH, SERVERLESS_PATH, STATUS_PATH, JobRefused
from headrace.spark_submit.history import HistoryOnDemand, link_event_logs
from headrace.spark_submit.sparks import Sparks, why_no_spark

# How many job runs of each application the status page shows.
RUNS_SHOWN = 10
MOST_RUNS_SHOWN = 500
_RUN_HEADERS = ("Job run", "State", "Attempt", "Begun (UTC)", "Took", "Spark", "Logs", "Details")


class ServerlessPages:
    """The pages. Thread-safe: they only read.

    Args:
        folder: the service's folder, which holds a folder for each application.
    """

    def __init__(self, clock: Clock, store: Store, folder: Path) -> None:
        self._clock = clock
        self._store = store
        self._folder = folder

    # --- for the status page ------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether an application or job run that a page shows is still changing."""
        return any(not run.ended for run in self._store.runs())

    def section(self, most: int) -> Html:
        """Return the newest applications, each with its newest job runs."""
        applications = self._applications()
        parts = [self._application_section(a, RUNS_SHOWN) for a in applications[:most]]
        if not applications:
            parts = [element("p", "There are no applications.", class_="dim")]
        if len(applications) > most:
            more = f"{len(applications) - most} older applications"
            parts.append(element("p", link(f"{STATUS_PATH}?all=1", more)))
        return join(parts)

    def describe(self, base: str) -> list[dict[str, Any]]:
        """Return all applications as JSON values, newest first; `base` is the cloud's URL."""
        return [self._describe(application, base) for application in self._applications()]

    # --- pages --------------------------------------------------------------------------------

    def answer(self, request: HttpRequest, path: Sequence[str], base: str) -> HttpResponse:
        """Answer a page below `/_headrace/emr-serverless/`; `path` is the rest of its path, decoded and split."""
        application = self._store.application(path[0])
        if application is None:
            sentence = f"There is no application {path[0]}."
            return refusal(request, 404, "No such application", sentence)
        if len(path) == 1:
            return self._application_page(request, application, base)
        run = self._store.run(path[1])
        if run is None or run.application_id != application.id:
            sentence = f"There is no job run {path[1]} of application {application.id}."
            return refusal(request, 404, "No such job run", sentence)
        attempt = _attempt(run, request)
        if attempt is None:
            return refusal(
                request, 404, "No such attempt", f"Job run {run.id} has no such attempt."
            )
        if len(path) == 2:
            return self._run_page(request, application, run, attempt, base)
        name = "/".join(path[2:])
        if name not in LOGS:
            return refusal(request, 404, "No such log", f"A job run has no log {name}.")
        return text_response(log_text(attempt_folder(self._folder, run, attempt) / name))

    def _application_page(
        self, request: HttpRequest, application: Application, base: str
    ) -> HttpResponse:
        if wants_json(request):
            return json_response(self._describe(application, base))
        return page(
            _name(application),
            self._application_section(application, MOST_RUNS_SHOWN),
            trail=TRAIL,
            refresh_s=REFRESH_S if self.busy else None,
        )

    def _run_page(
        self,
        request: HttpRequest,
        application: Application,
        run: JobRun,
        attempt: Attempt,
        base: str,
    ) -> HttpResponse:
        if wants_json(request):
            return json_response(self._describe_run(run, base))
        path = _path(run)
        facts: list[tuple[object, object]] = [
            ("State", join([state(run.state), run.details], " ")),
            ("ARN", element("code", run.arn)),
            (
                "Application",
                join([link(_path(application), _name(application)), application.state], " "),
            ),
            ("Created (UTC)", time_of(run.created_ms)),
            ("Begun", time_of(run.started_ms)),
            ("Ended", time_of(run.ended_ms)),
            ("Took", self._took(run)),
            ("Spark", self._links(run).html(running=not run.ended)),
        ]
        attempts = table(
            ("Attempt", "State", "Begun (UTC)", "Took", "Spark", "Logs", "Details"),
            (self._attempt_row(run, attempt) for attempt in reversed(run.attempts)),
        )
        folder = attempt_folder(self._folder, run, attempt)
        return page(
            str(run.request.get("name") or run.id),
            facts_table(facts),
            attempts,
            *log_excerpts(path, folder, list(LOGS)),
            trail=[*TRAIL, (_path(application), _name(application))],
            refresh_s=None if run.ended else REFRESH_S,
        )

    # --- parts --------------------------------------------------------------------------------

    def _application_section(self, application: Application, most: int) -> Html:
        runs = list(reversed(self._store.runs(application.id)))
        name = link(_path(application), _name(application))
        facts = [element("code", application.id), application.region, application.account]
        parts: list[object] = [
            element("h2", join([name, state(application.state)], " ")),
            element(
                "p",
                join(facts, " · "),
                " · created ",
                time_of(application.created_ms),
                " UTC",
                f" · {application.details}" if application.details else None,
                class_="dim",
            ),
        ]
        if runs:
            parts.append(table(_RUN_HEADERS, (self._row(run) for run in runs[:most])))
        else:
            parts.append(element("p", "It has had no job runs.", class_="dim"))
        if len(runs) > most:
            more = f"{len(runs) - most} older job runs"
            shown = link(_path(application), more) if most < MOST_RUNS_SHOWN else more
            parts.append(element("p", shown))
        return join(parts)

    def _row(self, run: JobRun) -> list[object]:
        path = _path(run)
        name = str(run.request.get("name") or run.id)
        return [
            join([link(path, name), element("code", run.id, class_="dim")], " "),
            state(run.state),
            run.attempt.number,
            time_of(run.started_ms),
            self._took(run),
            self._links(run).html(running=not run.ended),
            log_links(path, list(LOGS)),
            run.details,
        ]

    def _attempt_row(self, run: JobRun, attempt: Attempt) -> list[object]:
        newest = attempt is run.attempt
        folder = attempt_folder(self._folder, run, attempt)
        running = newest and not run.ended
        query = "" if newest else f"?attempt={attempt.number}"
        ended_ms = attempt.ended_ms or self._clock.now_ms()
        return [
            attempt.number,
            state(attempt.state),
            time_of(attempt.created_ms),
            duration_of(attempt.created_ms, ended_ms),
            spark_links(folder, running=running).html(running=running),
            join((link(f"{_path(run)}/{name}{query}", name) for name in LOGS), " "),
            attempt.details,
        ]

    def _describe(self, application: Application, base: str) -> dict[str, Any]:
        runs = reversed(self._store.runs(application.id))
        return {
            "id": application.id,
            "name": application.request.get("name") or "",
            "account": application.account,
            "region": application.region,
            "state": application.state,
            "reason": application.details,
            "created": iso_time(application.created_ms),
            "page": f"{base}{_path(application)}",
            "job_runs": [self._describe_run(run, base) for run in runs],
        }

    def _describe_run(self, run: JobRun, base: str) -> dict[str, Any]:
        path = f"{base}{_path(run)}"
        return {
            "id": run.id,
            "name": run.request.get("name") or "",
            "state": run.state,
            "reason": run.details,
            "attempt": run.attempt.number,
            "created": iso_time(run.created_ms),
            "started": iso_time(run.started_ms),
            "ended": iso_time(run.ended_ms),
            "page": path,
            "spark": self._links(run).describe(base),
            "logs": {name: f"{path}/{name}" for name in LOGS},
        }

    def _links(self, run: JobRun) -> SparkLinks:
        folder = attempt_folder(self._folder, run, run.attempt)
        return spark_links(folder, running=not run.ended)

    def _took(self, run: JobRun) -> Html:
        return duration_of(run.started_ms, run.ended_ms or self._clock.now_ms())

    def _applications(self) -> list[Application]:
        return list(reversed(self._store.applications()))


def _attempt(run: JobRun, request: HttpRequest) -> Attempt | None:
    """Return the attempt that a request asks for; the default is the newest."""
    number = request.query_params().get("attempt")
    if number is None:
        return run.attempt
    return next((attempt for attempt in run.attempts if str(attempt.number) == number), None)


def _name(application: Application) -> str:
    return str(application.request.get("name") or application.id)


def _path(resource: Application | JobRun) -> str:
    if isinstance(resource, Application):
        return f"{SERVERLESS_PATH}/{resource.id}"
    return f"{SERVERLESS_PATH}/{resource.application_id}/{resource.id}"


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
            # A browser would show nothing while Spark starts; another client waits for the redirection.
            if "text/html" in request.headers.get("accept", "") and self.history.begin():
                sentence = (
                    "Spark's history server is starting: a Java process, which takes some seconds, and longer on a busy"
                    " machine. This page goes on to it by itself."
                )
                return page("Spark history", element("p", sentence), trail=[HOME], refresh_s=1)
            url = self.history.ensure(application_id or None)
        except JobRefused as error:
            return refusal(request, 503, "No history server", str(error))
        return HttpResponse(302, [("Location", url), ("Cache-Control", "no-store")])
