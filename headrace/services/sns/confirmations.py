"""Asks HTTP endpoints to confirm their subscriptions, and gives them no message before, as AWS.

Recorded: LocalStack's tests against AWS, sns/test_sns.py, TestSNSSubscriptionHttp, 2023 and 2024. Documented:
docs.aws.amazon.com/sns/latest/dg/SendMessageToHttp.prepare.html. The SubscribeURL is this cloud's own.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
import secrets
import uuid
from typing import Any
from urllib.parse import urlencode

from headrace.deliveries.outbox import OUTBOX, Delivery
from headrace.moto.current_cloud import CURRENT
from headrace.services.sns.signatures import now, sign

ASKED = ("http", "https")
PENDING = "pending confirmation"
_TOKEN_BYTES = 128
_VERSION = "2010-03-31"


def patch(backend: Any, responses: Any) -> None:
    """Change how moto's backend and responses subscribe, confirm and list."""
    backend.subscribe = _pend(backend.subscribe)
    responses.subscribe = _tell(responses.subscribe)
    responses.confirm_subscription = _confirm
    for name in ("list_subscriptions", "list_subscriptions_by_topic"):
        setattr(responses, name, _hide_pending(getattr(responses, name)))


def token_of(subscription: Any) -> str:
    """Return the token that an endpoint must give back; empty once it has, and of endpoints that are not asked."""
    return str(getattr(subscription, "token", ""))


def find_by_token(topic_arn: str, token: str) -> Any:
    """Return a topic's subscription that had this token, also when it is confirmed; None for another token."""
    from moto.sns.models import sns_backends

    account, region = topic_arn.split(":")[4], topic_arn.split(":")[3]
    # Plain dictionary access: moto's own lookup would create a backend for an unused region.
    regions: Any = dict(sns_backends).get(account) or {}
    subscriptions = regions[region].subscriptions.values() if region in regions else ()
    return next(
        (
            one
            for one in subscriptions
            if one.topic.arn == topic_arn and token and getattr(one, "asked_token", "") == token
        ),
        None,
    )


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
    topic, token = subscription.topic, token_of(subscription)
    action = {"Action": "ConfirmSubscription", "TopicArn": topic.arn, "Token": token}
    message_id = str(uuid.uuid4())
    notification: dict[str, Any] = {
        "Type": "SubscriptionConfirmation",
        "MessageId": message_id,
        "Token": token,
        "TopicArn": topic.arn,
        "Message": f"You have chosen to subscribe to the topic {topic.arn}.\nTo confirm the subscription, visit the"
        " SubscribeURL included in this message.",
        "SubscribeURL": f"{CURRENT.endpoint_url()}/?{urlencode({**action, 'Version': _VERSION}, safe=':')}",
        "Timestamp": now(),
    }
    version = str(getattr(topic, "signature_version", "1"))
    signed = sign(subscription, notification, version=version)
    del signed["UnsubscribeURL"]
    OUTBOX.add(
        Delivery(
            what=f"The confirmation of {subscription.endpoint} for {topic.arn}",
            body=json.dumps({**notification, **signed}).encode(),
            url=subscription.endpoint,
            headers={
                "Content-Type": "text/plain; charset=UTF-8",
                "x-amz-sns-message-type": "SubscriptionConfirmation",
                "x-amz-sns-message-id": message_id,
                "x-amz-sns-topic-arn": topic.arn,
            },
        )
    )


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
    if token_of(subscription):
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
