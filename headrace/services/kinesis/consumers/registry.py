"""The registered consumers (enhanced fan-out) of all streams: registers, stores and deregisters them.

A change is durable when its method returns. Thread-safe; callers make changes under the service's lock.
"""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Any

from headrace.services.kinesis.errors import in_use, limit_exceeded
from headrace.services.kinesis.limits import CONSUMERS_CREATING
from headrace.services.kinesis.state import Consumer, Stream
from headrace.store.database import Documents


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
