"""REST APIs: members that moto drops or does not have: media types, address types, caches, times, default models.

Answers are as recorded from AWS (LocalStack's cloudformation/resources/test_apigateway.py, 2023 to 2025).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import functools
import json
from typing import Any

from headrace.moto.current_cloud import CURRENT

_TIMEOUT_MS = 29_000
_NO_VERSION = "V1"  # what moto says without one
_DEFAULT_MODELS = {
    "Empty": ("This is a default empty schema model", {}),
    "Error": (
        "This is a default error schema model",
        {"properties": {"message": {"type": "string"}}},
    ),
}
_METHOD_SETTINGS = {
    "throttlingBurstLimit": 5000,
    "throttlingRateLimit": 10_000.0,
    "cacheDataEncrypted": False,
}


def patch(module: Any) -> None:
    """Change what `moto.apigateway.models` keeps and says."""
    module.RestAPI.__init__ = _with_models(module.RestAPI.__init__)
    module.RestAPI.to_dict = _describe_api(module.RestAPI.to_dict)
    module.Resource.add_integration = _with_defaults(module.Resource.add_integration)
    for kind in (module.Integration, module.IntegrationResponse, module.Method):
        kind.to_json = _without_empty(kind.to_json)
    stage = module.Stage
    stage.__init__ = _with_times(stage.__init__)
    stage.apply_operations = _note_update(stage.apply_operations)
    stage.to_json = _describe_stage(stage.to_json)
    settings = stage._get_default_method_settings
    stage._get_default_method_settings = lambda self: settings(self) | _METHOD_SETTINGS


def patch_responses(response: Any) -> None:
    """Keep the parameters that moto's responses do not read."""
    response.create_rest_api = _with_media_types(response.create_rest_api)
    response.put_integration = _with_cache_keys(response.put_integration)


# --- APIs -------------------------------------------------------------------------------------


def _with_media_types(create: Any) -> Any:
    @functools.wraps(create)
    def create_rest_api(self: Any) -> Any:
        answer = create(self)
        status, headers, text = answer
        api = self.backend.apis.get(json.loads(text).get("id"))
        if api is None or self.querystring.get("mode") == ["import"]:
            return answer
        api.binaryMediaTypes = list(self._get_param("binaryMediaTypes") or [])
        api.version = self._get_param("version") or api.version
        return status, headers, json.dumps(api.to_dict())

    return create_rest_api


def _describe_api(to_dict: Any) -> Any:
    @functools.wraps(to_dict)
    def describe(self: Any) -> dict[str, Any]:
        shown = to_dict(self)
        if shown["version"] == _NO_VERSION:
            del shown["version"]
        if not shown["binaryMediaTypes"]:
            del shown["binaryMediaTypes"]
        endpoints = shown["endpointConfiguration"]
        # Documented: private APIs are reached by both kinds of addresses only.
        is_private = "PRIVATE" in (endpoints.get("types") or ())
        address_type = "dualstack" if is_private else "ipv4"
        shown["endpointConfiguration"] = {"ipAddressType": address_type, **endpoints}
        return shown

    return describe


def _with_models(init: Any) -> Any:
    @functools.wraps(init)
    def make(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        for name, (description, members) in _DEFAULT_MODELS.items():
            schema = {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "title": f"{name} Schema",
                "type": "object",
                **members,
            }
            self.add_model(name, description, json.dumps(schema, indent=2), "application/json")

    return make


# --- methods ----------------------------------------------------------------------------------


def _with_defaults(add: Any) -> Any:
    @functools.wraps(add)
    def add_integration(
        self: Any, method_type: str, integration_type: str, *args: Any, **named: Any
    ) -> Any:
        integration = add(self, method_type, integration_type, *args, **named)
        integration.cache_namespace = integration.cache_namespace or self.id
        integration.timeout_in_millis = int(integration.timeout_in_millis or _TIMEOUT_MS)
        integration.passthrough_behaviour = integration.passthrough_behaviour or "WHEN_NO_MATCH"
        if integration_type in ("HTTP", "HTTP_PROXY"):
            integration.connection_type = integration.connection_type or "INTERNET"
        return integration

    return add_integration


def _with_cache_keys(put: Any) -> Any:
    @functools.wraps(put)
    def put_integration(self: Any) -> Any:
        status, headers, _ = put(self)
        _, _, api_id, _, resource_id, _, method, *_ = self.path.split("/")
        integration = self.backend.get_integration(api_id, resource_id, method)
        integration.cache_key_parameters = list(self._get_param("cacheKeyParameters") or [])
        return status, headers, json.dumps(integration.to_json())

    return put_integration


def _without_empty(to_json: Any) -> Any:
    """Leave out empty responses, templates and addresses."""

    @functools.wraps(to_json)
    def describe(self: Any) -> dict[str, Any]:
        shown = to_json(self)
        for name in ("methodResponses", "integrationResponses", "responseTemplates", "uri"):
            if not shown.get(name):
                shown.pop(name, None)
        return shown

    return describe


# --- stages -----------------------------------------------------------------------------------


def _with_times(init: Any) -> Any:
    @functools.wraps(init)
    def make(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.created_s = self.updated_s = CURRENT.clock.now_ms() // 1000

    return make


def _note_update(apply: Any) -> Any:
    @functools.wraps(apply)
    def apply_operations(self: Any, patch_operations: list[dict[str, Any]]) -> Any:
        self.updated_s = CURRENT.clock.now_ms() // 1000
        return apply(self, patch_operations)

    return apply_operations


def _describe_stage(to_json: Any) -> Any:
    @functools.wraps(to_json)
    def describe(self: Any) -> dict[str, Any]:
        shown = {"cacheClusterStatus": "NOT_AVAILABLE", "tracingEnabled": False, **to_json(self)}
        for name in ("description", "variables"):
            if not shown.get(name):
                shown.pop(name, None)
        if self.canary_settings:
            shown["canarySettings"] = self.canary_settings
        if (created_s := getattr(self, "created_s", None)) is not None:
            shown |= {"createdDate": created_s, "lastUpdatedDate": self.updated_s}
        return shown

    return describe
