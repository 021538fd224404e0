"""HTTP and WebSocket APIs: one part of a name, stages and deployments, and imports of definitions.

Quick create: CreateApi with a Target makes an integration, a route and a stage too, which moto leaves out.

Source: the model's texts of CreateApi and UpdateApi (documented). Assumed: the code and the sentences of refusals, and
that what was made is marked as managed, as the developer guide's console shows it.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from headrace.core.values import iso_seconds_of
from headrace.moto.current_cloud import CURRENT


def refuse_duplicates(module: Any) -> None:
    """Refuse a second stage, route or mapping of a name, which moto lets replace the first or stand beside it.

    The sentences are those that Terraform's users report (observed by others).
    """
    api, backend = module.Api, module.ApiGatewayV2Backend
    api.__init__ = _with_own_scheme(api.__init__)
    create_stage, create_route = api.create_stage, api.create_route
    create_mapping, delete_domain = backend.create_api_mapping, backend.delete_domain_name
    delete_response = api.delete_integration_response

    @functools.wraps(delete_response)
    def delete_known_response(self: Any, integration_id: str, integration_response_id: str) -> None:
        # moto fails at one that does not exist.
        self.get_integration_response(integration_id, integration_response_id)
        delete_response(self, integration_id, integration_response_id)

    @functools.wraps(create_stage)
    def create_new_stage(self: Any, config: dict[str, Any]) -> Any:
        if config["stageName"] in self.stages:
            raise _refuse(409, "ConflictException", "Stage already exists")
        return create_stage(self, config)

    @functools.wraps(create_route)
    def create_new_route(self: Any, *args: Any, route_key: str, **named: Any) -> Any:
        if any(route.route_key == route_key for route in self.routes.values()):
            raise _refuse(
                409, "ConflictException", f"Route with key {route_key} already exists for this API"
            )
        return create_route(self, *args, route_key=route_key, **named)

    @functools.wraps(create_mapping)
    def create_new_mapping(
        self: Any, api_id: str, api_mapping_key: str, domain_name: str, stage: str
    ) -> Any:
        if any(
            (mapping.domain_name, mapping.api_mapping_key) == (domain_name, api_mapping_key)
            for mapping in self.api_mappings.values()
        ):
            raise _refuse(
                409, "ConflictException", "ApiMapping key already exists for this domain name"
            )
        return create_mapping(self, api_id, api_mapping_key, domain_name, stage)

    @functools.wraps(delete_domain)
    def delete_domain_with_mappings(self: Any, domain_name: str) -> None:
        # moto removes from the dictionary that it goes through.
        if domain_name in self.domain_names:
            for mapping_id, mapping in list(self.api_mappings.items()):
                if mapping.domain_name == domain_name:
                    del self.api_mappings[mapping_id]
        delete_domain(self, domain_name)

    api.create_stage, api.create_route = create_new_stage, create_new_route
    api.delete_integration_response = delete_known_response
    backend.create_api_mapping, backend.delete_domain_name = (
        create_new_mapping,
        delete_domain_with_mappings,
    )


def _with_own_scheme(init: Any) -> Any:
    @functools.wraps(init)
    def make(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        if self.protocol_type == "WEBSOCKET":
            self.api_endpoint = self.api_endpoint.replace("https://", "wss://")

    return make


def _refuse(status: int, code: str, sentence: str) -> Exception:
    from moto.apigatewayv2.exceptions import APIGatewayV2Error

    error = APIGatewayV2Error(code, sentence)
    error.code = status
    return error


def allow_stage_updates(module: Any) -> None:
    """Allow updates of stages of HTTP and WebSocket APIs, which keep what a request omits."""
    from moto.core.utils import utcnow

    def update_stage(self: Any) -> tuple[int, dict[str, Any], str]:
        parts = self.path.split("/")
        stage = self.apigatewayv2_backend.get_stage(parts[-3], module.unquote(parts[-1]))
        api = self.apigatewayv2_backend.get_api(parts[-3])
        # An empty member gets the value of a new stage without it.
        config = {**stage.config, **json.loads(self.body)}
        config = {key: value for key, value in config.items() if value not in ("", {}, None)}
        anew = type(stage)(api, {**config, "stageName": stage.name, "tags": stage.tags})
        anew.created, anew.updated = stage.created, utcnow()
        api.stages[stage.name] = anew
        return 200, {}, json.dumps(anew.to_json())

    module.ApiGatewayV2Response.update_stage = update_stage


def show_deployments(module: Any) -> None:
    """Let a stage say which deployment it has, in `moto.apigatewayv2.models`."""
    show = module.Stage.to_json

    @functools.wraps(show)
    def to_json(self: Any) -> dict[str, Any]:
        deployment = self.config.get("deploymentId")
        return {**show(self), **({"deploymentId": deployment} if deployment else {})}

    module.Stage.to_json = to_json


def add_deployments(urls: Any) -> None:
    """Add the calls for deployments of HTTP and WebSocket APIs; a stage serves its API's current state anyway."""
    from moto.apigatewayv2.responses import ApiGatewayV2Response

    response: Any = ApiGatewayV2Response
    for call in (
        create_deployment, get_deployment, get_deployments, update_deployment, delete_deployment,
    ):  # fmt: skip
        setattr(response, call.__name__, call)
    path = "{0}/v2/apis/(?P<api_id>[^/]+)/deployments"
    urls.url_paths[f"{path}$"] = response.dispatch
    urls.url_paths[f"{path}/(?P<deployment_id>[^/]+)$"] = response.dispatch


def _api_of(self: Any) -> Any:
    return self.apigatewayv2_backend.get_api(self.path.split("/")[3])


def _deployments(api: Any) -> dict[str, dict[str, Any]]:
    # State that was stored before has none.
    return vars(api).setdefault("deployments", {})


def _find_deployment(self: Any) -> dict[str, Any]:
    name = self.path.split("/")[-1]
    deployment = _deployments(_api_of(self)).get(name)
    if deployment is None:
        raise _refuse(404, "NotFoundException", f"Invalid deployment identifier specified {name}")
    return deployment


_Answer = tuple[int, dict[str, Any], str]


def create_deployment(self: Any) -> _Answer:
    """CreateDeployment."""
    from moto.moto_api._internal import mock_random

    api, params = _api_of(self), json.loads(self.body or "{}")
    stage = api.get_stage(params["stageName"]) if params.get("stageName") else None
    deployment: dict[str, Any] = {
        "autoDeployed": False,
        "createdDate": iso_seconds_of(CURRENT.clock.now_ms()),
        "deploymentId": mock_random.get_random_hex(6),
        "deploymentStatus": "DEPLOYED",
    }
    if params.get("description"):
        deployment["description"] = params["description"]
    _deployments(api)[deployment["deploymentId"]] = deployment
    if stage is not None:
        stage.config = {**stage.config, "deploymentId": deployment["deploymentId"]}
    return 201, {}, json.dumps(deployment)


def get_deployment(self: Any) -> _Answer:
    """GetDeployment."""
    return 200, {}, json.dumps(_find_deployment(self))


def get_deployments(self: Any) -> _Answer:
    """GetDeployments."""
    return 200, {}, json.dumps({"items": [*_deployments(_api_of(self)).values()]})


def update_deployment(self: Any) -> _Answer:
    """UpdateDeployment."""
    deployment, params = _find_deployment(self), json.loads(self.body or "{}")
    if "description" in params:
        deployment["description"] = params["description"]
    return 200, {}, json.dumps(deployment)


def delete_deployment(self: Any) -> _Answer:
    """DeleteDeployment: of one that no stage points to."""
    deployment, api = _find_deployment(self), _api_of(self)
    for stage in api.stages.values():
        if stage.config.get("deploymentId") == deployment["deploymentId"]:
            raise _refuse(
                400,
                "BadRequestException",
                "Active stages pointing to this deployment must be moved or deleted",
            )
    del _deployments(api)[deployment["deploymentId"]]
    return 204, {}, ""


def allow_imports(module: Any) -> None:
    """Allow imports of OpenAPI definitions."""
    # It imports moto's models, which are slow to import.
    from headrace.services.apigateway import openapi

    openapi.patch_responses(module)


_DEFAULT = "$default"
_MEMBERS = ("target", "routeKey", "credentialsArn")


def show_managed(module: Any) -> None:
    """Let what quick create made say so, in `moto.apigatewayv2.models`."""
    for name in ("Integration", "Route", "Stage"):
        _mark(getattr(module, name))


def _mark(kind: Any) -> None:
    show = kind.to_json

    def to_json(self: Any) -> dict[str, Any]:
        managed = {"apiGatewayManaged": True} if getattr(self, "is_managed", False) else {}
        return {**show(self), **managed}

    kind.to_json = to_json


def patch_responses(module: Any) -> None:
    """Let CreateApi and UpdateApi of `moto.apigatewayv2.responses` do their quick create."""
    # They import moto's models, which are slow to import.
    from moto.apigatewayv2.exceptions import BadRequestException

    response = module.ApiGatewayV2Response
    create, update = response.create_api, response.update_api

    def create_api(self: Any) -> tuple[int, dict[str, Any], str]:
        params = json.loads(self.body)
        settings = {name: params[name] for name in _MEMBERS if params.get(name)}
        if settings and "target" not in settings:
            raise BadRequestException("RouteKey and CredentialsArn need a Target.")
        if settings and params.get("protocolType") != "HTTP":
            raise BadRequestException("Quick create is supported only for HTTP APIs.")
        answer = create(self)
        if settings:
            api_id = json.loads(answer[2])["apiId"]
            _make(self.apigatewayv2_backend.get_api(api_id), settings)
        return answer

    def update_api(self: Any) -> tuple[int, dict[str, Any], str]:
        params = json.loads(self.body)
        settings = {name: params[name] for name in _MEMBERS if params.get(name)}
        if settings:
            api = self.apigatewayv2_backend.get_api(self.path.split("/")[-1])
            if not _select_managed(api.integrations) or not _select_managed(api.routes):
                raise BadRequestException("The API was not made by quick create.")
            _change(api, settings)
        return update(self)

    response.create_api, response.update_api = create_api, update_api


def _make(api: Any, settings: Mapping[str, str]) -> None:
    from moto.apigatewayv2.models import Stage

    integration = api.create_integration(
        connection_type="INTERNET",
        description=None,
        credentials_arn=settings.get("credentialsArn"),
        **_integration(settings["target"]),
    )
    route = api.create_route(
        api_key_required=False,
        authorization_scopes=None,
        route_key=settings.get("routeKey", _DEFAULT),
        target=f"integrations/{integration.id}",
    )
    stage: Any = Stage(api, {"stageName": _DEFAULT, "autoDeploy": True})
    api.stages[stage.name] = stage
    parts: tuple[Any, ...] = (integration, route, stage)
    for part in parts:
        part.is_managed = True


def _integration(target: str) -> dict[str, str]:
    """Return the integration of a target: a function's ARN, or a URL."""
    if target.startswith("arn:"):
        return {
            "integration_type": "AWS_PROXY",
            "integration_method": "POST",
            "integration_uri": target,
            "payload_format_version": "2.0",
        }
    return {
        "integration_type": "HTTP_PROXY",
        "integration_method": "ANY",
        "integration_uri": target,
        "payload_format_version": "1.0",
    }


def _change(api: Any, settings: Mapping[str, str]) -> None:
    (integration,) = _select_managed(api.integrations)
    (route,) = _select_managed(api.routes)
    if "target" in settings:
        for name, value in _integration(settings["target"]).items():
            setattr(integration, name, value)
    if "credentialsArn" in settings:
        integration.credentials_arn = settings["credentialsArn"]
    if "routeKey" in settings:
        route.route_key = settings["routeKey"]


def _select_managed(parts: Mapping[str, Any]) -> list[Any]:
    return [part for part in parts.values() if getattr(part, "is_managed", False)]
