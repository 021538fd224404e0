"""Answers requests to HTTP APIs: finds the route, authorizes, and invokes functions or calls services.

Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop.html. Throttling, parameter
mappings of proxies and private integrations are not acted on.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpResponse
from headrace.aws.calls.operation import Signer, iam_context, operation_model
from headrace.core.arn import partition_of
from headrace.core.patterns import glob_matches
from headrace.core.ports import FunctionNotFound, FunctionThrottled
from headrace.core.values import parse_json
from headrace.deliveries.targets import convert_parameters
from headrace.services.apigateway.invocation import integrations
from headrace.services.apigateway.invocation.apis import (
    UNSIGNED,
    HttpApi,
    best_match,
    denial_of,
    identity_of,
)
from headrace.services.apigateway.invocation.authorizers import (
    AuthorizerInput,
    authorize_http,
)
from headrace.services.apigateway.invocation.headers import (
    extended_id_of,
    format_1_headers,
    last_of_each,
    lower_headers,
    trace_id_of,
)
from headrace.services.apigateway.invocation.integrations import (
    SERVICE,
    ApiRequest,
    Refused,
    answer,
    body_of,
    function_of,
    parse_proxy_result,
    query_of,
    refusal,
    when,
)
from headrace.services.apigateway.invocation.mappings import Parts, members, read_parts, text_at
from headrace.services.apigateway.velocity.velocity import TemplateError

log = logging.getLogger(__name__)

SESSION = "ApiGatewaySession"
DEFAULT = "$default"
_IN_TEXT = re.compile(r"\$\{([\w.$-]+)\}")
_TEXT = ("text/", "application/json", "application/javascript", "application/xml")
# Documented in the guide under "Integration subtype reference".
_SUBTYPES = {
    "EventBridge-PutEvents": ("events", "PutEvents"),
    "SQS-SendMessage": ("sqs", "SendMessage"),
    "SQS-DeleteMessage": ("sqs", "DeleteMessage"),
    "SQS-ReceiveMessage": ("sqs", "ReceiveMessage"),
    "SQS-PurgeQueue": ("sqs", "PurgeQueue"),
    "Kinesis-PutRecord": ("kinesis", "PutRecord"),
    "StepFunctions-StartExecution": ("stepfunctions", "StartExecution"),
    "StepFunctions-StartSyncExecution": ("stepfunctions", "StartSyncExecution"),
    "StepFunctions-StopExecution": ("stepfunctions", "StopExecution"),
    "AppConfig-GetConfiguration": ("appconfig", "GetConfiguration"),
}


class HttpApiRequest:
    """One request to an HTTP API."""

    def __init__(self, api: HttpApi, visit: ApiRequest) -> None:
        request, path = visit.request, visit.path
        self.api, self._request, self._domain = api, request, visit.domain
        self._functions, self._control = visit.functions, visit.control
        self._guard = visit.guard
        first = path.removeprefix("/").partition("/")[0]
        # Documented: a stage's name is the first part of the path, except for $default.
        self.stage = first if first in api.stages and first != DEFAULT else DEFAULT
        self._path = path
        self._route_path = path if self.stage == DEFAULT else path.removeprefix(f"/{first}") or "/"
        self._request_id, self.now_ms = visit.request_id, visit.now_ms
        self._trace_id = trace_id_of(request, visit.request_id, visit.now_ms)
        self._caller = visit.caller

    def answer(self) -> HttpResponse:
        """Answer the request; never raises."""
        cors = self._cors()
        if cors and self._request.method == "OPTIONS" and "origin" in self._request.headers:
            return HttpResponse(204, cors, b"")
        try:
            response = self._answer()
        except Refused as refused:
            response = refusal(refused.status, refused.message or "Internal Server Error")
        except FunctionThrottled:
            response = refusal(503, "Service Unavailable")
        if cors:
            response.headers = [
                header
                for header in response.headers
                if not header[0].lower().startswith("access-control-")
            ]
        response.headers += cors
        return response

    def find_allowed_origin(self) -> str:
        """Return the origin that the API's CORS configuration allows; '' for none."""
        return dict(self._cors()).get("access-control-allow-origin", "")

    def _cors(self) -> list[tuple[str, str]]:
        """Return the CORS headers for the request's origin; none unless the configuration allows it."""
        cors, origin = self.api.cors, self._request.headers.get("origin", "")
        allowed = [
            str(allow_origin) for allow_origin in cast("list[Any]", cors.get("allowOrigins") or [])
        ]
        if not origin or not any(glob_matches(pattern, origin) for pattern in allowed):
            return []
        has_credentials = cors.get("allowCredentials") in (True, "true")
        shown = "*" if "*" in allowed and not has_credentials else origin
        headers = [("access-control-allow-origin", shown)]
        if has_credentials:
            headers.append(("access-control-allow-credentials", "true"))
        if cors.get("exposeHeaders"):
            headers.append(("access-control-expose-headers", ",".join(cors["exposeHeaders"])))
        if self._request.method == "OPTIONS":
            for member, name in (("allowMethods", "methods"), ("allowHeaders", "headers")):
                if cors.get(member):
                    headers.append((f"access-control-allow-{name}", ",".join(cors[member])))
            if cors.get("maxAge"):
                headers.append(("access-control-max-age", str(cors["maxAge"])))
        return headers

    def _answer(self) -> HttpResponse:
        api = self.api
        if self.stage not in api.stages or api.is_closed:
            raise Refused(404, "Not Found")
        route_and_parameters = self._route()
        if route_and_parameters is None:
            raise Refused(404, "Not Found")
        key, parameters = route_and_parameters
        route = api.routes[key]
        integration = api.integrations.get(str(route.get("target") or "").rpartition("/")[2])
        if integration is None:
            raise Refused(500, "Internal Server Error")
        version = str(integration.get("payloadFormatVersion") or "1.0")
        authorizer = self._authorize(route, key, parameters, version)
        # Imported OpenAPI definitions write it in lower case.
        kind = str(integration.get("integrationType")).upper()
        subtype = integration.get("integrationSubtype")
        if kind == "AWS_PROXY" and subtype:
            return self._call_service(str(subtype), integration, parameters, key)
        if kind == "HTTP_PROXY":
            return answer(
                *integrations.forward(
                    str(integration.get("integrationMethod") or "ANY")
                    .upper()
                    .replace("ANY", self._request.method),
                    str(integration.get("integrationUri")),
                    path=parameters,
                    query={name: values[-1] for name, values in query_of(self._request).items()},
                    headers=lower_headers(self._request, self._trace_id),
                    body=self._request.body,
                )
            )
        if kind != "AWS_PROXY":
            raise Refused(501, f"headrace's APIs have no integration of type {kind}")
        event = self._event(key, parameters, version)
        if route.get("authorizationType") == "AWS_IAM" and self._caller is not None:
            self._name_caller(event, self._caller, version)
        if authorizer is not None:
            part = "jwt" if route.get("authorizationType") == "JWT" else "lambda"
            event["requestContext"]["authorizer"] = (
                {part: authorizer} if version == "2.0" else authorizer
            )
        return self._invoke(str(integration.get("integrationUri")), event, key, version)

    def _name_caller(self, event: dict[str, Any], caller: Signer, version: str) -> None:
        context = event["requestContext"]
        if version == "2.0":
            context["authorizer"] = {"iam": iam_context(caller)}
        else:
            context["identity"] |= identity_of(caller)

    def _route(self) -> tuple[str, dict[str, str]] | None:
        """Return the key of the route that matches the request, and its path parameters."""
        by_path: dict[str, dict[str, str]] = {}
        for key in self.api.routes:
            method, space, path = key.partition(" ")
            if space and method in (self._request.method, "ANY"):
                by_path.setdefault(path, {})[method] = key
        match = best_match(self._route_path, by_path)
        if match is None:
            return (DEFAULT, {}) if DEFAULT in self.api.routes else None
        keys = by_path[match[0]]
        return keys.get(self._request.method) or keys["ANY"], match[1]

    def _arn(self, key: str) -> str:
        api = self.api
        suffix = key if key == DEFAULT else f"{self._request.method}{self._route_path}"
        return f"arn:{partition_of(api.region)}:execute-api:{api.region}:{api.account}:{api.id}/{self.stage}/{suffix}"

    def _authorize(
        self, route: Mapping[str, Any], key: str, parameters: dict[str, str], version: str
    ) -> dict[str, Any] | None:
        kind = route.get("authorizationType") or "NONE"
        if kind == "AWS_IAM" and denial_of(self._caller, self.api, self._arn(key)):
            raise Refused(403, "Forbidden")  # aws/aws-cdk#21182 (observed by others)
        if kind not in ("CUSTOM", "JWT"):
            return None
        authorizer = self.api.authorizers.get(str(route.get("authorizerId")))
        if authorizer is None:
            raise Refused(500, "Internal Server Error")
        format_version = str(authorizer.get("authorizerPayloadFormatVersion") or version)
        asked = AuthorizerInput(
            method_arn=self._arn(key),
            header=self._request.headers,
            querystring={name: values[-1] for name, values in query_of(self._request).items()},
            event=self._event(key, parameters, format_version),
            account=self.api.account,
            scopes=tuple(cast("list[str]", route.get("authorizationScopes") or [])),
            now_ms=self.now_ms,
        )
        return authorize_http(self._functions, authorizer, asked)

    # --- functions --------------------------------------------------------------------------------

    def _invoke(self, uri: str, event: dict[str, Any], key: str, version: str) -> HttpResponse:
        function = function_of(uri)
        source = self._arn(key)
        may = function is not None and self._functions.service_may_invoke(
            function, SERVICE, source_arn=source, source_account=self.api.account
        )
        if function is None or not may:
            log.warning("API %s may not invoke %s for %s", self.api.id, function or uri, source)
            raise Refused(500, "Internal Server Error")
        try:
            result = self._functions.invoke(function, json.dumps(event).encode())
        except FunctionNotFound as error:
            raise Refused(500, "Internal Server Error") from error
        response = None
        if not result.function_error:
            response = parse_proxy_result(result.payload, needs_status=version == "1.0")
        if response is None:
            raise Refused(500, "Internal Server Error")
        return response

    def _event(self, key: str, parameters: dict[str, str], version: str) -> dict[str, Any]:
        request, query = self._request, query_of(self._request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_text = not kind or kind.startswith(_TEXT) or kind.endswith(("+json", "+xml"))
        body, is_base64 = body_of(request, is_binary=not is_text)
        stage = self.api.stages[self.stage] or None
        shared: dict[str, Any] = {
            "version": version,
            "body": body,
            "isBase64Encoded": is_base64,
            "pathParameters": parameters or None,
            "stageVariables": stage,
        }
        context = self._context(key)
        if version == "2.0":
            headers = lower_headers(request, self._trace_id)
            headers.pop("cookie", None)
            cookies = [
                one_cookie.strip() for one_cookie in request.headers.get("cookie", "").split(";")
            ]
            event: dict[str, Any] = {
                "routeKey": key,
                "rawPath": self._path,
                "rawQueryString": request.query,
                "cookies": [cookie for cookie in cookies if cookie] or None,
                "headers": headers,
                "queryStringParameters": {n: ",".join(v) for n, v in query.items()} or None,
                "requestContext": context,
                **shared,
            }
            return {name: value for name, value in event.items() if value is not None}
        http = context.pop("http")
        headers_1 = format_1_headers(request, self._trace_id)
        return {
            "resource": key.partition(" ")[2] or key,
            "path": self._path,
            "httpMethod": request.method,
            "headers": last_of_each(headers_1),
            "multiValueHeaders": headers_1,
            "queryStringParameters": {n: values[-1] for n, values in query.items()} or None,
            "multiValueQueryStringParameters": query or None,
            "requestContext": {
                **{name: value for name, value in context.items() if name != "time"},
                "httpMethod": request.method,
                "path": self._path,
                "protocol": http["protocol"],
                "extendedRequestId": context["requestId"],
                "identity": {
                    **dict.fromkeys(UNSIGNED),
                    "sourceIp": http["sourceIp"],
                    "userAgent": http["userAgent"],
                },
                "requestTime": context["time"],
                "requestTimeEpoch": context["timeEpoch"],
                "resourcePath": key.partition(" ")[2] or key,
            },
            **shared,
        }

    def _context(self, key: str) -> dict[str, Any]:
        api, request = self.api, self._request
        return {
            "accountId": api.account,
            "apiId": api.id,
            "domainName": self._domain,
            "domainPrefix": self._domain.partition(".")[0],
            "http": {
                "method": request.method,
                "path": self._path,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": request.headers.get("user-agent", ""),
            },
            # An HTTP API knows no other id, and answers with it as `Apigw-Requestid`.
            "requestId": extended_id_of(self._request_id),
            "routeKey": key,
            "stage": self.stage,
            "time": when(self.now_ms),
            "timeEpoch": self.now_ms,
        }

    # --- services ---------------------------------------------------------------------------------

    def _call_service(
        self, subtype: str, integration: Mapping[str, Any], parameters: dict[str, str], key: str
    ) -> HttpResponse:
        subtype_call = _SUBTYPES.get(subtype)
        if subtype_call is None:
            raise Refused(501, f"headrace's APIs have no integration of subtype {subtype}")
        service, operation = subtype_call
        mapped: Mapping[str, Any] = members(integration.get("requestParameters"))
        text = self._request.body.decode(errors="replace")
        try:
            with read_parts(text, self.api.id) as body:
                params = {
                    name: self._source(str(value), parameters, body)
                    for name, value in mapped.items()
                }
        except TemplateError as error:
            raise Refused(500, "Internal Server Error") from error
        params = {
            name: _read_structure(service, operation, name, value)
            for name, value in params.items()
            if value is not None
        }
        region = str(params.pop("Region", self.api.region))
        if service == "events":
            params = {"Entries": [params]}
        acting = integrations.acting_as(
            self._guard, integration.get("credentialsArn"), SESSION, self._arn(key)
        )
        try:
            output = self._control.call(
                service,
                operation,
                convert_parameters(service, operation, params),
                account=self.api.account,
                region=region,
                acting=acting,
            )
        except AwsError as error:
            return refusal(error.status, error.message)
        body = json.dumps(output, default=_write_member).encode()
        return HttpResponse(200, [("Content-Type", "application/json")], body)

    def _source(self, source: str, parameters: dict[str, str], body: Parts) -> Any:
        """Return the value of a parameter mapping, such as `$request.body.id`; None when it is missing.

        A text may have such sources in it, in braces (assumed: one that is missing is empty there). Raises TooMuch.
        """
        request = self._request
        if not source.startswith("$") or source.startswith("${"):
            return _IN_TEXT.sub(
                lambda part: str(self._source(f"${part[1]}", parameters, body) or ""), source
            )
        where, _, name = source.removeprefix("$").partition(".")
        if where == "context":
            return text_at(self._context(DEFAULT), name)
        if where == "stageVariables":
            return (members(self.api.stages.get(self.stage))).get(name)
        kind, _, rest = name.partition(".")
        if kind == "body":
            return body.text_at(rest) if rest else body.whole()
        if kind == "header":
            return request.headers.get(rest.lower())
        if kind == "path":
            return parameters.get(rest) if rest else self._route_path
        values = query_of(request).get(rest) if kind == "querystring" else None
        return None if values is None else ",".join(values)


def _read_structure(service: str, operation: str, name: str, value: Any) -> Any:
    """Return a parameter's value; of one that is no scalar, such as MessageAttributes, its JSON. Raises Refused."""
    shape: Any = operation_model(service, operation).input_shape
    member = None if shape is None else shape.members.get(name)
    if member is None or member.type_name not in ("structure", "map", "list"):
        return value
    try:
        return parse_json(str(value))
    except ValueError:
        raise Refused(400, f"{name} must be valid JSON") from None


def _write_member(value: Any) -> Any:
    """Return a member of an answer as AWS's JSON has it: times in seconds, bytes in base64."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)
