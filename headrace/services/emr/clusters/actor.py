"""The role with which a cluster's nodes call the cloud for steps, logs and bootstrap actions."""

from __future__ import annotations

from headrace.services.emr.clusters.instance_ids import master_instance_id
from headrace.services.emr.state import Cluster, Step


def actor_of(cluster: Cluster, step: Step | None = None) -> tuple[str, str]:
    """Return the role that the nodes use, and its session name.

    The role is the step's runtime role, else the instance profile's; the session name is the master's instance id.
    """
    runtime = "" if step is None else step.execution_role_arn
    role = runtime or str(cluster.request.get("JobFlowRole") or "")
    return role, master_instance_id(cluster)
