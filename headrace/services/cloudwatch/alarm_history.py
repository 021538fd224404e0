"""DescribeAlarmHistory: the changes of alarms' states, which moto notes and does not show, their actions and changes.

Documented: API_DescribeAlarmHistory (by default the newest first, 100 a page; HistoryData has at most 4,095
characters), and the fields of HistoryData in "Amazon CloudWatch alarms" (its version 1.0). Those of a creation and of
an action are as users published AWS's answers of 2022 and 2023; those of an update and of a failed action are assumed
to be alike. The history of an alarm is gone with it; AWS keeps it for 30 days.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from headrace.core.values import BadMarker, page_of
from headrace.services.cloudwatch.alarm_rules import time_text

_KIND, _CONFIGURATION, _ACTION = "StateUpdate", "ConfigurationUpdate", "Action"
# Documented: how many items a page has at most, and by default.
_MOST = 100
_MOST_DATA = 4_095
# headrace's limit for an alarm, whose state is stored whole with each change.
MOST_HISTORY = 500


def add_calls(module: Any) -> None:
    """Add the call to moto's responses."""
    module.CloudWatchResponse.describe_alarm_history = describe_alarm_history


def bound_histories(module: Any) -> None:
    """Drop an alarm's oldest states, which moto keeps for ever."""
    update_state = module.Alarm.update_state

    @functools.wraps(update_state)
    def update(self: Any, *args: Any, **named: Any) -> None:
        update_state(self, *args, **named)
        del self.history[:-MOST_HISTORY]

    module.Alarm.update_state = update


def describe_alarm_history(self: Any) -> Any:
    """DescribeAlarmHistory, of one alarm or of all."""
    from moto.cloudwatch.exceptions import CloudWatchException
    from moto.core.responses import ActionResult

    name, types = self._get_param("AlarmName"), self._get_param("AlarmTypes") or ["MetricAlarm"]
    asked, start, end = map(self._get_param, ("HistoryItemType", "StartDate", "EndDate"))
    items = [
        item
        for alarm in self.cloudwatch_backend.alarms.values()
        if name in (None, alarm.name)
        for item in (*_changes(alarm), *_noted(alarm))
        if item["AlarmType"] in types
        and asked in (None, item["HistoryItemType"])
        and (not start or item["Timestamp"] >= _utc(start))
        and (not end or item["Timestamp"] <= _utc(end))
    ]
    is_ascending = self._get_param("ScanBy") == "TimestampAscending"
    items.sort(key=lambda item: item["Timestamp"])
    if not is_ascending:
        items.reverse()
    most = min(self._get_param("MaxRecords") or _MOST, _MOST)
    try:
        page, following = page_of(items, self._get_param("NextToken") or None, most)
    except BadMarker:
        raise CloudWatchException("InvalidNextToken", "Invalid NextToken") from None
    return ActionResult(
        {"AlarmHistoryItems": page, **({"NextToken": following} if following else {})}
    )


def _changes(alarm: Any) -> Iterator[dict[str, Any]]:
    """Yield an alarm's changes, oldest first. moto notes each state as it ends."""
    now = (
        _KIND,
        alarm.state_reason,
        alarm.state_reason_data,
        alarm.state_value,
        alarm.state_updated_timestamp,
    )
    for (_, *before), (_, *after) in itertools.pairwise([*alarm.history, now]):
        old, new = _state(*before[:3]), _state(*after[:3])
        if old["stateValue"] == new["stateValue"]:
            continue
        summary = f"Alarm updated from {old['stateValue']} to {new['stateValue']}"
        data = _text({"version": "1.0", "oldState": old, "newState": new})
        yield _item(alarm, after[3], _KIND, summary, data)


def _item(alarm: Any, at: datetime, kind: str, summary: str, data: str) -> dict[str, Any]:
    return {
        "AlarmName": alarm.name,
        "AlarmType": "CompositeAlarm" if alarm.rule else "MetricAlarm",
        "Timestamp": _utc(at),
        "HistoryItemType": kind,
        "HistorySummary": summary,
        "HistoryData": data,
    }


def _text(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"))


def _noted(alarm: Any) -> Iterator[dict[str, Any]]:
    """Yield an alarm's actions and changes, oldest first."""
    for at, kind, summary, data in getattr(alarm, "noted", ()):
        yield _item(alarm, at, kind, summary, data)


def _note(alarm: Any, at: datetime, kind: str, summary: str, data: dict[str, Any]) -> None:
    noted = vars(alarm).setdefault("noted", [])
    text = _text(data)
    # What is too long for AWS's answer is left out of it: the message that was published.
    if len(text) > _MOST_DATA:
        text = _text({name: value for name, value in data.items() if name not in _LONG})
    noted.append((at, kind, summary[:255], text if len(text) <= _MOST_DATA else "{}"))
    del noted[:-MOST_HISTORY]


_LONG = ("publishedMessage", "createdAlarm", "updatedAlarm")


def note_change(alarm: Any, *, is_new: bool) -> None:
    """Note that an alarm was created or changed."""
    word, member = ("Create", "createdAlarm") if is_new else ("Update", "updatedAlarm")
    data = {"version": "1.0", "type": word, member: _configuration(alarm)}
    summary = f'Alarm "{alarm.name}" {word.lower()}d'
    _note(alarm, alarm.configuration_updated_timestamp, _CONFIGURATION, summary, data)


def note_action(alarm: Any, target: str, message: str, error: str) -> None:
    """Note what a change of an alarm's state made happen; `error` is empty for a success."""
    at = alarm.state_updated_timestamp
    data = {
        "actionState": "Failed" if error else "Succeeded",
        "stateUpdateTimestamp": round(_utc(at).timestamp() * 1000),
        "notificationResource": target,
        "publishedMessage": _text({"default": message}),
        **({"error": error} if error else {}),
    }
    failed = f'Failed to execute action {target}. Received error: "{error}"'
    _note(alarm, at, _ACTION, failed if error else f"Successfully executed action {target}", data)


def _configuration(alarm: Any) -> dict[str, Any]:
    """Return an alarm as AWS's history shows it."""
    dimensions = [{"value": each.value, "name": each.name} for each in alarm.dimensions or ()]
    shown = {
        "alarmName": alarm.name,
        "alarmDescription": alarm.description or "",
        "alarmArn": alarm.alarm_arn,
        "alarmConfigurationUpdatedTimestamp": time_text(alarm.configuration_updated_timestamp),
        "namespace": alarm.namespace,
        "metricName": alarm.metric_name,
        "statistic": alarm.statistic,
        "period": alarm.period,
        "dimensions": None if alarm.rule else dimensions,
        "alarmRule": alarm.rule,
        "threshold": alarm.threshold,
        "comparisonOperator": alarm.comparison_operator,
        "evaluationPeriods": alarm.evaluation_periods,
        "datapointsToAlarm": alarm.datapoints_to_alarm,
        "treatMissingData": alarm.treat_missing_data,
        "stateValue": alarm.state_value,
        "stateUpdatedTimestamp": time_text(alarm.state_updated_timestamp),
        "actionsEnabled": alarm.actions_enabled,
        "alarmActions": list(alarm.alarm_actions or []),
        "insufficientDataActions": list(alarm.insufficient_data_actions or []),
        "okactions": list(alarm.ok_actions or []),
    }
    return {name: value for name, value in shown.items() if value is not None}


def _state(reason: str, data: str | None, value: str) -> dict[str, Any]:
    state: dict[str, Any] = {"stateValue": value, "stateReason": reason}
    details = json.loads(data or "{}")
    return {**state, "stateReasonData": details} if details else state


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
