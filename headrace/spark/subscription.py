"""Gives a shard's pages by enhanced fan-out (SubscribeToShard), in a task of the distributed mode."""

# botocore has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, Protocol

from botocore.eventstream import ChecksumMismatch, EventStreamBuffer
from botocore.exceptions import HTTPClientError
from urllib3.exceptions import HTTPError

from headrace.spark.client import KinesisError
from headrace.spark.get_records import Page, parse_page
from headrace.spark.offsets import Init
from headrace.spark.untyped import untyped

_READ_BYTES = 1 << 16
_MOST_BROKEN = 10
# Subscribing anew would take five seconds: so a batch that has records waits a little for the next event.
_NEXT_EVENT_S = 1.0
# Quotes inside a JSON string are escaped, so this is the member. It is null or missing at the end of a closed shard.
_CONTINUES = re.compile(rb'"ContinuationSequenceNumber"\s*:\s*"(\d+)"')


class Calls(Protocol):
    """What a subscription asks of a `KinesisClient`."""

    def subscribe(self, consumer_arn: str, shard_id: str, after: str | None, init: Init) -> Any:
        """See `KinesisClient.subscribe`."""
        ...


class Subscription:
    """Gives one shard's pages as they are pushed. One thread at a time."""

    def __init__(
        self, calls: Calls, consumer_arn: str, shard_id: str, begin: tuple[str | None, Init]
    ) -> None:
        self._calls, self._consumer_arn, self._shard_id = calls, consumer_arn, shard_id
        self._after, self._init = begin
        self._stream: Any = None
        self._parts: Iterator[bytes] = iter(())
        self._events: Any = None
        self._broken = 0

    def next_page(self, most: int, may_wait_s: float) -> Page | None:
        """Return the next event's page, whatever `most` is; None if none came in time.

        Raises DataLoss, KinesisError.
        """
        until_s = time.monotonic() + max(may_wait_s, _NEXT_EVENT_S)
        while time.monotonic() < until_s:
            try:
                payload = self._next_payload()
            except (HTTPClientError, HTTPError, OSError, ChecksumMismatch) as error:
                self._broken += 1
                if self._broken > _MOST_BROKEN:
                    raise KinesisError(
                        f"The subscription to {self._shard_id} breaks again and again: {error!r}"
                    ) from error
                self.close()
                continue
            if payload is not None:
                return self._page(payload)
        return None

    def full_ms(self) -> int:
        """Return 0: a consumer has each shard's pushed bytes for itself, and no other way of reading counts them."""
        return 0

    def close(self) -> None:
        """End the subscription."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _page(self, payload: bytes) -> Page:
        self._broken = 0
        page = parse_page(payload)
        continues = _CONTINUES.search(payload)
        # An event has no iterator: no text says that the shard goes on, None that it has ended.
        page.next_iterator = None if continues is None else ""
        if continues is not None:
            self._after = continues[1].decode()
        return page

    def _next_payload(self) -> bytes | None:
        """Return the next event's payload; None for another message, or at a subscription's end after five minutes."""
        if self._stream is None:
            self._stream = self._calls.subscribe(
                self._consumer_arn, self._shard_id, self._after, self._init
            )
            self._parts = self._stream.stream(_READ_BYTES, decode_content=False)
            self._events = untyped(EventStreamBuffer)()
        event = next(self._events, None)
        while event is None:
            part = next(self._parts, None)
            if part is None:
                self.close()
                return None
            self._events.add_data(part)
            event = next(self._events, None)
        headers = event.headers
        if headers.get(":message-type") in ("exception", "error"):
            self.close()
            code = headers.get(":exception-type") or headers.get(":error-code")
            if code == "InternalFailureException":
                raise OSError(event.payload[:500])
            raise KinesisError(f"{code}: {event.payload[:500].decode(errors='replace')}")
        return event.payload if headers.get(":event-type") == "SubscribeToShardEvent" else None
