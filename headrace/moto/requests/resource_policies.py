"""Validates policies of queues, topics, keys, secrets, repositories, tables, logs and buses before moto stores them.

moto stores nearly any text. `headrace.permissions.policies.resource_grammar` has each service's errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.calls.operation import Call
from headrace.aws.protocols import operation_parser
from headrace.aws.signatures.credential_scopes import token_of
from headrace.aws.signatures.sessions import RoleSessions
from headrace.core.arn import partition_of
from headrace.moto.memory import iam, principals
from headrace.permissions.policies.document import UnreadableDocument, parse_document
from headrace.permissions.policies.grammar import PolicyError
from headrace.permissions.policies.model import Principal
from headrace.permissions.policies.principals import Grant, grant_of
from headrace.permissions.policies.resource_grammar import check_resource_policy

Params = Mapping[str, Any]
_PUT_KEY_POLICY = "kms:PutKeyPolicy"
_LOCKED_OUT = "The new key policy will not allow you to update the key policy in the future."


def _attribute(params: Params) -> Any:
    return cast("Params", params.get("Attributes") or params.get("attributes") or {}).get("Policy")


def _topic_attribute(params: Params) -> Any:
    return params.get("AttributeValue") if params.get("AttributeName") == "Policy" else None


def _read_member(name: str) -> Callable[[Params], Any]:
    return lambda params: params.get(name)


# moto's package -> the operations that store a policy, and the parameter that holds it.
_POLICY_OF: dict[str, dict[str, Callable[[Params], Any]]] = {
    "sqs": {"CreateQueue": _attribute, "SetQueueAttributes": _attribute},
    "sns": {"CreateTopic": _attribute, "SetTopicAttributes": _topic_attribute},
    "kms": {"CreateKey": _read_member("Policy"), "PutKeyPolicy": _read_member("Policy")},
    "secretsmanager": {"PutResourcePolicy": _read_member("ResourcePolicy")},
    "ecr": {"SetRepositoryPolicy": _read_member("policyText")},
    "dynamodb": {
        "PutResourcePolicy": _read_member("Policy"),
        "CreateTable": _read_member("ResourcePolicy"),
    },
    "logs": {"PutResourcePolicy": _read_member("policyDocument")},
    "events": {"PutPermission": _read_member("Policy")},
}


def check_put(
    service: str,
    package: str,
    operation: str,
    request: HttpRequest,
    sessions: RoleSessions | None,
) -> None:
    """Refuse a request to store a policy that AWS would refuse. Raises AwsError. moto must be loaded."""
    find = _POLICY_OF.get(package, {}).get(operation)
    if find is None:
        return
    try:
        params = operation_parser.operation_of(service, request)[1]
    except operation_parser.Unreadable:
        return  # the service itself reports the error
    text = find(params)
    call = request.call
    if not text or call is None:
        return
    try:
        check_resource_policy(package, str(text), principals.exists_for(call.account))
    except PolicyError as error:
        raise AwsError(error.code, error.message) from None
    if package != "kms" or params.get("BypassPolicyLockoutSafetyCheck"):
        return
    if not _may_put_again(str(text), _principal(call, request, sessions)):
        raise AwsError("MalformedPolicyDocumentException", _LOCKED_OUT)


def _may_put_again(text: str, principal: Principal) -> bool:
    """Whether a key's policy allows its caller to change it again (API_PutKeyPolicy.html, lock-out safety check)."""
    try:
        about = list(parse_document(text).about(_PUT_KEY_POLICY))
    except UnreadableDocument:
        return False
    named = [one for one in about if grant_of(one, principal) is not Grant.NONE]
    effects = {one.effect for one in named if one.resources is not None and not one.conditions}
    with_conditions = {one.effect for one in named if one.conditions}
    return "Deny" not in effects and "Allow" in effects | with_conditions


def _principal(call: Call, request: HttpRequest, sessions: RoleSessions | None) -> Principal:
    """Return the caller as a policy's principal, under all the names that a policy may use."""
    session = None if sessions is None else sessions.find(call.access_key, token_of(request))
    root = f"arn:{partition_of(call.region)}:iam::{call.account}:root"
    if session is not None and session.kind == "role":
        role = iam.holder_of(session.account, "role", session.role)
        arn = "" if role is None else str(role.arn)
        return Principal("role", session.arn, session.account, arn, name=session.role)
    for user in _users_of_key(call.access_key if session is None else ""):
        return Principal("user", str(user.arn), call.account, str(user.arn), str(user.id))
    return Principal("root", root, call.account, root)


def _users_of_key(access_key: str) -> Iterator[Any]:
    for account, backend in iam.backends():
        key = backend.access_keys.get(access_key)
        if key is not None and key.user_name is not None:
            yield from filter(None, [iam.holder_of(account, "user", str(key.user_name))])
