"""A query's offset in a stream, which Spark stores as JSON in the checkpoint.

    {"v": 1, "stream": "flights", "init": {"type": "TRIM_HORIZON"},
     "shards": {"shardId-000000000000":
         {"type": "AFTER_SEQUENCE_NUMBER", "value": "4959…", "count": 120, "arrival": 1…}}}

A shard that is not listed is at `init`. `count` is the number of the shard's records read so far: the difference of two
offsets is the number of records between them, which a replay must find again. `arrival` is the last one's arrival time
in epoch milliseconds. SHARD_END has both too, for a replay of the batch that ended the shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

VERSION = 1


class InvalidOffset(ValueError):
    """The checkpoint's offset is not from this source, or is for another stream."""


@dataclass(frozen=True)
class TrimHorizon:
    """The oldest record that retention has kept."""


@dataclass(frozen=True)
class Latest:
    """The end of the stream when the query starts. An empty first batch replaces it by an `AtTimestamp`."""


@dataclass(frozen=True)
class AtTimestamp:
    """The first record that arrived at or after an epoch time in milliseconds."""

    timestamp_ms: int


@dataclass(frozen=True)
class AtSequenceNumber:
    """One record of one shard, or (`after`) the next one."""

    sequence_number: str
    after: bool = False


Position = Union[TrimHorizon, Latest, AtTimestamp, AtSequenceNumber]


@dataclass(frozen=True)
class ShardPositions:
    """A position for each listed shard, and one for all others, including future ones."""

    shards: tuple[tuple[str, Position], ...]
    others: Position


Init = Union[Position, ShardPositions]


def position_of(init: Init, shard_id: str) -> Position:
    """Return the starting position of a shard."""
    if not isinstance(init, ShardPositions):
        return init
    return dict(init.shards).get(shard_id, init.others)


def has_latest(init: Init) -> bool:
    """Return whether a position depends on the time of its evaluation."""
    if isinstance(init, ShardPositions):
        return any(has_latest(position) for position in (init.others, *dict(init.shards).values()))
    return isinstance(init, Latest)


def pinned(init: Init, now_ms: int) -> Init:
    """Return `init` with LATEST replaced by a time in epoch milliseconds."""
    if isinstance(init, ShardPositions):
        shards = tuple((name, _pin_position(position, now_ms)) for name, position in init.shards)
        return ShardPositions(shards, _pin_position(init.others, now_ms))
    return _pin_position(init, now_ms)


def _pin_position(position: Position, now_ms: int) -> Position:
    return AtTimestamp(now_ms) if isinstance(position, Latest) else position


@dataclass(frozen=True)
class ShardOffset:
    """How far a shard has been read: to `sequence_number` (None: no record, only for an ended shard).

    `read_ms` is when all records of the shard had been read (epoch milliseconds), where that is known.
    """

    sequence_number: str | None
    count: int
    arrival_ms: int
    ended: bool = False
    read_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value for an offset."""
        return _shard_to_json(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ShardOffset:
        """Return what `to_json` wrote."""
        return _shard_from_json(value)


@dataclass(frozen=True)
class Offset:
    """How far a stream has been read."""

    stream: str
    init: Init
    shards: Mapping[str, ShardOffset] = field(default_factory=dict[str, ShardOffset])

    def count(self, shard_id: str) -> int:
        """Return how many records of a shard have been read."""
        shard = self.shards.get(shard_id)
        return 0 if shard is None else shard.count

    def reaches(self, other: Offset) -> bool:
        """Return whether this offset is at or beyond `other`; it may lack shards that `other` has ended."""
        return all(
            shard.count >= other.count(name) and shard.ended >= other.ended(name)
            for name, shard in self.shards.items()
        ) and not any(
            name not in self.shards and not shard.ended for name, shard in other.shards.items()
        )

    def ended(self, shard_id: str) -> bool:
        """Return whether a shard has been read to its end."""
        shard = self.shards.get(shard_id)
        return shard is not None and shard.ended

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value for Spark to store."""
        return {
            "v": VERSION,
            "stream": self.stream,
            "init": init_to_json(self.init),
            "shards": {name: _shard_to_json(shard) for name, shard in sorted(self.shards.items())},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], stream: str) -> Offset:
        """Return the offset that `to_json` wrote. Raises InvalidOffset when it is not for `stream`."""
        if value.get("v") != VERSION:
            raise InvalidOffset(
                f"The checkpoint's offset has version {value.get('v')!r}; this source writes version {VERSION}."
            )
        if value.get("stream") != stream:
            raise InvalidOffset(
                f"The checkpoint is of stream {value.get('stream')!r}, and the query reads {stream!r}: "
                "use another checkpoint for another stream."
            )
        shards = {str(name): _shard_from_json(shard) for name, shard in value["shards"].items()}
        return cls(stream, init_from_json(value["init"]), shards)


def init_to_json(init: Init) -> dict[str, Any]:
    """Return a starting position as JSON."""
    if isinstance(init, TrimHorizon):
        return {"type": "TRIM_HORIZON"}
    if isinstance(init, Latest):
        return {"type": "LATEST"}
    if isinstance(init, AtTimestamp):
        return {"type": "AT_TIMESTAMP", "value": init.timestamp_ms}
    if isinstance(init, AtSequenceNumber):
        kind = "AFTER_SEQUENCE_NUMBER" if init.after else "AT_SEQUENCE_NUMBER"
        return {"type": kind, "value": init.sequence_number}
    named = {name: init_to_json(position) for name, position in init.shards}
    return {"type": "PER_SHARD", "shards": named, "others": init_to_json(init.others)}


def init_from_json(value: Mapping[str, Any]) -> Init:
    """Return the starting position that `init_to_json` wrote. Raises InvalidOffset."""
    if value.get("type") != "PER_SHARD":
        return _position_from_json(value)
    shards = tuple((name, _position_from_json(one)) for name, one in value["shards"].items())
    return ShardPositions(shards, _position_from_json(value["others"]))


def _position_from_json(value: Mapping[str, Any]) -> Position:
    kind, where = value.get("type"), value.get("value")
    if kind == "TRIM_HORIZON":
        return TrimHorizon()
    if kind == "LATEST":
        return Latest()
    if kind == "AT_TIMESTAMP" and isinstance(where, int):
        return AtTimestamp(where)
    if kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER") and isinstance(where, str):
        return AtSequenceNumber(where, after=kind == "AFTER_SEQUENCE_NUMBER")
    raise InvalidOffset(f"The checkpoint's starting position {value!r} is unknown.")


def _shard_to_json(shard: ShardOffset) -> dict[str, Any]:
    value: dict[str, Any] = {
        "type": "SHARD_END" if shard.ended else "AFTER_SEQUENCE_NUMBER",
        "count": shard.count,
        "arrival": shard.arrival_ms,
    }
    if shard.sequence_number is not None:
        value["value"] = shard.sequence_number
    if shard.read_ms is not None:
        value["read"] = shard.read_ms
    return value


def _shard_from_json(value: Mapping[str, Any]) -> ShardOffset:
    return ShardOffset(
        sequence_number=value.get("value"),
        count=int(value["count"]),
        arrival_ms=int(value["arrival"]),
        ended=value["type"] == "SHARD_END",
        read_ms=value.get("read"),
    )
