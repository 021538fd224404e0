"""Kinesis streams, their consumers and policies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from headrace.core.values import listed, mapped
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceFailed,
    ResourceResult,
    ResourceType,
    enforced,
    stored,
    tag_map,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same

GONE = "ResourceNotFoundException"
_CHECK_EVERY_S = 0.1
_ACTIVE_WITHIN_S = 600.0


def _mode(properties: Properties) -> str:
    # CDK writes no StreamModeDetails for some provisioned streams, only a shard count.
    details = mapped(properties, "StreamModeDetails")
    default = "PROVISIONED" if "ShardCount" in properties else "ON_DEMAND"
    return str(details.get("StreamMode", default))


def _create(context: Context, properties: Properties) -> ResourceResult:
    name = properties.get("Name") or context.generate_name(128)
    mode = _mode(properties)
    params: dict[str, Any] = {"StreamName": name, "StreamModeDetails": {"StreamMode": mode}}
    if mode == "PROVISIONED":
        params["ShardCount"] = int(properties.get("ShardCount", 1))
    tags = tag_map(properties, context)
    if tags:
        params["Tags"] = tags
    for name_of_number in ("MaxRecordSizeInKiB", "WarmThroughputMiBps"):
        if name_of_number in properties:
            params[name_of_number] = int(properties[name_of_number])
    context.call("kinesis", "CreateStream", params)
    context.note_made(name)
    _configure(context, name, {}, properties)
    return _build_result(context, name)


def _wait_until_active(context: Context, status: Callable[[], str], what: str) -> None:
    """Wait until `status` is ACTIVE. Raises ResourceFailed when that takes too long."""
    deadline_s = context.clock.monotonic_s() + _ACTIVE_WITHIN_S
    while (now := status()) != "ACTIVE":
        if context.clock.monotonic_s() > deadline_s:
            raise ResourceFailed(f"{what} is still {now}")
        context.pause(_CHECK_EVERY_S)


def _wait_for_stream(context: Context, name: str) -> None:
    def status() -> str:
        summary = context.call("kinesis", "DescribeStreamSummary", {"StreamName": name})
        return str(summary["StreamDescriptionSummary"]["StreamStatus"])

    _wait_until_active(context, status, f"Stream {name}")


def _build_result(context: Context, name: str) -> ResourceResult:
    _wait_for_stream(context, name)
    summary = context.call("kinesis", "DescribeStreamSummary", {"StreamName": name})
    return ResourceResult(name, {"Arn": summary["StreamDescriptionSummary"]["StreamARN"]})


def _configure(context: Context, name: str, old: Properties, new: Properties) -> None:
    """Set retention, encryption and metrics to the values in `new`."""
    _wait_for_stream(context, name)
    hours, before = (int(p.get("RetentionPeriodHours", 24)) for p in (new, old))
    if hours != before:
        verb = "Increase" if hours > before else "Decrease"
        context.call(
            "kinesis",
            f"{verb}StreamRetentionPeriod",
            {"StreamName": name, "RetentionPeriodHours": hours},
        )
        _wait_for_stream(context, name)
    if new.get("StreamEncryption") != old.get("StreamEncryption"):
        encryption = new.get("StreamEncryption")
        verb, key = ("Start", encryption) if encryption else ("Stop", old["StreamEncryption"])
        params = {"EncryptionType": key["EncryptionType"], "KeyId": key["KeyId"]}
        context.call("kinesis", f"{verb}StreamEncryption", {"StreamName": name, **params})
        _wait_for_stream(context, name)
    desired = set(listed(new, "DesiredShardLevelMetrics"))
    present = set(listed(old, "DesiredShardLevelMetrics"))
    for verb, metrics in (("Enable", desired - present), ("Disable", present - desired)):
        if metrics:
            context.call(
                "kinesis",
                f"{verb}EnhancedMonitoring",
                {"StreamName": name, "ShardLevelMetrics": sorted(metrics)},
            )


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    arn = _build_result(context, physical_id).attributes["Arn"]
    _scale(context, physical_id, arn, old, new)
    _configure(context, physical_id, old, new)
    tags = tag_map(new, context)
    gone = sorted(set(tag_map(old, context)) - set(tags))
    if tags:
        context.call("kinesis", "AddTagsToStream", {"StreamName": physical_id, "Tags": tags})
    if gone:
        context.call(
            "kinesis", "RemoveTagsFromStream", {"StreamName": physical_id, "TagKeys": gone}
        )
    return ResourceResult(physical_id, {"Arn": arn})


def _scale(context: Context, name: str, arn: str, old: Properties, new: Properties) -> None:
    """Set mode, shards, warm throughput and maximum record size to the values in `new`."""
    changes: list[tuple[str, dict[str, Any]]] = []
    if _mode(new) != _mode(old):
        details = {"StreamModeDetails": {"StreamMode": _mode(new)}}
        changes.append(("UpdateStreamMode", {"StreamARN": arn, **details}))
    if _mode(new) == "PROVISIONED" and new.get("ShardCount") != old.get("ShardCount"):
        target = {"TargetShardCount": int(new.get("ShardCount", 1))}
        params = {"StreamARN": arn, "ScalingType": "UNIFORM_SCALING", **target}
        changes.append(("UpdateShardCount", params))
    # A provisioned stream has no warm throughput to remove.
    has_warm = "WarmThroughputMiBps" in new or _mode(new) == "ON_DEMAND"
    if has_warm and new.get("WarmThroughputMiBps") != old.get("WarmThroughputMiBps"):
        warm = {"WarmThroughputMiBps": int(new.get("WarmThroughputMiBps", 0))}
        changes.append(("UpdateStreamWarmThroughput", {"StreamARN": arn, **warm}))
    if new.get("MaxRecordSizeInKiB") != old.get("MaxRecordSizeInKiB"):
        size = {"MaxRecordSizeInKiB": int(new.get("MaxRecordSizeInKiB", 1024))}
        changes.append(("UpdateMaxRecordSize", {"StreamARN": arn, **size}))
    for operation, params in changes:
        context.call("kinesis", operation, params)
        _wait_for_stream(context, name)


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"StreamName": physical_id, "EnforceConsumerDeletion": True}
    context.delete_if_exists("kinesis", "DeleteStream", params, GONE)


def _create_consumer(context: Context, properties: Properties) -> ResourceResult:
    params: dict[str, Any] = {
        "StreamARN": properties["StreamARN"],
        "ConsumerName": properties["ConsumerName"],
    }
    tags = tag_map(properties, context)
    if tags:
        params["Tags"] = tags
    answer = context.call("kinesis", "RegisterStreamConsumer", params)
    context.note_made(answer["Consumer"]["ConsumerARN"])
    return _build_consumer_result(context, answer["Consumer"]["ConsumerARN"])


def _build_consumer_result(context: Context, arn: str) -> ResourceResult:
    def find_active() -> dict[str, Any]:
        answer = context.call("kinesis", "DescribeStreamConsumer", {"ConsumerARN": arn})
        return dict(answer["ConsumerDescription"])

    _wait_until_active(context, lambda: str(find_active()["ConsumerStatus"]), f"Consumer {arn}")
    consumer = find_active()
    attributes = {
        name: str(consumer[name])
        for name in ("ConsumerARN", "ConsumerName", "ConsumerStatus", "StreamARN")
    }
    created = int(consumer["ConsumerCreationTimestamp"].timestamp())
    return ResourceResult(arn, {**attributes, "ConsumerCreationTimestamp": str(created)})


def _consumer(context: Context, properties: Properties) -> str | None:
    params = {name: properties[name] for name in ("StreamARN", "ConsumerName")}
    answer = context.call("kinesis", "DescribeStreamConsumer", params)
    return str(answer["ConsumerDescription"]["ConsumerARN"])


def _update_consumer(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    tags = tag_map(new, context)
    gone = sorted(set(tag_map(old, context)) - set(tags))
    if tags:
        context.call("kinesis", "TagResource", {"ResourceARN": physical_id, "Tags": tags})
    if gone:
        context.call("kinesis", "UntagResource", {"ResourceARN": physical_id, "TagKeys": gone})
    return _build_consumer_result(context, physical_id)


def _delete_consumer(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists(
        "kinesis", "DeregisterStreamConsumer", {"ConsumerARN": physical_id}, GONE
    )


def _find_policy(context: Context, properties: Properties) -> str | None:
    arn = properties["ResourceArn"]
    return context.find_identifier(
        "kinesis", "GetResourcePolicy", {"ResourceARN": arn}, arn, "Policy"
    )


def _put_policy(context: Context, properties: Properties) -> ResourceResult:
    arn, policy = properties["ResourceArn"], properties["ResourcePolicy"]
    text = policy if isinstance(policy, str) else json.dumps(policy)
    context.call("kinesis", "PutResourcePolicy", {"ResourceARN": arn, "Policy": text})
    return ResourceResult(arn)


def _update_policy(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    return _put_policy(context, new)


def _delete_policy(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("kinesis", "DeleteResourcePolicy", {"ResourceARN": physical_id}, GONE)


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
                "WarmThroughputMiBps",
                "DesiredShardLevelMetrics",
                "Tags",
            ),
            **stored("StreamEncryption"),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"Name"}),
        named_by=("Name",),
    ),
    ResourceType(
        "AWS::Kinesis::StreamConsumer",
        enforced("ConsumerName", "StreamARN", "Tags"),
        _create_consumer,
        _delete_consumer,
        update=_update_consumer,
        replace_on=frozenset({"ConsumerName", "StreamARN"}),
        named_by=("ConsumerName",),
        made=_consumer,
    ),
    ResourceType(
        "AWS::Kinesis::ResourcePolicy",
        {**enforced("ResourceArn"), **stored("ResourcePolicy")},
        _put_policy,
        _delete_policy,
        update=_update_policy,
        replace_on=frozenset({"ResourceArn"}),
        find=_find_policy,
        made=_find_policy,
    ),
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::Kinesis::Stream",
        "kinesis",
        (
            ReadCall(
                "DescribeStreamSummary",
                {"StreamName": "@id"},
                "StreamDescriptionSummary",
                same(
                    "RetentionPeriodHours StreamModeDetails MaxRecordSizeInKiB",
                    Name="StreamName",
                    ShardCount="OpenShardCount",
                    StreamEncryption=".",
                    DesiredShardLevelMetrics="EnhancedMonitoring.0.ShardLevelMetrics",
                    WarmThroughputMiBps="WarmThroughput.TargetMiBps",
                ),
            ),
        ),
        {"Arn": "StreamARN"},
        gone=lambda stream: stream["StreamStatus"] == "DELETING",
    ),
    ReadingRules(
        "AWS::Kinesis::StreamConsumer",
        "kinesis",
        (
            ReadCall(
                "DescribeStreamConsumer",
                {"ConsumerARN": "@id"},
                "ConsumerDescription",
                same("ConsumerName StreamARN"),
            ),
        ),
        same("ConsumerARN ConsumerName ConsumerStatus StreamARN"),
        gone=lambda consumer: consumer["ConsumerStatus"] == "DELETING",
    ),
)
