"""AddPermission, RemovePermission, GetPolicy: who may use a function besides its own account."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    AddPermissionInput,
    AddPermissionOutput,
    GetPolicyInput,
    GetPolicyOutput,
    RemovePermissionInput,
)
from headrace.services.lambda_.actions.common import reference
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import conflict, not_found, precondition_failed
from headrace.services.lambda_.limits import POLICY_BYTES

NO_POLICY = "The resource you requested does not exist."


def _principal(principal: str) -> Any:
    if principal == "*":
        return "*"
    if principal.isdigit() and len(principal) == 12:
        return {"AWS": f"arn:aws:iam::{principal}:root"}
    return {"AWS": principal} if principal.startswith("arn:") else {"Service": principal}


def _condition(request: Mapping[str, Any]) -> dict[str, Any]:
    condition: dict[str, Any] = {}
    for member, operator, key in (
        ("SourceArn", "ArnLike", "AWS:SourceArn"),
        ("SourceAccount", "StringEquals", "AWS:SourceAccount"),
        ("PrincipalOrgID", "StringEquals", "aws:PrincipalOrgID"),
        ("EventSourceToken", "StringEquals", "lambda:EventSourceToken"),
        ("FunctionUrlAuthType", "StringEquals", "lambda:FunctionUrlAuthType"),
        ("InvokedViaFunctionUrl", "Bool", "lambda:InvokedViaFunctionUrl"),
    ):
        if member in request:
            value = request[member]
            text = str(value).lower() if isinstance(value, bool) else value
            condition.setdefault(operator, {})[key] = text
    return condition


@operation("AddPermission")
def add_permission(lambda_: Lambda, call: Call, request: AddPermissionInput) -> AddPermissionOutput:
    """Add a statement to a function's, version's or alias's policy."""
    ref = reference(call, request)
    with lambda_.functions.changing(ref) as function:
        function.resolve(ref.qualifier)
        qualifier = ref.qualifier or ""
        statements = function.policies.get(qualifier, {})
        sid = request["StatementId"]
        if sid in statements:
            raise conflict(
                f"The statement id ({sid}) provided already exists. Please provide a new statement id, "
                "or remove the existing statement."
            )
        if request.get("RevisionId") not in (None, function.policy_revisions.get(qualifier)):
            raise precondition_failed()
        statement: dict[str, Any] = {
            "Sid": sid,
            "Effect": "Allow",
            "Principal": _principal(request["Principal"]),
            "Action": request["Action"],
            "Resource": ref.qualified_arn,
        }
        condition = _condition(request)
        if condition:
            statement["Condition"] = condition
        size_bytes = len(json.dumps([*statements.values(), statement], separators=(",", ":")))
        if size_bytes > POLICY_BYTES:
            raise AwsError(
                "PolicyLengthExceededException",
                f"The final policy size ({size_bytes}) is bigger than the limit ({POLICY_BYTES}).",
                400,
                {"Type": "User"},
            )
        function.policies.setdefault(qualifier, {})[sid] = statement
        function.policy_revisions[qualifier] = lambda_.ids.uuid()
        return {"Statement": json.dumps(statement, separators=(",", ":"))}


@operation("RemovePermission")
def remove_permission(lambda_: Lambda, call: Call, request: RemovePermissionInput) -> None:
    """Remove a statement."""
    ref = reference(call, request)
    with lambda_.functions.changing(ref) as function:
        qualifier = ref.qualifier or ""
        statements = function.policies.get(qualifier, {})
        if request["StatementId"] not in statements:
            raise not_found(
                "No policy is associated with the given resource."
                if not statements
                else f"Statement {request['StatementId']} is not found in resource policy."
            )
        if request.get("RevisionId") not in (None, function.policy_revisions.get(qualifier)):
            raise precondition_failed()
        del statements[request["StatementId"]]
        function.policy_revisions[qualifier] = lambda_.ids.uuid()


@operation("GetPolicy")
def get_policy(lambda_: Lambda, call: Call, request: GetPolicyInput) -> GetPolicyOutput:
    """Return the policy as JSON text."""
    ref = reference(call, request)
    function = lambda_.functions.get(ref)
    qualifier = ref.qualifier or ""
    statements = function.policies.get(qualifier)
    if not statements:
        raise not_found(NO_POLICY)
    policy = {"Version": "2012-10-17", "Id": "default", "Statement": list(statements.values())}
    return {
        "Policy": json.dumps(policy, separators=(",", ":")),
        "RevisionId": function.policy_revisions[qualifier],
    }
