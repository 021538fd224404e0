"""Evaluates a function's resource policy: whether it allows a caller an action.

A caller from the function's own account may do everything here; `headrace.permissions.decisions` evaluates its identity
policies. As on AWS, services and anonymous callers, which have no identity policies, need a statement in the resource
policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.permissions.policies.document import (
    WITH_VARIABLES,
    Statement,
    UnreadableDocument,
    parse_document,
)
from headrace.services.lambda_.state import Function

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

    def values(self, key: str) -> tuple[str, ...]:
        """Return the values of a condition key in lower case."""
        value = self.context.get(key)
        return () if value is None else (value,)

    @staticmethod
    def of_service(service: str, *, source_arn: str, source_account: str) -> Caller:
        """Return the caller for a service that acts for one of its resources."""
        context = {"aws:sourcearn": source_arn, "aws:sourceaccount": source_account}
        return Caller(service=service, context=context)


def policy_text(function: Function, qualifier: str | None) -> str:
    """Return the JSON policy of a function, version or alias; "" when it has none."""
    name = qualifier or ""
    statements = function.policies.get(name)
    if not statements:
        return ""
    head = function.policy_heads.get(name, {"Version": WITH_VARIABLES, "Id": "default"})
    return json.dumps({**head, "Statement": list(statements.values())}, separators=(",", ":"))


def allows(function: Function, qualifier: str | None, action: str, caller: Caller) -> bool:
    """Whether the policy of a function, version or alias allows the caller the action."""
    text = policy_text(function, qualifier)
    if not text:
        return False
    try:
        document = parse_document(text)
    except UnreadableDocument:
        return False
    resource = replace(function.ref, qualifier=qualifier).qualified_arn
    values = caller.values
    # Denials come first.
    for statement in document.about(action):
        if (
            _is_named(statement, caller)
            and statement.has_resource(resource, values)
            and statement.unmet(values) is None
        ):
            return statement.effect == "Allow"
    return False


def _principals_of(caller: Caller) -> set[str]:
    """Return a service's names in policies: also that of its region, `logs.us-east-1.amazonaws.com` (recorded)."""
    region = caller.context.get("aws:sourcearn", ":::").split(":")[3]
    name, _, suffix = caller.service.partition(".")
    return {caller.service, f"{name}.{region}.{suffix}"}


def _is_named(statement: Statement, caller: Caller) -> bool:
    """Whether the statement applies to the caller. Of a caller of another account only the account is known here."""
    named = statement.principals
    if named is None:
        return False
    if named.is_everyone:
        is_named = True
    elif caller.service:
        is_named = not named.services.isdisjoint(_principals_of(caller))
    else:
        is_named = bool(caller.account) and any(
            caller.account in who.split(":") for who in named.aws
        )
    return is_named != statement.not_principals
