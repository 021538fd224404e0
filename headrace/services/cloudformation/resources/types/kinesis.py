"""Kinesis streams, their consumers, queues and policies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from headrace.core.values import get_list, get_mapping
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
from headrace.services.cloudformation.resources.declaration import (
    ALL,
    Call,
    DeclaredType,
    Source,
    Values,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same

GONE = "ResourceNotFoundException"
CHECK_EVERY_S = 0.1
_ACTIVE_WITHIN_S = 600.0


def _mode(properties: Properties) -> str:
    # CDK writes no StreamModeDetails for some provisioned streams, only a shard count.
    details = get_mapping(properties, "StreamModeDetails")
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
    if "RecordDistributionStrategy" in properties:
        params["RecordDistributionStrategy"] = properties["RecordDistributionStrategy"]
    context.call("kinesis", "CreateStream", params)
    context.note_made(name)
    _configure(context, name, {}, properties)
    return _build_result(context, name)


def wait_until_active(context: Context, status: Callable[[], str], what: str) -> None:
    """Wait until `status` is ACTIVE. Raises ResourceFailed when that takes too long."""
    deadline_s = context.clock.monotonic_s() + _ACTIVE_WITHIN_S
    while (now := status()) != "ACTIVE":
        if context.clock.monotonic_s() > deadline_s:
            raise ResourceFailed(f"{what} is still {now}")
        context.pause(CHECK_EVERY_S)


def _wait_for_stream(context: Context, name: str) -> None:
    def status() -> str:
        summary = context.call("kinesis", "DescribeStreamSummary", {"StreamName": name})
        return str(summary["StreamDescriptionSummary"]["StreamStatus"])

    wait_until_active(context, status, f"Stream {name}")


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
    desired = set(get_list(new, "DesiredShardLevelMetrics"))
    present = set(get_list(old, "DesiredShardLevelMetrics"))
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
    """Set mode, shards, distribution, warm throughput and maximum record size to the values in `new`."""
    changes: list[tuple[str, dict[str, Any]]] = []
    by_keys = "USER_PARTITION_KEY"
    strategies = [p.get("RecordDistributionStrategy", by_keys) for p in (old, new)]
    spread = ("UpdateStreamRecordDistributionStrategy",
        {"StreamARN": arn, "RecordDistributionStrategy": strategies[1]})  # fmt: skip
    # Only an on-demand stream spreads its records: it stops before its mode changes, or begins after.
    if strategies[0] != strategies[1] == by_keys:
        changes.append(spread)
    if _mode(new) != _mode(old):
        details = {"StreamModeDetails": {"StreamMode": _mode(new)}}
        changes.append(("UpdateStreamMode", {"StreamARN": arn, **details}))
    if strategies[0] != strategies[1] != by_keys:
        changes.append(spread)
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


def _consumer(context: Context, properties: Properties) -> str | None:
    params = {name: properties[name] for name in ("StreamARN", "ConsumerName")}
    answer = context.call("kinesis", "DescribeStreamConsumer", params)
    return str(answer["ConsumerDescription"]["ConsumerARN"])


def retag(context: Context, arn: str, old: Properties, new: Properties) -> None:
    """Set the tags of a queue or a channel to those in `new`."""
    tags = tag_map(new, context)
    gone = sorted(set(tag_map(old, context)) - set(tags))
    if tags:
        context.call("kinesis", "TagResource", {"ResourceARN": arn, "Tags": tags})
    if gone:
        context.call("kinesis", "UntagResource", {"ResourceARN": arn, "TagKeys": gone})


def _create_queue(context: Context, properties: Properties) -> ResourceResult:
    params: dict[str, Any] = {
        "QueueName": properties["QueueName"],
        "StreamConfigurationList": [
            _stream_of_queue(one) for one in get_list(properties, "StreamConfigurationList")
        ],
    }
    attributes = _queue_attributes(properties)
    if attributes:
        params["QueueAttributes"] = attributes
    tags = tag_map(properties, context)
    if tags:
        params["Tags"] = tags
    arn = context.call("kinesis", "CreateQueue", params)["QueueDescription"]["QueueARN"]
    context.note_made(arn)
    return _wait_for_queue(context, arn)


def _stream_of_queue(properties: dict[str, Any]) -> dict[str, Any]:
    position = get_mapping(properties, "StartingPosition")
    if not position:
        return {"StreamARN": properties["StreamARN"]}
    # A template has a timestamp as text, in seconds or in ISO's form (assumed: both are taken).
    at: Any = position.get("Timestamp")
    if isinstance(at, str) and not at.replace(".", "", 1).isdigit():
        position = {**position, "Timestamp": datetime.fromisoformat(at)}
    elif at is not None:
        position = {**position, "Timestamp": datetime.fromtimestamp(float(at), UTC)}
    return {"StreamARN": properties["StreamARN"], "StartingPosition": position}


def _queue_attributes(properties: Properties) -> dict[str, Any]:
    """Return the attributes of a template with its numbers as numbers."""
    queue_attributes = get_mapping(properties, "QueueAttributes")
    attributes: dict[str, Any] = {}
    if "VisibilityTimeoutSeconds" in queue_attributes:
        attributes["VisibilityTimeoutSeconds"] = int(queue_attributes["VisibilityTimeoutSeconds"])
    dead_letters = get_mapping(queue_attributes, "DeadLetterConfiguration")
    if dead_letters:
        count = {"MaxReceiveCount": int(dead_letters["MaxReceiveCount"])}
        attributes["DeadLetterConfiguration"] = {
            **dead_letters,
            **(count if "MaxReceiveCount" in dead_letters else {}),
        }
    return attributes


def _wait_for_queue(context: Context, arn: str) -> ResourceResult:
    def describe_queue() -> dict[str, Any]:
        return dict(context.call("kinesis", "DescribeQueue", {"QueueARN": arn})["QueueDescription"])

    wait_until_active(context, lambda: str(describe_queue()["QueueStatus"]), f"Queue {arn}")
    queue = describe_queue()
    created = int(queue["QueueCreationTimestamp"].timestamp())
    return ResourceResult(
        arn,
        {"QueueARN": arn, "QueueStatus": "ACTIVE", "QueueCreationTimestamp": str(created)},
    )


def _queue(context: Context, properties: Properties) -> str | None:
    params: dict[str, Any] = {}
    while True:
        page = context.call("kinesis", "ListQueues", params)
        for one in page["QueueSummaries"]:
            if one["QueueName"] == properties["QueueName"]:
                return str(one["QueueARN"])
        if "NextToken" not in page:
            return None
        params["NextToken"] = page["NextToken"]


def _update_queue(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    attributes = _queue_attributes(new)
    if attributes != _queue_attributes(old):
        # What the new template leaves out gets its default again.
        attributes = {
            "VisibilityTimeoutSeconds": 30,
            "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 6},
            **attributes,
        }
        params = {"QueueARN": physical_id, "QueueAttributes": attributes}
        context.call("kinesis", "UpdateQueue", params)
        _wait_for_queue(context, physical_id)
    retag(context, physical_id, old, new)
    return _wait_for_queue(context, physical_id)


def _delete_queue(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"QueueARN": physical_id}
    context.delete_if_exists("kinesis", "DeleteQueue", params, GONE)
    # The stream cannot be deleted before its queues are gone.
    while context.find_identifier("kinesis", "DescribeQueue", params, "queue", "QueueDescription"):
        context.pause(CHECK_EVERY_S)


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
                "RecordDistributionStrategy",
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
        "AWS::Kinesis::Queue",
        enforced("QueueName", "StreamConfigurationList", "QueueAttributes", "Tags"),
        _create_queue,
        _delete_queue,
        update=_update_queue,
        replace_on=frozenset({"QueueName", "StreamConfigurationList"}),
        named_by=("QueueName",),
        made=_queue,
    ),
]


def _has_policy(values: Values) -> bool:
    answer = values.context.call(
        "kinesis", "GetResourcePolicy", {"ResourceARN": values.get("ResourceArn")}
    )
    return answer.get("Policy") not in (None, "", "{}")


_CONSUMER: dict[str, Source] = {"ConsumerARN": "@id"}
_ACTIVE_CONSUMER = Call(
    "DescribeStreamConsumer",
    _CONSUMER,
    only=(),
    always=True,
    until=lambda answer: answer["ConsumerDescription"]["ConsumerStatus"] == "ACTIVE",
)


def _registered_at(values: Values) -> str:
    created = values.answer["ConsumerDescription"]["ConsumerCreationTimestamp"]
    return str(int(created.timestamp()))


DECLARED = [
    DeclaredType(
        "AWS::Kinesis::StreamConsumer",
        "kinesis",
        create=[Call("RegisterStreamConsumer"), _ACTIVE_CONSUMER],
        id="@answer.Consumer.ConsumerARN",
        update=[_ACTIVE_CONSUMER],
        delete=[Call("DeregisterStreamConsumer", _CONSUMER)],
        name="ConsumerName",
        tag=("TagResource", "UntagResource", "ResourceARN", "@id"),
        attributes={
            "ConsumerStatus": "@answer.ConsumerDescription.ConsumerStatus",
            "ConsumerCreationTimestamp": _registered_at,
            "StreamARN": "StreamARN",
        },
        in_place=frozenset({"Tags"}),
        made=_consumer,
        enforced=ALL,
    ),
    DeclaredType(
        "AWS::Kinesis::ResourcePolicy",
        "kinesis",
        create=[Call("PutResourcePolicy")],
        id="ResourceArn",
        exists=_has_policy,
        update=[Call("PutResourcePolicy")],
        delete=[Call("DeleteResourcePolicy", {"ResourceARN": "@id"})],
        names={"ResourcePolicy": "Policy"},
        enforced=frozenset({"ResourceArn"}),
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
                    "RetentionPeriodHours StreamModeDetails MaxRecordSizeInKiB RecordDistributionStrategy",
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
