"""PublishLayerVersion, GetLayerVersion, GetLayerVersionByArn, DeleteLayerVersion, ListLayers, ListLayerVersions."""

from __future__ import annotations

from typing import cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    DeleteLayerVersionInput,
    GetLayerVersionByArnInput,
    GetLayerVersionByArnOutput,
    GetLayerVersionInput,
    GetLayerVersionOutput,
    LayerVersionsListItem,
    ListLayersInput,
    ListLayersOutput,
    ListLayerVersionsInput,
    ListLayerVersionsOutput,
    PublishLayerVersionInput,
    PublishLayerVersionOutput,
)
from headrace.core.arn import Arn, InvalidArn
from headrace.services.lambda_.actions.common import build_page
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import invalid_parameter, not_found
from headrace.services.lambda_.names import build_layer_arn
from headrace.services.lambda_.state import LayerDescription, LayerVersion

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
