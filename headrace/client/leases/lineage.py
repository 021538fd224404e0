"""Which leases a stream's shards need, and which are not needed any more. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.client.hash_keys import ShardRange
from headrace.client.leases.lease import TRIM_HORIZON, Checkpoint, Lease


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
