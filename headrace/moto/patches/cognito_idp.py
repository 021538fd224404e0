"""Cognito user pools: deletions of resource servers."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any


def allow_deletions(module: Any) -> None:
    """Allow deletions of resource servers."""

    def delete_resource_server(self: Any) -> str:
        pool = self.backend.describe_user_pool(self._get_param("UserPoolId"))
        pool.resource_servers.pop(self._get_param("Identifier"), None)
        return ""

    module.CognitoIdpResponse.delete_resource_server = delete_resource_server
