"""Sends records to a stream or a delivery stream, and returns once AWS has acknowledged all of them."""

from __future__ import annotations

import contextlib
import hashlib
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from headrace.client import Producer, PutsFailed
from headrace.client.receipts import RequestCounts
from headrace.core.clock import Clock

# Records of a block share their random key, which costs less, and leaves aggregates whole.
_BLOCK = 500
_FIREHOSE_RECORDS, _FIREHOSE_BYTES = 500, 4 << 20
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0
_FLUSH_S = 0.5


class Stopped(Exception):
    """The agent stops: the records were not sent."""


class Sender(Protocol):
    """A destination. For one thread."""

    def send(self, records: Sequence[bytes]) -> None:
        """Return once every record is acknowledged. Raises what AWS answers for good, and Stopped."""
        ...

    def close(self) -> None:
        """Close what it holds open."""
        ...


class KinesisSender:
    """A stream. A record that the stream throttles is tried until it is taken."""

    def __init__(self, producer: Producer, stop: threading.Event, *, is_random_key: bool) -> None:
        self._producer, self._stop, self._is_random_key = producer, stop, is_random_key
        self._random = random.Random()

    def send(self, records: Sequence[bytes]) -> None:
        """See `Sender.send`. Raises PutsFailed and botocore's errors."""
        put = self._producer.put
        if self._is_random_key:
            for at in range(0, len(records), _BLOCK):
                key = f"{self._random.getrandbits(64):016x}"
                for record in records[at : at + _BLOCK]:
                    put(record, key)
        else:
            for record in records:
                put(record, hashlib.md5(record, usedforsecurity=False).hexdigest())
        while True:
            try:
                self._producer.flush(_FLUSH_S)
            except TimeoutError:
                if self._stop.is_set():
                    raise Stopped from None
            else:
                return

    def close(self) -> None:
        """See `Sender.close`. What was not acknowledged is not sent any more."""
        with contextlib.suppress(TimeoutError, PutsFailed):  # Of what `send` raised Stopped for.
            self._producer.close(timeout_s=0.0)


class FirehoseSender:
    """A delivery stream, by PutRecordBatch; entries that fail are sent again."""

    def __init__(
        self, client: Any, name: str, clock: Clock, stop: threading.Event,
        *, most_records: int = _FIREHOSE_RECORDS, most_bytes: int = _FIREHOSE_BYTES,
        on_request: Callable[[RequestCounts], Any] = lambda _: None,
    ) -> None:  # fmt: skip
        """Take the client; the bounds are those of a request, and `on_request` is told what became of each."""
        self._client, self._name, self._clock, self._stop = client, name, clock, stop
        self._most_records, self._most_bytes = most_records, most_bytes
        self._on_request = on_request

    def send(self, records: Sequence[bytes]) -> None:
        """See `Sender.send`. Raises botocore's errors."""
        batch: list[bytes] = []
        size = 0
        for record in records:
            is_full = len(batch) == self._most_records or size + len(record) > self._most_bytes
            if batch and is_full:
                self._put(batch)
                batch, size = [], 0
            batch.append(record)
            size += len(record)
        if batch:
            self._put(batch)

    def _put(self, batch: list[bytes]) -> None:
        pause_s = _FIRST_PAUSE_S
        while batch:
            try:
                answer = self._client.put_record_batch(
                    DeliveryStreamName=self._name, Records=[{"Data": record} for record in batch]
                )
            except (BotoCoreError, ClientError):
                self._on_request(RequestCounts(len(batch), 0, 0, has_failed=True))
                raise
            results = answer["RequestResponses"]
            failed = [
                record
                for record, result in zip(batch, results, strict=True)
                if result.get("ErrorCode")
            ]
            arrived = sum(map(len, batch)) - sum(map(len, failed))
            self._on_request(RequestCounts(len(batch), len(failed), arrived, has_failed=False))
            if failed and self._clock.wait(self._stop, pause_s):
                raise Stopped
            batch, pause_s = failed, min(pause_s * 2, _LONGEST_PAUSE_S)

    def close(self) -> None:
        """See `Sender.close`."""
        self._client.close()
