"""Scaling policies: checks their limits, and describes a group's policy."""

from __future__ import annotations

import copy

from headrace.aws.shapes import emr as shapes
from headrace.services.emr.errors import invalid_request, validation
from headrace.services.emr.state import Cluster

# A dimension's placeholder for the cluster id (documented: emr-automatic-scaling).
_CLUSTER_ID = "${emr.clusterId}"


def check_constraints(policy: shapes.AutoScalingPolicy) -> None:
    """Raise AwsError when an automatic scaling policy's minimum exceeds its maximum; the sentence is assumed."""
    bounds = policy["Constraints"]
    if not 0 <= bounds["MinCapacity"] <= bounds["MaxCapacity"]:
        raise validation("MinCapacity must be at least 0 and not greater than MaxCapacity.")


def describe_policy(
    cluster: Cluster, policy: shapes.AutoScalingPolicy
) -> shapes.AutoScalingPolicyDescription:
    """Return a group's AutoScalingPolicyDescription for this cluster."""
    shown = copy.deepcopy(policy)
    for rule in shown["Rules"]:
        alarm = rule["Trigger"]["CloudWatchAlarmDefinition"]
        for dimension in alarm.get("Dimensions") or []:
            if dimension.get("Value") == _CLUSTER_ID:
                dimension["Value"] = cluster.id
    state = "DETACHED" if cluster.ending else "ATTACHED"
    return {
        "Status": {
            "State": state,
            "StateChangeReason": {"Code": "USER_REQUEST", "Message": ""},
        },
        **shown,
    }


def check_managed(policy: shapes.ManagedScalingPolicy, *, fleets: bool) -> None:
    """Raise AwsError when a managed scaling policy has contradictory limits or the wrong units for the cluster.

    Documented: API_ComputeLimits (fleets take InstanceFleetUnits, groups Instances or VCPU); the sentences are assumed.
    """
    limits = policy.get("ComputeLimits")
    if limits is None:
        return
    least, most = limits["MinimumCapacityUnits"], limits["MaximumCapacityUnits"]
    if least < 1 or most < least:
        raise invalid_request(
            "MinimumCapacityUnits must be at least 1 and not greater than MaximumCapacityUnits."
        )
    for name in ("MaximumOnDemandCapacityUnits", "MaximumCoreCapacityUnits"):
        if (limits.get(name) or 0) > most:
            raise invalid_request(f"{name} must not be greater than MaximumCapacityUnits.")
    if (limits["UnitType"] == "InstanceFleetUnits") is not fleets:
        kind = "fleets" if fleets else "groups"
        raise invalid_request(
            f"UnitType {limits['UnitType']} is not valid for a cluster that uses instance {kind}."
        )
