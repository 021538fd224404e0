"""SQS: finds messages at once, stores them as rows, and times them by the cloud's clock.

moto scans a queue's whole list for every request, keeps deleted messages, and sleeps through long polls. Its methods
for messages are replaced; attributes and tags stay moto's. Prefixes of queues are literal.

AddPermission and RemovePermission change a queue's policy as AWS does: moto fails on policies whose statements have no
Sid, and has its own sentences for refusals. AWS's answers are recorded (LocalStack's test_sqs_permission_lifecycle);
other sources are given beside the sentences.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import copy
import functools
import json
import re
from types import ModuleType
from typing import Any

from headrace.core.arn import is_account_id, partition_of
from headrace.moto.current_cloud import CURRENT, use_clock
from headrace.moto.long_polls import LAST_RECEIVE
from headrace.moto.memory import refusal_of
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.permissions.policies.document import as_list
from headrace.services.sqs import checks, move_tasks
from headrace.services.sqs.messages import FifoMessages, Messages, State

_LABEL = re.compile(r"[\w-]{1,80}", re.ASCII)
# quotas-policies.html of SQS's developer guide.
MOST_ACTIONS = 7
MOST_STATEMENTS = 20
# AddPermission creates policies with the old version (recorded).
VERSION = "2008-10-17"
_INVALID = "Value {} for parameter {} is invalid. Reason: {}"
# Assumed: API_AddPermission.html has the rule, and CreateQueue's sentence has this form.
_CHARACTERS = (
    "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
)


def patch_permissions() -> None:
    """Replace moto's methods; the caller does it once."""
    from moto.sqs.models import SQSBackend

    backend: Any = SQSBackend
    backend.add_permission = _add
    backend.remove_permission = _remove


def _add(
    backend: Any,
    region_name: str,
    queue_name: str,
    actions: list[str] | None,
    account_ids: list[str] | None,
    label: str,
) -> None:
    queue = backend.get_queue(queue_name)
    _check(queue, actions or [], account_ids or [], label)
    statements = _statements(queue)
    if any(one.get("Sid") == label for one in statements):
        raise _invalid(label, "Label", "Already exists.")
    if len(statements) >= MOST_STATEMENTS:
        # The code is documented (API_AddPermission.html); the sentence is assumed.
        count = len(statements) + 1
        raise _build_refusal(
            "OverLimit", f"{count} Statements were found, maximum allowed is {MOST_STATEMENTS}."
        )
    who = [f"arn:{partition_of(region_name)}:iam::{account}:root" for account in account_ids or []]
    what = [f"SQS:{action}" for action in actions or []]
    statement = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": who[0] if len(who) == 1 else who},
        "Action": what[0] if len(what) == 1 else what,
        "Resource": queue.queue_arn,
    }
    kept = queue._policy_json if statements else {"Version": VERSION}
    own = {"Id": f"{queue.queue_arn}/SQSDefaultPolicy", **kept}
    queue._policy_json = {**own, "Statement": [*statements, statement]}


def _check(queue: Any, actions: list[str], account_ids: list[str], label: str) -> None:
    """Raise SQSException for an AddPermission that AWS refuses. The first four sentences are moto's."""
    from moto.sqs.exceptions import MissingParameter, OverLimit

    if not actions:
        raise MissingParameter("Actions")
    if not account_ids or not all(is_account_id(str(one)) for one in account_ids):
        shown = f"[{', '.join(map(str, account_ids))}]"
        raise _invalid(shown, "PrincipalId", "Unable to verify.")
    if len(actions) > MOST_ACTIONS:
        raise OverLimit(len(actions))
    for action in actions:
        if action not in queue.ALLOWED_PERMISSIONS:
            reason = "Only the queue owner is allowed to invoke this action."
            raise _invalid(f"SQS:{action}", "ActionName", reason)
    if not _LABEL.fullmatch(label or ""):
        raise _invalid(label or "", "Label", _CHARACTERS)


def _remove(backend: Any, queue_name: str, label: str) -> None:
    queue = backend.get_queue(queue_name)
    statements = _statements(queue)
    kept = [one for one in statements if one.get("Sid") != label]
    if len(kept) == len(statements):
        raise _invalid(label, "Label", "can't find label.")
    queue._policy_json = {**queue._policy_json, "Statement": kept}


def _statements(queue: Any) -> list[dict[str, Any]]:
    return list(as_list(queue._policy_json.get("Statement") or []))


def _invalid(value: str, parameter: str, reason: str) -> Exception:
    return _build_refusal("InvalidParameterValue", _INVALID.format(value, parameter, reason))


def _build_refusal(code: str, sentence: str) -> Exception:
    from moto.sqs.exceptions import SQSException

    return SQSException(code, sentence)


def match_literal_prefixes(models: ModuleType) -> None:
    """List queues by a literal prefix."""
    backend: Any = models.SQSBackend
    list_queues: Any = backend.list_queues

    @functools.wraps(list_queues)
    def list_queues_by_literal(self: Any, queue_name_prefix: str) -> Any:
        return list_queues(self, queue_name_prefix and re.escape(queue_name_prefix))

    backend.list_queues = list_queues_by_literal


LONGEST_VISIBILITY_S = 43_200


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    import moto.sqs.models as models
    from moto.sqs.models import Message, Queue, SQSBackend

    use_clock(models)

    queue: Any = Queue
    queue.__init__ = _with_store(Queue.__init__)
    queue._set_attributes = _keep_policy(queue._set_attributes)
    queue.attributes = property(_with_compact_texts(Queue.attributes.fget))
    queue.add_message = _add_message
    queue.delete_message = _delete_message
    queue.approximate_number_of_messages = property(lambda q: _count(q, State.READY))
    queue.approximate_number_of_messages_delayed = property(lambda q: _count(q, State.DELAYED))
    queue.approximate_number_of_messages_not_visible = property(
        lambda q: _count(q, State.IN_FLIGHT)
    )
    backend: Any = SQSBackend
    backend.receive_message = _receive_message
    backend.send_message = _with_queue_s_delay(SQSBackend.send_message)
    backend.change_message_visibility = _change_message_visibility
    backend.purge_queue = _purge_rows(SQSBackend.purge_queue)
    message: Any = Message
    message.mark_sent = _mark_sent
    checks.patch()
    move_tasks.patch()
    patch_permissions()
    patch_queues()


def _now_ms() -> int:
    return CURRENT.clock.now_ms()


def _with_store(init: Any) -> Any:
    @functools.wraps(init)
    def with_store(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        for name in ("_messages", "_pending_messages", "deleted_messages"):
            delattr(self, name)
        self.store = FifoMessages() if self.fifo_queue else Messages()
        self.created_timestamp = int(self.created_timestamp)

    return with_store


def _keep_policy(set_attributes: Any) -> Any:
    """Keep a queue's policy when other attributes are set, which moto drops, and round times to whole seconds.

    Times: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html
    """

    @functools.wraps(set_attributes)
    def set_and_keep(self: Any, attributes: dict[str, Any], now: float | None = None) -> None:
        kept = getattr(self, "_policy_json", None)
        set_attributes(self, attributes, now)
        self.last_modified_timestamp = int(self.last_modified_timestamp)
        if kept is not None and "Policy" not in attributes:
            self._policy_json = kept
        _choose_encryption(self, attributes, is_new=now is not None)
        # An empty policy removes it.
        self.redrive_allow_policy = self.redrive_allow_policy or None

    return set_and_keep


def _choose_encryption(queue: Any, attributes: dict[str, Any], *, is_new: bool) -> None:
    """Turn SQS's own encryption off for a KMS key, and the key off for SQS's own (recorded)."""
    if attributes.get("KmsMasterKeyId"):
        queue.sqs_managed_sse_enabled = "false"
    elif not is_new and str(attributes.get("SqsManagedSseEnabled")).lower() == "true":
        queue.kms_master_key_id = None


def _with_compact_texts(attributes_of: Any) -> Any:
    """Write policies without spaces, as AWS does: Terraform's provider sees a difference otherwise, for ever."""

    @functools.wraps(attributes_of)
    def attributes(self: Any) -> dict[str, Any]:
        answer = dict(attributes_of(self))
        for name in ("Policy", "RedrivePolicy"):
            if isinstance(answer.get(name), str):
                answer[name] = json.dumps(json.loads(answer[name]), separators=(",", ":"))
        return answer

    return attributes


def _count(queue: Any, state: State) -> int:
    queue.store.expire(_now_ms(), queue.message_retention_period)
    queue.store.advance(_now_ms())
    return int(queue.store.counts[state])


def _mark_sent(message: Any, delay_seconds: int | None = None) -> None:
    message.sent_timestamp = now_ms = _now_ms()
    if delay_seconds:
        message.delayed_until = now_ms + int(delay_seconds) * 1000


def _with_queue_s_delay(send: Any) -> Any:
    """Delay a FIFO queue's messages by the queue's delay, also when a request says 0 (recorded)."""

    @functools.wraps(send)
    def send_message(
        self: Any,
        queue_name: str,
        message_body: str,
        *args: Any,
        delay_seconds: int | str | None = None,
        **named: Any,
    ) -> Any:
        if self.get_queue(queue_name).fifo_queue and int(delay_seconds or 0) == 0:
            delay_seconds = None
        return send(self, queue_name, message_body, *args, delay_seconds=delay_seconds, **named)

    return send_message


def _add_message(queue: Any, message: Any) -> None:
    store: Messages = queue.store
    store.expire(_now_ms(), queue.message_retention_period)
    if isinstance(store, FifoMessages):
        store.add_once(message, _now_ms(), a_group=queue.deduplication_scope == "messageGroup")
    else:
        store.add(message, _now_ms())
    CURRENT.handled.add(queue.queue_arn)
    CURRENT.message_arrived()


def _receive_message(
    backend: Any,
    queue_name: str,
    count: int,
    wait_seconds_timeout: int,
    visibility_timeout: int,
    message_attribute_names: list[str] | None = None,
) -> list[Any]:
    """Receive what is visible now; the caller waits if the client asked for a long poll (see `long_poll`)."""
    from moto.sqs.models import _filter_message_attributes

    queue = backend.get_queue(queue_name)
    store: Messages = queue.store
    now_ms = _now_ms()
    store.expire(now_ms, queue.message_retention_period)
    received = store.receive(
        count, now_ms, int(visibility_timeout or 0), functools.partial(_to_dead_letter_queue, queue)
    )
    LAST_RECEIVE.wait_s, LAST_RECEIVE.found = float(wait_seconds_timeout), bool(received)
    due = [at for at in (store.next_due_ms(), move_tasks.next_due_ms(backend)) if at is not None]
    LAST_RECEIVE.again_ms = min(due, default=None)
    names = message_attribute_names or []
    answer: list[Any] = []
    for message in received:
        # The requested attributes are selected from a copy; the queue's message keeps them all.
        shown = copy.copy(message)
        _filter_message_attributes(shown, ["All" if name == "*" else name for name in names])
        answer.append(shown)
    return answer


def _to_dead_letter_queue(queue: Any, message: Any) -> bool:
    """Move a message that was received too often; return whether it was moved."""
    target = queue.dead_letter_queue
    if target is None or not queue.redrive_policy:
        return False
    if message.approximate_receive_count < queue.redrive_policy["maxReceiveCount"]:
        return False
    moved = copy.copy(message)
    moved.delayed_until = 0.0
    move_tasks.note_source(moved, queue)
    target.add_message(moved)
    return True


def _delete_message(queue: Any, receipt_handle: str) -> None:
    from moto.sqs.exceptions import ReceiptHandleIsInvalid

    number = queue.store.number_of(receipt_handle)
    if number is None:
        raise ReceiptHandleIsInvalid()
    # Deleting a deleted message succeeds on AWS, however often.
    if number in queue.store.messages:
        queue.store.remove(number)


def _change_message_visibility(
    backend: Any, queue_name: str, receipt_handle: str, visibility_timeout: int
) -> None:
    from moto.sqs.exceptions import InvalidParameterValue, ReceiptHandleIsInvalid

    store: Messages = backend.get_queue(queue_name).store
    number = store.number_of(receipt_handle)
    if number is None or number not in store.messages:
        raise ReceiptHandleIsInvalid()
    now_ms = _now_ms()
    if not store.is_in_flight(number, now_ms):
        return  # recorded: to change what is visible again succeeds, and does nothing
    received_ms = store.messages[number].received_ms
    if now_ms + int(visibility_timeout) * 1000 - received_ms > LONGEST_VISIBILITY_S * 1000:
        raise InvalidParameterValue(
            f"Value {visibility_timeout} for parameter VisibilityTimeout is invalid. Reason: Total "
            f"VisibilityTimeout for the message is beyond the limit [{LONGEST_VISIBILITY_S} seconds]"
        )
    store.change_visibility(number, now_ms, int(visibility_timeout))
    if not visibility_timeout:
        CURRENT.message_arrived()


def _purge_rows(purge: Any) -> Any:
    @functools.wraps(purge)
    def purge_too(self: Any, queue_name: str) -> None:
        purge(self, queue_name)
        queue = self.get_queue(queue_name)
        queue.store.clear()
        # moto adds its own empty lists there.
        for name in ("_messages", "_pending_messages"):
            vars(queue).pop(name, None)

    return purge_too


# --- a look from outside --------------------------------------------------------------------------


def list_messages(
    account: str, region: str, name: str, show_invisible: bool, show_delayed: bool, now_ms: int
) -> list[dict[str, Any]] | None:
    """Return a queue's messages as ReceiveMessage shows them, oldest first; None when there is no such queue.

    Nothing is received. moto is loaded. As LocalStack's `/_aws/sqs/messages`: messages in flight and delayed ones are
    left out unless they are asked for, and then all say whether they are.
    """
    from moto.sqs.models import sqs_backends

    with MOTO_LOCK:
        # Plain dictionary access: moto's own lookup would create a backend for an unused region.
        backends: Any = dict(sqs_backends).get(account) or {}
        queue = backends[region].queues.get(name) if region in backends else None
        if queue is None:
            return None
        store: Messages = queue.store
        store.expire(now_ms, queue.message_retention_period)
        shown: list[dict[str, Any]] = []
        for message, state in store.list_all(now_ms):
            if state is State.IN_FLIGHT and not show_invisible:
                continue
            if state is State.DELAYED and not show_delayed:
                continue
            one = _show(message)
            if show_invisible:
                one["Attributes"]["IsVisible"] = str(state is not State.IN_FLIGHT).lower()
            if show_delayed:
                one["Attributes"]["IsDelayed"] = str(state is State.DELAYED).lower()
            shown.append(one)
    return shown


def _show(message: Any) -> dict[str, Any]:
    traced = (message.system_attributes or {}).get("AWSTraceHeader") or {}
    attributes = {
        "SenderId": message.sender_id,
        "SentTimestamp": str(int(message.sent_timestamp)),
        "ApproximateReceiveCount": str(message.approximate_receive_count),
        "ApproximateFirstReceiveTimestamp": str(message.approximate_first_receive_timestamp or 0),
        "MessageDeduplicationId": message.deduplication_id,
        "MessageGroupId": message.group_id,
        "SequenceNumber": message.sequence_number,
        "AWSTraceHeader": traced.get("StringValue"),
    }
    shown = {
        "MessageId": message.id,
        "ReceiptHandle": "SQS/BACKDOOR/ACCESS",
        "MD5OfBody": message.body_md5,
        "Body": message.body,
        "Attributes": {name: value for name, value in attributes.items() if value is not None},
    }
    if message.message_attributes:
        shown["MD5OfMessageAttributes"] = message.attribute_md5
        shown["MessageAttributes"] = dict(message.message_attributes)
    return shown


# --- queues of other accounts and Regions

_REGIONAL_HOST = re.compile(
    r"https?://(?:sqs\.([a-z]{2}(?:-[a-z]+)+-\d+)|([a-z]{2}(?:-[a-z]+)+-\d+)\.queue)\."
)
_SQS_BATCHES = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}


def patch_queues() -> None:
    """Make a queue's URL decide in which account and Region the queue is; called once."""
    from moto.sqs.models import sqs_backends
    from moto.sqs.responses import SQSResponse

    def backend_of(response: Any) -> Any:
        own = sqs_backends[response.current_account][response.region]
        owner, name = _owner_of_url(str(response._get_param("QueueUrl") or ""))
        if owner in ("", response.current_account):
            return own
        theirs = sqs_backends[owner][response.region]
        action = str(response._get_action())
        action = _SQS_BATCHES.get(action, action)
        arn = f"arn:{partition_of(response.region)}:sqs:{response.region}:{owner}:{name}"
        # AWS gives the same answer for a missing queue and one whose policy refuses.
        is_let_in = name in theirs.queues and not refusal_of(response, f"sqs:{action}", arn)
        return theirs if is_let_in else own

    response: Any = SQSResponse
    response.sqs_backend = property(backend_of)
    name_of = response._get_queue_name

    def own_name_of(self: Any) -> str:
        url = str(self._get_param("QueueUrl") or "")
        # No queue is named by a URL: it is not there.
        return str(name_of(self)) if region_of_url(url) in ("", self.region) else url

    response._get_queue_name = own_name_of


def region_of_url(url: str) -> str:
    """Return the Region that a queue's URL names; empty for a bare name, and for a host that names none."""
    found = _REGIONAL_HOST.match(url)
    return "" if found is None else found[1] or found[2]


def _owner_of_url(url: str) -> tuple[str, str]:
    """Return the account and the name in a queue's URL; empty texts for a bare name."""
    head, _, name = url.rstrip("/").rpartition("/")
    owner = head.rpartition("/")[2]
    return (owner, name) if is_account_id(owner) else ("", "")
