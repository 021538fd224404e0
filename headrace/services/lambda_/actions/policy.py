"""AddPermission, RemovePermission, GetPolicy: the resource policy of a function, a version or an alias."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    AddPermissionInput,
    AddPermissionOutput,
    GetPolicyInput,
    GetPolicyOutput,
    RemovePermissionInput,
)
from headrace.core.arn import is_account_id, partition_of
from headrace.services.lambda_.actions.common import parse_reference
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import (
    conflict,
    function_not_found,
    invalid_parameter,
    not_found,
    precondition_failed,
)
from headrace.services.lambda_.limits import POLICY_BYTES
from headrace.services.lambda_.names import LATEST, FunctionRef
from headrace.services.lambda_.state import Function, PolicyStatement

NO_POLICY = "The resource you requested does not exist."


_SERVICES = (".amazonaws.com", ".amazonaws.com.cn", ".amazon.com")
_ALIAS = re.compile(r"(?!\d+$)[a-zA-Z0-9-_]+")


def _convert_principal(principal: str, region: str) -> str | dict[str, str]:
    if principal == "*":
        return "*"
    if is_account_id(principal):
        return {"AWS": f"arn:{partition_of(region)}:iam::{principal}:root"}
    if principal.startswith("arn:"):
        return {"AWS": principal}
    if not principal.endswith(_SERVICES):
        raise _invalid_principal()
    return {"Service": principal}


def _invalid_principal() -> AwsError:
    return invalid_parameter(
        "The provided principal was invalid. Please check the principal and try again."
    )


def _check_target(function: Function, ref: FunctionRef) -> None:
    """Refuse a version or alias that does not exist. Raises AwsError."""
    qualifier = ref.qualifier
    if qualifier is None or qualifier in function.versions or qualifier in function.aliases:
        return
    if _ALIAS.fullmatch(qualifier):
        raise not_found(f"Cannot find alias arn: {ref.qualified_arn}")
    raise function_not_found(ref.qualified_arn)


def _build_condition(request: AddPermissionInput) -> dict[str, dict[str, str]]:
    condition: dict[str, dict[str, str]] = {}
    members = cast("Mapping[str, object]", request)
    for member, operator, key in (
        ("SourceArn", "ArnLike", "AWS:SourceArn"),
        ("SourceAccount", "StringEquals", "AWS:SourceAccount"),
        ("PrincipalOrgID", "StringEquals", "aws:PrincipalOrgID"),
        ("EventSourceToken", "StringEquals", "lambda:EventSourceToken"),
        ("FunctionUrlAuthType", "StringEquals", "lambda:FunctionUrlAuthType"),
        ("InvokedViaFunctionUrl", "Bool", "lambda:InvokedViaFunctionUrl"),
    ):
        if member in members:
            value = members[member]
            text = str(value).lower() if isinstance(value, bool) else str(value)
            condition.setdefault(operator, {})[key] = text
    return condition


@operation("AddPermission")
def add_permission(lambda_: Lambda, call: Call, request: AddPermissionInput) -> AddPermissionOutput:
    """Add a statement to the policy of a function, version or alias."""
    ref = parse_reference(call, request)
    if ref.qualifier == LATEST:
        raise invalid_parameter("We currently do not support adding policies for $LATEST.")
    principal = _convert_principal(request["Principal"], call.region)
    if not lambda_.has_principal(call.account, request["Principal"]):
        raise _invalid_principal()
    with lambda_.functions.changing(ref) as function:
        _check_target(function, ref)
        qualifier = ref.qualifier or ""
        statements = function.policies.get(qualifier, {})
        sid = request["StatementId"]
        if sid in statements:
            raise conflict(
                f"The statement id ({sid}) provided already exists. Please provide a new statement id, "
                "or remove the existing statement."
            )
        if request.get("RevisionId") not in (None, function.revision_of(ref.qualifier)):
            raise precondition_failed()
        statement: PolicyStatement = {
            "Sid": sid,
            "Effect": "Allow",
            "Principal": principal,
            "Action": request["Action"],
            "Resource": ref.qualified_arn,
        }
        condition = _build_condition(request)
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
        function.revise(ref.qualifier, lambda_.ids.uuid())
        return {"Statement": json.dumps(statement, separators=(",", ":"))}


@operation("RemovePermission")
def remove_permission(lambda_: Lambda, call: Call, request: RemovePermissionInput) -> None:
    """Remove a statement."""
    ref = parse_reference(call, request)
    if lambda_.functions.find(ref) is None:
        raise not_found(f"No policy found for: {ref.qualified_arn}")
    with lambda_.functions.changing(ref) as function:
        _check_target(function, ref)
        qualifier = ref.qualifier or ""
        statements = function.policies.get(qualifier, {})
        if request["StatementId"] not in statements:
            raise not_found(
                "No policy is associated with the given resource."
                if not statements
                else f"Statement {request['StatementId']} is not found in resource policy."
            )
        if request.get("RevisionId") not in (None, function.revision_of(ref.qualifier)):
            raise precondition_failed()
        del statements[request["StatementId"]]
        function.revise(ref.qualifier, lambda_.ids.uuid())


@operation("GetPolicy")
def get_policy(lambda_: Lambda, call: Call, request: GetPolicyInput) -> GetPolicyOutput:
    """Return the policy as JSON text."""
    ref = parse_reference(call, request)
    function = lambda_.functions.get(ref)
    qualifier = ref.qualifier or ""
    statements = function.policies.get(qualifier)
    if not statements:
        raise not_found(NO_POLICY)
    policy = {"Version": "2012-10-17", "Id": "default", "Statement": list(statements.values())}
    return {
        "Policy": json.dumps(policy, separators=(",", ":")),
        "RevisionId": function.revision_of(ref.qualifier),
    }
