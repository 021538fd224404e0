"""Lambda versions, aliases and their provisioned concurrency; permissions; function URLs; code signing."""

from __future__ import annotations

from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.values import get_list
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    stored,
)
from headrace.services.cloudformation.resources.declaration import (
    ALL,
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)

GONE = "ResourceNotFoundException"
_WAIT_S = 0.05
_PROVISIONED_WITHIN_S = 300.0


# --- versions and aliases ---------------------------------------------------------------------


def _provision(context: Context, function: str, qualifier: str, properties: Properties) -> None:
    """Request provisioned concurrency and wait until it is ready. Raises ResourceFailed."""
    settings: dict[str, Any] = properties.get("ProvisionedConcurrencyConfig") or {}
    named = {"FunctionName": function, "Qualifier": qualifier}
    if not settings:
        context.call("lambda", "DeleteProvisionedConcurrencyConfig", named)
        return
    count = int(settings["ProvisionedConcurrentExecutions"])
    request = {**named, "ProvisionedConcurrentExecutions": count}
    context.call("lambda", "PutProvisionedConcurrencyConfig", request)
    deadline_s = context.clock.monotonic_s() + _PROVISIONED_WITHIN_S
    while context.clock.monotonic_s() < deadline_s:
        state = context.call("lambda", "GetProvisionedConcurrencyConfig", named)
        if state["Status"] == "READY":
            return
        if state["Status"] == "FAILED":
            raise ResourceFailed(
                f"Provisioned Concurrency configuration failed: {state.get('StatusReason', '')}"
            )
        context.pause(_WAIT_S)
    raise ResourceFailed("Provisioned Concurrency configuration did not become ready in time")


def _create_version(context: Context, properties: Properties) -> ResourceResult:
    params = {
        key: properties[key]
        for key in ("FunctionName", "CodeSha256", "Description")
        if key in properties
    }
    # When the code is already published, PublishVersion returns that version, which another resource owns.
    before = _versions(context, properties["FunctionName"])
    version = context.call("lambda", "PublishVersion", params)
    if version["Version"] in before:
        # AWS's sentence, observed by many.
        raise ResourceFailed(
            f"A version for this Lambda function exists ( {version['Version']} ). Modify the function to create a new"
            " version."
        )
    arn = version["FunctionArn"]
    context.note_made(arn)
    if properties.get("ProvisionedConcurrencyConfig"):
        _provision(context, arn.rpartition(":")[0], version["Version"], properties)
    return ResourceResult(arn, {"Version": version["Version"], "FunctionArn": arn})


def _versions(context: Context, function: str) -> set[str]:
    numbers: set[str] = set()
    params = {"FunctionName": function}
    while True:
        page = context.call("lambda", "ListVersionsByFunction", params)
        numbers |= {version["Version"] for version in page["Versions"]}
        if not page.get("NextMarker"):
            return numbers
        params = {"FunctionName": function, "Marker": page["NextMarker"]}


def _version(context: Context, properties: Properties) -> str | None:
    """Return the function's newest version."""
    function = properties["FunctionName"]
    numbers = [int(number) for number in _versions(context, function) if number.isdigit()]
    if not numbers:
        return None
    params = {"FunctionName": function, "Qualifier": str(max(numbers))}
    return str(context.call("lambda", "GetFunctionConfiguration", params)["FunctionArn"])


def _delete_version(context: Context, physical_id: str, properties: Properties) -> None:
    name, _, version = physical_id.rpartition(":")
    params = {"FunctionName": name, "Qualifier": version}
    context.delete_if_exists("lambda", "DeleteFunction", params, GONE)


def _alias_params(properties: Properties) -> dict[str, Any]:
    # Always sent, so that the description is removed when the template has none.
    params: dict[str, Any] = {"Description": properties.get("Description", "")}
    params |= {key: properties[key] for key in ("FunctionName", "FunctionVersion", "Name")}
    weights = {
        weight["FunctionVersion"]: float(weight["FunctionWeight"])
        for weight in get_list(properties.get("RoutingConfig") or {}, "AdditionalVersionWeights")
    }
    params["RoutingConfig"] = {"AdditionalVersionWeights": weights}
    return params


def _create_alias(context: Context, properties: Properties) -> ResourceResult:
    alias = context.call("lambda", "CreateAlias", _alias_params(properties))
    context.note_made(alias["AliasArn"])
    if properties.get("ProvisionedConcurrencyConfig"):
        _provision(context, properties["FunctionName"], properties["Name"], properties)
    return ResourceResult(alias["AliasArn"], {"AliasArn": alias["AliasArn"]})


def _update_alias(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    context.call("lambda", "UpdateAlias", _alias_params(new))
    member = "ProvisionedConcurrencyConfig"
    if old.get(member) or new.get(member):
        _provision(context, new["FunctionName"], new["Name"], new)
    return ResourceResult(physical_id, {"AliasArn": physical_id})


def _alias(context: Context, properties: Properties) -> str | None:
    params = {name: properties[name] for name in ("FunctionName", "Name")}
    return str(context.call("lambda", "GetAlias", params)["AliasArn"])


def _delete_alias(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"FunctionName": properties["FunctionName"], "Name": properties["Name"]}
    context.delete_if_exists("lambda", "DeleteAlias", params, GONE)


TYPES = [
    ResourceType(
        "AWS::Lambda::Version",
        {
            **enforced("FunctionName", "CodeSha256", "ProvisionedConcurrencyConfig"),
            **stored("Description", "RuntimePolicy"),
        },
        _create_version,
        _delete_version,
        made=_version,
    ),
    ResourceType(
        "AWS::Lambda::Alias",
        {
            **enforced(
                "FunctionName",
                "FunctionVersion",
                "Name",
                "RoutingConfig",
                "ProvisionedConcurrencyConfig",
            ),
            **stored("Description"),
        },
        _create_alias,
        _delete_alias,
        update=_update_alias,
        replace_on=frozenset({"FunctionName", "Name"}),
        named_by=("Name",),
        made=_alias,
    ),
]


_SIGNING: dict[str, Source] = {"CodeSigningConfigArn": "@id"}


@declare_sources("CodeSigningPolicies")
def _policies(values: Values) -> dict[str, str]:
    # The default is Warn (documented).
    return values.get("CodeSigningPolicies") or {"UntrustedArtifactOnDeployment": "Warn"}


_FUNCTION: dict[str, Source] = {"FunctionName": "TargetFunctionArn", "Qualifier": "Qualifier"}
# Always sent, so that an update sets what the template no longer has to its default.
_URL: dict[str, Source] = {
    **_FUNCTION,
    "InvokeMode": declare_sources("InvokeMode")(lambda v: v.get("InvokeMode") or "BUFFERED"),
    "Cors": declare_sources("Cors")(lambda v: v.get("Cors") or {}),
}


def _url(context: Context, properties: Properties) -> str | None:
    named = {"FunctionName": properties["TargetFunctionArn"]}
    if "Qualifier" in properties:
        named["Qualifier"] = properties["Qualifier"]
    return str(context.call("lambda", "GetFunctionUrlConfig", named)["FunctionArn"])


def _layer_version(values: Values) -> int:
    version = str(values.get("LayerVersionArn")).rpartition(":")[2]
    if not (version.isascii() and version.isdigit()):
        refusal = f"Invalid layer version ARN: {values.get('LayerVersionArn')}"  # assumed
        raise AwsError("InvalidParameterValueException", refusal)
    return int(version)


_LAYER: dict[str, Source] = {
    "LayerName": lambda v: str(v.get("LayerVersionArn")).rpartition(":")[0],
    "VersionNumber": declare_sources("LayerVersionArn")(_layer_version),
}


DECLARED = [
    DeclaredType(
        "AWS::Lambda::Permission",
        "lambda",
        create=[Call("AddPermission", {"StatementId": "Id"})],
        id="Id",
        delete=[Call("RemovePermission", {"FunctionName": "FunctionName", "StatementId": "@id"})],
        name="Id",
        name_length=100,
        unique=False,
        refused=frozenset({"Id"}),
        # Invocations by a service (SourceArn) and through a function URL are checked against these.
        enforced=frozenset(
            {
                *("Action", "FunctionName", "Principal", "SourceAccount", "SourceArn"),
                *("FunctionUrlAuthType", "InvokedViaFunctionUrl"),
            }
        ),
    ),
    DeclaredType(
        "AWS::Lambda::LayerVersionPermission",
        "lambda",
        create=[Call("AddLayerVersionPermission", {**_LAYER, "StatementId": "Id"})],
        # AWS's form: the layer version's ARN and the statement.
        id=lambda v: f"{v.get('LayerVersionArn')}#{v.get('Id')}",
        delete=[
            Call(
                "RemoveLayerVersionPermission",
                {**_LAYER, "StatementId": lambda v: v.id.rpartition("#")[2]},
            )
        ],
        name="Id",
        name_length=100,
        unique=False,
        attributes={"Id": "@id"},
        refused=frozenset({"Id"}),
        enforced=frozenset({"LayerVersionArn", "Action", "Principal"}),
    ),
    DeclaredType(
        "AWS::Lambda::Url",
        "lambda",
        create=[Call("CreateFunctionUrlConfig", _URL)],
        # Ref returns the function's ARN, as on AWS.
        id="@answer.FunctionArn",
        read=Call("GetFunctionUrlConfig", _FUNCTION),
        update=[Call("UpdateFunctionUrlConfig", _URL)],
        delete=[Call("DeleteFunctionUrlConfig", _FUNCTION)],
        name="TargetFunctionArn",
        made=_url,
        enforced=ALL,
    ),
    DeclaredType(
        "AWS::Lambda::CodeSigningConfig",
        "lambda",
        create=[Call("CreateCodeSigningConfig")],
        id="@answer.CodeSigningConfig.CodeSigningConfigArn",
        read=Call("GetCodeSigningConfig", _SIGNING),
        update=[Call("UpdateCodeSigningConfig", {**_SIGNING, "CodeSigningPolicies": _policies})],
        tag=("TagResource", "UntagResource", "Resource", "@id"),
        delete=[Call("DeleteCodeSigningConfig", _SIGNING)],
    ),
]
