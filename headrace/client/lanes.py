"""Records that wait in a producer, in lanes: one for all of them, or one for each predicted shard. Sans I/O.

A lane keeps the order of its records. Lanes know no lock and no clock: the producer holds its lock and passes the time.

A producer's journal: records that were taken, and which of them are done, so that a crash loses none.

A folder with numbered segments. Each is a sequence of frames: CRC-32 of the rest, length, kind, and, for a record, its
id, keys and data; for an acknowledgement, ids. A segment whose records are all done is removed. A frame that a crash
cut off ends its segment: `put` had not returned for it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import random
import struct
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

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
            for new_lane, moved in self._sort_by_lane(chunks).items():
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
        for lane, chunks in self._sort_by_lane(waiting).items():
            lane.ready.extend(chunks)
            for chunk in chunks:
                self._note(chunk, 1)

    def _sort_by_lane(self, chunks: list[Chunk]) -> dict[Lane, list[Chunk]]:
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


_HEAD = struct.Struct("<IIB")  # CRC-32 of what follows it; bytes of the body; kind
_RECORD_HEAD = struct.Struct("<QH")  # id; bytes of the keys
_RECORD, _DONE = 1, 2
_SEGMENT_BYTES = 64 << 20
_LOG = logging.getLogger("headrace.client")


class SpoolError(Exception):
    """The journal cannot be used: another producer has it, or it is damaged. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class SpooledRecord:
    """A record that is not done."""

    id: int
    data: bytes
    key: str | None
    explicit: str | None


class Spool:
    """A journal in a folder. One producer at a time; the producer's lock guards it.

    Durability: `append` returns when the operating system has the record, or, with `fsync`, the disk.
    """

    def __init__(
        self, folder: Path, *, fsync: bool = False, segment_bytes: int = _SEGMENT_BYTES
    ) -> None:
        """Open or make a journal. Raises SpoolError, OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._fsync, self._segment_bytes = folder, fsync, segment_bytes
        self._lock_file = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock_file.close()
            raise SpoolError(f"another producer uses the spool {folder}") from error
        # By segment: how many of its records are not done; by record: its segment.
        self._undone: dict[int, int] = {}
        self._segment_of: dict[int, int] = {}
        self._pending: list[SpooledRecord] = []
        self._next_id = 0
        self._read()
        self._segment = max(self._undone, default=0)
        self._file: BinaryIO | None = None
        self._bytes = 0

    def pending(self) -> list[SpooledRecord]:
        """Return the records that were not done when the journal was opened, in order; then forget them."""
        pending, self._pending = self._pending, []
        return pending

    def append(self, data: bytes, key: str | None, explicit: str | None, known_id: int = -1) -> int:
        """Note a record, unless it is one of `pending` with `known_id`; return its id. Raises OSError."""
        if known_id >= 0:
            return known_id
        record_id, self._next_id = self._next_id, self._next_id + 1
        keys = json.dumps([key, explicit]).encode()
        self._write(_RECORD, _RECORD_HEAD.pack(record_id, len(keys)) + keys + data)
        self._segment_of[record_id] = self._segment
        self._undone[self._segment] = self._undone.get(self._segment, 0) + 1
        return record_id

    def acknowledge(self, ids: Iterable[int]) -> None:
        """Note that records are done. Raises OSError."""
        done = array("Q", ids)
        self._write(_DONE, done.tobytes())
        for record_id in done:
            segment = self._segment_of.pop(record_id)
            self._undone[segment] -= 1
        self._remove_done()

    def close(self) -> None:
        """Close the journal; another producer may open it. Calling it twice is fine."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock_file.close()

    def _remove_done(self) -> None:
        # In order: a later segment's acknowledgements may be of an earlier one's records.
        for segment in sorted(self._undone):
            if self._undone[segment] or segment == self._segment:
                return
            del self._undone[segment]
            self._path(segment).unlink(missing_ok=True)

    def _write(self, kind: int, body: bytes) -> None:
        if self._file is None or self._bytes > self._segment_bytes:
            self._begin_segment()
        assert self._file is not None
        rest = struct.pack("<IB", len(body), kind) + body
        frame = struct.pack("<I", zlib.crc32(rest)) + rest
        self._file.write(frame)
        self._bytes += len(frame)
        if self._fsync:
            os.fsync(self._file.fileno())

    def _begin_segment(self) -> None:
        if self._file is not None:
            self._file.close()
        self._segment += 1
        self._undone.setdefault(self._segment, 0)
        self._file, self._bytes = self._path(self._segment).open("ab", buffering=0), 0

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:012d}.spool"

    def _read(self) -> None:
        records: dict[int, SpooledRecord] = {}
        for path in sorted(self._folder.glob("*.spool")):
            segment = int(path.stem)
            self._undone[segment] = 0
            for kind, body in _frames(path):
                if kind == _DONE:
                    for record_id in array("Q", body):
                        if records.pop(record_id, None) is not None:
                            self._undone[self._segment_of.pop(record_id)] -= 1
                    continue
                record = _record_of(body)
                records[record.id] = record
                self._segment_of[record.id] = segment
                self._undone[segment] += 1
                self._next_id = max(self._next_id, record.id + 1)
        self._pending = [records[record_id] for record_id in sorted(records)]
        if self._pending:
            _LOG.info("The spool %s has %d records to put", self._folder, len(self._pending))


def _frames(path: Path) -> Iterator[tuple[int, bytes]]:
    content = path.read_bytes()
    at = 0
    while at + _HEAD.size <= len(content):
        crc, length, kind = _HEAD.unpack_from(content, at)
        end = at + _HEAD.size + length
        if end > len(content) or zlib.crc32(content[at + 4 : end]) != crc:
            break
        yield kind, content[at + _HEAD.size : end]
        at = end
    if at < len(content):
        _LOG.warning(
            "The last %d bytes of %s are no whole record; a crash left them",
            len(content) - at,
            path,
        )


def _record_of(body: bytes) -> SpooledRecord:
    record_id, keys_bytes = _RECORD_HEAD.unpack_from(body)
    start = _RECORD_HEAD.size
    key, explicit = json.loads(body[start : start + keys_bytes])
    return SpooledRecord(record_id, body[start + keys_bytes :], key, explicit)
