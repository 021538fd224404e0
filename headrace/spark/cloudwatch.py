"""Sends a query's progress on its Kinesis sources to CloudWatch as metrics.

    publish_progress(spark)

`MillisBehindLatest`, `Rows`, `InputRowsPerSecond` and `ProcessedRowsPerSecond`, by stream and query; and by query
`RowsInState` and `RowsDroppedAsLate`, if it has a state, and each metric that it observes, as `OBSERVATION.METRIC`.
Separate from `progress`, because tasks import that too and do not need boto3.
"""

# botocore has no types.
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, cast

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from headrace.spark.progress import StreamProgress, keep_packages, of_progress
from headrace.spark.untyped import untyped

log = logging.getLogger(__name__)

NAMESPACE = "Headrace/Spark"


class ProgressMetrics(StreamingQueryListener):
    """Sends every batch of every Kinesis source to CloudWatch: one request a batch.

    The dimensions are the stream's and the query's names. If metrics cannot be sent, a warning is logged and the query
    continues.
    """

    def __init__(self, cloudwatch: Any, namespace: str) -> None:
        super().__init__()
        self._cloudwatch = cloudwatch
        self._namespace = namespace

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Send nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Send nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Send one batch."""
        progress = cast("dict[str, Any]", json.loads(event.progress.json))
        data = [one for stream in of_progress(progress) for one in metrics_of(stream, progress)]
        if not data:
            return
        data += metrics_of_query(progress)
        try:
            self._cloudwatch.put_metric_data(Namespace=self._namespace, MetricData=data)
        except (BotoCoreError, ClientError) as error:
            log.warning("The progress of batch %d was not sent: %s", event.progress.batchId, error)


def metrics_of(stream: StreamProgress, progress: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a batch's CloudWatch metrics; without the lag while that is unknown."""
    dimensions = [
        {"Name": "StreamName", "Value": stream.stream},
        {"Name": "QueryName", "Value": str(progress.get("name") or progress["id"])},
    ]
    values = [
        ("MillisBehindLatest", stream.behind_ms, "Milliseconds"),
        ("Rows", stream.rows, "Count"),
        ("InputRowsPerSecond", stream.input_per_s, "Count/Second"),
        ("ProcessedRowsPerSecond", stream.processed_per_s, "Count/Second"),
    ]
    return [
        {"MetricName": name, "Value": float(value), "Unit": unit, "Dimensions": dimensions}
        for name, value, unit in values
        if value is not None
    ]


def metrics_of_query(progress: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a batch's metrics that are of no stream: its state, and the numbers that the query observes."""
    state = cast("list[dict[str, Any]]", progress.get("stateOperators") or [])
    values: dict[str, Any] = {}
    if state:
        values["RowsInState"] = sum(operator["numRowsTotal"] for operator in state)
        values["RowsDroppedAsLate"] = sum(one["numRowsDroppedByWatermark"] for one in state)
    observed = cast("dict[str, dict[str, Any]]", progress.get("observedMetrics") or {})
    for name, row in observed.items():
        values |= {f"{name}.{what}": value for what, value in row.items()}
    query = {"Name": "QueryName", "Value": str(progress.get("name") or progress["id"])}
    return [
        {"MetricName": name, "Value": float(value), "Unit": "Count", "Dimensions": [query]}
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def publish_progress(
    spark: SparkSession, *, namespace: str = NAMESPACE, region: str | None = None
) -> ProgressMetrics:
    """Begin to send the progress of all queries of a session to CloudWatch; return the listener.

    boto3 determines the credentials, the endpoint, and the region if none is given.
    """
    cloudwatch = untyped(boto3.Session(region_name=region)).client("cloudwatch")
    listener = ProgressMetrics(cloudwatch, namespace)
    keep_packages(spark)
    spark.streams.addListener(listener)
    return listener
