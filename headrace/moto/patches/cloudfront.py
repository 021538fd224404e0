"""CloudFront: key groups are deleted, and have one name each; keys and key groups have comments."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import importlib
from typing import Any


def delete_key_groups(module: Any) -> None:
    """Add DeleteKeyGroup, and refuse a second group of a name (the code is documented, the sentence assumed)."""
    from moto.cloudfront.exceptions import CloudFrontException
    from moto.core.responses import ActionResult, EmptyResult

    response: Any = module.CloudFrontResponse
    create, get = response.create_key_group, response.get_key_group

    @functools.wraps(get)
    def get_key_group(self: Any) -> ActionResult:
        if self._get_param("Id") not in self.backend.key_groups:
            raise CloudFrontException("NoSuchResource", "The specified key group does not exist.")
        return get(self)

    def delete_key_group(self: Any) -> ActionResult:
        get_key_group(self)
        del self.backend.key_groups[self._get_param("Id")]
        return EmptyResult()

    @functools.wraps(create)
    def create_key_group(self: Any) -> ActionResult:
        name = self._get_param("KeyGroupConfig.Name")
        if any(group.name == name for group in self.backend.key_groups.values()):
            raise CloudFrontException(
                "KeyGroupAlreadyExists", "A key group with this name already exists."
            )
        return create(self)

    for call in (get_key_group, create_key_group, delete_key_group):
        setattr(response, call.__name__, call)


def keep_comments(module: Any) -> None:
    """Keep the comments of public keys and key groups: moto shows an empty one, and none."""
    models: Any = importlib.import_module("moto.cloudfront.models")
    group_config = models.KeyGroup.key_group_config.fget

    def key_group_config(self: Any) -> dict[str, Any]:
        return {**group_config(self), "Comment": getattr(self, "comment", None)}

    models.KeyGroup.key_group_config = property(key_group_config)
    for operation, config, held in (
        ("create_public_key", "PublicKeyConfig", "PublicKey"),
        ("create_key_group", "KeyGroupConfig", "KeyGroup"),
    ):
        create = getattr(module.CloudFrontResponse, operation)
        setattr(module.CloudFrontResponse, operation, _with_comment(create, config, held))


def _with_comment(create: Any, config: str, held: str) -> Any:
    @functools.wraps(create)
    def create_with_comment(self: Any) -> Any:
        answer = create(self)
        answer.result[held].comment = self._get_param(f"{config}.Comment")
        return answer

    return create_with_comment
