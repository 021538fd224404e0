"""What the pages of steps and of job runs have in common: links to the Spark UI, the history and the logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.html import Html, element, join, link, table
from headrace.pages.parts import HOME
from headrace.spark_submit.logs import tail
from headrace.spark_submit.page_paths import STATUS_PATH, history_path
from headrace.spark_submit.ui import event_logs, live_url

# What stands above the page of a cluster, an application, a step or a job run.
TRAIL = (HOME, (STATUS_PATH, "EMR"))
MOST_LOG_BYTES = 1024 * 1024
# How much of the end of a log a job's page shows.
EXCERPT_BYTES = 16 * 1024
REFRESH_S = 5
IDLE_REFRESH_S = 30


@dataclass(frozen=True, slots=True)
class SparkLinks:
    """Where a job's Spark UIs are.

    Attributes:
        live: the URL of the UI of the application that runs now.
        applications: Spark's ids of the applications that have an event log, oldest first.
    """

    live: str | None
    applications: list[str]

    def html(self, *, running: bool) -> Html:
        """Return the links: the live UI while there is one, the history of what is over."""
        over = self.applications[:-1] if self.live and running else self.applications
        live = link(self.live, "Spark UI") if self.live else None
        return join([live, *(link(history_path(name), f"history of {name}") for name in over)], " ")

    def described(self, base: str) -> dict[str, Any]:
        """Return the links as JSON values; `base` is the cloud's URL."""
        return {
            "live": self.live,
            "applications": [
                {"id": name, "history": f"{base}{history_path(name)}"} for name in self.applications
            ],
        }


def spark_links(folder: Path, *, running: bool) -> SparkLinks:
    """Return where the Spark UIs of the job in `folder` are."""
    names = [log.application_id for log in event_logs(folder)]
    return SparkLinks(live_url(folder) if running else None, names)


def facts_table(facts: Iterable[tuple[object, object]]) -> Html:
    """Return names and values as a table, without those that have no value."""
    return table((), ((element("b", name), value) for name, value in facts if value))


def log_links(path: str, names: list[str]) -> Html:
    """Return links to a job's logs; `path` is the job's page."""
    return join((link(f"{path}/{name}", name) for name in names), " ")


def log_text(file: Path) -> str:
    """Return the end of a log, and a line that says what is missing."""
    text = tail(file, MOST_LOG_BYTES)
    try:
        hidden_bytes = max(0, file.stat().st_size - MOST_LOG_BYTES)
    except OSError:
        hidden_bytes = 0
    if hidden_bytes:
        text = f"[the first {hidden_bytes:,} bytes are not shown]\n{text}"
    return text


def log_excerpts(path: str, folder: Path, names: list[str]) -> list[Html]:
    """Return the ends of those logs that hold something, each below a link to all of it."""
    shown: list[Html] = []
    for name in names:
        text = tail(folder / name, EXCERPT_BYTES)
        if text:
            shown += [element("h2", link(f"{path}/{name}", name)), element("pre", text)]
    return shown
