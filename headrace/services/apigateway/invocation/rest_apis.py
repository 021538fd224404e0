"""Answers requests to REST APIs: finds the method, authorizes, and runs the integration, as the guide documents.

Usage plans' throttling and caching have no effect. A stage serves the API's current state.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headrace.aws.calls.http import HttpResponse
from headrace.core.arn import make_arn
from headrace.core.ports import FunctionNotFound, FunctionThrottled
from headrace.services.apigateway.invocation import integrations, mappings, service_calls
from headrace.services.apigateway.invocation.apis import (
    UNSIGNED,
    RestApi,
    best_match,
    choose_release,
    denial_of,
    identity_of,
)
from headrace.services.apigateway.invocation.authorizers import (
    AuthorizerInput,
    authorize_rest,
)
from headrace.services.apigateway.invocation.headers import (
    TRACE,
    endpoint_headers,
    extended_id_of,
    last_of_each,
    remapped,
    trace_id_of,
    written_headers,
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
from headrace.services.apigateway.invocation.mappings import (
    Overrides,
    RequestValues,
    members,
    text_at,
)
from headrace.services.apigateway.invocation.service_calls import (
    IntegrationAnswer,
    IntegrationRequest,
)
from headrace.services.apigateway.invocation.validation import check_request
from headrace.services.apigateway.velocity.velocity import TemplateError

log = logging.getLogger(__name__)

SESSION = "BackplaneAssumeRoleSession"


def _misconfigured(cause: str, status: int = 500) -> Refused:
    return Refused(status, "Internal server error", "InternalServerErrorException", cause=cause)


class RestRequest:
    """One request to a REST API."""

    def __init__(self, api: RestApi, visit: ApiRequest) -> None:
        request, path = visit.request, visit.path
        self.api, self._request = api, request
        self._functions, self._control = visit.functions, visit.control
        self._guard = visit.guard
        self.stage, _, rest = path.removeprefix("/").partition("/")
        self._path = f"/{rest}"
        self._full_path, self._domain = path, visit.domain
        self._request_id, self.now_ms = visit.request_id, visit.now_ms
        self._caller = visit.caller
        self._told = integrations.NO_LOG
        self._failure = ""  # why the method failed, as a test of it tells
        self._trace_id = trace_id_of(request, visit.request_id, visit.now_ms)
        self._headers = written_headers(request, self._trace_id)
        written = last_of_each(self._headers)
        # What is known of the request when it is refused.
        self._seen = RequestValues(
            path={},
            querystring={name: values[-1] for name, values in query_of(request).items()},
            header={name.lower(): value for name, value in written.items()},
            written_header=written,
            body="",
            context={
                "apiId": api.id,
                "httpMethod": request.method,
                "path": path,
                "requestId": self._request_id,
                "stage": self.stage,
            },
            caller=api.id,
        )

    def answer(self) -> HttpResponse:
        """Answer the request; never raises."""
        return self._answer_by(self._answer)

    def _answer_by(self, serve: Callable[[], HttpResponse]) -> HttpResponse:
        try:
            return serve()
        except Refused as refused:
            self._failure = refused.cause or str(refused.message)
            return mappings.gateway_response(self.api.responses, refused, self._seen)
        except TemplateError as error:
            log.warning("API %s: a mapping template cannot be filled: %s", self.api.id, error)
            self._failure = f"Unable to transform request: {error}"
            return refusal(500, "Internal server error", "InternalServerErrorException")
        except FunctionThrottled:
            return refusal(429, "Too Many Requests", "TooManyRequestsException")

    def find_allowed_origin(self) -> str:
        """Return the origin that the resource's OPTIONS method allows; '' for none."""
        match = best_match(self._path, self.api.resources)
        methods = {} if match is None else self.api.resources[match[0]][1]
        method = members(methods.get("OPTIONS"))
        integration: Mapping[str, Any] = members(method.get("integration"))
        for response in (members(integration.get("integrationResponses"))).values():
            parameters = members(response.get("responseParameters"))
            origin = parameters.get("method.response.header.Access-Control-Allow-Origin")
            if origin:
                return str(origin).strip("'")
        return ""

    def _answer(self) -> HttpResponse:
        api, request = self.api, self._request
        stage = api.stages.get(self.stage)
        if stage is None:
            raise Refused(403, "Forbidden", "ForbiddenException")
        stage = choose_release(stage, self._request_id)
        match = best_match(self._path, api.resources, is_rest_raw=True)
        missing = Refused(
            403, "Missing Authentication Token", "MissingAuthenticationTokenException"
        )
        if match is None:
            raise missing
        resource_path, parameters = match
        resource_id, methods = api.resources[resource_path]
        method = methods.get(request.method) or methods.get("ANY")
        if method is None:
            raise missing
        return self._serve(stage, (resource_id, resource_path), parameters, method)

    def _serve(
        self,
        stage: Mapping[str, Any],
        resource: tuple[str, str],
        parameters: dict[str, str],
        method: dict[str, Any],
    ) -> HttpResponse:
        """Answer by the method of a resource, of which the id and the path are given."""
        resource_id, resource_path = resource
        is_signed = method["authorizationType"] == "AWS_IAM"
        context = self._context(stage, resource_id, resource_path, is_signed=is_signed)
        event = self._event(stage, resource_path, parameters, context)
        context |= {} if stage["canary"] is None else {"isCanaryRequest": "isCanary" in stage}
        self._seen = replace(
            self._seen,
            path=parameters,
            body=self._read_body(members(method.get("integration"))),
            context=context,
            stage=stage["variables"],
        )
        if authorized := self._authorize(method, event):
            context["authorizer"] = event["requestContext"]["authorizer"] = authorized
        check_request(method, self.api.models, self._seen)
        integration: Mapping[str, Any] | None = method.get("integration")
        if integration is None:
            raise Refused(500, "No integration defined for method", "InternalServerErrorException")
        # Imported OpenAPI definitions write it in lower case.
        kind = str(integration.get("type")).upper()
        if kind == "HTTP_PROXY":
            return self._pass_on(integration, self._seen)
        if kind == "AWS_PROXY":
            response = self._proxy(integration, event)
        else:
            response = self._integrate(kind, integration, self._seen)
        if kind != "MOCK":  # recorded
            response.headers.append((TRACE, self._trace_id))
        return response

    # --- access -----------------------------------------------------------------------------------

    def _authorize(self, method: Mapping[str, Any], event: dict[str, Any]) -> dict[str, Any]:
        api = self.api
        if method["apiKeyRequired"] and self._request.headers.get("x-api-key") not in api.keys:
            raise Refused(403, "Forbidden", "ForbiddenException", response_type="INVALID_API_KEY")
        kind = method["authorizationType"]
        if kind == "AWS_IAM":
            self._check_caller()
        if kind not in ("CUSTOM", "COGNITO_USER_POOLS"):
            return {}
        authorizer = api.authorizers.get(str(method["authorizerId"]))
        if authorizer is None:
            raise Refused(500, None, "AuthorizerConfigurationException")
        asked = AuthorizerInput(
            method_arn=self._arn(self._request.method, self._path),
            header=self._request.headers,
            querystring={name: values[-1] for name, values in query_of(self._request).items()},
            event=event,
            account=api.account,
            scopes=method["authorizationScopes"],
            now_ms=self.now_ms,
        )
        return authorize_rest(self._functions, authorizer, asked)

    def _check_caller(self) -> None:
        """Refuse a caller who may not invoke the method. Raises Refused."""
        if self._caller is None:
            raise Refused(
                403, "Missing Authentication Token", "MissingAuthenticationTokenException"
            )
        sentence = denial_of(self._caller, self.api, self._arn(self._request.method, self._path))
        if sentence:
            # API Gateway shows the end of the account only (ASFHyP3/hyp3#2283, observed by others).
            account = self.api.account
            hidden = f":{'*' * 8}{account[8:]}:{self.api.id}/"
            sentence = sentence.replace(f":{account}:{self.api.id}/", hidden)
            raise Refused(403, sentence, "AccessDeniedException")

    def _arn(self, method: str, path: str) -> str:
        api = self.api
        resource = f"{api.id}/{self.stage}/{method}{path}"
        return make_arn("execute-api", api.region, api.account, resource)

    # --- the parts of the request that mappings read ------------------------------------------------

    def _context(
        self, stage: Mapping[str, Any], resource_id: str, resource_path: str, *, is_signed: bool
    ) -> dict[str, Any]:
        api, request, headers = self.api, self._request, self._request.headers
        # As on AWS, only methods that ask for a signature know who signed.
        caller = self._caller if is_signed else None
        identity: dict[str, Any] = {
            **dict.fromkeys(UNSIGNED, ""),
            "sourceIp": "127.0.0.1",
            "userAgent": headers.get("user-agent", ""),
            **({} if caller is None else identity_of(caller)),
        }
        if "x-api-key" in headers:
            identity["apiKey"] = headers["x-api-key"]
        return {
            "accountId": api.account,
            "apiId": api.id,
            "deploymentId": stage["deploymentId"],
            "domainName": self._domain,
            "domainPrefix": self._domain.partition(".")[0],
            "extendedRequestId": extended_id_of(self._request_id),
            "httpMethod": request.method,
            "identity": identity,
            "path": self._full_path,
            "protocol": "HTTP/1.1",
            "requestId": self._request_id,
            "requestTime": when(self.now_ms),
            "requestTimeEpoch": self.now_ms,
            "resourceId": resource_id,
            "resourcePath": resource_path,
            "stage": self.stage,
        }

    def _event(
        self,
        stage: Mapping[str, Any],
        resource_path: str,
        parameters: dict[str, str],
        context: dict[str, Any],
    ) -> dict[str, Any]:
        request = self._request
        query = query_of(request)
        body, is_base64 = body_of(request, is_binary=self._is_binary("content-type"))
        identity = {name: value or None for name, value in context["identity"].items()}
        return {
            "resource": resource_path,
            # Recorded: slashes before the first part are one, and stay in requestContext.path.
            "path": f"/{self._path.lstrip('/')}",
            "httpMethod": request.method,
            "headers": self._seen.written_header,
            "multiValueHeaders": self._headers,
            "queryStringParameters": {name: values[-1] for name, values in query.items()} or None,
            "multiValueQueryStringParameters": query or None,
            "pathParameters": parameters or None,
            "stageVariables": dict(stage["variables"]) or None,
            "requestContext": {**context, "identity": identity},
            "body": body,
            "isBase64Encoded": is_base64,
        }

    def _is_binary(self, header: str) -> bool:
        """Whether the (first) media type in a header is one of the API's binary ones."""
        return self._names_binary(self._request.headers.get(header, ""))

    def _names_binary(self, value: str) -> bool:
        first = value.partition(",")[0].partition(";")[0].strip()
        return any(kind in ("*/*", first) for kind in self.api.binary_types)

    def _read_body(self, integration: Mapping[str, Any]) -> str:
        """Return the request's body as mapping templates see it."""
        body, handling = self._request.body, integration.get("contentHandling")
        if handling == mappings.TO_TEXT and self._is_binary("content-type"):
            return base64.b64encode(body).decode()
        return body.decode(errors="replace")

    def _payload(self, integration: Mapping[str, Any], seen: RequestValues, body: str) -> bytes:
        """Return what the integration gets: a template's text, or the request's own bytes. Raises TemplateError."""
        handling = integration.get("contentHandling")
        if self._is_binary("content-type"):
            is_passed_on = body is seen.body and handling != mappings.TO_TEXT
            return self._request.body if is_passed_on else body.encode()
        return mappings.from_base64(body) if handling == mappings.TO_BINARY else body.encode()

    # --- integrations -----------------------------------------------------------------------------

    def _function(self, uri: str) -> str:
        """Return an integration's function, if the API may invoke it. Raises Refused."""
        api = self.api
        function = function_of(uri)
        source = self._arn(self._request.method, self._path)
        may = function is not None and self._functions.service_may_invoke(
            function, SERVICE, source_arn=source, source_account=api.account
        )
        if function is None or not may:
            log.warning("API %s may not invoke %s for %s", api.id, function or uri, source)
            raise _misconfigured("Invalid permissions on Lambda function")
        return function

    def _proxy(self, integration: Mapping[str, Any], event: dict[str, Any]) -> HttpResponse:
        if integrations.method_of(integration, self._request, "POST") != "POST":
            # Recorded: functions are called by POST alone, and the status is 500, not the kind's 504.
            raise Refused(
                500,
                "Internal server error",
                "InternalServerErrorException",
                response_type="INTEGRATION_FAILURE",
            )
        variables = members(event["stageVariables"])
        function = self._function(mappings.with_variables(str(integration["uri"]), variables))
        body = json.dumps(event).encode()
        self._told.add_request(self._invocation(function), {}, body)
        try:
            result = self._functions.invoke(function, body)
        except FunctionNotFound as error:
            raise _misconfigured("Invalid permissions on Lambda function") from error
        self._told.add_answer([], result.payload)
        # Documented: a Base64 body becomes bytes if the first type that the client accepts is a binary one
        # (docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-payload-encodings-workflow.html).
        decodes = self._is_binary("accept")
        answer_of_proxy = (
            None
            if result.function_error
            else parse_proxy_result(result.payload, needs_status=True, decodes=decodes)
        )
        if answer_of_proxy is None:
            raise _misconfigured("Malformed Lambda proxy response", status=502)
        answer_of_proxy.headers = remapped(answer_of_proxy.headers)
        return answer_of_proxy

    def _integrate(
        self,
        kind: str,
        integration: Mapping[str, Any],
        seen: RequestValues,
    ) -> HttpResponse:
        overrides = Overrides()
        body = mappings.request_body(integration, seen, overrides)
        if body is None:
            raise Refused(415, "Unsupported Media Type", "UnsupportedMediaTypeException")
        if kind == "MOCK":
            status = mappings.read_mock_status(body)
            if not status:
                raise _misconfigured("Unable to parse statusCode. It should be an integer.")
            answered, outcome = IntegrationAnswer(int(status), {}, b""), status
        elif kind == "AWS":
            answered, outcome = self._call(
                integration, seen, overrides, self._payload(integration, seen, body)
            )
        elif kind == "HTTP":
            status, headers, content = self._ask(
                integration, seen, overrides, self._payload(integration, seen, body), {}, {}
            )
            known = {name.lower(): value for name, value in headers}
            answered, outcome = IntegrationAnswer(status, known, content), str(status)
        else:
            raise Refused(
                501,
                f"headrace's APIs have no integration of type {kind}",
                "NotImplementedException",
            )
        response = mappings.response(
            integration, answered, outcome, seen, overrides, self._names_binary
        )
        if response is None:
            raise _misconfigured(
                "No match for output mapping and no default endpoint response mapping configured."
                f" Endpoint Response Status Code: {answered.status}"
            )
        return answer(response[0], remapped(response[1]), response[2])

    def _pass_on(self, integration: Mapping[str, Any], seen: RequestValues) -> HttpResponse:
        """Forward the unchanged request to the endpoint of an HTTP_PROXY integration, and return its answer."""
        body, header = self._request.body, seen.written_header
        status, headers, content = self._ask(
            integration, seen, Overrides(), body, header, seen.querystring
        )
        return answer(status, remapped(headers), content)

    def _ask(
        self,
        integration: Mapping[str, Any],
        seen: RequestValues,
        overrides: Overrides,
        body: bytes,
        headers: Mapping[str, str],
        query: Mapping[str, str],
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        parameters = mappings.request_parameters(integration, seen, overrides)
        kind = seen.header.get("content-type", "application/json")
        return integrations.forward(
            integrations.method_of(integration, self._request),
            mappings.with_variables(str(integration["uri"]), seen.stage),
            path={**seen.path, **parameters["path"]},
            query={**query, **parameters["querystring"]},
            headers=endpoint_headers(
                self.api.id, self._trace_id, kind, headers, parameters["header"]
            ),
            body=body,
            told=self._told,
        )

    def _invocation(self, function: str) -> str:
        path = f"/2015-03-31/functions/{function}/invocations"
        return f"https://lambda.{self.api.region}.amazonaws.com{path}"

    def _call(
        self, integration: Mapping[str, Any], seen: RequestValues, overrides: Overrides, body: bytes
    ) -> tuple[IntegrationAnswer, str]:
        """Return the integration's answer, and the text that selection patterns are matched against."""
        parameters = mappings.request_parameters(integration, seen, overrides)
        uri = mappings.with_variables(str(integration["uri"]), seen.stage)
        for name, value in parameters["path"].items():
            uri = uri.replace(f"{{{name}}}", value)
        if function_of(uri) is not None:
            function = self._function(uri)
            if parameters["header"].get("x-amz-invocation-type") == "Event":
                self._functions.invoke_later(function, body)
                return IntegrationAnswer(202, {}, b""), "202"
            self._told.add_request(self._invocation(function), {}, body)
            try:
                result = self._functions.invoke(function, body or b"{}")
            except FunctionNotFound as error:
                raise _misconfigured("Invalid permissions on Lambda function") from error
            self._told.add_answer([], result.payload)
            failed = text_at(
                mappings.parse_body(result.payload.decode(errors="replace")), "errorMessage"
            )
            outcome = (failed or "") if result.function_error else ""
            return IntegrationAnswer(200, {}, result.payload), outcome
        target = service_calls.parse_uri(uri)
        if target is None:
            raise _misconfigured(integrations.INVALID_ADDRESS)
        region, service, action, rest = target
        headers = {
            "content-type": seen.header.get("content-type", "application/json"),
            **parameters["header"],
        }
        sent = IntegrationRequest(
            region=region,
            service=service,
            kind=action,
            target=rest.partition("?")[0],
            method=integrations.method_of(integration, self._request),
            headers=headers,
            query={**dict(mappings.pairs(rest)), **parameters["querystring"]},
            body=body,
            request_id=self._request_id,
        )
        source = self._arn(self._request.method, self._path)
        acting = integrations.acting_as(
            self._guard, integration.get("credentials"), SESSION, source
        )
        address = (
            f"https://{service}.{region}.amazonaws.com/{'' if action == 'action' else sent.target}"
        )
        self._told.add_request(address, headers, body)
        answered = service_calls.call(self._control, sent, account=self.api.account, acting=acting)
        self._told.add_answer([*answered.headers.items()], answered.body)
        return answered, str(answered.status)
