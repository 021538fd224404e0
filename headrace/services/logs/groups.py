"""Log groups' classes and deletion protection, and what answers about groups, filters and policies always show.

Observed by users in 2025 and 2026: the class, the protection and applyOnTransformedLogs are always shown, and so is a
policy's scope. Documented: the operations (AmazonCloudWatchLogs/latest/APIReference). Assumed: the refusal's sentence.
A class has no other effect.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import json
from itertools import pairwise
from typing import Annotated, Any

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.moto.requests.quick import NotPlain, QuickCall, QuickRequest, reader_of

_CLASSES = ("STANDARD", "INFREQUENT_ACCESS", "DELIVERY", "ESSENTIALS")


def patch() -> None:
    """Replace moto's methods; called once."""
    from moto.logs import models, responses

    module: Any = models
    response: Any = responses.LogsResponse
    module.LogGroup.to_describe_dict = _describe_group(module.LogGroup.to_describe_dict)
    module.LogResourcePolicy.describe = _describe_policy(module.LogResourcePolicy.describe)
    response.create_log_group = _keep_settings(response.create_log_group)
    response.delete_log_group = _unless_protected(response.delete_log_group)
    response.put_log_group_deletion_protection = _protect
    response.describe_metric_filters = _describe_filters(response.describe_metric_filters)


def _describe_group(describe: Any) -> Any:
    @functools.wraps(describe)
    def to_describe_dict(self: Any) -> dict[str, Any]:
        # Groups that were stored before have neither.
        return {
            **describe(self),
            "logGroupClass": getattr(self, "log_group_class", "STANDARD"),
            "deletionProtectionEnabled": getattr(self, "is_protected", False),
        }

    return to_describe_dict


def _describe_policy(describe: Any) -> Any:
    @functools.wraps(describe)
    def describe_with_scope(self: Any) -> dict[str, Any]:
        return {**describe(self), "policyScope": "ACCOUNT"}

    return describe_with_scope


def _describe_filters(describe: Any) -> Any:
    @functools.wraps(describe)
    def describe_metric_filters(self: Any) -> str:
        answer = json.loads(describe(self))
        for one in answer["metricFilters"]:
            one.setdefault("applyOnTransformedLogs", False)
        return json.dumps(answer)

    return describe_metric_filters


def _keep_settings(create: Any) -> Any:
    @functools.wraps(create)
    def create_log_group(self: Any) -> str:
        chosen = self._get_param("logGroupClass") or _CLASSES[0]
        if chosen not in _CLASSES:
            raise AwsError(
                "InvalidParameterException",
                f"1 validation error detected: Value '{chosen}' at 'logGroupClass' failed to satisfy constraint:"
                f" Member must satisfy enum value set: [{', '.join(_CLASSES)}]",
            )
        answer: str = create(self)
        group = self.logs_backend.groups[self._get_param("logGroupName")]
        group.log_group_class = chosen
        group.is_protected = bool(self._get_param("deletionProtectionEnabled"))
        return answer

    return create_log_group


def _unless_protected(delete: Any) -> Any:
    @functools.wraps(delete)
    def delete_log_group(self: Any) -> str:
        group = self.logs_backend.groups.get(self._get_param("logGroupName"))
        if getattr(group, "is_protected", False):
            raise AwsError(
                "ValidationException",
                "The log group has deletion protection enabled. Disable it before you delete the log group.",
            )
        return delete(self)

    return delete_log_group


def _protect(self: Any) -> str:
    """PutLogGroupDeletionProtection, by the group's name or ARN."""
    _, _, name = str(self._get_param("logGroupIdentifier")).rpartition(":log-group:")
    group = self.logs_backend.groups.get(name.removesuffix(":*"))
    if group is None:
        raise AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    group.is_protected = bool(self._get_param("deletionProtectionEnabled"))
    return ""


# --- PutLogEvents in the quick way (see `headrace.moto.requests.quick`): functions send it all the time --------------


class _LogEvent(msgspec.Struct, forbid_unknown_fields=True):
    timestamp: Annotated[int, msgspec.Meta(ge=0)]
    message: Annotated[str, msgspec.Meta(min_length=1)]


class _PutLogEvents(msgspec.Struct, forbid_unknown_fields=True):
    logGroupName: str
    logStreamName: str
    logEvents: Annotated[list[_LogEvent], msgspec.Meta(min_length=1)]


def _put_quickly(request: QuickRequest, asked: _PutLogEvents) -> bytes:
    """Put events in their order to a stream that is there, in a group without filters, which take long."""
    backend = request.backend
    group = backend.groups.get(asked.logGroupName)
    if group is None or asked.logStreamName not in group.streams:
        raise NotPlain
    metric_filters = backend.filters.metric_filters
    is_filtered = any(one["logGroupName"] == group.name for one in metric_filters)
    if group.subscription_filters or is_filtered:
        raise NotPlain
    events: list[Any] = msgspec.to_builtins(asked.logEvents)
    if any(later["timestamp"] < one["timestamp"] for one, later in pairwise(events)):
        raise NotPlain
    token, rejected = backend.put_log_events(asked.logGroupName, asked.logStreamName, events)
    info = {"rejectedLogEventsInfo": rejected} if rejected else {}
    return msgspec.json.encode({"nextSequenceToken": token, **info})


QUICK_CALLS = (
    QuickCall(
        "Logs_20140328.PutLogEvents",
        "logs",
        reader_of(_put_quickly, _PutLogEvents),
        content_type="application/x-amz-json-1.1",
        is_own=True,
    ),
)
