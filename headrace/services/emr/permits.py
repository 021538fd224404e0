"""Asks whether EMR may do with a cluster's service role what it does to start its nodes.

Source: docs.aws.amazon.com/emr/latest/ManagementGuide/emr-iam-role.html (documented): the trust of
elasticmapreduce.amazonaws.com, ec2:RunInstances, and iam:PassRole of the nodes' role to EC2. There are no instances
here, so that the many calls that only look at networks and images are not asked for.
"""

from __future__ import annotations

from headrace.core.arn import make_arn
from headrace.core.ports import Acting, Guard
from headrace.services.emr.errors import validation
from headrace.services.emr.state import Cluster

SERVICE = "elasticmapreduce.amazonaws.com"
# The name of the session is assumed.
SESSION = "EMR"


def role_arn(cluster: Cluster) -> str:
    """Return the ARN of the service role, which requests give by name or by ARN; empty without one."""
    given = str(cluster.request.get("ServiceRole") or "")
    if not given or given.startswith("arn:"):
        return given
    return f"arn:aws:iam::{cluster.account}:role/{given}"


def check_service_role(guard: Guard, cluster: Cluster) -> None:
    """Refuse a cluster whose service role EMR may not assume, or that is not there. Raises AwsError."""
    arn = role_arn(cluster)
    source = make_arn("elasticmapreduce", cluster.region, cluster.account, f"cluster/{cluster.id}")
    if arn and guard.denial(Acting(SERVICE, source_arn=source), "sts:AssumeRole", arn):
        # Assumed: the words that AWS has for a role that is not there.
        raise validation(f"{cluster.request['ServiceRole']} is invalid")


def why_no_instances(guard: Guard, cluster: Cluster, node_role: str) -> str:
    """Return why the cluster cannot start: its service role may not run instances; empty when it may.

    `node_role` is the ARN of the nodes' role; empty for none.
    """
    arn = role_arn(cluster)
    if not arn:
        return ""
    acting = Acting(arn, SESSION)
    tags = {f"aws:requesttag/{name.lower()}": (value,) for name, value in cluster.tags.items()}
    instances = make_arn("ec2", cluster.region, cluster.account, "instance/*")
    denied = [guard.denial(acting, "ec2:RunInstances", instances, tags)]
    if node_role:
        passed = {"iam:passedtoservice": ("ec2.amazonaws.com",)}
        denied.append(guard.denial(acting, "iam:PassRole", node_role, passed))
    sentence = next(filter(None, denied), "")
    # Assumed, no recorded answer was found.
    return f"Service role {arn} has insufficient EC2 permissions. {sentence}" if sentence else ""
