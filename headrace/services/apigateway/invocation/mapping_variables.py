"""API Gateway's mappings: parameters, and the variables of mapping templates.

Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-mapping-template-reference.html
and request-response-data-mappings.html.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote_plus, unquote_plus

from headrace.deliveries.json_path import NoValue, first_value
from headrace.services.apigateway.velocity.velocity import Members, TemplateError, render

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
    """

    path: dict[str, str]
    querystring: dict[str, str]
    header: dict[str, str]
    body: str
    context: dict[str, Any]
    stage: dict[str, str] = field(default_factory=dict[str, str])

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
            return text_at(parsed(self.body), source.removeprefix("method.request.body."))
        return None


def members(value: Any) -> dict[str, Any]:
    """Return an optional object; an empty one when it is missing."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def text_at(value: Any, path: str) -> str | None:
    """Return the value at `a.b` of a JSON value as text; None when it is missing."""
    try:
        found = first_value(f"$.{path}", value)
    except NoValue:
        return None
    return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))


def parsed(text: str) -> Any:
    """Return a body's JSON: an empty object for an empty body, the text itself when it is not JSON."""
    if not text:
        return {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def filled(
    template: str, body: str, seen: RequestValues, override: dict[str, Any] | None = None
) -> str:
    """Return a filled mapping template for a request's or an answer's body. Raises TemplateError.

    The status and headers that an answer's template sets in `$context.responseOverride` are put into `override`.
    """
    value = parsed(body)

    def json_of(path: str) -> str:
        return json.dumps(_at(value, path, ""), separators=(",", ":"), ensure_ascii=False)

    def path_of(path: str) -> Any:
        return _at(value, path, "")

    given = {"path": seen.path, "querystring": seen.querystring, "header": seen.header}

    def parameters(name: str | None = None) -> Any:
        if name is None:
            return cast("Any", given)
        for kind, key in (("path", name), ("querystring", name), ("header", name.lower())):
            if key in given[kind]:
                return given[kind][key]
        return ""

    variables = {
        "input": Members(
            {"body": body}, {"json": json_of, "path": path_of, "params": parameters}, "input"
        ),
        "util": _UTIL,
        "context": {**seen.context, "responseOverride": override},
        "stageVariables": dict(seen.stage),
    }
    return render(template, variables)


def _url_encoded(text: Any) -> str:
    return quote_plus(str(text), safe="*")


def _url_decoded(text: Any) -> str:
    return unquote_plus(str(text))


def _base64(text: Any) -> str:
    return base64.b64encode(str(text).encode()).decode()


def _at(value: Any, path: str, otherwise: Any) -> Any:
    try:
        return first_value(path, value)
    except NoValue:
        return otherwise


def _escaped(text: str) -> str:
    return "".join(
        _ESCAPES.get(char) or (char if " " <= char < "\x7f" else f"\\u{ord(char):04X}")
        for char in text
    )


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=False).decode(errors="replace")
    except (binascii.Error, ValueError) as error:
        raise TemplateError("the argument of base64Decode is not Base64") from error


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TemplateError("the argument of parseJson is not JSON") from error


_UTIL = Members(
    methods={
        "escapeJavaScript": _escaped,
        "parseJson": _parse,
        "urlEncode": _url_encoded,
        "urlDecode": _url_decoded,
        "base64Encode": _base64,
        "base64Decode": _decoded,
    },
    text="util",
)
