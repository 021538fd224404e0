"""Refuses SNS requests as AWS does, in its words: messages, targets, protocols, tags and subscriptions (recorded).

Each check runs before a method of moto's responses, which then handles the valid requests.

Refuses messages of SNS as AWS does: attributes, lengths, what only FIFO topics take (sentences recorded).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.event_patterns.tokens import explain_syntax
from headrace.core.values import parse_json
from headrace.moto.memory import refusal_of
from headrace.moto.patching import check_first
from headrace.permissions.decisions.identity import build_refusal
from headrace.services.sns.notifications import find_by_token, find_topic

MOST_BYTES = 256 * 1024
_LONGEST_NAME = 256
_TYPES = ("String", "Number", "Binary")
_NOT_IN_NAMES = re.compile(r"[^\w.-]", re.ASCII)
_NO_DEDUPLICATION = (
    "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId"
    " provided explicitly"
)


def invalid(why: str) -> Exception:
    """Return the refusal of a parameter."""
    from moto.sns.exceptions import SNSInvalidParameter

    return SNSInvalidParameter(f"Invalid parameter: {why}")


def _refuse(code: str, message: str) -> Exception:
    from moto.sns.exceptions import SNSException

    return SNSException(code, message)


def check_attributes(attributes: Mapping[str, Any] | None, path: str) -> None:
    """Refuse a message's attributes with invalid names, types or values; `path` is their path in the request."""
    for name, value in (attributes or {}).items():
        _check_name(name)
        kind = value.get("DataType")
        if kind is None:
            raise _refuse(
                "ValidationError",
                f"1 validation error detected: Value null at '{path}.{name}.member.dataType' failed to satisfy"
                " constraint: Member must not be null",
            )
        _check_attribute_value(name, str(kind), value)


def _check_name(name: str) -> None:
    wrong = _NOT_IN_NAMES.search(name)
    if len(name.encode()) > _LONGEST_NAME:
        reason = "Length of message attribute name must be less than 256 bytes."
    elif wrong:
        reason = (
            f"Invalid non-alphanumeric character '#x{ord(wrong[0]):X}' was found in the message attribute name. Can"
            " only include alphanumeric characters, hyphens, underscores, or dots."
        )
    elif name.startswith("."):
        reason = "Invalid message attribute name starting with character '.' was found."
    elif name.endswith("."):
        reason = "Invalid message attribute name ending with character '.' was found."
    elif ".." in name:
        reason = "Message attribute name can not have successive '.' character."
    else:
        return
    raise _refuse("ParameterValueInvalid", reason)


def _check_attribute_value(name: str, kind: str, value: Mapping[str, Any]) -> None:
    base = kind.partition(".")[0]
    if base not in _TYPES:
        raise _refuse(
            "ParameterValueInvalid",
            f"The message attribute '{name}' has an invalid message attribute type, the set of supported type prefixes"
            " is Binary, Number, and String.",
        )
    own = "Binary" if base == "Binary" else "String"
    other = "String" if own == "Binary" else "Binary"
    if value.get(f"{own}Value") is None and value.get(f"{other}Value") is not None:
        reason = f"The message attribute '{name}' with type '{kind}' must use field '{own}'."
        raise _refuse("ParameterValueInvalid", reason)
    if not value.get(f"{own}Value"):
        reason = (
            f"The message attribute '{name}' must contain non-empty message attribute value for message attribute"
            f" type '{kind}'."
        )
        raise _refuse("ParameterValueInvalid", reason)


def size_bytes(message: Mapping[str, Any]) -> int:
    """Return a message's size: its body, and the names, types and values of its attributes."""
    size = len(str(message.get("Message") or "").encode("utf-8", "replace"))
    for name, value in (message.get("MessageAttributes") or {}).items():
        texts = (name, value.get("DataType"), value.get("StringValue"))
        size += sum(len(str(text or "").encode("utf-8", "replace")) for text in texts)
        size += len(value.get("BinaryValue") or b"")
    return size


def check_structure(message: str) -> None:
    """Refuse a message of the structure `json` that is none, or has no default text."""
    try:
        document: Any = parse_json(message)
    except ValueError:
        raise invalid("Message Structure - JSON message body failed to parse") from None
    if not isinstance(document, dict) or not isinstance(document.get("default"), str):
        raise invalid("Message Structure - No default entry in JSON message body")


def check_fifo(message: Mapping[str, Any], topic: Any) -> None:
    """Refuse a message without a group for a FIFO topic, or with a deduplication id for another one."""
    if topic is None:
        return
    is_fifo = str(topic.fifo_topic).lower() == "true"
    is_deduplicated = message.get("MessageDeduplicationId") is not None
    if not is_fifo and is_deduplicated:
        raise invalid(
            "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid for"
            " this topic type"
        )
    if is_fifo and not message.get("MessageGroupId"):
        raise invalid("The MessageGroupId parameter is required for FIFO topics")
    by_content = str(topic.content_based_deduplication).lower() == "true"
    if is_fifo and not (is_deduplicated or by_content):
        raise invalid(_NO_DEDUPLICATION)


def check_batch_size(entries: list[Mapping[str, Any]]) -> None:
    """Refuse a batch that is too long as a whole."""
    if sum(map(size_bytes, entries)) > MOST_BYTES:
        raise _refuse(
            "BatchRequestTooLong",
            "The length of all the messages put together is more than the limit.",
        )


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
    arn, token = (str(response._get_param(name) or "") for name in ("TopicArn", "Token"))
    if response.headers.get("Authorization"):
        check_topic_of_region(response)
        if not _TOKEN.fullmatch(token):
            from moto.sns.exceptions import SNSInvalidParameter

            raise SNSInvalidParameter("Invalid token")
    elif (
        find_topic(arn) is None
    ):  # whoever follows the link in a message has these sentences (recorded)
        raise invalid("Topic")
    if find_by_token(arn, token) is None:
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


_NO_ARCHIVE = (
    "headrace does not archive the messages of FIFO topics: it replays none to a subscription."
)


def _check_archive(policy: Any) -> None:
    """Refuse to archive; an empty policy ends what never began."""
    if policy and str(policy).strip() not in ("", "{}"):
        raise AwsError("NotImplemented", _NO_ARCHIVE, 501)


def _check_topic_attribute(response: Any) -> None:
    check_topic_of_region(response)
    if response._get_param("AttributeName") == "ArchivePolicy":
        _check_archive(response._get_param("AttributeValue"))


def _check_value(name: str, value: str, topic: Any, prefix: str) -> None:
    if name == "ReplayPolicy":
        raise AwsError("NotImplemented", _NO_ARCHIVE, 501)
    if name == "RawMessageDelivery" and value not in ("true", "false"):
        raise invalid(f"{prefix}{name}: Invalid value [{value}]. Must be true or false.")
    if not name.endswith("Policy") or not value:
        return
    try:
        document: Any = parse_json(value)
    except ValueError:
        # Recorded in 2024: the words of an older Jackson than EventBridge's.
        reason = explain_syntax(value, is_old=True)
        raise invalid(f"{prefix}{name}: failed to parse JSON. {reason}") from None
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


_MOST_ENTRIES = 10
# E.164
_NUMBER = re.compile(r"\+?[1-9]\d{1,14}", re.ASCII)
# Documented: https://docs.aws.amazon.com/sns/latest/api/API_Subscribe.html
_PROTOCOLS = frozenset(
    ("http", "https", "email", "email-json", "sms", "sqs", "application", "lambda", "firehose")
)

# Documented: https://docs.aws.amazon.com/sns/latest/dg/subscription-filter-policy-constraints.html
_FILTER_POLICY_BYTES = 256 * 1024


def patch() -> None:
    """Add the checks before moto's methods; called once."""
    from moto.core import serialize
    from moto.sns import exceptions
    from moto.sns.responses import SNSResponse

    response: Any = SNSResponse
    for name, check in _CHECKS.items():
        setattr(response, name, check_first(check, getattr(response, name)))
    value_error: Any = exceptions.InvalidParameterValue
    value_error.code = "ParameterValueInvalid"
    serializer: Any = serialize.QuerySerializer
    serializer._serialized_error_to_response = _with_one_message(
        serializer._serialized_error_to_response
    )


def _check_publish(response: Any) -> None:
    number = response._get_param("PhoneNumber")
    if number is None:
        _check_target(response)
    elif not _NUMBER.fullmatch(str(number)):
        raise invalid(f"PhoneNumber Reason: {number} is not valid to publish to")
    if response._get_param("Subject") == "":
        raise invalid("Subject")
    message = response._get_param("Message")
    if not message:
        raise invalid("Empty message")
    check_attributes(response._get_param("MessageAttributes"), "messageAttributes")
    members = ("Message", "MessageAttributes", "MessageGroupId", "MessageDeduplicationId")
    whole = {name: response._get_param(name) for name in members}
    if size_bytes(whole) > MOST_BYTES:
        raise invalid("Message too long")
    if response._get_param("MessageStructure") == "json":
        check_structure(str(message))
    check_fifo(whole, response.backend.topics.get(response._get_param("TopicArn")))


def _check_target(response: Any) -> None:
    from moto.sns.exceptions import TopicNotFound
    from moto.sns.models import sns_backends

    name = "TopicArn" if response._get_param("TargetArn") is None else "TargetArn"
    arn = str(response._get_param(name) or "")
    parts = check_arn(arn, name)
    is_endpoint = parts[-1].startswith("endpoint/")
    if is_endpoint and arn not in response.backend.platform_endpoints:
        raise invalid("TargetArn Reason: No endpoint found for the target arn specified")
    if is_endpoint:
        return
    if parts[3] != response.region:
        raise invalid("TopicArn")
    if arn not in sns_backends[parts[4]][parts[3]].topics:
        raise TopicNotFound
    if parts[4] != response.current_account:
        sentence = refusal_of(response, "sns:Publish", arn)
        if sentence:
            raise build_refusal("sns", sentence)


def _check_subscribe(response: Any) -> None:
    protocol = response._get_param("Protocol")
    if protocol not in _PROTOCOLS:
        raise invalid(f"Amazon SNS does not support this protocol string: {protocol}")
    if not response._get_param("Endpoint"):
        raise invalid("Endpoint")  # assumed: like AWS's sentence about a subject
    _check_filter_policy((response._get_param("Attributes") or {}).get("FilterPolicy"))
    check_new(response)


def _check_attribute(response: Any) -> None:
    if response._get_param("AttributeName") == "FilterPolicy":
        _check_filter_policy(response._get_param("AttributeValue"))
    check_change(response)


def _check_filter_policy(policy: str | None) -> None:
    """Refuse a large policy before moto counts its combinations: 6 MB of `$or` took 26 seconds (sentence: assumed)."""
    if policy and len(policy.encode("utf-8", "surrogatepass")) > _FILTER_POLICY_BYTES:
        raise invalid("FilterPolicy: Filter policy is larger than 256 KB")


def _check_batch(response: Any) -> None:
    """Refuse a batch without messages (API_PublishBatch: EmptyBatchRequest), or with invalid ones."""
    check_topic_of_region(response)
    entries: list[Any] = response._get_param("PublishBatchRequestEntries") or []
    if not entries:
        from moto.sns.exceptions import SNSException

        empty = "The batch request doesn't contain any entries."
        raise SNSException("EmptyBatchRequest", empty)
    topic = response.backend.topics.get(str(response._get_param("TopicArn")))
    ids = [entry.get("Id") for entry in entries]
    if topic is None or len(entries) > _MOST_ENTRIES or len(set(ids)) != len(ids):
        return  # moto refuses it
    check_batch_size(entries)
    for number, entry in enumerate(entries, 1):
        path = f"publishBatchRequestEntries.{number}.member.messageAttributes"
        check_attributes(entry.get("MessageAttributes"), path)
        if entry.get("MessageStructure") == "json":
            check_structure(str(entry.get("Message")))
        check_fifo(entry, topic)


def _check_tags(response: Any) -> None:
    keys = [tag["Key"] for tag in response._get_param("Tags") or []]
    if len(set(keys)) != len(keys):
        raise invalid("Duplicated keys are not allowed.")


def _check_new_topic(response: Any) -> None:
    """Refuse to create an existing topic with other tags, and a topic with an archive."""
    _check_tags(response)
    _check_archive((response._get_attributes() or {}).get("ArchivePolicy"))
    name = str(response._get_param("Name"))
    there = next((one for one in response.backend.topics.values() if one.name == name), None)
    tags = {tag["Key"]: tag["Value"] for tag in response._get_param("Tags") or []}
    if there is not None and not tags.items() <= dict(there._tags).items():
        raise invalid("Tags Reason: Topic already exists with different tags")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "publish": _check_publish,
    "publish_batch": _check_batch,
    "subscribe": _check_subscribe,
    "unsubscribe": check_unsubscribe,
    "confirm_subscription": check_confirmation,
    "set_subscription_attributes": _check_attribute,
    "get_topic_attributes": check_topic_of_region,
    "set_topic_attributes": _check_topic_attribute,
    "list_subscriptions_by_topic": check_topic_of_region,
    "delete_topic": check_topic_of_region,
    "tag_resource": _check_tags,
    "create_topic": _check_new_topic,
}


def _with_one_message(to_response: Any) -> Any:
    """Write an error's message only once; moto also adds the member from the model's shape."""

    @functools.wraps(to_response)
    def write_error(self: Any, resp: Any, error: Any, shape: Any, serialized_error: Any) -> Any:
        if "Message" in serialized_error:
            serialized_error.pop("message", None)
        return to_response(self, resp, error, shape, serialized_error)

    return write_error
