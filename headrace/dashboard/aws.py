"""The dashboard of an account on AWS: read-only, over boto3; its figures are CloudWatch's, a minute old or more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import ArnParser

from headrace.core.clock import Clock
from headrace.dashboard.account import Account, CallRefused, milliseconds
from headrace.dashboard.inventory import Inventory
from headrace.dashboard.sampler import Point, Totals, describe_errors

# CloudWatch bills GetMetricData by the metric: once a minute, and only while a page is open.
EVERY_S = 60.0
PERIOD_S = 60
METRICS_PER_CALL = 500
# How far back the newest value of a metric is looked for: AWS sends some a few minutes late.
RECENT = timedelta(minutes=10)

# Figure, namespace, metric, statistic, and the factor that makes it a number a second, or milliseconds.
_Metric = tuple[str, str, str, str, float]
_METRICS: Mapping[str, tuple[str, tuple[_Metric, ...]]] = {
    "stream": (
        "StreamName",
        (
            ("rate", "AWS/Kinesis", "IncomingRecords", "Sum", 1 / PERIOD_S),
            ("lag_ms", "AWS/Kinesis", "GetRecords.IteratorAgeMilliseconds", "Maximum", 1),
        ),
    ),
    "function": (
        "FunctionName",
        (
            ("rate", "AWS/Lambda", "Invocations", "Sum", 1 / PERIOD_S),
            ("error_rate", "AWS/Lambda", "Errors", "Sum", 1 / PERIOD_S),
            ("lag_ms", "AWS/Lambda", "IteratorAge", "Maximum", 1),
        ),
    ),
    "delivery": (
        "DeliveryStreamName",
        (
            ("rate", "AWS/Firehose", "IncomingRecords", "Sum", 1 / PERIOD_S),
            ("lag_ms", "AWS/Firehose", "DeliveryToS3.DataFreshness", "Maximum", 1_000),
        ),
    ),
    "rule": (
        "RuleName",
        (
            ("rate", "AWS/Events", "TriggeredRules", "Sum", 1 / PERIOD_S),
            ("error_rate", "AWS/Events", "FailedInvocations", "Sum", 1 / PERIOD_S),
        ),
    ),
    "topic": (
        "TopicName",
        (
            ("rate", "AWS/SNS", "NumberOfMessagesPublished", "Sum", 1 / PERIOD_S),
            ("error_rate", "AWS/SNS", "NumberOfNotificationsFailed", "Sum", 1 / PERIOD_S),
        ),
    ),
    "queue": (
        "QueueName",
        (
            ("rate", "AWS/SQS", "NumberOfMessagesSent", "Sum", 1 / PERIOD_S),
            ("waiting", "AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", 1),
            ("lag_ms", "AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", 1_000),
        ),
    ),
    # A write unit is an item of up to 1 KiB (documented): DynamoDB has no metric that counts items written.
    "table": (
        "TableName",
        (("rate", "AWS/DynamoDB", "ConsumedWriteCapacityUnits", "Sum", 1 / PERIOD_S),),
    ),
    "pipe": (
        "PipeName",
        (
            ("rate", "AWS/EventBridge/Pipes", "EventCount", "Sum", 1 / PERIOD_S),
            ("error_rate", "AWS/EventBridge/Pipes", "ExecutionFailed", "Sum", 1 / PERIOD_S),
        ),
    ),
}
Series = dict[str, dict[str, list[tuple[int, float]]]]


class AwsAccount:
    """An account on AWS; see `Account`. Clients are made once for each service."""

    source, is_read_only = "aws", True

    def __init__(self, make_client: Callable[[str], Any], region: str) -> None:
        """Take what makes a boto3 client of a service. Asks STS for the account's id."""
        self.region = region
        self._make_client = make_client
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}
        try:
            arn = self.call("sts", "GetCallerIdentity")["Arn"]
            self.account_id = str(ArnParser().parse_arn(arn)["account"])
        except CallRefused as refusal:
            self.account_id = f"(unknown: {refusal.code})"

    def call(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        """See `Account.call`."""
        try:
            with self._lock:
                client = self._clients.get(service)
                if client is None:
                    client = self._clients[service] = self._make_client(service)
            method = getattr(client, xform_name(operation), None)
            if method is None:
                sentence = "The installed boto3 does not know it."
                raise CallRefused(service, operation, "UnknownOperation", sentence)
            answer = dict(method(**params))
        except ClientError as error:
            details: Any = error.response.get("Error", {})
            metadata: Any = error.response.get("ResponseMetadata", {})
            raise CallRefused(
                service,
                operation,
                details.get("Code", "Error"),
                details.get("Message", ""),
                metadata.get("HTTPStatusCode", 400),
            ) from error
        except BotoCoreError as error:
            raise CallRefused(service, operation, type(error).__name__, str(error)) from error
        for name, value in answer.items():
            if hasattr(value, "read"):
                answer[name] = value.read()
        return answer


class CloudWatchMeter:
    """Takes the figures from CloudWatch, at most once a minute; see `Meter`. Thread-safe."""

    def __init__(self, account: Account, clock: Clock) -> None:
        self._account, self._clock = account, clock
        self._lock = threading.Lock()
        self._asked_s = -EVERY_S
        self._totals: dict[str, Totals] = {}
        self._refused: list[dict[str, str]] = []

    def totals(self, inventory: Inventory) -> Mapping[str, Totals]:
        """See `Meter.totals`; a refused GetMetricData is named beside the inventory's refusals."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            if inventory.resources and now_s - self._asked_s >= EVERY_S:
                self._asked_s = now_s
                self._read(inventory)
            inventory.refused += [one for one in self._refused if one not in inventory.refused]
            return self._totals

    def shard_totals(self, stream: str) -> Mapping[str, Totals]:
        """Return nothing: without enhanced monitoring AWS has no figures of single shards."""
        return {}

    def history(self, inventory: Inventory, resource_id: str, *, is_day: bool) -> list[Point]:
        """Return a resource's points of the last three hours, or of the last day. Raises CallRefused."""
        span = timedelta(days=1) if is_day else timedelta(hours=3)
        series = self._series(inventory, span, {resource_id}).get(resource_id, {})
        times = sorted({at_ms for points in series.values() for at_ms, _ in points})
        by_figure = {figure: dict(points) for figure, points in series.items()}

        def value(figure: str, at_ms: int) -> float | None:
            return by_figure.get(figure, {}).get(at_ms)

        return [
            (at, value("rate", at), _whole(value("lag_ms", at)), _whole(value("waiting", at)))
            for at in times
        ]

    def _read(self, inventory: Inventory) -> None:
        self._refused = []
        try:
            series = self._series(inventory, RECENT, set(inventory.resources))
        except CallRefused as refusal:
            self._refused = [refusal.as_json()]
            return
        totals: dict[str, Totals] = {}
        for resource_id, figures in series.items():
            newest = {figure: points[-1][1] for figure, points in figures.items() if points}
            totals[resource_id] = Totals(
                rate=newest.get("rate"),
                waiting=_whole(newest.get("waiting")),
                lag_ms=_whole(newest.get("lag_ms")),
                problem=describe_errors(newest.get("error_rate")),
            )
        # A function's iterator age is that of the mappings that feed it.
        for edge in inventory.edges:
            if edge.via and edge.end.startswith("function:") and edge.end in totals:
                totals[edge.via] = Totals(rate=None, lag_ms=totals[edge.end].lag_ms)
        self._totals = totals

    def _series(self, inventory: Inventory, span: timedelta, ids: set[str]) -> Series:
        """Return the points of each figure by resource id, oldest first."""
        queries: list[dict[str, Any]] = []
        meaning: list[tuple[str, str, float]] = []
        for resource in inventory.resources.values():
            if resource.id not in ids or resource.kind not in _METRICS:
                continue
            dimension, metrics = _METRICS[resource.kind]
            for figure, namespace, name, statistic, factor in metrics:
                metric = {
                    "Namespace": namespace,
                    "MetricName": name,
                    "Dimensions": _dimensions(dimension, resource.name),
                }
                stat = {"Metric": metric, "Period": PERIOD_S, "Stat": statistic}
                queries.append({"Id": f"m{len(queries)}", "MetricStat": stat})
                meaning.append((resource.id, figure, factor))
        series: Series = {}
        end = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        for first in range(0, len(queries), METRICS_PER_CALL):
            answer = self._account.call(
                "cloudwatch",
                "GetMetricData",
                MetricDataQueries=queries[first : first + METRICS_PER_CALL],
                StartTime=end - span,
                EndTime=end,
                ScanBy="TimestampAscending",
            )
            for result in answer.get("MetricDataResults", ()):
                resource_id, figure, factor = meaning[int(result["Id"][1:])]
                points = [
                    (milliseconds(at) or 0, value * factor)
                    for at, value in zip(result["Timestamps"], result["Values"], strict=True)
                ]
                series.setdefault(resource_id, {})[figure] = sorted(points)
        return series


def _dimensions(name: str, value: str) -> list[dict[str, str]]:
    """Return a metric's dimensions; a rule of a bus other than the default has two (documented)."""
    bus, _, rest = value.rpartition("/") if name == "RuleName" else ("", "", value)
    buses = [{"Name": "EventBusName", "Value": bus}] if bus else []
    return [*buses, {"Name": name, "Value": rest}]


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
