"""WebSocket APIs: lets clients connect, gives their messages to routes, and sends them what functions post.

Documented: docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-websocket-api.html, its pages on routes,
integrations and @connections, and apigateway-websocket-api-mapping-template-reference.html. In events the domain name
is the cloud's host, so that functions reach `https://DOMAIN/STAGE/@connections/ID`; connections end with the cloud.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from headrace.aws.calls.http import HttpRequest, HttpResponse, WebSocket
from headrace.aws.signatures.credential_scopes import scope_of
from headrace.core.arn import make_arn
from headrace.core.values import iso_seconds_of
from headrace.services.apigateway.invocation.apis import HttpApi, denial_of, find_api, identity_of
from headrace.services.apigateway.invocation.authorizers import AuthorizerInput, authorize_rest
from headrace.services.apigateway.invocation.headers import (
    last_of_each,
    trace_id_of,
    written_headers,
)
from headrace.services.apigateway.invocation.integrations import (
    ApiRequest,
    Refused,
    query_of,
    refusal,
    when,
)
from headrace.services.apigateway.invocation.mappings import RequestValues, members
from headrace.services.apigateway.invocation.metrics import count_event
from headrace.services.apigateway.invocation.websocket_integrations import (
    DEFAULT,
    Services,
    Turn,
    integrate,
    select,
)

log = logging.getLogger(__name__)

MANAGE = "execute-api:ManageConnections"
_CONNECTION = re.compile(r"(?:/[^/]+)?/@connections/([^/]+)")
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def is_management(request: HttpRequest, path: str) -> bool:
    """Whether a request is for a connection, and signed as such; another could be an object's of S3.

    `path` is the rest of its address after the API, if the address names one.
    """
    if _CONNECTION.fullmatch(path) is None:
        return False
    return scope_of(request).service == "execute-api"


class WebSocketApis:
    """The open connections of all WebSocket APIs. Thread-safe."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._clients: dict[str, _Client] = {}

    def connect(self, api: HttpApi, visit: ApiRequest) -> HttpResponse:
        """Answer a request to connect."""
        request = visit.request
        key = request.headers.get("sec-websocket-key", "")
        is_opening = (
            request.headers.get("upgrade", "").lower() == "websocket"
            and request.headers.get("sec-websocket-version") == "13"
            and request.method == "GET"
        )
        if not key or not is_opening:
            return refusal(403, "Forbidden", "ForbiddenException")
        stage = visit.path.strip("/")
        if stage not in api.stages or api.is_closed:
            return refusal(403, "Forbidden", "ForbiddenException")
        client = _Client(self._services, api, stage, visit, self._clients)
        try:
            protocol = client.connect(api)
        except Refused as refused:
            client.count("IntegrationError" if refused.status >= 500 else "ClientError")
            return refusal(refused.status, refused.message or "Internal server error", refused.kind)
        accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest())
        headers = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", accept.decode()),
        ]
        if protocol:
            headers.append(("Sec-WebSocket-Protocol", protocol))
        return HttpResponse(101, headers, websocket=client)

    def manage(self, request: HttpRequest, path: str, api_id: str = "") -> HttpResponse:
        """Answer PostToConnection, GetConnection and DeleteConnection of the connection in `path`.

        Args:
            request: the request.
            path: the rest of its address after the API.
            api_id: the API that the address names; empty for none. Who may not manage that API's connections does not
                learn which there are.
        """
        stage, _, last = path.partition("/@connections/")
        connection_id = unquote(last)
        client = self._clients.get(connection_id)
        place = (api_id, stage.strip("/")) if client is None else (client.api_id, client.stage)
        api = find_api(place[0]) if place[0] else None
        if not isinstance(api, HttpApi):
            return refusal(410, "", "GoneException")
        resource = f"{place[0]}/{place[1]}/{request.method}/@connections/{connection_id}"
        arn = make_arn("execute-api", api.region, api.account, resource)
        if sentence := denial_of(request.signer, api, arn, MANAGE):
            return refusal(403, sentence, "AccessDeniedException")
        if client is None:
            return refusal(410, "", "GoneException")
        if request.method == "GET":
            return _json_answer(client.describe())
        if request.method == "DELETE":
            client.end()
            return HttpResponse(204)
        if len(request.body) > _MOST_POSTED_BYTES:
            return refusal(413, "", "PayloadTooLargeException")
        if not client.send(request.body):
            return refusal(410, "", "GoneException")
        return HttpResponse(200, [("Content-Type", "application/json")], b"")


# Documented.
_MOST_POSTED_BYTES = 128 * 1024


def _json_answer(value: Mapping[str, Any]) -> HttpResponse:
    return HttpResponse(200, [("Content-Type", "application/json")], json.dumps(value).encode())


class WebSocketRequest:
    """One request to connect to a WebSocket API."""

    def __init__(self, apis: WebSocketApis, api: HttpApi, visit: ApiRequest) -> None:
        self._apis, self._api, self._visit = apis, api, visit

    def answer(self) -> HttpResponse:
        """Answer the request; never raises."""
        return self._apis.connect(self._api, self._visit)

    def find_allowed_origin(self) -> str:
        """Return "": a page of another origin connects only if `--allow-origin` lets it."""
        return ""


@dataclass(slots=True)
class _Event:
    """One event of a connection: its type, route, and what the event of a function has besides."""

    kind: str
    route: str
    body: str | None = None
    is_base64: bool = False
    context: dict[str, Any] = field(default_factory=dict[str, Any])
    members: dict[str, Any] = field(default_factory=dict[str, Any])


class _Client:
    """One connection. Implements `headrace.aws.calls.http.WebSocketUser`."""

    def __init__(
        self,
        services: Services,
        api: HttpApi,
        stage: str,
        visit: ApiRequest,
        clients: dict[str, _Client],
    ) -> None:
        self._services, self._clients = services, clients
        self.api_id, self.account, self.region, self.stage = api.id, api.account, api.region, stage
        self._request, self._caller = visit.request, visit.caller
        trace_id = trace_id_of(visit.request, visit.request_id, visit.now_ms)
        self._headers = written_headers(visit.request, trace_id)
        self.id = base64.urlsafe_b64encode(services.ids.bytes(11)).decode()
        self._connected_ms = self._active_ms = visit.now_ms
        self._socket: WebSocket | None = None
        self._authorizer: dict[str, Any] = {}

    # --- the life of the connection -----------------------------------------------------------

    def connect(self, api: HttpApi) -> str:
        """Ask the route $connect; return the subprotocol that it chooses. Raises Refused."""
        route = api.routes.get("$connect")
        if route is None:
            return ""
        query = query_of(self._request)
        more: dict[str, Any] = {
            "headers": last_of_each(self._headers),
            "multiValueHeaders": self._headers,
        }
        if query:
            more["queryStringParameters"] = {name: values[-1] for name, values in query.items()}
            more["multiValueQueryStringParameters"] = query
        event = _Event("CONNECT", "$connect", members=more)
        self._authorizer = self._authorize(api, route, event)
        answered = self._integrate(api, route, event)
        if answered is None:
            return ""
        status = answered.get("statusCode")
        if not isinstance(status, int) or not 200 <= status < 300:
            # The client gets the function's status (observed by others); without one, as after a failure.
            status = status if isinstance(status, int) and 400 <= status < 600 else 502
            raise Refused(status, "Forbidden" if status == 403 else "Internal server error")
        chosen = {
            name.lower(): str(value) for name, value in members(answered.get("headers")).items()
        }
        return chosen.get("sec-websocket-protocol", "")

    def opened(self, socket: WebSocket) -> None:
        """See `WebSocketUser.opened`."""
        self._socket = socket
        self._clients[self.id] = self
        self.count("ConnectCount")

    def received(self, message: str | bytes) -> None:
        """See `WebSocketUser.received`: run the message's route."""
        self._active_ms = self._services.clock.now_ms()
        self.count("MessageCount")
        api = find_api(self.api_id)
        if not isinstance(api, HttpApi):
            self.end()
            return
        key = _choose_route(api, message)
        if key is None:
            self.count("ClientError")
            self._tell("Forbidden")
            return
        is_bytes = isinstance(message, bytes)
        text = base64.b64encode(message).decode() if isinstance(message, bytes) else message
        context = {"messageId": self._new_id()}
        event = _Event("MESSAGE", key, body=text, is_base64=is_bytes, context=context)
        route = api.routes[key]
        try:
            answered = self._integrate(api, route, event)
        except Refused as refused:
            self.count("IntegrationError" if refused.status >= 500 else "ClientError")
            self._tell(refused.message or "Internal server error")
            return
        # Documented: without a route response nothing goes back.
        if route.get("routeResponseSelectionExpression") and answered is not None:
            body = answered.get("body")
            if body is not None:
                self.send((body if isinstance(body, str) else json.dumps(body)).encode())

    def closed(self, code: int, reason: str) -> None:
        """See `WebSocketUser.closed`: run the route $disconnect."""
        self._clients.pop(self.id, None)
        api = find_api(self.api_id)
        route = api.routes.get("$disconnect") if isinstance(api, HttpApi) else None
        if not isinstance(api, HttpApi) or route is None:
            return
        shown = {"Host": self._domain(), "x-api-key": "", "X-Forwarded-For": "", "x-restapi": ""}
        event = _Event(
            "DISCONNECT",
            "$disconnect",
            context={"disconnectStatusCode": code, "disconnectReason": reason},
            members={
                "headers": shown,
                "multiValueHeaders": {name: [value] for name, value in shown.items()},
            },
        )
        try:
            self._integrate(api, route, event)
        except Refused as refused:
            log.warning(
                "API %s: $disconnect of %s failed: %s", self.api_id, self.id, refused.message
            )

    def send(self, data: bytes) -> bool:
        """Send a message, as text if it is one; False when the connection has ended."""
        try:
            message: str | bytes = data.decode()
        except UnicodeDecodeError:
            message = data
        is_sent = self._socket is not None and self._socket.send(message)
        if is_sent:
            self.count("MessageCount")
        return is_sent

    def count(self, name: str) -> None:
        """Count an event by its metric's name."""
        count_event(self._services.metrics, self, name, self._services.clock.now_ms())

    def end(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.end()

    def describe(self) -> dict[str, Any]:
        """Return GetConnection's answer."""
        return {
            "connectedAt": iso_seconds_of(self._connected_ms),
            "identity": {
                "sourceIp": "127.0.0.1",
                "userAgent": self._request.headers.get("user-agent", ""),
            },
            "lastActiveAt": iso_seconds_of(self._active_ms),
        }

    # --- events -------------------------------------------------------------------------------

    def _domain(self) -> str:
        return self._services.host()

    def _new_id(self) -> str:
        return base64.urlsafe_b64encode(self._services.ids.bytes(11)).decode()

    def _tell(self, message: str) -> None:
        told = {"message": message, "connectionId": self.id, "requestId": self._new_id()}
        self.send(json.dumps(told).encode())

    def _arn(self, route: str) -> str:
        resource = f"{self.api_id}/{self.stage}/{route}"
        return make_arn("execute-api", self.region, self.account, resource)

    def _context(self, event: _Event) -> dict[str, Any]:
        now_ms = self._services.clock.now_ms()
        request_id = self._new_id()
        identity = {
            "sourceIp": "127.0.0.1",
            "userAgent": self._request.headers.get("user-agent", ""),
            **({} if self._caller is None else identity_of(self._caller)),
        }
        return {
            "routeKey": event.route,
            **({"authorizer": self._authorizer} if self._authorizer else {}),
            "eventType": event.kind,
            "extendedRequestId": request_id,
            "requestTime": when(now_ms),
            "messageDirection": "IN",
            "stage": self.stage,
            "connectedAt": self._connected_ms,
            "requestTimeEpoch": now_ms,
            "identity": identity,
            "requestId": request_id,
            "domainName": self._domain(),
            "connectionId": self.id,
            "apiId": self.api_id,
            **event.context,
        }

    def _event(self, api: HttpApi, event: _Event) -> dict[str, Any]:
        variables = api.stages.get(self.stage)
        return {
            **event.members,
            "requestContext": self._context(event),
            **({"stageVariables": variables} if variables else {}),
            **({} if event.body is None else {"body": event.body}),
            "isBase64Encoded": event.is_base64,
        }

    def _authorize(self, api: HttpApi, route: Mapping[str, Any], event: _Event) -> dict[str, Any]:
        kind = route.get("authorizationType") or "NONE"
        if kind == "AWS_IAM" and denial_of(self._caller, api, self._arn("$connect")):
            raise Refused(403, "Forbidden", "ForbiddenException")
        if kind != "CUSTOM":
            return {}
        authorizer = api.authorizers.get(str(route.get("authorizerId")))
        if authorizer is None:
            raise Refused(500, "Internal server error", "AuthorizerConfigurationException")
        sources = [
            str(source).replace("route.request.", "method.request.")
            for source in authorizer.get("identitySource") or ()
        ]
        asked = AuthorizerInput(
            method_arn=self._arn("$connect"),
            header=self._request.headers,
            querystring={name: values[-1] for name, values in query_of(self._request).items()},
            event=self._event(api, event),
            account=self.account,
            now_ms=self._services.clock.now_ms(),
        )
        of_rest = {
            "id": authorizer.get("authorizerId"),
            "type": "REQUEST",
            "authorizerUri": authorizer.get("authorizerUri"),
            "identitySource": ",".join(sources),
        }
        return authorize_rest(self._services.functions, of_rest, asked)

    # --- integrations -------------------------------------------------------------------------

    def _integrate(
        self, api: HttpApi, route: Mapping[str, Any], event: _Event
    ) -> dict[str, Any] | None:
        """Run a route's integration; return what it answers; None without an integration. Raises Refused."""
        values = RequestValues(
            path={},
            querystring={name: values[-1] for name, values in query_of(self._request).items()},
            header={"content-type": "application/json"},
            body=event.body or "",
            context=self._context(event),
            stage=api.stages.get(self.stage) or {},
            caller=self.api_id,
        )
        payload = json.dumps(self._event(api, event)).encode()
        turn = Turn(self.stage, self._arn(event.route), payload, values)
        return integrate(self._services, api, route, turn)


def _choose_route(api: HttpApi, message: str | bytes) -> str | None:
    """Return the key of the route of a message; None without one."""
    key = select(api.selection, message)
    if key in api.routes and not key.startswith("$"):
        return key
    return DEFAULT if DEFAULT in api.routes else None
