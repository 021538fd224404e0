"""moto's common tagging service: CloudFormation may set its own tags, users may not."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import Any

from headrace.core.system_tags import are_set_now


def allow_system_tags(module: Any) -> None:
    """Allow them wherever moto's common tagging service checks tags."""
    service = module.TaggingService
    check = service.validate_tags

    @functools.wraps(check)
    def check_first(self: Any, tags: list[dict[str, str]], limit: int = 0) -> str:
        own = [tag for tag in tags if not are_set_now(tag.get(self.key_name, ""))]
        return check(self, own, limit)

    service.validate_tags = check_first
