"""What answers about REST APIs, keys and usage plans show of tags and values, and their status.

As recorded from AWS (LocalStack's apigateway/test_apigateway_api.py and test_apigateway_common.py, 2023 and 2024).
"""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import functools
import json
from typing import Any


def patch_responses(response: Any) -> None:
    """Change the answers of `moto.apigateway.responses`."""
    for name in ("create_rest_api", "delete_model", "put_gateway_response"):
        setattr(response, name, _with_status(getattr(response, name)))
    response.delete_gateway_response = _with_status(response.delete_gateway_response)
    response.delete_rest_api = _delete_api(response.delete_rest_api)
    response.update_api_key = _without_value(response.update_api_key)
    for name in ("get_rest_apis", "get_usage_plans", "get_api_keys"):
        setattr(response, name, _list_without_empty_tags(getattr(response, name)))
    for name in ("get_usage_plan", "update_usage_plan", "get_api_key", "update_api_key"):
        setattr(response, name, _with_tags(getattr(response, name)))


def _with_status(call: Any) -> Any:
    """Let an answer have its status, for which moto looks among the headers."""

    @functools.wraps(call)
    def answer_with_status(self: Any) -> Any:
        status, headers, body = call(self)
        return status, {**headers, "status": status}, body

    return answer_with_status


def without_empty_tags(shown: dict[str, Any]) -> dict[str, Any]:
    """Leave out tags that are not there, as answers to calls that make or list do; recorded."""
    return {name: value for name, value in shown.items() if name != "tags" or value}


def _list_without_empty_tags(get_all: Any) -> Any:
    @functools.wraps(get_all)
    def get_without_empty_tags(self: Any) -> Any:
        shown = json.loads(get_all(self))
        return json.dumps({"item": [without_empty_tags(one) for one in shown["item"]]})

    return get_without_empty_tags


def _with_tags(get: Any) -> Any:
    """Show tags, also when there are none, as answers about one thing do; recorded."""

    @functools.wraps(get)
    def get_with_tags(self: Any) -> Any:
        shown = json.loads(get(self))
        return json.dumps({**shown, "tags": shown.get("tags") or {}})

    return get_with_tags


def _delete_api(delete: Any) -> Any:
    @functools.wraps(delete)
    def delete_rest_api(self: Any) -> Any:
        delete(self)
        return 202, {"status": 202}, ""

    return delete_rest_api


def _without_value(update: Any) -> Any:
    @functools.wraps(update)
    def update_api_key(self: Any) -> Any:
        shown = json.loads(update(self))
        return json.dumps({name: value for name, value in shown.items() if name != "value"})

    return update_api_key
