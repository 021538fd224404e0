"""DescribeAlarmHistory tells the changes of alarms' states, their actions, and how they were made and changed."""

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
    states = {"AlarmName": "deep", "HistoryItemType": "StateUpdate"}
    answer = watch.describe_alarm_history(**states)
    newest_first = ["ALARM to OK", "OK to ALARM", "INSUFFICIENT_DATA to OK"]
    assert summaries(answer) == newest_first
    ascending = watch.describe_alarm_history(**states, ScanBy="TimestampAscending")
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
    # Two alarms were made, and one was changed.
    assert asked() == 3 + 3
    assert asked(AlarmName="quiet") == 1
    assert asked(AlarmTypes=["CompositeAlarm"]) == 1 + 1
    assert asked(AlarmTypes=["CompositeAlarm", "MetricAlarm"]) == 8
    assert asked(HistoryItemType="StateUpdate") == 3
    assert asked(HistoryItemType="ConfigurationUpdate") == 3
    assert asked(HistoryItemType="Action") == 0
    assert asked(StartDate=now - hour, EndDate=now + hour) == 6
    assert asked(StartDate=now + hour) == asked(EndDate=now - hour) == 0


def test_a_long_history_has_pages(watch: Any):
    pages = list(
        watch.get_paginator("describe_alarm_history").paginate(
            AlarmName="deep", HistoryItemType="StateUpdate", PaginationConfig={"PageSize": 2}
        )
    )
    assert [len(page["AlarmHistoryItems"]) for page in pages] == [2, 1]
    with pytest.raises(ClientError, match="InvalidNextToken"):
        watch.describe_alarm_history(NextToken="mine")


def test_the_oldest_changes_go(watch: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alarm_history, "MOST_HISTORY", 2)
    for state in ("INSUFFICIENT_DATA", "ALARM"):
        watch.set_alarm_state(AlarmName="deep", StateValue=state, StateReason="r")
    kept = watch.describe_alarm_history(AlarmName="deep", HistoryItemType="StateUpdate")
    assert summaries(kept) == ["INSUFFICIENT_DATA to ALARM", "OK to INSUFFICIENT_DATA"]


def test_a_change_of_an_alarm_is_told_as_aws_does(watch: Any):
    """The form of a creation was published by users, of AWS's answers in 2022 and 2023."""
    told = watch.describe_alarm_history(
        AlarmName="deep", HistoryItemType="ConfigurationUpdate", ScanBy="TimestampAscending"
    )["AlarmHistoryItems"]
    assert [item["HistorySummary"] for item in told] == [
        'Alarm "deep" created',
        'Alarm "deep" updated',
    ]
    made, changed = (json.loads(item["HistoryData"]) for item in told)
    assert (made["version"], made["type"], changed["type"]) == ("1.0", "Create", "Update")
    alarm = made["createdAlarm"]
    assert (alarm["alarmName"], alarm["namespace"], alarm["threshold"]) == ("deep", "n", 1.0)
    assert (alarm["stateValue"], alarm["okactions"]) == ("INSUFFICIENT_DATA", [])
    assert (changed["updatedAlarm"]["threshold"], changed["updatedAlarm"]["stateValue"]) == (
        2.0,
        "OK",
    )


def test_an_action_is_told_with_what_became_of_it(lab: MotoLab):
    topic = lab.client("sns").create_topic(Name="t")["TopicArn"]
    client, none = lab.client("cloudwatch"), topic.replace(":t", ":none")
    client.put_metric_alarm(AlarmName="a", AlarmActions=[topic, none], **METRIC)
    client.set_alarm_state(AlarmName="a", StateValue="ALARM", StateReason="by hand")
    lab.restart()
    told = lab.client("cloudwatch").describe_alarm_history(
        AlarmName="a", HistoryItemType="Action", ScanBy="TimestampAscending"
    )["AlarmHistoryItems"]
    assert [item["HistorySummary"] for item in told] == [
        f"Successfully executed action {topic}",
        f'Failed to execute action {none}. Received error: "Topic does not exist"',
    ]
    done, failed = (json.loads(item["HistoryData"]) for item in told)
    assert (done["actionState"], failed["actionState"]) == ("Succeeded", "Failed")
    assert done["notificationResource"] == topic
    assert done["stateUpdateTimestamp"] == round(told[0]["Timestamp"].timestamp() * 1000)
    message = json.loads(json.loads(done["publishedMessage"])["default"])
    assert (message["AlarmName"], message["NewStateValue"]) == ("a", "ALARM")


def test_what_is_too_long_for_an_answer_is_told_without_the_message(lab: MotoLab):
    topic = lab.client("sns").create_topic(Name="t")["TopicArn"]
    client = lab.client("cloudwatch")
    client.put_metric_alarm(
        AlarmName="a", AlarmActions=[topic], AlarmDescription="d" * 1024, **METRIC
    )
    client.set_alarm_state(AlarmName="a", StateValue="ALARM", StateReason='"' * 1023)
    (told,) = client.describe_alarm_history(HistoryItemType="Action")["AlarmHistoryItems"]
    assert json.loads(told["HistoryData"])["notificationResource"] == topic
    assert "publishedMessage" not in told["HistoryData"]


@pytest.mark.parametrize("action", ["foo", "arn:aws:sns", "arn:aws:sns:us-east-1:000000000000"])
@pytest.mark.parametrize("of", ["AlarmActions", "OKActions", "InsufficientDataActions"])
def test_an_action_that_is_no_arn_is_refused(lab: MotoLab, of: str, action: str):
    with pytest.raises(ClientError) as refused:
        lab.client("cloudwatch").put_metric_alarm(AlarmName="a", **METRIC, **{of: [action]})
    error = refused.value.response["Error"]
    assert (error["Code"], error["Message"]) == ("ValidationError", f"Invalid arn syntax: {action}")
    assert lab.client("cloudwatch").describe_alarms()["MetricAlarms"] == []
