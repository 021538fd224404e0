"""The subscriptions of SubscribeToShard: which events are due, and when. `pushes` waits and sends them.

Source: API_SubscribeToShard (documented): a subscription lasts five minutes; a consumer has one active subscription for
each shard; a second call is refused within five seconds and takes over after that; an event comes at least every five
seconds.

The registered consumers (enhanced fan-out) of all streams: registers, stores and deregisters them.

A change is durable when its method returns. Thread-safe; callers make changes under the service's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import cbor2
import msgspec

from headrace.aws.protocols import encodings
from headrace.services.kinesis.data_path.get import child_shards, number_before
from headrace.services.kinesis.data_path.stored_records import cbor_answer, json_answer
from headrace.services.kinesis.errors import (
    CONSUMERS_CREATING,
    GET_RECORDS_COUNT,
    SUBSCRIPTION_EVENT_BYTES,
    SUBSCRIPTION_EXCLUSIVE_MS,
    SUBSCRIPTION_IDLE_MS,
    SUBSCRIPTION_LIFE_MS,
    in_use,
    limit_exceeded,
)
from headrace.services.kinesis.permits import Throttle
from headrace.services.kinesis.state import Consumer, Shard, Stream
from headrace.services.kinesis.store import StreamRegistry
from headrace.store.database import Documents
from headrace.store.frame import Batch
from headrace.store.losses import LogDamaged


class Consumers:
    """All consumers.

    Attributes:
        creating_ms: how long a new consumer stays CREATING.
        deleting_ms: how long a deregistered consumer stays DELETING.
        lock: taken before the database's, never after.
    """

    def __init__(self, documents: Documents, delay_ms: int = 0) -> None:
        self.creating_ms = delay_ms
        self.deleting_ms = delay_ms
        self._documents = documents
        self.lock = threading.RLock()
        self._by_arn: dict[str, Consumer] = {}
        for arn, document in documents.items():
            self._by_arn[arn] = Consumer(**document)

    def of_stream(self, stream: Stream, now_ms: int) -> list[Consumer]:
        """Return a stream's consumers, sorted by name."""
        with self.lock:
            self._forget_gone(now_ms)
            consumers = [c for c in self._by_arn.values() if c.stream_id == stream.stream_id]
        return sorted(consumers, key=lambda consumer: consumer.name)

    def named(self, stream: Stream, name: str, now_ms: int) -> Consumer | None:
        """Return the consumer of a stream by its name, or None."""
        consumers = (c for c in self.of_stream(stream, now_ms) if c.name == name)
        return next(consumers, None)

    def by_arn(self, arn: str, now_ms: int) -> Consumer | None:
        """Return the consumer with this ARN, or None."""
        with self.lock:
            self._forget_gone(now_ms)
            return self._by_arn.get(arn)

    def is_present(self, consumer: Consumer) -> bool:
        """Whether a consumer still exists, and so may read."""
        return consumer.gone_at_ms is None and self._by_arn.get(consumer.arn) is consumer

    def register(
        self,
        stream: Stream,
        name: str,
        tags: dict[str, str],
        *,
        quota: int,
        queues: int,
        now_ms: int,
    ) -> Consumer:
        """Register a consumer. Raises AwsError when the name is taken, or when the stream has too many consumers.

        `queues` is the number of the stream's queues, which count as consumers.
        """
        present = self.of_stream(stream, now_ms)
        if any(consumer.name == name for consumer in present):
            raise in_use(
                f"Consumer {name} under stream {stream.name} already exists for account {stream.account}."
            )
        if len(present) + queues >= quota:
            raise limit_exceeded(
                f"Failed to register consumer {name} on stream {stream.name} under account {stream.account}."
                f" The stream has reached its limit of {quota} registered consumers."
            )
        if sum(c.status(now_ms) == "CREATING" for c in present) >= CONSUMERS_CREATING:
            raise limit_exceeded(
                f"Failed to register consumer {name} on stream {stream.name} under account {stream.account}."
                f" No more than {CONSUMERS_CREATING} consumers can be in CREATING status at the same time."
            )
        consumer = Consumer(
            name=name,
            stream_id=stream.stream_id,
            arn=f"{stream.arn}/consumer/{name}:{now_ms // 1000}",
            created_ms=now_ms,
            active_at_ms=now_ms + self.creating_ms,
            tags=tags,
        )
        self.save(consumer)
        return consumer

    def save(self, consumer: Consumer) -> None:
        """Store a new or changed consumer. If this fails, take the change back."""
        document: dict[str, Any] = asdict(consumer)
        with self.lock:
            try:
                self._documents.put(consumer.arn, document)
            except BaseException:
                stored: dict[str, Any] = self._documents.get(consumer.arn) or {}
                for name, value in stored.items():
                    setattr(consumer, name, value)
                raise
            self._by_arn[consumer.arn] = consumer

    def deregister(self, consumer: Consumer, now_ms: int) -> None:
        """Deregister a consumer; it is removed after `deleting_ms` in DELETING."""
        with self.lock:
            consumer.gone_at_ms = now_ms + self.deleting_ms
            if self.deleting_ms:
                self.save(consumer)
            self._forget_gone(now_ms)

    def remove_of(self, stream: Stream) -> None:
        """Remove all consumers of a stream without a time in DELETING."""
        with self.lock:
            for consumer in list(self._by_arn.values()):
                if consumer.stream_id == stream.stream_id:
                    self._remove(consumer)

    def _forget_gone(self, now_ms: int) -> None:
        for consumer in list(self._by_arn.values()):
            if consumer.gone_at_ms is not None and consumer.gone_at_ms <= now_ms:
                self._remove(consumer)

    def _remove(self, consumer: Consumer) -> None:
        self._documents.delete(consumer.arn)
        self._by_arn.pop(consumer.arn, None)


_JSON_TYPE = "application/json"
_CBOR_TYPE = "application/cbor"


class ReadBudget(Protocol):
    """How much a consumer may still read from a shard (2 MiB a second, when AWS's limits are on)."""

    def wait_ms(self, now_ms: int) -> int:
        """Return after how many milliseconds the next event may be sent; 0 means now."""
        ...

    def spend(self, data_bytes: int, now_ms: int) -> None:
        """Count the bytes of an event that was sent."""
        ...


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event that was sent, as CloudWatch's metrics count it."""

    stream: Stream
    consumer: Consumer
    shard: Shard
    records: int
    data_bytes: int
    behind_ms: int


class Subscription:
    """The subscription of one consumer to one shard, as a state machine. Only one thread may use it at a time.

    Attributes:
        deadline_ms: when the subscription expires.
        ended: whether the subscription has sent its last message.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        stream: Stream,
        shard: Shard,
        consumer: Consumer,
        index: int,
        *,
        cbor: bool,
        now_ms: int,
    ) -> None:
        assert shard.log is not None
        self.stream = stream
        self.shard = shard
        self.consumer = consumer
        self.opened_ms = now_ms
        self.deadline_ms = now_ms + SUBSCRIPTION_LIFE_MS
        self.ended = False
        self.superseded = False
        self._subscriptions = subscriptions
        self._log = shard.log
        self._index = index
        self._cbor = cbor
        self._type = _CBOR_TYPE if cbor else _JSON_TYPE
        self._begun = False
        self._last_ms: int | None = None
        budget = subscriptions.budget
        self._budget = None if budget is None else budget(consumer.arn, shard.shard_id)

    @property
    def key(self) -> tuple[str, str]:
        """The consumer's ARN and the shard's id: each such pair has one active subscription."""
        return self.consumer.arn, self.shard.shard_id

    @property
    def next_number(self) -> str:
        """A sequence number at or before the next record that is sent, after those that are."""
        return self.shard.base.text(self._index, self.opened_ms)

    def next_messages(self, now_ms: int) -> list[bytes]:
        """Return the messages that are due now: `initial-response` the first time, then an event or an exception.

        An event holds at most 1 MiB of records (or one larger record), so call again until the list is empty.
        """
        if self.ended:
            return []
        messages: list[bytes] = []
        if not self._begun:
            self._begun = True
            empty = cbor2.dumps({}) if self._cbor else b"{}"
            messages.append(encodings.event("initial-response", empty, self._type))
        failure = self._failure()
        if failure is not None:
            self.ended = True
            messages.append(self._exception(*failure))
        elif now_ms >= self.deadline_ms:
            self.ended = True
        else:
            messages += self._events(now_ms)
        return messages

    def wait_ms(self, now_ms: int) -> int:
        """Return after how many milliseconds to call `next_messages` again, unless an append comes earlier."""
        idle_ms = SUBSCRIPTION_IDLE_MS - (now_ms - (self._last_ms or now_ms))
        wait_ms = min(idle_ms, self.deadline_ms - now_ms)
        if self._budget is not None and self._index < self._log.readable_index:
            wait_ms = min(wait_ms, self._budget.wait_ms(now_ms))
        return max(1, wait_ms)

    def has_news(self) -> bool:
        """Whether there is a message to send. Must be quick: every append asks every subscription of the stream."""
        shard_log = self._log
        if self._index < shard_log.readable_index or shard_log.closed or self.superseded:
            return True
        return self.consumer.gone_at_ms is not None

    def close(self) -> None:
        """End the subscription, so that the consumer may start another. Idempotent; any thread may call it."""
        self.ended = True
        self._subscriptions.closed(self)

    def _failure(self) -> tuple[str, str] | None:
        subscriptions, stream, consumer = self._subscriptions, self.stream, self.consumer
        if self.superseded:
            return "ResourceInUseException", another_active(stream, self.shard, consumer)
        if subscriptions.registry.by_id.get(stream.stream_id) is not stream:
            return (
                "ResourceNotFoundException",
                f"Stream {stream.name} under account {stream.account} not found.",
            )
        if not subscriptions.consumers.is_present(consumer):
            return "ResourceNotFoundException", f"Consumer {consumer.arn} not found."
        return None

    def _exception(self, code: str, message: str) -> bytes:
        value = {"message": message}
        payload = cbor2.dumps(value) if self._cbor else msgspec.json.encode(value)
        return encodings.exception(code, payload, self._type)

    def _events(self, now_ms: int) -> list[bytes]:
        try:
            event = self._event(now_ms)
        except LogDamaged as error:
            self.ended = True
            message = f"{error}; stop the cloud and run: headrace check --repair"
            return [self._exception("InternalFailureException", message)]
        return [] if event is None else [event]

    def _event(self, now_ms: int) -> bytes | None:
        shard_log = self._log
        # Ask before the read: a shard that closes during the read may have records that the read misses.
        closed = shard_log.closed
        batch: Batch | None = None
        if self._index < shard_log.readable_index:
            if self._budget is not None and self._budget.wait_ms(now_ms) > 0:
                return self._heartbeat(now_ms)
            batch = shard_log.read_readable(
                self._index, GET_RECORDS_COUNT, SUBSCRIPTION_EVENT_BYTES
            )
            self._index = batch.next_index
        at_end = closed and self._index >= shard_log.next_index
        if not at_end and (batch is None or not batch.count):
            return self._heartbeat(now_ms)
        return self._encode(batch, at_end, now_ms)

    def _heartbeat(self, now_ms: int) -> bytes | None:
        if self._last_ms is not None and now_ms - self._last_ms < SUBSCRIPTION_IDLE_MS:
            return None
        return self._encode(None, False, now_ms)

    def _encode(self, batch: Batch | None, at_end: bool, now_ms: int) -> bytes:
        """Return an event. The last one of a closed shard has ChildShards and no ContinuationSequenceNumber."""
        self._last_ms = now_ms
        arrival_ms = None if batch is None else batch.last_arrival_ms
        behind_ms = self._behind_ms(arrival_ms, now_ms)
        rest: dict[str, Any] = {"MillisBehindLatest": behind_ms}
        if at_end:
            self.ended = True
            rest["ChildShards"] = child_shards(self.stream, self.shard)
        elif arrival_ms is not None:
            rest["ContinuationSequenceNumber"] = self.shard.base.text(self._index - 1, arrival_ms)
        else:
            rest["ContinuationSequenceNumber"] = number_before(self.shard, self._index, now_ms)
        payloads = [] if batch is None else batch.payloads
        if batch is not None and self._budget is not None:
            self._budget.spend(batch.data_bytes, now_ms)
        self._observe(batch, behind_ms)
        payload = (
            cbor_answer(payloads, rest)
            if self._cbor
            else json_answer(payloads, msgspec.json.encode(rest)[1:])
        )
        return encodings.event("SubscribeToShardEvent", payload, self._type)

    def _behind_ms(self, arrival_ms: int | None, now_ms: int) -> int:
        if self._index >= self._log.readable_index:
            return 0
        return max(0, now_ms - (self._log.last_arrival_ms if arrival_ms is None else arrival_ms))

    def _observe(self, batch: Batch | None, behind_ms: int) -> None:
        observe = self._subscriptions.observe
        if observe is None:
            return
        count, data_bytes = (0, 0) if batch is None else (batch.count, batch.data_bytes)
        observe(SentEvent(self.stream, self.consumer, self.shard, count, data_bytes, behind_ms))


class Subscriptions:
    """The active subscriptions: one per consumer and shard. Thread-safe.

    Attributes:
        budget: (consumer ARN, shard id) -> ReadBudget; None unless AWS's throughput limits are on.
        observe: called with every event that is sent, from any thread; must be quick.
    """

    def __init__(
        self,
        registry: StreamRegistry,
        consumers: Consumers,
        throttle: Throttle | None,
        observe: Callable[[SentEvent], None] | None = None,
    ) -> None:
        self.registry = registry
        self.consumers = consumers
        self.budget: Callable[[str, str], ReadBudget] | None = (
            None if throttle is None else throttle.consumer_budget
        )
        self.observe = observe
        # Reentrant: the garbage collector may close a subscription while this thread holds the lock.
        self._lock = threading.RLock()
        self._active: dict[tuple[str, str], Subscription] = {}

    def open(
        self,
        stream: Stream,
        shard: Shard,
        consumer: Consumer,
        index: int,
        *,
        cbor: bool,
        now_ms: int,
    ) -> Subscription:
        """Start a subscription. It ends the consumer's earlier one, if that is older than five seconds.

        Raises ResourceInUseException when the earlier subscription is younger.
        """
        subscription = Subscription(self, stream, shard, consumer, index, cbor=cbor, now_ms=now_ms)
        with self._lock:
            before = self._active.get(subscription.key)
            if before is not None and not before.ended:
                if now_ms - before.opened_ms < SUBSCRIPTION_EXCLUSIVE_MS:
                    raise in_use(another_active(stream, shard, consumer))
                before.superseded = True
            self._active[subscription.key] = subscription
        if before is not None:
            self.registry.wake(stream)
        return subscription

    def closed(self, subscription: Subscription) -> None:
        """Remove a subscription from the active ones, unless another has already replaced it."""
        with self._lock:
            if self._active.get(subscription.key) is subscription:
                del self._active[subscription.key]

    def positions(self) -> list[tuple[Stream, str, str, str]]:
        """Return stream, consumer's name and shard id of each active subscription, and where it goes on."""
        with self._lock:
            active = list(self._active.values())
        return [
            (one.stream, one.consumer.name, one.shard.shard_id, one.next_number) for one in active
        ]

    def count(self) -> int:
        """Return the number of active subscriptions."""
        return len(self._active)


def another_active(stream: Stream, shard: Shard, consumer: Consumer) -> str:
    """Return AWS's message (observed: awslabs/amazon-kinesis-client issue 391)."""
    return (
        "Another active subscription exists for this consumer:"
        f" {stream.account}:{stream.name}:{shard.shard_id}:{consumer.name}"
    )
