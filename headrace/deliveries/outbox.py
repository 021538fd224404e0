"""The outbox: deliveries to the targets of moto's services, stored until they succeed or are given up.

A delivery is written in the transaction of the request that caused it, so an accepted event is delivered after
kill -9 too; then perhaps twice. Thread-safe: `MOTO_LOCK`.
"""

from __future__ import annotations

import heapq
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import CallerIdentity
from headrace.deliveries.targets import HttpCall, is_final, send
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES, MOTO_LOCK, DeliveryRows, RowKey

log = logging.getLogger(__name__)

# Documented for EventBridge's targets: retries for a day, 185 times. The delays are headrace's.
MOST_AGE_S = 86_400
MOST_RETRIES = 185
FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 60.0
# The most deliveries that wait for failing targets; beyond it the oldest is given up.
MOST_WAITING = 10_000
# Errors that no retry can fix: AWS sends such an event to the dead-letter queue at once (documented).
NOT_RETRYABLE = (
    "ResourceNotFound", "NotFound", "NonExistent", "DoesNotExist", "AccessDenied", "NotAuthorized",
    "Validation", "InvalidArgument", "InvalidParameter", "UnknownOperation", "MissingParameter",
)  # fmt: skip

# Documented (eb-monitoring.html; sns-monitoring-using-cloudwatch.html): how many went to a dead-letter queue, and how
# many could not, for want of permissions, of the queue, or of room.
_DEAD_LETTER_METRICS = {
    "events": ("InvocationsSentToDlq", "InvocationsFailedToBeSentToDlq"),
    "sns": ("NumberOfNotificationsRedrivenToDlq", "NumberOfNotificationsFailedToRedriveToDlq"),
}

OUTBOX_ID = 1


class Delivery(msgspec.Struct, omit_defaults=True):
    """One delivery.

    Attributes:
        what: its source and its target, as text for the log.
        service, operation, params: the call of the control plane that delivers it; or
        url, headers: the address to which its `body` is posted; or
        http: the request that carries its `body`.
        account, region: where it is called.
        acting_arn, acting_session: the role that calls; empty for the cloud itself.
        first_ms, attempts: the time of the first attempt, and how many there were.
        most_age_s, most_retries: when it is given up.
        dead_letter_arn: the queue that gets `body` then; empty for none.
        attributes: the message attributes there.
        source_arn: the rule or topic whose failure it is when it is given up; empty for others.
        on_failure, failure_context: who of `ON_FAILURE` is told when it is given up, and what it is told beside the
            error; empty for nobody.
    """

    what: str
    body: bytes
    service: str = ""
    operation: str = ""
    params: dict[str, Any] = {}
    url: str = ""
    headers: dict[str, str] = {}
    account: str = ""
    region: str = ""
    first_ms: int = 0
    attempts: int = 0
    most_age_s: int = MOST_AGE_S
    most_retries: int = MOST_RETRIES
    dead_letter_arn: str = ""
    attributes: dict[str, str] = {}
    acting_arn: str = ""
    acting_session: str = ""
    http: HttpCall | None = None
    source_arn: str = ""
    on_failure: str = ""
    failure_context: dict[str, Any] = {}


def queue_call(
    what: str, service: str, operation: str, params: dict[str, Any], *, account: str, region: str
) -> None:
    """Queue the call of an operation, whose parameters are JSON, by the cloud itself."""
    body = json.dumps(params).encode()
    OUTBOX.add(
        Delivery(
            what=what, body=body, service=service, operation=operation, params=params,
            account=account, region=region,
        )
    )  # fmt: skip


# Who is told of deliveries that are given up, by the names that stored deliveries have. Called with `MOTO_LOCK` held.
ON_FAILURE: dict[str, Callable[[Mapping[str, Any], str], None]] = {}


def _find_acting_identity(delivery: Delivery) -> CallerIdentity | None:
    if not delivery.acting_arn and not delivery.acting_session:
        return None
    return CallerIdentity(delivery.acting_arn, delivery.acting_session)


class Outbox(DeliveryRows):
    """Deliveries by number, with the time at which each is due. All its rows are in memory."""

    def __init__(self) -> None:
        super().__init__(OUTBOX_ID)
        self.waiting: dict[int, Delivery] = {}
        self._due: list[tuple[int, int]] = []
        self._next = 0

    def add(self, delivery: Delivery) -> None:
        """Add a delivery; when there are too many, the oldest is given up, to its dead-letter queue if it has one.

        Who is told of it may add another in its place. So two may go, and no more: all that wait would follow each
        other, for one that came.
        """
        for _ in range(2):
            if len(self.waiting) < MOST_WAITING:
                break
            number, oldest = next(iter(self.waiting.items()))
            self.remove(number)
            why = f"{MOST_WAITING} deliveries wait"
            give_up(oldest, "ServiceUnavailable", why, "", _log_loss)
        delivery.first_ms = delivery.first_ms or CURRENT.clock.now_ms()
        self.put(self._next, delivery, CURRENT.clock.now_ms())
        self.has_new = True

    def put(self, number: int, delivery: Delivery, due_ms: int) -> None:
        """Schedule a delivery for `due_ms`."""
        self._next = max(self._next, number + 1)
        self.waiting[number] = delivery
        heapq.heappush(self._due, (due_ms, number))
        CHANGES.row(self, number)

    def remove(self, number: int) -> None:
        """Remove a delivery."""
        del self.waiting[number]
        CHANGES.row(self, number)

    def clear(self) -> None:
        """See `DeliveryRows.clear`."""
        self.waiting, self._due, self.has_new = {}, [], False

    def take_due(self, now_ms: int) -> tuple[int | None, float]:
        """Return the number of a delivery that is due, and unschedule it; else the seconds until one may be due."""
        while self._due and self._due[0][0] <= now_ms:
            _, number = heapq.heappop(self._due)
            if number in self.waiting:
                return number, 0.0
        return None, (self._due[0][0] - now_ms) / 1000 if self._due else math.inf

    def encode_row(self, key: Any) -> bytes | None:
        """See `Rows.encode_row`."""
        delivery = self.waiting.get(key)
        return None if delivery is None else msgspec.msgpack.encode(delivery)

    def keys(self) -> Iterable[Any]:
        """See `Rows.keys`."""
        return list(self.waiting)

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        for key, value in rows:
            self.put(int(key), msgspec.msgpack.decode(value, type=Delivery), CURRENT.clock.now_ms())


def _log_loss(delivery: Delivery, error: AwsError, what_now: str) -> None:
    log.error("%s %s: %s", delivery.what, what_now, error)


OUTBOX = Outbox()


class OutboxWorker:
    """A `Worker` that makes the outbox's deliveries. `save` stores changes; `is_ready` says whether it may run."""

    name = "moto-outbox"

    def __init__(
        self,
        *,
        is_ready: Callable[[], bool],
        save: Callable[[], None],
        post: Callable[[str, bytes, Mapping[str, str]], None],
    ) -> None:
        self._is_ready = is_ready
        self._save = save
        self._post = post
        self._said: set[str] = set()

    def step(self) -> float:
        """Try the deliveries that are due."""
        while True:
            with MOTO_LOCK:
                if not self._is_ready():
                    return math.inf
                number, wait_s = OUTBOX.take_due(CURRENT.clock.now_ms())
                if number is None:
                    return wait_s
                delivery = OUTBOX.waiting[number]
            error = self._try_delivery(delivery)
            with MOTO_LOCK:
                if OUTBOX.waiting.get(number) is not delivery:
                    continue
                if error is None:
                    OUTBOX.remove(number)
                    self._said.discard(delivery.what)
                else:
                    self._note_failure(number, delivery, error)
                self._save()

    def _try_delivery(self, delivery: Delivery) -> AwsError | None:
        try:
            if delivery.http is not None:
                send(delivery.http, delivery.body)
            elif delivery.url:
                self._post(delivery.url, delivery.body, delivery.headers)
            elif (control := CURRENT.control) is None:
                return AwsError("ServiceUnavailable", "moto's services are loaded anew", 503)
            else:
                control.call(
                    delivery.service,
                    delivery.operation,
                    delivery.params,
                    account=delivery.account,
                    region=delivery.region,
                    acting=_find_acting_identity(delivery),
                )
        except AwsError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever the error, the delivery is retried
            return AwsError("SDK_CLIENT_ERROR", f"{type(error).__name__}: {error}", 503)
        return None

    def _note_failure(self, number: int, delivery: Delivery, error: AwsError) -> None:
        age_s = (CURRENT.clock.now_ms() - delivery.first_ms) / 1000
        condition = ""
        if delivery.attempts >= delivery.most_retries:
            condition = "MaximumRetryAttempts"
        elif age_s >= delivery.most_age_s:
            condition = "MaximumEventAgeInSeconds"
        is_not_retryable = any(name in error.code for name in NOT_RETRYABLE) or (
            delivery.http is not None and is_final(error)
        )
        if not condition and not is_not_retryable:
            self._log_failure(delivery, error, "is tried again")
            delivery.attempts += 1
            delay_s = min(FIRST_DELAY_S * 2 ** min(delivery.attempts - 1, 20), LONGEST_DELAY_S)
            OUTBOX.put(number, delivery, CURRENT.clock.now_ms() + round(delay_s * 1000))
            return
        OUTBOX.remove(number)
        give_up(delivery, error.code, error.message, condition, self._log_failure)

    def _log_failure(self, delivery: Delivery, error: AwsError, what_now: str) -> None:
        """Log a failure, once until the next success."""
        if delivery.what not in self._said and len(self._said) < MOST_WAITING:
            self._said.add(delivery.what)
            log.warning("%s %s: %s", delivery.what, what_now, error)


def give_up(
    delivery: Delivery,
    code: str,
    message: str,
    condition: str,
    say: Callable[[Delivery, AwsError, str], None],
) -> None:
    """Send a delivery to its dead-letter queue, or drop it, and log which."""
    error = AwsError(code, message)
    if delivery.on_failure in ON_FAILURE:
        ON_FAILURE[delivery.on_failure](delivery.failure_context, f"{error}")
    if delivery.source_arn:
        CURRENT.handled.fail(delivery.source_arn)
    if not delivery.dead_letter_arn:
        say(delivery, error, "is not delivered")
        return
    attributes = {
        **delivery.attributes,
        "ERROR_CODE": code,
        "ERROR_MESSAGE": message or code,
        **({"EXHAUSTED_RETRY_CONDITION": condition} if condition else {}),
        "RETRY_ATTEMPTS": str(delivery.attempts),
    }
    problem = _find_denial(delivery) or send_to_queue(
        delivery.dead_letter_arn, delivery.body.decode(errors="replace"), attributes
    )
    note_dead_letter(delivery.source_arn, is_kept=not problem)
    if problem:
        say(delivery, error, f"is lost, because its dead-letter queue refused it ({problem})")
    else:
        say(delivery, error, f"goes to {delivery.dead_letter_arn}")


def _find_denial(delivery: Delivery) -> str:
    """Return why the dead-letter queue may not be sent to: by the role that calls, or by the service of the source."""
    acting = _find_acting_identity(delivery)
    if delivery.source_arn:
        service = delivery.source_arn.split(":")[2]
        acting = CallerIdentity(f"{service}.amazonaws.com", source_arn=delivery.source_arn)
    if acting is None:
        return ""
    return CURRENT.guard.denial(acting, "sqs:SendMessage", delivery.dead_letter_arn)


def note_dead_letter(source_arn: str, *, is_kept: bool) -> None:
    """Count a dead letter of a rule or a topic, which its queue took or refused for good."""
    names = _DEAD_LETTER_METRICS.get(source_arn.split(":", 3)[2] if source_arn else "")
    if names:
        CURRENT.handled.note(source_arn, names[0 if is_kept else 1])


def send_to_queue(
    queue_arn: str, body: str, attributes: Mapping[str, str], group_id: str | None = None
) -> str:
    """Send to one of moto's queues; return "", or why it refuses. The caller holds `MOTO_LOCK`, and saves."""
    import moto.sqs.models
    from moto.core.exceptions import ServiceException
    from moto.sqs.exceptions import QueueDoesNotExist

    parts = queue_arn.split(":")
    backends: Any = moto.sqs.models.sqs_backends
    missing = f"there is no queue {queue_arn}"
    if len(parts) != 6 or parts[3] not in backends[parts[4]]:
        return missing
    named = {n: {"DataType": "String", "StringValue": text} for n, text in attributes.items()}
    try:
        backends[parts[4]][parts[3]].send_message(
            parts[5], body, message_attributes=named, group_id=group_id
        )
    except QueueDoesNotExist:
        return missing
    except ServiceException as refusal:
        return f"{refusal.message}"
    return ""
