"""Scheduled once a minute: splits and merges the shards of the stream STREAM as its load asks.

The policy is the package headrace.shards, which lies beside this file in the function's archive
(cdk/parts/elastic_stream.py puts it there). With a PERIOD_S below a minute one invocation takes several steps. What
the policy has seen lives as long as the function's instance: a new one splits full shards at once, and merges after
it has seen them cold for COLD_FOR_S itself. Metrics: the namespace of METRICS, by the stream's name.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import Any

import boto3

from headrace.client.clock import Clock, SystemClock
from headrace.shards.loads import Settings
from headrace.shards.policy import name_of
from headrace.shards.scaling import Report, Scaler, pause

log = logging.getLogger()
log.setLevel(logging.INFO)

# EventBridge's shortest rate: the next invocation takes over.
SCHEDULE_S = 60.0


@functools.cache
def _client(service: str) -> Any:
    return boto3.client(service)


@functools.cache
def _scaler() -> Scaler:
    environment = os.environ
    settings = Settings(
        min_shards=int(environment["MIN_SHARDS"]),
        max_shards=int(environment["MAX_SHARDS"]),
        target_utilisation=float(environment["TARGET_UTILISATION"]),
        period_s=float(environment["PERIOD_S"]),
        cold_for_s=float(environment["COLD_FOR_S"]),
    )
    return Scaler(
        _client("kinesis"),
        environment["STREAM"],
        settings,
        sample_s=float(environment["SAMPLE_S"]),
        cloudwatch=_client("cloudwatch"),
    )


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Take the steps of a minute; return what was done, for whoever invokes it by hand."""
    return run(
        _scaler(),
        SystemClock(),
        float(os.environ["PERIOD_S"]),
        lambda report: _put_metrics(_client("cloudwatch"), report),
    )


def run(
    scaler: Scaler, clock: Clock, period_s: float, note: Callable[[Report], None]
) -> dict[str, Any]:
    """Take steps until the next one is the next invocation's."""
    began_s = clock.monotonic_s()
    done: list[str] = []
    advice: dict[str, str] = {}
    steps = 0
    while True:
        due_s = clock.monotonic_s() + period_s
        report = scaler.step()
        note(report)
        steps += 1
        done += map(name_of, report.done)
        advice.update({item.kind: item.sentence for item in report.decision.advice})
        if max(due_s, clock.monotonic_s()) + period_s / 2 > began_s + SCHEDULE_S:
            return {"steps": steps, "done": done, "advice": advice}
        pause(clock, max(0.0, due_s - clock.monotonic_s()))


def _put_metrics(cloudwatch: Any, report: Report) -> None:
    load = report.load
    if load is None:
        return
    values = {
        "OpenShards": (len(load.shards), "Count"),
        "HottestShard": (100 * max(load.utilisation), "Percent"),
        "MeanUtilisation": (100 * sum(load.utilisation) / len(load.shards), "Percent"),
        "Reshards": (len(report.done), "Count"),
        "Advice": (len(report.decision.advice), "Count"),
    }
    dimensions = [{"Name": "StreamName", "Value": os.environ["STREAM"]}]
    cloudwatch.put_metric_data(
        Namespace=os.environ["METRICS"],
        MetricData=[
            {"MetricName": name, "Dimensions": dimensions, "Value": value, "Unit": unit}
            for name, (value, unit) in values.items()
        ],
    )
