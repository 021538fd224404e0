"""Refuses messages of SNS as AWS does: attributes, lengths, what only FIFO topics take (sentences recorded)."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

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
        _check_value(name, str(kind), value)


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


def _check_value(name: str, kind: str, value: Mapping[str, Any]) -> None:
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
        document: Any = json.loads(message)
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
