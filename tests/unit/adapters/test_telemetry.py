"""Metrics and log lines on their way to CloudWatch: bounded, split as AWS wants, not lost by a pause."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.adapters import telemetry
from headrace.adapters.telemetry import LogQueue, MetricQueue, ServiceMetrics
from headrace.aws.calls.errors import AwsError
from headrace.core.ports import LogLine, Metric
from headrace.moto.current_cloud import Handled
from tests.support.clock import FakeClock

WHERE = {"account": "000000000000", "region": "us-east-1"}
BUSY = AwsError("ServiceUnavailable", "headrace is loading", 503)


class Control:
    """Notes calls, and raises what it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.errors: dict[str, AwsError] = {}

    def call(
        self, service: str, operation: str, params: Mapping[str, Any], **_: Any
    ) -> dict[str, Any]:
        if operation in self.errors:
            raise self.errors[operation]
        self.calls.append((operation, params))
        return {}

    def sizes(self, operation: str, member: str) -> list[int]:
        return [len(params[member]) for name, params in self.calls if name == operation]


def lines(count: int, message: str = "x") -> list[LogLine]:
    return [LogLine(n, message) for n in range(count)]


def metrics(count: int, namespace: str = "app") -> list[Metric]:
    return [Metric(namespace, "m", n, "None", (), 1000 * n) for n in range(count)]


def test_lines_are_split_by_number_and_bytes():
    # Documented: at most 10,000 events and 1,048,576 bytes, 26 of them for each event beside its message
    # (PutLogEvents, API reference).
    control = Control()
    queue = LogQueue(control)
    queue.put("g", "s", lines(10_001), **WHERE)
    queue.put("g", "large", lines(5, "é" * 130_000), **WHERE)
    queue.step()
    assert control.sizes("PutLogEvents", "logEvents") == [10_000, 1, 2, 2, 1]


def test_one_group_that_is_refused_does_not_hold_up_another(caplog: pytest.LogCaptureFixture):
    control = Control()
    control.errors["CreateLogStream"] = AwsError("InvalidParameterException", "no such name")
    queue = LogQueue(control)
    queue.put("g", "s", lines(2), **WHERE)
    queue.step()
    assert "2 log lines of" in caplog.text
    assert "no such name" in caplog.text
    control.errors.clear()
    queue.put("g", "other", lines(1), **WHERE)
    queue.step()
    assert control.sizes("PutLogEvents", "logEvents") == [1]


def test_what_is_not_to_be_made_is_not_made(caplog: pytest.LogCaptureFixture):
    control = Control()
    gone = AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    control.errors["PutLogEvents"] = gone
    queue = LogQueue(control)
    queue.put("g", "s", lines(2), makes=False, **WHERE)
    queue.step()
    assert "The specified log group does not exist." in caplog.text
    assert control.calls == []
    control.errors.clear()
    queue.put("g", "s", lines(1), makes=False, **WHERE)
    queue.step()
    assert [operation for operation, _ in control.calls] == ["PutLogEvents"]


@pytest.mark.parametrize("busy", [BUSY, AwsError("ThrottlingException", "Rate exceeded")])
def test_what_comes_while_a_service_is_too_busy_is_sent_after(busy: AwsError):
    control = Control()
    control.errors["CreateLogGroup"] = control.errors["PutMetricData"] = busy
    logs, values = LogQueue(control), MetricQueue(control)
    logs.put("g", "s", lines(3), **WHERE)
    values.put(metrics(2_500), **WHERE)
    logs.step()
    values.step()
    assert control.calls == []
    control.errors.clear()
    logs.step()
    values.step()
    assert control.sizes("PutLogEvents", "logEvents") == [3]
    assert control.sizes("PutMetricData", "MetricData") == [1_000, 1_000, 500]


def test_there_is_a_bound_which_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(telemetry, "MOST_QUEUED", 10)
    control = Control()
    queue = MetricQueue(control)
    queue.put([*metrics(6), *metrics(6, "other")], **WHERE)
    queue.put(metrics(5), **WHERE)
    with caplog.at_level(logging.WARNING):
        queue.step()
    assert control.sizes("PutMetricData", "MetricData") == [6, 4]
    assert "7 metric values were dropped" in caplog.text


def test_values_of_a_second_share_a_datum_and_none_is_lost():
    control = Control()
    queue = MetricQueue(control)
    values = [*range(telemetry.VALUES_PER_DATUM + 1), 7, 7]
    queue.put([Metric("app", "m", n, "None", (), 5_000 + n) for n in values], **WHERE)
    queue.put([Metric("app", "m", 1.5, "None", (), 6_000)], **WHERE)
    queue.put([Metric("app", "m", 2.5, "None", (("a", "b"),), 6_000)] * 2, **WHERE)
    queue.put([Metric("app", "m", 0, "None", (), 6_000, (2, 9, 4, 5))], **WHERE)
    queue.step()
    ((_, params),) = control.calls
    data = params["MetricData"]
    assert [len(datum.get("Values", ())) for datum in data] == [0, 150, 1, 0, 1]
    assert data[0]["StatisticValues"] == {"SampleCount": 2, "Sum": 9, "Minimum": 4, "Maximum": 5}
    pairs = [pair for d in data[1:3] for pair in zip(d["Values"], d["Counts"], strict=True)]
    assert dict(pairs) == {n: 3.0 if n == 7 else 1.0 for n in values}
    assert {datum["Timestamp"].timestamp() for datum in data[1:3]} == {5.150}
    assert data[3]["Value"] == 1.5
    assert (data[4]["Values"], data[4]["Counts"]) == ([2.5], [2.0])


def test_known_streams_do_not_pile_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(telemetry, "MOST_KNOWN", 8)
    control = Control()
    queue = LogQueue(control)
    for n in range(100):
        queue.put("g", f"s{n}", lines(1), **WHERE)
        queue.step()
    assert len(queue._known) <= 8
    assert len(control.sizes("PutLogEvents", "logEvents")) == 100


def test_lines_of_a_new_stream_make_a_deleted_group_again():
    control = Control()
    queue = LogQueue(control)
    queue.put("g", "first", lines(1), **WHERE)
    queue.step()
    gone = AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    call = control.call

    def without_group(service: str, operation: str, *args: Any, **named: Any) -> dict[str, Any]:
        if operation == "CreateLogGroup":
            control.errors.clear()
        return call(service, operation, *args, **named)

    control.errors |= {"CreateLogStream": gone, "PutLogEvents": gone}
    control.call = without_group
    queue.put("g", "second", lines(2), **WHERE)
    queue.step()
    assert control.sizes("PutLogEvents", "logEvents") == [1, 2]


def test_a_count_that_was_forgotten_begins_anew(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Handled, "MOST", 1)
    handled, control, clock = Handled(), Control(), FakeClock()
    queue = MetricQueue(control)
    service = ServiceMetrics(lambda: True, clock, handled, queue)
    first, second = (f"arn:aws:dynamodb:us-east-1:000000000000:table/{name}" for name in "ab")
    for counts in (((first, 5),), ((second, 1), (first, 2))):
        for arn, count in counts:
            handled.note(arn, "ConsumedReadCapacityUnits", count)
        service.step()
        clock.advance(60)
    queue.step()
    # Queues that another test left in moto's memory have metrics too.
    (data,) = [
        params["MetricData"] for _, params in control.calls if params["Namespace"] == "AWS/DynamoDB"
    ]
    reads = [one for one in data if one["MetricName"] == "ConsumedReadCapacityUnits"]
    assert [one["Value"] for one in reads] == [5, 2]
