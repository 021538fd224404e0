"""PutAutoScalingPolicy and RemoveAutoScalingPolicy: a group's policy is only stored and shown."""

from __future__ import annotations

import copy

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import emr as shapes
from headrace.services.emr.actions.common import cluster_arn
from headrace.services.emr.actions.instance_groups import group_of
from headrace.services.emr.backend import Emr
from headrace.services.emr.errors import ended_job_flow, validation
from headrace.services.emr.scaling import check_constraints, describe_policy


@operation("PutAutoScalingPolicy")
def put_auto_scaling_policy(
    emr: Emr, call: Call, request: shapes.PutAutoScalingPolicyInput
) -> shapes.PutAutoScalingPolicyOutput:
    """Attach a policy to a core or task group. Source: API_PutAutoScalingPolicy."""
    policy = copy.deepcopy(request["AutoScalingPolicy"])
    check_constraints(policy)
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        if cluster.ending:
            raise ended_job_flow()
        group = group_of(cluster, request["InstanceGroupId"])
        if group["InstanceRole"] == "MASTER":
            raise validation("An automatic scaling policy is for core and task instance groups.")
        group["AutoScalingPolicy"] = policy
        emr.store.save(cluster)
    return {
        "ClusterId": cluster.id,
        "InstanceGroupId": group["Id"],
        "AutoScalingPolicy": describe_policy(cluster, policy),
        "ClusterArn": cluster_arn(cluster),
    }


@operation("RemoveAutoScalingPolicy")
def remove_auto_scaling_policy(
    emr: Emr, call: Call, request: shapes.RemoveAutoScalingPolicyInput
) -> shapes.RemoveAutoScalingPolicyOutput:
    """Remove a group's policy, if it has one. Source: API_RemoveAutoScalingPolicy."""
    with emr.store.lock:
        cluster = emr.cluster(request["ClusterId"], account=call.account, region=call.region)
        group_of(cluster, request["InstanceGroupId"]).pop("AutoScalingPolicy", None)
        emr.store.save(cluster)
    return {}
