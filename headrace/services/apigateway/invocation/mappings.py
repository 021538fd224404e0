"""Applies an integration's mappings to a request and to its answer. Pure functions.

API Gateway's mappings: parameters, and the variables of mapping templates.

Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-mapping-template-reference.html
and request-response-data-mappings.html.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import json
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import parse_qsl, quote_plus, unquote_plus

from headrace.aws.calls.http import HttpResponse
from headrace.core.evaluation import Budget, TooMuch, bound_parsed_bytes, check_json_size, text_size
from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern
from headrace.core.values import parse_json
from headrace.deliveries.input_templates import NoValue, first_value
from headrace.services.apigateway.invocation.integrations import Refused
from headrace.services.apigateway.invocation.service_calls import IntegrationAnswer
from headrace.services.apigateway.velocity.values import MOST_CHARACTERS, text_of
from headrace.services.apigateway.velocity.velocity import Members, TemplateError, render

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
    with read_parts(seen.body, seen.caller) as body:
        for name, source in mapped.items():
            kind, _, key = name.removeprefix("integration.request.").partition(".")
            value = seen.parameter(str(source), body)
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
    with read_parts(text, seen.caller) as parts, read_parts(seen.body, seen.caller) as asked:
        for name, source in mapped.items():
            value = _of_answer(str(source), answered, parts, seen, asked)
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
    # Recorded: what is no UTF-8 becomes question marks of Unicode.
    return from_base64(body) if is_decoded else body.decode(errors="replace").encode()


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
    source: str, answered: IntegrationAnswer, body: Parts, seen: RequestValues, asked: Parts
) -> str | None:
    if source.startswith("integration.response.header."):
        return answered.headers.get(source.removeprefix("integration.response.header.").lower())
    if source == "integration.response.body":
        return body.whole()
    if source.startswith("integration.response.body."):
        return body.text_at(source.removeprefix("integration.response.body."))
    return seen.parameter(source, asked)


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
    try:
        with read_parts(seen.body, seen.caller) as body:
            return _shaped(shape, refused, seen, body)
    except TemplateError:
        # In the form of an API without gateway responses.
        return _shaped({}, refused, seen, Parts("", Budget(seen.caller)))


def _shaped(
    shape: Mapping[str, Any], refused: Refused, seen: RequestValues, body: Parts
) -> HttpResponse:
    headers = [("x-amzn-ErrorType", refused.kind)] if refused.kind else []
    for name, source in members(shape.get("responseParameters")).items():
        value = seen.parameter(str(source), body)
        if value is not None and name.startswith("gatewayresponse.header."):
            headers.append((name.removeprefix("gatewayresponse.header."), value))
    templates = members(shape.get("responseTemplates"))
    kind = _JSON if _JSON in templates else next(iter(templates), _JSON)
    text = str(templates.get(kind) or '{"message":$context.error.messageString}')
    filled = _VARIABLE.sub(lambda found: seen.parameter(found[1] or found[2], body) or "", text)
    return HttpResponse(
        int(shape.get("statusCode") or refused.status),
        [("Content-Type", kind), *headers],
        filled.encode(errors="replace"),
    )


_SPECIAL = re.compile(r"[^ !#-&(-.0-\[\]-~]")
_ESCAPES = {
    "'": "\\'",
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\b": "\\b",
    "\f": "\\f",
}


@dataclass(frozen=True, slots=True)
class RequestValues:
    """The parts of a request that mappings read.

    Attributes:
        path, querystring: the parameters; the last value of repeated ones. `header`: by lower-case name.
        written_header: the same by the names that the client wrote.
        body: as text.
        context: the members of `$context`.
        stage: the stage's variables.
        caller: the API's id: its requests share their turns when their templates take long.
    """

    path: dict[str, str]
    querystring: dict[str, str]
    header: dict[str, str]
    body: str
    context: dict[str, Any]
    stage: dict[str, str] = field(default_factory=dict[str, str])
    caller: str = ""
    written_header: dict[str, str] = field(default_factory=dict[str, str])

    def parameter(self, source: str, body: Parts) -> str | None:
        """Return the value of a mapping's source, such as `method.request.path.id`; None when it is missing.

        `body`: the parts of this request's body. Raises TooMuch.
        """
        if len(source) > 1 and source[0] == source[-1] == "'":
            return source[1:-1]
        where, _, name = source.partition(".")
        if where == "stageVariables":
            return self.stage.get(name)
        if where == "context":
            return text_at(self.context, name)
        for kind, values in (("path", self.path), ("querystring", self.querystring)):
            prefix = f"method.request.{kind}."
            if source.startswith(prefix):
                return values.get(source.removeprefix(prefix))
        if source.startswith("method.request.header."):
            return self.header.get(source.removeprefix("method.request.header.").lower())
        if source == "method.request.body":
            return body.whole()
        if source.startswith("method.request.body."):
            return body.text_at(source.removeprefix("method.request.body."))
        return None


def members(value: Any) -> dict[str, Any]:
    """Return an optional object; an empty one when it is missing."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class Parts:
    """The parts of a body that mappings read. It is parsed once, and what is read counts."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._text, self._budget = text, budget
        self._value: Any = None
        self._is_parsed = False

    def whole(self) -> str:
        """Return the body. Raises TooMuch."""
        self._budget.make(len(self._text))
        return self._text

    def text_at(self, path: str) -> str | None:
        """Return the value at a path as text; None when it is missing. Raises TooMuch."""
        if not self._is_parsed:
            self._budget.make(bound_parsed_bytes(self._text))
            self._value, self._is_parsed = parse_body(self._text), True
        found = text_at(self._value, path, self._budget)
        self._budget.make(0 if found is None else len(found))
        return found


@contextlib.contextmanager
def read_parts(text: str, caller: str) -> Generator[Parts]:
    """Let mappings read the parts of a body. Raises TemplateError when they ask for too much."""
    try:
        with Budget(caller) as budget:
            yield Parts(text, budget)
    except TooMuch as error:
        raise TemplateError(f"the mappings ask for too much: {error}") from error


def text_at(value: Any, path: str, budget: Budget | None = None) -> str | None:
    """Return the value at `a.b` of a JSON value as text; None when it is missing. Raises TooMuch with a budget."""
    try:
        value_there = first_value(f"$.{path}", value, budget)
    except NoValue:
        return None
    return (
        value_there
        if isinstance(value_there, str)
        else json.dumps(value_there, separators=(",", ":"))
    )


# Names without quotes are taken: the Serverless Framework writes `{statusCode:200}` (observed by others).
_STATUS_CODE = re.compile(r"""\s*\{\s*['"]?statusCode['"]?\s*:\s*['"]?(\d{3})""")


def read_mock_status(body: str) -> str:
    """Return the status that a mock's request asks for; empty without one."""
    try:
        asked = parse_json(body)
    except ValueError:
        written = _STATUS_CODE.match(body)
        return "" if written is None else written[1]
    status = text_at(asked, "statusCode") if isinstance(asked, dict) else None
    return status if status and status.isascii() and status.isdecimal() else ""


def parse_body(text: str) -> Any:
    """Return a body's JSON: an empty object for an empty body, the text itself when it is not JSON."""
    if not text:
        return {}
    try:
        return parse_json(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class Overrides:
    """What mapping templates set in `$context.requestOverride` and `$context.responseOverride`, by kind and name.

    Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-override-request-response-parameters.html
    """

    request: dict[str, Any] = field(
        default_factory=lambda: {"header": {}, "path": {}, "querystring": {}}
    )
    response: dict[str, Any] = field(default_factory=lambda: {"header": {}})


def fill_template(template: str, body: str, seen: RequestValues, overrides: Overrides) -> str:
    """Return a filled mapping template for a request's or an answer's body; fills `overrides`. Raises TemplateError.

    `$input.body` of an empty body is `{}` (LocalStack's tests against AWS, apigateway/test_apigateway_sqs.py, 2025).
    """
    with Budget(seen.caller) as budget:
        variables = {
            "input": _input(body or "{}", seen, budget),
            "util": _util(budget),
            "context": {
                **seen.context,
                "requestOverride": overrides.request,
                "responseOverride": overrides.response,
            },
            "stageVariables": dict(seen.stage),
        }
        return render(template, variables, budget)


def _input(body: str, seen: RequestValues, budget: Budget) -> Members:
    """Return `$input`. The body is parsed when a template first asks for a part of it."""

    @functools.cache
    def value() -> Any:
        budget.make(bound_parsed_bytes(body))
        return parse_body(body)

    def json_of(path: str) -> str:
        part = _first_value_or(value(), path, "", budget)
        if budget.has_shared:
            check_json_size(part, MOST_CHARACTERS)
        budget.make(2 * text_size(body))
        return json.dumps(part, separators=(",", ":"), ensure_ascii=False)

    def path_of(path: str) -> Any:
        return _first_value_or(value(), path, "", budget)

    places = {"path": seen.path, "querystring": seen.querystring, "header": seen.written_header}

    def parameters(name: str | None = None) -> Any:
        if name is None:
            return cast("Any", places)
        for values, key in (
            (seen.path, name),
            (seen.querystring, name),
            (seen.header, name.lower()),
        ):
            if key in values:
                return values[key]
        return ""

    methods = {"json": json_of, "path": path_of, "params": parameters}
    return Members({"body": body}, methods, "input")


def _util(budget: Budget) -> Members:
    """Return `$util`, whose functions count what they make, before they do."""

    def count_growth(function: Callable[[str], Any], grows: int) -> Callable[[Any], Any]:
        def call(value: Any) -> Any:
            text = text_of(value, budget)
            budget.make(bound_parsed_bytes(text) if function is _parse else grows * text_size(text))
            return function(text)

        return call

    methods = {
        name: count_growth(function, grows) for name, (function, grows) in _FUNCTIONS.items()
    }
    return Members(methods=methods, text="util")


def _first_value_or(value: Any, path: str, otherwise: Any, budget: Budget) -> Any:
    try:
        return first_value(path, value, budget)
    except NoValue:
        return otherwise


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}", text)


def _decode(text: str) -> str:
    try:
        return base64.b64decode(text, validate=False).decode(errors="replace")
    except (binascii.Error, ValueError) as error:
        raise TemplateError("the argument of base64Decode is not Base64") from error


def _parse(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise TemplateError("the argument of parseJson is not JSON") from error


# Each with how many times larger its result may be than its argument.
_FUNCTIONS: dict[str, tuple[Callable[[str], Any], int]] = {
    "escapeJavaScript": (_escape, 6),
    "parseJson": (_parse, 1),
    "urlEncode": (lambda text: quote_plus(text, safe="*"), 9),
    "urlDecode": (unquote_plus, 2),
    "base64Encode": (lambda text: base64.b64encode(text.encode()).decode(), 3),
    "base64Decode": (_decode, 4),
}
