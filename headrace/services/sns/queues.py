"""SNS: what a topic sends to queues, raw or as a notification, and FIFO topics: duplicates and sequence numbers.

As recorded from AWS (LocalStack's test_sns.py): a FIFO topic finds duplicates itself, whatever its subscribers are; its
notifications have a sequence number and no signature; a standard queue gets neither group nor deduplication id.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from headrace.core.ports import CallerIdentity
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES

# Documented: a FIFO topic remembers a deduplication id for five minutes.
DEDUPLICATION_MS = 5 * 60 * 1000
# Sequence numbers have 20 digits and grow (documented); where they begin is assumed.
_FIRST_SEQUENCE_NUMBER = 10**19
_SEQUENCE_NUMBER_STEP = 1000


class NotAllowed(Exception):
    """The policy of a subscriber does not let the topic send to it."""


# --- FIFO topics ------------------------------------------------------------------------------


def is_fifo(topic: Any) -> bool:
    """Whether a topic is a FIFO topic."""
    return str(topic.fifo_topic).lower() == "true"


def sequence_number(topic: Any, message_id: str | None = None) -> str:
    """Return the sequence number of a FIFO topic's message of the last five minutes; without an id, of the last one."""
    number = topic.sequence
    # Most ask for the message that was sent last.
    known = () if message_id is None else reversed(topic.known_messages.values())
    for _, known_id, known_number in known:
        if known_id == message_id:
            number = known_number
            break
    return str(_FIRST_SEQUENCE_NUMBER + number * _SEQUENCE_NUMBER_STEP)


def publish_once(publish: Any) -> Any:
    """Let a FIFO topic publish a message once within five minutes; a duplicate gets the first one's id."""

    @functools.wraps(publish)
    def publish_new(self: Any, message: str, *args: Any, **named: Any) -> str:
        if not is_fifo(self):
            return str(publish(self, message, *args, **named))
        mark = named.get("deduplication_id")
        if mark is None:
            # Documented: the hash of the body, which queues get, too.
            mark = named["deduplication_id"] = hashlib.sha256(message.encode()).hexdigest()
        now_ms = CURRENT.clock.now_ms()
        known: dict[str, tuple[int, str, int]] = vars(self).setdefault("known_messages", {})
        # The oldest come first.
        while known and next(iter(known.values()))[0] + DEDUPLICATION_MS <= now_ms:
            del known[next(iter(known))]
        if mark in known:
            return known[mark][1]
        self.sequence = getattr(self, "sequence", 0) + 1
        message_id = str(publish(self, message, *args, **named))
        known[mark] = now_ms, message_id, self.sequence
        CHANGES.made("sns")
        return message_id

    return publish_new


# --- queues -----------------------------------------------------------------------------------


def is_raw(subscription: Any) -> bool:
    """Whether a subscriber gets messages as they were published."""
    return str(subscription.attributes.get("RawMessageDelivery", "")).lower() == "true"


def to_queue(
    subscription: Any,
    message: str,
    message_id: str,
    subject: str | None,
    attributes: Mapping[str, Any] | None,
    fifo: Mapping[str, str | None],
) -> None:
    """Send a message to a subscribed queue. Raises NotAllowed, and the queue's errors."""
    acting = CallerIdentity("sns.amazonaws.com", source_arn=str(subscription.topic.arn))
    sentence = CURRENT.guard.denial(acting, "sqs:SendMessage", str(subscription.endpoint))
    if sentence:
        raise NotAllowed(sentence)
    content = _in_queue(subscription, message, message_id, subject, attributes)
    _send(str(subscription.endpoint), *content, fifo)


def to_dead_letters(
    subscription: Any,
    message: str,
    message_id: str,
    subject: str | None,
    attributes: Mapping[str, Any] | None,
    fifo: Mapping[str, str | None],
) -> str:
    """Send what cannot be delivered to the subscription's dead-letter queue; return its ARN, "" when there is none."""
    from moto.sqs.exceptions import QueueDoesNotExist

    queue = dead_letter_arn(subscription)
    if not queue:
        return ""
    try:
        _send(queue, *_in_queue(subscription, message, message_id, subject, attributes), fifo)
    except QueueDoesNotExist:
        return ""
    return queue


def _send(
    queue_arn: str, body: str, attributes: Mapping[str, Any], fifo: Mapping[str, str | None]
) -> None:
    """Send to a queue; a standard one gets no deduplication id, and a group only from a standard topic."""
    from moto.sqs.models import sqs_backends

    _, _, _, region, account, name = queue_arn.split(":")
    backend: Any = sqs_backends[account][region]
    marks = dict(fifo)
    if not backend.get_queue(name).fifo_queue and marks.get("deduplication_id") is not None:
        marks = {}
    backend.send_message(
        name, body, message_attributes=dict(attributes), validate_group_id=False, **marks
    )


def dead_letter_arn(subscription: Any) -> str:
    """Return the queue of a subscription's RedrivePolicy; "" when it has none."""
    policy = subscription.attributes.get("RedrivePolicy")
    if not policy:
        return ""
    try:
        known = json.loads(policy) if isinstance(policy, str) else policy
    except ValueError:
        return ""
    return str(known.get("deadLetterTargetArn", "")) if isinstance(known, dict) else ""


def _in_queue(
    subscription: Any,
    message: str,
    message_id: str,
    subject: str | None,
    attributes: Mapping[str, Any] | None,
) -> tuple[str, dict[str, Any]]:
    """Return a message's body and attributes in a queue."""
    if not is_raw(subscription):
        data = subscription.get_post_data(message, message_id, subject, attributes)
        return json.dumps(data, indent=2, separators=(",", " : "), ensure_ascii=False), {}
    return message, {
        name: {
            "DataType": value["Type"],
            **(
                {"BinaryValue": base64.b64decode(value["Value"])}
                if value["Type"].startswith("Binary")
                else {"StringValue": str(value["Value"])}
            ),
        }
        for name, value in (attributes or {}).items()
    }
