"""The producer for asyncio: the same core, whose threads do the sending.

async with AsyncProducer("orders") as producer:
    receipt = await producer.put(b"...", key="customer-7")   # taken
    await receipt                                            # acknowledged
"""

from __future__ import annotations

import asyncio
from functools import partial
from types import TracebackType
from typing import Any, Self

from headrace.client.producer import Producer
from headrace.client.producer_metrics import ProducerMetrics
from headrace.client.receipts import BufferFull, Receipt

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05


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
        self, data: bytes, key: str | None = None, *, explicit_hash_key: int | str | None = None
    ) -> Receipt:
        """Take a record; the receipt is awaitable. Raises as `Producer.put`."""
        if not self._is_started:
            # The first put may ask the cloud for the shards.
            await asyncio.to_thread(self._producer.start)
            self._is_started = True
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return self._producer.put(data, key, explicit_hash_key=explicit_hash_key)
            except BufferFull:
                if not self._waits:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

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
