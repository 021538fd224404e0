"""Cognito identity pools: a new name."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from typing import Any


def allow_renaming(module: Any) -> None:
    """Allow an identity pool to change its name, which moto ignores."""
    backend = module.CognitoIdentityBackend
    update = backend.update_identity_pool

    @functools.wraps(update)
    def update_identity_pool(
        self: Any, identity_pool_id: str, identity_pool_name: str, **named: Any
    ) -> Any:
        if identity_pool_name and identity_pool_id in self.identity_pools:
            self.identity_pools[identity_pool_id].identity_pool_name = identity_pool_name
        return update(self, identity_pool_id, identity_pool_name, **named)

    backend.update_identity_pool = update_identity_pool
