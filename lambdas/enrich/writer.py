"""Writes records with PutRecords: within the API's limits, each key's records in order.

Order: entries go out in the order given, one request at a time, and a request is not sent before the one before it is
wholly written. Within a request Kinesis refuses entries one by one (PutRecords promises no order), so a later entry of
a key may be taken where an earlier one is refused. What is taken cannot be undone: from its first refused entry on,
all that the request holds of that key is sent again, taken or not. So each entry stands in its place once,
and may stand before that too: a reader that lets the last copy of an entry replace the ones before it sees every key in
order. One entry of a key a request would need no copies, and 320 requests for a batch of 500 flights instead of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

# Source: API_PutRecords of Kinesis. Sizes count the data and the partition key.
MAX_ENTRIES = 500
MAX_REQUEST_BYTES = 5 * 1024 * 1024
MAX_RECORD_BYTES = 1024 * 1024
MAX_KEY_CHARACTERS = 256

# Attempts in a row of which none brings a key further. Pauses double from 50 ms: 3.15 s in all, well within the
# function's timeout. No jitter: there is one invocation a shard, and a test can then say exactly when each is made.
ATTEMPTS = 7
FIRST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Entry:
    """One record to write, and `source`: the sequence number of the record that it was made from."""

    source: str
    data: bytes
    partition_key: str

    @property
    def size_bytes(self) -> int:
        """What Kinesis counts of it against its limits."""
        return len(self.data) + len(self.partition_key.encode())


def requests_of(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Cut `entries` into runs that fit a request: at most 500 entries and 5 MiB, in order."""
    request: list[Entry] = []
    size_bytes = 0
    for entry in entries:
        if request and (
            len(request) == MAX_ENTRIES or size_bytes + entry.size_bytes > MAX_REQUEST_BYTES
        ):
            yield request
            request, size_bytes = [], 0
        request.append(entry)
        size_bytes += entry.size_bytes
    if request:
        yield request


def write(
    kinesis: Any, stream: str, entries: Sequence[Entry], *, pause: Callable[[float], None]
) -> list[Entry]:
    """Write `entries` to `stream`; return those that are not written in their place, in order: empty is success.

    Stops at the first request that stays incomplete after the last attempt: what comes behind it will be
    retried with it in any case, and is better not written twice. Raises what the client raises.
    """
    requests = list(requests_of(entries))
    for number, request in enumerate(requests):
        refused = _write_request(kinesis, stream, request, pause)
        if refused:
            return refused + [entry for later in requests[number + 1 :] for entry in later]
    return []


def _write_request(
    kinesis: Any, stream: str, entries: list[Entry], pause: Callable[[float], None]
) -> list[Entry]:
    in_vain = 0
    while True:
        answer = kinesis.put_records(
            StreamName=stream,
            Records=[
                {"Data": entry.data, "PartitionKey": entry.partition_key} for entry in entries
            ],
        )
        if not answer["FailedRecordCount"]:
            return []
        again = _again(entries, answer["Records"])
        in_vain = in_vain + 1 if len(again) == len(entries) else 1
        entries = again
        if in_vain == ATTEMPTS:
            return entries
        pause(FIRST_PAUSE_S * 2 ** (in_vain - 1))


def _again(entries: list[Entry], results: list[dict[str, Any]]) -> list[Entry]:
    """Return what is to be sent again: of each key everything from its first refused entry on."""
    keys: set[str] = set()
    again: list[Entry] = []
    for entry, result in zip(entries, results, strict=True):
        if result.get("ErrorCode"):
            keys.add(entry.partition_key)
        if entry.partition_key in keys:
            again.append(entry)
    return again
