"""Kinesis streams."""

from __future__ import annotations

from typing import Any

from headrace.core.values import listed, mapped
from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    Properties,
    ResourceType,
    enforced,
    stored,
    tag_map,
)

GONE = "ResourceNotFoundException"


def _mode(properties: Properties) -> str:
    # CDK writes no StreamModeDetails for some provisioned streams: a shard count says it.
    details = mapped(properties, "StreamModeDetails")
    default = "PROVISIONED" if "ShardCount" in properties else "ON_DEMAND"
    return str(details.get("StreamMode", default))


def _create(context: Context, properties: Properties) -> Made:
    name = properties.get("Name") or context.generated_name(128)
    mode = _mode(properties)
    params: dict[str, Any] = {"StreamName": name, "StreamModeDetails": {"StreamMode": mode}}
    if mode == "PROVISIONED":
        params["ShardCount"] = int(properties.get("ShardCount", 1))
    tags = tag_map(properties, context)
    if tags:
        params["Tags"] = tags
    if "MaxRecordSizeInKiB" in properties:
        params["MaxRecordSizeInKiB"] = int(properties["MaxRecordSizeInKiB"])
    context.call("kinesis", "CreateStream", params)
    _settle(context, name, {}, properties)
    return _made(context, name)


def _made(context: Context, name: str) -> Made:
    summary = context.call("kinesis", "DescribeStreamSummary", {"StreamName": name})
    return Made(name, {"Arn": summary["StreamDescriptionSummary"]["StreamARN"]})


def _settle(context: Context, name: str, old: Properties, new: Properties) -> None:
    """Bring retention, encryption and metrics to what `new` says."""
    hours, before = (int(p.get("RetentionPeriodHours", 24)) for p in (new, old))
    if hours != before:
        verb = "Increase" if hours > before else "Decrease"
        context.call(
            "kinesis",
            f"{verb}StreamRetentionPeriod",
            {"StreamName": name, "RetentionPeriodHours": hours},
        )
    if new.get("StreamEncryption") != old.get("StreamEncryption"):
        encryption = new.get("StreamEncryption")
        if encryption:
            context.call(
                "kinesis",
                "StartStreamEncryption",
                {
                    "StreamName": name,
                    "EncryptionType": encryption["EncryptionType"],
                    "KeyId": encryption["KeyId"],
                },
            )
        else:
            former = old["StreamEncryption"]
            context.call(
                "kinesis",
                "StopStreamEncryption",
                {
                    "StreamName": name,
                    "EncryptionType": former["EncryptionType"],
                    "KeyId": former["KeyId"],
                },
            )
    wanted = set(listed(new, "DesiredShardLevelMetrics"))
    present = set(listed(old, "DesiredShardLevelMetrics"))
    for verb, metrics in (("Enable", wanted - present), ("Disable", present - wanted)):
        if metrics:
            context.call(
                "kinesis",
                f"{verb}EnhancedMonitoring",
                {"StreamName": name, "ShardLevelMetrics": sorted(metrics)},
            )


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    arn = _made(context, physical_id).attributes["Arn"]
    if _mode(new) != _mode(old):
        context.call(
            "kinesis",
            "UpdateStreamMode",
            {"StreamARN": arn, "StreamModeDetails": {"StreamMode": _mode(new)}},
        )
    if _mode(new) == "PROVISIONED" and new.get("ShardCount") != old.get("ShardCount"):
        context.call(
            "kinesis",
            "UpdateShardCount",
            {
                "StreamName": physical_id,
                "TargetShardCount": int(new.get("ShardCount", 1)),
                "ScalingType": "UNIFORM_SCALING",
            },
        )
    _settle(context, physical_id, old, new)
    tags = tag_map(new, context)
    gone = sorted(set(tag_map(old, context)) - set(tags))
    if tags:
        context.call("kinesis", "AddTagsToStream", {"StreamName": physical_id, "Tags": tags})
    if gone:
        context.call(
            "kinesis", "RemoveTagsFromStream", {"StreamName": physical_id, "TagKeys": gone}
        )
    return Made(physical_id, {"Arn": arn})


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"StreamName": physical_id, "EnforceConsumerDeletion": True}
    context.gone_is_fine("kinesis", "DeleteStream", params, GONE)


TYPES = [
    ResourceType(
        "AWS::Kinesis::Stream",
        {
            **enforced(
                "Name",
                "ShardCount",
                "RetentionPeriodHours",
                "StreamModeDetails",
                "MaxRecordSizeInKiB",
                "Tags",
            ),
            **stored("StreamEncryption", "DesiredShardLevelMetrics"),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"Name"}),
    )
]
