"""SageMaker: an endpoint can change its configuration."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

from typing import Any

from headrace.moto.patching import recreate


def allow_updates(module: Any) -> None:
    """Allow endpoints to change their configuration."""
    from moto.core.responses import ActionResult

    def update_endpoint(self: Any) -> ActionResult:
        backend, name = self.sagemaker_backend, self._get_param("EndpointName")
        backend.describe_endpoint(name)
        parameters = {
            "EndpointName": name,
            "EndpointConfigName": self._get_param("EndpointConfigName"),
            "Tags": backend.endpoints[name].tags,
        }
        before, endpoint = recreate(backend.create_endpoint, backend.endpoints, name, parameters)
        endpoint.creation_time = before.creation_time
        return ActionResult({"EndpointArn": endpoint.arn})

    module.SageMakerResponse.update_endpoint = update_endpoint
