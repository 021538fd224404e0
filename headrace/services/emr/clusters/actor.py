"""Says as whom the nodes of a cluster ask something of the cloud: for its steps, its logs, its bootstrap actions."""

from __future__ import annotations

from headrace.services.emr.clusters.instance_ids import master_instance_id
from headrace.services.emr.state import Cluster, Step


def actor_of(cluster: Cluster, step: Step | None = None) -> tuple[str, str]:
    """Return the role as which the nodes act, and the name of its session.

    The role is a step's runtime role, else that of the instance profile; the session is EC2's id of the master.
    """
    runtime = "" if step is None else step.execution_role_arn
    role = runtime or str(cluster.request.get("JobFlowRole") or "")
    return role, master_instance_id(cluster)
