"""Hash keys of partition keys, and the map that predicts the shard of a record. Standard library only.

Salts partition keys: a key that is too much for one shard is put under several names. Standard library only.

What a stream is: its name, its shards, how it places records. Calls through botocore, which retries them.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import random
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client.access import AwsAccess

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


_SEPARATOR = "#"


class Salt:
    """Gives keys suffixes `#0`, `#1` and so on, in turn. Thread-safe.

        salt = Salt(8, {"customer-7"})
        producer.put(data, key=salt("customer-7"))

    Records keep their order under each salted key, and not over them: use it where a key's order does not matter, or
    where the consumer restores it. `Salt.original` gives the key back.
    """

    def __init__(self, ways: int, keys: Collection[str] | None = None) -> None:
        """Take under how many names a key is put, and which keys (None: all). Raises ValueError below two ways."""
        if ways < 2:
            raise ValueError(f"a salt has at least two ways, not {ways}")
        self._ways, self._keys = ways, None if keys is None else frozenset(keys)
        self._turn = itertools.count()

    def __call__(self, key: str) -> str:
        """Return the key to put a record under."""
        if self._keys is not None and key not in self._keys:
            return key
        return f"{key}{_SEPARATOR}{next(self._turn) % self._ways}"

    def original(self, key: str) -> str:
        """Return the key without its salt; one that this salt does not make comes back as it is."""
        base, separator, turn = key.rpartition(_SEPARATOR)
        is_salted = separator and turn.isdecimal() and int(turn) < self._ways
        return base if is_salted and (self._keys is None or base in self._keys) else key


_LOG = logging.getLogger("headrace.client")


def name_member(stream: str) -> dict[str, str]:
    """Return the member of a request that names a stream, for its name or ARN."""
    return {"StreamARN": stream} if stream.startswith("arn:") else {"StreamName": stream}


def list_all_shards(client: Any, **request: Any) -> list[dict[str, Any]]:
    """Return the shards of all pages of ListShards, by a client of boto3. Raises botocore's errors."""
    answer: dict[str, Any] = client.list_shards(**request)
    shards: list[dict[str, Any]] = list(answer["Shards"])
    while answer.get("NextToken"):
        answer = client.list_shards(NextToken=answer["NextToken"])
        shards += answer["Shards"]
    return shards


class Streams:
    """One stream. Thread-safe."""

    def __init__(self, access: AwsAccess, stream: str) -> None:
        """Take a stream's name or ARN. This sends nothing."""
        self._access = access
        self.name_member = name_member(stream)

    def shards(self, shard_filter: dict[str, Any] | None = None) -> list[ShardRange]:
        """Return the shards that ListShards names, by id. Raises botocore's errors."""
        client = self._access.client("kinesis")
        request: dict[str, Any] = dict(self.name_member)
        if shard_filter is not None:
            request["ShardFilter"] = shard_filter
        shards = map(ShardRange.of, list_all_shards(client, **request))
        return sorted(shards, key=lambda shard: shard.shard_id)

    def open_shards(self) -> list[ShardRange]:
        """Return the shards that take records. Raises botocore's errors."""
        return self.shards({"Type": "AT_LATEST"})

    def summary(self) -> dict[str, Any]:
        """Return the description of DescribeStreamSummary. Raises botocore's errors."""
        answer = self._access.client("kinesis").describe_stream_summary(**self.name_member)
        return answer["StreamDescriptionSummary"]

    def places_records_itself(self) -> bool:
        """Whether records need no key: the stream's strategy is AUTO. A caller who may not ask gets False."""
        try:
            return self.summary().get("RecordDistributionStrategy") == "AUTO"
        except Exception as error:  # noqa: BLE001 - botocore's errors have no common base; keys are right in any case
            _LOG.info("Records get random keys, because the stream cannot be described: %s", error)
            return False
