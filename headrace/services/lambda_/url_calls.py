"""Answers requests to function URLs: makes an event of format 2.0 from a request, and a response from the result.

Addresses: `http://<id>.lambda-url.<region>.localhost:<port>/...` where such names resolve, and everywhere
`<endpoint>/_headrace/function-url/<id>/...`.
Formats: https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html (documented).

The CORS headers of function URLs, according to their Cors configuration.

Source: https://docs.aws.amazon.com/lambda/latest/api/API_Cors.html (documented).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qsl

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Signer, iam_context
from headrace.aws.shapes.lambda_ import Cors
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FunctionThrottled, InvokeResult
from headrace.core.values import parse_json
from headrace.services.lambda_.errors import SYNC_PAYLOAD_BYTES
from headrace.services.lambda_.invocations.dispatcher import AnswerStream, Dispatcher, Part
from headrace.services.lambda_.names import FunctionRef
from headrace.services.lambda_.permits import INVOKE_URL, Caller, allows
from headrace.services.lambda_.state import Function, FunctionStore

URL_PATH = "/_headrace/function-url/"
_HOST_MARK = ".lambda-url."
_PATH = re.compile(rf"^{URL_PATH}([0-9a-z]+)(/.*)?$")
_TEXT = re.compile(r"^(text/.*|application/(.*\+)?(json|xml)|application/javascript)$")
_PRELUDE_TYPE = "application/vnd.awslambda.http-integration-response"
_STREAM = "RESPONSE_STREAM"
_TRACE = "x-amzn-trace-id"
_PRELUDE_END = b"\0" * 8
_FORBIDDEN = (
    "Forbidden. For troubleshooting Function URL authorization issues, see: "
    "https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html"
)


def is_function_url(request: HttpRequest) -> bool:
    """Whether a request is for a function URL."""
    return request.path.startswith(URL_PATH) or _HOST_MARK in request.headers.get("host", "")


def has_own_host(request: HttpRequest) -> bool:
    """Whether a request's Host is that of one function, which alone answers there."""
    return _HOST_MARK in request.headers.get("host", "")


@dataclass(frozen=True, slots=True)
class _Target:
    """The id and the domain of a function URL, and the path of a request to it."""

    url_id: str
    path: str
    domain: str


def _parse_target(request: HttpRequest) -> _Target | None:
    host = request.headers.get("host", "")
    domain = host.partition(":")[0]
    # Check the host first: a function's own host serves only that function, so that its pages reach nothing else.
    url_id, mark, _ = host.partition(_HOST_MARK)
    if mark:
        return _Target(url_id, request.path, domain)
    match = _PATH.match(request.path)
    return None if match is None else _Target(match[1], match[2] or "/", domain)


class FunctionUrls:
    """Answers requests to function URLs. Thread-safe."""

    def __init__(
        self, *, functions: FunctionStore, dispatcher: Dispatcher, ids: Ids, clock: Clock
    ) -> None:
        self._functions = functions
        self._dispatcher = dispatcher
        self._ids = ids
        self._clock = clock

    def cors_of(self, request: HttpRequest) -> Cors:
        """Return the Cors configuration of the function URL that a request is for, or {} when there is none."""
        target = _parse_target(request)
        target_function = self._functions.of_url(target.url_id) if target is not None else None
        if target_function is None:
            return {}
        function, alias = target_function
        return function.urls[alias].get("Cors") or {}

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request to a function URL."""
        request_id = self._ids.uuid()
        response = self._answer(request, request_id)
        response.headers.append(("x-amzn-RequestId", request_id))
        return response

    def _answer(self, request: HttpRequest, request_id: str) -> HttpResponse:
        target = _parse_target(request)
        target_function = self._functions.of_url(target.url_id) if target is not None else None
        if target is None or target_function is None:
            return _build_refusal(403, "AccessDeniedException", _FORBIDDEN)
        function, alias = target_function
        if alias and alias not in function.aliases:
            return _build_refusal(403, "AccessDeniedException", None)  # the alias was deleted
        config = function.urls[alias]
        cors: Cors = config.get("Cors") or {}
        if cors and request.method == "OPTIONS" and "origin" in request.headers:
            return answer_preflight(cors, request)
        # Nobody looks at signatures of requests to a URL that anybody may call.
        signer = request.signer if config["AuthType"] == "AWS_IAM" else None
        if not _is_allowed(function, alias, config["AuthType"], signer):
            return _build_refusal(403, "AccessDeniedException", _FORBIDDEN)
        if request.body_file is not None or len(request.body) > SYNC_PAYLOAD_BYTES:
            return _build_refusal(413, "RequestEntityTooLargeException", "Request Entity Too Large")
        event = _build_event(request, target, request_id, self._clock.now_ms(), signer)
        ref = function.ref.replace_qualifier(alias or None)
        trace_id = event["headers"].setdefault(
            _TRACE, self._dispatcher.build_trace_header(function.resolve(alias or None))
        )
        payload = json.dumps(event, separators=(",", ":")).encode()
        try:
            response = self._invoke(
                ref, payload, event, streams=config.get("InvokeMode") == _STREAM
            )
        except FunctionThrottled:
            return _build_refusal(429, "TooManyRequestsException", "Rate Exceeded.")
        response.headers.append((_TRACE, trace_id))  # recorded
        if cors:
            own = build_cors_headers(cors, request)
            named = {name.lower() for name, _ in own}
            response.headers = [h for h in response.headers if h[0].lower() not in named] + own
        return response

    def _invoke(
        self, ref: FunctionRef, payload: bytes, event: dict[str, Any], *, streams: bool
    ) -> HttpResponse:
        request_id = str(event["requestContext"]["requestId"])
        trace_id = str(event["headers"][_TRACE])
        dispatcher = self._dispatcher
        if not streams:
            result = dispatcher.invoke(ref, payload, request_id=request_id, trace_id=trace_id)
            return _bad_gateway() if result.function_error else build_response(result.payload)
        stream = AnswerStream(dispatcher, ref, payload, request_id=request_id, trace_id=trace_id)
        stream.start()
        return _build_streamed_response(stream.items())


# --- access ----------------------------------------------------------------------------------


def _is_allowed(function: Function, alias: str, auth_type: str, signer: Signer | None) -> bool:
    if auth_type == "AWS_IAM" and signer is None:
        return False
    context = {"lambda:functionurlauthtype": auth_type, "lambda:invokedviafunctionurl": "true"}
    if signer is None or signer.account != function.account:
        account = "" if signer is None else signer.account
        if not allows(function, alias, INVOKE_URL, Caller(account=account, context=context)):
            return False
    if signer is None:
        return True
    # IAM counts the function's own policy too.
    arn = function.ref.replace_qualifier(alias or None).qualified_arn
    keys: dict[str, tuple[str, ...]] = {name: (value,) for name, value in context.items()}
    return not signer.denial(INVOKE_URL, arn, keys)


# --- the event --------------------------------------------------------------------------------


def _build_event(
    request: HttpRequest, target: _Target, request_id: str, now_ms: int, signer: Signer | None
) -> dict[str, Any]:
    headers = {k: v for k, v in request.headers.items() if k != "cookie"}
    headers.setdefault("x-forwarded-for", "127.0.0.1")
    headers.setdefault("x-forwarded-proto", "http")
    headers.setdefault("x-forwarded-port", request.headers.get("host", "").partition(":")[2])
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": target.path,
        "rawQueryString": request.query,
        "headers": headers,
        "requestContext": _build_context(request, target, request_id, now_ms, signer),
        "isBase64Encoded": False,
    }
    if request.query:
        event["queryStringParameters"] = _read_parameters(request)
    if request.headers.get("cookie"):
        event["cookies"] = [c.strip() for c in request.headers["cookie"].split(";")]
    if request.body:
        event["body"], event["isBase64Encoded"] = _read_body(request)
    return event


def _build_context(
    request: HttpRequest, target: _Target, request_id: str, now_ms: int, signer: Signer | None
) -> dict[str, Any]:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    context: dict[str, Any] = {
        "accountId": "anonymous" if signer is None else signer.account,
        "apiId": target.url_id,
        "domainName": target.domain,
        "domainPrefix": target.url_id,
        "http": {
            "method": request.method,
            "path": target.path,
            "protocol": "HTTP/1.1",
            "sourceIp": "127.0.0.1",
            "userAgent": request.headers.get("user-agent", ""),
        },
        "requestId": request_id,
        "routeKey": "$default",
        "stage": "$default",
        "time": f"{now:%d/%b/%Y:%H:%M:%S} +0000",
        "timeEpoch": now_ms,
    }
    if signer is not None:
        context["authorizer"] = {"iam": iam_context(signer)}
    return context


def _read_parameters(request: HttpRequest) -> dict[str, str]:
    """Return the query's parameters; the values of a repeated parameter are joined with commas."""
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(request.query, keep_blank_values=True):
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    return parameters


def _read_body(request: HttpRequest) -> tuple[str, bool]:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if _TEXT.match(content_type):
        try:
            return request.body.decode(), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(request.body).decode(), True


# --- the response -----------------------------------------------------------------------------


def _build_refusal(status: int, code: str, message: str | None) -> HttpResponse:
    headers = [("Content-Type", "application/json"), ("x-amzn-ErrorType", code)]
    return HttpResponse(status, headers, json.dumps({"Message": message}).encode())


def _bad_gateway() -> HttpResponse:
    headers = [
        ("Content-Type", "application/json"),
        ("x-amzn-ErrorType", "InternalServerErrorException"),
    ]
    return HttpResponse(502, headers, b"Internal Server Error")


def build_response(payload: bytes) -> HttpResponse:
    """Return the HTTP response that a function's payload describes."""
    try:
        value: Any = parse_json(payload or b"null")
    except ValueError:
        return _bad_gateway()
    if not isinstance(value, dict) or "statusCode" not in value:
        body = (
            value.encode(errors="replace") if isinstance(value, str) else payload
        )  # no JSON quotes
        return HttpResponse(200, [("Content-Type", "application/json")], body)
    try:
        return _build_structured_response(cast("dict[str, Any]", value))
    except (TypeError, ValueError, AttributeError):
        return _bad_gateway()


def _build_structured_response(value: Mapping[str, Any]) -> HttpResponse:
    body = value.get("body")
    if body is None:
        data = b""
    elif isinstance(body, str):
        data = base64.b64decode(body) if value.get("isBase64Encoded") else body.encode()
    else:
        data = json.dumps(body).encode()
    return HttpResponse(int(value["statusCode"]), _build_headers(value), data)


def _build_headers(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    members = cast("dict[str, Any]", value.get("headers") or {})
    members_by_name = {name.lower(): str(text) for name, text in members.items()}
    members_by_name.setdefault("content-type", "application/json")
    # The server itself sets these headers.
    for name in ("content-length", "transfer-encoding", "connection"):
        members_by_name.pop(name, None)
    if any("\r" in text or "\n" in text for text in (*members_by_name, *members_by_name.values())):
        raise ValueError("a header has more than one line")
    cookies = cast("list[str]", value.get("cookies") or [])
    return [*members_by_name.items(), *(("Set-Cookie", str(cookie)) for cookie in cookies)]


def _build_streamed_response(items: Iterator[Part | InvokeResult]) -> HttpResponse:
    """Return a response that starts as soon as its status and headers are known."""
    gathered = b""
    for item in items:
        if isinstance(item, InvokeResult):
            return _bad_gateway() if item.function_error else HttpResponse(200, [], gathered)
        gathered += item.data
        if item.content_type != _PRELUDE_TYPE:
            content_type = item.content_type or "application/octet-stream"
            return HttpResponse(200, [("content-type", content_type)], _rest(gathered, items))
        prelude, end, rest = gathered.partition(_PRELUDE_END)
        if end:
            try:
                value: dict[str, Any] = parse_json(prelude)
                status, headers = int(value.get("statusCode", 200)), _build_headers(value)
            except (ValueError, TypeError, AttributeError):
                return _bad_gateway()
            return HttpResponse(status, headers, _rest(rest, items))
    return _bad_gateway()


def _rest(first: bytes, items: Iterator[Part | InvokeResult]) -> Iterator[bytes]:
    if first:
        yield first
    for item in items:
        if isinstance(item, Part):
            yield item.data


# The methods that a page may use without a preflight request if there is no AllowMethods.
_SIMPLE_METHODS = ("GET", "HEAD", "POST")


class FunctionUrlRules:
    """Decides by Cors configurations about browsers' requests. Implements `browser_rules.OwnRules`."""

    def __init__(
        self,
        is_function_url: Callable[[HttpRequest], bool],
        has_own_host: Callable[[HttpRequest], bool],
        cors_of: Callable[[HttpRequest], Cors],
    ) -> None:
        """Take the functions that recognise function URLs and their hosts, and that return a Cors configuration."""
        self._is_function_url = is_function_url
        self._has_own_host = has_own_host
        self._cors_of = cors_of

    def covers(self, request: HttpRequest) -> bool:
        """See `OwnRules.covers`."""
        return self._is_function_url(request)

    def is_alone(self, request: HttpRequest) -> bool:
        """See `OwnRules.is_alone`."""
        return self._has_own_host(request)

    def permits(self, request: HttpRequest, origin: str) -> bool:
        """See `OwnRules.permits`. With a Cors configuration, headrace answers preflight requests for the function."""
        cors = self._cors_of(request)
        if not cors:
            return False
        if request.method == "OPTIONS" and "origin" in request.headers:
            return True
        methods = cors.get("AllowMethods") or _SIMPLE_METHODS
        may = request.method in methods or "*" in methods
        return may and _find_allowed_origin(cors, origin) is not None


def _find_allowed_origin(cors: Cors, origin: str) -> str | None:
    for pattern in cors.get("AllowOrigins", []):
        if pattern == "*":
            return origin if cors.get("AllowCredentials") else "*"
        head, star, tail = pattern.partition("*")
        long_enough = len(origin) >= len(head) + len(tail)
        inside = origin.startswith(head) and origin.endswith(tail) and long_enough
        if origin == pattern or (star and inside):
            return origin
    return None


def build_cors_headers(cors: Cors, request: HttpRequest) -> list[tuple[str, str]]:
    """Return the CORS headers of a response to a page of an allowed origin, or [] for any other request."""
    sent = request.headers.get("origin")
    origin = None if sent is None else _find_allowed_origin(cors, sent)
    if origin is None:
        return []
    headers = [("Access-Control-Allow-Origin", origin), ("Vary", "Origin")]
    if cors.get("AllowCredentials"):
        headers.append(("Access-Control-Allow-Credentials", "true"))
    exposed = cors.get("ExposeHeaders")
    if exposed:
        headers.append(("Access-Control-Expose-Headers", ",".join(exposed)))
    return headers


def answer_preflight(cors: Cors, request: HttpRequest) -> HttpResponse:
    """Answer a browser's preflight request without invoking the function."""
    headers = build_cors_headers(cors, request)
    if headers:
        for allowed, name in (
            (cors.get("AllowMethods"), "Access-Control-Allow-Methods"),
            (cors.get("AllowHeaders"), "Access-Control-Allow-Headers"),
        ):
            if allowed:
                headers.append((name, ",".join(allowed)))
        if "MaxAge" in cors:
            headers.append(("Access-Control-Max-Age", str(cors["MaxAge"])))
        if request.headers.get("access-control-request-private-network") == "true":
            # AWS does not send this header; browsers require it from servers on the same machine or in a local network.
            headers.append(("Access-Control-Allow-Private-Network", "true"))
    return HttpResponse(200, headers)
