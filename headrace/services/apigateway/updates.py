"""Updates methods, integrations, their responses, gateway responses, resources, models and deployments of REST APIs.

moto has none of these operations. The paths are documented:
docs.aws.amazon.com/apigateway/latest/api/patch-operations.html; the sentence for another path is assumed. Stages keep
their settings when a deployment names them, and have canaries, which moto does not know either (LocalStack's
cloudformation/resources/test_apigateway.py, 2025).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


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
    """

    place: tuple[str, ...]
    values: Mapping[str, tuple[str, Callable[[str], Any]]]
    members: Mapping[str, tuple[str, Callable[[str], Any]]]
    items: Mapping[str, str]


_METHOD = ("resources", "", "methods", "")
_KINDS = {
    "update_resource": _Kind(
        ("resources", ""),
        {"/pathPart": ("path_part", str), "/parentId": ("parent_id", str)},
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
    ),
    "update_method_response": _Kind(
        (*_METHOD, "responses", ""),
        {},
        {
            "/responseModels": ("response_models", str),
            "/responseParameters": ("response_parameters", _flag),
        },
        {},
    ),
    "update_integration": _Kind(
        (*_METHOD, "integration"),
        {
            "/cacheNamespace": ("cache_namespace", str),
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
    ),
    "update_model": _Kind(
        ("models", ""), {"/description": ("description", str), "/schema": ("schema", str)}, {}, {}
    ),
    "update_deployment": _Kind(("deployments", ""), {"/description": ("description", str)}, {}, {}),
}


def patch_responses(response: Any) -> None:
    """Add the operations to moto's responses."""
    for operation, kind in _KINDS.items():
        setattr(response, operation, _updating(kind))
    response.create_deployment = _with_settings(response.create_deployment)
    response.create_stage = _with_canary(response.create_stage)


def _updating(kind: _Kind) -> Callable[[Any], Any]:
    def update(self: Any) -> Any:
        _, _, api_id, *parts = unquote(self.path).split("/")
        names = [part for part, fixed in zip(parts, kind.place, strict=False) if not fixed]
        updated = _find(self.backend, api_id, kind, names)
        operations = self._get_param("patchOperations") or []
        for patch_operation in operations:
            _check(kind, patch_operation)
        for patch_operation in operations:
            _apply(updated, kind, patch_operation)
        shown = updated.to_dict() if kind.place == ("resources", "") else updated.to_json()
        return 200, {}, json.dumps(shown)

    return update


def _find(backend: Any, api_id: str, kind: _Kind, names: list[str]) -> Any:
    """Return moto's object; raises moto's exception when there is none."""
    from moto.apigateway.exceptions import NotFoundException

    match kind.place:
        case ("resources", ""):
            return backend.get_resource(api_id, *names)
        case ("gatewayresponses", ""):
            return backend.get_gateway_response(api_id, *names)
        case ("models", ""):
            return backend.get_model(api_id, *names)
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
        raise NotFoundException(missing)
    return updated


def _split(kind: _Kind, path: str) -> tuple[str, str]:
    """Return the attribute's path, and the name of its member; empty ones for a path that cannot be updated."""
    if path in kind.values or path in kind.items:
        return path, ""
    _, top, *rest = path.split("/", 2) if path.startswith("/") else ("", "")
    name = "".join(rest).replace("~1", "/").replace("~0", "~")
    known = name and (f"/{top}" in kind.members or f"/{top}" in kind.items)
    return (f"/{top}", name) if known else ("", "")


def _check(kind: _Kind, patch_operation: Mapping[str, Any]) -> None:
    """Refuse an operation that AWS does not document, before any is applied."""
    from moto.apigateway.exceptions import BadRequestException

    operation, path = patch_operation.get("op"), str(patch_operation.get("path") or "")
    attribute, _ = _split(kind, path)
    allowed = {"replace"} if attribute in kind.values else {"add", "remove", "replace"}
    if attribute in kind.items:
        allowed = {"add", "remove"}
    if not attribute or operation not in allowed:
        raise BadRequestException(
            f"Invalid patch path  '{path}' specified for op '{operation}'. Please choose supported operations"
        )
    value = str(patch_operation.get("value") or "")
    read = kind.values[attribute][1] if attribute in kind.values else str
    is_number = value.isascii() and value.isdecimal()
    if value and (
        (read is int and not is_number) or (read is _status and not (is_number and len(value) == 3))
    ):
        raise BadRequestException(f"Invalid patch value '{value}' specified for op '{operation}'")


def _apply(updated: Any, kind: _Kind, patch_operation: Mapping[str, Any]) -> None:
    operation, value = patch_operation["op"], str(patch_operation.get("value") or "")
    path, name = _split(kind, patch_operation["path"])
    if path in kind.values:
        attribute, read = kind.values[path]
        setattr(updated, attribute, read(value) if value else None)
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
    setattr(updated, attribute, members)


# --- stages and their canaries ------------------------------------------------------------------

_CANARY = "/canarySettings"


def patch_models(module: Any) -> None:
    """Keep the settings of stages in `moto.apigateway.models`."""
    module.RestAPI.create_deployment = _keep_stage(module.RestAPI.create_deployment)
    module.RestAPI.delete_deployment = _delete_deployment
    module.Stage.canary_settings = None
    module.Stage.apply_operations = _patch_canary(module.Stage.apply_operations)


def _keep_stage(create: Any) -> Any:
    """Let a new deployment change its stage; moto makes the stage anew."""

    @functools.wraps(create)
    def create_deployment(self: Any, name: str, *args: Any, **named: Any) -> Any:
        kept = self.stages.get(name)
        deployment = create(self, name, *args, **named)
        if kept is not None:
            kept.deployment_id = deployment.id
            kept.variables = self.stages[name].variables or kept.variables
            self.stages[name] = kept
        return deployment

    return create_deployment


def _delete_deployment(self: Any, deployment_id: str) -> Any:
    """Delete a deployment that no stage serves; moto looks at the stage that it was made for."""
    from moto.apigateway.exceptions import DeploymentNotFoundException, StageStillActive

    if deployment_id not in self.deployments:
        raise DeploymentNotFoundException
    for stage in self.stages.values():
        canary = stage.canary_settings or {}
        if deployment_id in (stage.deployment_id, canary.get("deploymentId")):
            raise StageStillActive
    return self.deployments.pop(deployment_id)


def _with_settings(create: Any) -> Any:
    """Read a deployment's stageDescription and canarySettings."""

    @functools.wraps(create)
    def create_deployment(self: Any) -> Any:
        api_id, name = self.path.split("/")[2], self._get_param("stageName")
        old = self.backend.get_rest_api(api_id).stages.get(name)
        deployed_before = None if old is None else old.deployment_id
        canary = _canary(self._get_param("canarySettings"))
        status, headers, body = create(self)
        if name:
            stage = self.backend.get_stage(api_id, name)
            stage.description = self._get_param("stageDescription") or stage.description
            if canary is not None:
                deployment_id = json.loads(body)["id"]
                stage.deployment_id = deployed_before or deployment_id
                stage.canary_settings = {**canary, "deploymentId": deployment_id}
        return status, headers, body

    return create_deployment


def _with_canary(create: Any) -> Any:
    @functools.wraps(create)
    def create_stage(self: Any) -> Any:
        canary = _canary(self._get_param("canarySettings"))
        status, headers, body = create(self)
        if canary is not None:
            stage = self.backend.get_stage(self.path.split("/")[2], self._get_param("stageName"))
            stage.canary_settings = canary
            body = json.dumps(stage.to_json())
        return status, headers, body

    return create_stage


_NO_CANARY: dict[str, Any] = {
    "deploymentId": None,
    "percentTraffic": 0.0,
    "stageVariableOverrides": {},
    "useStageCache": False,
}


def _canary(settings: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a request's settings of a canary, None without them. Raises BadRequestException."""
    if not settings:
        return None
    return {
        "deploymentId": settings.get("deploymentId"),
        "percentTraffic": _percent(settings.get("percentTraffic") or 0),
        "stageVariableOverrides": dict(settings.get("stageVariableOverrides") or {}),
        "useStageCache": bool(settings.get("useStageCache")),
    }


def _percent(value: Any) -> float:
    """Return a share of the traffic. Raises BadRequestException (its sentence is assumed)."""
    from moto.apigateway.exceptions import BadRequestException

    try:
        percent = float(value)
    except (TypeError, ValueError):
        percent = -1.0
    if not 0 <= percent <= 100:
        raise BadRequestException(
            f"Invalid percentTraffic value {value}: it must be between 0.0 and 100.0"
        )
    return percent


def _patch_canary(apply: Any) -> Any:
    @functools.wraps(apply)
    def apply_operations(self: Any, patch_operations: list[dict[str, Any]]) -> Any:
        others: list[dict[str, Any]] = []
        for patch_operation in patch_operations:
            path = str(patch_operation.get("path"))
            if path.startswith(_CANARY):
                _change_canary(self, patch_operation, path.removeprefix(_CANARY).lstrip("/"))
            elif str(patch_operation.get("from")).startswith(_CANARY):
                _promote(self, patch_operation["from"])
            else:
                others.append(patch_operation)
        return apply(self, others)

    return apply_operations


def _change_canary(stage: Any, patch_operation: Mapping[str, Any], path: str) -> None:
    if not path:
        stage.canary_settings = None
        return
    settings = _NO_CANARY | (stage.canary_settings or {})
    value, (name, _, variable) = str(patch_operation.get("value") or ""), path.partition("/")
    if variable:
        variables = dict(settings["stageVariableOverrides"])
        variables.pop(variable, None)
        if patch_operation["op"] != "remove":
            variables[variable] = value
        settings["stageVariableOverrides"] = variables
    elif name == "percentTraffic":
        settings[name] = _percent(value)
    else:
        settings[name] = _flag(value) if name == "useStageCache" else value
    stage.canary_settings = settings


def _promote(stage: Any, source: str) -> None:
    """Copy a part of the canary to the stage itself."""
    settings = stage.canary_settings or {}
    if source == f"{_CANARY}/deploymentId":
        stage.deployment_id = settings.get("deploymentId") or stage.deployment_id
    else:
        stage.variables = {**stage.variables, **settings.get("stageVariableOverrides", {})}
