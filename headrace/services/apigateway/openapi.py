"""Reads OpenAPI definitions of APIs, Swagger 2.0 and OpenAPI 3, as API Gateway imports them. Pure functions.

Source: docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-swagger-extensions.html (documented).

Imports OpenAPI definitions as HTTP APIs (ImportApi, ReimportApi); moto reads only routes and integrations.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import yaml
from moto.apigatewayv2.exceptions import BadRequestException

from headrace.core.values import parse_json
from headrace.moto.bounds import check_depth, safe_load

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


Members = dict[str, Any]
_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
ANY = "x-amazon-apigateway-any-method"
INTEGRATION = "x-amazon-apigateway-integration"
AUTHORIZER = "x-amazon-apigateway-authorizer"
_MOST_REFERENCES = 20


class BadDefinition(Exception):
    """The definition cannot be imported; the text says why, as API Gateway does (assumed where not quoted)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path. `parameters` are the path's and its own, without references."""

    path: str
    method: str
    members: Members
    parameters: Sequence[Members]


@dataclass(frozen=True, slots=True)
class Security:
    """What an operation demands of its callers.

    Attributes:
        kind: NONE, AWS_IAM, or `AUTHORIZER`.
        scheme: the name of the security scheme with the authorizer.
        scopes: the scopes that it lists.
        needs_key: whether an API key is needed.
    """

    kind: str = "NONE"
    scheme: str = ""
    scopes: tuple[str, ...] = ()
    needs_key: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition of an API."""

    members: Members
    is_swagger: bool
    base_path: str = field(default="")

    # --- parts --------------------------------------------------------------------------------

    @property
    def info(self) -> Members:
        """Its `info`."""
        return members_of(self.members, "info")

    @property
    def schemas(self) -> Members:
        """Its schemas by name."""
        return self._list_shared("definitions", "schemas")

    @property
    def security_schemes(self) -> Members:
        """Its security schemes by name."""
        return self._list_shared("securityDefinitions", "securitySchemes")

    def _list_shared(self, old: str, new: str) -> Members:
        if self.is_swagger:
            return members_of(self.members, old)
        return members_of(members_of(self.members, "components"), new)

    def resolve(self, value: Any) -> Members:
        """Return an object, or what its `$ref` points to within the definition. Raises BadDefinition."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(value, dict):
                raise BadDefinition("Invalid OpenAPI input.")
            reference: Any = cast("Members", value).get("$ref")
            if reference is None:
                return cast("Members", value)
            value = self._find_referenced(str(reference))
        raise BadDefinition("Invalid OpenAPI input: a reference refers to itself.")

    def _find_referenced(self, reference: str) -> Any:
        node: Any = self.members
        parts = reference.removeprefix("#/").split("/") if reference.startswith("#/") else [""]
        for part in parts:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or name not in node:
                raise BadDefinition(f"Invalid OpenAPI input: {reference} is not in the definition.")
            node = cast("Members", node)[name]
        return node

    def operations(self) -> Iterator[Operation]:
        """Yield the operations by path, with `base_path` before each path. Raises BadDefinition."""
        paths = members_of(self.members, "paths")
        for path in sorted(paths):
            if path.startswith("x-"):
                continue
            if not path.startswith("/"):
                raise BadDefinition(f"Invalid OpenAPI input: the path {path} begins with no slash.")
            item = self.resolve(paths[path])
            common = self._parameters(item)
            for name, value in item.items():
                if name not in _METHODS and name != ANY:
                    continue
                operation = self.resolve(value)
                method = "ANY" if name == ANY else name.upper()
                whole = f"{self.base_path}{path}".rstrip("/") or "/"
                yield Operation(whole, method, operation, [*common, *self._parameters(operation)])

    def _parameters(self, item: Members) -> list[Members]:
        listed: Any = item.get("parameters") or []
        if not isinstance(listed, list):
            raise BadDefinition("Invalid OpenAPI input.")
        return [self.resolve(parameter) for parameter in cast("list[Any]", listed)]

    def integration_of(self, operation: Operation) -> Members | None:
        """Return an operation's integration, with its type in upper case. Raises BadDefinition."""
        if INTEGRATION not in operation.members:
            return None
        integration = dict(self.resolve(operation.members[INTEGRATION]))
        integration["type"] = str(integration.get("type", "")).upper()
        return integration

    # --- security -----------------------------------------------------------------------------

    def security_of(self, operation: Operation) -> Security:
        """Return what an operation demands, by its own `security` or the definition's. Raises BadDefinition."""
        kind = str(
            members_of(operation.members, "x-amazon-apigateway-auth").get("type", "")
        ).upper()
        listed: Any = operation.members.get("security", self.members.get("security")) or []
        if not isinstance(listed, list):
            raise BadDefinition("Invalid OpenAPI input.")
        security = Security(kind if kind in ("NONE", "AWS_IAM") else "NONE")
        for alternative in cast("list[Any]", listed):
            for name, scopes in self.resolve(alternative).items():
                security = self._with_scheme(security, name, scopes or [])
        return security

    def _with_scheme(self, security: Security, name: str, scopes: Sequence[str]) -> Security:
        scheme = self.resolve(self.security_schemes.get(name) or {})
        if AUTHORIZER in scheme:
            return Security("AUTHORIZER", name, tuple(scopes), security.needs_key)
        if str(scheme.get("x-amazon-apigateway-authtype", "")).lower() == "awssigv4":
            return Security("AWS_IAM", needs_key=security.needs_key)
        if scheme.get("type") == "apiKey" and str(scheme.get("name", "")).lower() == "x-api-key":
            return Security(security.kind, security.scheme, security.scopes, needs_key=True)
        return security


def members_of(value: Mapping[str, Any], name: str) -> Members:
    """Return the object under `name`, or an empty one. Raises BadDefinition."""
    member: Any = value.get(name)
    if member is None:
        return {}
    if not isinstance(member, dict):
        raise BadDefinition(f"Invalid OpenAPI input: {name} is no object.")
    return cast("Members", member)


def read_definition(body: str | bytes, base_path_rule: str = "ignore") -> Definition:
    """Return a definition in JSON or YAML. Raises BadDefinition.

    Args:
        body: the definition's text.
        base_path_rule: the parameter `basepath`: whether the definition's base path is left out (`ignore`), put before
            every path (`prepend`), or put before without its first part (`split`).
    """
    value = parse_definition(body)
    if not isinstance(value, dict):
        raise BadDefinition("Invalid OpenAPI input.")
    document = cast("Members", value)
    is_swagger = str(document.get("swagger", "")) == "2.0"
    if not is_swagger and not str(document.get("openapi", "")).startswith("3."):
        raise BadDefinition("Invalid OpenAPI input.")
    definition = Definition(document, is_swagger)
    if not members_of(document, "info").get("title"):
        raise BadDefinition("Invalid OpenAPI input: info.title is missing.")
    return Definition(document, is_swagger, _base_path(definition, base_path_rule))


def parse_definition(body: str | bytes) -> Any:
    """Return the value of a text in JSON or YAML. Raises BadDefinition, also for what is nested too deeply."""
    try:
        try:
            value = parse_json(body)
        except ValueError:
            return _with_text_names(safe_load(body))
        check_depth(value)
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        # A bound of `safe_load`; bad syntax has a class of its own.
        if type(error) is yaml.YAMLError:
            raise BadDefinition(f"Unable to parse API definition: {error}") from error
        raise BadDefinition("Invalid OpenAPI input.") from error
    return value


def _with_text_names(value: Any) -> Any:
    """Return a value of YAML whose members have texts as names, also where they are numbers: status codes."""
    if isinstance(value, list):
        return [_with_text_names(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    return {
        str(name) if type(name) is int else name: _with_text_names(item)
        for name, item in cast("dict[Any, Any]", value).items()
    }


def _base_path(definition: Definition, rule: str) -> str:
    if rule == "ignore":
        return ""
    if rule not in ("prepend", "split"):
        raise BadDefinition(f"Invalid value for basepath: {rule}")
    parts = [part for part in _read_base_path(definition).split("/") if part]
    kept = parts[1:] if rule == "split" else parts
    return "".join(f"/{part}" for part in kept)


def _read_base_path(definition: Definition) -> str:
    if definition.is_swagger:
        return str(definition.members.get("basePath", ""))
    servers: Any = definition.members.get("servers") or []
    if not isinstance(servers, list) or not servers:
        return ""
    server = definition.resolve(cast("list[Any]", servers)[0])
    url = str(server.get("url", ""))
    for name, variable in members_of(server, "variables").items():
        url = url.replace(f"{{{name}}}", str(definition.resolve(variable).get("default", "")))
    _, scheme, rest = url.partition("://")
    return "/" + rest.partition("/")[2] if scheme else url
