"""Refuses mappings of parameters, and templates of media types, that AWS refuses of methods and integrations.

Recorded: a boolean as a mapping, and a number as a media type (LocalStack's apigateway/test_apigateway_api.py, 2024 and
2025). Observed by users: a parameter that the method's response, or the method, does not declare (issues of Ansible and
of AWS's operators). Documented: the expressions (apigateway/latest/developerguide/request-response-data-mappings.html);
names have dots too, as hub.mode of webhooks.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from headrace.services.apigateway.refusals import bad_request, names_of

_SOURCES = r"'.*'|stageVariables\..+|context\..+"
_PLACES = r"(querystring|path|header)\.[^\s]+"
_DECLARED = re.compile(rf"method\.request\.{_PLACES}", re.ASCII)
_OF_MANY = re.compile(r"multivalue(querystring|header)\.")
_BY_SIDE = {
    "request": (
        re.compile(rf"integration\.request\.{_PLACES}", re.ASCII),
        re.compile(
            rf"{_SOURCES}|method\.request\.(body(\..+)?|(multivalue)?{_PLACES}|multivalue{_PLACES})",
            re.ASCII | re.DOTALL,
        ),
    ),
    "response": (
        re.compile(r"method\.response\.header\.[^\s]+", re.ASCII),
        re.compile(
            rf"{_SOURCES}|integration\.response\.(body(\..+)?|(multivalue)?header\.[^\s]+)",
            re.ASCII | re.DOTALL,
        ),
    ),
}
_MEDIA_TYPE = re.compile(r"[^/\s]+/[^/\s;]+(\s*;.*)?")


def check_request(response: Any) -> None:
    """Refuse a new integration's mappings and templates."""
    _, api_id, _, resource_id, _, method, *_ = names_of(response)
    found = response.backend.get_method(api_id, resource_id, method)
    check_mappings(
        "request", response._get_param("requestParameters") or {}, found.request_parameters or ()
    )
    check_media_types(response._get_param("requestTemplates") or ())


def check_response(response: Any) -> None:
    """Refuse the mappings and templates of an integration's new response."""
    _, api_id, _, resource_id, _, method, *_, code = names_of(response)
    found = response.backend.get_method(api_id, resource_id, method).method_responses.get(code)
    declared = () if found is None else found.response_parameters or ()
    check_mappings("response", response._get_param("responseParameters") or {}, declared)
    check_media_types(response._get_param("responseTemplates") or ())


def check_mappings(side: str, mappings: Mapping[str, Any], declared: Collection[str]) -> None:
    """Refuse mappings to a `request` or from a `response`: of wrong forms, or of parameters that are not declared."""
    target, source = _BY_SIDE[side]
    wrong: list[str] = []
    for name, value in mappings.items():
        read, expression = _OF_MANY.sub(r"\1.", str(value)), str(value)
        if not source.fullmatch(expression):
            wrong.append(f"Invalid mapping expression specified: {expression}")
        elif not target.fullmatch(name) or (side == "response" and name not in declared):
            wrong.append(f"Invalid mapping expression parameter specified: {name}")
        elif side == "request" and _DECLARED.fullmatch(read) and read not in declared:
            wrong.append(f"Invalid mapping expression parameter specified: {expression}")
    if wrong:
        raise bad_request(f"Invalid mapping expression specified: {_of(wrong)}")


def check_media_types(templates: Collection[str]) -> None:
    """Refuse templates of what is no media type."""
    wrong = [kind for kind in templates if not _MEDIA_TYPE.fullmatch(kind)]
    if wrong:
        raise bad_request(_of([f"Invalid content type specified: {kind}" for kind in wrong]))


def _of(wrong: list[str]) -> str:
    return f"Validation Result: warnings : [], errors : [{', '.join(wrong)}]"
