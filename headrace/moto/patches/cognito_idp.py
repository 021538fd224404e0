"""Cognito user pools: deletions of resource servers, and custom domains."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
from typing import Any


def show_domains(module: Any) -> None:
    """Show the configuration of a custom domain, which moto keeps and does not show."""
    to_json = module.CognitoIdpUserPoolDomain.to_json

    @functools.wraps(to_json)
    def with_config(self: Any, extended: bool = True) -> dict[str, Any]:
        shown = to_json(self, extended)
        return {**shown, "CustomDomainConfig": self.custom_domain_config} if extended else shown

    module.CognitoIdpUserPoolDomain.to_json = with_config


def allow_deletions(module: Any) -> None:
    """Allow deletions of resource servers."""

    def delete_resource_server(self: Any) -> str:
        pool = self.backend.describe_user_pool(self._get_param("UserPoolId"))
        pool.resource_servers.pop(self._get_param("Identifier"), None)
        return ""

    module.CognitoIdpResponse.delete_resource_server = delete_resource_server
