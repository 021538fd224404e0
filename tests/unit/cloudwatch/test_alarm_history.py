"""DescribeAlarmHistory tells the changes of alarms' states."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.cloudwatch import alarm_history
from tests.support.moto_lab import MotoLab

METRIC: dict[str, Any] = {
    "Namespace": "n", "MetricName": "m", "Statistic": "Sum", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1,
    "ComparisonOperator": "GreaterThanThreshold",
}  # fmt: skip


@pytest.fixture
def watch(lab: MotoLab) -> Any:
    client = lab.client("cloudwatch")
    client.put_metric_alarm(AlarmName="deep", **METRIC)
    client.put_metric_alarm(AlarmName="quiet", **METRIC)
    client.put_composite_alarm(AlarmName="both", AlarmRule="ALARM(deep) AND ALARM(quiet)")
    for state in ("OK", "ALARM", "ALARM", "OK"):
        client.set_alarm_state(
            AlarmName="deep",
            StateValue=state,
            StateReason=f"it is {state}",
            StateReasonData='{"a":1}',
        )
    client.set_alarm_state(AlarmName="both", StateValue="ALARM", StateReason="by hand")
    client.put_metric_alarm(AlarmName="deep", **{**METRIC, "Threshold": 2})
    return client


def summaries(answer: dict[str, Any]) -> list[str]:
    found = [item["HistorySummary"] for item in answer["AlarmHistoryItems"]]
    assert all(summary.startswith("Alarm updated from ") for summary in found)
    return [summary.removeprefix("Alarm updated from ") for summary in found]


def test_changes_come_newest_first_or_last(watch: Any):
    answer = watch.describe_alarm_history(AlarmName="deep")
    newest_first = ["ALARM to OK", "OK to ALARM", "INSUFFICIENT_DATA to OK"]
    assert summaries(answer) == newest_first
    ascending = watch.describe_alarm_history(AlarmName="deep", ScanBy="TimestampAscending")
    assert summaries(ascending) == newest_first[::-1]
    (newest, *_) = answer["AlarmHistoryItems"]
    assert (newest["AlarmName"], newest["AlarmType"], newest["HistoryItemType"]) == (
        "deep",
        "MetricAlarm",
        "StateUpdate",
    )
    data = json.loads(newest["HistoryData"])
    assert data["version"] == "1.0"
    state = {"stateReasonData": {"a": 1}}
    assert data["oldState"] == {"stateValue": "ALARM", "stateReason": "it is ALARM", **state}
    assert data["newState"] == {"stateValue": "OK", "stateReason": "it is OK", **state}


def test_only_what_is_asked_for_is_told(watch: Any):
    def asked(**params: Any) -> int:
        return len(watch.describe_alarm_history(**params)["AlarmHistoryItems"])

    hour = timedelta(hours=1)
    now = watch.describe_alarm_history()["AlarmHistoryItems"][0]["Timestamp"]
    assert asked() == 3
    assert asked(AlarmName="quiet") == 0
    assert asked(AlarmTypes=["CompositeAlarm"]) == 1
    assert asked(AlarmTypes=["CompositeAlarm", "MetricAlarm"]) == 4
    assert asked(HistoryItemType="StateUpdate") == 3
    assert asked(HistoryItemType="ConfigurationUpdate") == 0
    assert asked(StartDate=now - hour, EndDate=now + hour) == 3
    assert asked(StartDate=now + hour) == asked(EndDate=now - hour) == 0


def test_a_long_history_has_pages(watch: Any):
    pages = list(
        watch.get_paginator("describe_alarm_history").paginate(
            AlarmName="deep", PaginationConfig={"PageSize": 2}
        )
    )
    assert [len(page["AlarmHistoryItems"]) for page in pages] == [2, 1]
    with pytest.raises(ClientError, match="InvalidNextToken"):
        watch.describe_alarm_history(NextToken="mine")


def test_the_oldest_changes_go(watch: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alarm_history, "MOST_HISTORY", 2)
    for state in ("INSUFFICIENT_DATA", "ALARM"):
        watch.set_alarm_state(AlarmName="deep", StateValue=state, StateReason="r")
    kept = watch.describe_alarm_history(AlarmName="deep")
    assert summaries(kept) == ["INSUFFICIENT_DATA to ALARM", "OK to INSUFFICIENT_DATA"]
