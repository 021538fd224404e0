"""Runs the actions of CloudWatch's alarms when their state changes: topics, functions, the default event bus.

SetAlarmState and `headrace.services.cloudwatch.alarms` change it.
Documented: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Notify_Users_Alarm_Changes.html,
alarms-and-actions-Lambda.html and cloudwatch-and-eventbridge.html.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from botocore.loaders import create_loader

from headrace.deliveries.outbox import queue_call
from headrace.deliveries.service_events import queue_service_event
from headrace.moto.current_cloud import CURRENT
from headrace.moto.requests.quick import find_backend
from headrace.moto.storage.changes import CHANGES
from headrace.services.cloudwatch.alarm_history import note_action
from headrace.services.cloudwatch.alarm_rules import time_text

log = logging.getLogger(__name__)

_FUNCTION_SERVICE = "lambda.alarms.cloudwatch.amazonaws.com"
_ACTIONS = {
    "ALARM": "alarm_actions",
    "OK": "ok_actions",
    "INSUFFICIENT_DATA": "insufficient_data_actions",
}


@functools.cache
def patch() -> None:
    """Make moto's alarms run their actions; called once."""
    from moto.cloudwatch.models import CloudWatchBackend

    backend: Any = CloudWatchBackend
    backend.set_alarm_state = _act_on_change(backend.set_alarm_state)
    backend.put_metric_alarm = _of_arns(backend.put_metric_alarm)


def _of_arns(put: Any) -> Any:
    """Refuse actions that are no ARNs (the code is observed by others, the sentence assumed)."""
    from moto.cloudwatch.exceptions import ValidationError

    @functools.wraps(put)
    def put_metric_alarm(self: Any, *args: Any, **named: Any) -> Any:
        for member in _ACTIONS.values():
            for action in named.get(member) or ():
                if not _is_arn(str(action)):
                    raise ValidationError(f"Invalid arn syntax: {action}")
        return put(self, *args, **named)

    return put_metric_alarm


def _is_arn(action: str) -> bool:
    parts = action.split(":")
    return len(parts) >= 6 and parts[0] == "arn"


def _act_on_change(set_alarm_state: Any) -> Any:
    @functools.wraps(set_alarm_state)
    def set_and_act(
        self: Any, alarm_name: str, reason: str, reason_data: str, state_value: str
    ) -> None:
        known = self.alarms.get(alarm_name)
        before = None if known is None else _state(known)
        set_alarm_state(self, alarm_name, reason, reason_data, state_value)
        alarm = self.alarms[alarm_name]
        if before is not None and before["value"] != state_value and CURRENT.control is not None:
            _act(alarm, before, str(self.account_id), str(self.region_name))

    return set_and_act


def _state(alarm: Any) -> dict[str, Any]:
    return {
        "value": alarm.state_value,
        "reason": alarm.state_reason,
        **({"reasonData": alarm.state_reason_data} if alarm.state_reason_data else {}),
        "timestamp": time_text(alarm.state_updated_timestamp),
    }


def _act(alarm: Any, before: dict[str, Any], account: str, region: str) -> None:
    _to_bus(alarm, before, account, region)
    if not alarm.actions_enabled:
        return
    for action in list(getattr(alarm, _ACTIONS[alarm.state_value]) or []):
        service = str(action).split(":")[2] if _is_arn(str(action)) else ""
        if service == "sns":
            message = json.dumps(_message(alarm, before, account, region))
            subject = f'{alarm.state_value}: "{alarm.name}" in {region}'[:100]
            params = {"TopicArn": action, "Message": message, "Subject": subject}
            what = f"The alarm {alarm.name} for {action}"
            queue_call(what, "sns", "Publish", params, account=account, region=region)
            refusal = "" if _is_topic(str(action)) else "Topic does not exist"
            note_action(alarm, str(action), message, refusal)
        elif service == "lambda" and CURRENT.functions is not None:
            event = json.dumps(_event(alarm, before, account, region))
            is_taken = CURRENT.functions(
                str(action),
                event.encode(),
                service=_FUNCTION_SERVICE,
                source_arn=str(alarm.alarm_arn),
            )
            refusal = "The function does not exist, or its policy refuses CloudWatch's alarms."
            note_action(alarm, str(action), event, "" if is_taken else refusal)
        else:
            log.warning("%s: headrace does not support the action %s", alarm.alarm_arn, action)


def _is_topic(arn: str) -> bool:
    """Whether a topic is there. Callers hold moto's lock."""
    CHANGES.load_deferred("sns")
    _, _, _, region, account, _ = arn.split(":", 5)
    sns = find_backend("sns", account, region)
    return sns is not None and arn in sns.topics


def _configuration(alarm: Any) -> dict[str, Any]:
    """Return what an alarm watches, as functions and the bus are told (recorded, and documented for expressions)."""
    described = {"description": alarm.description} if alarm.description else {}
    if alarm.rule:
        return {"alarmRule": alarm.rule, **described}
    return {**described, "metrics": list(_metrics(alarm))}


def _metrics(alarm: Any) -> Iterator[dict[str, Any]]:
    if alarm.metric_name:
        stat = _stat(alarm, alarm.period, alarm.statistic or alarm.extended_statistic)
        yield {
            "id": str(uuid5(NAMESPACE_URL, alarm.alarm_arn)),
            "metricStat": stat,
            "returnData": True,
        }
    for query in alarm.metric_data_queries or ():
        shown: dict[str, Any] = {"id": query.id}
        if query.expression:
            shown["expression"] = query.expression
        else:
            shown["metricStat"] = _stat(
                query.metric_stat.metric, query.metric_stat.period, query.metric_stat.stat
            )
        if query.label:
            shown["label"] = query.label
        yield {**shown, "returnData": str(query.return_data).lower() != "false"}


def _stat(metric: Any, period_s: Any, stat: Any) -> dict[str, Any]:
    dimensions = {dimension.name: dimension.value for dimension in metric.dimensions or ()}
    named = {
        "namespace": metric.namespace,
        "name": metric.metric_name,
        "dimensions": dimensions,
    }
    return {"metric": named, "period": period_s, "stat": stat}


def _event(alarm: Any, before: dict[str, Any], account: str, region: str) -> dict[str, Any]:
    return {
        "source": "aws.cloudwatch",
        "alarmArn": alarm.alarm_arn,
        "accountId": account,
        "time": _state(alarm)["timestamp"],
        "region": region,
        "alarmData": {
            "alarmName": alarm.name,
            "state": _state(alarm),
            "previousState": before,
            "configuration": _configuration(alarm),
        },
    }


@functools.cache
def _region_names() -> dict[str, str]:
    """Return the names in words that AWS gives to its regions, such as US East (N. Virginia), by their ids."""
    partitions: Any = create_loader().load_data("partitions")
    return {
        region: about["description"]
        for partition in partitions["partitions"]
        for region, about in partition["regions"].items()
    }


def _message(alarm: Any, before: dict[str, Any], account: str, region: str) -> dict[str, Any]:
    return {
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.description,
        "AWSAccountId": account,
        "NewStateValue": alarm.state_value,
        "NewStateReason": alarm.state_reason,
        "AlarmConfigurationUpdatedTimestamp": time_text(alarm.configuration_updated_timestamp),
        "StateChangeTime": _state(alarm)["timestamp"],
        "Region": _region_names().get(region, region),
        "AlarmArn": alarm.alarm_arn,
        "OldStateValue": before["value"],
        "OKActions": list(alarm.ok_actions or []),
        "AlarmActions": list(alarm.alarm_actions or []),
        "InsufficientDataActions": list(alarm.insufficient_data_actions or []),
        "Trigger": {
            "MetricName": alarm.metric_name,
            "Namespace": alarm.namespace,
            "StatisticType": "Statistic" if alarm.statistic else "ExtendedStatistic",
            "Statistic": str(alarm.statistic or alarm.extended_statistic or "").upper(),
            "Unit": alarm.unit,
            "Dimensions": [
                {"value": dimension.value, "name": dimension.name} for dimension in alarm.dimensions
            ],
            "Period": alarm.period,
            "EvaluationPeriods": alarm.evaluation_periods,
            "ComparisonOperator": alarm.comparison_operator,
            "Threshold": alarm.threshold,
            "TreatMissingData": alarm.treat_missing_data or "",
            "EvaluateLowSampleCountPercentile": alarm.evaluate_low_sample_count_percentile or "",
        },
    }


def _to_bus(alarm: Any, before: dict[str, Any], account: str, region: str) -> None:
    detail = {
        "alarmName": alarm.name,
        "state": _state(alarm),
        "previousState": before,
        "configuration": _configuration(alarm),
    }
    queue_service_event(
        f"The alarm {alarm.name}",
        "aws.cloudwatch",
        "CloudWatch Alarm State Change",
        detail,
        resources=[alarm.alarm_arn],
        account=account,
        region=region,
    )
