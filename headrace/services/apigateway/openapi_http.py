"""Imports OpenAPI definitions as HTTP APIs (ImportApi, ReimportApi); moto reads only routes and integrations."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moto.apigatewayv2.exceptions import BadRequestException

from headrace.services.apigateway.openapi import (
    AUTHORIZER,
    BadDefinition,
    Definition,
    Members,
    Operation,
    members_of,
    read_definition,
)

_CORS = "x-amazon-apigateway-cors"
_DEFAULT_PATH = "/$default"


def patch_responses(module: Any) -> None:
    """Add ImportApi to `moto.apigatewayv2.responses`, and replace ReimportApi."""

    def query_of(response: Any) -> dict[str, str]:
        return {name: values[-1] for name, values in response.querystring.items() if values}

    def run_import(self: Any) -> tuple[int, dict[str, Any], str]:
        body = str(json.loads(self.body).get("body") or "")
        api = import_api(self.apigatewayv2_backend, body, query_of(self))
        return 201, {}, json.dumps(api.to_json())

    def run_reimport(self: Any) -> tuple[int, dict[str, Any], str]:
        body = str(json.loads(self.body).get("body") or "")
        backend, api_id = self.apigatewayv2_backend, self.path.split("/")[-1]
        api = reimport_api(backend, api_id, body, query_of(self))
        return 201, {}, json.dumps(api.to_json())

    module.ApiGatewayV2Response.import_api = run_import
    module.ApiGatewayV2Response.reimport_api = run_reimport


def import_api(backend: Any, body: str, query: Mapping[str, str]) -> Any:
    """Create an HTTP API from a definition and return it. Raises moto's BadRequestException."""
    definition = _read(body, query)
    plan = _plan_operations(definition)
    api = backend.create_api(
        api_key_selection_expression=None,
        cors_configuration=None,
        description=None,
        disable_schema_validation=None,
        disable_execute_api_endpoint=None,
        name=str(definition.info["title"]),
        protocol_type="HTTP",
        route_selection_expression=None,
        tags={},
        version=None,
    )
    _fill(api, definition, plan)
    return api


def reimport_api(backend: Any, api_id: str, body: str, query: Mapping[str, str]) -> Any:
    """Replace an API's routes, integrations and authorizers by a definition's; its stages stay. Return the API."""
    api = backend.get_api(api_id)
    definition = _read(body, query)
    plan = _plan_operations(definition)
    for part in (api.authorizers, api.integrations, api.models, api.routes):
        part.clear()
    _fill(api, definition, plan)
    return api


def _read(body: str, query: Mapping[str, str]) -> Definition:
    try:
        definition = read_definition(body, query.get("basepath", "ignore"))
    except BadDefinition as error:
        raise BadRequestException(str(error)) from error
    if definition.is_swagger:
        raise BadRequestException("Invalid OpenAPI input: HTTP APIs are imported from OpenAPI 3.0.")
    return definition


def _plan_operations(definition: Definition) -> list[tuple[Operation, Members | None]]:
    """Return the operations with their integrations. Raises BadRequestException before anything is changed."""
    try:
        plan = [
            (http_operation, definition.integration_of(http_operation))
            for http_operation in definition.operations()
        ]
        for operation, _ in plan:
            security = definition.security_of(operation)
            if security.kind == "AUTHORIZER":
                _authorizer_of(definition, security.scheme)
        members_of(definition.members, _CORS)
    except BadDefinition as error:
        raise BadRequestException(f"Errors found during import:\n\t{error}") from error
    return plan


def _fill(api: Any, definition: Definition, plan: list[tuple[Operation, Members | None]]) -> None:
    info = definition.info
    api.name = str(info["title"])
    api.version = str(info["version"]) if "version" in info else api.version
    api.description = info.get("description") or api.description
    cors = members_of(definition.members, _CORS)
    if cors:
        api.cors_configuration = cors
    for name, schema in definition.schemas.items():
        api.create_model("application/json", "", name, json.dumps(schema))
    authorizers: dict[str, Any] = {}
    for operation, integration in plan:
        security = definition.security_of(operation)
        kind, authorizer = security.kind, None
        if security.kind == "AUTHORIZER":
            if security.scheme not in authorizers:
                arguments = _authorizer_of(definition, security.scheme)
                authorizers[security.scheme] = api.create_authorizer(**arguments)
            authorizer = authorizers[security.scheme]
            kind = "JWT" if authorizer.authorizer_type == "JWT" else "CUSTOM"
        is_default = operation.path == _DEFAULT_PATH
        created = (
            None if integration is None else api.create_integration(**_integration(integration))
        )
        api.create_route(
            api_key_required=False,
            authorization_scopes=list(security.scopes),
            route_key="$default" if is_default else f"{operation.method} {operation.path}",
            target=f"integrations/{created.id}" if created is not None else None,
            authorization_type=kind,
            authorizer_id=None if authorizer is None else authorizer.id,
            operation_name=operation.members.get("operationId"),
        )


def _integration(integration: Members) -> dict[str, Any]:
    return {
        "connection_type": integration.get("connectionType", "INTERNET"),
        "connection_id": integration.get("connectionId"),
        "description": integration.get("description"),
        "integration_method": integration.get("httpMethod"),
        "integration_type": integration["type"],
        "integration_uri": integration.get("uri"),
        "integration_subtype": integration.get("integrationSubtype"),
        "credentials_arn": integration.get("credentials"),
        "payload_format_version": str(integration.get("payloadFormatVersion", "1.0")),
        "request_parameters": integration.get("requestParameters"),
        "response_parameters": integration.get("responseParameters"),
        "timeout_in_millis": integration.get("timeoutInMillis"),
        "tls_config": integration.get("tlsConfig"),
    }


def _authorizer_of(definition: Definition, name: str) -> dict[str, Any]:
    """Return the arguments of moto's authorizer for a security scheme. Raises BadDefinition."""
    scheme = definition.resolve(definition.security_schemes[name])
    authorizer = definition.resolve(scheme[AUTHORIZER])
    kind = str(authorizer.get("type", "")).upper()
    if kind not in ("JWT", "REQUEST"):
        raise BadDefinition(
            f"Unable to create authorizer '{name}': Invalid authorizer type {authorizer.get('type')}"
        )
    source = authorizer.get("identitySource")
    return {
        "auth_creds_arn": authorizer.get("authorizerCredentials"),
        "auth_payload_format_version": authorizer.get("authorizerPayloadFormatVersion"),
        "auth_result_ttl": authorizer.get("authorizerResultTtlInSeconds"),
        "authorizer_type": kind,
        "authorizer_uri": authorizer.get("authorizerUri"),
        "enable_simple_response": authorizer.get("enableSimpleResponses"),
        "identity_source": source.split(",") if isinstance(source, str) else source,
        "identity_validation_expr": authorizer.get("identityValidationExpression"),
        "jwt_config": authorizer.get("jwtConfiguration"),
        "name": name,
    }
