"""Imports OpenAPI definitions as REST APIs (ImportRestApi, PutRestApi); moto reads only a part of OpenAPI 3.

Errors have API Gateway's form: `Errors found during import:` with one line for what cannot be made (observed, in
issues of deployment tools; their sentences are moto's where it has them).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateImportUsage=false, reportUnknownParameterType=false

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from moto.apigateway.exceptions import ApiGatewayException, BadRequestException
from moto.apigateway.models import validate

from headrace.services.apigateway.documentation import import_parts
from headrace.services.apigateway.invocation.validation import MODELS
from headrace.services.apigateway.openapi import (
    AUTHORIZER,
    BadDefinition,
    Definition,
    Members,
    Operation,
    Security,
    members_of,
    read_definition,
)

_PLACES = {"path": "path", "query": "querystring", "header": "header"}
_PREFIX = "x-amazon-apigateway-"
# AWS's quota of an API's resources can be raised; here it bounds the parts of one path, which moto climbs recursively.
_MOST_PARTS = 300
# And this, all of one API: a document of 10 MB could ask for millions.
_MOST_RESOURCES = 30_000
_TOO_MANY = (
    "Maximum number of resources for this API has been reached."
    " Please contact AWS if you need additional resources."
)
_WARNED = "Warnings found during import:\n\t"
_OF_MODEL = re.compile(r"#/(?:definitions|components/schemas)/([^/]+)")
_VARIABLE = re.compile(r"\{([^{}+]+)\+?\}")
_NAMES_OF_INTEGRATION = {
    "credentials": "credentials",
    "requestTemplates": "request_templates",
    "passthroughBehavior": "passthrough_behavior",
    "tlsConfig": "tls_config",
    "cacheNamespace": "cache_namespace",
    "timeoutInMillis": "timeout_in_millis",
    "requestParameters": "request_parameters",
    "contentHandling": "content_handling",
    "connectionType": "connection_type",
}


def import_api(backend: Any, body: str, query: Mapping[str, str]) -> tuple[Any, list[str]]:
    """Create an API from a definition; return it, and warnings. Raises moto's BadRequestException."""
    definition = _read(body, query)
    info = definition.info
    api = backend.create_rest_api(
        name=str(info["title"]), description=str(info.get("description", "")) or None
    )
    # An imported API has its definition's models only (documented by AWS's PetStore sample: no "Error").
    api.models.clear()
    try:
        return api, _import_definition(backend, api, definition, query)
    except BaseException:
        backend.delete_rest_api(api.id)
        raise


def put_api(
    backend: Any, api_id: str, body: str, query: Mapping[str, str]
) -> tuple[Any, list[str]]:
    """Merge a definition into an API, or overwrite it; return the API, and warnings.

    Raises BadRequestException: nothing has changed.
    """
    api = backend.get_rest_api(api_id)
    mode = query.get("mode", "merge")
    if mode not in ("merge", "overwrite"):
        raise BadRequestException(
            'Enumeration value of OpenAPI import mode must be "overwrite" or "merge"'
        )
    definition = _read(body, query)
    before = copy.deepcopy(api.__dict__)
    try:
        if mode == "overwrite":
            _clear(api)
        api.name = str(definition.info["title"])
        api.description = str(definition.info.get("description", "")) or api.description
        return api, _import_definition(backend, api, definition, query)
    except BaseException:
        api.__dict__.clear()
        api.__dict__.update(before)
        raise


def _read(body: str, query: Mapping[str, str]) -> Definition:
    try:
        definition = read_definition(body, query.get("basepath", "ignore"))
    except BadDefinition as error:
        raise BadRequestException(str(error)) from error
    if query.get("failonwarnings") == "true":
        # moto's own name of this is a stand-in until somebody uses it, and nothing is an exception of one.
        from openapi_spec_validator.validation.exceptions import OpenAPIValidationError

        # Recorded: AWS takes a document without a version.
        info = {"version": "", **definition.info}
        try:
            validate(cast("Any", {**definition.members, "info": info}))
        except OpenAPIValidationError as error:
            issue = str(error).partition("\n")[0]
            raise BadRequestException(f"{_WARNED}Parse issue: {issue}") from error
    return definition


def _clear(api: Any) -> None:
    """Remove what a definition describes. The root keeps its id, since stacks refer to it."""
    api.default.resource_methods.clear()
    api.resources = {api.default.id: api.default}
    for part in (api.authorizers, api.gateway_responses, api.models, api.request_validators):
        part.clear()
    api.policy, api.binaryMediaTypes, api.minimum_compression_size = None, [], None
    api.api_key_source, api.disableExecuteApiEndpoint = "HEADER", False


def _import_definition(
    backend: Any, api: Any, definition: Definition, query: Mapping[str, str]
) -> list[str]:
    """Fill an API; return warnings."""
    try:
        warnings = _Import(backend, api, definition).run(query)
    except BadDefinition as error:
        raise BadRequestException(f"Errors found during import:\n\t{error}") from error
    if warnings and query.get("failonwarnings") == "true":
        raise BadRequestException(_WARNED + "\n\t".join(warnings))
    return warnings


def _explain_refusal(what: str, make: Callable[[], Any]) -> Any:
    """Return what `make` returns; a refusal says what could not be made. Raises BadDefinition."""
    try:
        return make()
    except ApiGatewayException as error:
        raise BadDefinition(f"Unable to {what}: {error.message}") from error


class _Import:
    """One import of a definition into an API of moto's backend."""

    def __init__(self, backend: Any, api: Any, definition: Definition) -> None:
        self._backend, self._api, self._definition = backend, api, definition
        self._authorizers: dict[str, tuple[str, str]] = {}
        self._validators: dict[str, str] = {}
        self._warnings: list[str] = []
        resources = list(api.resources.values())
        self._ids: dict[str, str] = {resource.get_path(): resource.id for resource in resources}
        # Of each resource, the part of its child that is a variable.
        self._variable_parts: dict[str, str] = {
            resource.parent_id: resource.path_part
            for resource in resources
            if resource.path_part.startswith("{")
        }

    def run(self, query: Mapping[str, str]) -> list[str]:
        """Make everything; return warnings. Raises BadDefinition."""
        self._settings(query)
        for name, schema in self._definition.schemas.items():
            self._model(name, schema)
        for name, scheme in self._definition.security_schemes.items():
            self._authorizer(name, self._definition.resolve(scheme))
        validators = members_of(self._definition.members, f"{_PREFIX}request-validators")
        for name, rule in validators.items():
            self._validators[name] = self._validator(name, self._definition.resolve(rule))
        self._gateway_responses()
        for operation in self._definition.operations():
            self._method(operation)
        import_parts(self._api, self._definition.members, query.get("mode", "merge"))
        return self._warnings

    # --- the API ------------------------------------------------------------------------------

    def _settings(self, query: Mapping[str, str]) -> None:
        api, members = self._api, self._definition.members
        api.version = str(self._definition.info.get("version", "")) or api.version
        types: list[str] = members.get(f"{_PREFIX}binary-media-types") or []
        api.binaryMediaTypes = [
            *api.binaryMediaTypes,
            *(t for t in types if t not in api.binaryMediaTypes),
        ]
        api.api_key_source = members.get(f"{_PREFIX}api-key-source") or api.api_key_source
        size = members.get(f"{_PREFIX}minimum-compression-size")
        api.minimum_compression_size = api.minimum_compression_size if size is None else int(size)
        policy = members.get(f"{_PREFIX}policy")
        if policy is not None:
            api.policy = policy if isinstance(policy, str) else json.dumps(policy)
        endpoint = members_of(members, f"{_PREFIX}endpoint-configuration")
        if "disableExecuteApiEndpoint" in endpoint:
            api.disableExecuteApiEndpoint = endpoint["disableExecuteApiEndpoint"] in (True, "true")
        if endpoint.get("vpcEndpointIds"):
            api.endpoint_configuration["vpcEndpointIds"] = list(endpoint["vpcEndpointIds"])
        kinds = query.get("endpointConfigurationTypes")
        if kinds:
            api.endpoint_configuration["types"] = kinds.split(",")

    def _model(self, name: str, schema: Any) -> None:
        if not name.isalnum():
            raise BadDefinition(
                f"Unable to create model for '{name}': Model name must be alphanumeric: {name}"
            )
        described = str(self._definition.resolve(schema).get("description", ""))
        for model_id in [key for key, model in self._api.models.items() if model.name == name]:
            del self._api.models[model_id]
        own = json.dumps(_with_models(schema, self._api.id), indent=2)
        self._backend.create_model(self._api.id, name, "application/json", described, own)

    def _authorizer(self, name: str, scheme: Members) -> None:
        definition = self._definition.resolve(scheme.get(AUTHORIZER) or {})
        kind = str(definition.get("type", "")).upper()
        if AUTHORIZER not in scheme:
            return
        if kind not in ("TOKEN", "REQUEST", "COGNITO_USER_POOLS"):
            raise BadDefinition(
                f"Unable to create authorizer '{name}': Invalid authorizer type {definition.get('type')}"
            )
        source = definition.get("identitySource")
        if source is None and scheme.get("in") == "header" and kind != "REQUEST":
            source = f"method.request.header.{scheme.get('name')}"
        for key in [
            key for key, existing in self._api.authorizers.items() if existing.name == name
        ]:
            del self._api.authorizers[key]
        authorizer = self._backend.create_authorizer(
            self._api.id,
            name,
            kind,
            provider_arns=definition.get("providerARNs"),
            auth_type=scheme.get(f"{_PREFIX}authtype"),
            authorizer_uri=definition.get("authorizerUri"),
            authorizer_credentials=definition.get("authorizerCredentials"),
            identity_source=source,
            identiy_validation_expression=definition.get("identityValidationExpression"),
            authorizer_result_ttl=definition.get("authorizerResultTtlInSeconds"),
        )
        self._authorizers[name] = (
            authorizer.id,
            "CUSTOM" if kind != "COGNITO_USER_POOLS" else kind,
        )

    def _validator(self, name: str, rule: Members) -> str:
        for key in [
            key for key, existing in self._api.request_validators.items() if existing.name == name
        ]:
            del self._api.request_validators[key]
        validator = self._backend.create_request_validator(
            self._api.id,
            name,
            bool(rule.get("validateRequestBody")),
            bool(rule.get("validateRequestParameters")),
        )
        return str(validator.id)

    def _gateway_responses(self) -> None:
        responses = members_of(self._definition.members, f"{_PREFIX}gateway-responses")
        for kind, value in responses.items():
            response = self._definition.resolve(value)
            self._backend.put_gateway_response(
                self._api.id,
                kind,
                response.get("statusCode"),
                response.get("responseParameters"),
                response.get("responseTemplates"),
            )

    # --- methods ------------------------------------------------------------------------------

    def _resource(self, path: str) -> str:
        """Return the id of a path's resource; it and its parents are made if they are missing."""
        missing: list[str] = []
        while path not in self._ids:
            missing.append(path)
            if len(missing) > _MOST_PARTS or len(self._ids) + len(missing) > _MOST_RESOURCES:
                raise BadDefinition(f"Unable to create resource at path '{path}': {_TOO_MANY}")
            path = path.rpartition("/")[0] or "/"
        for child in reversed(missing):
            self._ids[child] = self._child(self._ids[path], child)
            path = child
        return self._ids[path]

    def _child(self, parent: str, path: str) -> str:
        part = path.rpartition("/")[2]
        if part.startswith("{"):
            other = self._variable_parts.setdefault(parent, part)
            if other != part:
                raise BadDefinition(
                    f"Unable to create resource at path '{path}': A sibling ({other}) of this resource"
                    " already has a variable path part -- only one is allowed"
                )
        resource = _explain_refusal(
            f"create resource at path '{path}'",
            lambda: self._backend.create_resource(self._api.id, parent, part),
        )
        return str(resource.id)

    def _method(self, operation: Operation) -> None:
        resource, members = self._resource(operation.path), operation.members
        security = self._definition.security_of(operation)
        kind, authorizer = self._authorization(security, operation)
        validator = members.get(
            f"{_PREFIX}request-validator",
            self._definition.members.get(f"{_PREFIX}request-validator"),
        )
        self._backend.put_method(
            self._api.id,
            resource,
            operation.method,
            kind,
            api_key_required=security.needs_key,
            request_parameters=_request_parameters(operation) or None,
            request_models=self._request_models(operation) or None,
            operation_name=members.get("operationId"),
            authorizer_id=authorizer,
            authorization_scopes=list(security.scopes) or None,
            request_validator_id=self._validators.get(str(validator)),
        )
        for status, value in members_of(members, "responses").items():
            self._method_response(resource, operation, str(status), self._definition.resolve(value))
        integration = self._definition.integration_of(operation)
        if integration is not None:
            self._integration(resource, operation, integration)

    def _authorization(self, security: Security, operation: Operation) -> tuple[str, str | None]:
        if security.kind != "AUTHORIZER":
            return security.kind, None
        if security.scheme not in self._authorizers:
            raise BadDefinition(
                f"Unable to put method '{operation.method}' on resource at path '{operation.path}':"
                " Invalid authorizer ID specified."
            )
        authorizer, kind = self._authorizers[security.scheme]
        return kind, authorizer

    def _request_models(self, operation: Operation) -> dict[str, str]:
        bodies = [parameter for parameter in operation.parameters if parameter.get("in") == "body"]
        if bodies:
            kinds = operation.members.get("consumes") or self._definition.members.get("consumes")
            schema = bodies[0].get("schema")
            return dict.fromkeys(kinds or ["application/json"], _model_name(schema))
        body = operation.members.get("requestBody")
        return {} if body is None else self._models_by_type(self._definition.resolve(body))

    def _models_by_type(self, value: Members) -> dict[str, str]:
        content = members_of(value, "content")
        return {
            kind: _model_name(self._definition.resolve(content_type).get("schema"))
            for kind, content_type in content.items()
        }

    def _method_response(
        self, resource: str, operation: Operation, status: str, response: Members
    ) -> None:
        models = self._models_by_type(response)
        if response.get("schema"):
            kinds = operation.members.get("produces") or self._definition.members.get("produces")
            models = dict.fromkeys(kinds or ["application/json"], _model_name(response["schema"]))
        headers = members_of(response, "headers")
        self._backend.put_method_response(
            self._api.id,
            resource,
            operation.method,
            status,
            response_models=models or None,
            response_parameters={f"method.response.header.{name}": False for name in headers}
            or None,
        )

    def _integration(self, resource: str, operation: Operation, integration: Members) -> None:
        where = (self._api.id, resource, operation.method)
        what = f"put integration on '{operation.method}' for resource at path '{operation.path}'"
        options = {
            name: integration[member]
            for member, name in _NAMES_OF_INTEGRATION.items()
            if integration.get(member) is not None
        }
        if "passthrough_behavior" in options:
            options["passthrough_behavior"] = str(options["passthrough_behavior"]).upper()
        if "request_parameters" in options:
            options["request_parameters"] = self._sources(
                operation, members_of(integration, "requestParameters")
            )
        integration_created = _explain_refusal(
            what,
            lambda: self._backend.put_integration(
                *where,
                integration_type=integration["type"],
                uri=integration.get("uri") or "",
                integration_method=integration.get("httpMethod"),
                **options,
            ),
        )
        integration_created.cache_key_parameters = list(integration.get("cacheKeyParameters") or [])
        for pattern, value in members_of(integration, "responses").items():
            response = self._definition.resolve(value)
            self._backend.put_integration_response(
                *where,
                str(response.get("statusCode", "200")),
                selection_pattern=None if pattern == "default" else pattern,
                response_templates=response.get("responseTemplates"),
                response_parameters=response.get("responseParameters"),
                content_handling=response.get("contentHandling"),
            )

    def _sources(self, operation: Operation, mapped: Members) -> dict[str, str]:
        """Return where an integration's parameters are from; what is no text is left out with a warning (recorded)."""
        for name, source in mapped.items():
            if not isinstance(source, str):
                self._warnings.append(
                    f"Invalid format for 'requestParameters'. Expected type string for property '{name}' of resource"
                    f" '{operation.path}' and method '{operation.method}' but got '{json.dumps(source)}'"
                )
        return {name: source for name, source in mapped.items() if isinstance(source, str)}


def _request_parameters(operation: Operation) -> dict[str, bool]:
    # Recorded: those of the path are there even if the definition does not describe them.
    of_path = {f"method.request.path.{name}": True for name in _VARIABLE.findall(operation.path)}
    return of_path | {
        f"method.request.{_PLACES[str(parameter['in'])]}.{parameter.get('name')}": bool(
            parameter.get("required")
        )
        for parameter in operation.parameters
        if parameter.get("in") in _PLACES
    }


def _with_models(schema: Any, api_id: str) -> Any:
    """Return a schema that refers to other models as an API's models do (recorded)."""
    if isinstance(schema, list):
        return [_with_models(item, api_id) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    members = {key: _with_models(value, api_id) for key, value in cast("Members", schema).items()}
    found = (
        _OF_MODEL.fullmatch(reference)
        if isinstance(reference := members.get("$ref"), str)
        else None
    )
    return {**members, "$ref": f"{MODELS}{api_id}/models/{found[1]}"} if found else members


def _model_name(schema: Any) -> str:
    """Return the model that a schema refers to; `Empty` for any other schema, for which AWS makes an unnamed model."""
    reference = cast("Members", schema).get("$ref", "") if isinstance(schema, dict) else ""
    return str(reference).rpartition("/")[2] or "Empty"
