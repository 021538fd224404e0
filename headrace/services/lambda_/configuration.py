"""Makes a FunctionConfiguration from the parameters of CreateFunction and UpdateFunctionConfiguration.

It checks the parameters and fills in defaults as AWS does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headrace.core.arn import partition_of
from headrace.core.ids import Ids
from headrace.core.system_tags import count_tags, is_refused
from headrace.core.values import section
from headrace.services.lambda_.errors import (
    ENVIRONMENT_BYTES,
    LAYERS_PER_FUNCTION,
    MOST_TAGS,
    NO_IMAGES,
    TIMEOUT_SECONDS,
    UPDATE_LASTS_MS,
    access_denied,
    invalid_parameter,
    validation,
)
from headrace.services.lambda_.layers import LayerStore
from headrace.services.lambda_.names import LATEST, LONGEST_NAME, FunctionRef, format_lambda_time
from headrace.services.lambda_.packages import Package
from headrace.services.lambda_.runtime.environment import (
    RESERVED_VARIABLES,
    check_runtime,
    explain_runtime,
)
from headrace.services.lambda_.state import LayerVersion, Transition, Version

log = logging.getLogger(__name__)

# Members that are stored without a change, and their defaults.
_DEFAULTS: dict[str, Any] = {
    "Description": "",
    "Timeout": 3,
    "MemorySize": 128,
    "TracingConfig": {"Mode": "PassThrough"},
    "EphemeralStorage": {"Size": 512},
}
_PLAIN = (
    "Runtime",
    "Role",
    "Handler",
    "KMSKeyArn",
    "FileSystemConfigs",
    *_DEFAULTS,
)


def build_version(
    ref: FunctionRef, request: Mapping[str, Any], *, package: Package, layers: LayerStore
) -> Version:
    """Return the `$LATEST` of a new function, without the members that `touch` sets."""
    if request.get("PackageType", "Zip") != "Zip":
        raise invalid_parameter(NO_IMAGES)
    if not request.get("Runtime") or not request.get("Handler"):
        raise invalid_parameter(
            "Runtime and Handler are mandatory parameters for functions created with deployment packages."
        )
    config: dict[str, Any] = {
        "FunctionName": ref.name,
        "FunctionArn": ref.arn,
        "Version": LATEST,
        "PackageType": "Zip",
        "Architectures": request.get("Architectures") or ["x86_64"],
        "State": "Active",
        "LastUpdateStatus": "Successful",
        "SnapStart": {"ApplyOn": "None", "OptimizationStatus": "Off"},
        "RuntimeVersionConfig": {
            "RuntimeVersionArn": f"arn:{partition_of(ref.region)}:lambda:{ref.region}::runtime:{'0' * 64}"
        },
        **_DEFAULTS,
    }
    version = Version(package.digest, config)
    set_code(version, package)
    apply(version, request, layers=layers)
    config.setdefault("LoggingConfig", _merge_logging(ref.name, {}))
    return version


def set_code(version: Version, package: Package) -> None:
    """Set the code of a version."""
    version.digest = package.digest
    version.config["CodeSha256"] = package.code_sha256
    version.config["CodeSize"] = package.size_bytes


def touch(version: Version, *, now_ms: int, ids: Ids, creates: bool = False) -> None:
    """Give `$LATEST` new revisions after its creation or a change: one during the change, and one afterwards.

    A new function can be invoked at once; only the response of CreateFunction says Pending.
    """
    lasts_ms = 0 if creates else UPDATE_LASTS_MS
    version.transition = Transition(creates, ids.uuid(), now_ms + lasts_ms)
    version.config["LastModified"] = format_lambda_time(now_ms)
    version.config["RevisionId"] = ids.uuid()


def make_pending(version: Version, latest: Version) -> None:
    """Make a version that was published together with an update Pending until the update ends."""
    if latest.transition is not None:
        revision_id = version.config["RevisionId"]
        version.transition = Transition(True, revision_id, latest.transition.until_ms)


def apply(version: Version, request: Mapping[str, Any], *, layers: LayerStore) -> None:
    """Apply UpdateFunctionConfiguration's parameters to a version. Raises AwsError before it changes anything."""
    check(request)
    config = version.config
    account = config["FunctionArn"].split(":")[4]
    region = config["FunctionArn"].split(":")[3]
    layer_versions = find_layers(request.get("Layers"), layers, account, region)
    remark = explain_runtime(str(request.get("Runtime", "")))
    if remark is not None:
        log.info("function %s: %s", config["FunctionName"], remark)
    config.update({name: request[name] for name in _PLAIN if name in request})
    if "DeadLetterConfig" in request:
        _set_dead_letters(config, section(request, "DeadLetterConfig"))
    if layer_versions is not None:
        version.layers = [layer["digest"] for layer in layer_versions]
        config["Layers"] = [
            {"Arn": layer["LayerVersionArn"], "CodeSize": layer["size_bytes"]}
            for layer in layer_versions
        ]
    if "Environment" in request:
        config.pop("Environment", None)
        if "Variables" in request["Environment"]:
            config["Environment"] = {"Variables": dict(request["Environment"]["Variables"])}
    if "VpcConfig" in request:
        vpc = request["VpcConfig"]
        config["VpcConfig"] = {
            "SubnetIds": vpc.get("SubnetIds", []),
            "SecurityGroupIds": vpc.get("SecurityGroupIds", []),
            "VpcId": "vpc-00000000" if vpc.get("SubnetIds") else "",
            "Ipv6AllowedForDualStack": vpc.get("Ipv6AllowedForDualStack", False),
        }
    if "SnapStart" in request:
        config["SnapStart"] = {
            "ApplyOn": request["SnapStart"].get("ApplyOn", "None"),
            "OptimizationStatus": "Off",
        }
    if "LoggingConfig" in request:
        kept = config.get("LoggingConfig", {})
        config["LoggingConfig"] = _merge_logging(
            config["FunctionName"], request["LoggingConfig"], kept
        )


def _set_dead_letters(config: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Set the dead-letter target. An empty ARN removes it, and a structure without an ARN changes nothing."""
    arn = settings.get("TargetArn")
    if arn:
        config["DeadLetterConfig"] = {"TargetArn": arn}
    elif arn is not None:
        config.pop("DeadLetterConfig", None)


_NOT_BUILT = {
    "DurableConfig": "durable executions: the function would start none",
    "CapacityProviderConfig": "capacity providers of Lambda Managed Instances",
    "PublishTo": "capacity providers of Lambda Managed Instances",
    "RuntimeConfig": "custom runtimes by ARN",
    "AcceleratorConfig": "accelerators",
    "ImageConfig": "container images",
}


def check_new(ref: FunctionRef, request: Mapping[str, Any]) -> None:
    """Check the parameters of CreateFunction as AWS does. Raises AwsError."""
    if len(ref.name) > LONGEST_NAME:
        raise invalid_parameter(
            f"1 validation error detected: Value '{ref.name}' at 'functionName' failed to satisfy constraint: "
            f"Member must have length less than or equal to {LONGEST_NAME}"
        )
    check_tags(request.get("Tags") or {})
    check(request)


def check_tag_keys(keys: Iterable[str]) -> None:
    """Refuse to set or remove tags that are reserved for AWS. The message is assumed. Raises AwsError."""
    if any(map(is_refused, keys)):
        raise invalid_parameter("aws: prefixed tag key names are not allowed for external use.")


def check_tags(tags: Mapping[str, str], present: Mapping[str, str] | None = None) -> None:
    """Refuse tags that are reserved for AWS, and too many tags on a resource that has `present`. Raises AwsError."""
    check_tag_keys(tags)
    if count_tags({*tags, *(present or ())}) > MOST_TAGS:
        raise invalid_parameter("Number of tags exceeds resource tag limit.")


def check_built(request: Mapping[str, Any]) -> None:
    """Refuse by name what headrace does not build, and what a function would otherwise be promised. Raises AwsError."""
    for member, what in _NOT_BUILT.items():
        if request.get(member):
            raise invalid_parameter(f"headrace does not implement {what} ({member}).")


def check(request: Mapping[str, Any]) -> None:
    """Check a function's configuration as AWS does. Raises AwsError."""
    check_built(request)
    if request.get("Runtime"):
        check_runtime(request["Runtime"])
    timeout = request.get("Timeout")
    if timeout is not None and timeout > TIMEOUT_SECONDS:
        raise validation(
            f"Value '{timeout}' at 'timeout' failed to satisfy constraint: Member must have value "
            f"less than or equal to {TIMEOUT_SECONDS}"
        )
    _check_variables(section(request, "Environment", "Variables"))


def _check_variables(variables: Mapping[str, str]) -> None:
    reserved = sorted(RESERVED_VARIABLES.intersection(variables))
    if reserved:
        raise invalid_parameter(
            "Lambda was unable to configure your environment variables because the environment variables "
            "you have provided contains reserved keys that are currently not supported for modification. "
            f"Reserved keys used in this request: {', '.join(reserved)}"
        )
    measured = msgspec.json.encode(dict(variables))
    if variables and len(measured) > ENVIRONMENT_BYTES:
        raise invalid_parameter(
            "Lambda was unable to configure your environment variables because the environment variables "
            f"you have provided exceeded the 4KB limit. String measured: {measured.decode()}"
        )


def find_layers(
    arns: list[str] | None, layers: LayerStore, account: str, region: str
) -> list[LayerVersion] | None:
    """Return the layer versions that the function of an account and region names. Raises AwsError."""
    if arns is None:
        return None
    if len(arns) > LAYERS_PER_FUNCTION:
        raise invalid_parameter(f"Cannot reference more than {LAYERS_PER_FUNCTION} layers.")
    if any(arn.split(":")[3] not in ("", region) for arn in arns):
        raise invalid_parameter(
            "Layers are not in the same region as the function. "
            f"Layers are expected to be in region {region}."
        )
    by_layer: dict[str, str] = {}
    for arn in arns:
        other = by_layer.setdefault(arn.rpartition(":")[0], arn)
        if other is not arn:
            raise invalid_parameter(
                "Two different versions of the same layer are not allowed to be referenced in the same function. "
                f"{other} and {arn} are versions of the same layer."
            )
    versions: list[LayerVersion] = []
    for arn in arns:
        layer = layers.resolve(arn, account)
        if layer is None:
            raise invalid_parameter(f"Layer version {arn} does not exist.")
        if arn.split(":")[4] != account and not _shares(layer, account):
            raise access_denied(account, "lambda:GetLayerVersion", arn)
        versions.append(layer)
    return versions


def _shares(layer: LayerVersion, account: str) -> bool:
    """Whether the policy of a layer version lets another account use the version."""
    principals: list[str | dict[str, str]] = [
        statement.get("Principal", "") for statement in layer.get("policy", {}).values()
    ]
    return any(
        p == "*" if isinstance(p, str) else account in p.get("AWS", "").split(":")
        for p in principals
    )


def _merge_logging(
    name: str, settings: Mapping[str, Any], kept: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a logging configuration after a request. Members that the request lacks stay; only JSON has log levels."""
    asked = {**(kept or {}), **settings}
    log_format = asked.get("LogFormat", "Text")
    levels = {"ApplicationLogLevel": "INFO", "SystemLogLevel": "INFO"}
    if log_format != "JSON":
        if levels.keys() & settings.keys():
            raise invalid_parameter(
                "Setting Log Level is only supported when LogFormat is set to JSON."
            )
        asked = {member: value for member, value in asked.items() if member not in levels}
        levels = {}
    return {"LogFormat": log_format, "LogGroup": f"/aws/lambda/{name}", **levels, **asked}
