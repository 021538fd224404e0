"""SQS queues and their policies."""

from __future__ import annotations

import json
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    attribute_text,
    boolean,
    enforced,
    stored,
    tag_map,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, last_of, same

GONE = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
_ATTRIBUTES = (
    "ContentBasedDeduplication",
    "DeduplicationScope",
    "DelaySeconds",
    "FifoQueue",
    "FifoThroughputLimit",
    "KmsDataKeyReusePeriodSeconds",
    "KmsMasterKeyId",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "RedriveAllowPolicy",
    "RedrivePolicy",
    "SqsManagedSseEnabled",
    "VisibilityTimeout",
)

# Defaults of a queue's attributes (documented: API_CreateQueue).
_DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "RedriveAllowPolicy": "",
    "RedrivePolicy": "",
    "VisibilityTimeout": "30",
}


def _attributes(properties: Properties) -> dict[str, str]:
    return {name: attribute_text(properties[name]) for name in _ATTRIBUTES if name in properties}


def _find(context: Context, properties: Properties) -> str | None:
    """Return an existing queue with this name: "creating" a queue again with the same attributes succeeds."""
    name = properties.get("QueueName")
    if not name:
        return None
    try:
        return str(context.call("sqs", "GetQueueUrl", {"QueueName": name})["QueueUrl"])
    except AwsError as error:
        if error.status < 500:
            return None
        raise


def _create(context: Context, properties: Properties) -> ResourceResult:
    attributes = _attributes(properties)
    name = properties.get("QueueName")
    if not name:
        fifo = boolean(properties.get("FifoQueue"))
        name = context.generate_name(75) + (".fifo" if fifo else "")
    params = {"QueueName": name, "Attributes": attributes, "tags": tag_map(properties, context)}
    url = context.call("sqs", "CreateQueue", params)["QueueUrl"]
    context.note_made(url)
    return _build_result(context, url)


def _build_result(context: Context, url: str) -> ResourceResult:
    answer = context.call(
        "sqs", "GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["QueueArn"]}
    )
    attributes = {
        "Arn": answer["Attributes"]["QueueArn"],
        "QueueName": url.rsplit("/", 1)[-1],
        "QueueUrl": url,
    }
    return ResourceResult(url, attributes)


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    # An attribute that the template no longer has gets its default.
    gone = {name: default for name, default in _DEFAULTS.items() if name in old and name not in new}
    if attributes := {**gone, **_attributes(new)}:
        params = {"QueueUrl": physical_id, "Attributes": attributes}
        context.call("sqs", "SetQueueAttributes", params)
    return _build_result(context, physical_id)


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("sqs", "DeleteQueue", {"QueueUrl": physical_id}, *GONE)


def _put_policy(context: Context, properties: Properties) -> ResourceResult:
    policy = json.dumps(properties["PolicyDocument"])
    for url in properties["Queues"]:
        context.call(
            "sqs", "SetQueueAttributes", {"QueueUrl": url, "Attributes": {"Policy": policy}}
        )
    name = context.generate_name(100)
    return ResourceResult(name, {"Id": name})


def _update_policy(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    _put_policy(context, new)
    left = [url for url in old["Queues"] if url not in new["Queues"]]
    _delete_policy(context, physical_id, {**old, "Queues": left})
    return ResourceResult(physical_id, {"Id": physical_id})


def _delete_policy(context: Context, physical_id: str, properties: Properties) -> None:
    for url in properties["Queues"]:
        # A policy that another resource has set meanwhile is kept.
        if not _is_ours(context, url, properties["PolicyDocument"]):
            continue
        params = {"QueueUrl": url, "Attributes": {"Policy": ""}}
        context.delete_if_exists("sqs", "SetQueueAttributes", params, *GONE)


def _is_ours(context: Context, url: str, document: Any) -> bool:
    """Whether the queue still has this resource's policy."""
    params = {"QueueUrl": url, "AttributeNames": ["Policy"]}
    try:
        attributes = context.call("sqs", "GetQueueAttributes", params).get("Attributes", {})
    except AwsError as error:
        if error.code in GONE:
            return False
        raise
    text = attributes.get("Policy")
    return bool(text) and json.loads(text) == document


def _find_inline_policy(context: Context, properties: Properties) -> str | None:
    """Return a queue that has a policy already: the creation would replace it, and AWS refuses that (documented).

    Source: the create handler of AWS's own resource provider for topics; that queues are alike is assumed.
    """
    url = properties["Queue"]
    params = {"QueueUrl": url, "AttributeNames": ["Policy"]}
    return context.find_identifier("sqs", "GetQueueAttributes", params, url, "Attributes")


def _put_inline_policy(context: Context, properties: Properties) -> ResourceResult:
    url = properties["Queue"]
    attributes = {"Policy": json.dumps(properties["PolicyDocument"])}
    context.call("sqs", "SetQueueAttributes", {"QueueUrl": url, "Attributes": attributes})
    return ResourceResult(url, {})


def _update_inline_policy(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    return _put_inline_policy(context, new)


def _delete_inline_policy(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"QueueUrl": physical_id, "Attributes": {"Policy": ""}}
    context.delete_if_exists("sqs", "SetQueueAttributes", params, *GONE)


TYPES = [
    ResourceType(
        "AWS::SQS::Queue",
        {
            **enforced("QueueName", "Tags", *_ATTRIBUTES),
            **stored("KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled"),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"QueueName", "FifoQueue"}),
        named_by=("QueueName",),
        find=_find,
    ),
    ResourceType(
        "AWS::SQS::QueuePolicy",
        {**enforced("Queues"), **stored("PolicyDocument")},
        _put_policy,
        _delete_policy,
        update=_update_policy,
        shared=("Queues",),
    ),
    ResourceType(
        "AWS::SQS::QueueInlinePolicy",
        {**enforced("Queue"), **stored("PolicyDocument")},
        _put_inline_policy,
        _delete_inline_policy,
        update=_update_inline_policy,
        replace_on=frozenset({"Queue"}),
        named_by=("Queue",),
        find=_find_inline_policy,
    ),
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::SQS::Queue",
        "sqs",
        (
            ReadCall(
                "GetQueueAttributes",
                {"QueueUrl": "@id", "AttributeNames": ["All"]},
                "Attributes",
                same(
                    "ContentBasedDeduplication DeduplicationScope DelaySeconds "
                    "FifoQueue FifoThroughputLimit KmsDataKeyReusePeriodSeconds "
                    "KmsMasterKeyId MaximumMessageSize MessageRetentionPeriod "
                    "ReceiveMessageWaitTimeSeconds RedriveAllowPolicy "
                    "RedrivePolicy SqsManagedSseEnabled VisibilityTimeout",
                    QueueName=last_of("QueueArn"),
                ),
            ),
        ),
        {"Arn": "QueueArn", "QueueName": last_of("QueueArn")},
    ),
    ReadingRules(
        "AWS::SQS::QueueInlinePolicy",
        "sqs",
        (
            ReadCall(
                "GetQueueAttributes",
                {"QueueUrl": "@id", "AttributeNames": ["Policy"]},
                "Attributes",
                {"PolicyDocument": "Policy"},
            ),
        ),
    ),
)
