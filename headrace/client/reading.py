"""Reads one shard by polling: iterators, where to go on after one has expired, how fast to ask. No threads."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from headrace.client.hash_keys import ShardRange
from headrace.client.leases.lease import AT_TIMESTAMP, Checkpoint, Lease
from headrace.client.records import Page, Unpacker, page_of
from headrace.client.wire import ServiceError, Wire, WireError

MOST_RECORDS = 10_000


def shard_of(lease: Lease) -> ShardRange | None:
    """Return a lease's shard; None when the lease does not say its hash keys."""
    if lease.start is None or lease.end is None:
        return None
    return ShardRange(lease.key, lease.start, lease.end, tuple(lease.parents))


class ShardReader:
    """Reads a shard from its lease's checkpoint on. One thread at a time."""

    def __init__(
        self,
        lease: Lease,
        name_member: dict[str, str],
        *,
        start_at: datetime | None = None,
        most_records: int = MOST_RECORDS,
    ) -> None:
        """Take a lease, the member that names the stream, and the time of a lease that begins AT_TIMESTAMP."""
        self._name_member, self._shard_id, self._start_at = name_member, lease.key, start_at
        self._most_records = most_records
        checkpoint = lease.checkpoint
        after = (checkpoint.sequence_number, checkpoint.sub_sequence_number)
        self.unpack = Unpacker(shard_of(lease), after if checkpoint.is_number else None)
        # An aggregate may have been processed in part: it is read again, and what was processed is dropped.
        self._position = _position(checkpoint, start_at)
        self._iterator: str | None = None

    def fetch(self, wire: Wire) -> Page:
        """Return the next page. Raises ServiceError, WireError; the next call goes on where this one stood."""
        if self._iterator is None:
            request = {**self._name_member, "ShardId": self._shard_id, **self._position}
            answer: dict[str, Any] = json.loads(
                wire.call("GetShardIterator", json.dumps(request).encode())
            )
            self._iterator = str(answer["ShardIterator"])
        request = {"ShardIterator": self._iterator, "Limit": self._most_records}
        try:
            page = page_of(wire.call("GetRecords", json.dumps(request).encode()), self.unpack)
        except ServiceError as error:
            if error.code == "ExpiredIteratorException":
                self._iterator = None
                return self.fetch(wire)
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise WireError("the answer to GetRecords cannot be read") from error
        if page.last is not None:
            self._position = _after(page.last)
        self._iterator = page.next_iterator
        return page

    def close(self) -> None:
        """There is nothing to close: the wire is the fetching thread's."""


def _after(sequence_number: str) -> dict[str, Any]:
    return {
        "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
        "StartingSequenceNumber": sequence_number,
    }


def _position(checkpoint: Checkpoint, start_at: datetime | None) -> dict[str, Any]:
    number = checkpoint.sequence_number
    if checkpoint.is_number:
        return {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": number}
    if number == AT_TIMESTAMP:
        if start_at is None:
            raise ValueError("a lease begins AT_TIMESTAMP, but the group was given no time")
        return {"ShardIteratorType": AT_TIMESTAMP, "Timestamp": start_at.timestamp()}
    return {"ShardIteratorType": number}
