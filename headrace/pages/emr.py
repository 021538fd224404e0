"""Clusters and steps on the status page, the pages of each, and what they share with those of job runs.

Shared parts of the pages of steps and job runs: links to the Spark UI, the history server and the logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from headrace.core.clock import Clock
from headrace.pages.routes import HOME, refusal, state, text_response, wants_json
from headrace.services.emr.state import ENDED_CLUSTER, Cluster, Step, StepState, Store
from headrace.services.emr.step_logs import application_of
from headrace.spark_submit import STATUS_PATH, history_path
from headrace.spark_submit.configuration import event_logs, live_url
from headrace.spark_submit.logs import LOGS, log_location, tail

_CLIENT_LOGS = ("client/stderr", "client/stdout")
# How many steps the status page shows; the cluster's own page shows more, also up to a limit.
STEPS_SHOWN = 10
MOST_STEPS_SHOWN = 500
_STEP_HEADERS = ("Step", "State", "Begun (UTC)", "Took", "Spark", "Logs", "Failure")


class EmrPages:
    """The pages. Thread-safe: they only read.

    Args:
        folder: the service's folder, which holds a folder for each cluster.
    """

    def __init__(self, clock: Clock, store: Store, folder: Path) -> None:
        self._clock = clock
        self._store = store
        self._folder = folder

    # --- for the status page ------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a cluster or step that a page shows is still changing."""
        return any(
            step.active for cluster in self._active_clusters() for step in self._steps(cluster)
        )

    def section(self, most: int) -> Html:
        """Return the newest clusters, each with its newest steps."""
        clusters = self._clusters()
        shown = clusters[:most]
        parts = [self._cluster_section(cluster, STEPS_SHOWN) for cluster in shown]
        if not clusters:
            parts = [element("p", "There are no clusters.", class_="dim")]
        if len(clusters) > len(shown):
            more = link(f"{STATUS_PATH}?all=1", f"{len(clusters) - len(shown)} older clusters")
            parts.append(element("p", more))
        return join(parts)

    def describe(self, base: str) -> list[dict[str, Any]]:
        """Return all clusters as JSON values, newest first; `base` is the cloud's URL."""
        return [self._describe(cluster, base) for cluster in self._clusters()]

    # --- pages --------------------------------------------------------------------------------

    def answer(self, request: HttpRequest, path: Sequence[str], base: str) -> HttpResponse:
        """Answer a page below `/_headrace/emr/`; `path` is the rest of its path, decoded and split."""
        cluster = next((c for c in self._clusters() if c.id == path[0]), None)
        if cluster is None:
            return refusal(request, 404, "No such cluster", f"There is no cluster {path[0]}.")
        if len(path) == 1:
            return self._cluster_page(request, cluster, base)
        step = self._store.step(cluster.id, path[1])
        if step is None:
            sentence = f"There is no step {path[1]} in cluster {cluster.id}."
            return refusal(request, 404, "No such step", sentence)
        if len(path) == 2:
            return self._step_page(request, cluster, step, base)
        name = "/".join(path[2:])
        if name not in (*LOGS, *_CLIENT_LOGS):
            return refusal(request, 404, "No such log", f"A step has no log {name}.")
        return text_response(log_text(self._step_folder(step) / name))

    def _cluster_page(self, request: HttpRequest, cluster: Cluster, base: str) -> HttpResponse:
        if wants_json(request):
            return json_response(self._describe(cluster, base))
        ended = cluster.state in ENDED_CLUSTER
        return page(
            cluster.name or cluster.id,
            self._cluster_section(cluster, MOST_STEPS_SHOWN),
            trail=TRAIL,
            refresh_s=None if ended else REFRESH_S if self.busy else IDLE_REFRESH_S,
        )

    def _step_page(
        self, request: HttpRequest, cluster: Cluster, step: Step, base: str
    ) -> HttpResponse:
        if wants_json(request):
            return json_response(self._describe_step(cluster, step, base))
        folder, path = self._step_folder(step), _path(cluster, step)
        facts: list[tuple[object, object]] = [
            ("State", join([state(step.state), step.reason_message], " ")),
            ("Id", element("code", step.id)),
            ("Cluster", link(_path(cluster), f"{cluster.name} {cluster.id}")),
            ("Created (UTC)", time_of(step.created_ms)),
            ("Begun", time_of(step.started_ms)),
            ("Ended", time_of(step.ended_ms)),
            ("Took", self._took(step)),
            ("On failure", step.action_on_failure),
            ("Jar", element("code", step.jar)),
            ("Arguments", element("code", " ".join(step.args))),
            ("Spark", spark_links(folder, running=_runs(step)).html(running=_runs(step))),
            ("Logs", log_links(path, self._logs(step))),
            ("In S3", element("code", " ".join(_log_uris(cluster, step)))),
            *((name, value) for name, value in step.failure.items()),
        ]
        return page(
            step.name or step.id,
            facts_table(facts),
            *log_excerpts(path, folder, self._logs(step)),
            trail=[*TRAIL, (_path(cluster), cluster.name or cluster.id)],
            refresh_s=REFRESH_S if step.active else None,
        )

    # --- parts --------------------------------------------------------------------------------

    def _cluster_section(self, cluster: Cluster, most: int) -> Html:
        steps = list(reversed(self._steps(cluster)))
        reason = ": ".join(text for text in (cluster.reason_code, cluster.reason_message) if text)
        parts: list[object] = [
            element(
                "h2",
                join([link(_path(cluster), cluster.name or cluster.id), state(cluster.state)], " "),
            ),
            element(
                "p",
                join([element("code", cluster.id), cluster.region, cluster.account], " · "),
                " · created ",
                time_of(cluster.created_ms),
                " UTC",
                join([" · ended ", time_of(cluster.ended_ms), " UTC"])
                if cluster.ended_ms
                else None,
                f" · {reason}" if reason else None,
                class_="dim",
            ),
        ]
        if steps:
            parts.append(table(_STEP_HEADERS, (self._row(cluster, s) for s in steps[:most])))
        else:
            parts.append(element("p", "It has no steps.", class_="dim"))
        if len(steps) > most:
            more = f"{len(steps) - most} older steps"
            shown = link(_path(cluster), more) if most < MOST_STEPS_SHOWN else more
            parts.append(element("p", shown))
        return join(parts)

    def _row(self, cluster: Cluster, step: Step) -> list[object]:
        path = _path(cluster, step)
        running = _runs(step)
        return [
            join([link(path, step.name or step.id), element("code", step.id, class_="dim")], " "),
            state(step.state),
            time_of(step.started_ms),
            self._took(step),
            spark_links(self._step_folder(step), running=running).html(running=running),
            log_links(path, self._logs(step)),
            step.failure.get("Message", "") or step.reason_message,
        ]

    def _describe(self, cluster: Cluster, base: str) -> dict[str, Any]:
        return {
            "id": cluster.id,
            "name": cluster.name,
            "account": cluster.account,
            "region": cluster.region,
            "state": cluster.state,
            "reason": {"code": cluster.reason_code, "message": cluster.reason_message},
            "created": iso_time(cluster.created_ms),
            "ready": iso_time(cluster.ready_ms),
            "ended": iso_time(cluster.ended_ms),
            "page": f"{base}{_path(cluster)}",
            "steps": [
                self._describe_step(cluster, step, base) for step in reversed(self._steps(cluster))
            ],
        }

    def _describe_step(self, cluster: Cluster, step: Step, base: str) -> dict[str, Any]:
        path = f"{base}{_path(cluster, step)}"
        links = spark_links(self._step_folder(step), running=_runs(step))
        return {
            "id": step.id,
            "name": step.name,
            "state": step.state,
            "reason": step.reason_message,
            "created": iso_time(step.created_ms),
            "started": iso_time(step.started_ms),
            "ended": iso_time(step.ended_ms),
            "failure": step.failure,
            "page": path,
            "spark": links.describe(base),
            "logs": {name: f"{path}/{name}" for name in self._logs(step)},
            "log_uris": _log_uris(cluster, step),
        }

    def _logs(self, step: Step) -> list[str]:
        """Return a step's logs; in cluster mode these are the logs of the spark-submit client."""
        folder = self._step_folder(step)
        names = ("stderr", "stdout", *_CLIENT_LOGS, "controller", "syslog")
        return [name for name in names if (folder / name).is_file()]

    def _step_folder(self, step: Step) -> Path:
        return self._folder / step.cluster_id / step.id

    def _took(self, step: Step) -> Html:
        return duration_of(step.started_ms, step.ended_ms or self._clock.now_ms())

    def _clusters(self) -> list[Cluster]:
        return list(reversed(self._store.clusters()))

    def _active_clusters(self) -> list[Cluster]:
        return [c for c in self._store.clusters() if c.state not in ENDED_CLUSTER]

    def _steps(self, cluster: Cluster) -> list[Step]:
        return self._store.steps(cluster.id)


def _runs(step: Step) -> bool:
    return step.state in (StepState.RUNNING, StepState.CANCEL_PENDING)


def _path(cluster: Cluster, step: Step | None = None) -> str:
    path = f"{STATUS_PATH}/{cluster.id}"
    return path if step is None else f"{path}/{step.id}"


def _log_uris(cluster: Cluster, step: Step) -> list[str]:
    """Return the S3 URIs of a step's logs, and in cluster mode also of its driver's logs."""
    uri = step.log_uri_in(cluster)
    if uri is None:
        return []
    below = [f"{cluster.id}/steps/{step.id}"]
    application = application_of(cluster, step)
    if application is not None:
        below.append(f"{cluster.id}/containers/{application.id}/{application.container}")
    places = [log_location(uri, name) for name in below]
    return [
        f"s3://{bucket_and_key[0]}/{bucket_and_key[1]}"
        for bucket_and_key in places
        if bucket_and_key is not None
    ]


# The page above the page of a cluster, an application, a step or a job run.
TRAIL = (HOME, (STATUS_PATH, "EMR"))
MOST_LOG_BYTES = 1024 * 1024
# How much of a log's end a job's page shows.
EXCERPT_BYTES = 16 * 1024
REFRESH_S = 5
IDLE_REFRESH_S = 30


@dataclass(frozen=True, slots=True)
class SparkLinks:
    """The places of a job's Spark UIs.

    Attributes:
        live: the UI's URL while the application runs.
        applications: the Spark application ids that have an event log, oldest first.
    """

    live: str | None
    applications: list[str]

    def html(self, *, running: bool) -> Html:
        """Return the links: to the live UI while it exists, and to the history server for finished applications."""
        over = self.applications[:-1] if self.live and running else self.applications
        live = link(self.live, "Spark UI") if self.live else None
        return join([live, *(link(history_path(name), f"history of {name}") for name in over)], " ")

    def describe(self, base: str) -> dict[str, Any]:
        """Return the links as JSON values; `base` is the cloud's URL."""
        return {
            "live": self.live,
            "applications": [
                {"id": name, "history": f"{base}{history_path(name)}"} for name in self.applications
            ],
        }


def spark_links(folder: Path, *, running: bool) -> SparkLinks:
    """Return the places of the Spark UIs of the job in `folder`."""
    names = [log.application_id for log in event_logs(folder)]
    return SparkLinks(live_url(folder) if running else None, names)


def facts_table(facts: Iterable[tuple[object, object]]) -> Html:
    """Return names and values as a table, without empty values."""
    return table((), ((element("b", name), value) for name, value in facts if value))


def log_links(path: str, names: list[str]) -> Html:
    """Return links to a job's logs; `path` is the job's page."""
    return join((link(f"{path}/{name}", name) for name in names), " ")


def log_text(file: Path) -> str:
    """Return a log's end, below a line that says how much is left out."""
    text = tail(file, MOST_LOG_BYTES)
    try:
        hidden_bytes = max(0, file.stat().st_size - MOST_LOG_BYTES)
    except OSError:
        hidden_bytes = 0
    if hidden_bytes:
        text = f"[the first {hidden_bytes:,} bytes are not shown]\n{text}"
    return text


def log_excerpts(path: str, folder: Path, names: list[str]) -> list[Html]:
    """Return the ends of the logs that are not empty, each below a link to the whole log."""
    shown: list[Html] = []
    for name in names:
        text = tail(folder / name, EXCERPT_BYTES)
        if text:
            shown += [element("h2", link(f"{path}/{name}", name)), element("pre", text)]
    return shown
