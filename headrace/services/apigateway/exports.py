"""Exports a REST API as a document of Swagger 2.0 or OpenAPI 3.0.1, with API Gateway's extensions on demand.

Recorded: the exports of AWS's PetStore, 2024-04-15 (LocalStack's tests, apigateway/test_apigateway_extended.py).
Documented: API_GetExport.html; the names of security schemes are those of AWS's own samples. Assumed: a model that no
method needs is left out. The API is exported as it is now, since a deployment is no copy here.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import yaml

from headrace.core.values import parse_json

_IN = {"querystring": "query", "path": "path", "header": "header"}
# Others, which PutMethod takes here, have no form in a document.
_PARAMETER = re.compile(
    r"method\.(?:request\.(querystring|path|header)|response\.(header))\.(.+)", re.DOTALL
)
_EXTENSIONS = {"integrations", "authorizers", "apigateway", ""}
_DEFAULT_TIMEOUT_MS = 29_000
_TEXT = {"type": "string"}
_ANSWER = {"statusCode", "responseParameters", "responseTemplates"}
_HEADER_KEY = {"type": "apiKey", "in": "header"}


def patch_responses(response: Any) -> None:
    """Answer GetExport, of which moto knows the paths and the codes alone."""
    response.get_export = _get_export


def _get_export(self: Any) -> tuple[int, dict[str, str], bytes]:
    from moto.apigateway.exceptions import BadRequestException

    parts = self.path.split("/")
    api_id, stage, kind = parts[-5], parts[-3], parts[-1]
    self.backend.export_api(api_id, kind)  # refuses what is not there
    self.backend.get_stage(api_id, stage)
    asked = ",".join((self.querystring or {}).get("extensions", [])).split(",")
    unknown = [name for name in asked if name not in _EXTENSIONS]
    if unknown:
        raise BadRequestException(f"headrace exports no extensions of {unknown[0]}")
    api = self.backend.get_rest_api(api_id)
    export = _Export(api, self.backend.region_name, frozenset(asked), is_three=kind == "oas30")
    document = export.document(stage)
    is_yaml = "yaml" in str(self.headers.get("Accept", ""))
    name = f"{kind}_{export.created}.{'yaml' if is_yaml else 'json'}"
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    text = json.dumps(document)
    if is_yaml:  # read again, so that equal parts are no anchors
        # libyaml's is twice as fast, where PyYAML has it.
        dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        text = yaml.dump(json.loads(text), Dumper=dumper, sort_keys=False)
    return 200, headers, text.encode()


class _Export:
    """The export of one API. `is_three`: as OpenAPI 3, not Swagger 2."""

    def __init__(
        self, api: Any, region: str, extensions: frozenset[str], *, is_three: bool
    ) -> None:
        self._api, self._region, self._is_three = api, region, is_three
        self._has_integrations = bool(extensions & {"integrations", "apigateway"})
        self._has_authorizers = bool(extensions & {"authorizers", "apigateway"})
        self._models: dict[str, Any] = {}
        self._schemes: dict[str, Any] = {}
        moment = datetime.fromtimestamp(float(api.create_date), UTC)
        self.created = f"{moment:%Y-%m-%dT%H:%M:%SZ}"

    def document(self, stage: str) -> dict[str, Any]:
        """Return the whole document."""
        api = self._api
        described: Mapping[str, Any] = api.to_dict()
        info = {"title": api.name, "version": described.get("version") or self.created}
        if described.get("description"):
            info["description"] = described["description"]
        host = f"{api.id}.execute-api.{self._region}.amazonaws.com"
        paths = {
            resource.get_path(): {
                _verb(name): self._operation(method.to_json())
                for name, method in resource.resource_methods.items()
            }
            for resource in api.resources.values()
            if resource.resource_methods
        }
        if self._is_three:
            base = {"basePath": {"default": stage}}
            servers = [{"url": f"https://{host}/{{basePath}}", "variables": base}]
            document = {"openapi": "3.0.1", "info": info, "servers": servers, "paths": paths}
            parts = {"schemas": self._models, "securitySchemes": self._schemes}
            document["components"] = {name: part for name, part in parts.items() if part}
        else:
            document = {"swagger": "2.0", "info": info, "host": host, "basePath": f"/{stage}"}
            document |= {"schemes": ["https"], "paths": paths}
            parts = {"securityDefinitions": self._schemes, "definitions": self._models}
            document |= {name: part for name, part in parts.items() if part}
        return document | (self._settings(described) if self._has_integrations else {})

    def _settings(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return the extensions of the whole API, those that an import reads (assumed: defaults are left out)."""
        api = self._api
        source = described.get("apiKeySource")
        disabled = bool(described.get("disableExecuteApiEndpoint"))
        policy = described.get("policy")
        settings: dict[str, Any] = {
            "binary-media-types": described.get("binaryMediaTypes"),
            "api-key-source": source if source != "HEADER" else None,
            "minimum-compression-size": described.get("minimumCompressionSize"),
            "policy": parse_json(policy) if isinstance(policy, str) and policy else policy,
            "endpoint-configuration": {"disableExecuteApiEndpoint": True} if disabled else None,
            "request-validators": {
                one.name: {
                    "validateRequestBody": bool(one.validate_request_body),
                    "validateRequestParameters": bool(one.validate_request_parameters),
                }
                for one in api.request_validators.values()
            },
            "gateway-responses": {
                kind: {
                    key: value for key, value in one.to_json().items() if key in _ANSWER and value
                }
                for kind, one in api.gateway_responses.items()
            },
        }
        return {
            f"x-amazon-apigateway-{name}": value
            for name, value in settings.items()
            if value not in (None, {}, [])
        }

    def _operation(self, method: Mapping[str, Any]) -> dict[str, Any]:
        integration = cast("dict[str, Any]", method.get("methodIntegration") or {})
        answers: Mapping[str, Any] = integration.get("integrationResponses") or {}
        models: Mapping[str, str] = method.get("requestModels") or {}
        responses: Mapping[str, Any] = method.get("methodResponses") or {}
        operation: dict[str, Any] = {}
        if method.get("operationName"):
            operation["operationId"] = method["operationName"]
        parameters = [
            self._parameter(where, name, is_required=bool(is_required))
            for where, name, is_required in _parameters(method.get("requestParameters"))
        ]
        if self._is_three:
            if models:
                operation["requestBody"] = {"content": self._content(models), "required": True}
        else:
            templates = [one.get("responseTemplates") or {} for one in answers.values()]
            given = [one.get("responseModels") or {} for one in responses.values()]
            kinds = {
                "consumes": [models, integration.get("requestTemplates") or {}],
                "produces": [*given, *templates],
            }
            for name, sources in kinds.items():
                if types := list(dict.fromkeys(kind for one in sources for kind in one)):
                    operation[name] = types
            parameters += [
                {"in": "body", "name": name, "required": True, "schema": self._ref(name)}
                for name in dict.fromkeys(models.values())
            ]
        if parameters:
            operation["parameters"] = parameters
        operation["responses"] = {
            code: self._response(code, one) for code, one in responses.items()
        }
        if security := self._security(method):
            operation["security"] = security
        validator = self._api.request_validators.get(method.get("requestValidatorId"))
        if self._has_integrations and validator is not None:
            operation["x-amazon-apigateway-request-validator"] = validator.name
        if self._has_integrations and integration:
            operation["x-amazon-apigateway-integration"] = _integration(integration, answers)
        return operation

    def _parameter(self, where: str, name: str, *, is_required: bool) -> dict[str, Any]:
        parameter: dict[str, Any] = {"name": name, "in": _IN[where]}
        if self._is_three:
            return parameter | ({"required": True} if is_required else {}) | {"schema": _TEXT}
        return {**parameter, "required": is_required, **_TEXT}

    def _response(self, code: str, response: Mapping[str, Any]) -> dict[str, Any]:
        models: Mapping[str, str] = response.get("responseModels") or {}
        names = [name for _, name, _ in _parameters(response.get("responseParameters"))]
        found: dict[str, Any] = {"description": f"{code} response"}
        if names:
            found["headers"] = dict.fromkeys(names, {"schema": _TEXT} if self._is_three else _TEXT)
        if self._is_three:
            found["content"] = self._content(models)
        elif models:
            found["schema"] = self._ref(next(iter(models.values())))
        return found

    def _content(self, models: Mapping[str, str]) -> dict[str, Any]:
        return {kind: {"schema": self._ref(name)} for kind, name in models.items()}

    def _ref(self, name: str) -> dict[str, str]:
        """Return a reference to a model, which goes into the document."""
        if name not in self._models:
            model = next((one for one in self._api.models.values() if one.name == name), None)
            self._models[name] = {}
            if model is not None and model.schema:
                # CreateModel takes any text here.
                with contextlib.suppress(ValueError):
                    self._models[name] = self._with_references(parse_json(model.schema))
        return {"$ref": f"#/{'components/schemas' if self._is_three else 'definitions'}/{name}"}

    def _with_references(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self._with_references(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        members = {
            key: self._with_references(value) for key, value in schema.items() if key != "$schema"
        }
        if isinstance(reference := members.get("$ref"), str):
            return self._ref(reference.rsplit("/", 1)[-1])
        return members

    def _security(self, method: Mapping[str, Any]) -> list[dict[str, list[str]]]:
        security: list[dict[str, list[str]]] = []
        kind = method.get("authorizationType")
        if kind == "AWS_IAM":
            scheme = {**_HEADER_KEY, "name": "Authorization"}
            self._schemes["sigv4"] = {**scheme, "x-amazon-apigateway-authtype": "awsSigv4"}
            security.append({"sigv4": []})
        authorizer = self._api.authorizers.get(method.get("authorizerId"))
        if authorizer is not None:
            members = authorizer.to_json()
            self._schemes[members["name"]] = self._authorizer_scheme(members)
            security.append({members["name"]: list(method.get("authorizationScopes") or [])})
        if method.get("apiKeyRequired"):
            self._schemes["api_key"] = {**_HEADER_KEY, "name": "x-api-key"}
            security.append({"api_key": []})
        return security

    def _authorizer_scheme(self, members: Mapping[str, Any]) -> dict[str, Any]:
        source = str(members.get("identitySource") or "")
        is_pool = members["type"] == "COGNITO_USER_POOLS"
        name = (
            source.rsplit(".", 1)[-1] if source.startswith("method.request.header.") else "Unused"
        )
        scheme: dict[str, Any] = {**_HEADER_KEY, "name": name}
        if not self._has_authorizers:
            return scheme
        scheme["x-amazon-apigateway-authtype"] = "cognito_user_pools" if is_pool else "custom"
        kept = ("providerARNs", "authorizerUri", "authorizerCredentials", "identitySource")
        more = ("identityValidationExpression", "authorizerResultTtlInSeconds")
        details = {key: members[key] for key in (*kept, *more) if members.get(key) is not None}
        details["type"] = str(members["type"]).lower()
        return {**scheme, "x-amazon-apigateway-authorizer": details}


def _parameters(declared: Mapping[str, Any] | None) -> Iterable[tuple[str, str, Any]]:
    """Return the place and the name of each of a method's parameters, and its value."""
    for parameter, value in (declared or {}).items():
        if found := _PARAMETER.fullmatch(parameter):
            yield found[1] or found[2], found[3], value


def _verb(name: str) -> str:
    return "x-amazon-apigateway-any-method" if name == "ANY" else name.lower()


def _integration(integration: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": str(integration["type"]).lower()}
    for name in (
        "httpMethod", "uri", "credentials", "requestParameters", "requestTemplates", "contentHandling",
        "cacheKeyParameters", "tlsConfig",
    ):  # fmt: skip
        if integration.get(name):
            found[name] = integration[name]
    if integration.get("connectionType") == "VPC_LINK":
        found |= {"connectionType": "VPC_LINK", "connectionId": integration.get("connectionId")}
    if integration.get("passthroughBehavior"):
        found["passthroughBehavior"] = str(integration["passthroughBehavior"]).lower()
    if integration.get("timeoutInMillis") not in (None, _DEFAULT_TIMEOUT_MS):
        found["timeoutInMillis"] = integration["timeoutInMillis"]
    kept = ("statusCode", "responseParameters", "responseTemplates", "contentHandling")
    if answers:
        found["responses"] = {
            one.get("selectionPattern") or "default": {
                key: one[key] for key in kept if one.get(key)
            }
            for one in answers.values()
        }
    return found
