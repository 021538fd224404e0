"""Lambda: functions, layers, event-source mappings, asynchronous invocation."""

from __future__ import annotations

import io
import sys
import zipfile
from datetime import UTC, datetime
from typing import Any

from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    attribute_text,
    enforced,
    stored,
    tag_map,
)
from headrace.services.cloudformation.resources.declaration import (
    ALL,
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)
from headrace.services.cloudformation.resources.inline import modules_for
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, each_of, same

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
    "SnapStart",
    "FileSystemConfigs",
)
_INLINE_FILE = {"python": "index.py", "nodejs": "index.js"}


def _code(properties: Properties) -> dict[str, Any]:
    code = properties["Code"]
    if "ZipFile" not in code:
        return {
            key: code[key]
            for key in ("S3Bucket", "S3Key", "S3ObjectVersion", "ImageUri")
            if key in code
        }
    runtime = str(properties.get("Runtime", ""))
    name = next((f for prefix, f in _INLINE_FILE.items() if runtime.startswith(prefix)), "index.py")
    source = str(code["ZipFile"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in {name: source, **modules_for(runtime, source)}.items():
            # A fixed date, so that the same source gives the same package.
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), text)
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
        params["Environment"] = {"Variables": {k: attribute_text(v) for k, v in variables.items()}}
    return params


def _create_function(context: Context, properties: Properties) -> ResourceResult:
    name = properties.get("FunctionName") or context.generate_name(64)
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
    context.note_made(name)
    _set_concurrency(context, name, properties)
    _set_management(context, name, properties)
    return ResourceResult(name, {"Arn": function["FunctionArn"]})


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


def _set_management(context: Context, name: str, properties: Properties) -> None:
    if "RecursiveLoop" in properties:
        params = {"FunctionName": name, "RecursiveLoop": properties["RecursiveLoop"]}
        context.call("lambda", "PutFunctionRecursionConfig", params)
    if "RuntimeManagementConfig" in properties:
        params = {"FunctionName": name, **properties["RuntimeManagementConfig"]}
        context.call("lambda", "PutRuntimeManagementConfig", params)


def _update_function(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    if any(new.get(name) != old.get(name) for name in ("Code", "Architectures")):
        # Documented: the default is x86_64.
        architectures = new.get("Architectures") or ["x86_64"]
        code = {"FunctionName": physical_id, "Architectures": architectures, **_code(new)}
        context.call("lambda", "UpdateFunctionCode", code)
    params = _configuration(new)
    # A property that the template no longer has goes back to AWS's default.
    if "Environment" in old and "Environment" not in new:
        params["Environment"] = {"Variables": {}}
    if "Layers" in old and "Layers" not in new:
        params["Layers"] = []
    function = context.call(
        "lambda", "UpdateFunctionConfiguration", {"FunctionName": physical_id, **params}
    )
    _set_concurrency(context, physical_id, new)
    _set_management(context, physical_id, new)
    if "ReservedConcurrentExecutions" in old and "ReservedConcurrentExecutions" not in new:
        context.call("lambda", "DeleteFunctionConcurrency", {"FunctionName": physical_id})
    tags = tag_map(new, context)
    if tags:
        context.call("lambda", "TagResource", {"Resource": function["FunctionArn"], "Tags": tags})
    return ResourceResult(physical_id, {"Arn": function["FunctionArn"]})


def _delete_function(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("lambda", "DeleteFunction", {"FunctionName": physical_id}, GONE)


def _layer(context: Context, properties: Properties) -> str | None:
    name = properties.get("LayerName") or context.generate_name(140)
    versions = context.call("lambda", "ListLayerVersions", {"LayerName": name})["LayerVersions"]
    newest = max(versions, key=lambda layer: int(layer["Version"]), default=None)
    return newest and str(newest["LayerVersionArn"])


def _mapping(context: Context, properties: Properties) -> str | None:
    """Return the newest event-source mapping of the function and the source."""
    params = {"FunctionName": properties["FunctionName"]}
    if "EventSourceArn" in properties:
        params["EventSourceArn"] = properties["EventSourceArn"]
    mappings = context.call("lambda", "ListEventSourceMappings", params)["EventSourceMappings"]
    newest = max(mappings, key=lambda mapping: mapping["LastModified"], default=None)
    return newest and str(newest["UUID"])


def _remark(properties: Properties) -> dict[str, str]:
    """Return a remark when the function declares another Python than headrace's own, which runs every function."""
    runtime = str(properties.get("Runtime", ""))
    running = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if not runtime.startswith("python3") or runtime == running:
        return {}
    return {"Runtime": f"{runtime} is declared; {running} runs it"}


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
                "EphemeralStorage",
                "TracingConfig",
            ),
            **stored(
                "Role",
                "Description",
                "Architectures",
                "KmsKeyArn",
                "VpcConfig",
                "RecursiveLoop",
                "RuntimeManagementConfig",
                "SnapStart",
                "FileSystemConfigs",
            ),
        },
        _create_function,
        _delete_function,
        update=_update_function,
        replace_on=frozenset({"FunctionName", "PackageType"}),
        named_by=("FunctionName",),
        remark=_remark,
    ),
]


def _is_configured(values: Values) -> bool:
    params = {name: values.get(name) for name in ("FunctionName", "Qualifier")}
    return bool(
        values.context.find_identifier("lambda", "GetFunctionEventInvokeConfig", params, "any")
    )


@declare_sources("StartingPositionTimestamp")
def _starting_at(values: Values) -> datetime | None:
    seconds = values.get("StartingPositionTimestamp")
    return None if seconds is None else datetime.fromtimestamp(float(seconds), UTC)


_UUID: dict[str, Source] = {"UUID": "@id"}
# A mapping that is in use can neither change nor be deleted; it is for `--state-delay` seconds.
_SETTLED_MAPPING = Call(
    "GetEventSourceMapping",
    _UUID,
    only=(),
    always=True,
    until=lambda mapping: mapping["State"] in ("Enabled", "Disabled"),
)

DECLARED = [
    DeclaredType(
        "AWS::Lambda::EventSourceMapping",
        "lambda",
        create=[
            Call("CreateEventSourceMapping", {"StartingPositionTimestamp": _starting_at}),
            _SETTLED_MAPPING,
        ],
        id="@answer.UUID",
        update=[Call("UpdateEventSourceMapping", _UUID), _SETTLED_MAPPING],
        delete=[
            Call("DeleteEventSourceMapping", _UUID),
            # Until it is gone.
            Call("GetEventSourceMapping", _UUID, until=lambda _: False),
        ],
        tag=("TagResource", "UntagResource", "Resource", "@answer.EventSourceMappingArn"),
        attributes={"Id": "@id"},
        made=_mapping,
        refused=frozenset(
            {
                "AmazonManagedKafkaEventSourceConfig",
                "DocumentDBEventSourceConfig",
                "LoggingConfig",
                "Queues",
                "SelfManagedEventSource",
                "SelfManagedKafkaEventSourceConfig",
                "SourceAccessConfigurations",
                "Topics",
            }
        ),
        enforced=frozenset(
            {
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
            }
        ),
    ),
    DeclaredType(
        "AWS::Lambda::LayerVersion",
        "lambda",
        create=[Call("PublishLayerVersion")],
        id="@answer.LayerVersionArn",
        delete=[
            Call(
                "DeleteLayerVersion",
                {"LayerName": lambda v: v.id.rpartition(":")[0], "VersionNumber": "@last"},
            )
        ],
        name="LayerName",
        name_length=140,
        unique=False,
        made=_layer,
        enforced=frozenset({"LayerName", "Content"}),
    ),
    DeclaredType(
        "AWS::Lambda::EventInvokeConfig",
        "lambda",
        create=[Call("PutFunctionEventInvokeConfig")],
        id=lambda v: f"{v.get('FunctionName')}|{v.get('Qualifier')}",
        exists=_is_configured,
        update=[Call("PutFunctionEventInvokeConfig")],
        delete=[
            Call(
                "DeleteFunctionEventInvokeConfig",
                {"FunctionName": "FunctionName", "Qualifier": "Qualifier"},
            )
        ],
        enforced=ALL,
    ),
]


def _is_enabled(mapping: dict[str, Any]) -> bool:
    return mapping["State"] in ("Enabled", "Enabling", "Creating", "Updating")


def _names_function(name: Any, arn: Any) -> bool:
    """Whether a name, a part of an ARN or an ARN is this ARN's function, with its version or alias."""
    return name == arn or str(arn).endswith(
        f":{name}" if "function:" in str(name) else f":function:{name}"
    )


READINGS = (
    ReadingRules(
        "AWS::Lambda::Function",
        "lambda",
        (
            ReadCall(
                "GetFunctionConfiguration",
                {"FunctionName": "@id"},
                properties=same(
                    "Architectures DeadLetterConfig Description Environment "
                    "EphemeralStorage FunctionName Handler LoggingConfig "
                    "MemorySize PackageType Role Runtime Timeout TracingConfig",
                    KmsKeyArn="KMSKeyArn",
                    Layers=each_of("Layers", "Arn"),
                    SnapStartResponse="SnapStart",
                ),
            ),
            ReadCall(
                "GetFunctionRecursionConfig",
                {"FunctionName": "@id"},
                properties=same("RecursiveLoop"),
            ),
            ReadCall(
                "GetRuntimeManagementConfig",
                {"FunctionName": "@id"},
                properties={"RuntimeManagementConfig": "."},
            ),
            ReadCall(
                "GetFunctionConcurrency",
                {"FunctionName": "@id"},
                properties=same("ReservedConcurrentExecutions"),
            ),
        ),
        {"Arn": "FunctionArn"},
    ),
    ReadingRules(
        "AWS::Lambda::EventSourceMapping",
        "lambda",
        (
            ReadCall(
                "GetEventSourceMapping",
                {"UUID": "@id"},
                properties=same(
                    "BatchSize BisectBatchOnFunctionError DestinationConfig "
                    "EventSourceArn FilterCriteria FunctionResponseTypes "
                    "MaximumBatchingWindowInSeconds MaximumRecordAgeInSeconds "
                    "MaximumRetryAttempts ParallelizationFactor StartingPosition "
                    "TumblingWindowInSeconds",
                    Enabled=_is_enabled,
                    FunctionName="FunctionArn",
                ),
                alike={"FunctionName": _names_function},
            ),
        ),
        {"Id": "UUID", "EventSourceMappingArn": "EventSourceMappingArn"},
    ),
    ReadingRules(
        "AWS::Lambda::Alias",
        "lambda",
        (
            ReadCall(
                "GetAlias",
                {"FunctionName": "@FunctionName", "Name": "@Name"},
                properties=same("Description FunctionVersion Name"),
            ),
        ),
        named=False,
    ),
)
