"""Applies the patch operations that AWS documents to REST APIs, authorizers and usage plans; moto supports only some.

docs.aws.amazon.com/apigateway/latest/api/patch-operations.html.

API Gateway's models are checked without their patterns: a backtracking engine would match them.

REST APIs: members that moto drops or does not have: media types, address types, caches, times, default models.

Answers are as recorded from AWS (LocalStack's cloudformation/resources/test_apigateway.py, 2023 to 2025).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportPrivateUsage=false, reportMissingTypeStubs=false
# pyright: reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import json
from types import ModuleType
from typing import Any, cast
from urllib.parse import unquote

from headrace.services.apigateway import (
    exports,
    parameter_mappings,
    refusals,
    rest_answers,
    rest_stages,
    updates,
    vpc_links,
)

_TEXTS = {"/name": "name", "/description": "description", "/apiKeySource": "api_key_source"}
_TYPES, _ENDPOINTS = "/endpointConfiguration/types", "/endpointConfiguration/vpcEndpointIds"
_ADDRESSES = "/endpointConfiguration/ipAddressType"
_OF_STAGE = "/apiStages/"
_MEDIA_TYPES = "/binaryMediaTypes"


def patch(module: Any) -> None:
    """Replace methods of `moto.apigateway.models`."""
    patch_members(module)
    refusals.patch_models(module.APIGatewayBackend)
    rest_stages.patch_models(module)
    module.RestAPI.apply_patch_operations = _patch_api
    authorizer, plan = module.Authorizer, module.UsagePlan
    authorizer.apply_operations = _with_user_pools(authorizer.apply_operations)
    plan.__init__ = _without_empty_throttling(plan.__init__)
    plan.apply_patch_operations = _with_stages(plan.apply_patch_operations)
    rest_answers.patch_models(module)


def _with_user_pools(apply: Any) -> Any:
    """Let operations add and remove an authorizer's user pools."""

    @functools.wraps(apply)
    def apply_operations(self: Any, patch_operations: list[dict[str, Any]]) -> Any:
        others: list[dict[str, Any]] = []
        for operation in patch_operations:
            if operation["path"] == "/providerARNs":
                self.provider_arns = _change_values(
                    self.provider_arns or [], operation["op"], operation["value"]
                )
            else:
                others.append(operation)
        return apply(self, others)

    return apply_operations


def _with_stages(apply: Any) -> Any:
    """Let operations remove a usage plan's stages and set their throttling; keep numbers in the plan's quota."""

    @functools.wraps(apply)
    def apply_patch_operations(self: Any, patch_operations: list[dict[str, Any]]) -> None:
        # moto compares whole stages, including their throttling.
        gone = [one["value"] for one in patch_operations if _takes_a_stage(one)]
        self.api_stages = [
            stage for stage in self.api_stages if f"{stage['apiId']}:{stage['stage']}" not in gone
        ]
        others = [one for one in patch_operations if not _takes_a_stage(one)]
        apply(self, [one for one in others if not one["path"].startswith(_OF_STAGE)])
        for stage in self.api_stages:
            stage.setdefault("throttle", {})
        for operation in others:
            if operation["path"].startswith(_OF_STAGE):
                _throttle(self.api_stages, operation)
        _drop_empty_throttling(self.api_stages)
        for name in ("limit", "offset"):
            if isinstance(self.quota.get(name), str):
                self.quota[name] = int(self.quota[name])
        if self.quota:
            self.quota.setdefault("offset", 0)

    return apply_patch_operations


def _without_empty_throttling(init: Any) -> Any:
    @functools.wraps(init)
    def make(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        _drop_empty_throttling(self.api_stages)

    return make


def _drop_empty_throttling(stages: list[dict[str, Any]]) -> None:
    """Keep no empty throttling of a plan's stages, whether they come with the plan or later."""
    for stage in stages:
        if not stage.get("throttle"):
            stage.pop("throttle", None)


def _throttle(stages: list[dict[str, Any]], operation: dict[str, Any]) -> None:
    """Set a method's throttling in a plan's stage, at `/apiStages/API:STAGE/throttle/RESOURCE/METHOD/LIMIT`."""
    name, _, limit_path = operation["path"].removeprefix(_OF_STAGE).partition("/throttle")
    for stage in stages:
        if f"{stage['apiId']}:{stage['stage']}" != name:
            continue
        if operation["op"] == "remove":
            stage["throttle"] = {}
            continue
        resource, method, limit = limit_path.lstrip("/").rsplit("/", 2)
        named = f"{resource.replace('~1', '/').rstrip('/')}/{method}"
        of_method = stage["throttle"].setdefault(named, {})
        of_method[limit] = float(operation["value"])


def _takes_a_stage(operation: dict[str, Any]) -> bool:
    return operation["op"] == "remove" and operation["path"] == "/apiStages"


def _change_values(values: list[str], operation: str, value: str) -> list[str]:
    others = [existing for existing in values if existing != value]
    return [*others, value] if operation == "add" else others


def _patch_api(api: Any, patch_operations: list[dict[str, Any]]) -> None:
    for patch_operation in patch_operations:
        operation, path, value = (
            patch_operation["op"],
            patch_operation["path"],
            patch_operation.get("value") or "",
        )
        if path in _TEXTS:
            setattr(api, _TEXTS[path], value)
        elif path == "/policy":
            api.policy = value or None
        elif path == "/disableExecuteApiEndpoint":
            api.disableExecuteApiEndpoint = value.lower() == "true"
        elif path == "/minimumCompressionSize":
            api.minimum_compression_size = int(value) if value else None
        elif path.startswith(_MEDIA_TYPES):
            named = path.removeprefix(_MEDIA_TYPES).lstrip("/").replace("~1", "/") or value
            _patch_media_types(api, operation, named, value)
        elif path == _ADDRESSES:
            api.endpoint_configuration["ipAddressType"] = value
        elif path.startswith(_TYPES):
            api.endpoint_configuration["types"] = [value]
            if value == "PRIVATE":
                api.endpoint_configuration.pop("ipAddressType", None)
        elif path == _ENDPOINTS:
            there = api.endpoint_configuration.get("vpcEndpointIds") or []
            api.endpoint_configuration["vpcEndpointIds"] = _change_values(there, operation, value)


def _patch_media_types(api: Any, operation: str, named: str, value: str) -> None:
    if operation == "replace":
        others = [
            binary_media_type
            for binary_media_type in api.binaryMediaTypes
            if binary_media_type != named
        ]
        # As in moto: a replacement without a name replaces all.
        api.binaryMediaTypes = [value] if named == value else [*others, value]
    else:
        api.binaryMediaTypes = _change_values(api.binaryMediaTypes, operation, named)


def patch_responses(module: Any) -> None:
    """Import OpenAPI definitions, and allow tags of APIs, API keys and usage plans; moto supports those of stages."""
    response: Any = module.APIGatewayResponse
    patch_member_responses(response)
    rest_answers.add_gateway_responses(response)
    rest_answers.patch_responses(response)
    updates.patch_responses(response)
    rest_stages.patch_responses(response)
    vpc_links.patch_responses(response)
    exports.patch_responses(response)
    response.create_rest_api = _import_after(response.create_rest_api)
    response.import_rest_api = response.create_rest_api
    response.put_rest_api = _put_api
    response.get_resource = _without_methods(response.get_resource)
    response.get_resources = _without_methods(response.get_resources)
    for name, change in (("get_tags", _get), ("tag_resource", _tag), ("untag_resource", _untag)):
        setattr(response, name, _of_any(getattr(response, name), change))
    for name, check in (
        ("put_integration", parameter_mappings.check_request),
        ("put_integration_response", parameter_mappings.check_response),
    ):
        setattr(response, name, refusals.check_first(getattr(response, name), check))
    # The last change, so that what is refused is changed by nothing.
    refusals.patch_responses(response)


def _without_methods(get: Any) -> Any:
    """Show the names of a resource's methods alone, unless they are asked for (`embed`, recorded as for stacks)."""

    @functools.wraps(get)
    def get_resources(self: Any) -> Any:
        answer = json.loads(get(self))
        if "methods" not in self.querystring.get("embed", []):
            for resource in answer.get("item", [answer]):
                if "resourceMethods" in resource:
                    resource["resourceMethods"] = {name: {} for name in resource["resourceMethods"]}
        return json.dumps(answer)

    return get_resources


def _query_of(response: Any) -> dict[str, str]:
    return {name: values[-1] for name, values in response.querystring.items() if values}


def _import_after(create: Any) -> Any:
    @functools.wraps(create)
    def create_or_import(self: Any) -> Any:
        # It imports moto's models, which are slow to import.
        from headrace.services.apigateway import openapi_rest

        query = _query_of(self)
        if query.get("mode") != "import":
            return create(self)
        api, warnings = openapi_rest.import_api(self.backend, self.body, query)
        shown = rest_answers.without_empty_tags(api.to_dict())
        return 201, {"status": 201}, json.dumps(shown | _warned(warnings))

    return create_or_import


def _put_api(self: Any) -> Any:
    from headrace.services.apigateway import openapi_rest

    api_id = self.path.removeprefix("/restapis/").split("/")[0]
    api, warnings = openapi_rest.put_api(self.backend, api_id, self.body, _query_of(self))
    return 200, {}, json.dumps(api.to_dict() | _warned(warnings))


def _warned(warnings: list[str]) -> dict[str, list[str]]:
    return {"warnings": warnings} if warnings else {}


def _of_any(of_stage: Any, change: Any) -> Any:
    @functools.wraps(of_stage)
    def of_any(self: Any) -> Any:
        _, _, resource_path = unquote(self.path.split("/tags/")[1]).partition("::/")
        kind, _, name = resource_path.partition("/")
        find = {
            "restapis": "get_rest_api",
            "apikeys": "get_api_key",
            "usageplans": "get_usage_plan",
        }.get(kind)
        if find is None or "/" in name:
            return of_stage(self)
        thing = getattr(self.backend, find)(name)
        thing.tags = dict(thing.tags or {})
        return json.dumps(change(self, thing.tags))

    return of_any


def _get(_: Any, tags: dict[str, str]) -> dict[str, Any]:
    return {"tags": tags}


def _tag(response: Any, tags: dict[str, str]) -> dict[str, Any]:
    tags.update(response._get_param("tags") or {})
    return {}


def _untag(response: Any, tags: dict[str, str]) -> dict[str, Any]:
    for key in response.querystring.get("tagKeys") or ():
        tags.pop(key, None)
    return {}


def validate_without_patterns(models: ModuleType) -> None:
    """Check a model's schema without its patterns."""
    validate: Any = models.validate

    @functools.wraps(validate)
    def validate_without_patterns(document: Any, *args: Any, **named: Any) -> Any:
        # A backtracking engine matches a default against its schema's pattern.
        return validate(_without_patterns(document), *args, **named)

    vars(models)["validate"] = validate_without_patterns


def _without_patterns(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_patterns(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {
            key: _without_patterns(item)
            for key, item in cast("dict[str, Any]", value).items()
            if not (key == "pattern" and isinstance(item, str)) and key != "patternProperties"
        }
    return value


_TIMEOUT_MS = 29_000
_NO_VERSION = "V1"  # what moto says without one
_DEFAULT_MODELS = {
    "Empty": ("This is a default empty schema model", {}),
    "Error": (
        "This is a default error schema model",
        {"properties": {"message": {"type": "string"}}},
    ),
}


def patch_members(module: Any) -> None:
    """Change what `moto.apigateway.models` keeps and says."""
    module.RestAPI.__init__ = _with_models(module.RestAPI.__init__)
    module.RestAPI.to_dict = _describe_api(module.RestAPI.to_dict)
    module.Resource.add_integration = _with_defaults(module.Resource.add_integration)
    module.Method.__init__ = _in_capitals(module.Method.__init__)
    module.RequestValidator.to_dict = _with_flags(module.RequestValidator.to_dict)
    for kind in (module.Integration, module.IntegrationResponse, module.Method):
        kind.to_json = _without_empty(kind.to_json)


def patch_member_responses(response: Any) -> None:
    """Keep the parameters that moto's responses do not read."""
    response.create_rest_api = _with_media_types(response.create_rest_api)
    response.put_integration_response = _keep_no_templates(response.put_integration_response)
    response.put_integration = _with_dropped(response.put_integration)


# --- APIs -------------------------------------------------------------------------------------


def _with_media_types(create: Any) -> Any:
    @functools.wraps(create)
    def create_rest_api(self: Any) -> Any:
        answer = create(self)
        _, headers, text = answer
        api = self.backend.apis.get(json.loads(text).get("id"))
        if api is None:
            return answer
        api.binaryMediaTypes = list(self._get_param("binaryMediaTypes") or [])
        api.version = self._get_param("version") or api.version
        return 201, headers, json.dumps(rest_answers.without_empty_tags(api.to_dict()))

    return create_rest_api


def _describe_api(to_dict: Any) -> Any:
    @functools.wraps(to_dict)
    def describe(self: Any) -> dict[str, Any]:
        shown = to_dict(self)
        if shown["version"] == _NO_VERSION:
            del shown["version"]
        for name in ("binaryMediaTypes", "description"):
            if not shown[name]:
                del shown[name]
        endpoints = {name: value for name, value in shown["endpointConfiguration"].items() if value}
        endpoints.setdefault("types", ["EDGE"])
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
        self: Any, method_type: str, integration_type: str, uri: str, *args: Any, **named: Any
    ) -> Any:
        refusals.check_service(integration_type, uri, named.get("credentials"))
        integration = add(self, method_type, integration_type, uri, *args, **named)
        integration.cache_namespace = integration.cache_namespace or self.id
        integration.timeout_in_millis = int(integration.timeout_in_millis or _TIMEOUT_MS)
        integration.passthrough_behaviour = integration.passthrough_behaviour or "WHEN_NO_MATCH"
        if integration_type in ("HTTP", "HTTP_PROXY"):
            integration.connection_type = integration.connection_type or "INTERNET"
        if integration_type == "MOCK":
            integration.uri = None
        return integration

    return add_integration


def _with_dropped(put: Any) -> Any:
    @functools.wraps(put)
    def put_integration(self: Any) -> Any:
        status, headers, _ = put(self)
        _, _, api_id, _, resource_id, _, method, *_ = self.path.split("/")
        integration = self.backend.get_integration(api_id, resource_id, method)
        integration.cache_key_parameters = list(self._get_param("cacheKeyParameters") or [])
        integration.connection_id = self._get_param("connectionId")
        return status, headers, json.dumps(integration.to_json())

    return put_integration


def _keep_no_templates(put: Any) -> Any:
    """Keep that a response was given no templates, which is shown; recorded."""

    @functools.wraps(put)
    def put_integration_response(self: Any) -> Any:
        status, headers, _ = put(self)
        _, _, api_id, _, resource_id, _, method, _, _, code = self.path.split("/")[:10]
        made = self.backend.get_integration_response(api_id, resource_id, method, code)
        made.has_no_templates = self._get_param("responseTemplates") == {}
        return status, headers, json.dumps(made.to_json())

    return put_integration_response


def _with_flags(to_dict: Any) -> Any:
    @functools.wraps(to_dict)
    def describe(self: Any) -> dict[str, Any]:
        # A validator that was not told what to validate validates nothing.
        return {name: value or False for name, value in to_dict(self).items()}

    return describe


def _in_capitals(init: Any) -> Any:
    @functools.wraps(init)
    def make(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        if self.authorization_type:
            self.authorization_type = self.authorization_type.upper()

    return make


def _without_empty(to_json: Any) -> Any:
    """Leave out empty responses, templates and addresses."""

    @functools.wraps(to_json)
    def describe(self: Any) -> dict[str, Any]:
        shown = to_json(self)
        for name in ("methodResponses", "integrationResponses", "responseTemplates", "uri"):
            if not shown.get(name):
                shown.pop(name, None)
        if getattr(self, "has_no_templates", False) and not self.response_templates:
            shown["responseTemplates"] = {}
        if getattr(self, "connection_id", None):
            shown["connectionId"] = self.connection_id
        if getattr(self, "selection_pattern", None) == "":
            shown["selectionPattern"] = ""
        return shown

    return describe
