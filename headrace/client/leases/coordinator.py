"""A worker's part in its group: its leases, the leader's lock, the assignment. No threads: one thread calls it.

The `note_*` methods may be called by any thread; all else by the coordinator's thread, which does all writes, so that
a lease is never written by two of ours at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headrace.client.clock import Clock
from headrace.client.hash_keys import ShardRange
from headrace.client.leases.leadership import Leadership, Shards, lease_for
from headrace.client.leases.stores import (
    SHARD_END,
    TRIM_HORIZON,
    Checkpoint,
    Lease,
    LeaseStore,
    StoreError,
    Table,
    Worker,
)

_WRITERS = 8
_LOG = logging.getLogger("headrace.client")


class Listener(Protocol):
    """Who reads the shards."""

    def begin(self, lease: Lease) -> None:
        """Read a shard from the lease's checkpoint."""
        ...

    def drain(self, key: str) -> None:
        """Finish what was delivered, read no more, and then call `note_drained`."""
        ...

    def lose(self, key: str) -> None:
        """Stop at once: the shard is another worker's."""
        ...


@dataclass(slots=True)
class _Owned:
    """A lease of this worker's. `processed` is to be written; `children` are there once the shard has ended."""

    lease: Lease
    written_s: float
    is_begun: bool = False
    is_draining: bool = False
    is_drained: bool = False
    processed: Checkpoint | None = None
    children: list[ShardRange] | None = None
    bytes_: int = 0
    measured_s: float = 0.0


@dataclass(slots=True)
class Counts:
    """What the coordinator has done."""

    checkpoints: int = 0
    lost: int = 0
    taken: int = 0


class Coordinator:
    """A worker of a group."""

    def __init__(
        self,
        store: LeaseStore,
        shards: Shards,
        listener: Listener,
        *,
        worker_id: str,
        initial: Checkpoint,
        initial_filter: dict[str, Any],
        clock: Clock,
        failover_s: float,
        shard_sync_s: float,
    ) -> None:
        self._store, self._listener, self._clock = store, listener, clock
        self.worker_id, self._failover_s = worker_id, failover_s
        self._leadership = Leadership(
            store,
            shards,
            worker_id=worker_id,
            initial=initial,
            initial_filter=initial_filter,
            clock=clock,
            failover_s=failover_s,
            shard_sync_s=shard_sync_s,
        )
        self._lock = threading.Lock()
        self._owned: dict[str, _Owned] = {}
        self._reported_s: float | None = None
        self.counts = Counts()

    @property
    def is_leader(self) -> bool:
        """Whether this worker assigns the group's leases."""
        return self._leadership.is_leader

    # What readers say.

    def note_processed(self, key: str, checkpoint: Checkpoint, bytes_: int = 0) -> None:
        """Records up to a checkpoint were processed; it is written at the next `write_checkpoints`."""
        with self._lock:
            owned = self._owned.get(key)
            if owned is not None:
                owned.processed = checkpoint
                owned.bytes_ += bytes_

    def note_ended(self, key: str, children: list[ShardRange]) -> None:
        """The whole shard was processed."""
        with self._lock:
            owned = self._owned.get(key)
            if owned is not None:
                owned.children = children

    def note_drained(self, key: str) -> None:
        """The reader of a shard that is handed over has finished."""
        with self._lock:
            owned = self._owned.get(key)
            if owned is not None:
                owned.is_drained = True

    def owned(self) -> dict[str, Lease]:
        """Return the leases of this worker's."""
        with self._lock:
            return {key: owned.lease for key, owned in self._owned.items()}

    # What the coordinator's thread does.

    def tick(self) -> None:
        """Write checkpoints, renew leases, look at the table, and do the leader's work if this is the leader.

        Raises StoreError when the store cannot be used; other errors may pass: the next tick does what is left.
        """
        self.write_checkpoints()
        self._renew()
        table = self._store.load()
        _check(table)
        now_s = self._clock.monotonic_s()
        leadership = self._leadership
        leadership.observe(table, now_s)
        self._report(now_s)
        leadership.elect(table, now_s)
        if leadership.is_leader:
            table = leadership.lead(table, now_s)
        else:
            leadership.rescue(table, now_s)
        self._settle(table)

    def write_checkpoints(self) -> None:
        """Write what was processed, end shards, and hand drained ones over."""
        with self._lock:
            # What ended or was drained has noted all that was processed of it.
            over = [o for o in self._owned.values() if o.children is not None or o.is_drained]
            processed = [owned for owned in self._owned.values() if owned.processed is not None]
        _for_each(processed, self._write_processed)
        for owned in over:
            if owned.lease.key not in self._owned:
                continue
            if owned.children is not None:
                self._end(owned, owned.children)
            else:
                self._hand_over(owned)

    def expire(self) -> None:
        """Give up leases that could not be renewed for so long that others may have taken them."""
        now_s = self._clock.monotonic_s()
        for key, owned in list(self._owned.items()):
            if now_s - owned.written_s > self._failover_s:
                _LOG.warning("The lease of %s could not be renewed in time; it is given up", key)
                self._drop(key)

    def leave(self) -> None:
        """Write the last checkpoints, give all leases back, and say goodbye; others take them over at once."""
        self.write_checkpoints()
        _for_each(list(self._owned.values()), self._give_back)
        # Otherwise nobody knows of this worker; the table may even be another application's.
        if self._reported_s is not None:
            self._store.forget(self.worker_id)
            # It may come back.
            self._reported_s = None
        self._leadership.step_down()

    # Leases of this worker.

    def _write(self, owned: _Owned, **changes: Any) -> bool:
        """Write a lease of this worker's; one that another has taken is lost."""
        old = owned.lease
        new = replace(old, counter=old.counter + 1, **changes)
        if not self._store.write(old, new):
            # A write whose answer was lost was done nevertheless: then the table has what we wrote.
            current = self._store.load().leases.get(old.key)
            if current is None or self.worker_id not in (current.owner, current.checkpoint_owner):
                _LOG.info("The lease of %s was taken by %s", old.key, current and current.worker)
                self._drop(old.key)
                return False
            owned.lease = current
            new = replace(current, counter=current.counter + 1, **changes)
            if not self._store.write(current, new):
                self._drop(old.key)
                return False
        owned.lease, owned.written_s = new, self._clock.monotonic_s()
        return True

    def _write_processed(self, owned: _Owned) -> None:
        with self._lock:
            processed, owned.processed = owned.processed, None
        if processed is None:
            return
        changes: dict[str, Any] = {"checkpoint": processed, "switches": 0}
        try:
            if self._write(owned, **changes, **self._throughput(owned)):
                self.counts.checkpoints += 1
        except BaseException:
            with self._lock:
                owned.processed = owned.processed or processed
            raise

    def _throughput(self, owned: _Owned) -> dict[str, float]:
        now_s = self._clock.monotonic_s()
        passed_s = now_s - owned.measured_s
        if passed_s < self._failover_s / 3:
            return {}
        kbps = owned.bytes_ / 1024 / passed_s
        before = owned.lease.throughput_kbps
        owned.bytes_, owned.measured_s = 0, now_s
        # The KCL's exponential mean, alpha 0.5.
        return {"throughput_kbps": round(kbps if before is None else (kbps + before) / 2, 6)}

    def _renew(self) -> None:
        now_s = self._clock.monotonic_s()
        due = [o for o in self._owned.values() if now_s - o.written_s >= self._failover_s / 4]
        _for_each(due, lambda owned: self._write(owned, **self._throughput(owned)))

    def _end(self, owned: _Owned, children: list[ShardRange]) -> None:
        """Make the children's leases, this worker's at first, and then end the shard's."""
        key = owned.lease.key
        table = self._store.load()
        # A merged shard waits for both parents; one that has no lease yet makes its heir's lease itself when it ends.
        self._store.create(
            lease_for(child, Checkpoint(TRIM_HORIZON), self.worker_id)
            for child in children
            if all(parent == key or parent in table.leases for parent in child.parents)
        )
        if self._write(
            owned,
            checkpoint=Checkpoint(SHARD_END),
            children=frozenset(child.shard_id for child in children),
        ):
            self.counts.checkpoints += 1
            lease = owned.lease
            self._drop(lease.key, counts=False)
            # No worker reads it any more; its lease stays until its heirs are read.
            new = replace(lease, owner=None, checkpoint_owner=None, counter=lease.counter + 1)
            self._store.write(lease, new)
            self._adopt(self._store.load())

    def _give_back(self, owned: _Owned) -> None:
        lease = owned.lease
        if lease.checkpoint_owner == self.worker_id:
            new = replace(lease, checkpoint_owner=None, counter=lease.counter + 1)
        else:
            new = replace(lease, owner=None, counter=lease.counter + 1)
        self._store.write(lease, new)
        self._drop(lease.key, counts=False)

    def _hand_over(self, owned: _Owned) -> None:
        lease = owned.lease
        self._store.write(lease, replace(lease, checkpoint_owner=None, counter=lease.counter + 1))
        self._drop(lease.key, counts=False)
        _LOG.info("The lease of %s was handed to %s", lease.key, lease.owner)

    def _drop(self, key: str, *, counts: bool = True) -> None:
        with self._lock:
            self._owned.pop(key, None)
        self.counts.lost += counts
        self._listener.lose(key)

    def _settle(self, table: Table) -> None:
        """Begin, drain and drop shards as the table says."""
        for key, owned in list(self._owned.items()):
            lease = table.leases.get(key)
            if lease is None or self.worker_id not in (lease.owner, lease.checkpoint_owner):
                if lease is None or lease.counter > owned.lease.counter:
                    self._drop(key)
                continue
            if lease.counter == owned.lease.counter:
                owned.lease = lease
            is_leaving = lease.checkpoint_owner == self.worker_id and lease.owner != self.worker_id
            if is_leaving and not owned.is_draining:
                owned.is_draining = True
                owned.lease = replace(
                    owned.lease, owner=lease.owner, checkpoint_owner=lease.checkpoint_owner
                )
                if owned.is_begun:
                    self._listener.drain(key)
                else:
                    owned.is_drained = True
        self._adopt(table)

    def _adopt(self, table: Table) -> None:
        """Take up the leases that are this worker's, and begin those whose parents have ended."""
        for lease in table.leases.values():
            mine = lease.owner == self.worker_id and lease.checkpoint_owner is None
            if mine and lease.key not in self._owned and not lease.has_ended:
                self._own(lease)
        for key, owned in list(self._owned.items()):
            if owned.is_begun or owned.is_draining:
                continue
            parents = [table.leases.get(parent) for parent in owned.lease.parents]
            if all(parent is None or parent.has_ended for parent in parents):
                owned.is_begun = True
                self._listener.begin(owned.lease)
            else:
                _LOG.debug("%s waits for its parents", key)

    def _own(self, lease: Lease) -> None:
        now_s = self._clock.monotonic_s()
        # A counter of zero: this worker has made it for itself.
        new = replace(lease, counter=lease.counter + 1) if lease.counter else lease
        if new is lease or self._store.write(lease, new):
            with self._lock:
                self._owned[lease.key] = _Owned(new, now_s, measured_s=now_s)
            self.counts.taken += 1

    def _report(self, now_s: float) -> None:
        if self._reported_s is None or now_s - self._reported_s >= self._failover_s:
            self._store.report(Worker(self.worker_id, self._clock.now_ms() // 1000))
            self._reported_s = now_s


def _for_each(items: list[_Owned], work: Callable[[_Owned], Any]) -> None:
    """Do the work on each: many at once, because a table answers in milliseconds, and hundreds may be due.

    Raises the first error, once the work was tried on all: a throttled write must not cost other leases their renewal.
    """

    def attempt(owned: _Owned) -> Exception | None:
        try:
            work(owned)
        except Exception as error:  # noqa: BLE001 - botocore's errors have no common base
            return error
        return None

    if len(items) <= _WRITERS:
        errors = [attempt(owned) for owned in items]
    else:
        with ThreadPoolExecutor(_WRITERS) as pool:
            errors = list(pool.map(attempt, items))
    for error in errors:
        if error is not None:
            raise error


def _check(table: Table) -> None:
    several = [key for key in table.leases if ":" in key]
    if several:
        raise StoreError(
            f"the leases are of an application that reads several streams ({several[0]}), which this group does not"
        )
