"""WAF: web ACLs where moto loses a setting."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from typing import Any


def correct_web_acls(module: Any) -> None:
    """Give a resource one web ACL at most: the one that was last associated."""
    backend = module.WAFV2Backend
    associate = backend.associate_web_acl

    @functools.wraps(associate)
    def associate_web_acl(self: Any, web_acl_arn: str, resource_arn: str) -> None:
        if web_acl_arn in self.wacls:
            while self.get_web_acl_for_resource(resource_arn) is not None:
                self.disassociate_web_acl(resource_arn)
        associate(self, web_acl_arn, resource_arn)

    backend.associate_web_acl = associate_web_acl
    update = module.FakeWebACL.update

    @functools.wraps(update)
    def update_all(self: Any, action: Any, rules: Any, *others: Any) -> None:
        # UpdateWebACL replaces all rules (documented); moto keeps them when the new list is empty.
        update(self, action, rules or [], *others)

    module.FakeWebACL.update = update_all
