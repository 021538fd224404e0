"""AddLayerVersionPermission, RemoveLayerVersionPermission, GetLayerVersionPolicy: who may use a layer version."""

from __future__ import annotations

import json

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    AddLayerVersionPermissionInput,
    AddLayerVersionPermissionOutput,
    GetLayerVersionPolicyInput,
    GetLayerVersionPolicyOutput,
    RemoveLayerVersionPermissionInput,
)
from headrace.services.lambda_.actions.layers import version_arn
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import conflict, not_found, precondition_failed
from headrace.services.lambda_.state import LayerVersion, PolicyStatement


def _build_statement(arn: str, request: AddLayerVersionPermissionInput) -> PolicyStatement:
    principal = request["Principal"]
    if principal.isdigit():
        principal = f"arn:{arn.split(':')[1]}:iam::{principal}:root"
    statement: PolicyStatement = {
        "Sid": request["StatementId"],
        "Effect": "Allow",
        "Principal": "*" if principal == "*" else {"AWS": principal},
        "Action": request["Action"],
        "Resource": arn,
    }
    if "OrganizationId" in request:
        statement["Condition"] = {"StringEquals": {"aws:PrincipalOrgID": request["OrganizationId"]}}
    return statement


def _check_revision(version: LayerVersion, revision: str | None) -> None:
    if revision not in (None, version.get("policy_revision")):
        raise precondition_failed("GetLayerPolicy")


@operation("AddLayerVersionPermission")
def add_layer_version_permission(
    lambda_: Lambda, call: Call, request: AddLayerVersionPermissionInput
) -> AddLayerVersionPermissionOutput:
    """Let other accounts use a version of a layer."""
    arn = version_arn(call, request["LayerName"], request["VersionNumber"])
    statement = _build_statement(arn, request)
    revision = lambda_.ids.uuid()

    def add(version: LayerVersion) -> None:
        _check_revision(version, request.get("RevisionId"))
        policy = version.setdefault("policy", {})
        sid = request["StatementId"]
        if sid in policy:
            raise conflict(
                f"The statement id ({sid}) provided already exists. Please provide a new statement id, "
                "or remove the existing statement."
            )
        policy[sid] = statement
        version["policy_revision"] = revision

    if lambda_.layers.change(arn, add) is None:
        raise not_found(f"Layer version {arn} does not exist.")
    return {"Statement": json.dumps(statement, separators=(",", ":")), "RevisionId": revision}


@operation("RemoveLayerVersionPermission")
def remove_layer_version_permission(
    lambda_: Lambda, call: Call, request: RemoveLayerVersionPermissionInput
) -> None:
    """Remove a permission. Functions that already use the version keep it."""
    arn = version_arn(call, request["LayerName"], request["VersionNumber"])

    def remove(version: LayerVersion) -> None:
        _check_revision(version, request.get("RevisionId"))
        if version.setdefault("policy", {}).pop(request["StatementId"], None) is None:
            raise not_found(f"Statement {request['StatementId']} is not found in resource policy.")
        version["policy_revision"] = lambda_.ids.uuid()

    if lambda_.layers.change(arn, remove) is None:
        raise not_found(f"Layer version {arn} does not exist.")


@operation("GetLayerVersionPolicy")
def get_layer_version_policy(
    lambda_: Lambda, call: Call, request: GetLayerVersionPolicyInput
) -> GetLayerVersionPolicyOutput:
    """Return the policy as JSON text."""
    arn = version_arn(call, request["LayerName"], request["VersionNumber"])
    version = lambda_.layers.find(arn)
    if version is None:
        raise not_found(f"Layer version {arn} does not exist.")
    statements = version.get("policy")
    if not statements:
        raise not_found("No policy is associated with the given resource.")
    policy = {
        "Version": "2012-10-17",
        "Id": "default",
        "Statement": list(statements.values()),
    }
    return {
        "Policy": json.dumps(policy, separators=(",", ":")),
        "RevisionId": version.get("policy_revision", ""),
    }
