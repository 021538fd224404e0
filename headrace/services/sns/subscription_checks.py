"""Refuses requests about SNS's subscriptions as AWS does: their ARNs, attributes, duplicates (sentences recorded)."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from headrace.services.sns.message_checks import invalid

ARN_PARTS = 6
# arn:PARTITION:sns:REGION:ACCOUNT:TOPIC:ID
_SUBSCRIPTION_PARTS = 7
_NAMES = frozenset(
    (
        "RawMessageDelivery", "DeliveryPolicy", "FilterPolicy", "FilterPolicyScope", "RedrivePolicy",
        "SubscriptionRoleArn", "ReplayPolicy",
    )
)  # fmt: skip
_ARN = re.compile(r"arn:aws[\w-]*:sqs:[\w-]+:\d{12}:[\w.-]+", re.ASCII)
# Documented: a confirmation's token is hexadecimal; AWS calls another text no token at all (recorded).
_TOKEN = re.compile(r"[0-9a-f]{64,}", re.ASCII)


def check_arn(arn: str, name: str) -> list[str]:
    """Refuse an ARN with too few parts; return the parts."""
    parts = arn.split(":")
    if len(parts) < ARN_PARTS:
        raise invalid(f"{name} Reason: An ARN must have at least 6 elements, not {len(parts)}")
    return parts


def check_topic_of_region(response: Any) -> None:
    """Refuse a topic's ARN that is none, or of another region."""
    arn = response._get_param("TopicArn")
    if arn is not None and check_arn(str(arn), "TopicArn")[3] != response.region:
        raise invalid("TopicArn")


def check_confirmation(response: Any) -> None:
    """Refuse a text that is no token, and a token of nobody's."""
    check_topic_of_region(response)
    token = str(response._get_param("Token") or "")
    if not _TOKEN.fullmatch(token):
        from moto.sns.exceptions import SNSInvalidParameter

        raise SNSInvalidParameter("Invalid token")
    if str(response._get_param("TopicArn")) not in response.backend.topics:
        raise invalid("Token")


def check_unsubscribe(response: Any) -> None:
    """Refuse a subscription's ARN that is none."""
    arn = str(response._get_param("SubscriptionArn") or "")
    if not arn:
        raise invalid("SubscriptionArn Reason: no value for required parameter")
    if len(check_arn(arn, "SubscriptionArn")) < _SUBSCRIPTION_PARTS:
        raise invalid("SubscriptionId")


def check_change(response: Any) -> None:
    """Refuse an attribute that a subscription does not have, or an invalid value."""
    from moto.sns.exceptions import SNSNotFoundError

    name = str(response._get_param("AttributeName"))
    value = response._get_param("AttributeValue")
    arn = response._get_param("SubscriptionArn")
    subscription = next((s for s in response.backend.subscriptions.values() if s.arn == arn), None)
    if subscription is None:
        raise SNSNotFoundError("Subscription does not exist")
    if name not in _NAMES:
        raise invalid("AttributeName")
    topic = subscription.topic
    _check_value(name, "" if value is None else str(value), topic, "")


def check_new(response: Any) -> None:
    """Refuse a subscription with invalid attributes, or one that exists with others."""
    check_topic_of_region(response)
    attributes: Mapping[str, str] = response._get_param("Attributes") or {}
    topic = response.backend.topics.get(str(response._get_param("TopicArn")))
    for name, value in attributes.items():
        if name not in _NAMES:
            raise invalid(f"Attributes Reason: Unknown attribute: {name}")  # assumed
        _check_value(name, str(value), topic, "Attributes Reason: ")
    endpoint = (response._get_param("Protocol"), response._get_param("Endpoint"))
    for one in response.backend.subscriptions.values():
        if (one.protocol, one.endpoint) != endpoint or one.topic is not topic:
            continue
        if any(_differs(one.attributes.get(name), value) for name, value in attributes.items()):
            raise invalid(
                "Attributes Reason: Subscription already exists with different attributes"
            )


def _differs(present: Any, value: str) -> bool:
    present = str(present).lower() if isinstance(present, bool) else present
    return present != value


def _check_value(name: str, value: str, topic: Any, prefix: str) -> None:
    if name == "RawMessageDelivery" and value not in ("true", "false"):
        raise invalid(f"{prefix}{name}: Invalid value [{value}]. Must be true or false.")
    if not name.endswith("Policy") or not value:
        return
    try:
        document: Any = json.loads(value)
    except ValueError as error:
        # AWS's sentence goes on with its JSON parser's own words.
        raise invalid(f"{prefix}{name}: failed to parse JSON. {error}") from None
    if name == "RedrivePolicy" and isinstance(document, dict):
        _check_dead_letters(str(document.get("deadLetterTargetArn") or ""), topic, prefix)


def _check_dead_letters(arn: str, topic: Any, prefix: str) -> None:
    if not _ARN.fullmatch(arn):
        raise invalid(f"{prefix}RedrivePolicy: deadLetterTargetArn is an invalid arn")
    is_fifo = topic is not None and str(topic.fifo_topic).lower() == "true"
    if is_fifo and not arn.endswith(".fifo"):
        raise invalid(
            f"{prefix}RedrivePolicy: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic."
        )
