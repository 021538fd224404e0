"""The pipeline's figures for AWS: a CloudWatch dashboard, the same as CDK code, and alarms of a reader's age."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.dashboard.inventory import Inventory
from headrace.dashboard.sampler import Point

Metrics = list[list[Any]]
# An alarm that this cloud cannot reason from history starts at this age.
DEFAULT_AGE_MS = 60_000
_LEAST_AGE_MS = 10_000
# How far above the worst of the last day an alarm is set.
_MARGIN = 3
# The most time before the loss at which the forecast's alarm is raised.
MOST_HORIZON_S = 12 * 3600
# The age's slope in CloudWatch is that between two such periods.
AGE_PERIOD_S = 300
# An age that grows more slowly (seconds a second) is steady.
LEAST_SLOPE = 0.001
# By the kind of a reader: namespace, metric and dimension of its age, and the metric's units in a second.
_AGES = {
    "function": ("AWS/Lambda", "IteratorAge", "FunctionName", 1000),
    "delivery": ("AWS/Firehose", "DeliveryToS3.DataFreshness", "DeliveryStreamName", 1),
}


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


@dataclass(frozen=True, slots=True)
class Forecast:
    """When the records that wait for a reader of a stream expire, from the slope of their age.

    The age of the oldest waiting record grows by at most a second a second, which it does when nothing is read. If it
    goes on growing at its present slope, it is `age + horizon * slope` after the horizon; once that reaches the
    stream's retention, records are lost within the horizon unless somebody acts. The horizon is a quarter of the
    retention, at most twelve hours: what is left to act when a reader that has stopped raises the alarm.

    Attributes:
        reader: the id of the function or delivery, which has its age on AWS.
        via: the id of what has the reader's lag on this cloud: the mapping, or the delivery itself.
        metric: namespace, name and dimensions of the age in CloudWatch.
        per_s: how many units of the metric are a second.
    """

    reader: str
    via: str
    retention_s: int
    metric: tuple[str, str, str, str]
    per_s: int

    @property
    def horizon_s(self) -> int:
        """How long before the loss the alarm is raised."""
        return min(self.retention_s // 4, MOST_HORIZON_S)

    @property
    def expression(self) -> str:
        """The metric math; RATE is the change a second (documented)."""
        return f"age + {self.horizon_s} * RATE(age)"

    @property
    def threshold(self) -> int:
        """The retention in the metric's units."""
        return self.retention_s * self.per_s

    def now(self, points: Sequence[Point]) -> dict[str, Any]:
        """Return the newest age, its slope (seconds a second, least squares), and in how long records expire, or None.

        `points` are those of the last minutes; without two that have an age there is no slope.
        """
        ages = [
            (at_ms / 1000, lag_ms / 1000) for at_ms, _, lag_ms, _ in points if lag_ms is not None
        ]
        age_s, slope = ages[-1][1] if ages else None, _slope(ages)
        expires_s = None
        if age_s is not None and slope is not None and slope > LEAST_SLOPE and age_s > 0:
            expires_s = max(0.0, (self.retention_s - age_s) / slope)
        return {
            "reader": self.reader,
            "retentionS": self.retention_s,
            "horizonS": self.horizon_s,
            "ageS": age_s,
            "slope": None if slope is None else round(slope, 4),
            "expiresInS": expires_s,
            "isDue": expires_s is not None and expires_s <= self.horizon_s,
        }


def _slope(points: Sequence[tuple[float, float]]) -> float | None:
    if len(points) < 2:
        return None
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread if spread else None


def forecasts_of(inventory: Inventory) -> list[Forecast]:
    """Return the forecast of each function and delivery that reads a stream; of several, that of least retention."""
    by_reader: dict[str, Forecast] = {}
    for edge in inventory.edges:
        kind, _, name = edge.end.partition(":")
        hours = inventory.resources[edge.start].facts.get("retentionHours")
        if not edge.start.startswith("stream:") or kind not in _AGES or not hours:
            continue
        namespace, metric, dimension, per_s = _AGES[kind]
        one = Forecast(
            edge.end,
            edge.via or edge.end,
            int(hours) * 3600,
            (namespace, metric, dimension, name),
            per_s,
        )
        known = by_reader.get(edge.end)
        if known is None or one.retention_s < known.retention_s:
            by_reader[edge.end] = one
    return list(by_reader.values())


def cloudwatch_dashboard(inventory: Inventory, region: str) -> dict[str, Any]:
    """Return the body of PutDashboard: a row for each resource with metrics; a reader's has the forecast of its age."""
    widgets: list[dict[str, Any]] = []
    forecasts = {one.reader: one for one in forecasts_of(inventory)}
    row = 0
    for resource in inventory.resources.values():
        graphs: list[tuple[str, dict[str, Any]]] = [
            (title, {"metrics": metrics})
            for title, metrics in _metrics_of(resource.kind, resource.name)
        ]
        if forecast := forecasts.get(resource.id):
            graphs.append((f"age in {_hours(forecast.horizon_s)}", _forecast_graph(forecast)))
        width = 24 // max(1, len(graphs))
        for column, (title, members) in enumerate(graphs):
            properties = {
                "title": f"{resource.kind} {resource.name}: {title}",
                "region": region,
                "period": 60,
                "stat": "Sum",
                "view": "timeSeries",
                **members,
            }
            place = {"x": width * column, "y": 6 * row, "width": width, "height": 6}
            widgets.append({"type": "metric", **place, "properties": properties})
        row += bool(graphs)
    # CloudWatch takes at most 500 widgets a dashboard.
    return {"widgets": widgets[:500]}


def _forecast_graph(forecast: Forecast) -> dict[str, Any]:
    age = [*forecast.metric, {"id": "age", "stat": "Maximum", "period": AGE_PERIOD_S}]
    label = f"age in {_hours(forecast.horizon_s)}, at this slope"
    limit = {"label": "records expire", "value": forecast.threshold}
    return {
        "metrics": [age, [{"id": "forecast", "expression": forecast.expression, "label": label}]],
        "annotations": {"horizontal": [limit]},
    }


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:g} h"


def suggested_alarms(
    inventory: Inventory, lags_ms: Mapping[str, Sequence[int]]
) -> list[dict[str, Any]]:
    """Return PutMetricAlarm's parameters: of each reader of a stream the age beyond the usual, and by forecast.

    `lags_ms` has the lags of the last day by reader.
    """
    alarms: list[dict[str, Any]] = []
    for forecast in forecasts_of(inventory):
        namespace, metric, dimension, name = forecast.metric
        measured = {
            "Namespace": namespace,
            "MetricName": metric,
            "Dimensions": [{"Name": dimension, "Value": name}],
        }
        # A function and a delivery may have the same name.
        age_words = "iterator-age" if forecast.reader.startswith("function:") else "delivery-age"
        past = lags_ms.get(forecast.reader, ())
        worst_ms = max(past, default=0)
        usual_ms = max(_LEAST_AGE_MS, _MARGIN * worst_ms) if past else DEFAULT_AGE_MS
        why = (
            f"{_MARGIN} times the highest age of the last day ({worst_ms / 1000:.1f} s, busy minutes: {len(past)})"
            if past
            else "no busy minute in the last day to reason from"
        )
        alarms.append(
            {
                "AlarmName": f"{name}-{age_words}",
                **measured,
                "Statistic": "Maximum",
                "Period": 60,
                "EvaluationPeriods": 5,
                "Threshold": usual_ms * forecast.per_s // 1000,
                "ComparisonOperator": "GreaterThanThreshold",
                "TreatMissingData": "notBreaching",
                "AlarmDescription": f"Later than usual: {why}.",
            }
        )
        alarms.append(_forecast_alarm(f"{name}-{age_words}-forecast", measured, forecast))
    return alarms


def _forecast_alarm(name: str, measured: Mapping[str, Any], forecast: Forecast) -> dict[str, Any]:
    """Return the alarm that goes off while there is still time to react."""
    stat = {"Metric": measured, "Period": AGE_PERIOD_S, "Stat": "Maximum"}
    horizon = _hours(forecast.horizon_s)
    return {
        "AlarmName": name,
        "Metrics": [
            {"Id": "age", "MetricStat": stat, "ReturnData": False},
            {
                "Id": "forecast",
                "Expression": forecast.expression,
                "Label": f"age in {horizon}",
                "ReturnData": True,
            },
        ],
        "EvaluationPeriods": 3,
        "Threshold": forecast.threshold,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": "notBreaching",
        "AlarmDescription": f"At this slope the age reaches the retention of {_hours(forecast.retention_s)} "
        f"within {horizon}: records are lost.",
    }


def cdk_code(
    inventory: Inventory, region: str, lags_ms: Mapping[str, Sequence[int]] | None = None
) -> str:
    """Return a Python CDK stack with the dashboard and the alarms; names are JSON texts, so that none is code."""
    body = json.dumps(cloudwatch_dashboard(inventory, region), indent=2)
    # PutMetricAlarm's members and the template's have the same names (documented).
    alarms = suggested_alarms(inventory, lags_ms or {})
    lines = [
        "import json",
        "",
        "from aws_cdk import CfnResource, Stack",
        "from aws_cdk import aws_cloudwatch as cloudwatch",
        "from constructs import Construct",
        "",
        f"DASHBOARD = json.loads({json.dumps(body)})",
        "# Each as AWS::CloudWatch::Alarm takes it.",
        f"ALARMS = json.loads({json.dumps(json.dumps(alarms))})",
        "",
        "",
        "class PipelineDashboard(Stack):",
        "    def __init__(self, scope: Construct, id: str, **kwargs) -> None:",
        "        super().__init__(scope, id, **kwargs)",
        '        cloudwatch.CfnDashboard(self, "Dashboard", dashboard_body=json.dumps(DASHBOARD))',
        "        for number, alarm in enumerate(ALARMS):",
        "            CfnResource(",
        '                self, f"Alarm{number}", type="AWS::CloudWatch::Alarm", properties=alarm',
        "            )",
        "",
    ]
    return "\n".join(lines)
