"""Answers plain requests for messages of standard queues, without moto's handlers (see `headrace.moto.requests.quick`).

Plain is a request whose members are those below, about a queue of the caller's, that succeeds at once.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import msgspec

from headrace.moto.current_cloud import CURRENT
from headrace.moto.requests.quick import NotPlain, QuickCall, QuickRequest, reader_of
from headrace.services.sqs.checks import is_text
from headrace.services.sqs.move_tasks import SOURCE
from headrace.services.sqs.patches import region_of_url

_LONGEST_DELAY_S = 900
_LONGEST_VISIBILITY_S = 43_200
_LONGEST_WAIT_S = 20
_MOST_MESSAGES = 10


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    QueueUrl: str


class _Send(_Request, kw_only=True):
    MessageBody: str
    DelaySeconds: int | msgspec.UnsetType = msgspec.UNSET


class _Receive(_Request, kw_only=True):
    MaxNumberOfMessages: int = 1
    WaitTimeSeconds: int | msgspec.UnsetType = msgspec.UNSET
    VisibilityTimeout: int | msgspec.UnsetType = msgspec.UNSET
    AttributeNames: list[str] = []
    MessageSystemAttributeNames: list[str] = []


class _Delete(_Request, kw_only=True):
    ReceiptHandle: str


def _queue_of(request: QuickRequest, url: str) -> Any:
    """Return the caller's standard queue with a URL."""
    head, _, name = url.rpartition("/")
    backend = request.backend
    queue = backend.queues.get(name)
    # A task that moves messages goes on at each request for a queue.
    is_plain = url.startswith("http") and not vars(backend).get("move_tasks")
    if queue is None or queue.fifo_queue or not is_plain:
        raise NotPlain
    if head.rpartition("/")[2] != request.call.account:
        raise NotPlain
    if region_of_url(url) not in ("", request.call.region):
        raise NotPlain
    return queue


def _send(request: QuickRequest, asked: _Send) -> bytes:
    from moto.moto_api._internal import mock_random
    from moto.sqs.models import Message

    queue = _queue_of(request, asked.QueueUrl)
    body = asked.MessageBody
    delay_s = int(
        queue.delay_seconds if asked.DelaySeconds is msgspec.UNSET else asked.DelaySeconds
    )
    if not is_text(body) or len(body.encode()) > int(queue.maximum_message_size):
        raise NotPlain
    if not 0 <= delay_s <= _LONGEST_DELAY_S:
        raise NotPlain
    mock_random.seed(request.ids.seed())
    message: Any = Message(str(mock_random.uuid4()), body)
    message.mark_sent(delay_seconds=delay_s)
    queue.add_message(message)
    return msgspec.json.encode({"MD5OfMessageBody": message.body_md5, "MessageId": message.id})


def _receive(request: QuickRequest, asked: _Receive) -> bytes:
    queue = _queue_of(request, asked.QueueUrl)
    visibility_s, wait_s = asked.VisibilityTimeout, asked.WaitTimeSeconds
    visibility_s = int(queue.visibility_timeout if visibility_s is msgspec.UNSET else visibility_s)
    wait_s = int(queue.receive_message_wait_time_seconds if wait_s is msgspec.UNSET else wait_s)
    if (
        not 1 <= asked.MaxNumberOfMessages <= _MOST_MESSAGES
        or not 0 <= visibility_s <= _LONGEST_VISIBILITY_S
        or not 0 <= wait_s <= _LONGEST_WAIT_S
        or queue.dead_letter_queue is not None
    ):
        raise NotPlain
    store, now_ms = queue.store, CURRENT.clock.now_ms()
    store.expire(now_ms, queue.message_retention_period)
    # A deleted message's time that has passed is no message.
    store.advance(now_ms)
    if wait_s and store.is_empty(now_ms):
        # A long poll.
        raise NotPlain
    received = store.receive(asked.MaxNumberOfMessages, now_ms, visibility_s, _stays)
    names = {*asked.AttributeNames, *asked.MessageSystemAttributeNames}
    chosen = _ATTRIBUTES.keys() if "All" in names else _ATTRIBUTES.keys() & names
    shown = [_show(message, chosen) for message in received]
    return msgspec.json.encode({"Messages": shown} if shown else {})


def _stays(_: Any) -> bool:
    return False


def _source(message: Any) -> Any:
    return (message.system_attributes or {}).get(SOURCE)


def _trace_header(message: Any) -> Any:
    header = (message.system_attributes or {}).get("AWSTraceHeader")
    return header.get("StringValue") if header else None


_ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "SenderId": lambda message: message.sender_id,
    "SentTimestamp": lambda message: str(message.sent_timestamp),
    "ApproximateReceiveCount": lambda message: str(message.approximate_receive_count),
    "ApproximateFirstReceiveTimestamp": lambda message: str(
        message.approximate_first_receive_timestamp
    ),
    "MessageDeduplicationId": lambda message: message.deduplication_id,
    "MessageGroupId": lambda message: message.group_id,
    "AWSTraceHeader": _trace_header,
    SOURCE: _source,
    "SequenceNumber": lambda message: message.sequence_number,
}


def _show(message: Any, chosen: Set[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": message.receipt_handle,
        "MD5OfBody": message.body_md5,
        "Body": message.body,
    }
    values = {name: _ATTRIBUTES[name](message) for name in chosen}
    attributes = {name: value for name, value in values.items() if value is not None}
    if attributes or not chosen <= {SOURCE}:
        shown["Attributes"] = attributes
    return shown


def _delete(request: QuickRequest, asked: _Delete) -> bytes:
    store = _queue_of(request, asked.QueueUrl).store
    number = store.number_of(asked.ReceiptHandle)
    if number is None:
        raise NotPlain
    # Deleting a deleted message succeeds on AWS, however often.
    if number in store.messages:
        store.remove(number)
    return b"{}"


def _call(
    operation: str,
    answer: Callable[[QuickRequest, Any], bytes],
    form: type[_Request],
    *,
    frees: bool = False,
) -> QuickCall:
    return QuickCall(f"AmazonSQS.{operation}", "sqs", reader_of(answer, form), frees=frees)


QUICK_CALLS = (
    _call("SendMessage", _send, _Send),
    _call("ReceiveMessage", _receive, _Receive),
    _call("DeleteMessage", _delete, _Delete, frees=True),
)
