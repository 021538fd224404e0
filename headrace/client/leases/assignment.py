"""Decides which worker reads which shard. Pure: it sees a picture of the table, and says what to change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.client.leases.lease import Lease

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
    return moves + _balanced(load, takers, strangers, set(homeless))


def _balanced(
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
