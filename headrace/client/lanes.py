"""Records that wait in a producer, in lanes: one for all of them, or one for each predicted shard. Sans I/O.

A lane keeps the order of its records. Lanes know no lock and no clock: the producer holds its lock and passes the time.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Final

from headrace.client.hash_keys import ShardMap, ShardRange, hash_key_of
from headrace.client.receipts import Chunk, Owner, size_of

# What a shard takes per second (https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html).
SHARD_RECORDS_PER_S: Final = 1000
SHARD_BYTES_PER_S: Final = 1 << 20
# The key of a record that was put without one, in an aggregate: its explicit hash key places it.
NO_KEY: Final = "a"
_LONGEST_BACKOFF_S: Final = 5.0
_FIRST_BACKOFF_S: Final = 0.05
_REMEMBERED_KEYS: Final = 100_000
# What protobuf adds to a user record: tags, lengths, indexes.
_OVERHEAD_BYTES: Final = 12


def hash_in(chunk: Chunk, index: int) -> int:
    """Return the hash key that places a record."""
    explicit = chunk.explicit_of(index)
    return hash_key_of(chunk.keys[index] or NO_KEY) if explicit is None else int(explicit)


class Rate:
    """A shard's allowance: tokens of records and bytes that come back with time, up to those of one second."""

    def __init__(self, share: float) -> None:
        """Allow `share` of AWS's quota of a shard; 1.0 is all of it."""
        self._records_per_s = SHARD_RECORDS_PER_S * share
        self._bytes_per_s = SHARD_BYTES_PER_S * share
        self._records, self._bytes, self._at_s = self._records_per_s, self._bytes_per_s, 0.0

    def take(self, sizes_bytes: list[int], now_s: float) -> int:
        """Take the tokens of entries as far as they go; return of how many. A large entry takes from later ones."""
        passed_s, self._at_s = max(0.0, now_s - self._at_s), now_s
        self._records = min(self._records_per_s, self._records + passed_s * self._records_per_s)
        self._bytes = min(self._bytes_per_s, self._bytes + passed_s * self._bytes_per_s)
        taken = 0
        while taken < len(sizes_bytes) and self._records >= 1 and self._bytes > 0:
            self._records -= 1
            self._bytes -= sizes_bytes[taken]
            taken += 1
        return taken

    def wait_s(self) -> float:
        """Return how long it takes until `take` may succeed."""
        by_records_s = (1 - self._records) / self._records_per_s
        return max(by_records_s, -self._bytes / self._bytes_per_s, 0.001)


class Lane:
    """Records in order: chunks that are closed, and then the open one, which records are still added to."""

    __slots__ = (
        "blocked_by", "failures", "in_flight", "open", "paused_until_s", "rate", "ready", "shard",
    )  # fmt: skip

    def __init__(self, shard: ShardRange | None, rate: Rate | None = None) -> None:
        self.shard, self.rate = shard, rate
        self.open: Chunk | None = None
        self.ready: deque[Chunk] = deque()
        self.paused_until_s = 0.0
        self.failures = self.in_flight = 0
        # After a reshard: the lanes whose requests in progress have records that come before this lane's.
        self.blocked_by: set[Lane] = set()

    def since_s(self) -> float | None:
        """Return when the oldest record came; None when there is none."""
        if self.ready:
            return self.ready[0].put_s
        return None if self.open is None else self.open.put_s

    def back_off(self, now_s: float, chance: random.Random) -> None:
        """Pause after a throttled or failed attempt, longer each time."""
        self.failures += 1
        longest_s = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** min(self.failures - 1, 10))
        self.paused_until_s = now_s + longest_s * (0.5 + chance.random() / 2)

    def chunks(self) -> list[Chunk]:
        """Return what waits, in order."""
        return [*self.ready, *(() if self.open is None else (self.open,))]


class Lanes:
    """All lanes of a producer."""

    def __init__(
        self,
        *,
        aggregated: bool,
        ordered: bool,
        rate_share: float | None,
        most_records: int,
        most_bytes: int,
    ) -> None:
        """Take the kind of lanes, and when a chunk (aggregated: an aggregate, else a request) is full."""
        self.aggregated, self.ordered = aggregated, ordered
        self._rate_share, self.most_records, self._most_bytes = rate_share, most_records, most_bytes
        self.overhead_bytes = _OVERHEAD_BYTES if aggregated else 0
        self.by_shard = aggregated or ordered or rate_share is not None
        self.map: ShardMap | None = None
        # Keys in ASCII alone: their characters are their bytes.
        self.of_key: dict[str, Lane] = {}
        self._of_shard: dict[str, Lane] = {}
        # Without lanes by shard: all records; and those to be sent again, so that they hold up no others.
        self.all, self.again = Lane(None), Lane(None)
        # Records that are sent in requests of their own: one of them made AWS refuse a whole request.
        self.alone = Lane(None)
        self.lanes: list[Lane] = [self.all, self.again, self.alone]
        self.ready_bytes = self.ready_chunks = self.ready_records = 0
        self._next_auto = 0

    def lane_for(self, key: str | None, explicit: str | None) -> tuple[Lane, str | None]:
        """Return the lane of a record, and its explicit hash key: one without any key gets a place of a shard's."""
        if not self.by_shard:
            return self.all, explicit
        shards = self._shards()
        if explicit is not None:
            return self._lane(shards.shard_of_hash(int(explicit))), explicit
        if key is not None:
            lane = self.of_key.get(key)
            if lane is None:
                lane = self._lane(shards.shard_of_key(key))
                if len(self.of_key) > _REMEMBERED_KEYS:
                    self.of_key.clear()
                if key.isascii():
                    self.of_key[key] = lane
            return lane, None
        # One chunk after the other, each for the next shard.
        shard = shards.shards[self._next_auto % len(shards)]
        lane = self._lane(shard)
        if lane.open is None:
            self._next_auto += 1
            lane = self._lane(shards.shards[self._next_auto % len(shards)])
        assert lane.shard is not None
        return lane, str((lane.shard.start + lane.shard.end) // 2)

    def open_chunk(self, lane: Lane, owner: Owner, now_s: float) -> Chunk:
        """Close a lane's open chunk, if there is one, and open another."""
        self.close(lane)
        lane.open = Chunk(owner, now_s, self._most_bytes)
        return lane.open

    def close(self, lane: Lane) -> None:
        """Close a lane's open chunk, if there is one."""
        chunk, lane.open = lane.open, None
        if chunk is not None:
            chunk.bytes_ = self._most_bytes - chunk.room
            lane.ready.append(chunk)
            self._note(chunk, 1)

    def take(self, lane: Lane) -> Chunk:
        """Remove and return a lane's first closed chunk."""
        chunk = lane.ready.popleft()
        self._note(chunk, -1)
        return chunk

    def put_back(self, lane: Lane, chunks: list[Chunk]) -> None:
        """Put chunks before all others of a lane, in their order."""
        lane.ready.extendleft(reversed(chunks))
        for chunk in chunks:
            self._note(chunk, 1)

    def repeat(self, lane: Lane, chunks: list[Chunk]) -> None:
        """Take chunks of `lane` again, before what waits there; after a reshard, each record in its new lane."""
        if not self.by_shard:
            self.put_back(self.again, chunks)
        elif lane is self.alone or self._is_current(lane):
            self.put_back(lane, chunks)
        else:
            for new_lane, moved in self._sorted(chunks).items():
                self.put_back(new_lane, moved)

    def use_map(self, shards: ShardMap) -> None:
        """Take a new map of shards: records that wait go to the lanes of their shards, each key in its order."""
        old, self.map = list(self._of_shard.values()), shards
        self.of_key.clear()
        waiting: list[Chunk] = []
        for lane in old:
            self.close(lane)
            while lane.ready:
                waiting.append(self.take(lane))
        self._of_shard = {
            lane.shard.shard_id: lane
            for lane in old
            if lane.shard is not None and shards.by_id(lane.shard.shard_id) is not None
        }
        self.lanes = [self.all, self.again, self.alone, *self._of_shard.values()]
        for shard in shards.shards:
            self._lane(shard).blocked_by |= {
                lane
                for lane in old
                if lane.in_flight and lane.shard is not None and lane.shard is not shard
                and lane.shard.start <= shard.end and shard.start <= lane.shard.end
                and lane is not self._of_shard.get(shard.shard_id)
            }  # fmt: skip
        for lane, chunks in self._sorted(waiting).items():
            lane.ready.extend(chunks)
            for chunk in chunks:
                self._note(chunk, 1)

    def _sorted(self, chunks: list[Chunk]) -> dict[Lane, list[Chunk]]:
        """Part chunks by the lanes that their records belong to now; those whose records stay together stay whole."""
        by_lane: dict[Lane, list[Chunk]] = {}
        for chunk in chunks:
            places: dict[Lane, list[int]] = {}
            for index, key in enumerate(chunk.keys):
                lane, explicit = self.lane_for(key, chunk.explicit_of(index))
                if explicit is not None:
                    chunk.explicit = {**(chunk.explicit or {}), index: explicit}
                places.setdefault(lane, []).append(index)
            parts = [chunk] if len(places) == 1 else chunk.part(*places.values())
            for lane, part in zip(places, parts, strict=True):
                by_lane.setdefault(lane, []).append(part)
        return by_lane

    def _note(self, chunk: Chunk, sign: int) -> None:
        self.ready_chunks += sign
        self.ready_bytes += sign * chunk.bytes_
        self.ready_records += sign * len(chunk)

    def _shards(self) -> ShardMap:
        if self.map is None:
            raise RuntimeError("the map of shards is not loaded")
        return self.map

    def _lane(self, shard: ShardRange) -> Lane:
        lane = self._of_shard.get(shard.shard_id)
        if lane is None:
            rate = None if self._rate_share is None else Rate(self._rate_share)
            lane = self._of_shard[shard.shard_id] = Lane(shard, rate)
            self.lanes.append(lane)
        return lane

    def _is_current(self, lane: Lane) -> bool:
        return lane.shard is not None and self._of_shard.get(lane.shard.shard_id) is lane


def sizes_of(chunk: Chunk) -> list[int]:
    """Return the bytes of each record of a chunk."""
    return [size_of(data, key) for data, key in zip(chunk.data, chunk.keys, strict=True)]
