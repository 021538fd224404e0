"""IAM's quotas on attached policies and on groups, which moto lacks.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html; the sentence is the one that users report
("Cannot exceed quota for PoliciesPerRole: 10"). Ten is the default; AWS raises it on request.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from typing import Any

MOST_ATTACHED = 10
MOST_GROUPS = 10
_HOLDERS = {"Role": "get_role", "User": "get_user", "Group": "get_group"}


def patch() -> None:
    """Add the quotas to moto's IAM. Called once."""
    from moto.iam.models import IAMBackend

    backend: Any = IAMBackend
    for kind, find in _HOLDERS.items():
        name = f"attach_{kind.lower()}_policy"
        setattr(backend, name, _limit_attachments(getattr(backend, name), kind, find))
    backend.add_user_to_group = _limit_groups(backend.add_user_to_group)


def _limit_attachments(attach: Any, kind: str, find: str) -> Any:
    @functools.wraps(attach)
    def check_and_attach(self: Any, policy_arn: str, holder: str) -> Any:
        policies: Any = getattr(self, find)(holder).managed_policies
        if policy_arn not in policies and len(policies) >= MOST_ATTACHED:
            _refuse(f"PoliciesPer{kind}", MOST_ATTACHED)
        return attach(self, policy_arn, holder)

    return check_and_attach


def _limit_groups(add: Any) -> Any:
    @functools.wraps(add)
    def check_and_add(self: Any, group_name: str, user_name: str) -> Any:
        user = self.get_user(user_name)
        groups = [group for group in self.groups.values() if user in group.users]
        is_member = any(group.name == group_name for group in groups)
        if not is_member and len(groups) >= MOST_GROUPS:
            _refuse("GroupsPerUser", MOST_GROUPS)
        return add(self, group_name, user_name)

    return check_and_add


def _refuse(quota: str, most: int) -> None:
    from moto.iam.exceptions import LimitExceededException

    raise LimitExceededException(f"Cannot exceed quota for {quota}: {most}")
