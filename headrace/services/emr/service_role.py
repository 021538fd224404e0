"""Checks whether a cluster's service role lets EMR start the nodes, which have no machines here.

Source: docs.aws.amazon.com/emr/latest/ManagementGuide/emr-iam-role.html (documented): the trust of
elasticmapreduce.amazonaws.com, ec2:RunInstances, and iam:PassRole of the nodes' role to EC2. The permissions that EMR
needs to describe networks and images are not checked, because there are no instances.
"""

from __future__ import annotations

from headrace.core.arn import make_arn, partition_of
from headrace.core.ports import CallerIdentity, Guard
from headrace.services.emr.errors import validation
from headrace.services.emr.state import Cluster

SERVICE = "elasticmapreduce.amazonaws.com"
# The session name is assumed.
SESSION = "EMR"


def role_arn(cluster: Cluster) -> str:
    """Return the service role's ARN; the request has its name or its ARN. Empty without a role."""
    role = str(cluster.request.get("ServiceRole") or "")
    if not role or role.startswith("arn:"):
        return role
    return f"arn:{partition_of(cluster.region)}:iam::{cluster.account}:role/{role}"


def check_service_role(guard: Guard, cluster: Cluster) -> None:
    """Raise AwsError when the service role does not exist or EMR may not assume it."""
    arn = role_arn(cluster)
    source = make_arn("elasticmapreduce", cluster.region, cluster.account, f"cluster/{cluster.id}")
    if arn and guard.denial(CallerIdentity(SERVICE, source_arn=source), "sts:AssumeRole", arn):
        # Assumed: AWS's sentence for a role that does not exist.
        raise validation(f"{cluster.request['ServiceRole']} is invalid")


def why_no_instances(guard: Guard, cluster: Cluster, node_role: str) -> str:
    """Return why the service role may not run instances; empty when it may.

    `node_role` is the ARN of the nodes' role; empty for none.
    """
    arn = role_arn(cluster)
    if not arn:
        return ""
    acting = CallerIdentity(arn, SESSION)
    tags = {f"aws:requesttag/{name.lower()}": (value,) for name, value in cluster.tags.items()}
    instances = make_arn("ec2", cluster.region, cluster.account, "instance/*")
    denied = [guard.denial(acting, "ec2:RunInstances", instances, tags)]
    if node_role:
        passed = {"iam:passedtoservice": ("ec2.amazonaws.com",)}
        denied.append(guard.denial(acting, "iam:PassRole", node_role, passed))
    sentence = next(filter(None, denied), "")
    # Assumed: no recorded answer was found.
    return f"Service role {arn} has insufficient EC2 permissions. {sentence}" if sentence else ""
