"""Refuses what AWS refuses of REST APIs and their parts, and moto takes.

The codes and sentences are as recorded from AWS (LocalStack's apigateway/test_apigateway_api.py and
test_apigateway_common.py, 2023 and 2024).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

_METHODS = ("GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "HEAD", "ANY")
_INTEGRATIONS = ("HTTP", "MOCK", "AWS_PROXY", "HTTP_PROXY", "AWS")
_STATUS = re.compile(r"[1-5]\d\d", re.ASCII)
_COMPRESSION = "/minimumCompressionSize"
_LARGEST_COMPRESSION = 10_485_760
ONLY_REPLACE = "Invalid patch operation specified. Must be one of: [replace]"
_NO_RESOURCE = "Invalid Resource identifier specified"
_NO_VALIDATOR = "Invalid Request Validator identifier specified"
_NO_STAGE = "Invalid API Stage specified"
_NO_SCHEMA = "Model schema must have at least 1 property or array items defined"


def patch_models(backend: Any) -> None:
    """Let moto's backend say of what is not there what AWS says."""
    backend.get_rest_api = _get_api
    backend.get_resource = _get_resource
    backend.delete_resource = _delete_resource
    backend.get_model = _get_model
    backend.get_request_validator = _get_validator
    delete_method = backend.delete_method
    delete_model = backend.delete_model
    delete_validator = backend.delete_request_validator

    @functools.wraps(delete_method)
    def delete_known_method(self: Any, *names: str) -> None:
        self.get_method(*names)
        delete_method(self, *names)

    @functools.wraps(delete_model)
    def delete_unused_model(self: Any, rest_api_id: str, model_name: str) -> None:
        self.get_model(rest_api_id, model_name)
        _check_unused(self.get_rest_api(rest_api_id), model_name)
        delete_model(self, rest_api_id, model_name)

    @functools.wraps(delete_validator)
    def delete_known_validator(self: Any, restapi_id: str, validator_id: str) -> None:
        self.get_request_validator(restapi_id, validator_id)
        delete_validator(self, restapi_id, validator_id)

    backend.delete_method = delete_known_method
    backend.delete_model = delete_unused_model
    backend.delete_request_validator = delete_known_validator


def patch_responses(response: Any) -> None:
    """Check calls before moto answers them."""
    for operation, check in _CHECKS.items():
        setattr(response, operation, check_first(getattr(response, operation), check))


def check_first(answer: Any, check: Callable[[Any], None]) -> Any:
    """Return a call of moto's that is checked before it is answered."""

    @functools.wraps(answer)
    def checked(self: Any) -> Any:
        check(self)
        return answer(self)

    return checked


def bad_request(sentence: str) -> Exception:
    """Return moto's exception of a request that AWS refuses."""
    from moto.apigateway.exceptions import BadRequestException

    return BadRequestException(sentence)


def not_found(sentence: str) -> Exception:
    """Return moto's exception about something that is not there."""
    from moto.apigateway.exceptions import NotFoundException

    error = NotFoundException(sentence)
    error.code = 404
    return error


def check_replaced(operations: Sequence[Mapping[str, Any]], paths: Sequence[str]) -> None:
    """Refuse a patch of what can only be replaced, at these paths, that does something else."""
    for operation in operations:
        op, path = operation.get("op"), operation.get("path")
        if op != "replace" or path not in paths:
            known = f"Must be one of: [{', '.join(paths)}]"
            raise bad_request(
                f"Invalid patch path  '{path}' specified for op '{op}'. "
                + (known if op == "replace" else "Please choose supported operations")
            )


def conflict(sentence: str) -> Exception:
    """Return moto's exception about something that is there already, or still."""
    from moto.apigateway.exceptions import ConflictException

    return ConflictException(sentence)


def names_of(response: Any) -> list[str]:
    """Return the parts of a call's path: `restapis`, the API's id, and so on."""
    return unquote(response.path).split("/")[1:]


# --- what is not there ------------------------------------------------------------------------


def _get_api(self: Any, function_id: str) -> Any:
    api = self.apis.get(function_id)
    if api is None:
        raise not_found(f"Invalid API identifier specified {self.account_id}:{function_id}")
    return api


def _get_resource(self: Any, function_id: str, resource_id: str) -> Any:
    api = self.apis.get(function_id)
    if api is None or resource_id not in api.resources:
        raise not_found(_NO_RESOURCE)
    return api.resources[resource_id]


def _delete_resource(self: Any, function_id: str, resource_id: str) -> Any:
    """Delete a resource with those below it, which moto keeps without a parent."""
    resource = self.get_resource(function_id, resource_id)
    api = self.get_rest_api(function_id)
    gone = {resource_id}
    while below := {other.id for other in api.resources.values() if other.parent_id in gone} - gone:
        gone |= below
    for each in gone:
        del api.resources[each]
    return resource


def _get_model(self: Any, rest_api_id: str, model_name: str) -> Any:
    api = self.apis.get(rest_api_id)
    if api is None or model_name not in api.models:
        raise not_found(f"Invalid model name specified: {model_name}")
    return api.models[model_name]


def _get_validator(self: Any, restapi_id: str, validator_id: str) -> Any:
    api = self.apis.get(restapi_id)
    if api is None or validator_id not in api.request_validators:
        raise not_found(_NO_VALIDATOR)
    return api.request_validators[validator_id]


def _check_unused(api: Any, model_name: str) -> None:
    # Recorded: of two methods, the one that was made later is named.
    for resource in reversed(api.resources.values()):
        for method in reversed(resource.resource_methods.values()):
            if model_name in (method.request_models or {}).values():
                place = f"{resource.get_path()}/{method.http_method}"
                raise conflict(
                    f"Cannot delete model '{model_name}', is referenced in method request: {place}"
                )


def _need_api(response: Any) -> None:
    response.backend.get_rest_api(names_of(response)[1])


_OPERATIONS = ("add", "remove", "move", "test", "replace", "copy")


def check_operations(name: str, response: Any) -> None:
    """Refuse each `op` that there is not, of a call such as `update_method`, and a status that there is not."""
    first, *others = name.split("_")
    member = "".join((first, *(word.capitalize() for word in others)))
    wrong = [
        f"Value '{operation.get('op')}' at"
        f" '{member}Input.patchOperations.{number}.member.op' failed to satisfy constraint:"
        f" Member must satisfy enum value set: [{', '.join(_OPERATIONS)}]"
        for number, operation in enumerate(response._get_param("patchOperations") or [], start=1)
        if operation.get("op") not in _OPERATIONS
    ]
    _check_constraints([*wrong, *_wrong_status(response)])


def _wrong_status(response: Any) -> list[str]:
    *_, kind, code = names_of(response)
    if kind != "responses" or _STATUS.fullmatch(code):
        return []
    constraint = f"Member must satisfy regular expression pattern: {_STATUS.pattern}"
    return [f"Value '{code}' at 'statusCode' failed to satisfy constraint: {constraint}"]


def _check_status(response: Any) -> None:
    _check_constraints(_wrong_status(response))


def _need_method_response(response: Any) -> None:
    _check_status(response)
    _, api_id, _, resource_id, _, method, _, code = names_of(response)
    if response.backend.get_method_response(api_id, resource_id, method, code) is None:
        raise not_found("Invalid Response status code specified")


def _need_integration_of(response: Any) -> None:
    _check_status(response)
    _need_integration(response)


def allow_any_status(urls: Any) -> None:
    """Let calls with a status that is no number reach their refusals, in `moto.apigateway.urls`."""
    for path in [path for path in urls.url_paths if r"(?P<status_code>\d+)" in path]:
        with_any = path.replace(r"(?P<status_code>\d+)", "(?P<status_code>[^/]+)")
        urls.url_paths[with_any] = urls.url_paths.pop(path)


def _check_constraints(wrong: Sequence[str]) -> None:
    from moto.apigateway.exceptions import ValidationException

    if wrong:
        errors = "1 validation error" if len(wrong) == 1 else f"{len(wrong)} validation errors"
        raise ValidationException(f"{errors} detected: {'; '.join(wrong)}")


# --- APIs and resources -----------------------------------------------------------------------


_ENDPOINTS = ("PRIVATE", "EDGE", "REGIONAL")
_ADDRESSES = ("ipv4", "dualstack")
_ONLY_DUALSTACK = "Only dualstack ipAddressType is supported for Private APIs."


def _check_new_api(response: Any) -> None:
    endpoints = response._get_param("endpointConfiguration") or {}
    types, addresses = endpoints.get("types"), endpoints.get("ipAddressType")
    place, wrong = "createRestApiInput.endpointConfiguration", list[str]()
    if types and set(types) - set(_ENDPOINTS):
        wrong.append(
            f"Value '[{', '.join(types)}]' at '{place}.types' failed to satisfy constraint: Member must"
            f" satisfy constraint: [Member must satisfy enum value set: [{', '.join(_ENDPOINTS)}]]"
        )
    if addresses and addresses not in _ADDRESSES:
        wrong.append(
            f"Value '{addresses}' at '{place}.ipAddressType' failed to satisfy constraint: Member must"
            f" satisfy enum value set: [{', '.join(_ADDRESSES)}]"
        )
    _check_constraints(wrong)
    if response._get_param("description") == "":
        raise bad_request("Description cannot be an empty string")
    if types == []:
        raise bad_request("REGIONAL Configuration and EDGE Configuration cannot be both DISABLED.")
    if types and len(types) > 1:
        raise bad_request("Cannot create an api with multiple Endpoint Types.")
    if types == ["PRIVATE"] and addresses == "ipv4":
        raise bad_request(_ONLY_DUALSTACK)
    size = response._get_param("minimumCompressionSize")
    if size is not None:
        _check_compression(size)


def _check_endpoints(api: Any, operation: Mapping[str, Any]) -> None:
    path, value, op = operation["path"], operation.get("value"), operation["op"]
    if path.startswith("/endpointConfiguration/types"):
        if op not in ("add", "remove", "replace"):
            raise bad_request("Invalid patch operation specified. Must be 'add'|'remove'|'replace'")
        if value not in _ENDPOINTS:
            raise bad_request(
                "Invalid EndpointTypes specified. Valid options are REGIONAL,EDGE,PRIVATE"
            )
    elif path == "/endpointConfiguration/ipAddressType":
        if op != "replace":
            raise bad_request(ONLY_REPLACE)
        if value not in _ADDRESSES:
            raise bad_request("ipAddressType must be either ipv4 or dualstack.")
        if value == "ipv4" and api.endpoint_configuration.get("types") == ["PRIVATE"]:
            raise bad_request(_ONLY_DUALSTACK)


def _check_compression(size: Any) -> None:
    text = str(size)
    if not (text.isascii() and text.isdecimal() and int(text) <= _LARGEST_COMPRESSION):
        raise bad_request(
            f"Invalid minimum compression size, must be between 0 and {_LARGEST_COMPRESSION}"
        )


def _check_api_update(response: Any) -> None:
    api = response.backend.get_rest_api(names_of(response)[1])
    check_operations("update_rest_api", response)
    for operation in response._get_param("patchOperations") or []:
        _check_endpoints(api, operation)
        if operation.get("path") == "/binaryMediaTypes":
            raise bad_request("Invalid patch path /binaryMediaTypes")
        if operation.get("path") == _COMPRESSION:
            if operation.get("op") != "replace":
                raise bad_request(ONLY_REPLACE)
            if operation.get("value"):
                _check_compression(operation["value"])


def _check_new_resource(response: Any) -> None:
    _, api_id, _, parent_id = names_of(response)
    parent = response.backend.get_resource(api_id, parent_id)
    if parent.path_part.endswith("+}"):
        raise bad_request(
            f"Cannot create a child of a resource with a greedy path variable: {parent.path_part}"
        )
    check_place(response.backend.get_rest_api(api_id), None, parent_id, _text(response, "pathPart"))


def _text(response: Any, name: str) -> str:
    return str(response._get_param(name) or "")


def check_place(api: Any, resource_id: str | None, parent_id: str, part: str) -> None:
    """Refuse a resource beside another of its name, or a second one with a variable."""
    for other in api.resources.values():
        if other.parent_id != parent_id or other.id == resource_id:
            continue
        if other.path_part == part:
            raise conflict(f"Another resource with the same parent already has this name: {part}")
        if part.startswith("{") and other.path_part.startswith("{"):
            raise bad_request(
                f"A sibling ({other.path_part}) of this resource already has a variable path part"
                " -- only one is allowed"
            )


# --- methods, models and validators -----------------------------------------------------------


def _check_new_method(response: Any) -> None:
    _, api_id, _, resource_id, _, method, *_ = names_of(response)
    response.backend.get_resource(api_id, resource_id)
    if method not in _METHODS:
        raise bad_request(f"Invalid HttpMethod specified. Valid options are {','.join(_METHODS)}")
    api = response.backend.get_rest_api(api_id)
    check_authorizer(api, _text(response, "authorizationType"), response._get_param("authorizerId"))
    check_validator(api, response._get_param("requestValidatorId"))
    for name in (response._get_param("requestModels") or {}).values():
        if name not in api.models:
            raise bad_request(f"Invalid model identifier specified: {name}")
    parameters = [name.split(".", 3)[-1] for name in response._get_param("requestParameters") or {}]
    if len(set(parameters)) != len(parameters):
        raise bad_request("Parameter names must be unique across querystring, header and path")


def check_authorizer(api: Any, kind: str, authorizer_id: str | None) -> None:
    """Refuse a method that needs an authorizer and names none that the API has."""
    if kind in ("CUSTOM", "COGNITO_USER_POOLS") and authorizer_id not in api.authorizers:
        raise bad_request(
            "Invalid authorizer ID specified. Setting the authorization type to CUSTOM or"
            " COGNITO_USER_POOLS requires a valid authorizer."
        )


def check_validator(api: Any, validator_id: str | None) -> None:
    """Refuse a method's validator that the API does not have."""
    if validator_id and validator_id not in api.request_validators:
        raise bad_request(_NO_VALIDATOR)


def _check_new_integration(response: Any) -> None:
    from moto.apigateway.exceptions import ValidationException

    kind = response._get_param("type")
    if kind not in _INTEGRATIONS:
        raise ValidationException(
            f"1 validation error detected: Value '{kind}' at 'putIntegrationInput.type' failed to"
            f" satisfy constraint: Member must satisfy enum value set: [{', '.join(_INTEGRATIONS)}]"
        )


def check_service(kind: str, uri: str, credentials: str | None) -> None:
    """Refuse a call of a service other than Lambda without a role, and a proxy of other services.

    Observed: github.com/hashicorp/terraform-provider-aws/issues/7916; moto refuses both for S3 alone.
    """
    from moto.apigateway.exceptions import AwsProxyNotAllowed, RoleNotSpecified

    if kind not in ("AWS", "AWS_PROXY"):
        return
    service = uri.split(":", 5)[4] if uri.count(":") >= 5 else ""
    service = service.rpartition(".")[2]
    if kind == "AWS_PROXY" and service not in ("lambda", "firehose"):
        raise AwsProxyNotAllowed
    if service != "lambda" and not credentials:
        raise RoleNotSpecified


def _need_integration(response: Any) -> None:
    _, api_id, _, resource_id, _, method, *_ = names_of(response)
    found = response.backend.get_method(api_id, resource_id, method)
    if found.method_integration is None:
        raise not_found("Invalid Integration identifier specified")


def _check_deleted_response(response: Any) -> None:
    _check_status(response)
    _, api_id, _, resource_id, _, method, *_, code = names_of(response)
    found = response.backend.get_resource(api_id, resource_id).resource_methods.get(method)
    if found is None or found.method_integration is None:
        raise not_found("Invalid Integration identifier specified")
    if code not in (found.method_integration.integration_responses or {}):
        raise not_found("Invalid Response status code specified")


def _check_new_model(response: Any) -> None:
    api = response.backend.get_rest_api(names_of(response)[1])
    name = _text(response, "name")
    if not name:
        raise bad_request("Model name must be non-empty")
    if name in api.models:
        raise conflict("Model name already exists for this REST API")
    if not response._get_param("schema"):
        raise bad_request(_NO_SCHEMA)


def check_model_value(path: str, value: str) -> None:
    """Refuse a model without a schema."""
    if path == "/schema" and not value:
        raise bad_request(_NO_SCHEMA)


def _check_new_authorizer(response: Any) -> None:
    if names_of(response)[1] not in response.backend.apis:
        raise conflict(
            "Unable to complete operation due to concurrent modification. Please try again later."
        )


def _check_new_validator(response: Any) -> None:
    if names_of(response)[1] not in response.backend.apis:
        raise bad_request("Invalid REST API identifier specified")


# --- usage plans ------------------------------------------------------------------------------


def _check_plan_update(response: Any) -> None:
    plan = response.backend.get_usage_plan(names_of(response)[1])
    for operation in response._get_param("patchOperations") or []:
        if operation.get("path") == "/apiStages":
            _check_stage_of_plan(response.backend, plan, operation)


def _check_stage_of_plan(backend: Any, plan: Any, operation: Mapping[str, Any]) -> None:
    api_id, colon, name = str(operation.get("value") or "").partition(":")
    if not colon:
        raise bad_request(_NO_STAGE)
    api = backend.apis.get(api_id)
    is_there = api is not None and name in api.stages
    # A plan may still name a stage that was deleted.
    is_named = {"apiId": api_id, "stage": name} in [
        {"apiId": one["apiId"], "stage": one["stage"]} for one in plan.api_stages
    ]
    if not is_there and not (operation.get("op") == "remove" and is_named):
        raise not_found(
            f"Invalid API Stage {{api: {api_id}, stage: {name}}} specified for usageplan {plan.id}"
        )


_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "create_authorizer": _check_new_authorizer,
    "create_model": _check_new_model,
    "create_request_validator": _check_new_validator,
    "create_resource": _check_new_resource,
    "create_rest_api": _check_new_api,
    "delete_integration": _need_integration,
    "delete_integration_response": _check_deleted_response,
    "delete_method_response": _need_method_response,
    "delete_rest_api": _need_api,
    "get_integration": _need_integration,
    "get_integration_response": _need_integration_of,
    "get_method_response": _need_method_response,
    "put_integration": _check_new_integration,
    "put_integration_response": _need_integration_of,
    "put_method": _check_new_method,
    "put_method_response": _check_status,
    "update_rest_api": _check_api_update,
    "update_usage_plan": _check_plan_update,
}
