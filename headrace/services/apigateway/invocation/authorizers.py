"""Decides whether a request may call a method: API keys, signatures, and Lambda authorizers.

Tokens of user pools and JWT authorizers are not verified here, so methods that need them are refused with a message:
accepting every token would allow requests that AWS refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.ports import FunctionNotFound, FunctionThrottled
from headrace.core.wildcards import glob_matches
from headrace.services.apigateway.invocation.functions import SERVICE, Functions, function_of
from headrace.services.apigateway.invocation.mapping_variables import members


class Refused(Exception):
    """A refused request: the HTTP status, and AWS's message."""

    def __init__(self, status: int, message: str | None, kind: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind


@dataclass(frozen=True, slots=True)
class AuthorizerInput:
    """The input of an authorizer.

    Attributes:
        method_arn: `arn:aws:execute-api:REGION:ACCOUNT:API/STAGE/METHOD/PATH`.
        header, querystring: the request's; headers by lower-case name.
        event: the event of an integration, in the API's own format.
        account: the API's.
    """

    method_arn: str
    header: Mapping[str, str]
    querystring: Mapping[str, str]
    event: dict[str, Any]
    account: str


UNAUTHORIZED = "Unauthorized"
_NOT_VERIFIED = (
    "headrace does not verify the tokens of user pools and JWT issuers,"
    " so it refuses every call of this method"
)


def authorize_rest(
    functions: Functions, authorizer: Mapping[str, Any], asked: AuthorizerInput
) -> dict[str, Any]:
    """Return the authorizer's context for a method of a REST API. Raises Refused."""
    kind = authorizer.get("type")
    if kind not in ("TOKEN", "REQUEST"):
        raise Refused(501, _NOT_VERIFIED, "NotImplementedException")
    source = str(authorizer.get("identitySource") or "")
    values = [_identity(each.strip(), asked) for each in source.split(",") if each.strip()]
    if any(not value for value in values):
        raise Refused(401, UNAUTHORIZED, "UnauthorizedException")
    if kind == "TOKEN":
        event: dict[str, Any] = {
            "type": "TOKEN",
            "authorizationToken": values[0] if values else "",
            "methodArn": asked.method_arn,
        }
    else:
        event = {**asked.event, "type": "REQUEST", "methodArn": asked.method_arn}
    answer = _invoke(functions, authorizer.get("authorizerUri"), authorizer.get("id"), event, asked)
    if not _allows(answer, asked.method_arn):
        raise Refused(
            403,
            "User is not authorized to access this resource with an explicit deny",
            "AccessDeniedException",
        )
    return {**(members(answer.get("context"))), "principalId": answer.get("principalId", "")}


def authorize_http(
    functions: Functions, authorizer: Mapping[str, Any], asked: AuthorizerInput
) -> dict[str, Any]:
    """Return the authorizer's context for a route of an HTTP API. Raises Refused."""
    if authorizer.get("authorizerType") != "REQUEST":
        raise Refused(501, _NOT_VERIFIED)
    sources = cast("list[str]", authorizer.get("identitySource") or [])
    values = [
        _identity(source.replace("$request.", "method.request."), asked) for source in sources
    ]
    if any(not value for value in values):
        raise Refused(401, UNAUTHORIZED)
    event = {
        **asked.event,
        "type": "REQUEST",
        "identitySource": values,
        ("routeArn" if asked.event.get("version") == "2.0" else "methodArn"): asked.method_arn,
    }
    uri, authorizer_id = authorizer.get("authorizerUri"), authorizer.get("authorizerId")
    answer = _invoke(functions, uri, authorizer_id, event, asked)
    is_simple = authorizer.get("enableSimpleResponses") in (True, "true")
    is_let_in = answer.get("isAuthorized") is True
    if not (is_let_in if is_simple else _allows(answer, asked.method_arn)):
        raise Refused(403, "Forbidden")
    return members(answer.get("context"))


def _identity(source: str, asked: AuthorizerInput) -> str:
    places: Mapping[str, Callable[[str], Any]] = {
        "method.request.header.": lambda name: asked.header.get(name.lower()),
        "method.request.querystring.": asked.querystring.get,
    }
    for prefix, value in places.items():
        if source.startswith(prefix):
            return str(value(source.removeprefix(prefix)) or "")
    return "context"


def _invoke(
    functions: Functions,
    uri: Any,
    authorizer_id: Any,
    event: dict[str, Any],
    asked: AuthorizerInput,
) -> dict[str, Any]:
    function = function_of(str(uri or ""))
    failed = Refused(500, None, "AuthorizerConfigurationException")
    if function is None:
        raise failed
    api = asked.method_arn.partition("/")[0]
    source = f"{api}/authorizers/{authorizer_id}"
    if not functions.service_may_invoke(
        function, SERVICE, source_arn=source, source_account=asked.account
    ):
        raise failed
    try:
        result = functions.invoke(function, json.dumps(event).encode())
        value: Any = json.loads(result.payload or b"null")
    except (FunctionNotFound, FunctionThrottled, ValueError) as error:
        raise failed from error
    if result.function_error:
        members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if members.get("errorMessage") == UNAUTHORIZED:
            # Documented: this is how a function refuses a request.
            raise Refused(401, UNAUTHORIZED, "UnauthorizedException")
        raise failed
    if not isinstance(value, dict):
        raise failed
    return cast("dict[str, Any]", value)


def _allows(answer: Mapping[str, Any], method_arn: str) -> bool:
    """Whether the policy in an authorizer's answer allows a method: an explicit deny wins."""
    policy = members(answer.get("policyDocument"))
    allows = False
    for statement in _each(policy.get("Statement")):
        fits = any(
            glob_matches(str(pattern), method_arn) for pattern in _each(statement.get("Resource"))
        )
        if fits and statement.get("Effect") == "Deny":
            return False
        allows = allows or (fits and statement.get("Effect") == "Allow")
    return allows


def _each(value: Any) -> list[Any]:
    if isinstance(value, list):
        return cast("list[Any]", value)
    return [] if value is None else [value]
