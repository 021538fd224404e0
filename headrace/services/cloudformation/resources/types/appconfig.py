"""Operations: scaling targets, documents, configuration, backups, trails, deployments."""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.base import Properties, boolean
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Source,
    Values,
    computed_from,
    removed_tags,
)

_PARTS = ("ResourceId", "ScalableDimension", "ServiceNamespace")


def _target(part: int) -> ComputedProperty:
    """Return a part of a scaling policy's target: from its own property, or from the target's id."""

    def find(values: Values) -> str | None:
        given = values.get(_PARTS[part])
        if given is None and values.get("ScalingTargetId"):
            target = str(values.get("ScalingTargetId"))
            if target.count("|") != len(_PARTS) - 1:
                raise AwsError("ValidationException", f"{target} is no scaling target.")  # assumed
            given = target.split("|")[part]
        return given

    return computed_from(_PARTS[part], "ScalingTargetId")(find)


_TARGET: dict[str, Source] = {name: name for name in _PARTS}
_OF_TARGET: dict[str, Source] = {name: _target(at) for at, name in enumerate(_PARTS)}
_APPLICATION = {"ApplicationId": "@id"}


def _vault(values: Values) -> str:
    place = values.context.region, values.context.account
    return make_arn("backup", *place, f"backup-vault:{values.id}")


def _has_gone(name: str) -> Callable[[Values], bool]:
    """Return whether an update removes tags."""
    return lambda values: removed_tags(name)(values) is not None


def _is_replaced(properties: Properties) -> bool:
    """Whether a document is replaced when it changes: the default UpdateMethod (documented)."""
    return properties.get("UpdateMethod") != "NewVersion"


_DOCUMENT: dict[str, Source] = {"ResourceType": lambda _: "Document", "ResourceId": "@id"}


def _pairs(values: Values) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in values.tags.items()]


def _is_scaled(values: Values) -> bool:
    params = {
        "ServiceNamespace": values.get("ServiceNamespace"),
        "ResourceIds": [values.get("ResourceId")],
        "ScalableDimension": values.get("ScalableDimension"),
    }
    answer = values.context.call("application-autoscaling", "DescribeScalableTargets", params)
    return bool(answer.get("ScalableTargets"))


def _has_rule(values: Values) -> bool:
    found = values.context.call("cloudwatch", "DescribeInsightRules", {}).get("InsightRules", [])
    return any(each["Name"] == values.get("RuleName") for each in found)


def _has_composite_alarm(values: Values) -> bool:
    params = {"AlarmNames": [values.get("AlarmName")]}
    found = values.context.call("cloudwatch", "DescribeAlarms", params)
    return bool(found.get("CompositeAlarms") or found.get("MetricAlarms"))


def _has_scaling_policy(values: Values) -> bool:
    params = {
        "ServiceNamespace": _target(2)(values),
        "ResourceId": _target(0)(values),
        "ScalableDimension": _target(1)(values),
        "PolicyNames": [values.get("PolicyName")],
    }
    answer = values.context.call("application-autoscaling", "DescribeScalingPolicies", params)
    return bool(answer.get("ScalingPolicies"))


TYPES = [
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
    DeclaredType(
        "AWS::SSM::Document",
        "ssm",
        create=[Call("CreateDocument")],
        id="Name",
        read=Call("DescribeDocument", {"Name": "@id"}),
        recreated_if=_is_replaced,
        update=[
            Call(
                "UpdateDocument",
                {"Name": "@id", "DocumentVersion": lambda _: "$LATEST"},
                only=("Content", "Attachments", "VersionName", "DocumentFormat", "TargetType"),
            ),
            Call(
                "UpdateDocumentDefaultVersion",
                {
                    "Name": "@id",
                    # Assumed: the version that a template creates is the one that runs.
                    "DocumentVersion": computed_from("Content")(
                        lambda v: v.answer["DocumentDescription"]["DocumentVersion"]
                    ),
                },
                only=(),
                only_if=lambda v: "DocumentDescription" in v.answer,
            ),
            Call(
                "AddTagsToResource",
                {**_DOCUMENT, "Tags": computed_from("Tags")(lambda v: _pairs(v) or None)},
                only=(),
                when="Tags",
            ),
            Call(
                "RemoveTagsFromResource",
                {**_DOCUMENT, "TagKeys": removed_tags("Tags")},
                only=(),
                only_if=_has_gone("Tags"),
            ),
        ],
        delete=[Call("DeleteDocument", {"Name": "@id"})],
        name="Name",
        name_length=128,
    ),
    DeclaredType(
        "AWS::CloudWatch::CompositeAlarm",
        "cloudwatch",
        create=[Call("PutCompositeAlarm")],
        id="AlarmName",
        exists=_has_composite_alarm,
        update=[Call("PutCompositeAlarm")],
        delete=[Call("DeleteAlarms", {"AlarmNames": lambda v: [v.id]})],
        name="AlarmName",
        attributes={
            "Arn": lambda v: (
                f"arn:aws:cloudwatch:{v.context.region}:{v.context.account}:alarm:{v.id}"
            )
        },
    ),
    DeclaredType(
        "AWS::CloudWatch::InsightRule",
        "cloudwatch",
        create=[Call("PutInsightRule", {"RuleDefinition": "RuleBody"})],
        id="RuleName",
        update=[Call("PutInsightRule", {"RuleDefinition": "RuleBody"})],
        delete=[Call("DeleteInsightRules", {"RuleNames": lambda v: [v.id]})],
        exists=_has_rule,
        attributes={
            "Arn": lambda v: (
                f"arn:aws:cloudwatch:{v.context.region}:{v.context.account}:insight-rule/{v.id}"
            )
        },
    ),
    DeclaredType(
        "AWS::AppConfig::Application",
        "appconfig",
        create=[Call("CreateApplication")],
        id="@answer.Id",
        update=[Call("UpdateApplication", _APPLICATION)],
        delete=[Call("DeleteApplication", _APPLICATION)],
        attributes={"ApplicationId": "@id"},
    ),
    DeclaredType(
        "AWS::AppConfig::ConfigurationProfile",
        "appconfig",
        create=[Call("CreateConfigurationProfile")],
        id="@answer.Id",
        update=[Call("UpdateConfigurationProfile", {"ConfigurationProfileId": "@id"})],
        delete=[
            Call(
                "DeleteConfigurationProfile",
                {"ApplicationId": "ApplicationId", "ConfigurationProfileId": "@id"},
            )
        ],
        attributes={"ConfigurationProfileId": "@id"},
    ),
    DeclaredType(
        "AWS::AppConfig::HostedConfigurationVersion",
        "appconfig",
        create=[Call("CreateHostedConfigurationVersion")],
        id=lambda v: str(v.answer["VersionNumber"]),
        delete=[
            Call(
                "DeleteHostedConfigurationVersion",
                {
                    "ApplicationId": "ApplicationId",
                    "ConfigurationProfileId": "ConfigurationProfileId",
                    "VersionNumber": "@id",
                },
            )
        ],
        attributes={"VersionNumber": "@id"},
    ),
    DeclaredType(
        "AWS::Backup::BackupVault",
        "backup",
        create=[Call("CreateBackupVault")],
        id="BackupVaultName",
        update=[
            Call(
                "TagResource",
                {"ResourceArn": _vault, "Tags": "BackupVaultTags"},
                only=(),
                when="BackupVaultTags",
            ),
            Call(
                "UntagResource",
                {"ResourceArn": _vault, "TagKeyList": removed_tags("BackupVaultTags")},
                only=(),
                only_if=_has_gone("BackupVaultTags"),
            ),
        ],
        delete=[Call("DeleteBackupVault", {"BackupVaultName": "@id"})],
        name="BackupVaultName",
        name_length=50,
    ),
    DeclaredType(
        "AWS::Backup::BackupPlan",
        "backup",
        create=[Call("CreateBackupPlan")],
        id="@answer.BackupPlanId",
        delete=[Call("DeleteBackupPlan", {"BackupPlanId": "@id"})],
        names={"BackupPlanRule": "Rules", "TargetBackupVault": "TargetBackupVaultName"},
        attributes={"BackupPlanId": "@id"},
    ),
    DeclaredType(
        "AWS::CloudTrail::Trail",
        "cloudtrail",
        create=[
            Call(
                "CreateTrail",
                {
                    "Name": "TrailName",
                    "TagsList": lambda v: (
                        [{"Key": k, "Value": x} for k, x in v.tags.items()] or None
                    ),
                },
            ),
            Call(
                "PutEventSelectors",
                {"TrailName": "@id", "EventSelectors": "EventSelectors"},
                only=(),
                when="EventSelectors",
            ),
            Call(
                "StartLogging",
                {"Name": "@id"},
                only=(),
                when="IsLogging",
                only_if=lambda v: boolean(v.get("IsLogging") or False),
            ),
        ],
        id="@answer.Name",
        read=Call("GetTrail", {"Name": "@id"}),
        update=[
            Call("UpdateTrail", {"Name": "@id"}),
            Call(
                "StartLogging",
                {"Name": computed_from("IsLogging")(lambda v: v.id)},
                only=(),
                only_if=lambda v: boolean(v.get("IsLogging") or False),
            ),
            Call(
                "StopLogging",
                {"Name": computed_from("IsLogging")(lambda v: v.id)},
                only=(),
                only_if=lambda v: not boolean(v.get("IsLogging") or False),
            ),
            Call(
                "PutEventSelectors",
                {"TrailName": "@id", "EventSelectors": "EventSelectors"},
                only=(),
                when="EventSelectors",
            ),
        ],
        delete=[Call("DeleteTrail", {"Name": "@id"})],
        name="TrailName",
        name_length=128,
        attributes={"Arn": "@answer.TrailARN", "SnsTopicArn": "@answer.Trail.SnsTopicARN"},
    ),
]
