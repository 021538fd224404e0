"""Auto Scaling: updates, and groups whose creation fails."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

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
