"""SNS: an unreachable subscriber does not fail the publisher, and no message stays in memory after it is sent.

moto keeps every message, creates a certificate for each and a private key for each subscription, and posts to HTTP
subscribers inside the publisher's request, without a time limit.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from headrace.deliveries.outbox import OUTBOX, Delivery, note_dead_letter
from headrace.moto.current_cloud import CURRENT
from headrace.moto.requests.quick import NotPlain, QuickCall, QuickRequest
from headrace.moto.storage.stored_names import stored_as
from headrace.services.sns import checks, notifications, signatures
from headrace.services.sns.delivery_status import feedback_of, log_status
from headrace.services.sns.notifications import now, post_data
from headrace.services.sns.signatures import sign

log = logging.getLogger(__name__)

# Documented for HTTP endpoints of customers: 50 attempts over about an hour.
HTTP_RETRIES = 50
HTTP_AGE_S = 3600
MOST_LOGGED = 10_000
_FIREHOSE_SESSION = "headrace-sns"
_POLICY_MEMBERS = ("healthyRetryPolicy", "sicklyRetryPolicy", "throttlePolicy", "requestPolicy")
_OVERRIDES = {"disableSubscriptionOverrides": False}
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
        **_OVERRIDES,
        "defaultRequestPolicy": {"headerContentType": "text/plain; charset=UTF-8"},
    }
}


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    from moto.sns.models import PlatformEndpoint, SNSBackend, Subscription, Topic
    from moto.sns.responses import SNSResponse

    responses: Any = SNSResponse
    responses.get_topic_attributes = _topic_attributes(SNSResponse.get_topic_attributes)
    responses.publish = _with_sequence_numbers(SNSResponse.publish)
    responses.serve_pem = staticmethod(signatures.serve_certificate)
    responses.publish_batch = _with_sequence_numbers(SNSResponse.publish_batch)
    topic: Any = Topic
    topic.__init__ = _with_nothing(Topic.__init__, "sent_notifications")
    topic.publish = notifications.publish_once(_count_publishes(Topic.publish))
    backend: Any = SNSBackend
    backend.get_subscription_attributes = _with_principal(SNSBackend.get_subscription_attributes)
    backend.__init__ = _with_nothing(SNSBackend.__init__, "sms_messages", "sms_message_objects")
    endpoint: Any = PlatformEndpoint
    endpoint.__init__ = _with_nothing(PlatformEndpoint.__init__, "messages")
    subscription: Any = Subscription
    subscription.publish = _publish
    subscription.get_post_data = post_data
    notifications.patch(backend, responses)
    checks.patch()


_KEPT_OF_TOPICS = {
    "SignatureVersion": "signature_version",
    "TracingConfig": "tracing_config",
    "FifoThroughputScope": "fifo_throughput_scope",
}


def _topic_attributes(get_topic_attributes: Any) -> Any:
    """Show what moto keeps of a topic and does not tell, and the effective delivery policy (recorded)."""

    def attributes_of(self: Any) -> Any:
        answer = get_topic_attributes(self)
        attributes = answer.result["Attributes"]
        delivery_policy = attributes.pop("DeliveryPolicy")
        policy = _without_nulls(json.loads(delivery_policy)) if delivery_policy else {}
        if delivery_policy:
            attributes["DeliveryPolicy"] = _compact(_complete_policy({"http": _OVERRIDES}, policy))
        attributes["EffectiveDeliveryPolicy"] = _compact(_complete_policy(_DELIVERY_POLICY, policy))
        topic = self.backend.get_topic(attributes["TopicArn"])
        kept = {name: getattr(topic, member, None) for name, member in _KEPT_OF_TOPICS.items()}
        attributes.update({name: value for name, value in kept.items() if value is not None})
        attributes.update(feedback_of(topic))
        return answer

    return attributes_of


def _complete_policy(base: Mapping[str, Any], policy: Any) -> dict[str, Any]:
    """Return a policy with what it leaves out."""
    joined = dict(base)
    for name, value in policy.items() if isinstance(policy, dict) else ():
        below: Any = base.get(name)
        is_nested = isinstance(value, dict) and isinstance(below, dict)
        joined[name] = _complete_policy(below, value) if is_nested else value
    return joined


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(one) for name, one in value.items() if one is not None}


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _with_sequence_numbers(publish: Any) -> Any:
    """Answer the sequence numbers of a FIFO topic's messages (recorded)."""

    @functools.wraps(publish)
    def publish_and_tell(self: Any) -> Any:
        answer = publish(self)
        arn = self._get_param("TopicArn") or self._get_param("TargetArn")
        topic = self.backend.topics.get(arn)
        if topic is not None and notifications.is_fifo(topic):
            for sent in answer.result.get("Successful", [answer.result]):
                sent["SequenceNumber"] = notifications.sequence_number(topic, sent["MessageId"])
        return answer

    return publish_and_tell


def _count_publishes(publish: Any) -> Any:
    @functools.wraps(publish)
    def publish_and_count(self: Any, *args: Any, **named: Any) -> Any:
        CURRENT.handled.add(self.arn)
        return publish(self, *args, **named)

    return publish_and_count


def _delivery_policies(subscription: Any) -> dict[str, str]:
    """Return the delivery policies of a subscription that has its own, with all their members (recorded)."""
    text = subscription.attributes.get("DeliveryPolicy")
    if not text:
        return {}
    own = json.loads(text)
    of_topic = json.loads(subscription.topic.delivery_policy or "{}")
    of_topic = _complete_policy(_DELIVERY_POLICY, _without_nulls(of_topic))["http"]
    shown = {name: own.get(name) for name in _POLICY_MEMBERS} | {
        "guaranteed": bool(own.get("guaranteed"))
    }
    effective = shown | {
        "healthyRetryPolicy": own.get("healthyRetryPolicy")
        or of_topic["defaultHealthyRetryPolicy"],
        "requestPolicy": own.get("requestPolicy") or of_topic["defaultRequestPolicy"],
    }
    return {"DeliveryPolicy": _compact(shown), "EffectiveDeliveryPolicy": _compact(effective)}


def _with_principal(get_subscription_attributes: Any) -> Any:
    """Show who subscribed (recorded): the account, since moto keeps no callers."""

    @functools.wraps(get_subscription_attributes)
    def attributes_of(self: Any, arn: str) -> dict[str, Any]:
        principal = f"arn:{arn.split(':')[1]}:iam::{self.account_id}:root"
        attributes = get_subscription_attributes(self, arn)
        policies = _delivery_policies(self.subscriptions[arn])
        return {"SubscriptionPrincipal": principal, **attributes, **policies}

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


def _publish(
    subscription: Any,
    message: str,
    message_id: str,
    subject: str | None = None,
    message_attributes: Mapping[str, Any] | None = None,
    group_id: str | None = None,
    deduplication_id: str | None = None,
    message_structure: str | None = None,
) -> None:
    """Send a message to a subscriber, if its filter takes it. A subscriber's failure is not the publisher's."""
    try:
        text = _select_message(subscription, message, message_attributes, message_structure)
    except Exception as error:  # noqa: BLE001 - a filter that fails takes nothing
        _log_failure(subscription, error, "")
        return
    if text is None:
        return
    data = (subscription, text, message_id, subject, message_attributes)
    if deliver := _DELIVERED_HERE.get(subscription.protocol):
        deliver(*data)
        return
    if subscription.protocol not in ("sqs", "lambda"):
        return  # nothing here is an inbox or a telephone
    fifo = {"group_id": group_id, "deduplication_id": deduplication_id}
    try:
        if subscription.protocol == "lambda":
            _to_function(*data)
        else:
            notifications.to_queue(*data, fifo)
    except Exception as error:  # noqa: BLE001 - as above
        log_status(subscription, text, message_id, _reason(error))
        try:
            kept_in = notifications.to_dead_letters(*data, fifo)
        except Exception as refusal:  # noqa: BLE001 - as above
            note_dead_letter(subscription.topic.arn, is_kept=False)
            _log_failure(subscription, refusal, "")
        else:
            if kept_in:
                note_dead_letter(subscription.topic.arn, is_kept=True)
            _log_failure(subscription, error, kept_in)
    else:
        log_status(subscription, text, message_id)


def _reason(error: Exception) -> str:
    return str(getattr(error, "message", "") or error or type(error).__name__)


def _log_failure(subscription: Any, error: Exception, kept_in: str) -> None:
    CURRENT.handled.fail(subscription.topic.arn)
    reason, arn = _reason(error), subscription.arn
    if (arn, reason) not in _Logged.subscriptions and len(_Logged.subscriptions) < MOST_LOGGED:
        _Logged.subscriptions.add((arn, reason))
        fate = f"goes to {kept_in}" if kept_in else "is lost"
        log.warning("what %s sends to %s %s: %s", arn, subscription.endpoint, fate, reason)


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


def _content_type(subscription: Any) -> dict[str, str]:
    """Return the Content-Type of a subscription's delivery policy, or of its topic's, if they name one (recorded)."""
    own = json.loads(subscription.attributes.get("DeliveryPolicy") or "{}")
    of_topic = json.loads(subscription.topic.delivery_policy or "{}").get("http") or {}
    for policy in (own.get("requestPolicy"), of_topic.get("defaultRequestPolicy")):
        if policy and policy.get("headerContentType"):
            return {"Content-Type": str(policy["headerContentType"])}
    return {}


def _to_address(
    subscription: Any,
    text: str,
    message_id: str,
    subject: str | None,
    message_attributes: Mapping[str, Any] | None,
) -> None:
    if CURRENT.control is None or notifications.token_of(subscription):
        return
    notification = subscription.get_post_data(text, message_id, subject, message_attributes)
    is_raw = notifications.is_raw(subscription)
    OUTBOX.add(
        Delivery(
            what=f"A message of {subscription.topic.arn} for {subscription.endpoint}",
            body=text.encode() if is_raw else json.dumps(notification).encode(),
            url=subscription.endpoint,
            headers={
                **notifications.HTTP_HEADERS,
                **_content_type(subscription),
                "x-amz-sns-message-type": "Notification",
                "x-amz-sns-message-id": message_id,
                "x-amz-sns-topic-arn": subscription.topic.arn,
                "x-amz-sns-subscription-arn": subscription.arn,
                **({"x-amz-sns-rawdelivery": "true"} if is_raw else {}),
            },
            most_age_s=HTTP_AGE_S,
            most_retries=HTTP_RETRIES,
            dead_letter_arn=notifications.dead_letter_arn(subscription),
            source_arn=subscription.topic.arn,
        )
    )


def _to_delivery_stream(
    subscription: Any,
    text: str,
    message_id: str,
    subject: str | None,
    message_attributes: Mapping[str, Any] | None,
) -> None:
    """Put a message into a delivery stream as a line of JSON, without a signature.

    Documented: https://docs.aws.amazon.com/sns/latest/dg/firehose-archived-message-format-S3.html
    """
    if CURRENT.control is None:
        return
    line = text
    if not notifications.is_raw(subscription):
        whole = subscription.get_post_data(text, message_id, subject, message_attributes)
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
            dead_letter_arn=notifications.dead_letter_arn(subscription),
            source_arn=subscription.topic.arn,
            acting_arn=str(subscription.attributes.get("SubscriptionRoleArn") or ""),
            acting_session=_FIREHOSE_SESSION,
        )
    )


def _to_function(
    subscription: Any,
    text: str,
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
        "Message": text,
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
            name: {"Type": attribute["Type"], "Value": str(attribute["Value"])}
            for name, attribute in (message_attributes or {}).items()
        },
    }
    record = {
        "EventSource": "aws:sns",
        "EventVersion": "1.0",
        "EventSubscriptionArn": subscription.arn,
        "Sns": notification,
    }
    is_queued = CURRENT.functions(
        subscription.endpoint,
        json.dumps({"Records": [record]}).encode(),
        service="sns.amazonaws.com",
        source_arn=subscription.topic.arn,
    )
    if not is_queued:
        raise LookupError("The function does not exist, or its policy does not allow SNS")


_DELIVERED_HERE: dict[str, Callable[..., None]] = {
    "http": _to_address,
    "https": _to_address,
    "firehose": _to_delivery_stream,
}


# --- the quick way (see `headrace.moto.requests.quick`) ------------------------------------------------

# Each is a message with a signature of its own: beyond these, others must not wait.
_MOST_QUICK_SUBSCRIBERS = 10


def _publish_quickly(request: QuickRequest) -> bytes:
    """Publish a text to a topic of the caller's without more subscribers than a few queues."""
    from moto.moto_api._internal import mock_random

    fields, backend = request.fields(("TopicArn", "Message")), request.backend
    topic = backend.topics.get(fields.get("TopicArn"))
    text = fields.get("Message")
    if not text or topic is None or notifications.is_fifo(topic):
        raise NotPlain
    subscriptions = backend._get_topic_subscriptions(topic)
    if len(subscriptions) > _MOST_QUICK_SUBSCRIBERS:
        raise NotPlain
    if any(subscription.protocol != "sqs" for subscription in subscriptions):
        raise NotPlain
    is_signed = not all(map(notifications.is_raw, subscriptions))
    if is_signed and signatures.signing_key(backend.region_name, may_make=False) is None:
        raise NotPlain
    mock_random.seed(request.ids.seed())
    message_id = topic.publish(
        text,
        subject=None,
        message_attributes={},
        group_id=None,
        deduplication_id=None,
        message_structure=None,
    )
    return (
        '<PublishResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishResult>'
        f"<MessageId>{message_id}</MessageId></PublishResult><ResponseMetadata>"
        f"<RequestId>{request.request_id}</RequestId></ResponseMetadata></PublishResponse>"
    ).encode()


QUICK_CALLS = (QuickCall("Action=Publish", "sns", _publish_quickly, content_type="text/xml"),)
