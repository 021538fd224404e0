"""The paths of the cloud's pages about Spark jobs, for services' answers; `headrace.pages` serves the pages."""

from __future__ import annotations

from urllib.parse import quote

STATUS_PATH = "/_headrace/emr"
SERVERLESS_PATH = "/_headrace/emr-serverless"
HISTORY_PATH = f"{STATUS_PATH}/history"


def history_path(application_id: str) -> str:
    """Return the path of an application's history."""
    return f"{HISTORY_PATH}/{quote(application_id, safe='')}"
