"""DescribeAlarmHistory: the changes of alarms' states, which moto notes and does not show.

Documented: API_DescribeAlarmHistory (by default the newest first, 100 a page), and the fields of HistoryData in
"Amazon CloudWatch alarms" (its version 1.0). The history of an alarm is gone with it; AWS keeps it for 30 days. Actions
and changes of alarms' configuration are not noted.
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

_KIND = "StateUpdate"
# Documented: how many items a page has at most, and by default.
_MOST = 100
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
        for item in _changes(alarm)
        if item["AlarmType"] in types
        and asked in (None, _KIND)
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
        yield {
            "AlarmName": alarm.name,
            "AlarmType": "CompositeAlarm" if alarm.rule else "MetricAlarm",
            "Timestamp": _utc(after[3]),
            "HistoryItemType": _KIND,
            "HistorySummary": f"Alarm updated from {old['stateValue']} to {new['stateValue']}",
            "HistoryData": json.dumps(
                {"version": "1.0", "oldState": old, "newState": new}, separators=(",", ":")
            ),
        }


def _state(reason: str, data: str | None, value: str) -> dict[str, Any]:
    state: dict[str, Any] = {"stateValue": value, "stateReason": reason}
    details = json.loads(data or "{}")
    return {**state, "stateReasonData": details} if details else state


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
