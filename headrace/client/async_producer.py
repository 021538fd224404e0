"""The producer for asyncio: the same core, whose threads do the sending.

async with AsyncProducer("orders") as producer:
    receipt = await producer.put(b"...", key="customer-7")   # taken
    await receipt                                            # acknowledged
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Self

from headrace.client.producer import Producer
from headrace.client.receipts import BufferFull, ProducerMetrics, Receipt, Receipts

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05
# How many records of a `put_many` are tried again at once, while the buffer was full.
_REST_AT_ONCE = 1000


class AsyncProducer:
    """A `Producer` that never blocks the event loop. For one loop; takes the parameters of `Producer`."""

    def __init__(self, stream: str, **options: Any) -> None:
        """Take what `Producer` takes; with `when_full="block"` (the default) `put` waits without blocking the loop."""
        self._waits = options.get("when_full", "block") == "block"
        if self._waits:
            options["when_full"] = "raise"
        self._producer = Producer(stream, **options)
        self._is_started = False

    async def put(
        self,
        data: bytes | str,
        key: str | None = None,
        *,
        explicit_hash_key: int | str | None = None,
    ) -> Receipt:
        """Take a record; the receipt is awaitable. Raises as `Producer.put`."""
        await self._start()
        pauses_s = _pauses_s()
        while True:
            try:
                return self._producer.put(data, key, explicit_hash_key=explicit_hash_key)
            except BufferFull:
                if not self._waits:
                    raise
            await asyncio.sleep(next(pauses_s))

    async def put_many(self, records: Iterable[tuple[bytes | str, str | None]]) -> Receipts:
        """Take records, each its data and its key or None, in order. Raises as `Producer.put_many`."""
        await self._start()
        rows, receipts = list(records), Receipts()
        pauses_s, rest = _pauses_s(), rows
        while True:
            try:
                receipts.add_all(self._producer.put_many(rest))
                if len(receipts) == len(rows):
                    return receipts
                pause_s = 0.0
            except BufferFull as full:
                receipts.add_all(full.taken)
                if not self._waits:
                    full.taken = receipts
                    raise
                pause_s = next(pauses_s)
            await asyncio.sleep(pause_s)
            # The first call has checked all of them; each call checks what it is given, whatever has room.
            rest = rows[len(receipts) : len(receipts) + _REST_AT_ONCE]

    async def _start(self) -> None:
        if not self._is_started:
            # The first put may ask the cloud for the shards.
            await asyncio.to_thread(self._producer.start)
            self._is_started = True

    async def flush(self, timeout_s: float | None = None) -> None:
        """See `Producer.flush`."""
        await asyncio.to_thread(self._producer.flush, timeout_s)

    async def close(self, timeout_s: float | None = None) -> None:
        """See `Producer.close`."""
        await asyncio.to_thread(self._producer.close, timeout_s)

    def metrics(self) -> ProducerMetrics:
        """See `Producer.metrics`."""
        return self._producer.metrics()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(partial(self._producer.__exit__, kind, error, traceback))


def _pauses_s() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
