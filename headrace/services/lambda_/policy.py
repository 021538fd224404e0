"""Evaluates a function's resource policy: whether it allows a caller an action.

A caller from the function's own account may do everything here; `headrace.permissions.decisions` evaluates its identity
policies. As on AWS, services and anonymous callers, which have no identity policies, need a statement in the resource
policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.wildcards import glob_matches
from headrace.services.lambda_.state import Function, PolicyStatement

INVOKE = "lambda:InvokeFunction"
INVOKE_URL = "lambda:InvokeFunctionUrl"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an action: a service, an account, or an anonymous caller.

    Attributes:
        service: the service, such as `s3.amazonaws.com`; "" for other callers.
        account: the caller's account of 12 digits; "" for a service and for an anonymous caller.
        context: the request's condition keys in lower case, such as `aws:sourcearn`.
    """

    service: str = ""
    account: str = ""
    context: Mapping[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def of_service(service: str, *, source_arn: str, source_account: str) -> Caller:
        """Return the caller for a service that acts for one of its resources."""
        context = {"aws:sourcearn": source_arn, "aws:sourceaccount": source_account}
        return Caller(service=service, context=context)


def allows(function: Function, qualifier: str | None, action: str, caller: Caller) -> bool:
    """Whether the policy of a function, version or alias allows the caller the action."""
    statements = function.policies.get(qualifier or "", {})
    return any(_grants(statement, action, caller) for statement in statements.values())


def _grants(statement: PolicyStatement, action: str, caller: Caller) -> bool:
    return (
        glob_matches(str(statement["Action"]).lower(), action.lower())
        and _is_principal(statement["Principal"], caller)
        and _holds(statement.get("Condition", {}), caller.context)
    )


def _is_principal(principal: str | dict[str, str], caller: Caller) -> bool:
    if isinstance(principal, str):
        return principal == "*"
    if "Service" in principal:
        return principal["Service"] == caller.service
    who = principal.get("AWS", "")
    if who == "*":
        return True
    return bool(caller.account) and caller.account in who.split(":")


def _holds(condition: Mapping[str, Mapping[str, str]], context: Mapping[str, str]) -> bool:
    for operator, keys in condition.items():
        for key, expected in keys.items():
            actual = context.get(key.lower())
            if actual is None:
                return False
            like = operator == "ArnLike"
            if not (glob_matches(expected, actual) if like else actual == expected):
                return False
    return True
