"""Requests that EMR accepts."""

from __future__ import annotations

from typing import Any

# The members without which AWS makes no cluster.
ROLES = {"ServiceRole": "EMR_DefaultRole", "JobFlowRole": "EMR_EC2_DefaultRole"}
ONE_MASTER = [{"InstanceRole": "MASTER", "InstanceType": "m5.xlarge", "InstanceCount": 1}]
RELEASE = "emr-spark-8.0.0"


def cluster_request(*, kept: bool = True, **more: Any) -> dict[str, Any]:
    """Return a RunJobFlow of one machine; `kept`: it waits for steps. `more` replaces members."""
    instances = {"InstanceGroups": ONE_MASTER, "KeepJobFlowAliveWhenNoSteps": kept}
    return {"Name": "c", "ReleaseLabel": RELEASE, "Instances": instances, **ROLES} | more


def is_configured(instances: Any) -> bool:
    """Return whether a request's Instances say which machines there are."""
    return not {"InstanceGroups", "InstanceFleets", "MasterInstanceType"}.isdisjoint(instances)
