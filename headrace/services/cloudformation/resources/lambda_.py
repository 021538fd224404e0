"""Lambda: functions, versions, aliases, permissions, layers, event-source mappings."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from headrace.core.values import listed
from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    Properties,
    ResourceType,
    boolean,
    enforced,
    integers,
    stored,
    tag_map,
    without,
)

GONE = "ResourceNotFoundException"
_CONFIGURATION = (
    "Description",
    "Handler",
    "Role",
    "Runtime",
    "Layers",
    "Environment",
    "DeadLetterConfig",
    "KMSKeyArn",
    "TracingConfig",
    "EphemeralStorage",
    "LoggingConfig",
    "VpcConfig",
)
_INLINE_FILE = {"python": "index.py", "nodejs": "index.js"}


def _code(properties: Properties) -> dict[str, Any]:
    code = properties["Code"]
    if "ZipFile" not in code:
        return {key: code[key] for key in ("S3Bucket", "S3Key", "S3ObjectVersion") if key in code}
    runtime = str(properties.get("Runtime", ""))
    name = next((f for prefix, f in _INLINE_FILE.items() if runtime.startswith(prefix)), "index.py")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        # A fixed date: the same source is the same code.
        archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), code["ZipFile"])
    return {"ZipFile": packed.getvalue()}


def _configuration(properties: Properties) -> dict[str, Any]:
    params = {key: properties[key] for key in _CONFIGURATION if key in properties}
    for key in ("MemorySize", "Timeout"):
        if key in properties:
            params[key] = int(properties[key])
    if "KmsKeyArn" in properties:
        params["KMSKeyArn"] = properties["KmsKeyArn"]
    if "Environment" in params:
        variables = params["Environment"].get("Variables", {})
        params["Environment"] = {"Variables": {k: str(v) for k, v in variables.items()}}
    return params


def _create_function(context: Context, properties: Properties) -> Made:
    name = properties.get("FunctionName") or context.generated_name(64)
    params = {
        "FunctionName": name,
        "Code": _code(properties),
        "Tags": tag_map(properties, context),
        **_configuration(properties),
    }
    for key in ("PackageType", "Architectures"):
        if key in properties:
            params[key] = properties[key]
    function = context.call("lambda", "CreateFunction", params)
    _set_concurrency(context, name, properties)
    return Made(name, {"Arn": function["FunctionArn"]})


def _set_concurrency(context: Context, name: str, properties: Properties) -> None:
    if "ReservedConcurrentExecutions" in properties:
        context.call(
            "lambda",
            "PutFunctionConcurrency",
            {
                "FunctionName": name,
                "ReservedConcurrentExecutions": int(properties["ReservedConcurrentExecutions"]),
            },
        )


def _update_function(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    if new.get("Code") != old.get("Code"):
        context.call("lambda", "UpdateFunctionCode", {"FunctionName": physical_id, **_code(new)})
    params = _configuration(new)
    # What is not said any more goes back to AWS's default.
    if "Environment" in old and "Environment" not in new:
        params["Environment"] = {"Variables": {}}
    if "Layers" in old and "Layers" not in new:
        params["Layers"] = []
    function = context.call(
        "lambda", "UpdateFunctionConfiguration", {"FunctionName": physical_id, **params}
    )
    _set_concurrency(context, physical_id, new)
    if "ReservedConcurrentExecutions" in old and "ReservedConcurrentExecutions" not in new:
        context.call("lambda", "DeleteFunctionConcurrency", {"FunctionName": physical_id})
    tags = tag_map(new, context)
    if tags:
        context.call("lambda", "TagResource", {"Resource": function["FunctionArn"], "Tags": tags})
    return Made(physical_id, {"Arn": function["FunctionArn"]})


def _delete_function(context: Context, physical_id: str, properties: Properties) -> None:
    context.gone_is_fine("lambda", "DeleteFunction", {"FunctionName": physical_id}, GONE)


def _create_version(context: Context, properties: Properties) -> Made:
    params = {
        key: properties[key]
        for key in ("FunctionName", "CodeSha256", "Description")
        if key in properties
    }
    version = context.call("lambda", "PublishVersion", params)
    arn = version["FunctionArn"]
    return Made(arn, {"Version": version["Version"], "FunctionArn": arn})


def _delete_version(context: Context, physical_id: str, properties: Properties) -> None:
    name, _, version = physical_id.rpartition(":")
    params = {"FunctionName": name, "Qualifier": version}
    context.gone_is_fine("lambda", "DeleteFunction", params, GONE)


def _alias_params(properties: Properties) -> dict[str, Any]:
    params = {
        key: properties[key]
        for key in ("FunctionName", "FunctionVersion", "Name", "Description")
        if key in properties
    }
    if "RoutingConfig" in properties:
        weights = {
            weight["FunctionVersion"]: float(weight["FunctionWeight"])
            for weight in listed(properties["RoutingConfig"], "AdditionalVersionWeights")
        }
        params["RoutingConfig"] = {"AdditionalVersionWeights": weights}
    return params


def _create_alias(context: Context, properties: Properties) -> Made:
    alias = context.call("lambda", "CreateAlias", _alias_params(properties))
    return Made(alias["AliasArn"], {"AliasArn": alias["AliasArn"]})


def _update_alias(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    context.call("lambda", "UpdateAlias", _alias_params(new))
    return Made(physical_id, {"AliasArn": physical_id})


def _delete_alias(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"FunctionName": properties["FunctionName"], "Name": properties["Name"]}
    context.gone_is_fine("lambda", "DeleteAlias", params, GONE)


def _create_permission(context: Context, properties: Properties) -> Made:
    statement = context.generated_name(100)
    params = {"StatementId": statement, **without(properties, "FunctionName")}
    context.call("lambda", "AddPermission", {"FunctionName": properties["FunctionName"], **params})
    return Made(statement, {"Id": statement})


def _delete_permission(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"FunctionName": properties["FunctionName"], "StatementId": physical_id}
    context.gone_is_fine("lambda", "RemovePermission", params, GONE)


def _create_layer(context: Context, properties: Properties) -> Made:
    name = properties.get("LayerName") or context.generated_name(140)
    params = {"LayerName": name, **without(properties, "LayerName")}
    layer = context.call("lambda", "PublishLayerVersion", params)
    arn = layer["LayerVersionArn"]
    return Made(arn, {"LayerVersionArn": arn})


def _delete_layer(context: Context, physical_id: str, properties: Properties) -> None:
    layer, _, version = physical_id.rpartition(":")
    params = {"LayerName": layer, "VersionNumber": int(version)}
    context.gone_is_fine("lambda", "DeleteLayerVersion", params, GONE)


_MAPPING_NUMBERS = (
    "BatchSize",
    "MaximumBatchingWindowInSeconds",
    "MaximumRecordAgeInSeconds",
    "MaximumRetryAttempts",
    "ParallelizationFactor",
    "TumblingWindowInSeconds",
)


def _mapping_params(properties: Properties) -> dict[str, Any]:
    params = integers(without(properties, "Tags"), *_MAPPING_NUMBERS)
    for key in ("BisectBatchOnFunctionError", "Enabled"):
        if key in params:
            params[key] = boolean(params[key])
    if "StartingPositionTimestamp" in params:
        from datetime import UTC, datetime

        seconds = float(params["StartingPositionTimestamp"])
        params["StartingPositionTimestamp"] = datetime.fromtimestamp(seconds, UTC)
    return params


def _create_mapping(context: Context, properties: Properties) -> Made:
    mapping = context.call("lambda", "CreateEventSourceMapping", _mapping_params(properties))
    return _mapping_made(mapping)


def _mapping_made(mapping: dict[str, Any]) -> Made:
    attributes = {
        "Id": mapping["UUID"],
        "EventSourceMappingArn": mapping.get("EventSourceMappingArn", ""),
    }
    return Made(mapping["UUID"], attributes)


def _update_mapping(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    params = _mapping_params(
        without(new, "EventSourceArn", "StartingPosition", "StartingPositionTimestamp")
    )
    mapping = context.call("lambda", "UpdateEventSourceMapping", {"UUID": physical_id, **params})
    return _mapping_made(mapping)


def _delete_mapping(context: Context, physical_id: str, properties: Properties) -> None:
    context.gone_is_fine("lambda", "DeleteEventSourceMapping", {"UUID": physical_id}, GONE)


def _put_invoke_config(context: Context, properties: Properties) -> Made:
    params = integers(properties, "MaximumEventAgeInSeconds", "MaximumRetryAttempts")
    context.call("lambda", "PutFunctionEventInvokeConfig", params)
    return Made(f"{properties['FunctionName']}|{properties['Qualifier']}")


def _update_invoke_config(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> Made:
    return _put_invoke_config(context, new)


def _delete_invoke_config(context: Context, physical_id: str, properties: Properties) -> None:
    params = {
        "FunctionName": properties["FunctionName"],
        "Qualifier": properties["Qualifier"],
    }
    context.gone_is_fine("lambda", "DeleteFunctionEventInvokeConfig", params, GONE)


TYPES = [
    ResourceType(
        "AWS::Lambda::Function",
        {
            **enforced(
                "FunctionName",
                "Code",
                "Handler",
                "Runtime",
                "Environment",
                "MemorySize",
                "Timeout",
                "Layers",
                "Tags",
                "ReservedConcurrentExecutions",
                "LoggingConfig",
                "PackageType",
                "DeadLetterConfig",
            ),
            **stored(
                "Role",
                "Description",
                "Architectures",
                "KmsKeyArn",
                "TracingConfig",
                "EphemeralStorage",
                "VpcConfig",
            ),
        },
        _create_function,
        _delete_function,
        update=_update_function,
        replace_on=frozenset({"FunctionName", "PackageType"}),
    ),
    ResourceType(
        "AWS::Lambda::Version",
        {**enforced("FunctionName", "CodeSha256"), **stored("Description")},
        _create_version,
        _delete_version,
    ),
    ResourceType(
        "AWS::Lambda::Alias",
        {
            **enforced("FunctionName", "FunctionVersion", "Name", "RoutingConfig"),
            **stored("Description", "ProvisionedConcurrencyConfig"),
        },
        _create_alias,
        _delete_alias,
        update=_update_alias,
        replace_on=frozenset({"FunctionName", "Name"}),
    ),
    ResourceType(
        "AWS::Lambda::Permission",
        stored(
            "Action",
            "FunctionName",
            "Principal",
            "SourceAccount",
            "SourceArn",
            "PrincipalOrgID",
            "EventSourceToken",
            "FunctionUrlAuthType",
            "InvokedViaFunctionUrl",
        ),
        _create_permission,
        _delete_permission,
    ),
    ResourceType(
        "AWS::Lambda::LayerVersion",
        {
            **enforced("LayerName", "Content"),
            **stored("CompatibleRuntimes", "CompatibleArchitectures", "Description", "LicenseInfo"),
        },
        _create_layer,
        _delete_layer,
    ),
    ResourceType(
        "AWS::Lambda::EventSourceMapping",
        {
            **enforced(
                "BatchSize",
                "BisectBatchOnFunctionError",
                "DestinationConfig",
                "Enabled",
                "EventSourceArn",
                "FilterCriteria",
                "FunctionName",
                "FunctionResponseTypes",
                "MaximumBatchingWindowInSeconds",
                "MaximumRecordAgeInSeconds",
                "MaximumRetryAttempts",
                "StartingPosition",
                "StartingPositionTimestamp",
                "TumblingWindowInSeconds",
            ),
            **stored(
                "ParallelizationFactor", "MetricsConfig", "KmsKeyArn", "Tags", "ScalingConfig"
            ),
        },
        _create_mapping,
        _delete_mapping,
        update=_update_mapping,
        replace_on=frozenset({"EventSourceArn", "StartingPosition", "StartingPositionTimestamp"}),
    ),
    ResourceType(
        "AWS::Lambda::EventInvokeConfig",
        stored(
            "FunctionName",
            "Qualifier",
            "DestinationConfig",
            "MaximumEventAgeInSeconds",
            "MaximumRetryAttempts",
        ),
        _put_invoke_config,
        _delete_invoke_config,
        update=_update_invoke_config,
        replace_on=frozenset({"FunctionName", "Qualifier"}),
    ),
]
