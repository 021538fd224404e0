"""Auto Scaling: updates, and groups whose creation fails. Application Auto Scaling: the form of a target's id."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import re
from typing import Any

from headrace.moto.patching import create_wholly


def undo_partial_groups(module: Any) -> None:
    """Patch `moto.autoscaling.models`, which looks for target groups after it has stored the group."""
    create_wholly(module.AutoScalingBackend, "create_auto_scaling_group", "autoscaling_groups")


def allow_updates(module: Any) -> None:
    """Allow updates of a group's rebalancing, termination policies, cooldown and placement, which moto does not change.

    A scaling policy's ARN is answered under AWS's name of the member, which moto misspells.
    """
    from moto.core.responses import ActionResult

    response = module.AutoScalingResponse
    of_moto = response.update_auto_scaling_group

    def update_auto_scaling_group(self: Any) -> Any:
        answer = of_moto(self)
        name = self._get_param("AutoScalingGroupName")
        group = self.autoscaling_backend.autoscaling_groups[name]
        if (rebalance := self._get_bool_param("CapacityRebalance", None)) is not None:
            group.capacity_rebalance = rebalance
        if (cooldown := self._get_int_param("DefaultCooldown", None)) is not None:
            group.default_cooldown = cooldown
        if (placement := self._get_param("PlacementGroup", None)) is not None:
            group.placement_group = placement
        if (policies := self._get_param("TerminationPolicies", None)) is not None:
            group.termination_policies = policies or ["Default"]
        return answer

    put_policy_of_moto = response.put_scaling_policy

    def put_scaling_policy(self: Any) -> ActionResult:
        result = put_policy_of_moto(self).result
        return ActionResult({"PolicyARN": result["PolicyArn"], "Alarms": []})

    response.update_auto_scaling_group = update_auto_scaling_group
    response.put_scaling_policy = put_scaling_policy


# The form of a resource's id, by the first two parts of its dimension; others have any form.
# docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html, `ResourceId` (documented).
_NAME = "[^/]+"
_RESOURCE_IDS = {
    "appstream:fleet": re.compile(f"fleet/{_NAME}"),
    "cassandra:table": re.compile(f"keyspace/{_NAME}/table/{_NAME}"),
    "comprehend:document-classifier-endpoint": re.compile("arn:.+:document-classifier-endpoint/.+"),
    "comprehend:entity-recognizer-endpoint": re.compile("arn:.+:entity-recognizer-endpoint/.+"),
    "dynamodb:index": re.compile(f"table/{_NAME}/index/{_NAME}"),
    "dynamodb:table": re.compile(f"table/{_NAME}"),
    "ec2:spot-fleet-request": re.compile(f"spot-fleet-request/{_NAME}"),
    "ecs:service": re.compile(f"service/{_NAME}/{_NAME}"),
    "elasticmapreduce:instancefleet": re.compile(f"instancefleet/{_NAME}/{_NAME}"),
    "elasticmapreduce:instancegroup": re.compile(f"instancegroup/{_NAME}/{_NAME}"),
    "lambda:function": re.compile("function:[^:]+:[^:]+"),
    "neptune:cluster": re.compile("cluster:[^:]+"),
    "rds:cluster": re.compile("cluster:[^:]+"),
    "sagemaker:variant": re.compile(f"endpoint/{_NAME}/variant/{_NAME}"),
}


def refuse_malformed_ids(module: Any) -> None:
    """Patch `moto.applicationautoscaling.models`, which takes a malformed id apart, or stores it.

    The sentence is AWS's for a type that does not fit (observed by many); for a malformed id it is assumed.
    """
    from moto.applicationautoscaling.exceptions import AWSValidationException

    are_valid = module._target_params_are_valid

    @functools.wraps(are_valid)
    def are_valid_with_id(namespace: str, r_id: str, dimension: str) -> bool:
        form = _RESOURCE_IDS.get(str(dimension).rpartition(":")[0])
        if form is not None and not form.fullmatch(r_id):
            raise AWSValidationException(
                "Unsupported service namespace, resource type or scalable dimension"
            )
        return are_valid(namespace, r_id, dimension)

    module._target_params_are_valid = are_valid_with_id
