"""Metric filters give metrics of new events; patterns decide what FilterLogEvents and subscriptions see."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.core.ports import Metric
from tests.support.moto_lab import MotoLab


@pytest.fixture
def logs(lab: MotoLab) -> Any:
    logs = lab.client("logs")
    logs.create_log_group(logGroupName="g")
    logs.create_log_stream(logGroupName="g", logStreamName="s")
    return logs


def put(lab: MotoLab, *messages: str, at_ms: int = 0) -> None:
    now_ms = lab.clock.now_ms() + at_ms
    lab.client("logs").put_log_events(
        logGroupName="g",
        logStreamName="s",
        logEvents=[{"timestamp": now_ms, "message": message} for message in messages],
    )


def filter_by(logs: Any, pattern: str, value: str = "1", **more: Any) -> None:
    named = {"metricName": "m", "metricNamespace": "app", "metricValue": value, **more}
    logs.put_metric_filter(
        logGroupName="g", filterName="f", filterPattern=pattern, metricTransformations=[named]
    )


def values(lab: MotoLab) -> list[tuple[float, tuple[tuple[str, str], ...]]]:
    return [(metric.value, metric.dimensions) for metric in lab.metrics]


def test_each_event_that_matches_gives_the_value(lab: MotoLab, logs: Any) -> None:
    filter_by(logs, "ERROR", unit="Count")
    put(lab, "ERROR a", "fine", "ERROR b")
    now_ms = lab.clock.now_ms()
    assert lab.metrics == [Metric("app", "m", 1.0, "Count", (), now_ms)] * 2


@pytest.mark.parametrize(
    ("pattern", "value", "dimensions", "messages", "expected"),
    [
        ("{ $.latency = * }", "$.latency", None, ['{"latency": 12.5}', '{"other": 1}', '{"latency": "x"}'],
         [(12.5, ())]),
        ("{ $.latency = * }", "$.size", None, ['{"latency": 1, "size": 7}', '{"latency": 1}'], [(7.0, ())]),
        ("[ip, user, bytes > 5]", "$bytes", None, ["1.1.1.1 u 9", "1.1.1.1 u 3"], [(9.0, ())]),
        ("[ip, user, bytes]", "1", {"Who": "$user"}, ["1.1.1.1 u 9"], [(1.0, (("Who", "u"),))]),
        ("[word, value]", "$value", None, ["a nan", "a inf", "a 1e200", "a 3"], [(3.0, ())]),
        ("{ $.s = * }", "1", {"S": "$.s"}, ['{"s": "\\ud800"}', '{"s": "a"}'], [(1.0, (("S", "a"),))]),
        ("{ $.s = * }", "2", {"S": "$.s", "T": "$.t"}, ['{"s": "a", "t": 4}', '{"s": "a"}'],
         [(2.0, (("S", "a"), ("T", "4")))]),
    ],
)  # fmt: skip
def test_value_and_dimensions_come_from_the_event(
    lab: MotoLab, logs: Any, pattern: str, value: str, dimensions: Any, messages: list[str], expected: Any
) -> None:  # fmt: skip
    filter_by(logs, pattern, value, **({"dimensions": dimensions} if dimensions else {}))
    put(lab, *messages)
    assert values(lab) == expected


def test_the_default_value_is_for_minutes_without_a_match(lab: MotoLab, logs: Any) -> None:
    filter_by(logs, "ERROR", "5", defaultValue=0)
    put(lab, "fine", "fine")
    put(lab, "fine", "ERROR")
    assert values(lab) == [(0.0, ()), (5.0, ())]


def test_a_filter_of_the_same_name_is_replaced_and_deleted_with_its_group(
    lab: MotoLab, logs: Any
) -> None:
    filter_by(logs, "ERROR")
    filter_by(logs, "WARN")
    put(lab, "ERROR", "WARN", "WARN")
    assert len(lab.metrics) == 2
    shown = logs.describe_metric_filters(logGroupName="g")["metricFilters"]
    assert [one["filterPattern"] for one in shown] == ["WARN"]
    assert shown[0]["creationTime"] == lab.clock.now_ms()
    assert logs.describe_log_groups()["logGroups"][0]["metricFilterCount"] == 1
    logs.delete_log_group(logGroupName="g")
    assert logs.describe_metric_filters()["metricFilters"] == []


@pytest.mark.parametrize(
    ("group", "pattern", "more", "code", "sentence"),
    [
        ("none", "ERROR", {}, "ResourceNotFoundException", "The specified log group does not exist."),
        ("g", "a-b", {}, "InvalidParameterException", "Invalid character(s) in term 'a-b'"),
        ("g", "{ $.a", {}, "InvalidParameterException", "Invalid filter pattern"),
        ("g", "ERROR", {"dimensions": {"a": "$.b"}}, "InvalidParameterException",
         "The specified filter pattern does not support dimensions"),
        ("g", "{ $.a = 1 }", {"dimensions": {"a": "$.a"}, "defaultValue": 0}, "InvalidParameterException",
         "Invalid metric transformation: dimensions and default value are mutually exclusive properties."),
    ],
)  # fmt: skip
def test_what_aws_refuses_is_refused(
    logs: Any, group: str, pattern: str, more: dict[str, Any], code: str, sentence: str
) -> None:
    with pytest.raises(ClientError) as refusal:
        logs.put_metric_filter(
            logGroupName=group,
            filterName="f",
            filterPattern=pattern,
            metricTransformations=[
                {"metricName": "m", "metricNamespace": "n", "metricValue": "1", **more}
            ],
        )
    assert refusal.value.response["Error"] == {"Code": code, "Message": sentence}


def test_a_group_has_a_hundred_filters(logs: Any) -> None:
    named = [{"metricName": "m", "metricNamespace": "n", "metricValue": "1"}]
    for number in range(100):
        logs.put_metric_filter(
            logGroupName="g", filterName=f"f{number}", filterPattern="", metricTransformations=named
        )
    with pytest.raises(ClientError, match="LimitExceededException"):
        filter_by(logs, "")


def test_a_group_has_five_filters_with_regular_expressions(logs: Any) -> None:
    named = [{"metricName": "m", "metricNamespace": "n", "metricValue": "1"}]
    stream = "arn:aws:kinesis:us-east-1:000000000000:stream/s"
    subscription = {
        "logGroupName": "g",
        "filterName": "s",
        "destinationArn": stream,
        "roleArn": "r",
    }
    logs.put_subscription_filter(**subscription, filterPattern="%a%")
    for number in range(4):
        logs.put_metric_filter(
            logGroupName="g",
            filterName=f"f{number}",
            filterPattern="%a%",
            metricTransformations=named,
        )
    for name, pattern in (("f0", "%b%"), ("f4", "b")):
        logs.put_metric_filter(
            logGroupName="g", filterName=name, filterPattern=pattern, metricTransformations=named
        )
    logs.put_subscription_filter(**subscription, filterPattern="%b%")
    with pytest.raises(ClientError, match="LimitExceededException"):
        filter_by(logs, "[a = %b%]")
    with pytest.raises(ClientError, match="LimitExceededException"):
        logs.put_subscription_filter(**{**subscription, "filterName": "t"}, filterPattern="%b%")


def test_filter_log_events_returns_what_matches(lab: MotoLab, logs: Any) -> None:
    put(lab, '{"latency": 12}', '{"latency": 5}', "latency")
    for pattern, count in (("{ $.latency > 10 }", 1), ("{ $.latency = * }", 2), ("?latency ?x", 3)):
        found = logs.filter_log_events(logGroupName="g", filterPattern=pattern)["events"]
        assert len(found) == count, pattern
    with pytest.raises(ClientError, match="Invalid filter pattern"):
        logs.filter_log_events(logGroupName="g", filterPattern="{ $.latency >")


def test_a_request_does_not_match_without_end(lab: MotoLab, logs: Any) -> None:
    put(lab, *["a" * 200_000] * 5)
    with pytest.raises(ClientError, match="takes too long"):
        logs.filter_log_events(logGroupName="g", filterPattern="%a[a-z]{100}[a-z]{100}b%")


def test_a_subscription_gets_what_matches(lab: MotoLab, logs: Any) -> None:
    stream = "arn:aws:kinesis:us-east-1:000000000000:stream/s"
    named = {"logGroupName": "g", "filterName": "f", "destinationArn": stream, "roleArn": "r"}
    with pytest.raises(ClientError, match="Invalid character"):
        logs.put_subscription_filter(**named, filterPattern="a.b")
    logs.put_subscription_filter(**named, filterPattern="{ $.level = ERROR }")
    put(lab, '{"level": "ERROR"}', '{"level": "INFO"}', "ERROR")
    lab.outbox.step()
    [(_, operation, params)] = lab.outside.calls
    sent = json.loads(gzip.decompress(params["Data"]))
    assert (operation, [one["message"] for one in sent["logEvents"]]) == (
        "PutRecord",
        ['{"level": "ERROR"}'],
    )


def test_one_of_two_subscriptions_is_replaced_and_a_third_is_refused(logs: Any) -> None:
    stream = "arn:aws:kinesis:us-east-1:000000000000:stream/s"
    named = {"logGroupName": "g", "destinationArn": stream, "roleArn": "r"}
    for name, pattern in (("a", "1"), ("b", "1"), ("a", "2")):
        logs.put_subscription_filter(**named, filterName=name, filterPattern=pattern)
    subscriptions = logs.describe_subscription_filters(logGroupName="g")["subscriptionFilters"]
    assert [one["filterPattern"] for one in subscriptions] == ["2", "1"]
    with pytest.raises(ClientError, match="LimitExceededException"):
        logs.put_subscription_filter(**named, filterName="c", filterPattern="1")


def test_test_metric_filter_shows_what_is_extracted(logs: Any) -> None:
    answer = logs.test_metric_filter(
        filterPattern="[ip, code = 5*]", logEventMessages=["1.1.1.1 200", "1.1.1.2 503"]
    )
    assert answer["matches"] == [
        {
            "eventNumber": 2,
            "eventMessage": "1.1.1.2 503",
            "extractedValues": {"$ip": "1.1.1.2", "$code": "503"},
        }
    ]
    with pytest.raises(ClientError, match="Invalid filter pattern"):
        logs.test_metric_filter(filterPattern="[", logEventMessages=["a"])


def about(**more: Any) -> dict[str, Any]:
    directive = {"Namespace": "n", "Dimensions": [[]], "Metrics": [{"Name": "orders"}], **more}
    return {"Timestamp": 1, "CloudWatchMetrics": [directive]}


def embedded(**root: Any) -> str:
    directive = {
        "Namespace": "shop",
        "Dimensions": [["service"], ["service", "route"]],
        "Metrics": [{"Name": "latency", "Unit": "Milliseconds"}, {"Name": "orders"}],
    }
    metadata = {"Timestamp": 1_700_000_000_000, "CloudWatchMetrics": [directive]}
    return json.dumps(
        {"_aws": metadata, "service": "api", "route": "/", "latency": [1.5, 2], "orders": 3, **root}
    )


def test_embedded_metrics_are_given_for_each_set_of_dimensions(lab: MotoLab, logs: Any) -> None:
    put(lab, "no", embedded(), '{"_aws": "no"}')
    service, both = (("service", "api"),), (("service", "api"), ("route", "/"))
    assert lab.metrics == [
        Metric("shop", name, value, unit, dimensions, 1_700_000_000_000)
        for dimensions in (service, both)
        for name, value, unit in (
            ("latency", 1.5, "Milliseconds"), ("latency", 2.0, "Milliseconds"), ("orders", 3.0, "None")
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    "root",
    [
        {"_aws": {"CloudWatchMetrics": [{"Namespace": "n"}]}},
        {"_aws": {"Timestamp": 1, "CloudWatchMetrics": 5}},
        {"latency": "slow"},
        {"latency": None},
        {"latency": 10**400},
        {"latency": float("nan")},
        {"latency": 1e200},
        {"route": 7},
        {"route": {}},
        {"route": "\ud800"},
        {"_aws": {"Timestamp": float("inf"), "CloudWatchMetrics": []}},
        {"_aws": {"Timestamp": 10**20, "CloudWatchMetrics": []}},
        {"_aws": about(Namespace=["n"])},
        {"_aws": about(Metrics=[{"Name": "orders"}] * 101)},
        # a hundred million values
        {"_aws": about(Dimensions=[[]] * 10_000, Metrics=[{"Name": "orders"}] * 100), "orders": [1] * 100},
    ],
)  # fmt: skip
def test_what_is_no_embedded_metric_is_counted(lab: MotoLab, logs: Any, root: Any) -> None:
    put(lab, embedded(**root), "{" + embedded()[:-1])
    [metric] = lab.metrics
    assert (metric.namespace, metric.name, metric.value, metric.dimensions) == (
        "AWS/Logs", "EMFValidationErrors", 2, (("LogGroupName", "g"),)
    )  # fmt: skip
