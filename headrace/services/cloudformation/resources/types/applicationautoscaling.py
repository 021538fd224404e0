"""Application Auto Scaling: targets and policies."""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)

_PARTS = ("ResourceId", "ScalableDimension", "ServiceNamespace")


def _target(part: int) -> ComputedProperty:
    """Return a part of a scaling policy's target: from its own property, or from the target's id."""

    def find(values: Values) -> str | None:
        part_value = values.get(_PARTS[part])
        if part_value is None and values.get("ScalingTargetId"):
            target = str(values.get("ScalingTargetId"))
            if target.count("|") != len(_PARTS) - 1:
                raise AwsError("ValidationException", f"{target} is no scaling target.")  # assumed
            part_value = target.split("|")[part]
        return part_value

    return declare_sources(_PARTS[part], "ScalingTargetId")(find)


_TARGET: dict[str, Source] = {name: name for name in _PARTS}


_OF_TARGET: dict[str, Source] = {name: _target(at) for at, name in enumerate(_PARTS)}


def _is_scaled(values: Values) -> bool:
    params = {
        "ServiceNamespace": values.get("ServiceNamespace"),
        "ResourceIds": [values.get("ResourceId")],
        "ScalableDimension": values.get("ScalableDimension"),
    }
    answer = values.context.call("application-autoscaling", "DescribeScalableTargets", params)
    return bool(answer.get("ScalableTargets"))


def _has_scaling_policy(values: Values) -> bool:
    params = {
        "ServiceNamespace": _target(2)(values),
        "ResourceId": _target(0)(values),
        "ScalableDimension": _target(1)(values),
        "PolicyNames": [values.get("PolicyName")],
    }
    answer = values.context.call("application-autoscaling", "DescribeScalingPolicies", params)
    return bool(answer.get("ScalingPolicies"))


DECLARED = [
    DeclaredType(
        "AWS::ApplicationAutoScaling::ScalableTarget",
        "application-autoscaling",
        create=[Call("RegisterScalableTarget")],
        id=lambda v: "|".join(str(v.get(name)) for name in _PARTS),
        update=[Call("RegisterScalableTarget")],
        delete=[Call("DeregisterScalableTarget", _TARGET)],
        attributes={"Id": "@id"},
        exists=_is_scaled,
    ),
    DeclaredType(
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        "application-autoscaling",
        create=[Call("PutScalingPolicy", _OF_TARGET)],
        id="@answer.PolicyARN",
        exists=_has_scaling_policy,
        update=[Call("PutScalingPolicy", _OF_TARGET)],
        delete=[Call("DeleteScalingPolicy", {**_OF_TARGET, "PolicyName": "PolicyName"})],
        attributes={"Arn": "@id"},
    ),
]
