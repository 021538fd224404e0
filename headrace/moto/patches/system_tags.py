"""CloudFormation may set its own tags, users may not: ACM, CodePipeline, Resource Groups, moto's tagging service."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import Any

from headrace.core.system_tags import are_set_now


def allow_on_tagging_service(module: Any) -> None:
    """Allow them wherever moto's common tagging service checks tags."""
    service = module.TaggingService
    check = service.validate_tags

    @functools.wraps(check)
    def check_first(self: Any, tags: list[dict[str, str]], limit: int = 0) -> str:
        own = [tag for tag in tags if not are_set_now(tag.get(self.key_name, ""))]
        return check(self, own, limit)

    service.validate_tags = check_first


def allow_on_certificates(module: Any) -> None:
    """Allow them on certificates."""
    holder = module.TagHolder
    check = holder._validate_kv

    @functools.wraps(check)
    def check_first(self: Any, key: str, value: Any, index: int) -> None:
        if not are_set_now(key):
            check(self, key, value, index)

    holder._validate_kv = check_first


def allow_on_pipelines(module: Any) -> None:
    """Allow them on pipelines."""
    pipeline = module.CodePipeline
    check = pipeline.validate_tags

    @functools.wraps(check)
    def check_first(self: Any, tags: list[dict[str, str]]) -> None:
        check(self, [tag for tag in tags if not are_set_now(tag["key"])])

    pipeline.validate_tags = check_first


def allow_on_groups(module: Any) -> None:
    """Allow them on resource groups."""
    backend = module.ResourceGroupsBackend
    check = backend._validate_tags

    @functools.wraps(check)
    def check_first(tags: dict[str, str]) -> None:
        check({key: value for key, value in tags.items() if not are_set_now(key)})

    backend._validate_tags = staticmethod(check_first)
