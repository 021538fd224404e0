"""A worker's part in its group: its leases, the leader's lock, the assignment. No threads: one thread calls it.

The `note_*` methods may be called by any thread; all else by the coordinator's thread, which does all writes, so that
a lease is never written by two of ours at once.
"""

from __future__ import annotations

import logging
import threading
import uuid
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headrace.client.clock import Clock
from headrace.client.hash_keys import ShardRange
from headrace.client.leases.assignment import plan
from headrace.client.leases.lease import (
    SHARD_END,
    TRIM_HORIZON,
    Checkpoint,
    Leader,
    Lease,
    Table,
    Worker,
)
from headrace.client.leases.lineage import lease_for, missing, unneeded
from headrace.client.leases.stores import LeaseStore, StoreError

_LOG = logging.getLogger("headrace.client")
# The KCL's workers report every 30 s, and are taken for dead after two reports that did not come.
_WORKER_DEAD_AFTER_S = 75
_HANDOFF_S = 30.0


class Shards(Protocol):
    """What the coordinator asks of a stream."""

    def shards(self, shard_filter: dict[str, Any] | None = None) -> list[ShardRange]:
        """Return shards, all or those of a filter of ListShards."""
        ...

    def open_shards(self) -> list[ShardRange]:
        """Return the open shards."""
        ...


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
class _Seen:
    """When a lease's counter, or the leader's version, was last seen to change."""

    value: Any
    at_s: float


@dataclass(slots=True)
class Counts:
    """What the coordinator has done."""

    checkpoints: int = 0
    lost: int = 0
    taken: int = 0
    moves: int = 0
    failed_ticks: int = 0


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
        self._store, self._shards, self._listener, self._clock = store, shards, listener, clock
        self.worker_id, self._initial, self._initial_filter = worker_id, initial, initial_filter
        self._failover_s, self._shard_sync_s = failover_s, shard_sync_s
        self._lock = threading.Lock()
        self._owned: dict[str, _Owned] = {}
        self._counters: dict[str, _Seen] = {}
        self._leader_seen = _Seen(None, 0.0)
        self._worker_seen: dict[str, _Seen] = {}
        self._handoffs: dict[str, float] = {}
        # Workers that were found dead, with the time of their last report.
        self._dead: dict[str, int] = {}
        self._synced_s: float | None = None
        self._reported_s: float | None = None
        self.is_leader = False
        self.counts = Counts()

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

        Raises StoreError and GroupError-like errors that do not pass; what may pass is raised too, and comes again.
        """
        self.write_checkpoints()
        self._renew()
        table = self._store.load()
        _check(table)
        now_s = self._clock.monotonic_s()
        self._observe(table, now_s)
        self._report(now_s)
        self._elect(table, now_s)
        if self.is_leader:
            table = self._lead(table, now_s)
        else:
            self._rescue(table, now_s)
        self._settle(table)

    def write_checkpoints(self) -> None:
        """Write what was processed, end shards, and hand drained ones over."""
        for key in list(self._owned):
            with self._lock:
                owned = self._owned.get(key)
                if owned is None:
                    continue
                processed, owned.processed = owned.processed, None
                children, is_drained = owned.children, owned.is_drained
            if processed is not None:
                self._write_processed(owned, processed)
            if children is not None and key in self._owned:
                self._end(owned, children)
            if is_drained and key in self._owned:
                self._hand_over(owned)

    def has_urgent_work(self) -> bool:
        """Whether a shard has ended or was drained: its heirs wait for that."""
        with self._lock:
            return any(o.children is not None or o.is_drained for o in self._owned.values())

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
        for key, owned in list(self._owned.items()):
            lease = owned.lease
            if lease.checkpoint_owner == self.worker_id:
                new = replace(lease, checkpoint_owner=None, counter=lease.counter + 1)
            else:
                new = replace(lease, owner=None, counter=lease.counter + 1)
            self._store.write(lease, new)
            self._drop(key, counts=False)
        self._store.forget(self.worker_id)
        leader = self._store.load().leader
        if leader is not None and leader.owner == self.worker_id and not leader.is_released:
            self._store.lead(leader, replace(leader, is_released=True, version=str(uuid.uuid4())))
        self.is_leader = False

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

    def _write_processed(self, owned: _Owned, processed: Checkpoint) -> None:
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
        for owned in list(self._owned.values()):
            if now_s - owned.written_s >= self._failover_s / 4:
                self._write(owned, **self._throughput(owned))

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
        new = replace(lease, counter=lease.counter + 1)
        if self._store.write(lease, new):
            with self._lock:
                self._owned[lease.key] = _Owned(new, now_s, measured_s=now_s)
            self.counts.taken += 1

    # The group.

    def _observe(self, table: Table, now_s: float) -> None:
        for key, lease in table.leases.items():
            seen = self._counters.get(key)
            value = (lease.counter, lease.worker)
            if seen is None or seen.value != value:
                self._counters[key] = _Seen(value, now_s)
        for key in set(self._counters) - set(table.leases):
            del self._counters[key]
        if table.leader != self._leader_seen.value:
            self._leader_seen = _Seen(table.leader, now_s)
        for worker in table.workers.values():
            seen = self._worker_seen.get(worker.id)
            if seen is None or seen.value != worker.updated_s:
                self._worker_seen[worker.id] = _Seen(worker.updated_s, now_s)

    def _rested_s(self, lease: Lease, now_s: float) -> float:
        """Return for how long a lease's counter has rested, as far as this worker has seen."""
        return now_s - self._counters[lease.key].at_s

    def _report(self, now_s: float) -> None:
        if self._reported_s is None or now_s - self._reported_s >= self._failover_s:
            self._store.report(Worker(self.worker_id, self._clock.now_ms() // 1000))
            self._reported_s = now_s

    def _elect(self, table: Table, now_s: float) -> None:
        leader = table.leader
        is_free = (
            leader is None
            or leader.is_released
            or leader.owner == self.worker_id
            or now_s - self._leader_seen.at_s > leader.duration_ms / 1000
        )
        if not is_free:
            self.is_leader = False
            return
        new = Leader(self.worker_id, str(uuid.uuid4()), int(self._failover_s * 2000))
        was_leader, self.is_leader = self.is_leader, self._store.lead(leader, new)
        if self.is_leader and not was_leader:
            _LOG.info("%s leads the group", self.worker_id)
            self._synced_s = None

    def _lead(self, table: Table, now_s: float) -> Table:
        if self._synced_s is None or now_s - self._synced_s >= self._shard_sync_s:
            table = self._sync(table, now_s)
            self._synced_s = now_s
        return self._assign(table, now_s)

    def _sync(self, table: Table, now_s: float) -> Table:
        """Make the leases that are missing, and remove those that nobody needs."""
        if not table.leases:
            shards = self._shards.shards(self._initial_filter)
            ids = {shard.shard_id for shard in shards}
            # Of a reshard that the filter's moment met, the children follow their parents.
            roots = [shard for shard in shards if not ids & set(shard.parents)]
            new = [lease_for(shard, self._initial) for shard in roots]
        else:
            shards = self._shards.shards()
            if not {shard.shard_id for shard in shards} & set(table.leases):
                raise StoreError(
                    "none of the table's leases is of a shard of this stream: is it another application's, or was the "
                    "stream made anew? Use another application name, or delete the table."
                )
            open_ids = {shard.shard_id for shard in self._shards.open_shards()}
            by_id = {shard.shard_id: shard for shard in shards}
            new = missing(table.leases, shards, open_ids & set(by_id), self._initial)
            done, gone = unneeded(table.leases, shards)
            for lease in gone:
                _LOG.warning(
                    "%s is no shard of the stream any more; it was not read to its end", lease.key
                )
            for lease in [*done, *gone]:
                self._store.delete(lease)
        if new:
            alone = self._living(table, now_s) == {self.worker_id}
            owner = self.worker_id if alone else None
            self._store.create([replace(lease, owner=owner) for lease in new])
            table = self._store.load()
            self._observe(table, now_s)
        return table

    def _living(self, table: Table, now_s: float) -> set[str]:
        """Return the workers that report, but for those that let all of their leases rest."""
        wall_s = self._clock.now_ms() // 1000
        living = {
            worker.id
            for worker in table.workers.values()
            # By what this worker has seen too: wall clocks differ, and jump.
            if wall_s - worker.updated_s < _WORKER_DEAD_AFTER_S
            or now_s - self._worker_seen[worker.id].at_s < self._failover_s
        }
        resting: set[str] = set()
        renewing: set[str] = set()
        for lease in table.leases.values():
            if lease.worker is not None and not lease.has_ended:
                rests = self._rested_s(lease, now_s) > self._failover_s
                (resting if rests else renewing).add(lease.worker)
        # Whoever let all of its leases rest is dead until it reports again.
        for worker_id in resting - renewing:
            if worker_id in table.workers:
                self._dead[worker_id] = table.workers[worker_id].updated_s
        living = {w for w in living if self._dead.get(w) != table.workers[w].updated_s}
        return living | {self.worker_id}

    def _assign(self, table: Table, now_s: float) -> Table:
        open_leases = [lease for lease in table.leases.values() if not lease.has_ended]
        workers = self._living(table, now_s)
        renewing = {
            lease.worker
            for lease in open_leases
            if lease.worker is not None and self._rested_s(lease, now_s) <= self._failover_s
        }
        self._end_handoffs(open_leases, now_s)
        moves = plan(
            open_leases,
            workers=workers,
            strangers={worker for worker in renewing if worker not in table.workers},
            is_expired=lambda lease: self._rested_s(lease, now_s) > self._failover_s,
        )
        for move in moves:
            lease = move.lease
            if move.is_graceful:
                # The counter stays the worker's: it goes on renewing until it has finished.
                new = replace(lease, owner=move.owner, checkpoint_owner=lease.owner)
            else:
                new = _taken(lease, move.owner)
            self.counts.moves += self._store.write(lease, new)
        return self._store.load() if moves else table

    def _end_handoffs(self, leases: list[Lease], now_s: float) -> None:
        """Take a lease from a worker that does not finish its handoff in time."""
        pending = {lease.key: lease for lease in leases if lease.checkpoint_owner is not None}
        self._handoffs = {key: self._handoffs.get(key, now_s) for key in pending}
        for key, lease in pending.items():
            if now_s - self._handoffs[key] > _HANDOFF_S:
                new = replace(lease, checkpoint_owner=None, counter=lease.counter + 1)
                self._store.write(lease, new)

    def _rescue(self, table: Table, now_s: float) -> None:
        """Take leases that rest although there is a leader: it may be dead, and its lock valid for two minutes."""
        for lease in table.leases.values():
            if lease.has_ended or self._rested_s(lease, now_s) <= 3 * self._failover_s:
                continue
            if self._store.write(lease, _taken(lease, self.worker_id)):
                _LOG.info("The lease of %s rested; %s takes it", lease.key, self.worker_id)


def _taken(lease: Lease, owner: str) -> Lease:
    switches = lease.switches + (lease.owner is not None and lease.owner != owner)
    return replace(
        lease, owner=owner, checkpoint_owner=None, counter=lease.counter + 1, switches=switches
    )


def _check(table: Table) -> None:
    several = [key for key in table.leases if ":" in key]
    if several:
        raise StoreError(
            f"the leases are of an application that reads several streams ({several[0]}), which this group does not"
        )
