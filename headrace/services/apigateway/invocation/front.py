"""Answers requests to APIs' own addresses, and decides which browser origins may send them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Signer
from headrace.aws.gateway.browser_rules import Endpoints
from headrace.aws.signatures.auth_errors import API_SERVICE
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import ControlPlane, Guard, MetricSink
from headrace.services.apigateway.invocation.apis import HttpApi, RestApi, find_api
from headrace.services.apigateway.invocation.headers import extended_id_of
from headrace.services.apigateway.invocation.http_apis import HttpApiRequest
from headrace.services.apigateway.invocation.integrations import ApiRequest, Functions, refusal
from headrace.services.apigateway.invocation.mappings import members
from headrace.services.apigateway.invocation.method_tests import STAGE, MethodTest, answer_of
from headrace.services.apigateway.invocation.metrics import send_metrics
from headrace.services.apigateway.invocation.rest_apis import RestRequest
from headrace.services.apigateway.invocation.websocket_integrations import Services
from headrace.services.apigateway.invocation.websockets import (
    WebSocketApis,
    WebSocketRequest,
    is_management,
)

# Recognizes requests to APIs' own addresses.
#
# Addresses: `http://API.execute-api.REGION.localhost:PORT/STAGE/PATH` where such names resolve, and everywhere
# `ENDPOINT/_aws/execute-api/API/STAGE/PATH`, or LocalStack's older `ENDPOINT/restapis/API/STAGE/_user_request_/PATH`.
# The address of an HTTP API's `$default` stage has no stage, as on AWS.

HOST_MARK = ".execute-api."
API_PATH = "/_aws/execute-api/"
_PATH = re.compile(rf"{API_PATH}([0-9a-z]+)(/.*)?")
_OLDER_PATH = re.compile(r"/restapis/([0-9a-z]+)(/[^/]+)/_user_request_(/.*)?")


@dataclass(frozen=True, slots=True)
class Address:
    """A request's destination.

    Attributes:
        api_id: the API.
        path: the rest of the address after the API, with its slash: stage and path, percent-encoded.
        domain: the domain name by which the request calls the API.
    """

    api_id: str
    path: str
    domain: str


def has_own_host(request: HttpRequest) -> bool:
    """Whether a request's Host belongs to one API, so that nothing else may answer."""
    return HOST_MARK in request.headers.get("host", "")


def is_of_an_api(request: HttpRequest) -> bool:
    """Whether a request is for any API's own address."""
    return (
        request.path.startswith(API_PATH)
        or has_own_host(request)
        or is_management(request, request.path)
        or _OLDER_PATH.fullmatch(request.path) is not None
    )


def address_of(request: HttpRequest) -> Address | None:
    """Return a request's destination; None when it is not for an API."""
    domain = request.headers.get("host", "").partition(":")[0]
    api_id, mark, _ = domain.partition(HOST_MARK)
    if mark:
        return Address(api_id, request.path or "/", domain)
    if match := _PATH.fullmatch(request.path):
        return Address(match[1], match[2] or "/", domain)
    if match := _OLDER_PATH.fullmatch(request.path):
        return Address(match[1], match[2] + (match[3] or "/"), domain)
    return None


_Served = RestRequest | HttpApiRequest | WebSocketRequest
# Documented: API Gateway's largest request.
MOST_BYTES = 10 * 1024 * 1024


class ExecuteApi:
    """The APIs of one cloud, as their clients call them. Thread-safe; stateless.

    Implements `headrace.aws.gateway.browser_rules.OwnRules`.
    """

    def __init__(
        self,
        load: Callable[[], None],
        *,
        functions: Functions,
        control: ControlPlane,
        guard: Guard,
        clock: Clock,
        ids: Ids,
        metrics: MetricSink,
        host: Callable[[], str],
    ) -> None:
        """`load` makes moto ready with this cloud's state (it waits, and raises AwsError); `host` returns its host."""
        self._load = load
        self._functions, self._control, self._guard = functions, control, guard
        self._clock, self._ids = clock, ids
        self._metrics = metrics
        self._sockets = WebSocketApis(
            Services(functions, control, guard, clock, ids, metrics, host)
        )

    def endpoints(self) -> Endpoints:
        """Return the APIs' addresses, for the entrance and the front door."""
        return Endpoints(is_of_an_api, self.answer, self, API_SERVICE, MOST_BYTES)

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request to an API's own address."""
        request_id = self._ids.uuid()
        served, response = self._serve(request, request_id)
        extended_id = extended_id_of(request_id)
        ids = {"x-amzn-RequestId": request_id, "x-amz-apigw-id": extended_id}
        if isinstance(served, HttpApiRequest):
            # Observed by many in what curl prints, 2021 to 2026: these APIs have one id.
            ids = {"Apigw-Requestid": extended_id}
        # An endpoint that is an API too has answered with its own.
        names = {name.lower() for name in ids}
        response.headers = [
            *(header for header in response.headers if header[0].lower() not in names),
            *ids.items(),
        ]
        return response

    def answer_call(
        self, api_id: str, *, method: str, url: str, headers: dict[str, str], body: bytes, by: str
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """See `headrace.moto.current_cloud.Apis`."""
        path, _, query = url.partition("?")
        request = HttpRequest(
            method,
            f"{API_PATH}{api_id}{path}",
            query,
            {"host": "localhost", **{name.lower(): value for name, value in headers.items()}},
            body,
            head=[*headers.items()],
            signer=Signer.root(by) if by else None,
        )
        response = self.answer(request)
        content = response.body if isinstance(response.body, bytes) else b""
        return response.status, response.headers, content

    def test_method(
        self, api_id: str, resource_id: str, method: str, asked: Mapping[str, Any]
    ) -> dict[str, Any]:
        """See `headrace.moto.current_cloud.TestMethod`; the method is there."""
        api = find_api(api_id)
        assert isinstance(api, RestApi)
        paths = {id_: path for path, (id_, _) in api.resources.items()}
        path, _, query = str(asked.get("pathWithQueryString") or paths[resource_id]).partition("?")
        many = {
            name: ",".join(values)
            for name, values in members(asked.get("multiValueHeaders")).items()
        }
        headers = {**many, **members(asked.get("headers"))}
        request = HttpRequest(
            method,
            path,
            query,
            {name.lower(): value for name, value in headers.items()},
            str(asked.get("body") or "").encode(),
            head=[*headers.items()],
        )
        address = Address(api_id, f"/{STAGE}{path}", "testPrefix.testDomainName")
        test = MethodTest(api, self._visit(api, request, address, self._ids.uuid()))
        response = test.run(resource_id, method, asked)
        return answer_of(test, response, self._clock.now_ms() - test.now_ms)

    def _serve(self, request: HttpRequest, request_id: str) -> tuple[_Served | None, HttpResponse]:
        """Return the request of an API, None when there is no such API, and its answer."""
        if request.body_file is not None or len(request.body) > MOST_BYTES:
            return None, refusal(413, "Request Too Long", "RequestTooLargeException")
        try:
            address = address_of(request)
            path = request.path if address is None else address.path
            if is_management(request, path):
                self._load()
                return None, self._sockets.manage(
                    request, path, "" if address is None else address.api_id
                )
            served = self._find_api(request, request_id)
        except AwsError as error:
            return None, refusal(error.status, error.message)
        if served is None:
            # On AWS an unknown API's name does not resolve; a deleted API answers Forbidden.
            return None, refusal(403, "Forbidden", "ForbiddenException")
        answer = served.answer()
        if not isinstance(served, WebSocketRequest):
            latency_ms = self._clock.now_ms() - served.now_ms
            send_metrics(self._metrics, served, answer, latency_ms)
        return served, answer

    def _find_api(self, request: HttpRequest, request_id: str) -> _Served | None:
        address = address_of(request)
        if address is None:
            return None
        self._load()
        api = find_api(address.api_id)
        if isinstance(api, RestApi):
            return RestRequest(api, self._visit(api, request, address, request_id))
        if isinstance(api, HttpApi) and api.protocol == "WEBSOCKET":
            return WebSocketRequest(
                self._sockets, api, self._visit(api, request, address, request_id)
            )
        if isinstance(api, HttpApi):
            return HttpApiRequest(api, self._visit(api, request, address, request_id))
        return None

    def _visit(
        self, api: RestApi | HttpApi, request: HttpRequest, address: Address, request_id: str
    ) -> ApiRequest:
        return ApiRequest(
            request,
            path=address.path,
            domain=address.domain,
            request_id=request_id,
            now_ms=self._clock.now_ms(),
            caller=request.signer,
            functions=self._functions,
            control=self._control,
            guard=self._guard,
        )

    # --- browsers ---------------------------------------------------------------------------------

    def covers(self, request: HttpRequest) -> bool:
        """See `OwnRules.covers`."""
        return is_of_an_api(request)

    def is_alone(self, request: HttpRequest) -> bool:
        """See `OwnRules.is_alone`."""
        return has_own_host(request)

    def permits(self, request: HttpRequest, origin: str) -> bool:
        """See `OwnRules.permits`: the CORS configuration of an HTTP API, or the OPTIONS method of a resource."""
        try:
            served = self._find_api(request, "")
        except AwsError:
            return False
        return served is not None and served.find_allowed_origin() in ("*", origin)
