"""Makes a FunctionConfiguration of the members of Create- and UpdateFunction, with AWS's checks and defaults."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.core.values import section
from headrace.services.lambda_.errors import access_denied, invalid_parameter, validation
from headrace.services.lambda_.limits import (
    ENVIRONMENT_BYTES,
    LAYERS_PER_FUNCTION,
    TIMEOUT_SECONDS,
)
from headrace.services.lambda_.names import LATEST, FunctionRef, lambda_time
from headrace.services.lambda_.packages.code import Package
from headrace.services.lambda_.packages.layers import LayerStore
from headrace.services.lambda_.runtime.environment import (
    RESERVED_VARIABLES,
    check_runtime,
    runtime_remark,
)
from headrace.services.lambda_.state import Version

log = logging.getLogger(__name__)

# Members that are stored as they come, with the values that they have when no request has set them.
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
    "DeadLetterConfig",
    "FileSystemConfigs",
    "ImageConfig",
    *_DEFAULTS,
)


def new_version(
    ref: FunctionRef, request: Mapping[str, Any], *, package: Package, layers: LayerStore
) -> Version:
    """Return the `$LATEST` of a new function, without what `touch` fills in."""
    if request.get("PackageType", "Zip") != "Zip":
        raise invalid_parameter("headrace does not run container images; deploy a zip package")
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
            "RuntimeVersionArn": f"arn:aws:lambda:{ref.region}::runtime:{'0' * 64}"
        },
        **_DEFAULTS,
    }
    version = Version(package.digest, config)
    set_code(version, package)
    apply(version, request, layers=layers)
    config.setdefault("LoggingConfig", _logging(ref.name, {}))
    return version


def set_code(version: Version, package: Package) -> None:
    """Give a version its code."""
    version.digest = package.digest
    version.config["CodeSha256"] = package.code_sha256
    version.config["CodeSize"] = package.size_bytes


def touch(version: Version, *, now_ms: int, revision_id: str) -> None:
    """Note that a version has changed."""
    version.config["LastModified"] = lambda_time(now_ms)
    version.config["RevisionId"] = revision_id


def apply(version: Version, request: Mapping[str, Any], *, layers: LayerStore) -> None:
    """Change a version as UpdateFunctionConfiguration asks. Raises AwsError having changed nothing."""
    check(request)
    config = version.config
    account = config["FunctionArn"].split(":")[4]
    found = find_layers(request.get("Layers"), layers, account)
    remark = runtime_remark(str(request.get("Runtime", "")))
    if remark is not None:
        log.info("function %s: %s", config["FunctionName"], remark)
    config.update({name: request[name] for name in _PLAIN if name in request})
    if found is not None:
        version.layers = [layer["digest"] for layer in found]
        config["Layers"] = [
            {"Arn": layer["LayerVersionArn"], "CodeSize": layer["size_bytes"]} for layer in found
        ]
    if "Environment" in request:
        variables = section(request, "Environment", "Variables")
        config.pop("Environment", None)
        if variables:
            config["Environment"] = {"Variables": dict(variables)}
    if "VpcConfig" in request:
        wanted = request["VpcConfig"]
        config["VpcConfig"] = {
            "SubnetIds": wanted.get("SubnetIds", []),
            "SecurityGroupIds": wanted.get("SecurityGroupIds", []),
            "VpcId": "vpc-00000000" if wanted.get("SubnetIds") else "",
        }
    if "SnapStart" in request:
        config["SnapStart"] = {
            "ApplyOn": request["SnapStart"].get("ApplyOn", "None"),
            "OptimizationStatus": "Off",
        }
    if "LoggingConfig" in request:
        config["LoggingConfig"] = _logging(config["FunctionName"], request["LoggingConfig"])


def check(request: Mapping[str, Any]) -> None:
    """Refuse a configuration that AWS refuses. Raises AwsError."""
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
    arns: list[str] | None, layers: LayerStore, account: str
) -> list[dict[str, Any]] | None:
    """Return the layer versions that a function of `account` asks for. Raises AwsError."""
    if arns is None:
        return None
    if len(arns) > LAYERS_PER_FUNCTION:
        raise invalid_parameter(f"Cannot reference more than {LAYERS_PER_FUNCTION} layers.")
    names = [arn.rpartition(":")[0] for arn in arns]
    if len(set(names)) < len(names):
        raise invalid_parameter(
            "Two different versions of the same layer are not allowed to be referenced in the same function."
        )
    found: list[dict[str, Any]] = []
    for arn in arns:
        layer = layers.find(arn)
        if layer is None:
            raise invalid_parameter(f"Layer version {arn} does not exist.")
        if arn.split(":")[4] != account and not _shares(layer, account):
            raise access_denied(account, "lambda:GetLayerVersion", arn)
        found.append(layer)
    return found


def _shares(layer: Mapping[str, Any], account: str) -> bool:
    """Whether a layer version's policy lets another account use it."""
    principals = [statement["Principal"] for statement in layer.get("policy", {}).values()]
    return any(p == "*" or account in p.get("AWS", "").split(":") for p in principals)


def _logging(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    log_format = wanted.get("LogFormat", "Text")
    levels = (
        {"ApplicationLogLevel": "INFO", "SystemLogLevel": "INFO"} if log_format == "JSON" else {}
    )
    return {"LogFormat": log_format, "LogGroup": f"/aws/lambda/{name}", **levels, **wanted}
