"""CloudWatch: alarms, dashboards, anomaly detectors."""

from __future__ import annotations

from typing import Any

from headrace.core.arn import partition_of
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    boolean,
    enforced,
    integers,
    tag_list,
    without,
)
from headrace.services.cloudformation.resources.declaration import Call, DeclaredType, Values
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same

_ALARM = (
    "ActionsEnabled",
    "AlarmActions",
    "AlarmDescription",
    "AlarmName",
    "ComparisonOperator",
    "DatapointsToAlarm",
    "Dimensions",
    "EvaluateLowSampleCountPercentile",
    "EvaluationPeriods",
    "ExtendedStatistic",
    "InsufficientDataActions",
    "MetricName",
    "Metrics",
    "Namespace",
    "OKActions",
    "Period",
    "Statistic",
    "Tags",
    "Threshold",
    "ThresholdMetricId",
    "TreatMissingData",
    "Unit",
)


def _put_alarm(context: Context, name: str, properties: Properties) -> ResourceResult:
    params: dict[str, Any] = integers(
        without(properties, "Tags"), "EvaluationPeriods", "DatapointsToAlarm", "Period"
    )
    params["AlarmName"] = name
    if "Threshold" in params:
        params["Threshold"] = float(params["Threshold"])
    if "ActionsEnabled" in params:
        params["ActionsEnabled"] = boolean(params["ActionsEnabled"])
    tags = tag_list(properties, context)
    if tags:
        params["Tags"] = tags
    context.call("cloudwatch", "PutMetricAlarm", params)
    arn = f"arn:{partition_of(context.region)}:cloudwatch:{context.region}:{context.account}:alarm:{name}"
    return ResourceResult(name, {"Arn": arn})


def _find_alarm(context: Context, properties: Properties) -> str | None:
    name = properties.get("AlarmName")
    if not name:
        return None
    answer = context.call("cloudwatch", "DescribeAlarms", {"AlarmNames": [name]})
    return name if answer.get("MetricAlarms") or answer.get("CompositeAlarms") else None


def _create_alarm(context: Context, properties: Properties) -> ResourceResult:
    return _put_alarm(
        context, properties.get("AlarmName") or context.generate_name(255), properties
    )


def _update_alarm(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    return _put_alarm(context, physical_id, new)


def _delete_alarm(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"AlarmNames": [physical_id]}
    context.delete_if_exists("cloudwatch", "DeleteAlarms", params, "ResourceNotFound")


TYPES = [
    ResourceType(
        "AWS::CloudWatch::Alarm",
        enforced(*_ALARM),
        _create_alarm,
        _delete_alarm,
        update=_update_alarm,
        replace_on=frozenset({"AlarmName"}),
        named_by=("AlarmName",),
        find=_find_alarm,
    ),
]


def _has_rule(values: Values) -> bool:
    rules = values.context.call("cloudwatch", "DescribeInsightRules", {}).get("InsightRules", [])
    return any(rule["Name"] == values.get("RuleName") for rule in rules)


def _has_composite_alarm(values: Values) -> bool:
    params = {"AlarmNames": [values.get("AlarmName")]}
    answer = values.context.call("cloudwatch", "DescribeAlarms", params)
    return bool(answer.get("CompositeAlarms") or answer.get("MetricAlarms"))


DECLARED = [
    DeclaredType(
        "AWS::CloudWatch::Dashboard",
        "cloudwatch",
        create=[Call("PutDashboard")],
        id="DashboardName",
        name="DashboardName",
        name_length=255,
        read=Call("GetDashboard", {"DashboardName": "@id"}),
        update=[Call("PutDashboard")],
        delete=[Call("DeleteDashboards", {"DashboardNames": lambda v: [v.id]})],
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
                f"arn:{partition_of(v.context.region)}:cloudwatch:{v.context.region}:{v.context.account}:alarm:{v.id}"
            )
        },
    ),
    DeclaredType(
        "AWS::CloudWatch::AnomalyDetector",
        "cloudwatch",
        create=[Call("PutAnomalyDetector")],
        id="@answer.AnomalyDetectorId",
        # The same metric is the same detector: its settings change in place.
        update=[Call("PutAnomalyDetector")],
        delete=[Call("DeleteAnomalyDetector", {"AnomalyDetectorId": "@id"})],
    ),
    DeclaredType(
        "AWS::CloudWatch::MetricStream",
        "cloudwatch",
        create=[Call("PutMetricStream")],
        id="Name",
        name="Name",
        name_length=255,
        read=Call("GetMetricStream", {"Name": "@id"}),
        update=[Call("PutMetricStream", tagged=False)],
        delete=[Call("DeleteMetricStream", {"Name": "@id"})],
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.Arn"),
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
                f"arn:{partition_of(v.context.region)}:cloudwatch:{v.context.region}:{v.context.account}:insight-rule/{v.id}"
            )
        },
    ),
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::CloudWatch::Alarm",
        "cloudwatch",
        (
            ReadCall(
                "DescribeAlarms",
                {"AlarmNames": ["@id"]},
                "MetricAlarms.0",
                same(
                    "ActionsEnabled AlarmActions AlarmDescription AlarmName "
                    "ComparisonOperator DatapointsToAlarm Dimensions "
                    "EvaluationPeriods ExtendedStatistic InsufficientDataActions "
                    "MetricName Metrics Namespace OKActions Period Statistic "
                    "Threshold TreatMissingData Unit"
                ),
            ),
        ),
        {"Arn": "AlarmArn"},
    ),
)
