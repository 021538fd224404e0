"""Shared parts of the pages of steps and job runs: links to the Spark UI, the history server and the logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.html import Html, element, join, link, table
from headrace.pages.routes import HOME
from headrace.spark_submit.configuration import event_logs, live_url
from headrace.spark_submit.logs import tail
from headrace.spark_submit.page_paths import STATUS_PATH, history_path

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
