"""CloudWatch Logs: saved queries of Logs Insights, which moto lacks. They are stored and never run.

Source: API_PutQueryDefinition, API_DescribeQueryDefinitions, API_DeleteQueryDefinition; the errors' sentences are
assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import uuid
from typing import Any

from headrace.moto.current_cloud import CURRENT

# The quota for an account in a region (documented: CloudWatch Logs quotas).
MOST = 1_000
PAGE = 1_000


def patch() -> None:
    """Add the three operations to moto's Logs."""
    from moto.logs.responses import LogsResponse

    response: Any = LogsResponse
    response.put_query_definition = _put
    response.describe_query_definitions = _describe
    response.delete_query_definition = _delete


def _get_saved(backend: Any) -> dict[str, dict[str, Any]]:
    """Return a backend's definitions by id; a backend that an older headrace has stored has no such attribute."""
    return vars(backend).setdefault("query_definitions", {})


def _put(self: Any) -> str:
    from moto.logs.exceptions import LimitExceededException

    saved = _get_saved(self.logs_backend)
    key = self._get_param("queryDefinitionId")
    if key:
        _check_there(saved, key)
    elif len(saved) >= MOST:
        raise LimitExceededException()
    else:
        key = str(uuid.uuid4())
    saved[key] = {
        "queryLanguage": self._get_param("queryLanguage") or "CWLI",
        "queryDefinitionId": key,
        "name": self._get_param("name"),
        "queryString": self._get_param("queryString"),
        "lastModified": CURRENT.clock.now_ms(),
        "logGroupNames": self._get_param("logGroupNames") or [],
    }
    return json.dumps({"queryDefinitionId": key})


def _describe(self: Any) -> str:
    prefix = self._get_param("queryDefinitionNamePrefix") or ""
    language = self._get_param("queryLanguage")
    after = self._get_param("nextToken") or ""
    most = self._get_param("maxResults") or PAGE
    definitions = sorted(
        (
            one
            for one in _get_saved(self.logs_backend).values()
            if one["name"].startswith(prefix) and language in (None, one["queryLanguage"])
        ),
        key=_place,
    )
    rest = [one for one in definitions if _place(one) > after]
    answer: dict[str, Any] = {"queryDefinitions": rest[:most]}
    if len(rest) > most:
        answer["nextToken"] = _place(rest[most - 1])
    return json.dumps(answer)


def _delete(self: Any) -> str:
    saved = _get_saved(self.logs_backend)
    key = self._get_param("queryDefinitionId")
    _check_there(saved, key)
    del saved[key]
    return json.dumps({"success": True})


def _place(definition: dict[str, Any]) -> str:
    return f"{definition['name']}\n{definition['queryDefinitionId']}"


def _check_there(saved: dict[str, Any], key: str) -> None:
    from moto.logs.exceptions import ResourceNotFoundException

    if key not in saved:
        raise ResourceNotFoundException("The specified query definition does not exist.")
