"""Enhanced fan-out: a registered consumer, and a shard that is pushed to it.

SubscribeToShard answers with AWS's event stream for five minutes (documented: API_SubscribeToShard); then it is asked
again after what came last.
"""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from headrace.client.access import AwsAccess
from headrace.client.hash_keys import Streams
from headrace.client.leases.stores import AT_TIMESTAMP, Checkpoint, Lease
from headrace.client.readings import shard_of
from headrace.client.records import Page, Unpacker, event_page_of
from headrace.client.wire import ServiceError, Wire, WireError

_PRELUDE = struct.Struct(">III")  # bytes of the message, bytes of its headers, CRC-32 of these
_CRC_BYTES = 4
_TEXT_HEADER = 7


def register(access: AwsAccess, streams: Streams, name: str) -> str:
    """Return the ARN of a stream's registered consumer, which is made if it is missing. Raises botocore's errors."""
    client = access.client("kinesis")
    stream_arn = streams.summary()["StreamARN"]
    # It may be there already, or another worker makes it now.
    with contextlib.suppress(client.exceptions.ResourceInUseException):
        client.register_stream_consumer(StreamARN=stream_arn, ConsumerName=name)
    waiter: Any = None
    while waiter is None or waiter["ConsumerStatus"] == "CREATING":
        answer = client.describe_stream_consumer(StreamARN=stream_arn, ConsumerName=name)
        waiter = answer["ConsumerDescription"]
    return str(waiter["ConsumerARN"])


class FanOutReader:
    """Reads a shard that is pushed. It has a connection of its own; one thread at a time."""

    def __init__(
        self,
        lease: Lease,
        consumer_arn: str,
        make_wire: Callable[[], Wire],
        *,
        start_at: datetime | None = None,
    ) -> None:
        """Take a lease, and the consumer's ARN. This sends nothing."""
        self._shard_id, self._consumer_arn, self._make_wire = lease.key, consumer_arn, make_wire
        checkpoint = lease.checkpoint
        after = (checkpoint.sequence_number, checkpoint.sub_sequence_number)
        self.unpack = Unpacker(shard_of(lease), after if checkpoint.is_number else None)
        self._position = _position(checkpoint, start_at)
        self._wire: Wire | None = None
        self._read: Callable[[], bytes] | None = None
        self._received = b""

    def fetch(self, _: Any) -> Page:
        """Return the next event's page, empty when the subscription has ended. Raises ServiceError, WireError."""
        if self._read is None:
            self._wire = self._wire or self._make_wire()
            request = {
                "ConsumerARN": self._consumer_arn,
                "ShardId": self._shard_id,
                "StartingPosition": self._position,
            }
            self._received = b""
            self._read = self._wire.open("SubscribeToShard", json.dumps(request).encode())
        try:
            while True:
                event = self._next_event()
                if event is None:
                    self._read = None
                    return Page([], "again", [], 0, None)
                headers, payload = event
                if headers.get(":message-type") == "exception":
                    raise _error_of(headers, payload)
                if headers.get(":event-type") == "SubscribeToShardEvent":
                    return self._page(payload)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the subscription."""
        self._read = None
        if self._wire is not None:
            self._wire.close()

    def _page(self, payload: bytes) -> Page:
        try:
            page = event_page_of(json.loads(payload), self.unpack)
        except (ValueError, KeyError, TypeError) as error:
            raise WireError("an event of SubscribeToShard cannot be read") from error
        if page.next_iterator is None:
            self.close()
        else:
            self._position = {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": page.next_iterator}
        return page

    def _next_event(self) -> tuple[dict[str, str], bytes] | None:
        while len(self._received) < _PRELUDE.size:
            if not self._more():
                return None
        total, headers_bytes, _ = _PRELUDE.unpack_from(self._received)
        while len(self._received) < total:
            if not self._more():
                raise WireError("a subscription stopped within an event")
        message, self._received = self._received[:total], self._received[total:]
        if zlib.crc32(message[:-_CRC_BYTES]) != int.from_bytes(message[-_CRC_BYTES:], "big"):
            raise WireError("an event of a subscription is damaged")
        start = _PRELUDE.size + headers_bytes
        return _headers_of(message[_PRELUDE.size : start]), message[start:-_CRC_BYTES]

    def _more(self) -> bool:
        assert self._read is not None
        part = self._read()
        self._received += part
        return bool(part)


def _headers_of(content: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    while at < len(content):
        name_end = at + 1 + content[at]
        name = content[at + 1 : name_end].decode()
        if content[name_end] != _TEXT_HEADER:
            raise WireError("a header of a subscription's event is no text")
        length = int.from_bytes(content[name_end + 1 : name_end + 3], "big")
        at = name_end + 3 + length
        headers[name] = content[name_end + 3 : at].decode()
    return headers


def _error_of(headers: dict[str, str], payload: bytes) -> ServiceError:
    message = ""
    if payload.startswith(b"{"):
        message = str(json.loads(payload).get("message", ""))
    return ServiceError(headers.get(":exception-type", "UnknownError"), message, 400)


def _position(checkpoint: Checkpoint, start_at: datetime | None) -> dict[str, Any]:
    number = checkpoint.sequence_number
    if checkpoint.is_number:
        return {"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": number}
    if number == AT_TIMESTAMP:
        if start_at is None:
            raise ValueError("a lease begins AT_TIMESTAMP, but the group was given no time")
        return {"Type": AT_TIMESTAMP, "Timestamp": start_at.timestamp()}
    return {"Type": number}
