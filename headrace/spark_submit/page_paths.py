"""Where the cloud's pages about Spark jobs are: what services tell their callers; `headrace.pages` serves them."""

from __future__ import annotations

from urllib.parse import quote

STATUS_PATH = "/_headrace/emr"
SERVERLESS_PATH = "/_headrace/emr-serverless"
HISTORY_PATH = f"{STATUS_PATH}/history"


def history_path(application_id: str) -> str:
    """Return the path that leads to an application's history."""
    return f"{HISTORY_PATH}/{quote(application_id, safe='')}"
