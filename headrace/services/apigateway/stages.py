"""HTTP and WebSocket APIs: one part of a name, updates of stages, and imports of definitions."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
from typing import Any


def refuse_duplicates(module: Any) -> None:
    """Refuse a second stage, route or mapping of a name, which moto lets replace the first or stand beside it.

    The sentences are those that Terraform's users report (observed by others).
    """
    api, backend = module.Api, module.ApiGatewayV2Backend
    create_stage, create_route = api.create_stage, api.create_route
    create_mapping, delete_domain = backend.create_api_mapping, backend.delete_domain_name

    @functools.wraps(create_stage)
    def create_new_stage(self: Any, config: dict[str, Any]) -> Any:
        if config["stageName"] in self.stages:
            raise _refuse_duplicate("Stage already exists")
        return create_stage(self, config)

    @functools.wraps(create_route)
    def create_new_route(self: Any, *args: Any, route_key: str, **named: Any) -> Any:
        if any(route.route_key == route_key for route in self.routes.values()):
            raise _refuse_duplicate(f"Route with key {route_key} already exists for this API")
        return create_route(self, *args, route_key=route_key, **named)

    @functools.wraps(create_mapping)
    def create_new_mapping(
        self: Any, api_id: str, api_mapping_key: str, domain_name: str, stage: str
    ) -> Any:
        if any(
            (mapping.domain_name, mapping.api_mapping_key) == (domain_name, api_mapping_key)
            for mapping in self.api_mappings.values()
        ):
            raise _refuse_duplicate("ApiMapping key already exists for this domain name")
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
    backend.create_api_mapping, backend.delete_domain_name = (
        create_new_mapping,
        delete_domain_with_mappings,
    )


def _refuse_duplicate(sentence: str) -> Exception:
    from moto.apigatewayv2.exceptions import APIGatewayV2Error

    error = APIGatewayV2Error("ConflictException", sentence)
    error.code = 409
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


def allow_imports(module: Any) -> None:
    """Allow imports of OpenAPI definitions."""
    # It imports moto's models, which are slow to import.
    from headrace.services.apigateway import openapi_http

    openapi_http.patch_responses(module)
