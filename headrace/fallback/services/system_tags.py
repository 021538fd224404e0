"""Lets CloudFormation put its own tags, `aws:cloudformation:...`, on resources of moto's services; users may not.

Each function patches the module that it is given, once that is imported: see `_LATER` in `__init__.py`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import Any

from headrace.core.system_tags import are_set_now


def acm(module: Any) -> None:
    """Allow them on certificates."""
    holder = module.TagHolder
    check = holder._validate_kv

    @functools.wraps(check)
    def checked(self: Any, key: str, value: Any, index: int) -> None:
        if not are_set_now(key):
            check(self, key, value, index)

    holder._validate_kv = checked


def resource_groups(module: Any) -> None:
    """Allow them on resource groups."""
    backend = module.ResourceGroupsBackend
    check = backend._validate_tags

    @functools.wraps(check)
    def checked(tags: dict[str, str]) -> None:
        check({key: value for key, value in tags.items() if not are_set_now(key)})

    backend._validate_tags = staticmethod(checked)


def pipelines(module: Any) -> None:
    """Allow them on pipelines."""
    pipeline = module.CodePipeline
    check = pipeline.validate_tags

    @functools.wraps(check)
    def checked(self: Any, tags: list[dict[str, str]]) -> None:
        check(self, [tag for tag in tags if not are_set_now(tag["key"])])

    pipeline.validate_tags = checked


def common(module: Any) -> None:
    """Allow them wherever moto's common tagging service checks tags."""
    service = module.TaggingService
    check = service.validate_tags

    @functools.wraps(check)
    def checked(self: Any, tags: list[dict[str, str]], limit: int = 0) -> str:
        own = [tag for tag in tags if not are_set_now(tag.get(self.key_name, ""))]
        return check(self, own, limit)

    service.validate_tags = checked
