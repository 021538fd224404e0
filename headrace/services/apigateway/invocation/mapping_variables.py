"""API Gateway's mappings: parameters, and the variables of mapping templates.

Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-mapping-template-reference.html
and request-response-data-mappings.html.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote_plus, unquote_plus

from headrace.core.evaluation import Budget, bound_parsed_bytes, check_json_size, text_size
from headrace.deliveries.json_path import NoValue, first_value
from headrace.services.apigateway.velocity.values import MOST_CHARACTERS, text_of
from headrace.services.apigateway.velocity.velocity import Members, TemplateError, render

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

    def parameter(self, source: str) -> str | None:
        """Return the value of a mapping's source, such as `method.request.path.id`; None when it is missing."""
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
            return self.body
        if source.startswith("method.request.body."):
            return text_at(parse_body(self.body), source.removeprefix("method.request.body."))
        return None


def members(value: Any) -> dict[str, Any]:
    """Return an optional object; an empty one when it is missing."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def text_at(value: Any, path: str) -> str | None:
    """Return the value at `a.b` of a JSON value as text; None when it is missing."""
    try:
        value_there = first_value(f"$.{path}", value)
    except NoValue:
        return None
    return (
        value_there
        if isinstance(value_there, str)
        else json.dumps(value_there, separators=(",", ":"))
    )


def parse_body(text: str) -> Any:
    """Return a body's JSON: an empty object for an empty body, the text itself when it is not JSON."""
    if not text:
        return {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
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
        part = _at(value(), path, "")
        if budget.has_shared:
            check_json_size(part, MOST_CHARACTERS)
        budget.make(2 * text_size(body))
        return json.dumps(part, separators=(",", ":"), ensure_ascii=False)

    def path_of(path: str) -> Any:
        return _at(value(), path, "")

    request_values = {"path": seen.path, "querystring": seen.querystring, "header": seen.header}

    def parameters(name: str | None = None) -> Any:
        if name is None:
            return cast("Any", request_values)
        for kind, key in (("path", name), ("querystring", name), ("header", name.lower())):
            if key in request_values[kind]:
                return request_values[kind][key]
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


def _at(value: Any, path: str, otherwise: Any) -> Any:
    try:
        return first_value(path, value)
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
        return json.loads(text)
    except (ValueError, RecursionError) as error:
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
