"""The forecast of when waiting records expire, the alarms that state it, and the dashboard's places."""

from __future__ import annotations

import json

import pytest

from headrace.dashboard.export import (
    Forecast,
    cdk_code,
    cloudwatch_dashboard,
    forecasts_of,
    suggested_alarms,
)
from headrace.dashboard.inventory import Inventory
from tests.support.cloud import InProcessCloud

HOUR_S = 3600


def pipeline(hours: int = 24) -> Inventory:
    inventory = Inventory()
    inventory.add("stream", "orders", facts={"retentionHours": hours})
    inventory.add("stream", "long", facts={"retentionHours": 168})
    inventory.connect("stream:orders", "function:enrich", "mapping:u")
    inventory.connect("stream:long", "function:enrich", "mapping:v")
    inventory.connect("stream:orders", "delivery:enrich")
    inventory.connect("delivery:enrich", "bucket:lake")
    inventory.connect("queue:work", "function:enrich", "mapping:w")
    return inventory


def forecast_of(hours: int) -> Forecast:
    return next(one for one in forecasts_of(pipeline(hours)) if one.via == "mapping:u")


@pytest.mark.parametrize(
    ("ages_s", "slope", "expires_s", "is_due"),
    [
        # A reader that has stopped: its age grows by a second a second.
        ([64_800, 64_810, 64_820], 1.0, 86_400 - 64_820, True),
        ([100, 110, 120], 1.0, 86_280, False),
        # A quarter as fast as what arrives.
        ([1_000, 1_007.5, 1_015], 0.75, (86_400 - 1_015) / 0.75, False),
        ([500, 400, 300], -10.0, None, False),
        ([50, 50, 50], 0.0, None, False),
        ([0, 0, 0], 0.0, None, False),
        ([90_000, 90_010, 90_020], 1.0, 0.0, True),
    ],
)
def test_records_expire_when_the_age_reaches_the_retention_at_its_slope(
    ages_s: list[float], slope: float, expires_s: float | None, *, is_due: bool
) -> None:
    points = [(n * 10_000, 1.0, round(age_s * 1000), 5) for n, age_s in enumerate(ages_s)]
    now = forecast_of(24).now(points)
    assert (now["ageS"], now["slope"], now["isDue"]) == (ages_s[-1], slope, is_due)
    assert now["expiresInS"] == (None if expires_s is None else pytest.approx(expires_s))


def test_without_two_ages_nothing_is_forecast() -> None:
    for points in ([], [(0, 1.0, 5_000, 5)], [(0, 1.0, None, 5), (1, 1.0, None, 5)]):
        now = forecast_of(24).now(points)
        assert (now["slope"], now["expiresInS"], now["isDue"]) == (None, None, False)


def test_the_horizon_is_a_quarter_of_the_retention_at_most_twelve_hours() -> None:
    assert [forecast_of(hours).horizon_s // HOUR_S for hours in (24, 48, 120)] == [6, 12, 12]
    assert forecast_of(24).expression == "age + 21600 * RATE(age)"


def test_each_reader_has_its_two_alarms_and_no_name_twice() -> None:
    alarms = suggested_alarms(pipeline(), {"function:enrich": [2_000, 20_000]})
    by_name = {one["AlarmName"]: one for one in alarms}
    assert list(by_name) == [
        "enrich-iterator-age",
        "enrich-iterator-age-forecast",
        "enrich-delivery-age",
        "enrich-delivery-age-forecast",
    ]
    assert by_name["enrich-iterator-age"]["Threshold"] == 60_000
    # Firehose's metric is in seconds.
    assert by_name["enrich-delivery-age"]["Threshold"] == 60
    assert by_name["enrich-iterator-age-forecast"]["Threshold"] == 24 * HOUR_S * 1000
    assert by_name["enrich-delivery-age-forecast"]["Threshold"] == 24 * HOUR_S


def test_the_dashboard_has_the_forecast_and_no_two_graphs_in_one_place() -> None:
    inventory = pipeline()
    for name in "abc":
        inventory.add("queue", name)
    widgets = cloudwatch_dashboard(inventory, "us-east-1")["widgets"]
    taken = {(x, one["y"]) for one in widgets for x in range(one["x"], one["x"] + one["width"])}
    assert len(taken) == sum(one["width"] for one in widgets)
    assert max(one["x"] + one["width"] for one in widgets) == 24
    (graph,) = (
        one for one in widgets if one["properties"]["title"] == "function enrich: age in 6 h"
    )
    assert graph["properties"]["annotations"]["horizontal"][0]["value"] == 86_400_000


def test_cloudwatch_takes_alarms_and_dashboard(tmp_path: object) -> None:
    inventory = pipeline()
    with InProcessCloud(tmp_path / "data", limits="off") as cloud:  # type: ignore[operator]
        cloudwatch = cloud.client("cloudwatch")
        for alarm in suggested_alarms(inventory, {}):
            cloudwatch.put_metric_alarm(**alarm)
        stored = cloudwatch.describe_alarms()["MetricAlarms"]
        body = json.dumps(cloudwatch_dashboard(inventory, "us-east-1"))
        cloudwatch.put_dashboard(DashboardName="pipeline", DashboardBody=body)
    forecast = next(one for one in stored if one["AlarmName"] == "enrich-iterator-age-forecast")
    assert forecast["Metrics"][1]["Expression"] == "age + 21600 * RATE(age)"
    compile(cdk_code(inventory, "us-east-1"), "dashboard.py", "exec")
