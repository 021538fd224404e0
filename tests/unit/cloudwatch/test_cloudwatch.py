"""Metric data: a point a minute after a while, within a bound, and the statistics stay what they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.cloudwatch import patches
from tests.support.moto_lab import MotoLab


def now(lab: MotoLab) -> datetime:
    return datetime.fromtimestamp(lab.clock.now_ms() / 1000, UTC)


def put(lab: MotoLab, *values: float, name: str = "m", **dimensions: str) -> None:
    lab.client("cloudwatch").put_metric_data(
        Namespace="n",
        MetricData=[
            {
                "MetricName": name, "Value": value, "Timestamp": now(lab), "Unit": "Count",
                "Dimensions": [{"Name": k, "Value": v} for k, v in dimensions.items()],
            }
            for value in values
        ],
    )  # fmt: skip


def statistics(lab: MotoLab, start: datetime, period_s: int = 60) -> list[dict[str, Any]]:
    answer = lab.client("cloudwatch").get_metric_statistics(
        Namespace="n", MetricName="m", StartTime=start, EndTime=now(lab) + timedelta(minutes=1), Period=period_s,
        Statistics=["Sum", "Minimum", "Maximum", "SampleCount", "Average"],
    )  # fmt: skip
    names = ("Sum", "Minimum", "Maximum", "SampleCount", "Average")
    points = sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])
    return [{name: point[name] for name in names} for point in points]


def held(lab: MotoLab) -> int:
    from moto.cloudwatch.models import cloudwatch_backends

    return len(cloudwatch_backends["000000000000"]["us-east-1"].metric_data)


def test_values_of_a_minute_become_one_point_of_the_same_statistics(lab: MotoLab):
    lab.clock.advance(40)  # the start of a minute
    start = now(lab)
    put(lab, 1.0, 5.0)
    lab.clock.advance(20)
    put(lab, 3.0)
    lab.clock.advance(40)
    put(lab, 10.0)
    before = statistics(lab, start)
    assert before[0] == {
        "Sum": 9.0,
        "Minimum": 1.0,
        "Maximum": 5.0,
        "SampleCount": 3.0,
        "Average": 3.0,
    }
    assert held(lab) == 4
    lab.clock.advance(300)
    put(lab, 0.0, name="other")
    assert held(lab) == 3
    assert statistics(lab, start)[:2] == before[:2]


def test_metrics_of_other_dimensions_stay_apart(lab: MotoLab):
    for shard in ("a", "b"):
        put(lab, 1.0, 2.0, shard=shard)
    lab.clock.advance(300)
    put(lab, 0.0, name="other")
    assert held(lab) == 3
    client = lab.client("cloudwatch")
    listed = client.list_metrics(Namespace="n", MetricName="m")["Metrics"]
    assert sorted(m["Dimensions"][0]["Value"] for m in listed) == ["a", "b"]
    (result,) = client.get_metric_data(
        StartTime=now(lab) - timedelta(hours=1), EndTime=now(lab),
        MetricDataQueries=[{
            "Id": "q", "MetricStat": {"Stat": "Sum", "Period": 3600, "Metric": {
                "Namespace": "n", "MetricName": "m", "Dimensions": [{"Name": "shard", "Value": "b"}]}},
        }],
    )["MetricDataResults"]  # fmt: skip
    assert result["Values"] == [3.0]


def test_a_metric_is_the_one_with_exactly_these_dimensions(lab: MotoLab):
    put(lab, 1.0)
    put(lab, 2.0, api="a")
    put(lab, 4.0, api="a", stage="s")
    client = lab.client("cloudwatch")
    times = {"StartTime": now(lab) - timedelta(hours=1), "EndTime": now(lab) + timedelta(hours=1)}
    for pairs, total in (({}, 1.0), ({"api": "a"}, 2.0), ({"stage": "s", "api": "a"}, 4.0)):
        dimensions = [{"Name": name, "Value": value} for name, value in pairs.items()]
        (point,) = client.get_metric_statistics(
            Namespace="n", MetricName="m", Dimensions=dimensions, Period=3600, Statistics=["Sum"], **times
        )["Datapoints"]  # fmt: skip
        assert point["Sum"] == total
        metric = {"Namespace": "n", "MetricName": "m", "Dimensions": dimensions}
        query = {"Id": "q", "MetricStat": {"Stat": "Sum", "Period": 3600, "Metric": metric}}
        (result,) = client.get_metric_data(MetricDataQueries=[query], **times)["MetricDataResults"]
        assert sum(result["Values"]) == total


def test_old_points_grow_coarse_and_go(lab: MotoLab):
    start = now(lab) - timedelta(days=2)
    for _ in range(10):
        put(lab, 1.0)
        lab.clock.advance(60)
    lab.clock.advance(16 * 86_400)
    put(lab, 0.0, name="other")
    # Ten points of a minute are two or three of five minutes.
    assert held(lab) in (3, 4)
    assert sum(point["Sum"] for point in statistics(lab, start, 3600)) == 10.0
    lab.clock.advance(50 * 86_400)
    put(lab, 0.0, name="other")
    assert sum(point["Sum"] for point in statistics(lab, start, 86_400)) == 10.0
    lab.clock.advance(460 * 86_400)
    put(lab, 0.0, name="other")
    lab.clock.advance(300)
    put(lab, 0.0, name="other")
    assert statistics(lab, start, 86_400) == []


def test_there_is_a_bound(lab: MotoLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(patches, "MOST_RAW", 10)
    monkeypatch.setattr(patches, "MOST_POINTS", 20)
    for n in range(100):
        put(lab, float(n), name=f"m{n}")
    assert held(lab) <= 31
    names = {m["MetricName"] for m in lab.client("cloudwatch").list_metrics()["Metrics"]}
    assert "m99" in names
    assert "m0" not in names


def test_alarms_last_and_data_does_not(lab: MotoLab):
    put(lab, 1.0)
    lab.client("cloudwatch").put_metric_alarm(
        AlarmName="a", MetricName="m", Namespace="n", Statistic="Sum", Period=60,
        EvaluationPeriods=1, Threshold=1.0, ComparisonOperator="GreaterThanThreshold",
    )  # fmt: skip
    lab.restart()
    client = lab.client("cloudwatch")
    assert [a["AlarmName"] for a in client.describe_alarms()["MetricAlarms"]] == ["a"]
    assert client.list_metrics()["Metrics"] == []


def data_of(lab: MotoLab, start: datetime, end: datetime, *periods_s: int) -> list[list[float]]:
    queries = [
        {
            "Id": f"q{number}",
            "MetricStat": {
                "Metric": {"Namespace": "n", "MetricName": "m"}, "Period": period_s, "Stat": "Sum",
            },
        }
        for number, period_s in enumerate(periods_s)
    ]  # fmt: skip
    answer = lab.client("cloudwatch").get_metric_data(
        MetricDataQueries=queries, StartTime=start, EndTime=end, ScanBy="TimestampAscending"
    )
    return [one["Values"] for one in answer["MetricDataResults"]]


def test_a_thousand_years_of_seconds_are_answered_at_once(lab: MotoLab):
    lab.clock.advance(40)
    put(lab, 1.0, 2.0)
    lab.clock.advance(120)
    put(lab, 4.0)
    start, end = datetime(1970, 1, 1, tzinfo=UTC), datetime(2970, 1, 1, tzinfo=UTC)
    assert data_of(lab, start, end, 1, 60, 86_400) == [[3.0, 4.0], [3.0, 4.0], [7.0]]
    assert data_of(lab, now(lab) - timedelta(seconds=180), end, 60, 300) == [[3.0, 4.0], [7.0]]


@pytest.mark.parametrize("period_s", [0, 7, 61])
def test_a_period_that_cloudwatch_does_not_have_is_refused(lab: MotoLab, period_s: int):
    put(lab, 1.0)
    with pytest.raises(ClientError, match=r"InvalidParameterValue.*MetricDataQueries\.member\.2"):
        data_of(lab, now(lab) - timedelta(hours=1), now(lab), 60, period_s)
    with pytest.raises(ClientError, match=r"InvalidParameterValue.*The parameter Period must be"):
        statistics(lab, now(lab) - timedelta(hours=1), period_s)


def test_more_than_1440_datapoints_are_refused_with_awss_words(lab: MotoLab):
    start = now(lab) + timedelta(minutes=1) - timedelta(minutes=1441)
    with pytest.raises(
        ClientError, match="requested up to 1,441 datapoints, which exceeds the limit of 1,440"
    ):
        statistics(lab, start)
    assert statistics(lab, start + timedelta(minutes=1)) == []


def test_a_value_that_is_repeated_often_is_one_point(lab: MotoLab):
    start = now(lab) - timedelta(minutes=1)
    lab.client("cloudwatch").put_metric_data(
        Namespace="n",
        MetricData=[
            {
                "MetricName": "m",
                "Timestamp": now(lab),
                "Values": [2.0, 4.0, 6.0],
                "Counts": [1e12, 3.0, 1e12],
            },
        ],
    )
    assert held(lab) == 5
    total = 8e12 + 12.0
    assert statistics(lab, start, 3600) == [
        {
            "Sum": total,
            "Minimum": 2.0,
            "Maximum": 6.0,
            "SampleCount": 2e12 + 3,
            "Average": total / (2e12 + 3),
        }
    ]


def test_a_refusal_names_the_metric_by_its_place(lab: MotoLab):
    often = {"MetricName": "m", "Values": [2.0, 4.0], "Counts": [1e12, 3.0]}
    unequal = {"MetricName": "m", "Values": [2.0, 4.0], "Counts": [1.0]}
    with pytest.raises(ClientError, match=r"MetricData\.member\.2\.Values .* the same size"):
        lab.client("cloudwatch").put_metric_data(Namespace="n", MetricData=[often, unequal])
    assert held(lab) == 0


# --- statistics -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stat", "value"),
    [
        ("p90", 90.0), ("p50", 50.0), ("p99.9", 100.0), ("tm90", 45.5), ("tc90", 90.0), ("ts10", 55.0),
        ("wm90", 49.95), ("TM(10%:90%)", 50.5), ("TS(:20)", 210.0), ("PR(10:40)", 30.0), ("IQM", 50.5),
    ],
)  # fmt: skip
def test_extended_statistics(lab: MotoLab, stat: str, value: float):
    """Also once the values of a minute are one point."""
    lab.clock.advance(40)  # the start of a minute
    start = now(lab)
    put(lab, *map(float, range(1, 101)))
    for wait_s in (0, 4 * 60):
        lab.clock.advance(wait_s)
        put(lab, 7.0, name="other")
        window: Any = {"StartTime": start, "EndTime": start + timedelta(minutes=1)}
        client: Any = lab.client("cloudwatch")
        (point,) = client.get_metric_statistics(
            Namespace="n", MetricName="m", Period=60, ExtendedStatistics=[stat], **window
        )["Datapoints"]
        assert point["ExtendedStatistics"][stat] == pytest.approx(value)
        assert point["Timestamp"] == start
        wanted = {"Metric": {"Namespace": "n", "MetricName": "m"}, "Period": 60, "Stat": stat}
        (series,) = client.get_metric_data(
            MetricDataQueries=[{"Id": "a", "MetricStat": wanted}], **window
        )["MetricDataResults"]
        assert series["Values"] == [pytest.approx(value)]


def test_points_tell_no_more_values_apart_than_memory_has_room_for(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(patches, "MOST_SPREAD", 5)
    lab.clock.advance(40)  # the start of a minute
    start = now(lab)
    put(lab, *map(float, range(1, 101)))
    lab.clock.advance(4 * 60)
    put(lab, 7.0, name="other")
    (point,) = lab.client("cloudwatch").get_metric_statistics(
        Namespace="n", MetricName="m", StartTime=start, EndTime=start + timedelta(minutes=1), Period=60,
        ExtendedStatistics=["TC(0:4)", "TC(4:5)", "TC(5:1000)"], Statistics=["Sum"],
    )["Datapoints"]  # fmt: skip
    assert point["Sum"] == 5050.0
    assert point["ExtendedStatistics"] == {"TC(0:4)": 4.0, "TC(4:5)": 96.0, "TC(5:1000)": 0.0}


@pytest.mark.parametrize("stat", ["p101", "median", "PR(1%:2%)", "TM(:)"])
def test_a_statistic_that_cloudwatch_does_not_have_is_refused(lab: MotoLab, stat: str):
    put(lab, 1.0)
    with pytest.raises(ClientError, match="CloudWatch does not have the statistic"):
        lab.client("cloudwatch").get_metric_statistics(
            Namespace="n", MetricName="m", StartTime=now(lab) - timedelta(minutes=1),
            EndTime=now(lab) + timedelta(minutes=1), Period=60, ExtendedStatistics=[stat],
        )  # fmt: skip


def test_a_metric_without_dimensions_is_not_the_sum_of_those_with_some(lab: MotoLab):
    start = now(lab) - timedelta(minutes=1)
    put(lab, 1.0, shop="a")
    assert statistics(lab, start) == []
    put(lab, 2.0)
    assert [point["Sum"] for point in statistics(lab, start)] == [2.0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e300, 2.0**361])
def test_a_value_that_cloudwatch_does_not_store_is_refused(lab: MotoLab, value: float):
    """Documented in API_MetricDatum.html; by forms, which can say each of these."""
    put = lab.client("cloudwatch").put_metric_data
    ends = {"Sum": 1.0, "Minimum": 1.0, "Maximum": value, "SampleCount": 1.0}
    for datum in ({"Value": value}, {"Values": [1.0, value]}, {"StatisticValues": ends}):
        with pytest.raises(ClientError) as refused:
            put(Namespace="n", MetricData=[{"MetricName": "m", **datum}])
        assert refused.value.response["Error"]["Code"] in (
            "InvalidParameterValue",
            "SerializationException",
        )
    put(Namespace="n", MetricData=[{"MetricName": "m", "Value": -(2.0**360)}])
