"""Subscriptions of SubscribeToShard: which events they give, and when. `pushes` waits and sends.

Source: API_SubscribeToShard (documented): five minutes each, one active per consumer and shard, a second call
refused within five seconds and taking over later, an event at least every five seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import cbor2
import msgspec

from headrace.aws import event_stream
from headrace.services.kinesis.consumers.registry import Consumers
from headrace.services.kinesis.data_path.get import child_shards
from headrace.services.kinesis.data_path.positions import number_before
from headrace.services.kinesis.data_path.read import read
from headrace.services.kinesis.data_path.stored_records import cbor_answer, json_answer
from headrace.services.kinesis.errors import in_use
from headrace.services.kinesis.limits import (
    GET_RECORDS_COUNT,
    SUBSCRIPTION_EVENT_BYTES,
    SUBSCRIPTION_EXCLUSIVE_MS,
    SUBSCRIPTION_IDLE_MS,
    SUBSCRIPTION_LIFE_MS,
)
from headrace.services.kinesis.registry import StreamRegistry
from headrace.services.kinesis.state import Consumer, Shard, Stream
from headrace.services.kinesis.throttle import Throttle
from headrace.store.batch import Batch
from headrace.store.losses import LogDamaged

_JSON_TYPE = "application/json"
_CBOR_TYPE = "application/cbor"


class ReadBudget(Protocol):
    """What a consumer may still read of a shard (2 MiB a second, when AWS's limits are on)."""

    def wait_ms(self, now_ms: int) -> int:
        """Return in how many milliseconds more may be sent; 0 means now."""
        ...

    def spend(self, data_bytes: int, now_ms: int) -> None:
        """Note what was sent."""
        ...


@dataclass(frozen=True, slots=True)
class Delivered:
    """One event that was sent, for metrics."""

    stream: Stream
    consumer: Consumer
    shard: Shard
    records: int
    data_bytes: int
    behind_ms: int


class Subscription:
    """One consumer's reading of one shard, as a state machine. One thread at a time drives it.

    Attributes:
        deadline_ms: when it ends by itself.
        ended: nothing more comes.
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
        """A consumer and a shard: there is one active subscription of each such pair."""
        return self.consumer.arn, self.shard.shard_id

    def next_messages(self, now_ms: int) -> list[bytes]:
        """Return the messages that are due: none, or `initial-response`, an event, or the last one.

        An event holds 1 MiB of records at most (or one larger record), so ask again while there are any.
        """
        if self.ended:
            return []
        messages: list[bytes] = []
        if not self._begun:
            self._begun = True
            empty = cbor2.dumps({}) if self._cbor else b"{}"
            messages.append(event_stream.event("initial-response", empty, self._type))
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
        """Return after how long at most to ask `next_messages` again, if nothing wakes the subscription before."""
        idle_ms = SUBSCRIPTION_IDLE_MS - (now_ms - (self._last_ms or now_ms))
        wait_ms = min(idle_ms, self.deadline_ms - now_ms)
        if self._budget is not None and self._index < self._log.readable_index:
            wait_ms = min(wait_ms, self._budget.wait_ms(now_ms))
        return max(1, wait_ms)

    def has_news(self) -> bool:
        """Whether there is a message to send. Cheap: asked of every subscription at every append."""
        shard_log = self._log
        if self._index < shard_log.readable_index or shard_log.closed or self.superseded:
            return True
        return self.consumer.gone_at_ms is not None

    def close(self) -> None:
        """End the subscription, so that its consumer may begin another. Idempotent; from any thread."""
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
        return event_stream.exception(code, payload, self._type)

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
        # Before the read: a shard that is closed meanwhile may have records that this read does not see.
        closed = shard_log.closed
        batch: Batch | None = None
        if self._index < shard_log.readable_index:
            if self._budget is not None and self._budget.wait_ms(now_ms) > 0:
                return self._heartbeat(now_ms)
            batch = read(shard_log, self._index, GET_RECORDS_COUNT, SUBSCRIPTION_EVENT_BYTES)
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
        """Return an event. At a closed shard's end it is the last: ChildShards and no ContinuationSequenceNumber."""
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
        return event_stream.event("SubscribeToShardEvent", payload, self._type)

    def _behind_ms(self, arrival_ms: int | None, now_ms: int) -> int:
        if self._index >= self._log.readable_index:
            return 0
        return max(0, now_ms - (self._log.last_arrival_ms if arrival_ms is None else arrival_ms))

    def _observe(self, batch: Batch | None, behind_ms: int) -> None:
        observe = self._subscriptions.observe
        if observe is None:
            return
        count, data_bytes = (0, 0) if batch is None else (batch.count, batch.data_bytes)
        observe(Delivered(self.stream, self.consumer, self.shard, count, data_bytes, behind_ms))


class Subscriptions:
    """The active subscriptions: one per consumer and shard. Thread-safe.

    Attributes:
        budget: gives the ReadBudget of (consumer ARN, shard id) when AWS's throughput limits are on.
        observe: called with every event, from any thread; must be quick.
    """

    def __init__(
        self, registry: StreamRegistry, consumers: Consumers, throttle: Throttle | None
    ) -> None:
        self.registry = registry
        self.consumers = consumers
        self.budget: Callable[[str, str], ReadBudget] | None = (
            None if throttle is None else throttle.consumer_budget
        )
        self.observe: Callable[[Delivered], None] | None = None
        # Reentrant: a forgotten subscription may be collected, and closed, while this thread holds it.
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
        """Make a subscription; one older than five seconds ends for it. Raises ResourceInUseException."""
        made = Subscription(self, stream, shard, consumer, index, cbor=cbor, now_ms=now_ms)
        with self._lock:
            before = self._active.get(made.key)
            if before is not None and not before.ended:
                if now_ms - before.opened_ms < SUBSCRIPTION_EXCLUSIVE_MS:
                    raise in_use(another_active(stream, shard, consumer))
                before.superseded = True
            self._active[made.key] = made
        if before is not None:
            self.registry.wake(stream)
        return made

    def closed(self, subscription: Subscription) -> None:
        """Forget a subscription, unless another has its place already."""
        with self._lock:
            if self._active.get(subscription.key) is subscription:
                del self._active[subscription.key]

    def count(self) -> int:
        """Return how many are active."""
        return len(self._active)


def another_active(stream: Stream, shard: Shard, consumer: Consumer) -> str:
    """Return AWS's sentence (observed: awslabs/amazon-kinesis-client issue 391)."""
    return (
        "Another active subscription exists for this consumer:"
        f" {stream.account}:{stream.name}:{shard.shard_id}:{consumer.name}"
    )
