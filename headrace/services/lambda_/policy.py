"""Whether a function's resource policy allows a caller an action.

Callers with identity policies `headrace.iam` judges; here one with the function's own account may do everything.
Services and anonymous callers, who have no identity policy, need a statement of the resource policy, as on AWS.
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
    """The caller of an action: a service, an account, or an anonymous one.

    Attributes:
        service: such as `s3.amazonaws.com`; empty for others.
        account: the 12 digits of the account of a caller that is no service; empty for an anonymous one.
        context: the request's condition keys in lower case, such as `aws:sourcearn`.
    """

    service: str = ""
    account: str = ""
    context: Mapping[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def of_service(service: str, *, source_arn: str, source_account: str) -> Caller:
        """Return a service that acts for one of its resources."""
        context = {"aws:sourcearn": source_arn, "aws:sourceaccount": source_account}
        return Caller(service=service, context=context)


def allows(function: Function, qualifier: str | None, action: str, caller: Caller) -> bool:
    """Whether the policy of a function, version or alias has a statement for the caller and the action."""
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
        for key, wanted in keys.items():
            actual = context.get(key.lower())
            if actual is None:
                return False
            like = operator == "ArnLike"
            if not (glob_matches(wanted, actual) if like else actual == wanted):
                return False
    return True
