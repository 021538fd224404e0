"""What a lease table holds: leases, workers, the leader's lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

TRIM_HORIZON: Final = "TRIM_HORIZON"
LATEST: Final = "LATEST"
AT_TIMESTAMP: Final = "AT_TIMESTAMP"
SHARD_END: Final = "SHARD_END"
SENTINELS: Final = frozenset((TRIM_HORIZON, LATEST, AT_TIMESTAMP, SHARD_END))


class Checkpoint(NamedTuple):
    """Up to where a shard was processed: a sequence number, or a sentinel, and the place in an aggregate."""

    sequence_number: str
    sub_sequence_number: int = 0

    @property
    def is_number(self) -> bool:
        """Whether it is a sequence number, so that reading goes on after it."""
        return self.sequence_number not in SENTINELS


@dataclass(frozen=True, slots=True)
class Lease:
    """A shard's lease. `counter` rises with each write by its owner: a lease whose counter rests has lost its worker.

    During a handoff, `owner` is the next worker, and `checkpoint_owner` the one that still works.
    """

    key: str
    checkpoint: Checkpoint
    owner: str | None = None
    counter: int = 0
    checkpoint_owner: str | None = None
    switches: int = 0
    parents: frozenset[str] = frozenset()
    children: frozenset[str] = frozenset()
    start: int | None = None
    end: int | None = None
    throughput_kbps: float | None = None

    @property
    def worker(self) -> str | None:
        """The worker that reads the shard now."""
        return self.checkpoint_owner or self.owner

    @property
    def has_ended(self) -> bool:
        """Whether the whole shard was processed."""
        return self.checkpoint.sequence_number == SHARD_END


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker's entry; `updated_s` is the wall time of its last report, in seconds since 1970."""

    id: str
    updated_s: int


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader's lock: valid for `duration_ms` after `version` has changed."""

    owner: str
    version: str
    duration_ms: int
    is_released: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """All that a store holds at one time."""

    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])
    workers: dict[str, Worker] = field(default_factory=dict[str, Worker])
    leader: Leader | None = None
