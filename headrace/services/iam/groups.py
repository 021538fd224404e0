"""IAM's groups: a new path without a new name."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from typing import Any


def allow_new_paths() -> None:
    """Allow a group to change its path without its name."""
    from moto.iam.models import IAMBackend

    backend: Any = IAMBackend
    update = backend.update_group

    @functools.wraps(update)
    def update_group(
        self: Any, group_name: str, new_group_name: str | None, new_path: str | None
    ) -> Any:
        if new_group_name and new_group_name != group_name:
            return update(self, group_name, new_group_name, new_path)
        group = self.get_group(group_name)
        group.path = new_path or group.path
        return None

    backend.update_group = update_group
