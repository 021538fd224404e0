"""Ids of instances, fleets and the master: made from the ids of what holds them, so the same every time."""

from __future__ import annotations

import hashlib

from headrace.services.emr.state import Cluster


def instance_ids(holder_id: str, number: int) -> tuple[str, str]:
    """Return EMR's and EC2's id of the instance with a number, from 0, in a group or fleet."""
    digest = hashlib.sha256(f"{holder_id}/{number}".encode()).hexdigest()
    return f"ci-{digest[:13].upper()}", f"i-{digest[:17]}"


def fleet_id(cluster: Cluster, kind: str) -> str:
    """Return a fleet's id, made from the cluster's: a cluster has at most one fleet of each kind."""
    return f"if-{kind[0]}{cluster.id[3:]}"


def master_instance_id(cluster: Cluster) -> str:
    """Return EC2's id of the master instance, as ListInstances returns it."""
    for group in cluster.groups:
        if group["InstanceRole"] == "MASTER":
            return instance_ids(group["Id"], 0)[1]
    for fleet in cluster.fleets:
        if fleet["InstanceFleetType"] == "MASTER":
            market = "ON_DEMAND" if fleet.get("TargetOnDemandCapacity") else "SPOT"
            return instance_ids(f"{fleet_id(cluster, 'MASTER')}/{market}", 0)[1]
    return instance_ids(cluster.id, 0)[1]
