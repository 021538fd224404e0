"""Operations that change one setting of a cluster: its flags, tags and policies."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.core.values import get_list, present
from headrace.services.emr.actions.common import idle_timeout_s, job_flows
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import check_tag_keys
from headrace.services.emr.scaling import check_managed
from headrace.services.emr.state import Cluster


def _change_all(
    emr: Emr, call: Call, job_flow_ids: list[str], change: Callable[[Cluster], None]
) -> None:
    with emr.store.lock:
        clusters = job_flows(emr, call, job_flow_ids)
        for cluster in clusters:
            change(cluster)
            emr.store.save(cluster)
    for cluster in clusters:
        emr.wake(cluster.id)


def _change(emr: Emr, call: Call, cluster_id: str, change: Callable[[Cluster], None]) -> None:
    with emr.store.lock:
        cluster = emr.cluster(cluster_id, account=call.account, region=call.region)
        change(cluster)
        emr.store.save(cluster)
    emr.wake(cluster.id)


@operation("SetTerminationProtection")
def set_termination_protection(
    emr: Emr, call: Call, request: shapes.SetTerminationProtectionInput
) -> None:
    """Allow or forbid TerminateJobFlows."""

    def change(cluster: Cluster) -> None:
        cluster.termination_protected = request["TerminationProtected"]

    _change_all(emr, call, request["JobFlowIds"], change)


@operation("SetVisibleToAllUsers")
def set_visible_to_all_users(
    emr: Emr, call: Call, request: shapes.SetVisibleToAllUsersInput
) -> None:
    """Store VisibleToAllUsers, which has no effect."""

    def change(cluster: Cluster) -> None:
        cluster.visible = request["VisibleToAllUsers"]

    _change_all(emr, call, request["JobFlowIds"], change)


@operation("SetKeepJobFlowAliveWhenNoSteps")
def set_keep_job_flow_alive_when_no_steps(
    emr: Emr, call: Call, request: shapes.SetKeepJobFlowAliveWhenNoStepsInput
) -> None:
    """Set whether clusters wait or terminate after their last step."""

    def change(cluster: Cluster) -> None:
        cluster.keep_alive = request["KeepJobFlowAliveWhenNoSteps"]

    _change_all(emr, call, request["JobFlowIds"], change)


@operation("SetUnhealthyNodeReplacement")
def set_unhealthy_node_replacement(
    emr: Emr, call: Call, request: shapes.SetUnhealthyNodeReplacementInput
) -> None:
    """Store the setting; there are no nodes to replace."""

    def change(cluster: Cluster) -> None:
        cluster.replace_unhealthy = request["UnhealthyNodeReplacement"]

    _change_all(emr, call, request["JobFlowIds"], change)


@operation("AddTags")
def add_tags(emr: Emr, call: Call, request: shapes.AddTagsInput) -> shapes.AddTagsOutput:
    """Add tags, or overwrite the values of existing ones."""
    check_tag_keys(tag.get("Key", "") for tag in request["Tags"])

    def change(cluster: Cluster) -> None:
        cluster.tags.update({tag.get("Key", ""): tag.get("Value", "") for tag in request["Tags"]})

    _change(emr, call, request["ResourceId"], change)
    return {}


@operation("RemoveTags")
def remove_tags(emr: Emr, call: Call, request: shapes.RemoveTagsInput) -> shapes.RemoveTagsOutput:
    """Remove tags; a missing tag is not an error."""
    check_tag_keys(request["TagKeys"])

    def change(cluster: Cluster) -> None:
        for key in request["TagKeys"]:
            cluster.tags.pop(key, None)

    _change(emr, call, request["ResourceId"], change)
    return {}


@operation("PutAutoTerminationPolicy")
def put_auto_termination_policy(
    emr: Emr, call: Call, request: shapes.PutAutoTerminationPolicyInput
) -> shapes.PutAutoTerminationPolicyOutput:
    """Set after how many idle seconds the cluster terminates."""
    idle_s = idle_timeout_s(request.get("AutoTerminationPolicy") or {})

    def change(cluster: Cluster) -> None:
        cluster.idle_timeout_s = idle_s

    _change(emr, call, request["ClusterId"], change)
    return {}


@operation("GetAutoTerminationPolicy")
def get_auto_termination_policy(
    emr: Emr, call: Call, request: shapes.GetAutoTerminationPolicyInput
) -> shapes.GetAutoTerminationPolicyOutput:
    """Return the policy; nothing when there is none."""
    cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
    if cluster.idle_timeout_s is None:
        return {}
    return {"AutoTerminationPolicy": {"IdleTimeout": cluster.idle_timeout_s}}


@operation("RemoveAutoTerminationPolicy")
def remove_auto_termination_policy(
    emr: Emr, call: Call, request: shapes.RemoveAutoTerminationPolicyInput
) -> shapes.RemoveAutoTerminationPolicyOutput:
    """Remove the policy: the cluster waits without limit."""

    def change(cluster: Cluster) -> None:
        cluster.idle_timeout_s = None

    _change(emr, call, request["ClusterId"], change)
    return {}


@operation("PutManagedScalingPolicy")
def put_managed_scaling_policy(
    emr: Emr, call: Call, request: shapes.PutManagedScalingPolicyInput
) -> shapes.PutManagedScalingPolicyOutput:
    """Store the policy; there is nothing to scale."""
    policy = request["ManagedScalingPolicy"]

    def change(cluster: Cluster) -> None:
        fleets = bool(get_list(cluster.request["Instances"], "InstanceFleets"))
        check_managed(policy, fleets=fleets)
        cluster.managed_scaling = dict(policy)

    _change(emr, call, request["ClusterId"], change)
    return {}


@operation("GetManagedScalingPolicy")
def get_managed_scaling_policy(
    emr: Emr, call: Call, request: shapes.GetManagedScalingPolicyInput
) -> shapes.GetManagedScalingPolicyOutput:
    """Return the policy; nothing when there is none."""
    cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
    return present({"ManagedScalingPolicy": cluster.managed_scaling})


@operation("RemoveManagedScalingPolicy")
def remove_managed_scaling_policy(
    emr: Emr, call: Call, request: shapes.RemoveManagedScalingPolicyInput
) -> shapes.RemoveManagedScalingPolicyOutput:
    """Remove the policy."""

    def change(cluster: Cluster) -> None:
        cluster.managed_scaling = None

    _change(emr, call, request["ClusterId"], change)
    return {}
