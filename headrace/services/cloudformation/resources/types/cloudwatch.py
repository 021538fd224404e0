"""CloudWatch: alarms, dashboards, anomaly detectors."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import (
    ALL,
    Call,
    DeclaredType,
    Values,
    build_arn,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same


def _has_rule(values: Values) -> bool:
    rules = values.context.call("cloudwatch", "DescribeInsightRules", {}).get("InsightRules", [])
    return any(rule["Name"] == values.get("RuleName") for rule in rules)


def _has_alarm(values: Values) -> bool:
    params = {"AlarmNames": [values.get("AlarmName")]}
    answer = values.context.call("cloudwatch", "DescribeAlarms", params)
    return bool(answer.get("CompositeAlarms") or answer.get("MetricAlarms"))


_ALARM_ARN = build_arn("cloudwatch", "alarm:")
_NEW = ("ActionConfiguration", "EvaluationCriteria", "EvaluationInterval", "EvaluationWindow")

DECLARED = [
    DeclaredType(
        "AWS::CloudWatch::Alarm",
        "cloudwatch",
        create=[Call("PutMetricAlarm")],
        id="AlarmName",
        exists=_has_alarm,
        update=[Call("PutMetricAlarm")],
        delete=[Call("DeleteAlarms", {"AlarmNames": lambda v: [v.id]})],
        name="AlarmName",
        name_length=255,
        tag=("TagResource", "UntagResource", "ResourceARN", _ALARM_ARN),
        attributes={"Arn": _ALARM_ARN},
        enforced=ALL,
        refused=frozenset({*_NEW, "WarmUpConfiguration"}),
    ),
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
        exists=_has_alarm,
        update=[Call("PutCompositeAlarm")],
        delete=[Call("DeleteAlarms", {"AlarmNames": lambda v: [v.id]})],
        name="AlarmName",
        attributes={"Arn": _ALARM_ARN},
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
        attributes={"Arn": build_arn("cloudwatch", "insight-rule/")},
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
