"""STS and IAM: GetCallerIdentity, who may assume which role, and IAM's refusals in AWS's words."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

# moto's identity of a caller whom it does not know; AWS has no such ARN.
_NOBODY = re.compile(r"arn:[a-z-]+:sts::(\d{12}):user/moto")
# moto's method and what AWS says when what it looks for is missing (observed by many users).
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
    # Sessions are `headrace.fallback.sts_sessions`'.
    iam: Any = IAMBackend
    for name, sentence in _MISSING.items():
        setattr(iam, name, _in_awss_words(getattr(IAMBackend, name), sentence))


def _as_root(identity: Any) -> Any:
    """Treat a caller with an unknown key as the account itself, as with the keys of a root user."""

    @functools.wraps(identity)
    def known(self: Any, *args: Any, **named: Any) -> tuple[str, str, str]:
        user_id, arn, account = identity(self, *args, **named)
        if _NOBODY.fullmatch(arn):
            return account, f"arn:aws:iam::{account}:root", account
        return user_id, arn, account

    return known


def _in_awss_words(find: Callable[..., Any], sentence: str) -> Any:
    @functools.wraps(find)
    def found(self: Any, name: str, *args: Any, **named: Any) -> Any:
        from moto.iam.exceptions import NotFoundException

        try:
            return find(self, name, *args, **named)
        except NotFoundException:
            raise NotFoundException(sentence.format(name)) from None

    return found
