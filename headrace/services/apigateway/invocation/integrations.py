"""Invokes functions for APIs: builds their events, and converts their results to HTTP answers.

Formats: https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html and
http-api-develop-integrations-lambda.html (documented).

Forwards an API's requests to an HTTP endpoint: integrations of the types HTTP and HTTP_PROXY.

Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/setup-http-integrations.html and
http-api-develop-integrations-http.html.
"""

from __future__ import annotations

import base64
import json
import logging
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, quote, urlencode

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Signer
from headrace.core.ports import CallerIdentity, ControlPlane, Guard, InvokeResult
from headrace.core.values import parse_json
from headrace.deliveries.outside_http import exchange

log = logging.getLogger(__name__)

# Documented: the longest default timeout of an integration.
WITHIN_S = 29.0
# Headers of the connection to the API; the endpoint has its own host. Recorded: `Authorization` and `Accept-Encoding`
# are passed on (LocalStack's TestApiGatewayHeaderRemapping, 2024).
_OF_THE_CONNECTION = frozenset(("host", "connection", "content-length", "transfer-encoding"))


class CallLog:
    """What is told of the call of an endpoint: nothing, unless a method is tested."""

    def add_request(self, uri: str, headers: Mapping[str, str], body: bytes) -> None:
        """Tell that the endpoint is called."""

    def add_answer(self, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """Tell what the endpoint answered."""


NO_LOG = CallLog()
INVALID_ADDRESS = "Invalid endpoint address"


def method_of(integration: Mapping[str, Any], request: HttpRequest, default: str = "ANY") -> str:
    """Return the method by which a REST API's integration is called: `ANY` is that of the request."""
    method = str(integration.get("httpMethod") or default).upper()
    return request.method if method == "ANY" else method


def forward(
    method: str,
    uri: str,
    *,
    path: Mapping[str, str],
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes,
    told: CallLog = NO_LOG,
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return the endpoint's status, headers and body. Raises Refused when it does not answer."""
    for name, value in path.items():
        # A greedy parameter keeps its slashes.
        uri = uri.replace(f"{{{name}+}}", quote(value)).replace(f"{{{name}}}", quote(value))
    if query:
        uri = f"{uri}{'&' if '?' in uri else '?'}{urlencode(dict(query))}"
    kept = {
        name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION
    }
    told.add_request(uri, kept, body)
    try:
        status, answered, answer = exchange(method, uri, body, kept, within_s=WITHIN_S)
    except TimeoutError as error:
        raise Refused(504, "Endpoint request timed out", "IntegrationTimeoutException") from error
    except (AwsError, OSError, ValueError) as error:
        raise _unreachable(error) from error
    told.add_answer(answered, answer)
    return status, answered, answer


def _unreachable(error: Exception) -> Refused:
    """Return the refusal for an endpoint without an address, or one that does not answer.

    Recorded of TestInvokeMethod in 2025; the second sentence is observed by users of REST APIs.
    """
    reason = getattr(error, "reason", error)
    if isinstance(reason, OSError) and not isinstance(reason, socket.gaierror | ssl.SSLError):
        return Refused(
            504,
            "Network error communicating with endpoint",
            "InternalServerErrorException",
            response_type="INTEGRATION_FAILURE",
        )
    return Refused(
        500,
        "Internal server error",
        "InternalServerErrorException",
        cause=INVALID_ADDRESS,
    )


SERVICE = "apigateway.amazonaws.com"


class Refused(Exception):
    """A refused request.

    Attributes:
        status, message: the HTTP status, and AWS's message.
        kind: the error's type, as its header has it.
        response_type: the type of the gateway response; "" for the one of the kind.
        details: what is wrong with a body.
        cause: what is wrong with the configuration, as logs tell it.
    """

    def __init__(
        self,
        status: int,
        message: str | None,
        kind: str = "",
        *,
        response_type: str = "",
        details: str = "",
        cause: str = "",
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind
        self.response_type, self.details = response_type or _RESPONSE_TYPES.get(kind, ""), details
        self.cause = cause


# Documented: apigateway/latest/developerguide/supported-gateway-response-types.html.
_RESPONSE_TYPES = {
    "AccessDeniedException": "ACCESS_DENIED",
    "AuthorizerConfigurationException": "AUTHORIZER_CONFIGURATION_ERROR",
    "ExpiredTokenException": "EXPIRED_TOKEN",
    "IntegrationTimeoutException": "INTEGRATION_TIMEOUT",
    "MissingAuthenticationTokenException": "MISSING_AUTHENTICATION_TOKEN",
    "TooManyRequestsException": "THROTTLED",
    "UnauthorizedException": "UNAUTHORIZED",
    "UnsupportedMediaTypeException": "UNSUPPORTED_MEDIA_TYPE",
}


def acting_as(guard: Guard, credentials: Any, session: str, source_arn: str) -> CallerIdentity:
    """Return as whom the API of a method or route calls a service: as its integration's role, or else as itself.

    As itself it may do what a resource's policy lets API Gateway do: without a role, with a user, and with a role of
    another account, none of which AWS takes. Raises Refused for a role that does not let API Gateway assume it.
    """
    account = source_arn.split(":")[4]
    itself = CallerIdentity(SERVICE, source_arn=source_arn, source_account=account)
    role = str(credentials or "")
    if f"::{account}:role/" not in role:
        return itself
    if sentence := guard.denial(itself, "sts:AssumeRole", role):
        log.warning("%s: %s", source_arn, sentence)
        raise Refused(500, "Internal server error", "InternalServerErrorException")
    return CallerIdentity(role, session)


class Functions(Protocol):
    """Lambda, as APIs use it. Thread-safe."""

    def service_may_invoke(
        self, function_arn: str, service: str, *, source_arn: str, source_account: str
    ) -> bool:
        """Whether a function's policy allows a service to invoke it on behalf of a resource."""
        ...

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        """Run the function and wait. Raises FunctionNotFound, FunctionThrottled."""
        ...

    def invoke_later(self, function_arn: str, payload: bytes) -> str:
        """Queue an invocation; return its request id. Raises LookupError when there is no function."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request to an API, with the API, the stage and the services that answering needs.

    Attributes:
        path: the rest of the address after the API: the stage, unless it is `$default`, and the path.
        domain: the domain name by which the request calls the API.
        caller: who signed it; None without a signature.
    """

    request: HttpRequest = field(kw_only=False)
    path: str
    domain: str
    request_id: str
    now_ms: int
    caller: Signer | None
    functions: Functions
    control: ControlPlane
    guard: Guard


def function_of(uri: str) -> str | None:
    """Return the function's ARN in an integration's or authorizer's URI; None without one."""
    if uri.startswith("arn:") and uri.split(":")[2:3] == ["lambda"]:
        return uri
    _, separator, rest = uri.partition(":lambda:path/")
    if not separator or "/functions/" not in rest:
        return None
    return rest.partition("/functions/")[2].removesuffix("/invocations")


def query_of(request: HttpRequest) -> dict[str, list[str]]:
    """Return the query parameters, each with all its values."""
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(request.query, keep_blank_values=True):
        query.setdefault(name, []).append(value)
    return query


def when(now_ms: int) -> str:
    """Return a time in API Gateway's form."""
    return f"{datetime.fromtimestamp(now_ms / 1000, UTC):%d/%b/%Y:%H:%M:%S} +0000"


def body_of(request: HttpRequest, *, is_binary: bool) -> tuple[str | None, bool]:
    """Return a body in an event's form, and whether it is in Base64."""
    if not request.body:
        return None, False
    if not is_binary:
        try:
            return request.body.decode(), False
        except UnicodeDecodeError:
            return request.body.decode(errors="replace"), False
    return base64.b64encode(request.body).decode(), True


def parse_proxy_result(
    payload: bytes, *, needs_status: bool, decodes: bool = True
) -> HttpResponse | None:
    """Return the HTTP answer in a function's result; None for a malformed result. `decodes`: Base64 becomes bytes."""
    try:
        value: Any = parse_json(payload or b"null")
    except ValueError:
        return None
    if not isinstance(value, dict) or "statusCode" not in value:
        if needs_status:
            return None
        body = value.encode(errors="replace") if isinstance(value, str) else payload
        return HttpResponse(200, [("content-type", "application/json")], body)
    try:
        return _parse_structured(cast("dict[str, Any]", value), decodes=decodes)
    except (TypeError, ValueError, AttributeError):
        return None


def _parse_structured(value: Mapping[str, Any], *, decodes: bool) -> HttpResponse:
    body = value.get("body")
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    is_base64 = decodes and value.get("isBase64Encoded") is True
    data = base64.b64decode(text) if is_base64 else text.encode()
    many = cast("dict[str, list[Any]]", value.get("multiValueHeaders") or {})
    one = cast("dict[str, Any]", value.get("headers") or {})
    taken = {name.lower() for name in many}
    headers = [(str(name), str(item)) for name, values in many.items() for item in values]
    headers += [(str(name), str(item)) for name, item in one.items() if name.lower() not in taken]
    headers += [
        ("Set-Cookie", str(cookie)) for cookie in cast("list[Any]", value.get("cookies") or [])
    ]
    return answer(int(value["statusCode"]), headers, data)


def answer(status: int, headers: list[tuple[str, str]], body: bytes) -> HttpResponse:
    """Return an answer without the headers that the server itself sets. Raises ValueError."""
    if not 100 <= status <= 599 or any(c in f"{n}{v}" for n, v in headers for c in "\r\n"):
        raise ValueError("no status, or a header over several lines")
    own = ("content-length", "transfer-encoding", "connection")
    kept = [(name, value) for name, value in headers if name.lower() not in own]
    if not any(name.lower() == "content-type" for name, _ in kept):
        kept.append(("Content-Type", "application/json"))
    return HttpResponse(status, kept, body)


def refusal(status: int, message: str, kind: str = "") -> HttpResponse:
    """Return an error in API Gateway's form."""
    headers = [("Content-Type", "application/json")]
    if kind:
        headers.append(("x-amzn-ErrorType", kind))
    return HttpResponse(status, headers, json.dumps({"message": message}).encode())
