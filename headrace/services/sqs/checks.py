"""Refuses SQS requests as AWS does, with its sentences: batches, sizes, attributes, names in use (all recorded).

Each check runs before a method of moto's responses, which then handles the valid requests.

Refuses messages and receives as AWS does: bodies, groups, deduplication ids, waits, late deletes (recorded).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from headrace.core.arn import make_arn
from headrace.core.values import parse_json
from headrace.moto.current_cloud import CURRENT
from headrace.moto.patching import check_first

_LONGEST_WAIT_S = 20
# Documented: API_SendMessage, MessageGroupId and MessageDeduplicationId.
_MARK = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")
# Documented: API_SendMessage, MessageBody.
# The characters that are left out, since Python compiles a set of all others in 4 ms.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
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


_MOST_ENTRIES = 10
# The attributes that may be set (docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html).
QUEUE_ATTRIBUTES = frozenset(
    {
        "ContentBasedDeduplication", "DeduplicationScope", "DelaySeconds", "FifoQueue", "FifoThroughputLimit",
        "KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "MaximumMessageSize", "MessageRetentionPeriod", "Policy",
        "ReceiveMessageWaitTimeSeconds", "RedriveAllowPolicy", "RedrivePolicy", "SqsManagedSseEnabled",
        "VisibilityTimeout",
    }
)  # fmt: skip
_ENTRY_ID = re.compile(r"[\w-]{1,80}", re.ASCII)
_TOO_LONG = "One or more parameters {}. Reason: Message must be shorter than {} bytes."


def patch() -> None:
    """Add the checks before moto's methods; called once."""
    from moto.core import serialize
    from moto.sqs.models import Queue, SQSBackend
    from moto.sqs.responses import SQSResponse

    response: Any = SQSResponse
    for name, check in _CHECKS.items():
        setattr(response, name, check_first(check, getattr(response, name)))
    response.list_queue_tags = _without_empty(response.list_queue_tags, "Tags")
    response.send_message_batch = _with_failed_entries(response.send_message_batch)
    for name in _BATCHES:
        setattr(response, name, _without_empty(getattr(response, name), "Successful", "Failed"))
    # moto stores it and does not show it.
    queue: Any = Queue
    queue.redrive_allow_policy = None
    queue.BASE_ATTRIBUTES = [*Queue.BASE_ATTRIBUTES, "RedriveAllowPolicy"]
    backend: Any = SQSBackend
    backend.create_queue = _name_attribute(SQSBackend.create_queue)
    query_serializer: Any = serialize.SqsQuerySerializer
    query_serializer._serialize_error_metadata = _with_detail(
        query_serializer._serialize_error_metadata
    )
    serializer: Any = serialize.BaseJSONSerializer
    serializer._get_protocol_specific_error_code = _with_suffix(
        serializer._get_protocol_specific_error_code
    )


def _invalid(message: str) -> Exception:
    return refuse("InvalidParameterValue", message)


# --- checks before moto's methods ---------------------------------------------------------------


def _check_receive(response: Any) -> None:
    check_wait(response)
    count = response._get_param("MaxNumberOfMessages")
    if count is not None and not 1 <= int(count) <= _MOST_ENTRIES:
        raise _invalid(
            f"Value {count} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10,"
            " if provided."
        )


def _check_entries(response: Any) -> None:
    """Refuse a batch with too many entries, or with invalid or duplicate ids."""
    from moto.sqs.exceptions import (
        BatchEntryIdsNotDistinct,
        InvalidBatchEntryId,
        TooManyEntriesInBatchRequest,
    )

    ids = [str(entry.get("Id") or "") for entry in response._get_param("Entries") or []]
    if len(ids) > _MOST_ENTRIES:
        raise TooManyEntriesInBatchRequest(len(ids))
    if not all(map(_ENTRY_ID.fullmatch, ids)):
        raise InvalidBatchEntryId
    for index, one in enumerate(ids):
        if one in ids[:index]:
            raise BatchEntryIdsNotDistinct(one)


def _check_attributes(attributes: Mapping[str, Any] | None) -> None:
    for name, value in (attributes or {}).items():
        if value.get("StringValue") == "" and str(value.get("DataType")).startswith("String"):
            raise _invalid(
                f"Message (user) attribute '{name}' must contain a non-empty value of type 'String'."
            )


def _size_bytes(message: Mapping[str, Any]) -> int:
    """Return a message's size: its body, and the names, types and values of its attributes."""
    size = len(str(message.get("MessageBody") or "").encode("utf-8", "replace"))
    for name, value in (message.get("MessageAttributes") or {}).items():
        parts: Iterable[Any] = (name, value.get("DataType"), value.get("StringValue"))
        size += sum(len(str(part or "").encode("utf-8", "replace")) for part in parts)
        size += len(value.get("BinaryValue") or b"")
    return size


def _check_message(response: Any) -> None:
    queue = response.sqs_backend.get_queue(response._get_queue_name())
    attributes = response._get_param("MessageAttributes")
    _check_attributes(attributes)
    members = ("MessageBody", "MessageAttributes", "MessageGroupId", "MessageDeduplicationId")
    message = {name: response._get_param(name) for name in members}
    check_content(message, queue)
    if _size_bytes(message) > int(queue.maximum_message_size):
        raise _invalid(_TOO_LONG.format("are invalid", queue.maximum_message_size))


def _check_batch(response: Any) -> None:
    _check_entries(response)
    queue = response.sqs_backend.get_queue(response._get_queue_name())
    for entry in response._get_param("Entries") or []:
        _check_attributes(entry.get("MessageAttributes"))
        check_content(entry, queue)
        if queue.fifo_queue and not entry.get("MessageGroupId"):
            raise _invalid("The request must contain the parameter MessageGroupId.")


# Documented: docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html.
_BOUNDS = {
    "DelaySeconds": range(900 + 1),
    "KmsDataKeyReusePeriodSeconds": range(60, 86_400 + 1),
    "MaximumMessageSize": range(1_024, 1_048_576 + 1),
    "MessageRetentionPeriod": range(60, 1_209_600 + 1),
    "ReceiveMessageWaitTimeSeconds": range(20 + 1),
    "VisibilityTimeout": range(43_200 + 1),
}


# Recorded.
_ONE_ENCRYPTION = (
    "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or"
    " SQS SSE."
)


def _check_bounds(response: Any) -> None:
    """Refuse a queue's attribute that is unknown, read-only, not a number, or out of range; and two encryptions."""
    attributes = response._get_param("Attributes") or {}
    is_by_sqs = str(attributes.get("SqsManagedSseEnabled")).lower() == "true"
    if attributes.get("KmsMasterKeyId") and is_by_sqs:
        raise refuse("InvalidAttributeName", _ONE_ENCRYPTION)
    for name, value in attributes.items():
        if name not in QUEUE_ATTRIBUTES:
            raise refuse("InvalidAttributeName", f"Unknown Attribute {name}.")
        bounds, text = _BOUNDS.get(name), str(value)
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        if bounds is not None and not (is_number and int(text) in bounds):
            raise refuse("InvalidAttributeValue", f"Invalid value for the parameter {name}.")


# Attributes of FIFO queues only. Reported by users of CreateQueue and SetQueueAttributes, such as cloudfoundry's
# csb-brokerpak-aws.
_FIFO_ONLY = {
    "FifoQueue": "Unknown Attribute FifoQueue.",
    "ContentBasedDeduplication": "Unknown Attribute ContentBasedDeduplication.",
    "DeduplicationScope": "You can specify the DeduplicationScope only when FifoQueue is set to true.",
    "FifoThroughputLimit": "You can specify the FifoThroughputLimit only when FifoQueue is set to true.",
}
_PERMISSIONS = ("allowAll", "denyAll", "byQueue")
_MOST_SOURCES = 10  # documented: API_SetQueueAttributes


def _check_kind(attributes: Mapping[str, Any], *, is_fifo: bool) -> None:
    """Refuse attributes of FIFO queues for a standard queue."""
    for name, sentence in _FIFO_ONLY.items():
        if name in attributes and not is_fifo:
            raise refuse("InvalidAttributeName", sentence)


def _check_redrive(response: Any, values: Mapping[str, Any], source_arn: str) -> None:
    """Refuse a malformed RedriveAllowPolicy, and a dead-letter queue whose own one does not allow the source."""
    if text := values.get("RedriveAllowPolicy"):
        _sources_allowed(str(text))
    try:
        target = parse_json(values.get("RedrivePolicy") or "{}").get("deadLetterTargetArn", "")
    except (ValueError, AttributeError):
        return  # moto refuses it
    queues = response.sqs_backend.queues.values()
    policy = next((q.redrive_allow_policy for q in queues if q.queue_arn == target), None)
    allowed = _sources_allowed(policy) if policy else None
    if allowed is not None and source_arn not in allowed:
        # The sentence is assumed.
        raise refuse(
            "InvalidParameterValue",
            f"Value {values['RedrivePolicy']} for parameter RedrivePolicy is invalid. Reason: The redrive allow policy"
            f" of {target} does not permit {source_arn}.",
        )


def _sources_allowed(text: str) -> Collection[str] | None:
    """Return the queues that may name this one as their dead-letter queue; None: all."""
    try:
        policy = parse_json(text)
        permission, sources = policy["redrivePermission"], policy.get("sourceQueueArns")
    except (ValueError, KeyError, TypeError, AttributeError):
        permission, sources = "", None
    by_queue = isinstance(sources, list) and 1 <= len(sources) <= _MOST_SOURCES
    if permission not in _PERMISSIONS or (permission == "byQueue") != by_queue:
        raise refuse("InvalidAttributeValue", "Invalid value for the parameter RedriveAllowPolicy.")
    return None if permission == "allowAll" else frozenset(map(str, sources or ()))


def _check_new(response: Any) -> None:
    _check_bounds(response)
    attributes = response._get_param("Attributes") or {}
    _check_kind(attributes, is_fifo=str(attributes.get("FifoQueue")).lower() == "true")
    backend, name = response.sqs_backend, response._get_param("QueueName")
    if str(name).endswith(".fifo") and str(attributes.get("FifoQueue")).lower() != "true":
        # The name of a standard queue has no dot (documented: API_CreateQueue).
        raise _invalid(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )
    _check_redrive(
        response, attributes, make_arn("sqs", backend.region_name, backend.account_id, name)
    )


def _check_changes(response: Any) -> None:
    _check_bounds(response)
    attributes = response._get_param("Attributes") or {}
    if not attributes:
        # As users report it of AWS: with the query protocol's name of the member.
        raise refuse("MissingParameter", "The request must contain the parameter Attribute.Name.")
    queue = response.sqs_backend.get_queue(response._get_queue_name())
    _check_kind(attributes, is_fifo=queue.fifo_queue)
    _check_redrive(response, attributes, queue.queue_arn)
    if "FifoQueue" not in attributes:
        return
    if not queue.fifo_queue:
        raise refuse("InvalidAttributeName", "Unknown Attribute FifoQueue.")
    if str(attributes["FifoQueue"]).lower() != "true":
        sentence = "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
        raise refuse("InvalidAttributeValue", sentence)


_CHECKS: dict[str, Callable[[Any], None]] = {
    "receive_message": _check_receive,
    "delete_message": check_delete,
    "send_message": _check_message,
    "send_message_batch": _check_batch,
    "delete_message_batch": _check_entries,
    "change_message_visibility_batch": _check_entries,
    "create_queue": _check_new,
    "set_queue_attributes": _check_changes,
}


_BATCHES = ("send_message_batch", "delete_message_batch", "change_message_visibility_batch")


# --- changes around moto's methods --------------------------------------------------------------


def _without_empty(method: Any, *members: str) -> Any:
    """Omit members of an answer that are empty (recorded)."""

    @functools.wraps(method)
    def without_empty(self: Any) -> Any:
        answer = method(self)
        for name in members:
            if not answer.result.get(name):
                answer.result.pop(name, None)
        return answer

    return without_empty


def _with_failed_entries(send_message_batch: Any) -> Any:
    """Send a batch without messages that are too long for the queue; only those fail."""

    @functools.wraps(send_message_batch)
    def send(self: Any) -> Any:
        queue = self.sqs_backend.get_queue(self._get_queue_name())
        most = int(queue.maximum_message_size)
        entries = list(self._get_param("Entries") or [])
        sound = [entry for entry in entries if _size_bytes(entry) <= most]
        whole = sum(map(_size_bytes, entries))
        if len(sound) == len(entries) or whole > _most_of_a_batch():
            return send_message_batch(self)
        failed = [
            {
                "Id": entry["Id"],
                "SenderFault": True,
                "Code": "InvalidParameterValue",
                "Message": _TOO_LONG.format("cannot be validated", most),
            }
            for entry in entries
            if _size_bytes(entry) > most
        ]
        return _send_sound(self, sound, failed, send_message_batch)

    return send


def _send_sound(
    response: Any, sound: list[Any], failed: list[dict[str, Any]], send_message_batch: Any
) -> Any:
    from moto.core.responses import ActionResult

    if not sound:
        return ActionResult({"Failed": failed})
    get_param = response._get_param

    def only_sound(name: str, *more: Any) -> Any:
        return sound if name == "Entries" else get_param(name, *more)

    response._get_param = only_sound
    try:
        answer = send_message_batch(response)
    finally:
        del response._get_param
    answer.result["Failed"] = [*(answer.result.get("Failed") or []), *failed]
    return answer


def _most_of_a_batch() -> int:
    from moto.sqs.constants import MAXIMUM_MESSAGE_LENGTH

    return int(MAXIMUM_MESSAGE_LENGTH)


def _name_attribute(create_queue: Any) -> Any:
    """Name the attribute in which an existing queue of this name differs."""

    @functools.wraps(create_queue)
    def create(self: Any, name: str, tags: dict[str, str] | None = None, **named: Any) -> Any:
        from moto.sqs.exceptions import QueueAlreadyExists

        try:
            return create_queue(self, name, tags, **named)
        except QueueAlreadyExists:
            has = self.queues[name].attributes
            for attribute, value in named.items():
                if attribute != "region" and str(has.get(attribute)) != str(value):
                    raise QueueAlreadyExists(
                        "A queue already exists with the same name and a different value for attribute"
                        f" {attribute}"
                    ) from None
            raise

    return create


def _with_suffix(code_of: Any) -> Any:
    """Name SQS's InvalidParameterValue in JSON as AWS does; the header keeps the query protocol's code."""

    @functools.wraps(code_of)
    def code(self: Any, error: Any) -> str:
        kind = str(code_of(self, error))
        is_sqs = self.operation_model.service_model.service_name == "sqs"
        return f"{kind}Exception" if is_sqs and kind.endswith("InvalidParameterValue") else kind

    return code


def _with_detail(add_metadata: Any) -> Any:
    """Add the empty Detail of an error by the query protocol; AWS sends none for these two batches (recorded)."""

    @functools.wraps(add_metadata)
    def add_metadata_and_detail(self: Any, serialized: Any, error: Any, shape: Any) -> None:
        add_metadata(self, serialized, error, shape)
        if self.operation_model.name not in {"ChangeMessageVisibilityBatch", "DeleteMessageBatch"}:
            serialized["Detail"] = ""

    return add_metadata_and_detail
