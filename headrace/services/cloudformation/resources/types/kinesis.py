"""Kinesis streams, their consumers, queues and policies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from headrace.aws.calls.operation import operation_model
from headrace.core.values import get_mapping
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceFailed,
    ResourceResult,
    ResourceType,
    enforced,
    stored,
    tag_map,
    value_at,
)
from headrace.services.cloudformation.resources.declaration import (
    ALL,
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same

GONE = "ResourceNotFoundException"
CHECK_EVERY_S = 0.1
_ACTIVE_WITHIN_S = 600.0


def _metrics(names: Any) -> set[str]:
    """Return the metrics that a list of a stream's shard-level metrics names; `ALL` names every one."""
    listed: Any = operation_model("kinesis", "EnableEnhancedMonitoring").input_shape
    every = {*listed.members["ShardLevelMetrics"].member.enum} - {"ALL"}
    named = set(names or ())
    return every if "ALL" in named else named


def _mode(properties: Properties) -> str:
    # CDK writes no StreamModeDetails for some provisioned streams, only a shard count.
    default = "PROVISIONED" if "ShardCount" in properties else "ON_DEMAND"
    return str(value_at(properties, "StreamModeDetails.StreamMode") or default)


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
    return ResourceResult(name, {"Arn": _configure(context, name, {}, properties)})


def wait_until_active(context: Context, status: Callable[[], str], what: str) -> None:
    """Wait until `status` is ACTIVE. Raises ResourceFailed when that takes too long."""
    if (now := status()) == "ACTIVE":
        return
    deadline_s = context.clock.monotonic_s() + _ACTIVE_WITHIN_S
    while now != "ACTIVE":
        if context.clock.monotonic_s() > deadline_s:
            raise ResourceFailed(f"{what} is still {now}")
        context.pause(CHECK_EVERY_S)
        now = status()


def _wait_for_stream(context: Context, name: str) -> str:
    """Wait until a stream is active; return its ARN."""
    arn = ""

    def status() -> str:
        nonlocal arn
        answer = context.call("kinesis", "DescribeStreamSummary", {"StreamName": name})
        summary = answer["StreamDescriptionSummary"]
        arn = str(summary["StreamARN"])
        return str(summary["StreamStatus"])

    wait_until_active(context, status, f"Stream {name}")
    return arn


def _configure(context: Context, name: str, old: Properties, new: Properties) -> str:
    """Set retention, encryption and metrics to the values in `new`; return the stream's ARN."""
    arn = _wait_for_stream(context, name)
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
    desired, present = (_metrics(one.get("DesiredShardLevelMetrics")) for one in (new, old))
    for verb, metrics in (("Enable", desired - present), ("Disable", present - desired)):
        if metrics:
            context.call(
                "kinesis",
                f"{verb}EnhancedMonitoring",
                {"StreamName": name, "ShardLevelMetrics": sorted(metrics)},
            )
            _wait_for_stream(context, name)
    return arn


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    arn = _wait_for_stream(context, physical_id)
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


def _created(path: str) -> Source:
    """Return the source of a time as a stack has it: text, in seconds."""
    return lambda values: str(int(value_at(values.answer, path).timestamp()))


_QUEUE: dict[str, Source] = {"QueueARN": "@id"}
_ACTIVE_QUEUE = Call(
    "DescribeQueue",
    _QUEUE,
    only=(),
    always=True,
    until=lambda answer: answer["QueueDescription"]["QueueStatus"] == "ACTIVE",
)


@declare_sources("StreamConfigurationList")
def _streams_of_queue(values: Values) -> list[dict[str, Any]]:
    return [_stream_of_queue(one) for one in values.items("StreamConfigurationList")]


@declare_sources("QueueAttributes")
def _queue_attributes(values: Values) -> dict[str, Any]:
    """Return a queue's attributes; what the template leaves out gets its default again."""
    return {
        "VisibilityTimeoutSeconds": 30,
        "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 6},
        **(values.get("QueueAttributes") or {}),
    }


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
            "ConsumerCreationTimestamp": _created("ConsumerDescription.ConsumerCreationTimestamp"),
            "StreamARN": "StreamARN",
        },
        in_place=frozenset({"Tags"}),
        made=_consumer,
        enforced=ALL,
    ),
    DeclaredType(
        "AWS::Kinesis::Queue",
        "kinesis",
        create=[
            Call("CreateQueue", {"StreamConfigurationList": _streams_of_queue}),
            _ACTIVE_QUEUE,
        ],
        id="@answer.QueueDescription.QueueARN",
        update=[
            Call("UpdateQueue", {**_QUEUE, "QueueAttributes": _queue_attributes}),
            _ACTIVE_QUEUE,
        ],
        delete=[
            Call("DeleteQueue", _QUEUE),
            # Until it is gone: the stream cannot be deleted before.
            Call("DescribeQueue", _QUEUE, until=lambda _: False),
        ],
        name="QueueName",
        tag=("TagResource", "UntagResource", "ResourceARN", "@id"),
        attributes={
            "QueueARN": "@id",
            "QueueCreationTimestamp": _created("QueueDescription.QueueCreationTimestamp"),
        },
        made=_queue,
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
                alike={
                    "DesiredShardLevelMetrics": lambda written, live: (
                        _metrics(written) == _metrics(live)
                    )
                },
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
