"""Runs the integrations of WebSocket APIs: functions, services by templates, HTTP endpoints, and mocks.

Documented: docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-websocket-api-integrations.html and
apigateway-websocket-api-mapping-template-reference.html.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    ControlPlane,
    FunctionNotFound,
    FunctionThrottled,
    Guard,
    MetricSink,
)
from headrace.core.values import parse_json
from headrace.services.apigateway.invocation import integrations, mappings, service_calls
from headrace.services.apigateway.invocation.apis import HttpApi
from headrace.services.apigateway.invocation.integrations import (
    SERVICE,
    Functions,
    Refused,
    function_of,
)
from headrace.services.apigateway.invocation.mappings import (
    Overrides,
    RequestValues,
    fill_template,
    members,
    parse_body,
    text_at,
)
from headrace.services.apigateway.velocity.velocity import TemplateError

log = logging.getLogger(__name__)

_SESSION = "BackplaneAssumeRoleSession"
DEFAULT = "$default"
# A selection expression: a member of the message, or a text.
_SELECTION = re.compile(r"\$\{?request\.body\.([\w.\-\[\]]+)\}?")


def select(expression: str, message: str | bytes) -> str | None:
    """Return what a selection expression selects of a message; None when it selects nothing."""
    match = _SELECTION.fullmatch(expression.strip())
    if match is None:
        return expression
    try:
        value: Any = parse_json(message)
    except ValueError:
        return None
    return text_at(value, match[1]) if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Services:
    """What WebSocket APIs use of the cloud.

    Attributes:
        host: returns the cloud's host, as functions reach it at port 443.
    """

    functions: Functions
    control: ControlPlane
    guard: Guard
    clock: Clock
    ids: Ids
    metrics: MetricSink
    host: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Turn:
    """One event of a connection, on its way to a route's integration.

    Attributes:
        stage: the stage's name.
        arn: the route's ARN, on whose behalf functions are invoked.
        event: a function's event, as JSON.
        values: what templates read.
    """

    stage: str
    arn: str
    event: bytes
    values: RequestValues


def integrate(
    services: Services, api: HttpApi, route: Mapping[str, Any], turn: Turn
) -> dict[str, Any] | None:
    """Run a route's integration; return what it answers; None without an integration. Raises Refused."""
    integration = api.integrations.get(str(route.get("target") or "").rpartition("/")[2])
    if integration is None:
        return None
    kind = str(integration.get("integrationType")).upper()
    variables = api.stages.get(turn.stage) or {}
    uri = mappings.with_variables(str(integration.get("integrationUri")), variables)
    try:
        if kind == "AWS_PROXY":
            return _invoke(services, api, uri, turn.event, turn)
        if kind == "MOCK":
            return _mock(integration, turn.values)
        if kind == "AWS":
            return _call(services, api, uri, integration, turn)
        if kind in ("HTTP", "HTTP_PROXY"):
            return _ask(uri, integration, turn, is_proxy=kind == "HTTP_PROXY")
    except TemplateError as error:
        log.warning("API %s: a template cannot be filled: %s", api.id, error)
        raise Refused(500, "Internal server error") from error
    raise Refused(501, f"headrace's WebSocket APIs have no integration of type {kind}")


def _mock(integration: Mapping[str, Any], values: RequestValues) -> dict[str, Any]:
    """Answer with the status that the request's template says. Raises TemplateError."""
    text = _choose_template(integration, "requestTemplates", values) or ""
    status = str(members(parse_body(text)).get("statusCode") or 200)
    if not (status.isascii() and status.isdecimal() and len(status) == 3):
        raise TemplateError(f"the status {status[:100]} is none")
    return {"statusCode": int(status), "body": _response_text(integration, int(status), "", values)}


def _invoke(
    services: Services, api: HttpApi, uri: str, payload: bytes, turn: Turn
) -> dict[str, Any]:
    function, functions = function_of(uri), services.functions
    if function is None or not functions.service_may_invoke(
        function, SERVICE, source_arn=turn.arn, source_account=api.account
    ):
        log.warning("API %s may not invoke %s for %s", api.id, function or uri, turn.arn)
        raise Refused(500, "Internal server error")
    try:
        result = functions.invoke(function, payload)
        value: Any = parse_json(result.payload or b"null")
    except (FunctionNotFound, FunctionThrottled, ValueError) as error:
        raise Refused(500, "Internal server error") from error
    if result.function_error:
        raise Refused(502, "Internal server error")
    return members(value)


def _call(
    services: Services, api: HttpApi, uri: str, integration: Mapping[str, Any], turn: Turn
) -> dict[str, Any]:
    """Call a function or a service with a template's text."""
    values = turn.values
    body = _choose_template(integration, "requestTemplates", values)
    payload = values.body if body is None else body
    if function_of(uri) is not None:
        answered = _invoke(services, api, uri, payload.encode() or b"{}", turn)
        text = _response_text(integration, 200, json.dumps(answered), values)
        return {"statusCode": 200, "body": text or json.dumps(answered)}
    target = service_calls.parse_uri(uri)
    if target is None:
        raise Refused(500, "Internal server error")
    region, service, action, rest = target
    of_rest = {"requestParameters": integration.get("requestParameters")}
    parameters = mappings.request_parameters(of_rest, values, Overrides())
    sent = service_calls.IntegrationRequest(
        region=region,
        service=service,
        kind=action,
        target=rest.partition("?")[0],
        method=str(integration.get("integrationMethod") or "POST"),
        headers={"content-type": "application/json", **parameters["header"]},
        query={**dict(mappings.pairs(rest)), **parameters["querystring"]},
        body=payload.encode(),
        request_id=str(values.context["requestId"]),
    )
    acting = integrations.acting_as(
        services.guard, integration.get("credentialsArn"), _SESSION, turn.arn
    )
    answer = service_calls.call(services.control, sent, account=api.account, acting=acting)
    if answer.status >= 400:
        log.warning("API %s: %s answers %d: %s", api.id, uri, answer.status, answer.body[:500])
    text = answer.body.decode(errors="replace")
    return {
        "statusCode": answer.status,
        "body": _response_text(integration, answer.status, text, values) or text,
    }


def _ask(uri: str, integration: Mapping[str, Any], turn: Turn, *, is_proxy: bool) -> dict[str, Any]:
    """Call an HTTP endpoint with the message, or with a template's text. Raises Refused, TemplateError."""
    values = turn.values
    body = None if is_proxy else _choose_template(integration, "requestTemplates", values)
    of_rest = {"requestParameters": integration.get("requestParameters")}
    parameters = mappings.request_parameters(of_rest, values, Overrides())
    status, _, content = integrations.forward(
        str(integration.get("integrationMethod") or "POST"),
        uri,
        path=parameters["path"],
        query=parameters["querystring"],
        headers={"content-type": "application/json", **parameters["header"]},
        body=(values.body if body is None else body).encode(),
    )
    text = content.decode(errors="replace")
    shaped = None if is_proxy else _response_text(integration, status, text, values)
    return {"statusCode": status, "body": shaped or text}


def _response_text(
    integration: Mapping[str, Any], status: int, body: str, values: RequestValues
) -> str | None:
    """Return the text of the integration response that fits a status; None without one. Raises TemplateError.

    A response's key is a pattern of statuses between slashes, or `$default` for those that no other fits.
    """
    responses = {
        str(one.get("integrationResponseKey")): one for one in integration.get("responses") or ()
    }
    chosen = next(
        (one for key, one in responses.items() if mappings.fits(key.strip("/"), str(status))),
        responses.get(DEFAULT),
    )
    templates = {} if chosen is None else members(chosen.get("responseTemplates"))
    if not templates:
        return None
    return fill_template(str(next(iter(templates.values()))), body, values, Overrides())


def _choose_template(
    integration: Mapping[str, Any], member: str, values: RequestValues
) -> str | None:
    """Return a filled template of an integration: the one of its selection expression. Raises TemplateError."""
    templates = members(integration.get(member))
    if not templates:
        return None
    expression = str(integration.get("templateSelectionExpression") or "").replace("\\", "")
    name = select(expression, values.body) or ""
    template = templates.get(name, templates.get(DEFAULT))
    return (
        None if template is None else fill_template(str(template), values.body, values, Overrides())
    )
