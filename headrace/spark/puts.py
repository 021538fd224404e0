"""Chooses the records of one PutRecords request, and sends requests until no record waits."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

MOST_RECORDS = 500  # documented: API_PutRecords
MOST_BYTES = 5 * 1024 * 1024  # documented: API_PutRecords, partition keys included
_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 2.0


class WriteFailed(Exception):
    """Kinesis has not taken a record within its time to live."""


@dataclass(frozen=True)
class Put:
    """A record to write. `place` is its number in the task, from 0."""

    place: int
    data: bytes
    key: str
    hash_key: str | None = None

    @property
    def size(self) -> int:
        """What the record counts for in a request, in bytes."""
        return len(self.data) + len(self.key.encode())

    @property
    def lane(self) -> tuple[str, str | None]:
        """What must keep its order: the key, or the key in the part of the stream that the hash key chooses."""
        return self.key, self.hash_key

    def entry(self) -> dict[str, str]:
        """Return the request's entry."""
        entry = {"Data": b64encode(self.data).decode(), "PartitionKey": self.key}
        return entry if self.hash_key is None else entry | {"ExplicitHashKey": self.hash_key}


@dataclass
class Written:
    """What a task has written: records and their bytes, and how many were sent again."""

    records: int = 0
    bytes: int = 0
    retried: int = 0


def take(waiting: Iterable[Put], *, ordered: bool) -> tuple[list[Put], list[Put]]:
    """Return the next request's records, and those that wait on, both in their order.

    Kinesis may refuse any record of a request and store a later one. So, where order matters, a request has a key
    once, and what follows waits until that one is stored.
    """
    taken: list[Put] = []
    left: list[Put] = []
    lanes: set[tuple[str, str | None]] = set()
    size = 0
    full = False
    for put in waiting:
        full = full or len(taken) == MOST_RECORDS or bool(taken and size + put.size > MOST_BYTES)
        if full or (ordered and put.lane in lanes):
            left.append(put)
            continue
        taken.append(put)
        size += put.size
        lanes.add(put.lane)
    return taken, left


class Sender:
    """Sends one task's records. Used by one thread.

    Args:
        put_records: sends a request's body, and returns the answer's entries.
        stream: the stream's name.
        ordered: whether a key's records keep their order.
        ttl_s: how long a refused record is tried again.
        clock_s: a clock that only goes forward.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        put_records: Callable[[bytes], list[dict[str, Any]]],
        stream: str,
        *,
        ordered: bool,
        ttl_s: float,
        clock_s: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._put_records = put_records
        self._stream = stream
        self._ordered = ordered
        self._ttl_s = ttl_s
        self._clock_s = clock_s
        self._sleep = sleep
        self._backoff_s = _FIRST_BACKOFF_S
        self._refused_s: dict[int, float] = {}
        self.written = Written()

    def send(self, puts: Iterable[Put], *, keep: int = 0) -> list[Put]:
        """Write records until no more than `keep` wait; return those. Raises WriteFailed, KinesisError."""
        waiting = list(puts)
        while len(waiting) > keep:
            request, waiting = take(waiting, ordered=self._ordered)
            waiting = self._sent(request) + waiting
        return waiting

    def _sent(self, request: list[Put]) -> list[Put]:
        """Send one request; return the records to send again."""
        body = {"StreamName": self._stream, "Records": [put.entry() for put in request]}
        answers = self._put_records(json.dumps(body).encode())
        again: list[Put] = []
        for put, answer in zip(request, answers):
            if answer.get("ErrorCode"):
                self._refuse(put, answer)
                again.append(put)
            else:
                self.written.records += 1
                self.written.bytes += put.size
                self._refused_s.pop(put.place, None)
        if not again:
            self._backoff_s = _FIRST_BACKOFF_S
            return again
        self.written.retried += len(again)
        if len(again) * 2 <= len(request):
            # One shard is hot; the others go on meanwhile.
            self._backoff_s = _FIRST_BACKOFF_S
        self._sleep(self._backoff_s)
        self._backoff_s = min(self._backoff_s * 2, _LONGEST_BACKOFF_S)
        return again

    def _refuse(self, put: Put, answer: dict[str, Any]) -> None:
        since_s = self._refused_s.setdefault(put.place, self._clock_s())
        if self._clock_s() - since_s >= self._ttl_s:
            raise WriteFailed(
                f"Stream {self._stream} has refused a record for {self._ttl_s:g} s (kinesis.sink.recordTtl): "
                f"{answer['ErrorCode']}: {answer.get('ErrorMessage', '')}"
            )
