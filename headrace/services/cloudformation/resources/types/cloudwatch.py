"""CloudWatch: alarms, dashboards, anomaly detectors; its Logs: groups, streams, filters, destinations, deliveries."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    ALL,
    Call,
    DeclaredType,
    Source,
    Values,
    build_arn,
    declare_sources,
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


def _has_policy(values: Values) -> bool:
    policies = values.context.call("logs", "DescribeResourcePolicies", {}).get(
        "resourcePolicies", []
    )
    return any(policy["policyName"] == values.get("PolicyName") for policy in policies)


_FILTER = {"logGroupName": "LogGroupName", "filterName": "@last"}


@declare_sources("DestinationResourceArn")
def _delivery_resource(values: Values) -> dict[str, Any]:
    return {"destinationResourceArn": values.get("DestinationResourceArn")}


_GROUP: dict[str, Source] = {"logGroupName": "@id"}
_GROUP_ARN = build_arn("logs", "log-group:")
_RETAIN = Call("PutRetentionPolicy", _GROUP, when="RetentionInDays")

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
    DeclaredType(
        "AWS::Logs::LogGroup",
        "logs",
        create=[Call("CreateLogGroup"), _RETAIN],
        id="LogGroupName",
        update=[
            _RETAIN,
            Call("DeleteRetentionPolicy", _GROUP, without="RetentionInDays"),
            Call("AssociateKmsKey", _GROUP, when="KmsKeyId"),
            Call("DisassociateKmsKey", _GROUP, without="KmsKeyId"),
        ],
        delete=[Call("DeleteLogGroup", _GROUP)],
        name="LogGroupName",
        name_length=512,
        tag=("TagResource", "UntagResource", "resourceArn", _GROUP_ARN),
        attributes={"Arn": lambda v: f"{_GROUP_ARN(v)}:*"},
        enforced=frozenset({"LogGroupName", "Tags"}),
        refused=frozenset({"ResourcePolicyDocument"}),
    ),
    DeclaredType(
        "AWS::Logs::LogStream",
        "logs",
        create=[Call("CreateLogStream")],
        id="LogStreamName",
        delete=[Call("DeleteLogStream", {"logGroupName": "LogGroupName", "logStreamName": "@id"})],
        name="LogStreamName",
        name_length=512,
        enforced=ALL,
    ),
    DeclaredType(
        "AWS::Logs::SubscriptionFilter",
        "logs",
        create=[Call("PutSubscriptionFilter")],
        id="FilterName",
        read=Call(
            "DescribeSubscriptionFilters",
            {"logGroupName": "LogGroupName", "filterNamePrefix": "@last"},
        ),
        update=[Call("PutSubscriptionFilter", _FILTER)],
        delete=[Call("DeleteSubscriptionFilter", _FILTER)],
        name="FilterName",
        name_length=512,
    ),
    DeclaredType(
        "AWS::Logs::MetricFilter",
        "logs",
        create=[Call("PutMetricFilter")],
        id="FilterName",
        read=Call(
            "DescribeMetricFilters", {"logGroupName": "LogGroupName", "filterNamePrefix": "@last"}
        ),
        update=[Call("PutMetricFilter", _FILTER)],
        delete=[Call("DeleteMetricFilter", _FILTER)],
        name="FilterName",
        name_length=512,
    ),
    DeclaredType(
        "AWS::Logs::ResourcePolicy",
        "logs",
        create=[Call("PutResourcePolicy")],
        id="PolicyName",
        update=[Call("PutResourcePolicy")],
        delete=[Call("DeleteResourcePolicy", {"policyName": "@id"})],
        name="PolicyName",
        exists=_has_policy,
    ),
    DeclaredType(
        "AWS::Logs::Destination",
        "logs",
        create=[
            Call("PutDestination"),
            Call(
                "PutDestinationPolicy",
                {"destinationName": "@id", "accessPolicy": "DestinationPolicy"},
                only=(),
                when="DestinationPolicy",
            ),
        ],
        id="DestinationName",
        read=Call("DescribeDestinations", {"DestinationNamePrefix": "@last"}),
        update=[
            Call(
                "PutDestination", only=("RoleArn", "TargetArn"), members={"destinationName": "@id"}
            ),
            Call(
                "PutDestinationPolicy",
                {"destinationName": "@id", "accessPolicy": "DestinationPolicy"},
                only=(),
                when="DestinationPolicy",
            ),
        ],
        delete=[Call("DeleteDestination", {"destinationName": "@id"})],
        name="DestinationName",
        name_length=512,
    ),
    DeclaredType(
        "AWS::Logs::QueryDefinition",
        "logs",
        create=[Call("PutQueryDefinition")],
        id="@answer.queryDefinitionId",
        read=Call("DescribeQueryDefinitions", {"queryDefinitionNamePrefix": "Name"}),
        update=[Call("PutQueryDefinition", {"queryDefinitionId": "@id"})],
        delete=[Call("DeleteQueryDefinition", {"queryDefinitionId": "@id"})],
        unique=False,
    ),
    DeclaredType(
        "AWS::Logs::DeliverySource",
        "logs",
        create=[Call("PutDeliverySource")],
        id="Name",
        read=Call("GetDeliverySource", {"name": "@id"}),
        delete=[Call("DeleteDeliverySource", {"name": "@id"})],
        name="Name",
        name_length=60,
        attributes={
            "Arn": "@answer.deliverySource.arn",
            "Service": "@answer.deliverySource.service",
            "ResourceArns": "@answer.deliverySource.resourceArns",
        },
    ),
    DeclaredType(
        "AWS::Logs::DeliveryDestination",
        "logs",
        create=[
            Call(
                "PutDeliveryDestination",
                {"deliveryDestinationConfiguration": _delivery_resource},
            )
        ],
        id="Name",
        read=Call("GetDeliveryDestination", {"name": "@id"}),
        delete=[Call("DeleteDeliveryDestination", {"name": "@id"})],
        name="Name",
        name_length=60,
        attributes={"Arn": "@answer.deliveryDestination.arn"},
    ),
    DeclaredType(
        "AWS::Logs::Delivery",
        "logs",
        create=[Call("CreateDelivery")],
        id="@answer.delivery.id",
        read=Call("GetDelivery", {"id": "@id"}),
        delete=[Call("DeleteDelivery", {"id": "@id"})],
        attributes={
            "DeliveryId": "@id",
            "Arn": "@answer.delivery.arn",
            "DeliveryDestinationType": "@answer.delivery.deliveryDestinationType",
        },
    ),
]


# How they are read back; see `reading.py`.


def _log_group_arn(group: dict[str, Any]) -> str:
    return str(group["arn"]).removesuffix(":*") + ":*"


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
    ReadingRules(
        "AWS::Logs::LogGroup",
        "logs",
        (
            ReadCall(
                "DescribeLogGroups",
                {"logGroupNamePrefix": "@id", "limit": 1},
                "logGroups.0",
                same(
                    "",
                    LogGroupName="logGroupName",
                    RetentionInDays="retentionInDays",
                    KmsKeyId="kmsKeyId",
                    LogGroupClass=lambda group: group.get("logGroupClass", "STANDARD"),
                ),
            ),
        ),
        {"Arn": _log_group_arn},
    ),
)
