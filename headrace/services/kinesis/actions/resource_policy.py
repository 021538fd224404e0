"""PutResourcePolicy, GetResourcePolicy and DeleteResourcePolicy: they store policies; nothing here evaluates them."""

import functools
import json
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    DeleteResourcePolicyInput,
    GetResourcePolicyInput,
    GetResourcePolicyOutput,
    PutResourcePolicyInput,
)
from headrace.permissions.policies.resource_grammar import find_missing_principal
from headrace.services.kinesis.actions.resources import (
    NamesResource,
    find_active_resource,
    find_resource,
    save_resource,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument, limit_exceeded
from headrace.services.kinesis.limits import POLICY_CHARS

# GetResourcePolicy's answer for a resource without a policy. Observed by moto's authors.
_EMPTY = "{}"


@operation("PutResourcePolicy")
def put_resource_policy(kinesis: Kinesis, call: Call, request: PutResourcePolicyInput) -> None:
    """Attach a policy to a stream, a consumer or a queue. Source: API_PutResourcePolicy."""
    _check_kind(request)
    with kinesis.lock:
        find_active_resource(kinesis, call, request)
    _check(request["Policy"], request["ResourceARN"])
    # Ask before taking the lock: the question may first have to load IAM.
    if find_missing_principal(
        request["Policy"], functools.partial(kinesis.has_principal, call.account)
    ):
        raise invalid_argument("Policy contains an invalid principal.")  # the sentence is assumed
    with kinesis.lock:
        _, resource = find_active_resource(kinesis, call, request)
        resource.policy = request["Policy"]
        save_resource(kinesis, resource)


@operation("GetResourcePolicy")
def get_resource_policy(
    kinesis: Kinesis, call: Call, request: GetResourcePolicyInput
) -> GetResourcePolicyOutput:
    """Return the policy of a stream, a consumer or a queue. Source: API_GetResourcePolicy."""
    _check_kind(request)
    _, resource = find_resource(kinesis, call, request)
    return {"Policy": _EMPTY if resource.policy is None else resource.policy}


@operation("DeleteResourcePolicy")
def delete_resource_policy(
    kinesis: Kinesis, call: Call, request: DeleteResourcePolicyInput
) -> None:
    """Detach the policy of a stream, a consumer or a queue. Source: API_DeleteResourcePolicy."""
    _check_kind(request)
    with kinesis.lock:
        _, resource = find_active_resource(kinesis, call, request)
        if resource.policy is None:
            raise _no_policy(request["ResourceARN"])
        resource.policy = None
        save_resource(kinesis, resource)


def _check_kind(request: NamesResource) -> None:
    """Raise InvalidArgumentException for a channel, which has no policy (documented; the sentence is assumed)."""
    if ":channel/" in request["ResourceARN"]:
        raise invalid_argument("ResourceARN must be that of a stream, a consumer or a queue.")


def _no_policy(arn: str) -> AwsError:
    return AwsError("ResourceNotFoundException", f"No resource policy found for resource {arn}.")


def _check(text: str, arn: str) -> None:
    """Raise InvalidArgumentException when the text is not a policy, or when it names another resource."""
    if len(text) > POLICY_CHARS:
        raise limit_exceeded(f"The policy is longer than {POLICY_CHARS} characters.")
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid_argument("Policy is not valid JSON.") from error
    members = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    statements: Any = members.get("Statement")
    if isinstance(statements, dict):
        statements = [statements]
    if not isinstance(statements, list) or not statements:
        raise invalid_argument("Policy must have a Statement.")
    for statement in cast("list[Any]", statements):
        _check_statement(statement, arn)


def _check_statement(statement: Any, arn: str) -> None:
    if not isinstance(statement, dict):
        raise invalid_argument("Every Statement of a policy must be an object.")
    members = cast("dict[str, Any]", statement)
    if members.get("Effect") not in ("Allow", "Deny"):
        raise invalid_argument("Every Statement of a policy must have the Effect Allow or Deny.")
    if not members.get("Principal"):
        raise invalid_argument("Every Statement of a resource policy must have a Principal.")
    actions = _texts(members.get("Action"))
    if not actions or not all(action.startswith("kinesis:") for action in actions):
        raise invalid_argument("Every Action of a policy must be one of kinesis.")
    if _texts(members.get("Resource")) != [arn]:
        raise invalid_argument(f"The Resource of every Statement must be {arn}.")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]
