"""Reads the APIs that moto stores, in their current state: a stage serves the current API, not the deployed one.

Finds the REST API resource or HTTP API route that matches a path. Pure functions.

Who may invoke a method with the authorization AWS_IAM, and how events name them.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

from headrace.aws.calls.operation import Signer
from headrace.moto.storage.changes import MOTO_LOCK

ACTION = "execute-api:Invoke"


def denial_of(caller: Signer | None, api: RestApi | HttpApi, arn: str, action: str = ACTION) -> str:
    """Return why a caller may not invoke the method `arn`, or do something else; empty when it may.

    Source: apigateway/latest/developerguide/apigateway-authorization-flow.html (documented): in the API's account a
    policy of the caller or of the API allows it; a caller of another account needs both, and only REST APIs have
    policies.
    """
    if caller is None:
        return "Missing Authentication Token"
    if caller.account != api.account and isinstance(api, HttpApi):
        return f"User: {caller.arn} is not authorized to perform: {action} on resource: {arn}"
    return caller.denial(action, arn, {})


# The members of `identity` that only a signature or a user of Cognito fills: empty in mapping templates
# (LocalStack's tests against AWS, apigateway/test_apigateway_sqs.py, 2025), null in events (documented:
# apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html).
UNSIGNED = (
    "accessKey", "accountId", "caller", "cognitoAuthenticationProvider", "cognitoAuthenticationType",
    "cognitoIdentityId", "cognitoIdentityPoolId", "principalOrgId", "user", "userArn",
)  # fmt: skip


def identity_of(caller: Signer) -> dict[str, Any]:
    """Return the members of `requestContext.identity` in events of format 1.0.

    Source: apigateway/latest/developerguide/api-gateway-mapping-template-reference.html (documented).
    """
    return {
        "accessKey": caller.access_key,
        "accountId": caller.account,
        "caller": caller.user_id,
        "user": caller.user_id,
        "userArn": caller.arn,
    }


@dataclass(frozen=True, slots=True)
class RestApi:
    """A REST API.

    Attributes:
        id, name, account, region: its identity.
        resources: path -> resource id and its methods in GetMethod's form, by HTTP method.
        stages: name -> variables and deployment.
        binary_types: the media types with binary bodies.
        authorizers: id -> GetAuthorizer's form.
        responses: the API's own gateway responses, by type.
        keys: the values of all enabled API keys, of all APIs.
        models: name -> schema, as JSON text.
    """

    id: str
    name: str
    account: str
    region: str
    resources: dict[str, tuple[str, dict[str, dict[str, Any]]]]
    stages: dict[str, dict[str, Any]]
    binary_types: list[str]
    authorizers: dict[str, dict[str, Any]]
    responses: dict[str, dict[str, Any]]
    keys: set[str]
    models: dict[str, str]


@dataclass(frozen=True, slots=True)
class HttpApi:
    """An HTTP or WebSocket API: its routes by their key, its integrations and authorizers by id, stages by name.

    `selection` is the expression that chooses a message's route; an integration has its `responses`.
    """

    id: str
    account: str
    region: str
    protocol: str
    cors: dict[str, Any]
    is_closed: bool
    routes: dict[str, dict[str, Any]]
    integrations: dict[str, dict[str, Any]]
    authorizers: dict[str, dict[str, Any]]
    stages: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    selection: str = ""


def find_api(api_id: str) -> RestApi | HttpApi | None:
    """Return an API by its id, in any account and region; None when it does not exist. moto is loaded."""
    from moto.apigateway.models import apigateway_backends
    from moto.apigatewayv2.models import apigatewayv2_backends

    with MOTO_LOCK:
        for kept, read in ((apigateway_backends, _rest_api), (apigatewayv2_backends, _http_api)):
            # Plain dictionary access: moto's own lookup would create a backend for an unused region.
            for account, regions in list(cast("Any", kept).items()):
                for region, backend in list(regions.items()):
                    if api_id in backend.apis:
                        return read(backend, api_id, account, region)
    return None


def choose_release(stage: dict[str, Any], request_id: str) -> dict[str, Any]:
    """Return the stage, or, for the percentage of requests that its canary gets, the stage with its overrides.

    Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/canary-release.html
    """
    canary = stage["canary"]
    if canary is None or zlib.crc32(request_id.encode()) % 100 >= canary["percentTraffic"]:
        return stage
    variables = {**stage["variables"], **canary["stageVariableOverrides"]}
    return {
        **stage,
        "variables": variables,
        "deploymentId": canary["deploymentId"],
        "isCanary": True,
    }


def _rest_api(backend: Any, api_id: str, account: str, region: str) -> RestApi:
    api = backend.apis[api_id]
    resources = {
        resource.get_path(): (
            str(resource.id),
            {name: _method(method, api) for name, method in resource.resource_methods.items()},
        )
        for resource in api.resources.values()
    }
    stages = {
        name: {
            "variables": dict(stage.variables or {}),
            "deploymentId": stage.deployment_id,
            "canary": stage.canary_settings,
        }
        for name, stage in api.stages.items()
    }
    return RestApi(
        id=api_id,
        name=str(api.name),
        account=str(account),
        region=str(region),
        resources=resources,
        stages=stages,
        binary_types=list(api.binaryMediaTypes or []),
        authorizers={name: entity.to_json() for name, entity in api.authorizers.items()},
        responses={name: entity.to_json() for name, entity in api.gateway_responses.items()},
        keys={key.value for key in backend.keys.values() if key.enabled},
        models={model.name: str(model.schema or "") for model in api.models.values()},
    )


def _method(method: Any, api: Any) -> dict[str, Any]:
    integration = method.method_integration
    validator = api.request_validators.get(method.request_validator_id)
    return {
        "authorizationType": method.authorization_type,
        "authorizerId": method.authorizer_id,
        "authorizationScopes": tuple(method.authorization_scopes or ()),
        "apiKeyRequired": method.api_key_required in (True, "true"),
        "requestParameters": dict(method.request_parameters or {}),
        "requestModels": dict(method.request_models or {}),
        "validator": {} if validator is None else validator.to_dict(),
        "integration": None if integration is None else integration.to_json(),
    }


def _http_api(backend: Any, api_id: str, account: str, region: str) -> HttpApi:
    api = backend.apis[api_id]
    return HttpApi(
        id=api_id,
        account=str(account),
        region=str(region),
        protocol=str(api.protocol_type),
        cors=dict(api.cors_configuration or {}),
        is_closed=api.disable_execute_api_endpoint in (True, "true"),
        routes={route.route_key: route.to_json() for route in api.routes.values()},
        integrations={
            name: {
                **entity.to_json(),
                "responses": [answer.to_json() for answer in entity.responses.values()],
            }
            for name, entity in api.integrations.items()
        },
        authorizers={name: entity.to_json() for name, entity in api.authorizers.items()},
        stages={name: dict(stage.stage_variables or {}) for name, stage in api.stages.items()},
        selection=str(api.route_selection_expression or ""),
    )


# The better first: a literal part, a parameter, the rest of the path (documented:
# https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-routes.html).
_LITERAL, _PARAMETER, _REST = 0, 1, 2


def best_match(
    path: str, templates: Iterable[str], *, is_rest_raw: bool = False
) -> tuple[str, dict[str, str]] | None:
    """Return the template that matches a path best, such as `/items/{id}/{proxy+}`, and its parameters' values.

    `is_rest_raw`: what a greedy variable takes stays as it was sent, as recorded from REST APIs.
    """
    parts = _parts(path)
    fits: list[tuple[list[int], str, dict[str, str]]] = []
    for template in templates:
        fit = _fit(parts, _parts(template))
        if fit is not None:
            fits.append((fit[0], template, fit[1]))
    if not fits:
        return None
    _, template, parameters = min(fits, key=lambda each: each[0])
    *before, last = _parts(template) or [""]
    if is_rest_raw and last.endswith("+}"):
        parameters[last[1:-2]] = _rest_of(path, len(before))
    return template, parameters


def _rest_of(path: str, count: int) -> str:
    """Return a path without its first parts."""
    rest = path.strip("/")
    for _ in range(count):
        rest = rest.partition("/")[2].lstrip("/")
    return rest


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _fit(parts: list[str], template: list[str]) -> tuple[list[int], dict[str, str]] | None:
    kinds: list[int] = []
    parameters: dict[str, str] = {}
    for at, segment in enumerate(template):
        name = segment[1:-1] if segment.startswith("{") and segment.endswith("}") else ""
        if name.endswith("+"):
            if at >= len(parts):
                return None
            parameters[name[:-1]] = unquote("/".join(parts[at:]))
            return [*kinds, _REST], parameters
        if at >= len(parts) or (not name and unquote(parts[at]) != segment):
            return None
        if name:
            parameters[name] = unquote(parts[at])
        kinds.append(_PARAMETER if name else _LITERAL)
    return (kinds, parameters) if len(parts) == len(template) else None
