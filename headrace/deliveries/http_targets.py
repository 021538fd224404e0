"""Sends events of rules and pipes to HTTP endpoints: API destinations, and methods of this cloud's own APIs.

Documented: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html and
eb-api-gateway-target.html.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.deliveries.outside_http import exchange, request
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import MOTO_LOCK

# Documented: an endpoint has five seconds to answer; these statuses, and those from 500 on, are retried.
ANSWER_WITHIN_S = 5.0
TRIED_AGAIN = (401, 407, 409, 429)
_JSON = "application/json; charset=utf-8"
# Headers that a connection or a target cannot set (documented in part).
_OWN_HEADERS = ("content-length", "host", "connection")


class HttpCall(msgspec.Struct, omit_defaults=True):
    """A request to make, without its body.

    Attributes:
        method: the HTTP method.
        url: the endpoint's; for an API in this cloud, the path from the stage on.
        headers: by name.
        api: the id of an API in this cloud; empty for another endpoint.
        account: the account that calls the API.
        token: the OAuth request that returns the token for the endpoint.
        members: the members that a connection adds to the body.
    """

    method: str
    url: str
    headers: dict[str, str] = {}
    api: str = ""
    account: str = ""
    token: HttpCall | None = None
    form: dict[str, str] = {}
    members: dict[str, Any] = {}


def is_http(arn: str) -> bool:
    """Whether a target's ARN is an API destination's or an API method's."""
    parts = arn.split(":", 5)
    return len(parts) == 6 and (
        parts[2] == "execute-api"
        or (parts[2] == "events" and parts[5].startswith("api-destination/"))
    )


def http_call(arn: str, parameters: Mapping[str, Any]) -> HttpCall:
    """Return the call for a target. Raises AwsError when its destination or connection does not exist.

    Args:
        arn: the target's; see `is_http`.
        parameters: HttpParameters: PathParameterValues, HeaderParameters, QueryStringParameters.
    """
    headers = {"Content-Type": _JSON, "User-Agent": "Amazon/EventBridge/ApiDestinations"}
    headers |= _drop_forbidden_headers(parameters.get("HeaderParameters") or {})
    query = dict(parameters.get("QueryStringParameters") or {})
    values = [
        str(path_parameter_value)
        for path_parameter_value in parameters.get("PathParameterValues") or []
    ]
    parts = arn.split(":", 5)
    if parts[2] == "execute-api":
        api, _, rest = parts[5].partition("/")
        stage, _, rest = rest.partition("/")
        method, _, path = rest.partition("/")
        headers["User-Agent"] = "Amazon/EventBridge"
        # The address of an HTTP API's default stage has no stage in it.
        url = _url(f"/{path}" if stage == "$default" else f"/{stage}/{path}", values, query)
        method = "POST" if method in ("", "*") else method
        return HttpCall(method, url, headers, api=api, account=parts[4])
    with MOTO_LOCK:
        destination, connection = _destination(arn)
        http = HttpCall(str(destination.http_method), "", headers, account=parts[4])
        _authorize(http, connection, query)
        http.url = _url(str(destination.invocation_endpoint), values, query)
    return http


def connection_call(
    arn: str, method: str, url: str, headers: dict[str, str], query: dict[str, Any]
) -> HttpCall:
    """Return a call with a connection's authorization. Raises AwsError when no connection has this ARN."""
    with MOTO_LOCK:
        http = HttpCall(method, "", headers, account=arn.split(":")[4] if ":" in arn else "")
        _authorize(http, _connection(arn), query)
    http.url = _url(url, [], query)
    return http


def send(call: HttpCall, body: bytes) -> bytes:
    """Make a call and return the answer's body. Raises AwsError; see `is_final`."""
    status, _, answer = make_exchange(call, body)
    if status >= 300:
        raise AwsError("SDK_CLIENT_ERROR", f"the endpoint answered {status}", status)
    return answer


def make_exchange(call: HttpCall, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
    """Make a call; return the answer's status, headers and body, whatever the status. Raises AwsError, OSError."""
    headers = dict(call.headers)
    if call.token is not None:
        headers["Authorization"] = f"Bearer {_token(call.token)}"
    body = _with_members(body, call.members)
    if call.api:
        if CURRENT.apis is None:
            raise AwsError("ServiceUnavailable", "headrace is starting or stopping", 503)
        status, answer = CURRENT.apis(
            call.api, method=call.method, url=call.url, headers=headers, body=body, by=call.account
        )
        return status, [("Content-Type", "application/json")], answer
    return exchange(call.method, call.url, body, headers, within_s=ANSWER_WITHIN_S)


def is_final(error: AwsError) -> bool:
    """Whether a retry of a call cannot succeed."""
    return error.status < 500 and error.status not in TRIED_AGAIN


def _url(pattern: str, values: list[str], query: Mapping[str, Any]) -> str:
    """Return a URL with its `*` replaced, and a query added."""
    for value in values:
        pattern = pattern.replace("*", quote(value, safe=""), 1)
    if not query:
        return pattern
    return f"{pattern}{'&' if '?' in pattern else '?'}{urlencode(dict(query))}"


def _drop_forbidden_headers(headers: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in headers.items() if name.lower() not in _OWN_HEADERS}


def _destination(arn: str) -> tuple[Any, Any]:
    """Return moto's API destination and its connection. Raises AwsError."""
    from moto.events.models import events_backends

    parts = arn.split(":", 5)
    backends: Any = events_backends
    backend = backends[parts[4]][parts[3]]
    name = parts[5].split("/")[1]
    destination = backend.destinations.get(name)
    if destination is None:
        raise AwsError("ResourceNotFoundException", f"there is no API destination {name}")
    return destination, _connection(str(destination.connection_arn))


def _connection(arn: str) -> Any:
    """Return moto's connection of EventBridge. Raises AwsError."""
    from moto.events.models import events_backends

    parts = arn.split(":", 5)
    backends: Any = events_backends
    name = arn.partition(":connection/")[2].split("/")[0]
    connection = backends[parts[4]][parts[3]].connections.get(name) if name else None
    if connection is None:
        raise AwsError("ResourceNotFoundException", f"there is no connection {name or arn}")
    return connection


# --- connections ----------------------------------------------------------------------------------


def _authorize(call: HttpCall, connection: Any, query: dict[str, Any]) -> None:
    """Add a connection's authorization to a call and its query."""
    parameters = cast("dict[str, Any]", connection.auth_parameters or {})
    if key := parameters.get("ApiKeyAuthParameters"):
        call.headers[str(key["ApiKeyName"])] = str(key["ApiKeyValue"])
    if basic := parameters.get("BasicAuthParameters"):
        pair = f"{basic['Username']}:{basic['Password']}".encode()
        call.headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    if oauth := parameters.get("OAuthParameters"):
        call.token = _token_call(oauth)
    added = parameters.get("InvocationHttpParameters") or {}
    call.headers.update(_drop_forbidden_headers(_pairs(added.get("HeaderParameters"))))
    query.update(_pairs(added.get("QueryStringParameters")))
    call.members = _pairs(added.get("BodyParameters"))


def _pairs(listed: Any) -> dict[str, Any]:
    return {str(pair["Key"]): pair.get("Value") for pair in listed or []}


def _token_call(oauth: Mapping[str, Any]) -> HttpCall:
    client = oauth.get("ClientParameters") or {}
    added = oauth.get("OAuthHttpParameters") or {}
    form = {
        "grant_type": "client_credentials",
        "client_id": str(client.get("ClientID", "")),
        "client_secret": str(client.get("ClientSecret", "")),
        **{name: str(value) for name, value in _pairs(added.get("BodyParameters")).items()},
    }
    headers = _drop_forbidden_headers(_pairs(added.get("HeaderParameters")))
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    return HttpCall(
        str(oauth.get("HttpMethod") or "POST"),
        _url(str(oauth["AuthorizationEndpoint"]), [], _pairs(added.get("QueryStringParameters"))),
        headers,
        form=form,
    )


def _token(call: HttpCall) -> str:
    """Fetch an OAuth token. Raises AwsError."""
    if call.method == "GET":
        status, answer = request(
            "GET", _url(call.url, [], call.form), b"", call.headers, within_s=ANSWER_WITHIN_S
        )
    else:
        body = urlencode(call.form).encode()
        status, answer = request(
            call.method, call.url, body, call.headers, within_s=ANSWER_WITHIN_S
        )
    host = urlsplit(call.url).netloc
    if status >= 300:
        raise AwsError("SDK_CLIENT_ERROR", f"{host} answered {status} for a token", status)
    try:
        return str(json.loads(answer)["access_token"])
    except (ValueError, KeyError, TypeError) as error:
        raise AwsError("SDK_CLIENT_ERROR", f"{host} answered without a token", 502) from error


def _with_members(body: bytes, members: Mapping[str, Any]) -> bytes:
    """Return a body with a connection's members added, if it is a JSON object."""
    if not members:
        return body
    try:
        document: Any = json.loads(body)
    except ValueError:
        return body
    if not isinstance(document, dict):
        return body
    return json.dumps({**cast("dict[str, Any]", document), **members}).encode()
