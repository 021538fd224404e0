"""The page that GetDashboardForJobRun leads to: a job run's state, its attempts, and the ends of its logs."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from pathlib import Path

from headrace.services.emr_serverless.model import Application, JobRun
from headrace.services.emr_serverless.runner import LOGS, attempt_folder
from headrace.spark_submit.logs import tail

PATH = "/_headrace/emr-serverless"
_STYLE = "body{font:14px sans-serif;margin:2em}pre{background:#f4f4f4;padding:1em;overflow:auto}td,th{padding:.2em 1em}"


def job_page(root: Path, application: Application, run: JobRun) -> str:
    """Return a job run's page as HTML."""
    rows = "".join(
        f"<tr><td>{attempt.number}<td>{attempt.state}<td>{_time(attempt.created_ms)}"
        f"<td>{_time(attempt.ended_ms)}<td>{escape(attempt.details)}"
        for attempt in run.attempts
    )
    folder = attempt_folder(root, run, run.attempt)
    logs = "".join(f"<h2>{name}</h2><pre>{escape(tail(folder / name))}</pre>" for name in LOGS)
    title = escape(str(run.request.get("name") or run.id))
    return (
        f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"
        f"<h1>{title}</h1><p>{run.arn}<p>Application {escape(application.request.get('name') or '')} "
        f"{application.id}: {application.state}<p><b>{run.state}</b> {escape(run.details)}"
        f"<table><tr><th>Attempt<th>State<th>Begun<th>Ended<th>Details{rows}</table>{logs}"
    )


def _time(time_ms: int | None) -> str:
    if time_ms is None:
        return ""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
