"""Quick create: CreateApi with a Target makes an integration, a route and a stage too, which moto leaves out.

Source: the model's texts of CreateApi and UpdateApi (documented). Assumed: the code and the sentences of refusals, and
that what was made is marked as managed, as the developer guide's console shows it.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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
            if not _managed(api.integrations) or not _managed(api.routes):
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
    (integration,) = _managed(api.integrations)
    (route,) = _managed(api.routes)
    if "target" in settings:
        for name, value in _integration(settings["target"]).items():
            setattr(integration, name, value)
    if "credentialsArn" in settings:
        integration.credentials_arn = settings["credentialsArn"]
    if "routeKey" in settings:
        route.route_key = settings["routeKey"]


def _managed(parts: Mapping[str, Any]) -> list[Any]:
    return [part for part in parts.values() if getattr(part, "is_managed", False)]
