"""Computes a Managed Flink application's configuration after UpdateApplication, in the form of a description.

A member's name ends with `Update` in an update, and with `Description` in a description.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any, cast

from headrace.aws.calls.errors import AwsError

NETWORKS = "VpcConfigurationDescriptions"
# Documented: with the type DEFAULT these values apply, whatever the request gives (API_CheckpointConfiguration,
# API_MonitoringConfiguration, API_ParallelismConfiguration).
_DEFAULTS: dict[str, dict[str, Any]] = {
    "CheckpointConfigurationDescription": {
        "CheckpointingEnabled": True,
        "CheckpointInterval": 60000,
        "MinPauseBetweenCheckpoints": 5000,
    },
    "MonitoringConfigurationDescription": {"MetricsLevel": "APPLICATION", "LogLevel": "INFO"},
    "ParallelismConfigurationDescription": {
        "Parallelism": 1,
        "ParallelismPerKPU": 1,
        "AutoScalingEnabled": False,
        "CurrentParallelism": 1,
    },
}
# Members whose description and update have unrelated names.
_SECTIONS = {
    ("CodeContentUpdate", "S3ContentLocationUpdate"): "S3ApplicationCodeLocationDescription",
}


def updated(
    described: dict[str, Any], update: dict[str, Any], run: dict[str, Any]
) -> dict[str, Any]:
    """Return the description after an ApplicationConfigurationUpdate and a RunConfigurationUpdate.

    Raises AwsError; `described` is not changed.
    """
    update = dict(update)
    if update.pop("SqlApplicationConfigurationUpdate", None):
        # moto does not store it, and AWS has discontinued these applications.
        raise AwsError(
            "UnsupportedOperationException",
            "The inputs and outputs of an application for SQL cannot be changed",
        )
    networks = update.pop("VpcConfigurationUpdates", [])
    properties = update.pop("EnvironmentPropertyUpdates", None)
    found = _merged(described, update)
    if properties is not None:
        # Documented: the property groups of an update replace all others.
        groups: list[Any] = properties.get("PropertyGroups") or []
        found["EnvironmentPropertyDescriptions"] = {"PropertyGroupDescriptions": groups}
    for network in networks:
        found[NETWORKS] = _with_network(found.get(NETWORKS, []), network)
    if run:
        found["RunConfigurationDescription"] = {
            **found.get("RunConfigurationDescription", {}),
            **{f"{name}Description": value for name, value in run.items()},
        }
    return found


def vpc(network: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a VpcConfiguration; moto has a single VPC."""
    from moto.kinesisanalyticsv2.models import FAKE_VPC_ID

    return {
        "VpcId": FAKE_VPC_ID,
        "SubnetIds": network["SubnetIds"],
        "SecurityGroupIds": network["SecurityGroupIds"],
    }


def _merged(described: dict[str, Any], update: dict[str, Any], at: str = "") -> dict[str, Any]:
    found = dict(described)
    for member, value in update.items():
        name = member.removesuffix("Update")
        section = _SECTIONS.get((at, member), f"{name}Description")
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            merged = _merged(found.get(section, {}), inner, member)
            if merged.get("ConfigurationType") == "DEFAULT":
                merged |= _DEFAULTS.get(section, {})
            if section == "ParallelismConfigurationDescription" and "Parallelism" in merged:
                merged["CurrentParallelism"] = merged["Parallelism"]
            found[section] = merged
        elif isinstance(value, list):
            found[section] = [_artifact(each) for each in cast("list[dict[str, Any]]", value)]
        elif member == "ZipFileContentUpdate":
            found |= _code(str(value))
        else:
            found[name] = value
    return found


def _artifact(artifact: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a notebook's artifact."""
    return {
        f"{name}Description" if isinstance(value, dict) else name: value
        for name, value in artifact.items()
    }


def _code(content: str) -> dict[str, Any]:
    """Return the description of inline code, in Base64."""
    data = base64.b64decode(content)
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return {"CodeMD5": digest, "CodeSize": len(data)}


def _with_network(networks: list[dict[str, Any]], update: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the VPC configurations after an update of one."""
    if update["VpcConfigurationId"] not in {each["VpcConfigurationId"] for each in networks}:
        raise AwsError(
            "ResourceNotFoundException",
            f"VPC configuration {update['VpcConfigurationId']} does not exist",
        )
    changed = {
        name: update[f"{name.removesuffix('s')}Updates"]
        for name in ("SubnetIds", "SecurityGroupIds")
        if f"{name.removesuffix('s')}Updates" in update
    }
    return [
        {**each, **changed} if each["VpcConfigurationId"] == update["VpcConfigurationId"] else each
        for each in networks
    ]
