"""Derives the ids of instances and fleets from the ids of their group or cluster, so that they are stable."""

from __future__ import annotations

import hashlib

from headrace.services.emr.state import Cluster


def instance_ids(holder_id: str, number: int) -> tuple[str, str]:
    """Return the EMR id and the EC2 id of instance `number` (from 0) in a group or fleet."""
    digest = hashlib.sha256(f"{holder_id}/{number}".encode()).hexdigest()
    return f"ci-{digest[:13].upper()}", f"i-{digest[:17]}"


def fleet_id(cluster: Cluster, kind: str) -> str:
    """Return a fleet's id, derived from the cluster's: a cluster has at most one fleet of each type."""
    return f"if-{kind[0]}{cluster.id[3:]}"


def master_instance_id(cluster: Cluster) -> str:
    """Return the master's EC2 instance id, as ListInstances returns it."""
    for group in cluster.groups:
        if group["InstanceRole"] == "MASTER":
            return instance_ids(group["Id"], 0)[1]
    for fleet in cluster.fleets:
        if fleet["InstanceFleetType"] == "MASTER":
            market = "ON_DEMAND" if fleet.get("TargetOnDemandCapacity") else "SPOT"
            return instance_ids(f"{fleet_id(cluster, 'MASTER')}/{market}", 0)[1]
    return instance_ids(cluster.id, 0)[1]
