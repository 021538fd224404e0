"""What a consumer group keeps its leases in: the protocol of stores, and those for one process and one machine.

What a lease table holds: leases, workers, the leader's lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

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


_T = TypeVar("_T")


class StoreError(Exception):
    """The store cannot be used as it is: a wrong table, a damaged file. The message is one sentence."""


class LeaseStore(Protocol):
    """A store of leases. Every write is conditional, and returns whether it was done. Thread-safe.

    Its methods raise StoreError, and the errors of what it is made of (botocore's, OSError), which may pass.
    """

    def prepare(self) -> None:
        """Make the store if it is missing."""
        ...

    def load(self) -> Table:
        """Return all that is there, as it is now."""
        ...

    def create(self, leases: Iterable[Lease]) -> None:
        """Add leases; those whose key exists stay as they are."""
        ...

    def write(self, old: Lease, new: Lease) -> bool:
        """Change a lease from `old`, whose counter and owners must still be there, to `new`."""
        ...

    def delete(self, lease: Lease) -> bool:
        """Remove a lease if its counter is still the same."""
        ...

    def report(self, worker: Worker) -> None:
        """Note that a worker lives."""
        ...

    def forget(self, worker_id: str) -> None:
        """Remove a worker's entry."""
        ...

    def lead(self, old: Leader | None, new: Leader) -> bool:
        """Take, renew or release the leader's lock, if it is still `old`."""
        ...


class MemoryLeaseStore:
    """Leases in memory, for the groups of one process and for tests. Thread-safe; nothing outlives the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table = Table()

    def prepare(self) -> None:
        """See `LeaseStore.prepare`."""

    def load(self) -> Table:
        """See `LeaseStore.load`."""
        return self._do(
            lambda table: Table(dict(table.leases), dict(table.workers), table.leader), writes=False
        )

    def create(self, leases: Iterable[Lease]) -> None:
        """See `LeaseStore.create`."""

        def create(table: Table) -> None:
            for lease in leases:
                table.leases.setdefault(lease.key, lease)

        self._do(create)

    def write(self, old: Lease, new: Lease) -> bool:
        """See `LeaseStore.write`."""

        def write(table: Table) -> bool:
            current = table.leases.get(old.key)
            if current is None or not _is_same(current, old, new):
                return False
            changed = {
                name: getattr(new, name)
                for name in Lease.__slots__
                if getattr(new, name) != getattr(old, name)
            }
            table.leases[old.key] = replace(current, **changed)
            return True

        return self._do(write)

    def delete(self, lease: Lease) -> bool:
        """See `LeaseStore.delete`."""

        def delete(table: Table) -> bool:
            current = table.leases.get(lease.key)
            if current is None or current.counter != lease.counter:
                return False
            del table.leases[lease.key]
            return True

        return self._do(delete)

    def report(self, worker: Worker) -> None:
        """See `LeaseStore.report`."""

        def report(table: Table) -> None:
            table.workers[worker.id] = worker

        self._do(report)

    def forget(self, worker_id: str) -> None:
        """See `LeaseStore.forget`."""

        def forget(table: Table) -> None:
            table.workers.pop(worker_id, None)

        self._do(forget)

    def lead(self, old: Leader | None, new: Leader) -> bool:
        """See `LeaseStore.lead`."""
        return self._do_leading(old, new)

    def _do(self, change: Callable[[Table], _T], *, writes: bool = True) -> _T:
        del writes
        with self._lock:
            return change(self._table)

    def _do_leading(self, old: Leader | None, new: Leader) -> bool:
        with self._lock:
            if self._table.leader != old:
                return False
            self._table = replace(self._table, leader=new)
            return True


class FileLeaseStore(MemoryLeaseStore):
    """Leases in one JSON file, for workers of one machine: each change locks the file, and replaces it.

    Durability: a change is with the operating system when it returns; kill -9 leaves the old file or the new one.
    """

    def __init__(self, path: str | Path) -> None:
        """Take the file's path; its folder must exist."""
        super().__init__()
        self._path = Path(path)

    def _do(self, change: Callable[[Table], _T], *, writes: bool = True) -> _T:
        with self._lock, self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            table = self._read()
            result = change(table)
            if writes:
                self._write(table)
            return result

    def _do_leading(self, old: Leader | None, new: Leader) -> bool:
        with self._lock, self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            table = self._read()
            if table.leader != old:
                return False
            self._write(replace(table, leader=new))
            return True

    def _read(self) -> Table:
        try:
            value: dict[str, Any] = json.loads(self._path.read_bytes())
            leases = {row["key"]: _lease_of(row) for row in value["leases"]}
            workers = {row["id"]: Worker(**row) for row in value["workers"]}
            leader = None if value["leader"] is None else Leader(**value["leader"])
        except FileNotFoundError:
            return Table()
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self._path} is not a file of leases") from error
        return Table(leases, workers, leader)

    def _write(self, table: Table) -> None:
        value = {
            "leases": [_row_of(lease) for lease in table.leases.values()],
            "workers": [asdict(worker) for worker in table.workers.values()],
            "leader": None if table.leader is None else asdict(table.leader),
        }
        new = self._path.with_suffix(f".{os.getpid()}.new")
        new.write_text(json.dumps(value))
        new.replace(self._path)


def _is_same(current: Lease, old: Lease, new: Lease) -> bool:
    if current.counter != old.counter:
        return False
    moves = (old.owner, old.checkpoint_owner) != (new.owner, new.checkpoint_owner)
    owners = (current.owner, current.checkpoint_owner)
    return not moves or owners == (old.owner, old.checkpoint_owner)


def _row_of(lease: Lease) -> dict[str, Any]:
    row = asdict(lease)
    return row | {"parents": sorted(lease.parents), "children": sorted(lease.children)}


def _lease_of(row: dict[str, Any]) -> Lease:
    changed: dict[str, Any] = {name: frozenset(row[name]) for name in ("parents", "children")}
    changed["checkpoint"] = Checkpoint(*row["checkpoint"])
    return Lease(**(row | changed))
