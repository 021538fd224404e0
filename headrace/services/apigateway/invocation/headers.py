"""The headers that APIs pass on to functions and endpoints, and those that they answer with.

REST and WebSocket APIs keep the client's spelling of a name (recorded: LocalStack's test_lambda_aws_proxy_integration,
2024, sends `tEsT-HEADeR`), except of the names that AWS itself writes. HTTP APIs write names in lower case
(documented: http-api-develop-integrations-lambda.html); in format 1.0, AWS's own keep their capitals (observed by
others in 2020: gist metaskills/1eee9da3baaa5df9ac8426cc5fe12ca0).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from uuid import UUID

from headrace.aws.calls.http import HttpRequest

TRACE = "X-Amzn-Trace-Id"
_OF_AWS = {
    name.lower(): name
    for name in (
        "Host",
        "User-Agent",
        TRACE,
        "X-Forwarded-For",
        "X-Forwarded-Port",
        "X-Forwarded-Proto",
    )
}
_OF_AWS_IN_FORMAT_1 = {**_OF_AWS, "content-length": "Content-Length"}
# Recorded of what clients send to REST APIs (LocalStack's TestApiGatewayHeaderRemapping, 2024): neither functions,
# endpoints nor templates are told of these.
_OF_THE_CONNECTION = frozenset(
    {
        "connection",
        "content-length",
        "content-md5",
        "expect",
        "max-forwards",
        "proxy-authenticate",
        "server",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "www-authenticate",
    }
)
# Recorded there of answers: these names are for AWS's own values.
_REMAPPED = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "content-md5",
        "date",
        "expect",
        "host",
        "max-forwards",
        "proxy-authenticate",
        "server",
        "trailer",
        "upgrade",
        "user-agent",
        "www-authenticate",
        "x-amzn-requestid",
    }
)


def written_headers(request: HttpRequest, trace_id: str) -> dict[str, list[str]]:
    """Return the headers that a REST or WebSocket API passes on, by name, each with all its values."""
    return _passed_on(request, trace_id, _OF_AWS, without=_OF_THE_CONNECTION)


def format_1_headers(request: HttpRequest, trace_id: str) -> dict[str, list[str]]:
    """Return the headers that an HTTP API passes on in format 1.0, by name, each with all its values."""
    lower = HttpRequest(
        request.method,
        request.path,
        headers=request.headers,
        head=[(name.lower(), value) for name, value in request.fields()],
    )
    return _passed_on(lower, trace_id, _OF_AWS_IN_FORMAT_1, without=frozenset({"connection"}))


def lower_headers(request: HttpRequest, trace_id: str) -> dict[str, str]:
    """Return the headers that an HTTP API passes on: a repeated one's values are joined with commas."""
    passed_on = format_1_headers(request, trace_id)
    return {name.lower(): ",".join(values) for name, values in passed_on.items()}


def last_of_each(headers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return each header's last value."""
    return {name: values[-1] for name, values in headers.items()}


def _passed_on(
    request: HttpRequest, trace_id: str, of_aws: Mapping[str, str], *, without: frozenset[str]
) -> dict[str, list[str]]:
    names, found = dict(of_aws), dict[str, list[str]]()
    for name, value in request.fields():
        lower = name.lower()
        if lower not in without and not lower.startswith(":"):
            found.setdefault(names.setdefault(lower, name), []).append(value)
    host = request.headers.get("host", "")
    if host:
        found["Host"] = [host]
    # The client's own come first (documented: X-Forwarded-For ends with the sender that AWS has seen).
    found["X-Forwarded-For"] = [", ".join([*found.get("X-Forwarded-For", ()), "127.0.0.1"])]
    found.setdefault("X-Forwarded-Port", [host.partition(":")[2]])
    found.setdefault("X-Forwarded-Proto", ["http"])
    found[TRACE] = [trace_id]
    return found


def trace_id_of(request: HttpRequest, request_id: str, now_ms: int) -> str:
    """Return a request's X-Ray header: the client's, or a new root."""
    made = f"Root=1-{now_ms // 1000:08x}-{request_id.replace('-', '')[:24]}"
    return request.headers.get(TRACE.lower(), made)


def extended_id_of(request_id: str) -> str:
    """Return a request's extended id, in the form of API Gateway's."""
    return base64.b64encode(UUID(request_id).bytes[:11]).decode()


def remapped(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return an integration's headers as a REST API's client gets them."""
    return [
        (f"x-amzn-Remapped-{name}" if name.lower() in _REMAPPED else name, value)
        for name, value in headers
        if name.lower() != "transfer-encoding"
    ]


def endpoint_headers(
    api_id: str, trace_id: str, content_type: str, *layers: Mapping[str, str]
) -> dict[str, str]:
    """Return the headers that a REST API sends to an endpoint: those of the layers, over its own (recorded there)."""
    own = {
        "Accept": "application/json",
        "Content-Type": content_type,
        "User-Agent": f"AmazonAPIGateway_{api_id}",
        "X-Amzn-Apigateway-Api-Id": api_id,
        TRACE: trace_id,
    }
    found: dict[str, tuple[str, str]] = {}
    for layer in (own, *layers):
        found |= {name.lower(): (name, value) for name, value in layer.items()}
    return dict(found.values())
