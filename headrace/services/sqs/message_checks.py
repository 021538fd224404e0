"""Refuses messages and receives as AWS does: bodies, groups, deduplication ids, waits, late deletes (recorded)."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headrace.moto.current_cloud import CURRENT

_LONGEST_WAIT_S = 20
# Documented: API_SendMessage, MessageGroupId and MessageDeduplicationId.
_MARK = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")
# Documented: API_SendMessage, MessageBody.
_NOT_TEXT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS = ("MessageGroupId", "MessageDeduplicationId")


def refuse(code: str, message: str) -> Exception:
    """Return moto's exception for a refusal."""
    from moto.sqs.exceptions import SQSException

    return SQSException(code, message)


def check_wait(response: Any) -> None:
    """Refuse a wait that is too long or negative."""
    wait_s = response._get_param("WaitTimeSeconds")
    if wait_s is not None and not 0 <= int(wait_s) <= _LONGEST_WAIT_S:
        raise refuse(
            "InvalidParameterValue",
            f"Value {wait_s} for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
        )


def is_text(body: str) -> bool:
    """Whether a body is one that AWS takes, whatever its length."""
    return bool(body) and _NOT_TEXT.search(body) is None


def check_content(message: Mapping[str, Any], queue: Any) -> None:
    """Refuse a body without text or with other characters, and the marks of a message that are no words."""
    body = str(message.get("MessageBody") or "")
    if not body:
        raise refuse("MissingParameter", "The request must contain the parameter MessageBody.")
    if _NOT_TEXT.search(body):
        # Told by others (LocalStack).
        raise refuse(
            "InvalidMessageContents",
            "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to"
            " #xFFFD | #x10000 to #x10FFFF",
        )
    for name in _MARKS:
        value = message.get(name)
        if value is not None and not _MARK.fullmatch(str(value)):
            raise refuse(
                "InvalidParameterValue",
                f"Value {value} for parameter {name} is invalid. Reason: {name} can only include alphanumeric and"
                " punctuation characters. 1 to 128 in length.",
            )
    if not queue.fifo_queue and message.get("MessageDeduplicationId") is not None:
        # Observed by many, such as aws/aws-sdk-js#2432.
        raise refuse(
            "InvalidParameterValue",
            f"Value {message['MessageDeduplicationId']} for parameter MessageDeduplicationId is invalid. Reason: The"
            " request include parameter that is not valid for this queue type.",
        )


def check_delete(response: Any) -> None:
    """Refuse to delete a FIFO queue's message whose visibility timeout is over: another receive may have it."""
    queue = response.sqs_backend.get_queue(response._get_queue_name())
    handle = str(response._get_param("ReceiptHandle") or "")
    number = queue.store.number_of(handle) if queue.fifo_queue else None
    if number is None or number not in queue.store.messages:
        return
    if not queue.store.is_current(number, handle, CURRENT.clock.now_ms()):
        raise refuse(
            "InvalidParameterValue",
            f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
        )
