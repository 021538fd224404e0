"""Writes records with PutRecords, within the API's limits, and with each key's records strictly in order.

Within a request Kinesis accepts or refuses each record separately: it may accept a later record of a key and refuse an
earlier one. So a request holds at most one record of a key, and the key's next record follows only after that one is
accepted; other keys continue meanwhile. A batch of 500 flights may have 320 of one carrier, which would need 320
requests: therefore a key's entries are aggregated into records that Kinesis accepts or refuses whole (`aggregation`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aggregation import EACH_BYTES, WHOLE_BYTES, aggregated

# Source: API_PutRecords of Kinesis. Sizes count the data and the partition key.
MAX_ENTRIES = 500
MAX_REQUEST_BYTES = 5 * 1024 * 1024
MAX_RECORD_BYTES = 1024 * 1024
MAX_KEY_CHARACTERS = 256
# A quarter of a shard's write limit per second: beside other writers, larger records would often be refused.
MAX_PACKED_BYTES = 256 * 1024

# Requests in a row from which Kinesis accepts nothing. Pauses double from 50 ms: 3.15 s in all, well within the
# function's timeout. No jitter: each shard has one invocation, and tests can predict each request's time.
ATTEMPTS = 7
FIRST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Entry:
    """One event to write, and `source`: the sequence number of its input record."""

    source: str
    data: bytes
    partition_key: str

    @property
    def size_bytes(self) -> int:
        """The size that counts against the limits of Kinesis."""
        return len(self.data) + len(self.partition_key.encode())


@dataclass(frozen=True, slots=True)
class Record:
    """One Kinesis record: some entries of a key, in order; one entry alone is written as it is."""

    entries: tuple[Entry, ...]
    data: bytes

    @property
    def partition_key(self) -> str:
        """The partition key of all its entries."""
        return self.entries[0].partition_key

    @property
    def size_bytes(self) -> int:
        """The size that counts against the limits of Kinesis."""
        return len(self.data) + len(self.partition_key.encode())


def records_of(entries: Sequence[Entry]) -> dict[str, deque[Record]]:
    """Pack `entries` into records: by key, in order."""
    runs: dict[str, list[list[Entry]]] = {}
    sizes_bytes: dict[str, int] = {}
    for entry in entries:
        key, size_bytes = entry.partition_key, len(entry.data) + EACH_BYTES
        if key not in runs or sizes_bytes[key] + size_bytes > MAX_PACKED_BYTES:
            runs.setdefault(key, []).append([])
            sizes_bytes[key] = entry.size_bytes + WHOLE_BYTES
        runs[key][-1].append(entry)
        sizes_bytes[key] += size_bytes
    return {key: deque(_record(run) for run in of_key) for key, of_key in runs.items()}


def _record(run: list[Entry]) -> Record:
    data = [entry.data for entry in run]
    return Record(tuple(run), data[0] if len(run) == 1 else aggregated(run[0].partition_key, data))


def next_request(waiting: Mapping[str, deque[Record]]) -> list[Record]:
    """Return the first waiting record of each key, for as many keys as fit into a request: at most 500, and 5 MiB."""
    request: list[Record] = []
    size_bytes = 0
    for records in waiting.values():
        size_bytes += records[0].size_bytes
        if len(request) == MAX_ENTRIES or size_bytes > MAX_REQUEST_BYTES:
            break
        request.append(records[0])
    return request


def write(
    kinesis: Any, stream: str, entries: Sequence[Entry], *, pause: Callable[[float], None]
) -> list[Entry]:
    """Write `entries` to `stream`; return the entries that were not written, in the given order.

    Gives up when Kinesis has accepted nothing from several requests in a row. The client's exceptions go to the caller.
    """
    waiting = records_of(entries)
    in_vain = 0
    while waiting:
        request = next_request(waiting)
        refused = _put(kinesis, stream, request)
        for record in request:
            if record.partition_key not in refused:
                _take(waiting, record.partition_key)
        if not refused:
            in_vain = 0
            continue
        in_vain = in_vain + 1 if len(refused) == len(request) else 1
        if in_vain == ATTEMPTS:
            break
        pause(FIRST_PAUSE_S * 2 ** (in_vain - 1))
    unwritten = {e.source for records in waiting.values() for r in records for e in r.entries}
    return [entry for entry in entries if entry.source in unwritten]


def _put(kinesis: Any, stream: str, request: list[Record]) -> set[str]:
    """Send a request, and return the keys whose record Kinesis refused."""
    answer = kinesis.put_records(
        StreamName=stream,
        Records=[{"Data": entry.data, "PartitionKey": entry.partition_key} for entry in request],
    )
    results = zip(request, answer["Records"], strict=True)
    return {record.partition_key for record, result in results if result.get("ErrorCode")}


def _take(waiting: dict[str, deque[Record]], key: str) -> None:
    """Remove a key's first record, which has been written."""
    waiting[key].popleft()
    if not waiting[key]:
        del waiting[key]
