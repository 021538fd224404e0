"""CodePipeline: CloudFormation may set its own tags, users may not."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import Any

from headrace.core.system_tags import are_set_now


def allow_system_tags(module: Any) -> None:
    """Allow them on pipelines."""
    pipeline = module.CodePipeline
    check = pipeline.validate_tags

    @functools.wraps(check)
    def check_first(self: Any, tags: list[dict[str, str]]) -> None:
        check(self, [tag for tag in tags if not are_set_now(tag["key"])])

    pipeline.validate_tags = check_first
