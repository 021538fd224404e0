"""Runs `spark-submit` on this machine for EMR's steps and EMR Serverless' job runs."""

from __future__ import annotations

from urllib.parse import quote

# The paths of the cloud's pages about Spark jobs, for services' answers; `headrace.pages` serves the pages.
STATUS_PATH = "/_headrace/emr"
SERVERLESS_PATH = "/_headrace/emr-serverless"
HISTORY_PATH = f"{STATUS_PATH}/history"


def history_path(application_id: str) -> str:
    """Return the path of an application's history."""
    return f"{HISTORY_PATH}/{quote(application_id, safe='')}"


class JobRefused(Exception):
    """A job cannot start; the message is one sentence for the user. The job becomes FAILED."""
