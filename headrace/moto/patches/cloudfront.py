"""CloudFront: key groups are deleted, and have one name each."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
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
