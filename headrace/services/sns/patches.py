"""SNS: an unreachable subscriber does not fail the publisher, and no message stays in memory after it is sent.

moto keeps every message, creates a certificate for each and a private key for each subscription, and posts to HTTP
subscribers inside the publisher's request, without a time limit.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from headrace.core.ports import CallerIdentity
from headrace.deliveries.outbox import OUTBOX, Delivery, send_to_queue
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.stored_names import stored_as
from headrace.services.sns import checks
from headrace.services.sns.signatures import now, post_data, sign

log = logging.getLogger(__name__)

# Documented for HTTP endpoints of customers: 50 attempts over about an hour.
HTTP_RETRIES = 50
HTTP_AGE_S = 3600
MOST_LOGGED = 10_000
_FIREHOSE_SESSION = "headrace-sns"
# The delivery policy of a topic without its own (recorded).
_DELIVERY_POLICY = {
    "http": {
        "defaultHealthyRetryPolicy": {
            "minDelayTarget": 20,
            "maxDelayTarget": 20,
            "numRetries": 3,
            "numMaxDelayRetries": 0,
            "numNoDelayRetries": 0,
            "numMinDelayRetries": 0,
            "backoffFunction": "linear",
        },
        "disableSubscriptionOverrides": False,
        "defaultRequestPolicy": {"headerContentType": "text/plain; charset=UTF-8"},
    }
}


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    from moto.sns.models import PlatformEndpoint, SNSBackend, Subscription, Topic
    from moto.sns.responses import SNSResponse

    responses: Any = SNSResponse
    responses.get_topic_attributes = _delivery_policies(SNSResponse.get_topic_attributes)
    topic: Any = Topic
    topic.__init__ = _with_nothing(Topic.__init__, "sent_notifications")
    backend: Any = SNSBackend
    backend.__init__ = _with_nothing(SNSBackend.__init__, "sms_messages", "sms_message_objects")
    endpoint: Any = PlatformEndpoint
    endpoint.__init__ = _with_nothing(PlatformEndpoint.__init__, "messages")
    subscription: Any = Subscription
    subscription.publish = _publisher(Subscription.publish)
    subscription.get_post_data = post_data
    checks.patch()


def _delivery_policies(get_topic_attributes: Any) -> Any:
    """Show a topic's delivery policy if it has one, and the effective one in AWS's form (recorded)."""

    def attributes_of(self: Any) -> Any:
        answer = get_topic_attributes(self)
        attributes = answer.result["Attributes"]
        given = attributes.pop("DeliveryPolicy")
        if given:
            attributes["DeliveryPolicy"] = given
        attributes["EffectiveDeliveryPolicy"] = given or json.dumps(
            _DELIVERY_POLICY, separators=(",", ":")
        )
        return answer

    return attributes_of


@stored_as("sns_nothing")
class Nothing:
    """A list or a dictionary that discards its items."""

    def append(self, value: Any) -> None:
        """Discard `value`."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Discard `value`."""

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


def _with_nothing(init: Any, *names: str) -> Any:
    @functools.wraps(init)
    def with_nothing(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        for name in names:
            setattr(self, name, Nothing())

    return with_nothing


# --- delivery ---------------------------------------------------------------------------------------


class _Logged:
    """What has been logged: once for a subscription and a reason."""

    subscriptions: ClassVar[set[tuple[str, str]]] = set()


def _publisher(publish: Any) -> Any:
    @functools.wraps(publish)
    def publish_too(self: Any, message: str, message_id: str, *args: Any, **named: Any) -> None:
        if self.protocol in _DELIVERED_HERE:
            _deliver(self, message, message_id, *args, **named)
        else:
            try:
                _check_policy(self)
                if str(self.topic.content_based_deduplication).lower() == "true":
                    # Documented: a FIFO topic passes on the hash of the body as the message's deduplication id.
                    given = {"deduplication_id": hashlib.sha256(message.encode()).hexdigest()}
                    named = {**given, **{n: v for n, v in named.items() if v is not None}}
                publish(self, message, message_id, *args, **named)
            except Exception as error:  # noqa: BLE001 - a subscriber's failure is not the publisher's
                _undeliverable(self, message, message_id, error)

    return publish_too


def _check_policy(subscription: Any) -> None:
    """Check that a queue's own policy lets the topic send to it. Raises NotAllowed."""
    if subscription.protocol != "sqs":
        return
    acting = CallerIdentity("sns.amazonaws.com", source_arn=str(subscription.topic.arn))
    sentence = CURRENT.guard.denial(acting, "sqs:SendMessage", str(subscription.endpoint))
    if sentence:
        raise NotAllowed(sentence)


class NotAllowed(Exception):
    """The policy of a subscriber does not let the topic send to it."""


def _undeliverable(subscription: Any, message: str, message_id: str, error: Exception) -> None:
    reason = str(getattr(error, "message", "") or error or type(error).__name__)
    arn, queue = subscription.arn, _dead_letter_arn(subscription)
    notification = json.dumps(subscription.get_post_data(message, message_id, None))
    is_kept = bool(queue) and send_to_queue(queue, notification, {})
    if (arn, reason) not in _Logged.subscriptions and len(_Logged.subscriptions) < MOST_LOGGED:
        _Logged.subscriptions.add((arn, reason))
        fate = f"goes to {queue}" if is_kept else "is lost"
        log.warning("what %s sends to %s %s: %s", arn, subscription.endpoint, fate, reason)


def _dead_letter_arn(subscription: Any) -> str:
    policy = subscription.attributes.get("RedrivePolicy")
    if not policy:
        return ""
    try:
        known = json.loads(policy) if isinstance(policy, str) else policy
    except ValueError:
        return ""
    return str(known.get("deadLetterTargetArn", "")) if isinstance(known, dict) else ""


def _select_message(
    subscription: Any, message: str, attributes: Mapping[str, Any] | None, structure: str | None
) -> str | None:
    """Return the message in the subscription's form; None when its filter excludes it."""
    matcher = subscription._filter_policy_matcher
    if matcher is not None and not matcher.matches(attributes, message):
        return None
    if structure == "json":
        return str(subscription._parse_message_structure(message, subscription.protocol))
    return message


def _to_address(
    subscription: Any,
    wanted: str,
    message_id: str,
    subject: str | None,
    message_attributes: Mapping[str, Any] | None,
) -> None:
    if CURRENT.control is None:
        return
    notification = subscription.get_post_data(wanted, message_id, subject, message_attributes)
    is_raw = str(subscription.attributes.get("RawMessageDelivery", "")).lower() == "true"
    OUTBOX.add(
        Delivery(
            what=f"A message of {subscription.topic.arn} for {subscription.endpoint}",
            body=wanted.encode() if is_raw else json.dumps(notification).encode(),
            url=subscription.endpoint,
            headers={
                "Content-Type": "text/plain; charset=UTF-8",
                "x-amz-sns-message-type": "Notification",
                "x-amz-sns-message-id": message_id,
                "x-amz-sns-topic-arn": subscription.topic.arn,
                "x-amz-sns-subscription-arn": subscription.arn,
                **({"x-amz-sns-rawdelivery": "true"} if is_raw else {}),
            },
            most_age_s=HTTP_AGE_S,
            most_retries=HTTP_RETRIES,
            dead_letter_arn=_dead_letter_arn(subscription),
        )
    )


def _to_delivery_stream(
    subscription: Any,
    wanted: str,
    message_id: str,
    subject: str | None,
    message_attributes: Mapping[str, Any] | None,
) -> None:
    """Put a message into a delivery stream as a line of JSON, without a signature.

    Documented: https://docs.aws.amazon.com/sns/latest/dg/firehose-archived-message-format-S3.html
    """
    if CURRENT.control is None:
        return
    line = wanted
    if str(subscription.attributes.get("RawMessageDelivery", "")).lower() != "true":
        whole = subscription.get_post_data(wanted, message_id, subject, message_attributes)
        unsigned = ("SignatureVersion", "Signature", "SigningCertURL")
        line = json.dumps({name: value for name, value in whole.items() if name not in unsigned})
    parts = str(subscription.endpoint).split(":", 5)
    record = {"Data": f"{line}\n".encode()}
    OUTBOX.add(
        Delivery(
            what=f"A message of {subscription.topic.arn} for {subscription.endpoint}",
            body=line.encode(),
            service="firehose",
            operation="PutRecord",
            params={
                "DeliveryStreamName": parts[5].removeprefix("deliverystream/"),
                "Record": record,
            },
            account=parts[4],
            region=parts[3],
            dead_letter_arn=_dead_letter_arn(subscription),
            acting_arn=str(subscription.attributes.get("SubscriptionRoleArn") or ""),
            acting_session=_FIREHOSE_SESSION,
        )
    )


def _to_function(
    subscription: Any,
    wanted: str,
    message_id: str,
    subject: str | None,
    message_attributes: Mapping[str, Any] | None,
) -> None:
    if CURRENT.functions is None:
        return
    notification: dict[str, Any] = {
        "Type": "Notification",
        "MessageId": message_id,
        "TopicArn": subscription.topic.arn,
        "Subject": subject,
        "Message": wanted,
        "Timestamp": now(),
    }
    # A function gets signature version 1, whatever the topic's is (observed in LocalStack's recordings of AWS, 2024).
    signature = sign(subscription, notification, version="1")
    notification |= {
        "SignatureVersion": signature["SignatureVersion"],
        "Signature": signature["Signature"],
        "SigningCertUrl": signature["SigningCertURL"],
        "UnsubscribeUrl": signature["UnsubscribeURL"],
        "MessageAttributes": {
            name: {"Type": each["Type"], "Value": str(each["Value"])}
            for name, each in (message_attributes or {}).items()
        },
    }
    record = {
        "EventSource": "aws:sns",
        "EventVersion": "1.0",
        "EventSubscriptionArn": subscription.arn,
        "Sns": notification,
    }
    CURRENT.functions(
        subscription.endpoint,
        json.dumps({"Records": [record]}).encode(),
        service="sns.amazonaws.com",
        source_arn=subscription.topic.arn,
    )


_DELIVERED_HERE: dict[str, Callable[..., None]] = {
    "lambda": _to_function,
    "http": _to_address,
    "https": _to_address,
    "firehose": _to_delivery_stream,
}


def _deliver(
    subscription: Any,
    message: str,
    message_id: str,
    subject: str | None = None,
    message_attributes: Mapping[str, Any] | None = None,
    group_id: str | None = None,
    deduplication_id: str | None = None,
    message_structure: str | None = None,
) -> None:
    wanted = _select_message(subscription, message, message_attributes, message_structure)
    if wanted is not None:
        _DELIVERED_HERE[subscription.protocol](
            subscription, wanted, message_id, subject, message_attributes
        )
