"""The group as one of its workers sees it: who lives, who leads, and, as the leader, who reads what. No threads.

Decides which worker reads which shard. Pure: it sees a picture of the table, and says what to change.

Which leases a stream's shards need, and which are not needed any more. Pure.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headrace.client.clock import Clock
from headrace.client.hash_keys import ShardRange
from headrace.client.leases.stores import (
    TRIM_HORIZON,
    Checkpoint,
    Leader,
    Lease,
    LeaseStore,
    StoreError,
    Table,
)

_LOG = logging.getLogger("headrace.client")
# The KCL's workers report every 30 s, and are taken for dead after two reports that did not come.
_WORKER_DEAD_AFTER_S = 75
_HANDOFF_S = 30.0


class Shards(Protocol):
    """What the leader asks of a stream."""

    def shards(self, shard_filter: dict[str, Any] | None = None) -> list[ShardRange]:
        """Return shards, all or those of a filter of ListShards."""
        ...

    def open_shards(self) -> list[ShardRange]:
        """Return the open shards."""
        ...


@dataclass(slots=True)
class _Seen:
    """When a value was last seen to change, by this worker's monotonic clock."""

    value: Any
    at_s: float


class Leadership:
    """A worker's view of its group. One thread calls it."""

    def __init__(
        self,
        store: LeaseStore,
        shards: Shards,
        *,
        worker_id: str,
        initial: Checkpoint,
        initial_filter: dict[str, Any],
        clock: Clock,
        failover_s: float,
        shard_sync_s: float,
    ) -> None:
        self._store, self._shards, self._clock, self.worker_id = store, shards, clock, worker_id
        self._initial, self._initial_filter = initial, initial_filter
        self._failover_s, self._shard_sync_s = failover_s, shard_sync_s
        self._counters: dict[str, _Seen] = {}
        self._leader_seen = _Seen(None, 0.0)
        self._worker_seen: dict[str, _Seen] = {}
        self._handoffs: dict[str, float] = {}
        # Workers that were found dead, with the time of their last report.
        self._dead: dict[str, int] = {}
        self._synced_s: float | None = None
        self.is_leader = False
        self.moves = 0

    def step_down(self) -> None:
        """Release the leader's lock, if this worker has it."""
        leader = self._store.load().leader
        if leader is not None and leader.owner == self.worker_id and not leader.is_released:
            self._store.lead(leader, replace(leader, is_released=True, version=str(uuid.uuid4())))
        self.is_leader = False

    def observe(self, table: Table, now_s: float) -> None:
        """Note when each counter, the leader's version and each worker's report were last seen to change."""
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

    def _rest_s(self, lease: Lease, now_s: float) -> float:
        """Return for how long a lease's counter has rested, as far as this worker has seen."""
        return now_s - self._counters[lease.key].at_s

    def elect(self, table: Table, now_s: float) -> None:
        """Take or renew the leader's lock, if it is free or this worker's."""
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

    def lead(self, table: Table, now_s: float) -> Table:
        """Do the leader's work; return the table as it is then. Raises StoreError."""
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
            for lease in unknown(table.leases, shards):
                _LOG.warning(
                    "The lease of %s stays, though the stream has had no such shard: do two applications of different "
                    "streams have this name?",
                    lease.key,
                )
        if new:
            alone = self._living(table, now_s) == {self.worker_id}
            owner = self.worker_id if alone else None
            self._store.create([replace(lease, owner=owner) for lease in new])
            table = self._store.load()
            self.observe(table, now_s)
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
                rests = self._rest_s(lease, now_s) > self._failover_s
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
            if lease.worker is not None and self._rest_s(lease, now_s) <= self._failover_s
        }
        self._end_handoffs(open_leases, now_s)
        moves = plan(
            open_leases,
            workers=workers,
            strangers={worker for worker in renewing if worker not in table.workers},
            is_expired=lambda lease: self._rest_s(lease, now_s) > self._failover_s,
        )
        for move in moves:
            lease = move.lease
            if move.is_graceful:
                # The counter stays the worker's: it goes on renewing until it has finished.
                new = replace(lease, owner=move.owner, checkpoint_owner=lease.owner)
            else:
                new = _take_lease(lease, move.owner)
            self.moves += self._store.write(lease, new)
        return self._store.load() if moves else table

    def _end_handoffs(self, leases: list[Lease], now_s: float) -> None:
        """Take a lease from a worker that does not finish its handoff in time."""
        pending = {lease.key: lease for lease in leases if lease.checkpoint_owner is not None}
        self._handoffs = {key: self._handoffs.get(key, now_s) for key in pending}
        for key, lease in pending.items():
            if now_s - self._handoffs[key] > _HANDOFF_S:
                new = replace(lease, checkpoint_owner=None, counter=lease.counter + 1)
                self._store.write(lease, new)

    def rescue(self, table: Table, now_s: float) -> None:
        """Take leases that rest although there is a leader: it may be dead, and its lock valid for two minutes."""
        for lease in table.leases.values():
            if lease.has_ended or self._rest_s(lease, now_s) <= 3 * self._failover_s:
                continue
            if self._store.write(lease, _take_lease(lease, self.worker_id)):
                _LOG.info("The lease of %s rested; %s takes it", lease.key, self.worker_id)


def _take_lease(lease: Lease, owner: str) -> Lease:
    switches = lease.switches + (lease.owner is not None and lease.owner != owner)
    return replace(
        lease, owner=owner, checkpoint_owner=None, counter=lease.counter + 1, switches=switches
    )


# As the KCL's reBalanceThresholdPercentage: a worker gives leases away when it is this far above the mean.
REBALANCE_ABOVE = 1.1


@dataclass(frozen=True, slots=True)
class Move:
    """A lease gets a new owner; gracefully, when the old one still works and shall finish first."""

    lease: Lease
    owner: str
    is_graceful: bool


class _Load:
    """The load of each worker: throughput, and the mean throughput for each lease, so that idle shards spread too."""

    def __init__(self, leases: list[Lease], workers: Iterable[str]) -> None:
        known = [lease.throughput_kbps for lease in leases if lease.throughput_kbps]
        self._mean = sum(known) / len(known) if known else 0.0
        self.leases: dict[str, set[Lease]] = {worker: set() for worker in workers}
        self.total: dict[str, float] = dict.fromkeys(self.leases, 0.0)

    def weight(self, lease: Lease) -> float:
        """Return what a lease costs its worker."""
        if not self._mean:
            return 1.0
        return self._mean + (self._mean if lease.throughput_kbps is None else lease.throughput_kbps)

    def add(self, lease: Lease, worker: str) -> None:
        """Give a worker a lease."""
        self.leases[worker].add(lease)
        self.total[worker] += self.weight(lease)

    def move(self, lease: Lease, old: str, new: str) -> None:
        """Take a lease from one worker and give it to another."""
        self.leases[old].discard(lease)
        self.total[old] -= self.weight(lease)
        self.add(lease, new)


def plan(
    leases: Iterable[Lease],
    *,
    workers: set[str],
    strangers: set[str],
    is_expired: Callable[[Lease], bool],
) -> list[Move]:
    """Return the moves that give every lease a living worker, and all workers about the same load.

    Args:
        leases: those of shards that have not ended.
        workers: those that live and take what they are given.
        strangers: owners that live but have no entry (KCL 2, kcl-rs): they take leases by themselves. They are given
            none, and lose those above a fair share.
        is_expired: whether a lease's worker has let it rest.
    """
    open_leases = sorted(leases, key=lambda lease: lease.key)
    everybody = sorted(workers | strangers)
    if not workers:
        return []
    load = _Load(open_leases, everybody)
    homeless: list[Lease] = []
    for lease in open_leases:
        owner = lease.owner
        if lease.worker is None or is_expired(lease) or owner not in load.total:
            homeless.append(lease)
        else:
            load.add(lease, owner)
    moves: list[Move] = []
    takers = sorted(workers)
    for lease in sorted(homeless, key=load.weight, reverse=True):
        owner = min(takers, key=lambda worker: (load.total[worker], worker))
        load.add(lease, owner)
        moves.append(Move(lease, owner, is_graceful=False))
    return moves + _plan_moves(load, takers, strangers, set(homeless))


def _plan_moves(
    load: _Load, takers: list[str], strangers: set[str], assigned: set[Lease]
) -> list[Move]:
    moves: list[Move] = []
    count = sum(map(len, load.leases.values()))
    fair = math.ceil(count / len(load.total)) if load.total else 0
    moved: set[Lease] = set(assigned)
    for _ in range(count):
        mean = sum(load.total.values()) / len(load.total)
        givers = [
            worker
            for worker, total in load.total.items()
            if total > mean * REBALANCE_ABOVE
            and (worker not in strangers or len(load.leases[worker]) > fair)
        ]
        if not givers:
            return moves
        giver = max(givers, key=lambda worker: (load.total[worker], worker))
        taker = min(takers, key=lambda worker: (load.total[worker], worker))
        gap = load.total[giver] - load.total[taker]
        candidates = [
            lease
            for lease in load.leases[giver]
            if lease not in moved and lease.checkpoint_owner is None and load.weight(lease) < gap
        ]
        if not candidates:
            return moves
        lease = min(candidates, key=lambda lease: (abs(gap / 2 - load.weight(lease)), lease.key))
        load.move(lease, giver, taker)
        moved.add(lease)
        moves.append(Move(lease, taker, is_graceful=giver not in strangers))
    return moves


def lease_for(shard: ShardRange, checkpoint: Checkpoint, owner: str | None = None) -> Lease:
    """Return a new lease of a shard."""
    return Lease(
        key=shard.shard_id,
        checkpoint=checkpoint,
        owner=owner,
        parents=frozenset(shard.parents),
        start=shard.start,
        end=shard.end,
    )


def missing(
    leases: Mapping[str, Lease],
    shards: Iterable[ShardRange],
    open_ids: set[str],
    initial: Checkpoint,
) -> list[Lease]:
    """Return leases for shards that nobody would ever read: children of ended shards, and shards without a lineage.

    A shard whose ancestor has a lease that has not ended is left to that ancestor's worker.
    """
    by_id = {shard.shard_id: shard for shard in shards}
    needed: dict[str, Lease] = {}
    for shard_id in sorted(open_ids):
        _need(by_id[shard_id], by_id, leases, initial, needed)
    return list(needed.values())


def _need(
    shard: ShardRange,
    by_id: Mapping[str, ShardRange],
    leases: Mapping[str, Lease],
    initial: Checkpoint,
    needed: dict[str, Lease],
) -> None:
    """Note the lease that a shard needs: its own, or one of an ancestor."""
    if shard.shard_id in leases or shard.shard_id in needed:
        return
    parents = [by_id[parent] for parent in shard.parents if parent in by_id]
    unread = [
        parent
        for parent in parents
        if parent.shard_id not in leases and _has_leased_ancestor(parent, by_id, leases)
    ]
    known = [leases[parent.shard_id] for parent in parents if parent.shard_id in leases]
    for parent in unread:
        _need(parent, by_id, leases, initial, needed)
    if unread or (known and not any(lease.has_ended for lease in known)):
        return
    # Of a parent that has ended, or born by a reshard of shards that nobody knows any more: all of it is new.
    needed[shard.shard_id] = lease_for(
        shard, Checkpoint(TRIM_HORIZON) if shard.parents else initial
    )


def _has_leased_ancestor(
    shard: ShardRange, by_id: Mapping[str, ShardRange], leases: Mapping[str, Lease]
) -> bool:
    seen: set[str] = set()
    todo = [shard]
    while todo:
        current = todo.pop()
        if current.shard_id in leases:
            return True
        seen.add(current.shard_id)
        todo += [by_id[p] for p in current.parents if p in by_id and p not in seen]
    return False


def unneeded(
    leases: Mapping[str, Lease], shards: Iterable[ShardRange]
) -> tuple[list[Lease], list[Lease]]:
    """Return leases to remove: of ended shards whose children are being read, and of shards that are gone unread.

    A lease that is newer than the newest shard stays: see `unknown`.
    """
    children: dict[str, list[str]] = {}
    ids: set[str] = set()
    for shard in shards:
        ids.add(shard.shard_id)
        for parent in shard.parents:
            children.setdefault(parent, []).append(shard.shard_id)
    done: list[Lease] = []
    gone: list[Lease] = []
    newest_id = max(ids, default="")
    for lease in leases.values():
        if lease.key not in ids:
            if lease.key > newest_id:
                continue
            (done if lease.has_ended else gone).append(lease)
        elif lease.has_ended and lease.key in children:
            heirs = [leases.get(child) for child in children[lease.key]]
            if all(h is not None and (h.checkpoint.is_number or h.has_ended) for h in heirs):
                done.append(lease)
    return done, gone


def unknown(leases: Mapping[str, Lease], shards: Iterable[ShardRange]) -> list[Lease]:
    """Return leases that are newer than the newest shard, which every stream still has.

    They are another stream's: two applications have one name. Or the list of shards is older than the leases.
    """
    newest_id = max((shard.shard_id for shard in shards), default="")
    return [lease for lease in leases.values() if lease.key > newest_id]
