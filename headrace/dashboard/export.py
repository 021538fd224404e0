"""The pipeline's figures for AWS: a CloudWatch dashboard, the same as CDK code, and alarms of the iterator age."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.dashboard.inventory import Inventory

Metrics = list[list[Any]]
# An alarm that this cloud cannot reason from history starts at this age.
DEFAULT_AGE_MS = 60_000
_LEAST_AGE_MS = 10_000
# How far above the worst of the last day an alarm is set.
_MARGIN = 3


def _metrics_of(kind: str, name: str) -> list[tuple[str, Metrics]]:
    """Return title and metrics of the graphs of a resource; AWS's names (documented)."""
    match kind:
        case "stream":
            where = ["StreamName", name]
            return [
                (
                    "records",
                    [
                        ["AWS/Kinesis", one, *where]
                        for one in ("IncomingRecords", "GetRecords.Records")
                    ],
                ),
                (
                    "age",
                    [
                        [
                            "AWS/Kinesis",
                            "GetRecords.IteratorAgeMilliseconds",
                            *where,
                            {"stat": "Maximum"},
                        ]
                    ],
                ),
            ]
        case "function":
            where = ["FunctionName", name]
            return [
                (
                    "invocations",
                    [["AWS/Lambda", one, *where] for one in ("Invocations", "Errors", "Throttles")],
                ),
                ("age", [["AWS/Lambda", "IteratorAge", *where, {"stat": "Maximum"}]]),
            ]
        case "delivery":
            where = ["DeliveryStreamName", name]
            return [
                (
                    "records",
                    [
                        ["AWS/Firehose", one, *where]
                        for one in ("IncomingRecords", "DeliveryToS3.Records")
                    ],
                ),
                (
                    "freshness",
                    [["AWS/Firehose", "DeliveryToS3.DataFreshness", *where, {"stat": "Maximum"}]],
                ),
            ]
        case "queue":
            where = ["QueueName", name]
            return [("messages", [["AWS/SQS", "ApproximateNumberOfMessagesVisible", *where]])]
        case _:
            return []


def cloudwatch_dashboard(inventory: Inventory, region: str) -> dict[str, Any]:
    """Return the body of PutDashboard: two graphs a row, a row for each resource with metrics."""
    widgets: list[dict[str, Any]] = []
    for resource in inventory.resources.values():
        for column, (title, metrics) in enumerate(_metrics_of(resource.kind, resource.name)):
            widgets.append(
                {
                    "type": "metric",
                    "x": 12 * column,
                    "y": 6 * len(widgets) // 2,
                    "width": 12,
                    "height": 6,
                    "properties": {
                        "title": f"{resource.kind} {resource.name}: {title}",
                        "region": region,
                        "period": 60,
                        "stat": "Sum",
                        "view": "timeSeries",
                        "metrics": metrics,
                    },
                }
            )
    # CloudWatch takes at most 500 widgets a dashboard.
    return {"widgets": widgets[:500]}


def suggested_alarms(
    inventory: Inventory, lags_ms: Mapping[str, Sequence[int]]
) -> list[dict[str, Any]]:
    """Return PutMetricAlarm's parameters: the iterator age of each function that reads a stream."""
    alarms: dict[str, dict[str, Any]] = {}
    for edge in inventory.edges:
        if not (edge.via.startswith("mapping:") and edge.end.startswith("function:")):
            continue
        if not edge.start.startswith("stream:"):
            continue
        function = edge.end.removeprefix("function:")
        past = lags_ms.get(edge.via, ())
        worst_ms = max(past, default=0)
        threshold_ms = max(_LEAST_AGE_MS, _MARGIN * worst_ms) if past else DEFAULT_AGE_MS
        alarms[function] = {
            "AlarmName": f"{function}-iterator-age",
            "Namespace": "AWS/Lambda",
            "MetricName": "IteratorAge",
            "Dimensions": [{"Name": "FunctionName", "Value": function}],
            "Statistic": "Maximum",
            "Period": 60,
            "EvaluationPeriods": 5,
            "Threshold": threshold_ms,
            "ComparisonOperator": "GreaterThanThreshold",
            "TreatMissingData": "notBreaching",
            "AlarmDescription": f"Highest age of the last day: {worst_ms} ms, of {len(past)} busy minutes.",
        }
    return list(alarms.values())


def cdk_code(inventory: Inventory, region: str) -> str:
    """Return a Python CDK stack with the dashboard and the alarms; names are JSON texts, so that none is code."""
    body = json.dumps(cloudwatch_dashboard(inventory, region), indent=2)
    lines = [
        "import json",
        "",
        "from aws_cdk import Stack",
        "from aws_cdk import aws_cloudwatch as cloudwatch",
        "from constructs import Construct",
        "",
        f"DASHBOARD = json.loads({json.dumps(body)})",
        f"ALARMS = json.loads({json.dumps(json.dumps(suggested_alarms(inventory, {})))})",
        "",
        "",
        "class PipelineDashboard(Stack):",
        "    def __init__(self, scope: Construct, id: str, **kwargs) -> None:",
        "        super().__init__(scope, id, **kwargs)",
        '        cloudwatch.CfnDashboard(self, "Dashboard", dashboard_body=json.dumps(DASHBOARD))',
        "        for number, alarm in enumerate(ALARMS):",
        "            cloudwatch.CfnAlarm(",
        '                self, f"IteratorAge{number}",',
        '                alarm_name=alarm["AlarmName"], namespace=alarm["Namespace"],',
        '                metric_name=alarm["MetricName"], statistic=alarm["Statistic"],',
        '                period=alarm["Period"], evaluation_periods=alarm["EvaluationPeriods"],',
        '                threshold=alarm["Threshold"],',
        '                comparison_operator=alarm["ComparisonOperator"],',
        '                treat_missing_data=alarm["TreatMissingData"],',
        "                dimensions=[",
        '                    cloudwatch.CfnAlarm.DimensionProperty(name=d["Name"], value=d["Value"])',
        '                    for d in alarm["Dimensions"]',
        "                ],",
        "            )",
        "",
    ]
    return "\n".join(lines)
