"""Resource Groups: CloudFormation may set its own tags, users may not."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import Any

from headrace.core.system_tags import are_set_now


def allow_system_tags(module: Any) -> None:
    """Allow them on resource groups."""
    backend = module.ResourceGroupsBackend
    check = backend._validate_tags

    @functools.wraps(check)
    def check_first(tags: dict[str, str]) -> None:
        check({key: value for key, value in tags.items() if not are_set_now(key)})

    backend._validate_tags = staticmethod(check_first)
