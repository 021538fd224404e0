"""STS and IAM: GetCallerIdentity, who may assume a role, and IAM's refusals with AWS's sentences."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

# moto's identity for an unknown caller; AWS has no such ARN.
_NOBODY = re.compile(r"arn:[a-z-]+:sts::(\d{12}):user/moto")
# moto's look-up method -> AWS's sentence when it finds nothing (observed by many users).
_MISSING = {
    "get_role": "The role with name {} cannot be found.",
    "get_policy": "Policy {} was not found.",
    "get_instance_profile": "Instance Profile {} cannot be found.",
}


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    from moto.iam.models import IAMBackend
    from moto.sts.models import STSBackend

    sts: Any = STSBackend
    sts.get_caller_identity = _as_root(STSBackend.get_caller_identity)
    # `headrace.services.iam.sts_sessions` answers for sessions.
    iam: Any = IAMBackend
    for name, sentence in _MISSING.items():
        setattr(iam, name, _in_awss_words(getattr(IAMBackend, name), sentence))


def _as_root(identity: Any) -> Any:
    """Treat a caller with an unknown key as the account itself, like a root user's key."""

    @functools.wraps(identity)
    def find_identity(self: Any, *args: Any, **named: Any) -> tuple[str, str, str]:
        user_id, arn, account = identity(self, *args, **named)
        if _NOBODY.fullmatch(arn):
            return account, f"arn:{self.partition}:iam::{account}:root", account
        return user_id, arn, account

    return find_identity


def _in_awss_words(find: Callable[..., Any], sentence: str) -> Any:
    @functools.wraps(find)
    def find_named(self: Any, *args: Any, **named: Any) -> Any:
        from moto.iam.exceptions import NotFoundException

        try:
            return find(self, *args, **named)
        except NotFoundException:
            name = (*args, *named.values())[0]
            raise NotFoundException(sentence.format(name)) from None

    return find_named
