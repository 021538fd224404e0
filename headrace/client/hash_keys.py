"""Hash keys of partition keys, and the map that predicts the shard of a record. Standard library only."""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

HASH_KEYS = 1 << 128

_md5 = hashlib.md5


def hash_key_of(partition_key: str) -> int:
    """Return the hash key by which Kinesis places a partition key: the MD5 of its UTF-8 bytes, as an integer."""
    return int.from_bytes(_md5(partition_key.encode(), usedforsecurity=False).digest(), "big")


def random_key(chance: random.Random) -> str:
    """Return a partition key that puts a record into any shard with equal probability per hash key."""
    return f"{chance.getrandbits(64):016x}"


@dataclass(frozen=True, slots=True)
class ShardRange:
    """A shard and its hash keys, from `start` to `end`, both included."""

    shard_id: str
    start: int
    end: int
    parents: tuple[str, ...] = ()

    @classmethod
    def of(cls, shard: Mapping[str, Any]) -> ShardRange:
        """Return the range of a shard as ListShards and GetRecords (`ChildShards`) name it."""
        hash_keys = shard["HashKeyRange"]
        parents: Iterable[str] = shard.get("ParentShards") or [
            shard[name] for name in ("ParentShardId", "AdjacentParentShardId") if shard.get(name)
        ]
        start, end = int(hash_keys["StartingHashKey"]), int(hash_keys["EndingHashKey"])
        return cls(str(shard["ShardId"]), start, end, tuple(parents))

    def __contains__(self, hash_key: int) -> bool:
        return self.start <= hash_key <= self.end


class ShardMap:
    """The open shards of a stream by their hash keys. Immutable."""

    def __init__(self, shards: Iterable[ShardRange]) -> None:
        """Take open shards. Of two that overlap (a reshard between two pages), the later id wins at its start."""
        self.shards = tuple(sorted(shards, key=lambda shard: (shard.start, shard.shard_id)))
        if not self.shards:
            raise ValueError("a stream has at least one open shard")
        self._starts = [shard.start for shard in self.shards]
        self._by_id = {shard.shard_id: shard for shard in self.shards}

    @property
    def newest_id(self) -> str:
        """The id of the shard that was made last."""
        return max(self._by_id)

    def __len__(self) -> int:
        return len(self.shards)

    def by_id(self, shard_id: str) -> ShardRange | None:
        """Return an open shard by its id, or None."""
        return self._by_id.get(shard_id)

    def shard_of_hash(self, hash_key: int) -> ShardRange:
        """Return the shard that has a hash key."""
        return self.shards[max(0, bisect_right(self._starts, hash_key) - 1)]

    def shard_of_key(self, partition_key: str) -> ShardRange:
        """Return the shard that has a partition key."""
        return self.shard_of_hash(hash_key_of(partition_key))
