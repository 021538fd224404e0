"""Decides whether a request may call a method: Lambda authorizers, and the tokens of this cloud's user pools.

A token of another issuer is refused with a message: its keys are not on this machine, and accepting it would allow
requests that AWS refuses. The key of user pools is moto's, which is published: a token proves nothing to an attacker.
Source: apigateway/latest/developerguide, http-api-jwt-authorizer and apigateway-integrate-with-cognito (documented);
assumed: the refusal of a token without the method's scopes by a REST API.
"""
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.patterns import glob_matches
from headrace.core.ports import FunctionNotFound, FunctionThrottled
from headrace.core.values import parse_json
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.services.apigateway.invocation.integrations import (
    SERVICE,
    Functions,
    Refused,
    function_of,
)
from headrace.services.apigateway.invocation.mappings import members


@dataclass(frozen=True, slots=True)
class AuthorizerInput:
    """The input of an authorizer.

    Attributes:
        method_arn: `arn:aws:execute-api:REGION:ACCOUNT:API/STAGE/METHOD/PATH`.
        header, querystring: the request's; headers by lower-case name.
        event: the event of an integration, in the API's own format.
        account: the API's.
        scopes: those of which a token must have one; empty for any token.
        now_ms: the time by the cloud's clock.
    """

    method_arn: str
    header: Mapping[str, str]
    querystring: Mapping[str, str]
    event: dict[str, Any]
    account: str
    scopes: tuple[str, ...] = ()
    now_ms: int = 0


UNAUTHORIZED = "Unauthorized"
_NOT_VERIFIED = (
    "headrace verifies the tokens of its own user pools, not those of other issuers, so it refuses every call of this"
    " method"
)
_ISSUER = re.compile(r"https://cognito-idp\.([\w-]+)\.amazonaws\.com(?:\.cn)?/([\w-]+)")


def authorize_rest(
    functions: Functions, authorizer: Mapping[str, Any], asked: AuthorizerInput
) -> dict[str, Any]:
    """Return the authorizer's context for a method of a REST API. Raises Refused."""
    kind = authorizer.get("type")
    if kind == "COGNITO_USER_POOLS":
        return {"claims": _authorize_by_pools(authorizer, asked)}
    source = str(authorizer.get("identitySource") or "")
    values = [_identity(part.strip(), asked) for part in source.split(",") if part.strip()]
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
    """Return the authorizer's context for a route of an HTTP API; of a token `claims` and `scopes`. Raises Refused."""
    if authorizer.get("authorizerType") != "REQUEST":
        return _authorize_by_issuer(authorizer, asked)
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


# --- tokens --------------------------------------------------------------------------------------


def _authorize_by_pools(authorizer: Mapping[str, Any], asked: AuthorizerInput) -> dict[str, str]:
    """Return the claims of a token of one of an authorizer's user pools, as text. Raises Refused."""
    source = str(authorizer.get("identitySource") or "method.request.header.Authorization")
    refusal = Refused(401, UNAUTHORIZED, "UnauthorizedException")
    claims = _read_claims(_identity(source, asked), refusal)
    issuer = _ISSUER.fullmatch(str(claims["iss"]))
    pools = [str(arn).rpartition("/")[2] for arn in _each(authorizer.get("providerARNs"))]
    # With scopes it is an access token, without them an identity token.
    kind = "access" if asked.scopes else "id"
    if issuer is None or issuer[2] not in pools or claims.get("token_use") != kind:
        raise refusal
    if float(claims["exp"]) * 1000 <= asked.now_ms:
        raise Refused(401, "The incoming token has expired", "ExpiredTokenException")
    if asked.scopes and not set(asked.scopes) & _read_scopes(claims):
        raise refusal
    return _claims_as_text(claims)


def _authorize_by_issuer(authorizer: Mapping[str, Any], asked: AuthorizerInput) -> dict[str, Any]:
    """Return the claims and scopes of a token of a JWT authorizer's issuer. Raises Refused.

    Documented: `exp` is after, `nbf` and `iat` are before the current time
    (docs.aws.amazon.com/apigateway/latest/developerguide/http-api-jwt-authorizer.html).
    """
    configuration = members(authorizer.get("jwtConfiguration"))
    issuer = str(configuration.get("issuer") or "").rstrip("/")
    if _ISSUER.fullmatch(issuer) is None:
        raise Refused(501, _NOT_VERIFIED)
    (source,) = cast("list[str]", authorizer.get("identitySource") or [""])[:1]
    token = _identity(source.replace("$request.", "method.request."), asked)
    refusal = Refused(401, UNAUTHORIZED)
    claims, now_s = _read_claims(token, refusal), asked.now_ms / 1000
    audiences = {*_each(claims.get("aud") or claims.get("client_id"))}
    if (
        str(claims["iss"]).rstrip("/") != issuer
        or not audiences & {*_each(configuration.get("audience"))}
        or float(claims["exp"]) <= now_s
        or any(float(claims.get(name) or 0) > now_s for name in ("nbf", "iat"))
    ):
        raise refusal
    scopes = _read_scopes(claims)
    if asked.scopes and not set(asked.scopes) & scopes:
        raise Refused(403, "Forbidden")
    return {"claims": _claims_as_text(claims), "scopes": sorted(scopes) if asked.scopes else None}


def _read_claims(token: str, refusal: Refused) -> dict[str, Any]:
    """Return the claims of a token that a user pool of this cloud signed. Raises the refusal."""
    from joserfc import jwt
    from joserfc.errors import JoseError

    token = token.removeprefix("Bearer ").removeprefix("bearer ").strip()
    parts = token.split(".")
    try:
        unverified: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=="))
        issuer = _ISSUER.fullmatch(str(unverified["iss"]))
        key = None if issuer is None else _find_key(issuer[1], issuer[2])
        if key is None:
            raise refusal
        claims = jwt.decode(token, key, algorithms=["RS256"]).claims
        float(claims["exp"])
        for name in ("nbf", "iat"):
            float(claims.get(name) or 0)
    except (JoseError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        raise refusal from None
    return claims


def _find_key(region: str, pool_id: str) -> Any:
    """Return the key of a user pool, in any account; None when there is no such pool."""
    from moto.cognitoidp.models import cognitoidp_backends

    with MOTO_LOCK:
        # Plain dictionary access: moto's own lookup would create a backend for an unused region.
        for regions in list(cast("dict[str, Any]", cognitoidp_backends).values()):
            pool = regions[region].user_pools.get(pool_id) if region in regions else None
            if pool is not None:
                return pool.json_web_key
    return None


def _read_scopes(claims: Mapping[str, Any]) -> set[str]:
    scopes = claims.get("scope") or claims.get("scp") or ""
    return {*(scopes.split() if isinstance(scopes, str) else map(str, scopes))}


def _claims_as_text(claims: Mapping[str, Any]) -> dict[str, str]:
    """Return claims as API Gateway passes them on: all are text, a list is `[a b]`."""
    return {
        name: f"[{' '.join(map(str, cast('list[Any]', value)))}]"
        if isinstance(value, list)
        else json.dumps(value)
        if isinstance(value, (bool, dict))
        else str(value)
        for name, value in claims.items()
    }


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
        value: Any = parse_json(result.payload or b"null")
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
