"""Layers: publish, get, list and delete versions, and who may use one."""

from __future__ import annotations

import json
from typing import cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    AddLayerVersionPermissionInput,
    AddLayerVersionPermissionOutput,
    DeleteLayerVersionInput,
    GetLayerVersionByArnInput,
    GetLayerVersionByArnOutput,
    GetLayerVersionInput,
    GetLayerVersionOutput,
    GetLayerVersionPolicyInput,
    GetLayerVersionPolicyOutput,
    LayerVersionsListItem,
    ListLayersInput,
    ListLayersOutput,
    ListLayerVersionsInput,
    ListLayerVersionsOutput,
    PublishLayerVersionInput,
    PublishLayerVersionOutput,
    RemoveLayerVersionPermissionInput,
)
from headrace.core.arn import Arn, InvalidArn
from headrace.services.lambda_.actions.common import build_page
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import (
    conflict,
    invalid_parameter,
    not_found,
    precondition_failed,
)
from headrace.services.lambda_.names import build_layer_arn
from headrace.services.lambda_.state import LayerDescription, LayerVersion, PolicyStatement


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


_PRIVATE = ("digest", "size_bytes", "policy", "policy_revision")
_DESCRIBED = ("Description", "CompatibleRuntimes", "LicenseInfo", "CompatibleArchitectures")
_LISTED = (
    "LayerVersionArn",
    "Version",
    "Description",
    "CreatedDate",
    "CompatibleRuntimes",
    "LicenseInfo",
    "CompatibleArchitectures",
)


def _build_arn(call: Call, name: str) -> str:
    if not name.startswith("arn:"):
        return build_layer_arn(call.region, call.account, name)
    try:
        Arn.parse(name)
    except InvalidArn:
        raise invalid_parameter(f"Invalid Layer name: {name}") from None
    return name


def version_arn(call: Call, name: str, number: int) -> str:
    """Return the ARN of a version of a layer, which is given by name or ARN. Raises AwsError."""
    if number < 1:
        raise invalid_parameter("Layer Version Cannot be less than 1")
    return f"{_build_arn(call, name)}:{number}"


def _render_version(lambda_: Lambda, version: LayerVersion) -> GetLayerVersionOutput:
    """Return a layer version in the form of responses to PublishLayerVersion and GetLayerVersion."""
    output = cast(
        "GetLayerVersionOutput",
        {name: value for name, value in version.items() if name not in _PRIVATE},
    )
    digest = version["digest"]
    output["Content"] = {
        "Location": lambda_.code.location(digest, lambda_.endpoint_url()),
        "CodeSha256": lambda_.code.sha256_of(digest),
        "CodeSize": version["size_bytes"],
    }
    return output


def _render_listed(version: LayerVersion) -> LayerVersionsListItem:
    return cast(
        "LayerVersionsListItem",
        {name: value for name, value in version.items() if name in _LISTED},
    )


def _is_compatible(
    version: LayerVersion, request: ListLayersInput | ListLayerVersionsInput
) -> bool:
    """Whether a layer version names the requested runtime and architecture as compatible."""
    runtime, architecture = (
        request.get("CompatibleRuntime"),
        request.get("CompatibleArchitecture"),
    )
    return (runtime is None or runtime in version.get("CompatibleRuntimes", ())) and (
        architecture is None or architecture in version.get("CompatibleArchitectures", ())
    )


@operation("PublishLayerVersion")
def publish_layer_version(
    lambda_: Lambda, call: Call, request: PublishLayerVersionInput
) -> PublishLayerVersionOutput:
    """Publish a new version of a layer."""
    package = lambda_.code.add(request["Content"])
    members = {name: value for name, value in request.items() if name in _DESCRIBED}
    arn = _build_arn(call, request["LayerName"])
    version = lambda_.layers.publish(
        account=call.account,
        region=call.region,
        name=arn.rpartition(":")[2],
        package=package,
        now_ms=call.now_ms,
        members=cast("LayerDescription", {"Description": "", **members}),
    )
    return _render_version(lambda_, version)


@operation("GetLayerVersion")
def get_layer_version(
    lambda_: Lambda, call: Call, request: GetLayerVersionInput
) -> GetLayerVersionOutput:
    """Return one version of a layer."""
    return _get(lambda_, call, version_arn(call, request["LayerName"], request["VersionNumber"]))


@operation("GetLayerVersionByArn")
def get_layer_version_by_arn(
    lambda_: Lambda, call: Call, request: GetLayerVersionByArnInput
) -> GetLayerVersionByArnOutput:
    """Return one version of a layer."""
    return _get(lambda_, call, request["Arn"])


def _get(lambda_: Lambda, call: Call, arn: str) -> GetLayerVersionOutput:
    version = lambda_.layers.resolve(arn, call.account)
    if version is None:
        raise not_found("The resource you requested does not exist.")
    return _render_version(lambda_, version)


@operation("DeleteLayerVersion")
def delete_layer_version(lambda_: Lambda, call: Call, request: DeleteLayerVersionInput) -> None:
    """Remove one version. A missing version is not an error."""
    lambda_.layers.delete(version_arn(call, request["LayerName"], request["VersionNumber"]))


@operation("ListLayers")
def list_layers(lambda_: Lambda, call: Call, request: ListLayersInput) -> ListLayersOutput:
    """Return every layer with its latest version."""
    layers = [
        {
            "LayerName": version["LayerArn"].rpartition(":")[2],
            "LayerArn": version["LayerArn"],
            "LatestMatchingVersion": _render_listed(version),
        }
        for version in lambda_.layers.latest(
            call.account, call.region, lambda version: _is_compatible(version, request)
        )
    ]
    return build_page(layers, request, "Layers")


@operation("ListLayerVersions")
def list_layer_versions(
    lambda_: Lambda, call: Call, request: ListLayerVersionsInput
) -> ListLayerVersionsOutput:
    """Return a layer's versions, newest first."""
    all_versions = lambda_.layers.versions(_build_arn(call, request["LayerName"]))
    versions = [version for version in all_versions if _is_compatible(version, request)]
    return build_page([_render_listed(version) for version in versions], request, "LayerVersions")
