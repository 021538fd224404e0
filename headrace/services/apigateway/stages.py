"""HTTP and WebSocket APIs: updates of stages, and imports of definitions."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import json
from typing import Any


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
