"""Applies an integration's mappings to a request and to its answer. Pure functions."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from headrace.aws.calls.http import HttpResponse
from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern
from headrace.services.apigateway.invocation.functions import Refused
from headrace.services.apigateway.invocation.mapping_variables import (
    Overrides,
    RequestValues,
    fill_template,
    members,
    parse_body,
    text_at,
)
from headrace.services.apigateway.invocation.service_calls import IntegrationAnswer
from headrace.services.apigateway.velocity.velocity import TemplateError

_JSON = "application/json"


def with_variables(uri: str, variables: Mapping[str, str]) -> str:
    """Return a URI with each `${stageVariables.NAME}` replaced."""
    for name, value in variables.items():
        uri = uri.replace(f"${{stageVariables.{name}}}", value)
    return uri


def pairs(target: str) -> list[tuple[str, str]]:
    """Return the query parameters in an integration's URI."""
    return parse_qsl(target.partition("?")[2], keep_blank_values=True)


def request_body(
    integration: Mapping[str, Any], seen: RequestValues, overrides: Overrides
) -> str | None:
    """Return the integration's request body; None for a refused media type. Raises TemplateError.

    Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/integration-passthrough-behaviors.html
    """
    templates: Mapping[str, Any] = members(integration.get("requestTemplates"))
    kind = seen.header.get("content-type", _JSON).partition(";")[0].strip() or _JSON
    if kind in templates:
        return fill_template(str(templates[kind] or ""), seen.body, seen, overrides)
    behaviour = integration.get("passthroughBehavior") or "WHEN_NO_MATCH"
    if behaviour == "NEVER" or (behaviour == "WHEN_NO_TEMPLATES" and templates):
        return None
    return seen.body


def request_parameters(
    integration: Mapping[str, Any], seen: RequestValues, overrides: Overrides
) -> dict[str, dict[str, str]]:
    """Return the integration's header (by lower-case name), path and querystring parameters."""
    request_values: dict[str, dict[str, str]] = {"header": {}, "path": {}, "querystring": {}}
    mapped: Mapping[str, Any] = members(integration.get("requestParameters"))
    for name, source in mapped.items():
        kind, _, key = name.removeprefix("integration.request.").partition(".")
        value = seen.parameter(str(source))
        if value is not None and kind in request_values:
            request_values[kind][key.lower() if kind == "header" else key] = value
    for kind, values in request_values.items():
        for name, value in members(overrides.request.get(kind)).items():
            values[name.lower() if kind == "header" else name] = str(value)
    return request_values


def response(
    integration: Mapping[str, Any],
    answered: IntegrationAnswer,
    outcome: str,
    seen: RequestValues,
    overrides: Overrides,
    is_binary: Callable[[str], bool],
) -> tuple[int, list[tuple[str, str]], bytes] | None:
    """Return the client's status, headers and body; None without a matching response. Raises TemplateError.

    `is_binary` tells whether a header names one of the API's binary media types.
    """
    responses: Mapping[str, Any] = members(integration.get("integrationResponses"))
    chosen = _choose_response(
        list(responses.values()), outcome, is_mock=str(integration["type"]).upper() == "MOCK"
    )
    if chosen is None:
        return None
    templates: Mapping[str, Any] = members(chosen.get("responseTemplates"))
    text = answered.body.decode(errors="replace")
    accepted = seen.header.get("accept", "").partition(",")[0].partition(";")[0].strip()
    kind = next(
        (candidate for candidate in (accepted, _JSON, *templates) if candidate in templates), None
    )
    body = answered.body
    if kind is not None and templates[kind]:
        body = fill_template(str(templates[kind]), text, seen, overrides).encode()
    body = _convert(
        body,
        str(chosen.get("contentHandling") or ""),
        comes_binary=is_binary(answered.headers.get("content-type", "")),
        goes_binary=is_binary(seen.header.get("accept", "")),
    )
    headers = [("Content-Type", kind or _JSON)]
    mapped: Mapping[str, Any] = members(chosen.get("responseParameters"))
    for name, source in mapped.items():
        value = _of_answer(str(source), answered, text, seen)
        if value is not None:
            header = name.removeprefix("method.response.header.")
            if header.lower() == "content-type":
                headers = []
            headers.append((header, value))
    override = overrides.response
    changed = {name.lower(): str(value) for name, value in members(override["header"]).items()}
    headers = [candidate for candidate in headers if candidate[0].lower() not in changed]
    status = override.get("status") or chosen["statusCode"]
    return int(status), [*headers, *changed.items()], body


TO_BINARY, TO_TEXT = "CONVERT_TO_BINARY", "CONVERT_TO_TEXT"


def from_base64(body: bytes | str) -> bytes:
    """Return the bytes of a body in Base64. Raises TemplateError for another one."""
    try:
        return base64.b64decode(body, validate=True)
    except ValueError as error:
        raise TemplateError(f"the body is not Base64: {error}") from error


def _convert(body: bytes, handling: str, *, comes_binary: bool, goes_binary: bool) -> bytes:
    """Return an integration's body as the client gets it.

    Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-payload-encodings-workflow.html
    """
    if comes_binary:
        is_text = handling == TO_TEXT or (not handling and not goes_binary)
        return base64.b64encode(body) if is_text else body
    is_decoded = handling == TO_BINARY or (not handling and goes_binary)
    return from_base64(body) if is_decoded else body


def _choose_response(
    responses: list[Mapping[str, Any]], outcome: str, *, is_mock: bool
) -> Mapping[str, Any] | None:
    """Return the integration response whose pattern matches the outcome, or the one without a pattern."""
    default = None
    for candidate in responses:
        pattern = candidate.get("selectionPattern")
        if not pattern:
            is_default = not is_mock or str(candidate.get("statusCode")) == outcome
            default = candidate if default is None or (is_mock and is_default) else default
        elif fits(str(pattern), outcome):
            return candidate
    return default


def fits(pattern: str, outcome: str) -> bool:
    """Whether a response's selection pattern matches an outcome. Raises TemplateError for a pattern that is none."""
    try:
        return bool(outcome) and java_pattern(pattern).matches(outcome)
    except (PatternRefused, MatchTooLong) as error:
        raise TemplateError(f"the selection pattern cannot be used: {error}") from error


def _of_answer(
    source: str, answered: IntegrationAnswer, text: str, seen: RequestValues
) -> str | None:
    if source.startswith("integration.response.header."):
        return answered.headers.get(source.removeprefix("integration.response.header.").lower())
    if source == "integration.response.body":
        return text
    if source.startswith("integration.response.body."):
        return text_at(parse_body(text), source.removeprefix("integration.response.body."))
    return seen.parameter(source)


_NAME = r"(?:context|stageVariables|method\.request)\.[\w.-]*\w"
_VARIABLE = re.compile(rf"\$(?:\{{({_NAME})\}}|({_NAME}))")


def gateway_response(
    responses: Mapping[str, Mapping[str, Any]], refused: Refused, seen: RequestValues
) -> HttpResponse:
    """Return the answer to a refused request, as the API's own gateway responses shape it.

    Documented: apigateway/latest/developerguide/api-gateway-gatewayResponse-definition.html: their templates know
    variables, and no statements.
    """
    own = responses.get(refused.response_type) or {}
    default = responses.get("DEFAULT_5XX" if refused.status >= 500 else "DEFAULT_4XX") or {}
    shape = own or default
    error = {
        "message": refused.message,
        "messageString": json.dumps(refused.message),
        "responseType": refused.response_type
        or ("DEFAULT_5XX" if refused.status >= 500 else "DEFAULT_4XX"),
        "validationErrorString": refused.details,
    }
    seen = replace(seen, context={**seen.context, "error": error})
    headers = [("x-amzn-ErrorType", refused.kind)] if refused.kind else []
    for name, source in members(shape.get("responseParameters")).items():
        value = seen.parameter(str(source))
        if value is not None and name.startswith("gatewayresponse.header."):
            headers.append((name.removeprefix("gatewayresponse.header."), value))
    templates = members(shape.get("responseTemplates"))
    kind = _JSON if _JSON in templates else next(iter(templates), _JSON)
    text = str(templates.get(kind) or '{"message":$context.error.messageString}')

    def variable(match: re.Match[str]) -> str:
        return seen.parameter(match[1] or match[2]) or ""

    body = _VARIABLE.sub(variable, text)
    return HttpResponse(
        int(shape.get("statusCode") or refused.status),
        [("Content-Type", kind), *headers],
        body.encode(errors="replace"),
    )
