"""ACM: CloudFormation may set its own tags, users may not."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import Any

from headrace.core.system_tags import are_set_now


def allow_system_tags(module: Any) -> None:
    """Allow them on certificates."""
    holder = module.TagHolder
    check = holder._validate_kv

    @functools.wraps(check)
    def check_first(self: Any, key: str, value: Any, index: int) -> None:
        if not are_set_now(key):
            check(self, key, value, index)

    holder._validate_kv = check_first
