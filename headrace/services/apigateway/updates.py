"""Updates methods, integrations, their responses, gateway responses, resources, models and deployments of REST APIs.

moto has none of these operations. The paths are documented:
docs.aws.amazon.com/apigateway/latest/api/patch-operations.html. What is refused, and how, is as recorded from AWS for
resources, methods, models, validators and gateway responses (LocalStack's apigateway/test_apigateway_api.py, 2024), and
assumed for the others.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from headrace.services.apigateway import refusals, rest_answers
from headrace.services.apigateway.parameter_mappings import check_mappings, check_media_types


def _flag(value: str) -> bool:
    return value.lower() == "true"


def _status(value: str) -> str:
    return value


@dataclass(frozen=True, slots=True)
class _Kind:
    """What can be updated of a kind of object: its path after the API, and the attributes of moto's object by path.

    Attributes:
        values: attributes with one value, with how its text is read.
        members: attributes with a member for each name after the path.
        items: lists of texts.
        is_terse: whether AWS says of a path only that it is invalid.
    """

    place: tuple[str, ...]
    values: Mapping[str, tuple[str, Callable[[str], Any]]]
    members: Mapping[str, tuple[str, Callable[[str], Any]]]
    items: Mapping[str, str]
    is_terse: bool = False


_METHOD = ("resources", "", "methods", "")
_KINDS = {
    "update_resource": _Kind(
        ("resources", ""),
        {"/parentId": ("parent_id", str), "/pathPart": ("path_part", str)},
        {},
        {},
    ),
    "update_method": _Kind(
        _METHOD,
        {
            "/apiKeyRequired": ("api_key_required", _flag),
            "/authorizationType": ("authorization_type", str),
            "/authorizerId": ("authorizer_id", str),
            "/operationName": ("operation_name", str),
            "/requestValidatorId": ("request_validator_id", str),
        },
        {
            "/requestModels": ("request_models", str),
            "/requestParameters": ("request_parameters", _flag),
        },
        {"/authorizationScopes": "authorization_scopes"},
        is_terse=True,
    ),
    "update_method_response": _Kind(
        (*_METHOD, "responses", ""),
        {},
        {
            "/responseModels": ("response_models", str),
            "/responseParameters": ("response_parameters", _flag),
        },
        {},
        is_terse=True,
    ),
    "update_integration": _Kind(
        (*_METHOD, "integration"),
        {
            "/cacheNamespace": ("cache_namespace", str),
            "/connectionId": ("connection_id", str),
            "/connectionType": ("connection_type", str),
            "/contentHandling": ("content_handling", str),
            "/credentials": ("credentials", str),
            "/httpMethod": ("http_method", str),
            "/passthroughBehavior": ("passthrough_behaviour", str),
            "/timeoutInMillis": ("timeout_in_millis", int),
            "/uri": ("uri", str),
        },
        {
            "/requestParameters": ("request_parameters", str),
            "/requestTemplates": ("request_templates", str),
            "/tlsConfig": ("tls_config", _flag),
        },
        {"/cacheKeyParameters": "cache_key_parameters"},
    ),
    "update_integration_response": _Kind(
        (*_METHOD, "integration", "responses", ""),
        {
            "/contentHandling": ("content_handling", str),
            "/selectionPattern": ("selection_pattern", str),
        },
        {
            "/responseParameters": ("response_parameters", str),
            "/responseTemplates": ("response_templates", str),
        },
        {},
    ),
    "update_gateway_response": _Kind(
        ("gatewayresponses", ""),
        {"/statusCode": ("status_code", _status)},
        {
            "/responseParameters": ("response_parameters", str),
            "/responseTemplates": ("response_templates", str),
        },
        {},
        is_terse=True,
    ),
    "update_request_validator": _Kind(
        ("requestvalidators", ""),
        {
            "/name": ("name", str),
            "/validateRequestParameters": ("validate_request_parameters", _flag),
            "/validateRequestBody": ("validate_request_body", _flag),
        },
        {},
        {},
    ),
    "update_model": _Kind(
        ("models", ""), {"/description": ("description", str), "/schema": ("schema", str)}, {}, {}
    ),
    "update_deployment": _Kind(("deployments", ""), {"/description": ("description", str)}, {}, {}),
}


def patch_responses(response: Any) -> None:
    """Add the operations to moto's responses."""
    for operation, kind in _KINDS.items():
        setattr(response, operation, _updating(operation, kind))


def _updating(name: str, kind: _Kind) -> Callable[[Any], Any]:
    def update(self: Any) -> Any:
        refusals.check_operations(name, self)
        _, _, api_id, *parts = unquote(self.path).split("/")
        names = [part for part, fixed in zip(parts, kind.place, strict=False) if not fixed]
        updated = _find(self.backend, api_id, kind, names)
        operations = self._get_param("patchOperations") or []
        for patch_operation in operations:
            _check(kind, patch_operation)
        _check_result(self.backend.get_rest_api(api_id), kind, updated, operations)
        if "integration" in kind.place:
            _check_mappings(self.backend.get_method(api_id, *names[:2]), kind, names, operations)
        for patch_operation in operations:
            _apply(updated, kind, patch_operation)
        if kind.place == _METHOD and updated.authorization_type in ("NONE", "AWS_IAM"):
            updated.authorizer_id = None  # Recorded: it is ignored.
        shown = updated.to_json() if hasattr(updated, "to_json") else updated.to_dict()
        # Recorded: this one alone answers as if it had made something.
        status = 201 if name == "update_method_response" else 200
        return status, {"status": status}, json.dumps(shown)

    return update


def _find(backend: Any, api_id: str, kind: _Kind, names: list[str]) -> Any:
    """Return moto's object; raises moto's exception when there is none."""
    match kind.place:
        case ("resources", ""):
            return backend.get_resource(api_id, *names)
        case ("gatewayresponses", ""):
            return rest_answers.own_response(backend, api_id, *names)
        case ("models", ""):
            return backend.get_model(api_id, *names)
        case ("requestvalidators", ""):
            return backend.get_request_validator(api_id, *names)
        case ("deployments", ""):
            updated = backend.get_rest_api(api_id).deployments.get(*names)
            missing = "Invalid Deployment identifier specified"
        case (*_, "methods", ""):
            return backend.get_method(api_id, *names)
        case (*_, "methods", "", "responses", ""):
            updated = backend.get_method_response(api_id, *names)
            missing = "Invalid Response status code specified"
        case (*_, "integration"):
            updated = backend.get_method(api_id, *names).method_integration
            missing = "Invalid Integration identifier specified"
        case _:
            return backend.get_integration_response(api_id, *names)
    if updated is None:
        raise refusals.not_found(missing)
    return updated


def _split(kind: _Kind, path: str) -> tuple[str, str]:
    """Return the attribute's path, and the name of its member; empty ones for a path that cannot be updated."""
    if path in kind.values or path in kind.items:
        return path, ""
    _, top, *rest = path.split("/", 2) if path.startswith("/") else ("", "")
    if "/" in "".join(rest):
        return "", ""  # A member's name has its slashes escaped.
    name = "".join(rest).replace("~1", "/").replace("~0", "~")
    known = name and (f"/{top}" in kind.members or f"/{top}" in kind.items)
    return (f"/{top}", name) if known else ("", "")


def _check(kind: _Kind, patch_operation: Mapping[str, Any]) -> None:
    """Refuse an operation that AWS does not document, before any is applied."""
    operation, path = patch_operation.get("op"), patch_operation.get("path")
    attribute, _ = _split(kind, str(path or ""))
    allowed = {"replace"} if attribute in kind.values else {"add", "remove", "replace"}
    if attribute in kind.items:
        allowed = {"add", "remove"}
    if not attribute or operation not in allowed:
        raise refusals.bad_request(_refusal(kind, attribute, operation, path))
    value = str(patch_operation.get("value") or "")
    read = kind.values[attribute][1] if attribute in kind.values else str
    is_number = value.isascii() and value.isdecimal()
    if value and (
        (read is int and not is_number) or (read is _status and not (is_number and len(value) == 3))
    ):
        raise refusals.bad_request(f"Invalid patch value '{value}' specified for op '{operation}'")


def _refusal(kind: _Kind, attribute: str, operation: Any, path: Any) -> str:
    if kind.is_terse:
        if kind.place == _METHOD and attribute in kind.values:
            return refusals.ONLY_REPLACE
        return f"Invalid patch path {'null' if path is None else path}"
    known = "Please choose supported operations"
    if operation == "replace" and not attribute and not kind.members and not kind.items:
        known = f"Must be one of: [{', '.join(kind.values)}]"
    return f"Invalid patch path  '{path}' specified for op '{operation}'. {known}"


def _check_result(api: Any, kind: _Kind, updated: Any, operations: list[dict[str, Any]]) -> None:
    """Refuse operations after which an API would not fit together."""
    values: dict[Any, Any] = {one["path"]: str(one.get("value") or "") for one in operations}
    match kind.place:
        case ("resources", ""):
            parent_id = values.get("/parentId", updated.parent_id)
            if updated.id == api.root_resource_id and values:
                name = next(iter(values)).lstrip("/")
                raise refusals.bad_request(f"Root resource cannot update its {name}.")
            _check_parent(api, parent_id)
            part = values.get("/pathPart", updated.path_part)
            refusals.check_place(api, updated.id, parent_id, part)
            _check_circle(api, updated.id, parent_id)
        case ("models", ""):
            for path, value in values.items():
                refusals.check_model_value(path, value)
        case ("requestvalidators", ""):
            if values.get("/name") == "":
                raise refusals.bad_request("Request Validator name cannot be blank")
        case ("gatewayresponses", "") | (*_, "methods", "", "responses", ""):
            for operation in operations:
                _check_member(updated, kind, operation)
        case (*_, "methods", ""):
            refusals.check_authorizer(
                api,
                values.get("/authorizationType", updated.authorization_type),
                values.get("/authorizerId", updated.authorizer_id),
            )
            refusals.check_validator(api, values.get("/requestValidatorId"))
        case _:
            return


def _check_mappings(
    method: Any, kind: _Kind, names: list[str], operations: list[dict[str, Any]]
) -> None:
    """Refuse new mappings and templates that AWS refuses when an integration or its response is made."""
    side, declared = "request", method.request_parameters or ()
    if "responses" in kind.place:
        found = method.method_responses.get(names[-1])
        side, declared = "response", () if found is None else found.response_parameters or ()
    new = [
        (*_split(kind, one["path"]), one.get("value"))
        for one in operations
        if one["op"] != "remove"
    ]
    mappings = {name: value for path, name, value in new if path == f"/{side}Parameters"}
    check_mappings(side, mappings, declared)
    check_media_types([name for path, name, _ in new if path == f"/{side}Templates"])


def _check_parent(api: Any, parent_id: str | None) -> None:
    if parent_id not in api.resources:
        raise refusals.not_found("Invalid Resource identifier specified")


def _check_circle(api: Any, resource_id: str, parent_id: str | None) -> None:
    above = parent_id
    while above is not None:
        if above == resource_id:
            raise refusals.bad_request("Resources cannot be cyclical.")
        above = api.resources[above].parent_id


def _check_member(updated: Any, kind: _Kind, patch_operation: Mapping[str, Any]) -> None:
    path, name = _split(kind, patch_operation["path"])
    operation, is_gateways = patch_operation["op"], kind.place[0] == "gatewayresponses"
    if path not in kind.members or operation not in ("replace", "remove"):
        return
    if is_gateways and operation == "replace" and not patch_operation.get("value"):
        raise refusals.bad_request(f"Invalid null or empty value in {path.lstrip('/')}")
    is_there = name in (getattr(updated, kind.members[path][0]) or {})
    if not is_there and (operation == "replace" or not is_gateways):
        raise refusals.not_found(
            "Content-Type specified was not found"
            if path == "/responseModels"
            else "Invalid parameter name specified"
        )


def _apply(updated: Any, kind: _Kind, patch_operation: Mapping[str, Any]) -> None:
    operation, value = patch_operation["op"], str(patch_operation.get("value") or "")
    path, name = _split(kind, patch_operation["path"])
    if path in kind.values:
        attribute, read = kind.values[path]
        setattr(updated, attribute, read(value) if value or read is _flag else None)
        return
    if path in kind.items:
        text = name or value
        others = [item for item in getattr(updated, kind.items[path]) or [] if item != text]
        setattr(updated, kind.items[path], [*others, text] if operation == "add" else others)
        return
    attribute, read = kind.members[path]
    members = dict(getattr(updated, attribute) or {})
    if operation == "remove":
        members.pop(name, None)
    else:
        members[name] = read(value)
    is_shown_empty = kind.place[0] == "gatewayresponses"
    setattr(updated, attribute, members if members or is_shown_empty else None)
