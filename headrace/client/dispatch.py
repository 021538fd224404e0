"""Decides which records go into the next request, and what its answer means for each of them. Sans I/O.

The producer calls it with its lock held, and passes the time.

The bodies of PutRecords requests, and what their answers say. Standard library only.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.client import cbor
from headrace.client.aggregation import aggregate
from headrace.client.cbor import results_of
from headrace.client.hash_keys import ShardMap, hash_key_of
from headrace.client.lanes import NO_KEY, Lane, Lanes, hash_in, sizes_of
from headrace.client.receipts import Answer, Calls, Chunk, PutError
from headrace.client.wire import NotSent, ServiceError, WireError

MOST_RECORDS = 500
_NONE_FAILED = cbor.text("FailedRecordCount") + cbor.head(cbor.UNSIGNED, 0)
_SHARD_ID = cbor.text("ShardId")
_DATA, _PARTITION_KEY = cbor.text("Data"), cbor.text("PartitionKey")
_REMEMBERED_KEYS = 100_000


@dataclass(slots=True)
class Request:
    """Chunks that are sent together, each with its lane; aggregated, each is one entry, else each record is one.

    Nothing more goes into one that is sealed.
    """

    chunks: list[tuple[Chunk, Lane]]
    aggregated: bool
    entries: int = 0
    bytes_: int = 0
    is_sealed: bool = False


@dataclass(slots=True)
class Outcome:
    """What became of a request: an answer, with each entry's result if any is needed now, or an error."""

    answer: Answer | None = None
    results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    error: ServiceError | WireError | None = None


class _Tails(dict[str | None, bytes]):
    """What follows an entry's data, by partition key; the entry's map ends at its break. Raises UnicodeEncodeError."""

    def __missing__(self, key: str | None) -> bytes:
        if len(self) >= _REMEMBERED_KEYS:
            self.clear()
        tail = self[key] = b"\xff" if key is None else _PARTITION_KEY + cbor.text(key) + b"\xff"
        return tail


class _Heads(dict[int, bytes]):
    """What stands before an entry's data, by the length of the data."""

    def __missing__(self, length: int) -> bytes:
        if len(self) >= _REMEMBERED_KEYS:
            self.clear()
        entry = self[length] = b"\xbf" + _DATA + cbor.head(cbor.BYTES, length)
        return entry


class Bodies:
    """Makes the bodies of requests for one stream, in CBOR. One per thread."""

    def __init__(self, name_member: dict[str, str]) -> None:
        """Take the member that names the stream."""
        names = b"".join(cbor.text(part) for member in name_member.items() for part in member)
        self._head = cbor.head(cbor.MAP, 1 + len(name_member)) + names + cbor.text("Records")
        self._heads, self._tails = _Heads(), _Tails()

    def body_of(self, request: Request, random_keys: list[str] | None) -> bytes:
        """Return a body; records without a key take one of `random_keys`, or, with None, none at all.

        Raises UnicodeEncodeError: a key is not Unicode text.
        """
        data: list[bytes] = []
        tails: list[bytes] = []
        for chunk, _ in request.chunks:
            # A record alone is not packed, as with the KPL: it would grow for nothing, maybe beyond the limit.
            if request.aggregated and len(chunk) > 1:
                data.append(_aggregate_of(chunk))
                tail = self._tails[chunk.keys[0] or NO_KEY]
                tails.append(_with_explicit(tail, _first_hash(chunk)))
                continue
            keys = chunk.keys
            if request.aggregated:
                keys = [key or NO_KEY for key in keys]
            elif random_keys is not None and None in keys:
                keys = [random_keys.pop() if key is None else key for key in keys]
            chunk_tails = list(map(self._tails.__getitem__, keys))
            for index, explicit in (chunk.explicit or {}).items():
                chunk_tails[index] = _with_explicit(chunk_tails[index], explicit)
            data += chunk.data
            tails += chunk_tails
        parts: list[bytes] = [b""] * (3 * len(data))
        parts[::3] = map(self._heads.__getitem__, map(len, data))
        parts[1::3] = data
        parts[2::3] = tails
        return b"".join([self._head, cbor.head(cbor.ARRAY, len(data)), *parts])


def _with_explicit(tail: bytes, hash_key: str) -> bytes:
    return cbor.text("ExplicitHashKey") + cbor.text(hash_key) + tail


def _first_hash(chunk: Chunk) -> str:
    # An aggregate lands where its first record belongs.
    return chunk.explicit_of(0) or str(hash_key_of(chunk.keys[0] or NO_KEY))


def _aggregate_of(chunk: Chunk) -> bytes:
    keys = [key or NO_KEY for key in chunk.keys] if None in chunk.keys else chunk.keys
    return aggregate(keys, chunk.data, chunk.explicit or {})  # pyright: ignore[reportArgumentType]


def outcome_of(body: bytes, count: int, *, with_shards: bool) -> Outcome:
    """Return what an answer says of `count` entries; `with_shards` when their shards are needed now."""
    if not with_shards and _NONE_FAILED in body and body.count(_SHARD_ID) == count:
        return Outcome(answer=Answer(body, count))
    try:
        return Outcome(answer=Answer(body, count), results=results_of(body, count))
    except (ValueError, KeyError, TypeError):
        return Outcome(error=WireError("the answer to PutRecords cannot be read"))


_THROTTLED = frozenset(
    {"ProvisionedThroughputExceededException", "ThrottlingException", "LimitExceededException"}
)
# Refusals of a whole request that one record may have caused.
_INVALID = frozenset({"ValidationException", "InvalidArgumentException", "SerializationException"})
# The producer's own failures, after which a spool keeps the record.
_KEPT = frozenset({"Closed", "InternalFailure"})


@dataclass(slots=True)
class Foreign:
    """An aggregate that was put into another shard than predicted."""

    chunk: Chunk
    lane: Lane
    shard_id: str
    answer: Answer
    place: int


@dataclass(slots=True)
class Settled:
    """What an answer has changed. `sentence` says why records are sent again, if any are."""

    requests: int = 0
    entries: int = 0
    refused: int = 0
    acknowledged: int = 0
    failed: int = 0
    unheard: int = 0
    done_bytes: int = 0
    failed_bytes: int = 0
    throttled: int = 0
    retried: int = 0
    in_foreign_shard: int = 0
    sentence: str = ""
    error: PutError | None = None
    new_shards: set[str] = field(default_factory=set[str])
    foreign: list[Foreign] = field(default_factory=list[Foreign])
    arrived: list[Chunk] = field(default_factory=list[Chunk])
    callbacks: Calls = field(default_factory=Calls)
    done_spool_ids: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """When a request is sent, and when a record that is refused again and again fails (None: never)."""

    linger_s: float
    max_records: int
    max_bytes: int
    give_up_after_s: float | None

    def __post_init__(self) -> None:
        if not 1 <= self.max_records <= MOST_RECORDS:
            raise ValueError(f"max_records is between 1 and {MOST_RECORDS}, not {self.max_records}")
        if self.linger_s < 0:
            raise ValueError("linger_ms is not negative")


class Dispatch:
    """The way of records from the lanes into requests, and from answers to their receipts."""

    def __init__(self, lanes: Lanes, limits: RequestLimits, chance: random.Random) -> None:
        self._lanes, self._limits, self._chance = lanes, limits, chance
        self._turn = 0

    def take(self, now_s: float, *, is_hurried: bool) -> tuple[Request | None, float | None]:
        """Return a request that is due, or else when to look again (None: when called); `is_hurried`: do not linger."""
        lanes = self._lanes
        # Without aggregates, a chunk is a whole request.
        is_full = is_hurried or lanes.ready_bytes >= self._limits.max_bytes
        is_full |= lanes.ready_chunks >= (self._limits.max_records if lanes.aggregated else 1)
        request = Request([], lanes.aggregated)
        wake_s: float | None = None
        # Another lane is the first each time, so that none starves.
        self._turn = (self._turn + 1) % len(lanes.lanes)
        for lane in lanes.lanes[self._turn :] + lanes.lanes[: self._turn]:
            since_s = lane.since_s()
            if since_s is None or (lanes.ordered and (lane.in_flight or lane.blocked_by)):
                continue
            due_s = (
                now_s if is_full and (lane.ready or is_hurried) else since_s + self._limits.linger_s
            )
            due_s = max(due_s, lane.paused_until_s)
            if due_s <= now_s:
                if not lane.ready:
                    lanes.close(lane)
                limit_s = self._take_from(lane, request, now_s)
                if limit_s is None and self._is_full(request):
                    break
                due_s = now_s + self._limits.linger_s if limit_s is None else limit_s
            wake_s = due_s if wake_s is None else min(wake_s, due_s)
        return (request, None) if request.chunks else (None, wake_s)

    def _is_full(self, request: Request) -> bool:
        return (
            request.is_sealed
            or request.entries >= self._limits.max_records
            or request.bytes_ >= self._limits.max_bytes
        )

    def _take_from(self, lane: Lane, request: Request, now_s: float) -> float | None:
        """Move a lane's chunks to a request; return when the lane's rate allows more, or None."""
        lanes = self._lanes
        while lane.ready and not self._is_full(request):
            chunk = lane.ready[0]
            if request.chunks and request.bytes_ + chunk.bytes_ > self._limits.max_bytes:
                request.is_sealed = True
                return None
            if lane is lanes.alone and request.chunks:
                return now_s
            most = (
                1
                if lanes.aggregated
                else min(self._limits.max_records - request.entries, len(chunk))
            )
            if lane.rate is not None:
                sizes = [chunk.bytes_] if lanes.aggregated else sizes_of(chunk)[:most]
                most = lane.rate.take(sizes, now_s)
                if not most:
                    return now_s + lane.rate.wait_s()
            chunk = self._cut(lane, most)
            lane.in_flight += 1
            request.chunks.append((chunk, lane))
            request.entries += 1 if lanes.aggregated else len(chunk)
            request.bytes_ += chunk.bytes_
            request.is_sealed = lane is lanes.alone
            if lanes.ordered:
                return None
        return None

    def _cut(self, lane: Lane, most: int) -> Chunk:
        """Take the first chunk of a lane, or its first `most` records; in order, only the first record of each key."""
        lanes = self._lanes
        chunk = lanes.take(lane)
        if lanes.aggregated:
            return chunk
        first: Sequence[int] = range(most)
        if lanes.ordered:
            keys: dict[str, int] = {}
            for index in range(most):
                keys.setdefault(chunk.explicit_of(index) or chunk.keys[index] or "", index)
            first = sorted(keys.values())
        if len(first) == len(chunk):
            return chunk
        taken = set(first)
        now, later = chunk.part(first, [i for i in range(len(chunk)) if i not in taken])
        lanes.put_back(lane, [later])
        return now

    def settle(self, request: Request, outcome: Outcome, now_s: float) -> Settled:
        """Note what became of a request."""
        settled = Settled(requests=1, entries=request.entries)
        if outcome.answer is None:
            self._settle_refusal(request, outcome, now_s, settled)
        elif outcome.results:
            self._settle_each(request, outcome.answer, outcome.results, now_s, settled)
        else:
            offset = 0
            for chunk, lane in request.chunks:
                lane.failures = 0
                self._acknowledge(
                    chunk, outcome.answer, range(offset, offset + len(chunk)), settled
                )
                offset += len(chunk)
        landed = Counter(lane for _, lane in request.chunks)
        # A foreign aggregate holds its lane up until its records are where they belong.
        landed.subtract(item.lane for item in settled.foreign)
        self._land(landed)
        return settled

    def settle_foreign(self, foreign: list[Foreign], shards: ShardMap) -> Settled:
        """Note which records of aggregates in foreign shards are seen there; the others are sent again.

        A consumer drops a user record whose hash key is not its shard's, as the KCL does: it would be read twice else.
        """
        settled = Settled()
        for item in foreign:
            shard, chunk = shards.by_id(item.shard_id), item.chunk
            hashes = [hash_in(chunk, index) for index in range(len(chunk))]
            seen = [i for i, hash_key in enumerate(hashes) if shard and hash_key in shard]
            unseen = [i for i in range(len(chunk)) if i not in set(seen)]
            if not unseen:
                self._acknowledge(chunk, item.answer, [item.place] * len(chunk), settled)
                continue
            at_home, elsewhere = chunk.part(seen, unseen)
            if seen:
                self._acknowledge(at_home, item.answer, [item.place] * len(seen), settled)
            settled.in_foreign_shard += len(unseen)
            settled.retried += len(unseen)
            self._lanes.repeat(item.lane, [elsewhere])
        self._land(Counter(item.lane for item in foreign))
        return settled

    def _land(self, landed: Counter[Lane]) -> None:
        for lane, count in landed.items():
            lane.in_flight -= count
        for lane in self._lanes.lanes:
            lane.blocked_by = {other for other in lane.blocked_by if other.in_flight}

    def fail(self, chunks: list[Chunk], code: str, message: str) -> Settled:
        """Note that records are not put, and will not be."""
        settled = Settled()
        for chunk in chunks:
            error = PutError(code, message, attempts=chunk.attempts, may_be_there=chunk.is_unsure)
            self._fail(chunk, error, settled)
        return settled

    def _settle_refusal(
        self, request: Request, outcome: Outcome, now_s: float, settled: Settled
    ) -> None:
        error = outcome.error
        settled.sentence = str(error)
        if isinstance(error, ServiceError) and not error.is_passing:
            if error.code in _INVALID and request.entries > 1:
                self._send_alone(request, settled)
                return
            settled.sentence = ""
            failure = PutError(error.code, error.message)
            for chunk, _ in request.chunks:
                self._fail(chunk, failure, settled)
            return
        if isinstance(error, ServiceError) and error.code in _THROTTLED:
            settled.throttled += request.entries
        is_unsure = not isinstance(error, NotSent)
        if isinstance(error, ServiceError):
            is_unsure = error.status >= 500
        for chunk, lane in request.chunks:
            chunk.is_unsure |= is_unsure
            self._repeat(chunk, lane, str(error), now_s, settled)

    def _send_alone(self, request: Request, settled: Settled) -> None:
        alone = self._lanes.alone
        for chunk, _ in request.chunks:
            is_one = request.aggregated or len(chunk) == 1
            parts = [chunk] if is_one else chunk.part(*([index] for index in range(len(chunk))))
            settled.retried += len(parts)
            self._lanes.put_back(alone, parts)

    def _settle_each(
        self,
        request: Request,
        answer: Answer,
        results: list[dict[str, Any]],
        now_s: float,
        settled: Settled,
    ) -> None:
        offset = 0
        for chunk, lane in request.chunks:
            count = 1 if request.aggregated else len(chunk)
            refused = [i for i in range(count) if results[offset + i].get("ErrorCode")]
            settled.refused += len(refused)
            for index in refused:
                result = results[offset + index]
                settled.sentence = f"{result['ErrorCode']}: {result.get('ErrorMessage', '')}"
                settled.throttled += result["ErrorCode"] in _THROTTLED
            if len(refused) == count:
                self._repeat(chunk, lane, settled.sentence, now_s, settled)
            elif request.aggregated:
                self._settle_aggregate(chunk, lane, answer, offset, results[offset], settled)
            elif not refused:
                self._note_shards(results[offset : offset + count], settled)
                lane.failures = 0
                self._acknowledge(chunk, answer, range(offset, offset + count), settled)
            else:
                accepted = [i for i in range(count) if i not in set(refused)]
                good, bad = chunk.part(accepted, refused)
                self._acknowledge(good, answer, [offset + i for i in accepted], settled)
                self._repeat(bad, lane, settled.sentence, now_s, settled)
            offset += count

    def _settle_aggregate(
        self,
        chunk: Chunk,
        lane: Lane,
        answer: Answer,
        index: int,
        result: dict[str, Any],
        settled: Settled,
    ) -> None:
        lane.failures = 0
        if lane.shard is not None and result["ShardId"] != lane.shard.shard_id:
            settled.foreign.append(Foreign(chunk, lane, str(result["ShardId"]), answer, index))
        else:
            self._acknowledge(chunk, answer, [index] * len(chunk), settled)

    def _note_shards(self, results: list[dict[str, Any]], settled: Settled) -> None:
        """Note shards that the map does not know: there was a reshard, and the lanes are old."""
        shards = self._lanes.map
        if shards is not None:
            ids = {str(result["ShardId"]) for result in results}
            settled.new_shards |= {shard_id for shard_id in ids if shards.by_id(shard_id) is None}

    def _repeat(
        self, chunk: Chunk, lane: Lane, reason: str, now_s: float, settled: Settled
    ) -> None:
        """Send a chunk again, after a pause, or fail it if it is too old."""
        chunk.attempts += 1
        if (
            self._limits.give_up_after_s is not None
            and now_s - chunk.put_s >= self._limits.give_up_after_s
        ):
            error = PutError(
                "RecordExpired",
                f"the record was tried {chunk.attempts} times: {reason}",
                reason=reason,
                attempts=chunk.attempts,
                may_be_there=chunk.is_unsure,
            )
            self._fail(chunk, error, settled)
            return
        settled.retried += len(chunk)
        repeated = lane if self._lanes.by_shard or lane is self._lanes.alone else self._lanes.again
        repeated.back_off(now_s, self._chance)
        self._lanes.repeat(lane, [chunk])

    def _acknowledge(
        self, chunk: Chunk, answer: Answer, places: Sequence[int], settled: Settled
    ) -> None:
        # In this order: a receipt looks for the answer without the lock.
        chunk.places, chunk.answer = places, answer
        settled.acknowledged += len(chunk)
        settled.arrived.append(chunk)
        self._note_done(chunk, settled)
        settled.done_spool_ids += chunk.spool_ids or ()

    def _fail(self, chunk: Chunk, error: PutError, settled: Settled) -> None:
        chunk.error = settled.error = error
        settled.failed += len(chunk)
        settled.failed_bytes += chunk.bytes_
        settled.unheard += len(chunk) - len(chunk.callbacks or ())
        self._note_done(chunk, settled)
        # Its error was told, or is in `flush`: a record that Kinesis refuses would come back for ever.
        if error.code not in _KEPT:
            settled.done_spool_ids += chunk.spool_ids or ()

    def _note_done(self, chunk: Chunk, settled: Settled) -> None:
        settled.done_bytes += chunk.bytes_
        for callbacks in (chunk.callbacks or {}).values():
            settled.callbacks += callbacks
