"""SNS: what a topic sends to queues and HTTP endpoints, its signatures, and FIFO topics' duplicates and numbers.

As recorded from AWS (LocalStack's test_sns.py): a FIFO topic finds duplicates itself; its notifications have a sequence
number and no signature; a standard queue gets neither group nor deduplication id; HTTP endpoints confirm first. The
SubscribeURL is this cloud's own.

A filter policy is a pattern of EventBridge's: moto walks a message's nested lists again for every member of one, and
loses the messages of one with `$or`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import base64
import functools
import hashlib
import json
import secrets
import uuid
from collections.abc import Mapping
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

from headrace.aws.calls.errors import AwsError
from headrace.core.event_patterns import BadEventPattern, compile_pattern, matches_event
from headrace.core.ports import CallerIdentity
from headrace.core.values import iso_of, parse_json
from headrace.deliveries.outbox import OUTBOX, Delivery
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES
from headrace.services.sns.signatures import sign

ASKED = ("http", "https")
PENDING = "pending confirmation"
_TOKEN_BYTES = 128
_VERSION = "2010-03-31"
# What every request to an endpoint has (recorded).
HTTP_HEADERS = {
    "Content-Type": "text/plain; charset=UTF-8",
    "User-Agent": "Amazon Simple Notification Service Agent",
    "Accept-Encoding": "gzip,deflate",
}
# The deactivated subscriptions of a topic that may come back.
_MOST_LEFT = 100


def patch(backend: Any, responses: Any) -> None:
    """Change how moto's backend and responses subscribe, confirm and list."""
    backend.subscribe = _pend(backend.subscribe)
    responses.subscribe = _tell(responses.subscribe)
    responses.confirm_subscription = _confirm
    responses.unsubscribe = _say_goodbye(responses.unsubscribe)
    for name in ("list_subscriptions", "list_subscriptions_by_topic"):
        setattr(responses, name, _hide_pending(getattr(responses, name)))


def token_of(subscription: Any) -> str:
    """Return the token that an endpoint must give back; empty once it has, and of endpoints that are not asked."""
    return str(getattr(subscription, "token", ""))


def find_topic(topic_arn: str) -> Any:
    """Return a topic of any account and region; None: there is none."""
    from moto.sns.models import sns_backends

    _, _, _, region, account, _ = [*topic_arn.split(":", 5), *[""] * 6][:6]
    # Plain dictionary access: moto's own lookup would create a backend for an unused region.
    regions: Any = dict(sns_backends).get(account) or {}
    return regions[region].topics.get(topic_arn) if region in regions else None


def find_by_token(topic_arn: str, token: str) -> Any:
    """Return a topic's subscription that had this token, also when it is confirmed or left; None for another token."""
    topic = find_topic(topic_arn)
    if topic is None:
        return None
    subscriptions = topic.sns_backend.subscriptions.values()
    of_topic = (one for one in subscriptions if one.topic.arn == topic_arn)
    known = (*of_topic, *getattr(topic, "left", ()))
    return next((one for one in known if token and getattr(one, "asked_token", "") == token), None)


def _pend(subscribe: Any) -> Any:
    @functools.wraps(subscribe)
    def subscribe_and_ask(self: Any, topic_arn: str, endpoint: str, protocol: str) -> Any:
        is_known = self._find_subscription(topic_arn, endpoint, protocol) is not None
        subscription = subscribe(self, topic_arn, endpoint, protocol)
        if protocol in ASKED and not is_known:
            subscription.token = subscription.asked_token = secrets.token_hex(_TOKEN_BYTES)
            subscription.attributes |= {
                "PendingConfirmation": True,
                "ConfirmationWasAuthenticated": False,
            }
        if token_of(subscription):
            _ask(subscription)
        return subscription

    return subscribe_and_ask


def _ask(subscription: Any) -> None:
    """Send the token to the endpoint; after the answer, and again when it fails."""
    _send_token(
        subscription,
        "SubscriptionConfirmation",
        f"You have chosen to subscribe to the topic {subscription.topic.arn}.\nTo confirm the subscription, visit the"
        " SubscribeURL included in this message.",
        {},
    )


def _send_token(subscription: Any, kind: str, message: str, headers: Mapping[str, str]) -> None:
    topic, token = subscription.topic, subscription.asked_token
    action = {"Action": "ConfirmSubscription", "TopicArn": topic.arn, "Token": token}
    message_id = str(uuid.uuid4())
    notification: dict[str, Any] = {
        "Type": kind,
        "MessageId": message_id,
        "Token": token,
        "TopicArn": topic.arn,
        "Message": message,
        "SubscribeURL": f"{CURRENT.endpoint_url()}/?{urlencode({**action, 'Version': _VERSION}, safe=':')}",
        "Timestamp": now(),
    }
    version = str(getattr(topic, "signature_version", "1"))
    signed = sign(subscription, notification, version=version)
    del signed["UnsubscribeURL"]
    OUTBOX.add(
        Delivery(
            what=f"The {kind} of {subscription.endpoint} for {topic.arn}",
            body=json.dumps({**notification, **signed}).encode(),
            url=subscription.endpoint,
            headers={
                **HTTP_HEADERS,
                "x-amz-sns-message-type": kind,
                "x-amz-sns-message-id": message_id,
                "x-amz-sns-topic-arn": topic.arn,
                **headers,
            },
        )
    )


def _say_goodbye(unsubscribe: Any) -> Any:
    """Tell an HTTP endpoint of an unsigned Unsubscribe, such as its UnsubscribeURL's, and how to come back.

    Recorded, as the module says; documented: API_Unsubscribe (a signed call sends nothing).
    """

    @functools.wraps(unsubscribe)
    def unsubscribe_and_tell(self: Any) -> Any:
        arn = str(self._get_param("SubscriptionArn"))
        is_signed = bool(self.headers.get("Authorization"))
        if not is_signed and (topic := find_topic(arn.rpartition(":")[0])) is not None:
            # Without a signature, only the ARN says whose subscription of which region it is.
            self.current_account, self.region = topic.account_id, topic.sns_backend.region_name
        subscription = self.backend.subscriptions.get(arn)
        if not is_signed and getattr(subscription, "keeps_unsigned", False):
            # Documented (AuthenticateOnUnsubscribe of API_ConfirmSubscription); the sentence is assumed.
            raise AwsError(
                "AuthorizationError", "This subscription is left by a signed request", 403
            )
        answer = unsubscribe(self)
        if subscription is not None and subscription.protocol in ASKED and not is_signed:
            subscription.asked_token = secrets.token_hex(_TOKEN_BYTES)
            _send_token(
                subscription,
                "UnsubscribeConfirmation",
                f"You have chosen to deactivate subscription {subscription.arn}.\nTo cancel this operation and restore"
                " the subscription, visit the SubscribeURL included in this message.",
                {"x-amz-sns-subscription-arn": subscription.arn},
            )
            left = vars(subscription.topic).setdefault("left", [])
            left[:] = [*left, subscription][-_MOST_LEFT:]
        return answer

    return unsubscribe_and_tell


def _tell(subscribe: Any) -> Any:
    """Answer that a confirmation is awaited, unless the ARN is asked for."""

    @functools.wraps(subscribe)
    def subscribe_and_tell(self: Any) -> Any:
        answer = subscribe(self)
        subscription = self.backend.subscriptions.get(answer.result["SubscriptionArn"])
        wants_arn = str(self._get_param("ReturnSubscriptionArn")).lower() == "true"
        if token_of(subscription) and not wants_arn:
            answer.result["SubscriptionArn"] = PENDING
        return answer

    return subscribe_and_tell


def _confirm(self: Any) -> Any:
    """Answer ConfirmSubscription, whose token `checks` has found; a second time too (recorded)."""
    from moto.core.responses import ActionResult
    from moto.sns.exceptions import SNSNotFoundError

    subscription = find_by_token(self._get_param("TopicArn"), self._get_param("Token"))
    if subscription is None:
        raise SNSNotFoundError("Topic does not exist")
    left = getattr(subscription.topic, "left", [])
    if subscription in left:
        left.remove(subscription)
        self.backend.subscriptions[subscription.arn] = subscription
    if token_of(subscription):
        is_guarded = str(self._get_param("AuthenticateOnUnsubscribe")).lower() == "true"
        subscription.keeps_unsigned = is_guarded and bool(self.headers.get("Authorization"))
        subscription.token = ""
        subscription.attributes |= {
            "PendingConfirmation": False,
            "ConfirmationWasAuthenticated": bool(self.headers.get("Authorization")),
        }
    return ActionResult({"SubscriptionArn": subscription.arn})


def _hide_pending(list_subscriptions: Any) -> Any:
    """Show PendingConfirmation in place of the ARN of a subscription that waits (documented)."""

    @functools.wraps(list_subscriptions)
    def list_and_hide(self: Any) -> Any:
        answer = list_subscriptions(self)
        answer.result["Subscriptions"] = [
            {
                "SubscriptionArn": "PendingConfirmation" if token_of(one) else one.arn,
                "Owner": one.owner,
                "Protocol": one.protocol,
                "Endpoint": one.endpoint,
                "TopicArn": one.topic.arn,
            }
            for one in answer.result["Subscriptions"]
        ]
        return answer

    return list_and_hide


def post_data(
    subscription: Any,
    message: str,
    message_id: str,
    subject: str | None,
    message_attributes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a notification, signed by the version in the topic's SignatureVersion."""
    topic = subscription.topic
    notification: dict[str, Any] = {
        "Type": "Notification",
        "MessageId": message_id,
        **({"SequenceNumber": sequence_number(topic)} if is_fifo(topic) else {}),
        "TopicArn": topic.arn,
        **({"Subject": subject} if subject else {}),
        "Message": message,
        "Timestamp": now(),
    }
    version = str(getattr(topic, "signature_version", "1"))
    signed = sign(subscription, notification, version=version)
    if is_fifo(topic):  # recorded: without a signature
        signed = {"UnsubscribeURL": signed["UnsubscribeURL"]}
    notification |= signed
    if message_attributes:
        notification["MessageAttributes"] = message_attributes
    return notification


def now() -> str:
    """Return the time in SNS's form."""
    return iso_of(CURRENT.clock.now_ms())


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
    _ask_queue(subscription, str(subscription.endpoint))
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
    """Send what cannot be delivered to the subscription's dead-letter queue; return its ARN, "" when it has none.

    Raises NotAllowed, and the queue's errors.
    """
    queue = dead_letter_arn(subscription)
    if queue:
        _ask_queue(subscription, queue)
        _send(queue, *_in_queue(subscription, message, message_id, subject, attributes), fifo)
    return queue


def _ask_queue(subscription: Any, queue_arn: str) -> None:
    """Check that a queue's policy lets SNS send. Raises NotAllowed."""
    acting = CallerIdentity("sns.amazonaws.com", source_arn=str(subscription.topic.arn))
    sentence = CURRENT.guard.denial(acting, "sqs:SendMessage", queue_arn)
    if sentence:
        raise NotAllowed(sentence)


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
        known = parse_json(policy) if isinstance(policy, str) else policy
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


def patch_filter_policies(utils: ModuleType) -> None:
    """Replace how `moto.sns.utils` matches a message with a filter policy.

    SNS's policies are patterns on the message's body, or on its attributes (documented:
    https://docs.aws.amazon.com/sns/latest/dg/sns-subscription-filter-policies.html). What is no pattern of
    EventBridge's is left to moto.
    """
    matcher: Any = utils.FilterPolicyMatcher
    matches_by_moto: Any = matcher.matches

    def matches(self: Any, message_attributes: Any, message: str) -> bool:
        if not self.filter_policy:
            return True
        try:
            alternatives = _compile_policy(json.dumps(self.filter_policy))
            if self.filter_policy_scope == "MessageAttributes":
                event: Any = _read_attributes(message_attributes or {})
            else:
                event = json.loads(message)
            return isinstance(event, dict) and matches_event(alternatives, event)
        except BadEventPattern:
            return bool(matches_by_moto(self, message_attributes, message))
        except (ValueError, RecursionError):
            return False  # the body is no JSON, or deeper than any policy looks

    matcher.matches = matches


@functools.lru_cache(maxsize=64)
def _compile_policy(text: str) -> tuple[dict[str, list[Any]], ...]:
    # A policy may have 256 KB: `compile_pattern` would keep a thousand of them.
    return compile_pattern.__wrapped__(text)


def _read_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message's attributes by their names: text, numbers and lists; binary ones match nothing."""
    values: dict[str, Any] = {}
    for name, attribute in attributes.items():
        kind, value = str(attribute.get("Type")), attribute.get("Value")
        if kind.startswith(("Number", "String.Array")):
            values[name] = json.loads(str(value))
        elif kind.startswith("String"):
            values[name] = value
    return values
