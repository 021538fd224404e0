"""Kinesis channels: deliveries of a stream to a bucket."""

from __future__ import annotations

from typing import Any

from headrace.core.values import get_mapping
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceFailed,
    ResourceResult,
    ResourceType,
    boolean,
    enforced,
    tag_map,
    without,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same
from headrace.services.cloudformation.resources.types.kinesis import (
    CHECK_EVERY_S,
    GONE,
    retag,
    wait_until_active,
)

_DESTINATIONS = ("S3DestinationConfiguration", "S3TablesDestinationConfiguration")
_FRESHNESS = "DataFreshnessInSeconds"
_DEFAULT_FRESHNESS_S = 300


def _create(context: Context, properties: Properties) -> ResourceResult:
    params: dict[str, Any] = {
        name: properties[name]
        for name in (
            "ChannelName",
            "ServiceExecutionRoleARN",
            "StreamConfigurationList",
            "EncryptionConfiguration",
        )
        if name in properties
    }
    for name in _DESTINATIONS:
        if name in properties:
            params[name] = _destination(get_mapping(properties, name))
    if "LoggingConfiguration" in properties:
        params["LoggingConfiguration"] = _logging(properties)
    tags = tag_map(properties, context)
    if tags:
        params["Tags"] = tags
    arn = context.call("kinesis", "CreateChannel", params)["ChannelDescription"]["ChannelARN"]
    context.note_made(arn)
    return _build_result(context, arn)


def _destination(destination: dict[str, Any]) -> dict[str, Any]:
    """Return a template's destination with its number as a number."""
    number = {_FRESHNESS: int(destination[_FRESHNESS])} if _FRESHNESS in destination else {}
    return {**destination, **number}


def _logging(properties: Properties) -> dict[str, Any]:
    """Return a template's logging with its boolean as a boolean."""
    logs = get_mapping(get_mapping(properties, "LoggingConfiguration"), "CloudWatchLogs")
    return {"CloudWatchLogs": {**logs, "Enabled": boolean(logs.get("Enabled"))}}


def _build_result(context: Context, arn: str) -> ResourceResult:
    def describe() -> dict[str, Any]:
        answer = context.call("kinesis", "DescribeChannel", {"ChannelARN": arn})
        return dict(answer["ChannelDescription"])

    def status() -> str:
        channel = describe()
        if channel["ChannelStatus"] == "FAILED":
            raise ResourceFailed(f"Channel {arn} is FAILED: {channel['ChannelStatusReason']}")
        return str(channel["ChannelStatus"])

    wait_until_active(context, status, f"Channel {arn}")
    channel = describe()
    created = int(channel["ChannelCreationTimestamp"].timestamp())
    return ResourceResult(
        arn,
        {
            "ChannelARN": arn,
            "ChannelId": channel["ChannelId"],
            "ChannelStatus": "ACTIVE",
            "ChannelCreationTimestamp": str(created),
        },
    )


def _find(context: Context, properties: Properties) -> str | None:
    params: dict[str, Any] = {}
    while True:
        page = context.call("kinesis", "ListChannels", params)
        for channel in page["ChannelSummaries"]:
            if channel["ChannelName"] == properties["ChannelName"]:
                return str(channel["ChannelARN"])
        if "NextToken" not in page:
            return None
        params["NextToken"] = page["NextToken"]


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    change: dict[str, Any] = {}
    for name in _DESTINATIONS:
        before, after = _freshness_s(old, name), _freshness_s(new, name)
        if name in new and before != after:
            change[name] = {_FRESHNESS: after}
    if old.get("LoggingConfiguration") != new.get("LoggingConfiguration"):
        change["LoggingConfiguration"] = _logging(new)
    if change:
        context.call("kinesis", "UpdateChannel", {"ChannelARN": physical_id, **change})
        _build_result(context, physical_id)
    retag(context, physical_id, old, new)
    return _build_result(context, physical_id)


def _freshness_s(properties: Properties, name: str) -> int:
    return int(get_mapping(properties, name).get(_FRESHNESS, _DEFAULT_FRESHNESS_S))


def _is_replaced(old: Properties, new: Properties) -> bool:
    """Return whether more of a destination changes than the data freshness."""
    return any(
        without(get_mapping(old, name), _FRESHNESS) != without(get_mapping(new, name), _FRESHNESS)
        for name in _DESTINATIONS
    )


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"ChannelARN": physical_id}
    context.delete_if_exists("kinesis", "DeleteChannel", params, GONE)
    # The stream cannot be deleted before its channels are gone.
    while context.find_identifier(
        "kinesis", "DescribeChannel", params, "channel", "ChannelDescription"
    ):
        context.pause(CHECK_EVERY_S)


TYPES = [
    ResourceType(
        "AWS::Kinesis::Channel",
        enforced(
            "ChannelName",
            "ServiceExecutionRoleARN",
            "StreamConfigurationList",
            *_DESTINATIONS,
            "EncryptionConfiguration",
            "LoggingConfiguration",
            "Tags",
        ),
        _create,
        _delete,
        update=_update,
        replace_on=frozenset(
            {
                "ChannelName",
                "ServiceExecutionRoleARN",
                "StreamConfigurationList",
                "EncryptionConfiguration",
            }
        ),
        may_replace=frozenset(_DESTINATIONS),
        replaced_if=_is_replaced,
        named_by=("ChannelName",),
        made=_find,
    ),
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::Kinesis::Channel",
        "kinesis",
        (
            ReadCall(
                "DescribeChannel",
                {"ChannelARN": "@id"},
                "ChannelDescription",
                same(
                    "ChannelName ServiceExecutionRoleARN StreamConfigurationList S3DestinationConfiguration"
                    " S3TablesDestinationConfiguration EncryptionConfiguration LoggingConfiguration"
                ),
            ),
        ),
        same("ChannelARN ChannelId ChannelStatus"),
        gone=lambda channel: channel["ChannelStatus"] == "DELETING",
    ),
)
