"""Keeps the feedback attributes of topics, and logs the status of deliveries to functions and queues.

Documented: https://docs.aws.amazon.com/sns/latest/dg/topics-attrib.html; an entry's members are those that LocalStack
recorded on AWS for a function (test_delivery_lambda, 2023), a queue's and a failure's answers are assumed. Deliveries
to HTTP endpoints, Firehose and devices are not logged, and a role is not assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import hashlib
import json
import uuid
from datetime import UTC, datetime
from typing import Any

from headrace.core.ports import LogLine
from headrace.moto.current_cloud import CURRENT

_KINDS = ("Application", "Firehose", "HTTP", "Lambda", "SQS")
ATTRIBUTES = tuple(
    f"{kind}{name}"
    for kind in _KINDS
    for name in ("SuccessFeedbackRoleArn", "SuccessFeedbackSampleRate", "FailureFeedbackRoleArn")
)
_LOGGED = {"lambda": "Lambda", "sqs": "SQS"}
# The member of the answer of each, and the status of a success.
_ANSWERS = {"lambda": ("lambdaRequestId", 202), "sqs": ("sqsRequestId", 200)}


@functools.cache
def _kept_as(name: str) -> str:
    """Return how moto keeps a topic's attribute."""
    from moto.core.utils import camelcase_to_underscores

    return camelcase_to_underscores(name)


def feedback_of(topic: Any) -> dict[str, str]:
    """Return the feedback attributes that a topic has."""
    values = {name: getattr(topic, _kept_as(name), None) for name in ATTRIBUTES}
    return {name: str(value) for name, value in values.items() if value}


def log_status(subscription: Any, text: str, message_id: str, failure: str = "") -> None:
    """Log a delivery, if the subscription's topic asks for it; `failure` is what the receiver says."""
    topic, kind = subscription.topic, _LOGGED[subscription.protocol]
    outcome = "Failure" if failure else "Success"
    role = getattr(topic, _kept_as(f"{kind}{outcome}FeedbackRoleArn"), None)
    if CURRENT.logs is None or not role:
        return
    rate = str(getattr(topic, _kept_as(f"{kind}SuccessFeedbackSampleRate"), None) or "0")
    percent = 100 if failure or not rate.isdecimal() else int(rate)
    # By the message's id, so that a simulation repeats it.
    if uuid.UUID(message_id).int % 100 >= percent:
        return
    now_ms = CURRENT.clock.now_ms()
    at = datetime.fromtimestamp(now_ms / 1000, UTC)
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    member, status = _ANSWERS[subscription.protocol]
    delivery_id = uuid.uuid5(uuid.UUID(message_id), subscription.arn)
    answered = json.dumps({member: str(uuid.uuid5(delivery_id, member))}, separators=(",", ":"))
    entry = {
        "notification": {
            "messageMD5Sum": digest,
            "messageId": message_id,
            "topicArn": topic.arn,
            "timestamp": at.strftime("%Y-%m-%d %H:%M:%S.") + f"{now_ms % 1000:03}",
        },
        "delivery": {
            "deliveryId": str(delivery_id),
            "destination": subscription.endpoint,
            "providerResponse": failure or answered,
            "dwellTimeMs": 0,
            "statusCode": 400 if failure else status,
        },
        "status": outcome.upper(),
    }
    _, _, _, region, account, name = str(topic.arn).split(":")
    group = f"sns/{region}/{account}/{name}" + ("/Failure" if failure else "")
    stream = str(uuid.uuid5(uuid.NAMESPACE_URL, group))
    line = LogLine(now_ms, json.dumps(entry))
    CURRENT.logs.put(group, stream, [line], account=account, region=region)
