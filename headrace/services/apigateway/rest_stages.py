"""Stages of REST APIs: what moto drops of them, what AWS refuses of their updates, and canaries.

Stages keep their settings when a deployment names them, and have canaries, which moto does not know (LocalStack's
cloudformation/resources/test_apigateway.py, 2025); refusals of updates are as recorded in its
apigateway/test_apigateway_common.py, 2024.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from headrace.moto.current_cloud import CURRENT
from headrace.services.apigateway.refusals import bad_request, names_of

_CANARY = "/canarySettings"
_METHOD_SETTINGS = {
    "throttlingBurstLimit": 5000,
    "throttlingRateLimit": 10_000.0,
    "cacheDataEncrypted": False,
}
_TOP = (
    "/deploymentId", "/description", "/cacheClusterEnabled", "/cacheClusterSize",
    "/clientCertificateId", "/accessLogSettings", "/accessLogSettings/destinationArn",
    "/accessLogSettings/format",
)  # fmt: skip
_SETTINGS = (
    "metrics/enabled", "logging/dataTrace", "logging/loglevel", "throttling/burstLimit",
    "throttling/rateLimit", "caching/ttlInSeconds", "caching/enabled", "caching/dataEncrypted",
    "caching/requireAuthorizationForCacheControl",
    "caching/unauthorizedCacheControlHeaderStrategy",
)  # fmt: skip
_KNOWN = re.compile(rf"/[^/]+/[^/]+(?:/(?:{'|'.join(_SETTINGS)}))?|/variables/.+|{_CANARY}.*")


def patch_models(module: Any) -> None:
    """Change the stages of `moto.apigateway.models`."""
    module.RestAPI.create_deployment = _keep_stage(module.RestAPI.create_deployment)
    module.RestAPI.delete_deployment = _delete_deployment
    stage = module.Stage
    stage.canary_settings = None
    stage.apply_operations = _note_update(
        _patch_canary(_take_settings_back(stage.apply_operations))
    )
    stage.__init__ = _with_times(stage.__init__)
    stage.to_json = _describe_stage(stage.to_json)
    defaults = stage._get_default_method_settings
    stage._get_default_method_settings = _as_all_methods(defaults)


def patch_responses(response: Any) -> None:
    """Read what moto's responses do not read of stages, and refuse updates that AWS refuses."""
    response.create_deployment = _with_settings(response.create_deployment)
    response.create_stage = _with_documentation(_with_canary(response.create_stage))
    response.get_stages = _of_a_deployment(response.get_stages)
    response.update_stage = _with_known_paths(response.update_stage)


def _of_a_deployment(get_stages: Any) -> Any:
    @functools.wraps(get_stages)
    def get_stages_of(self: Any) -> str:
        shown, deployment = json.loads(get_stages(self)), self._get_param("deploymentId")
        stages = [one for one in shown["item"] if deployment in (None, one["deploymentId"])]
        return json.dumps({"item": stages})

    return get_stages_of


def _as_all_methods(defaults: Any) -> Any:
    """Let a method's settings begin as those of all methods, else as AWS's; recorded."""

    @functools.wraps(defaults)
    def default_settings(self: Any) -> dict[str, Any]:
        return defaults(self) | _METHOD_SETTINGS | self.method_settings.get("*/*", {})

    return default_settings


# --- what stages are and keep -----------------------------------------------------------------


def _with_documentation(create: Any) -> Any:
    @functools.wraps(create)
    def create_stage(self: Any) -> Any:
        status, headers, body = create(self)
        if version := self._get_param("documentationVersion"):
            stage = self.backend.get_stage(names_of(self)[1], self._get_param("stageName"))
            stage.documentation_version = version
            body = json.dumps(stage.to_json())
        return status, headers, body

    return create_stage


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
        if documented := getattr(self, "documentation_version", None):
            shown["documentationVersion"] = documented
        if self.canary_settings:
            canary = dict(self.canary_settings)
            if not canary["stageVariableOverrides"]:
                del canary["stageVariableOverrides"]
            shown["canarySettings"] = canary
        if (created_s := getattr(self, "created_s", None)) is not None:
            shown |= {"createdDate": created_s, "lastUpdatedDate": self.updated_s}
        return shown

    return describe


# --- updates ----------------------------------------------------------------------------------


def _known_paths() -> str:
    """Return the paths as AWS's sentence lists them, with its commas."""
    of_method, of_all = (
        [f"{place}/{name}" for name in _SETTINGS]
        for place in ("/{resourcePath}/{httpMethod}", "/*/*")
    )
    listed = [*_TOP, *of_method[:3], "".join(of_method[3:6]), *of_method[6:]]
    listed += [*of_all[:3], " ".join(of_all[3:6]), *of_all[6:]]
    return ", ".join([*listed, "/variables/{variable_name}", "/tracingEnabled"])


def _unknown_path(path: str) -> Exception:
    return bad_request(f"Invalid method setting path: {path}. Must be one of: [{_known_paths()}]")


def _no_such_setting(path: str) -> Exception:
    return bad_request(
        f"Cannot remove method setting {path.lstrip('/')} because there is no method setting for"
        " this method "
    )


def _with_known_paths(update: Any) -> Any:
    @functools.wraps(update)
    def update_stage(self: Any) -> Any:
        for operation in self._get_param("patchOperations") or []:
            path = str(operation.get("path"))
            is_known = path in (*_TOP, "/tracingEnabled", "/documentationVersion")
            is_setting = _KNOWN.fullmatch(path) and not path.startswith("/tags/")
            is_copied = operation.get("op") == "copy"
            if not (is_known or is_setting or is_copied):
                raise _unknown_path(path)
        return update(self)

    return update_stage


def _take_settings_back(apply: Any) -> Any:
    """Let an update remove a method's settings, or all methods', and name another version of the documentation."""

    @functools.wraps(apply)
    def apply_operations(self: Any, patch_operations: list[dict[str, Any]]) -> Any:
        others: list[dict[str, Any]] = []
        for patch_operation in patch_operations:
            operation, path = patch_operation["op"], patch_operation["path"]
            place = "/".join(path.split("/")[1:3])
            is_setting = path.count("/") >= 2 and not path.startswith(("/variables/", "/access"))
            if path == "/documentationVersion":
                self.documentation_version = patch_operation.get("value")
            elif operation != "remove" or not is_setting:
                others.append(patch_operation)
            elif place not in self.method_settings:
                raise _no_such_setting(path)
            else:
                del self.method_settings[place]
        return apply(self, others)

    return apply_operations


# --- deployments and canaries -----------------------------------------------------------------


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
        if canary is not None:
            _want_stage(name, old)
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


def _want_stage(name: str | None, stage: Any) -> None:
    """Refuse a canary without its stage. Raises BadRequestException (recorded)."""
    why = f"Stage {name} must already be created before making a canary release deployment"
    if not name:
        why = (
            "Non null and non empty stageName must be provided for canary deployment. Provided value is"
            f" {'null' if name is None else name}"
        )
    if stage is None:
        raise bad_request(f"Invalid deployment content specified.{why}")


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
    _check_canary_patch(str(patch_operation["op"]), path)
    settings = _NO_CANARY | {"deploymentId": stage.deployment_id} | (stage.canary_settings or {})
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
        settings[name] = value.lower() == "true" if name == "useStageCache" else value
    stage.canary_settings = settings


def _check_canary_patch(operation: str, path: str) -> None:
    """Refuse an operation that the part of a canary does not have. Raises BadRequestException (recorded)."""
    of_variable = path.startswith("stageVariableOverrides/")
    if operation == "remove" and not of_variable:
        raise _no_such_setting(f"{_CANARY}/{path}")
    if not of_variable and (path not in _NO_CANARY or path == "stageVariableOverrides"):
        raise _unknown_path(f"{_CANARY}/{path}")
    if operation == "add" and not of_variable:
        raise bad_request(f"Invalid add operation with path: {_CANARY}/{path}")


def _promote(stage: Any, source: str) -> None:
    """Copy a part of the canary to the stage itself."""
    settings = stage.canary_settings or {}
    if source == f"{_CANARY}/deploymentId":
        stage.deployment_id = settings.get("deploymentId") or stage.deployment_id
    else:
        stage.variables = {**stage.variables, **settings.get("stageVariableOverrides", {})}
