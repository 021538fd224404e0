"""The items of a lease table, attribute by attribute as the Kinesis Client Library writes and reads them.

Source: awslabs/amazon-kinesis-client, DynamoDBLeaseSerializer, EntityType, WorkerMetricStats; dynamodb-lock-client
1.3.0 (documented), and the tables that KCL 3.1.3 and kcl-rs 0.1.4 have made on headrace (observed, 2026-11).
"""

from __future__ import annotations

from typing import Any, Final

from headrace.client.leases.lease import Checkpoint, Leader, Lease, Worker

LEASE_KEY: Final = "leaseKey"
ENTITY: Final = "entityType"
LEASE, WORKER, LEADER = "LEASE", "WORKER_METRIC_STATS", "LEADER"
LEADER_KEY: Final = "Leader"
_SUPPORTS_SINGLE_TABLE: Final = 1
_OWNER, _COUNTER, _CHECKPOINT_OWNER = "leaseOwner", "leaseCounter", "checkpointOwner"

Item = dict[str, Any]


def is_lease(item: Item) -> bool:
    """Whether an item of a lease table is a lease; those of before KCL 3.5 have no entity type."""
    return item.get(ENTITY, {}).get("S", LEASE) == LEASE and "checkpoint" in item


def is_worker(item: Item) -> bool:
    """Whether an item of a single table is a worker's entry."""
    return item.get(ENTITY, {}).get("S") == WORKER


def lease_of(item: Item) -> Lease:
    """Return the lease in an item."""
    return Lease(
        key=item[LEASE_KEY]["S"],
        checkpoint=Checkpoint(
            item["checkpoint"]["S"], int(_number(item, "checkpointSubSequenceNumber") or 0)
        ),
        owner=_text(item, _OWNER),
        counter=int(_number(item, _COUNTER) or 0),
        checkpoint_owner=_text(item, _CHECKPOINT_OWNER),
        switches=int(_number(item, "ownerSwitchesSinceCheckpoint") or 0),
        parents=frozenset(item.get("parentShardId", {}).get("SS", ())),
        children=frozenset(item.get("childShardIds", {}).get("SS", ())),
        start=_hash(item, "startingHashKey"),
        end=_hash(item, "endingHashKey"),
        throughput_kbps=_number(item, "throughputKBps"),
    )


def item_of(lease: Lease, *, with_entity: bool) -> Item:
    """Return the item of a new lease."""
    item = {LEASE_KEY: {"S": lease.key}} | {
        name: value for name, value in _attributes(lease).items() if value is not None
    }
    return item | ({ENTITY: {"S": LEASE}} if with_entity else {})


def changes_of(old: Lease, new: Lease) -> dict[str, Any]:
    """Return the parameters of an UpdateItem that changes `old` to `new`, if `old` is still there.

    What others may have written meanwhile and `new` does not change, stays.
    """
    before, after = _attributes(old), _attributes(new)
    names: dict[str, str] = {"#counter": _COUNTER}
    values: dict[str, Any] = {":counter": {"N": str(old.counter)}}
    conditions = ["#counter = :counter"]
    sets: list[str] = []
    removes: list[str] = []
    for index, (name, value) in enumerate(after.items()):
        if value == before[name]:
            continue
        names[f"#n{index}"] = name
        if value is None:
            removes.append(f"#n{index}")
        else:
            sets.append(f"#n{index} = :v{index}")
            values[f":v{index}"] = value
    if (old.owner, old.checkpoint_owner) != (new.owner, new.checkpoint_owner):
        for short, name in (("o", _OWNER), ("c", _CHECKPOINT_OWNER)):
            names[f"#{short}"] = name
            if before[name] is None:
                conditions.append(f"attribute_not_exists(#{short})")
            else:
                conditions.append(f"#{short} = :{short}")
                values[f":{short}"] = before[name]
    expression = "SET " + ", ".join(sets) if sets else ""
    if removes:
        expression += " REMOVE " + ", ".join(removes)
    return {
        "UpdateExpression": expression.strip(),
        "ConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def worker_of(item: Item) -> Worker | None:
    """Return a worker's entry, or None for one that has never reported."""
    worker_id = _text(item, LEASE_KEY) or _text(item, "wid")
    updated_s = _number(item, "lut")
    return None if worker_id is None or updated_s is None else Worker(worker_id, int(updated_s))


def worker_item_of(worker: Worker, key: str) -> Item:
    """Return a worker's entry as the KCL's leader takes it: without measures of its own, so by throughput."""
    item: Item = {
        key: {"S": worker.id},
        "lut": {"N": str(worker.updated_s)},
        "sts": {"M": {}},
        "opr": {"M": {}},
        ENTITY: {"S": WORKER},
    }
    # What KCL 3.5 asks of every worker before it leaves the three tables.
    item["sup"] = {"N": str(_SUPPORTS_SINGLE_TABLE)}
    item["slu"] = {"N": str(worker.updated_s)}
    return item


def leader_of(item: Item) -> Leader:
    """Return the leader's lock."""
    return Leader(
        owner=item["ownerName"]["S"],
        version=item["recordVersionNumber"]["S"],
        duration_ms=int(item["leaseDuration"]["S"]),
        is_released="isReleased" in item,
    )


def leader_item_of(leader: Leader, key: str, *, with_entity: bool) -> Item:
    """Return the item of the leader's lock."""
    item: Item = {
        key: {"S": LEADER_KEY},
        "ownerName": {"S": leader.owner},
        "recordVersionNumber": {"S": leader.version},
        "leaseDuration": {"S": str(leader.duration_ms)},
    }
    if leader.is_released:
        item["isReleased"] = {"S": "1"}
    return item | ({ENTITY: {"S": LEADER}} if with_entity else {})


def _attributes(lease: Lease) -> dict[str, Any]:
    return {
        _OWNER: _as_text(lease.owner),
        _COUNTER: {"N": str(lease.counter)},
        _CHECKPOINT_OWNER: _as_text(lease.checkpoint_owner),
        "ownerSwitchesSinceCheckpoint": {"N": str(lease.switches)},
        "checkpoint": {"S": lease.checkpoint.sequence_number},
        "checkpointSubSequenceNumber": {"N": str(lease.checkpoint.sub_sequence_number)},
        "parentShardId": {"SS": sorted(lease.parents)} if lease.parents else None,
        "childShardIds": {"SS": sorted(lease.children)} if lease.children else None,
        "startingHashKey": None if lease.start is None else {"S": str(lease.start)},
        "endingHashKey": None if lease.end is None else {"S": str(lease.end)},
        "throughputKBps": None
        if lease.throughput_kbps is None
        else {"N": f"{lease.throughput_kbps:.6f}".rstrip("0").rstrip(".")},
    }


def _as_text(value: str | None) -> Any:
    return None if value is None else {"S": value}


def _text(item: Item, name: str) -> str | None:
    return item.get(name, {}).get("S")


def _number(item: Item, name: str) -> float | None:
    text = item.get(name, {}).get("N")
    if text is None:
        return None
    # Counters are whole, and may be larger than a float tells apart.
    return float(text) if not text.lstrip("-").isdigit() else int(text)


def _hash(item: Item, name: str) -> int | None:
    text = _text(item, name)
    return None if not text else int(text)
