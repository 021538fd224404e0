"""Leases in DynamoDB in the format of the Kinesis Client Library, so that its workers and ours share an application.

Two forms: KCL 3.5's single table (documented: kcl-single-table-format.html; observed: kcl-rs 0.1.4), and the older one
with the tables NAME-WorkerMetricStats and NAME-CoordinatorState beside the leases (observed: KCL 3.1.3).

The items of a lease table, attribute by attribute as the Kinesis Client Library writes and reads them.

Source: awslabs/amazon-kinesis-client, DynamoDBLeaseSerializer, EntityType, WorkerMetricStats; dynamodb-lock-client
1.3.0 (documented), and the tables that KCL 3.1.3 and kcl-rs 0.1.4 have made on headrace (observed, 2026-11).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal

from headrace.client.access import AwsAccess
from headrace.client.leases.stores import Checkpoint, Leader, Lease, StoreError, Table, Worker

_OWNER_INDEX = "LeaseOwnerToLeaseKeyIndex"
_WRITERS = 8
_LOG = logging.getLogger("headrace.client")


class DynamoDbLeaseStore:
    """An application's leases in DynamoDB. See `LeaseStore`. Thread-safe."""

    def __init__(
        self,
        application: str,
        *,
        access: AwsAccess | None = None,
        tables: Literal["auto", "single", "three"] = "auto",
        client: Any = None,
    ) -> None:
        """Take the application's name, which is the table's. This sends nothing yet.

        Args:
            application: as the KCL's applicationName.
            access: credentials and endpoint.
            tables: the form; `auto` takes three tables when there is one of them, else a single one.
            client: a boto3 client, instead of one made from `access`.
        """
        self._name = application
        self._access = access or AwsAccess()
        self._own_client = client
        self._tables: Literal["auto", "single", "three"] = tables
        self._is_single = tables != "three"
        self._lock = threading.Lock()

    @property
    def _client(self) -> Any:
        return self._own_client or self._access.client("dynamodb")

    def prepare(self) -> None:
        """See `LeaseStore.prepare`. Raises StoreError when a table of this name is not one of leases."""
        client = self._client
        description = self._describe_table(self._name)
        if self._tables == "auto":
            self._is_single = self._describe_table(self._coordinator) is None
        if description is None:
            self._create(self._name, LEASE_KEY, with_index=True)
            description = self._describe_table(self._name)
        keys = [key["AttributeName"] for key in (description or {}).get("KeySchema", ())]
        if keys != [LEASE_KEY]:
            raise StoreError(
                f"the table {self._name} is not a lease table: its key is {keys}, not [{LEASE_KEY!r}]"
            )
        if not self._is_single:
            for name, key in ((self._coordinator, "key"), (self._workers, "wid")):
                if self._describe_table(name) is None:
                    self._create(name, key)
        for name in self._all_tables():
            client.get_waiter("table_exists").wait(
                TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
            )

    def load(self) -> Table:
        """See `LeaseStore.load`. Consistent per item."""
        items = self._scan(self._name)
        if self._is_single:
            workers, leader_item = [i for i in items if is_worker(i)], self._leader_in(items)
        else:
            workers = self._scan(self._workers)
            leader_item = self._leader_in(self._scan(self._coordinator))
        return Table(
            {lease.key: lease for lease in map(lease_of, filter(is_lease, items))},
            {w.id: w for w in (worker_of(item) for item in workers) if w is not None},
            None if leader_item is None else leader_of(leader_item),
        )

    def create(self, leases: Iterable[Lease]) -> None:
        """See `LeaseStore.create`."""

        def create(lease: Lease) -> None:
            self._succeeds(
                self._client.put_item,
                TableName=self._name,
                Item=item_of(lease, with_entity=self._is_single),
                ConditionExpression=f"attribute_not_exists({LEASE_KEY})",
            )

        new = list(leases)
        if len(new) <= 2:
            for lease in new:
                create(lease)
            return
        # 500 shards may appear at once.
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(create, new))

    def write(self, old: Lease, new: Lease) -> bool:
        """See `LeaseStore.write`."""
        return self._succeeds(
            self._client.update_item,
            TableName=self._name,
            Key={LEASE_KEY: {"S": old.key}},
            **changes_of(old, new),
        )

    def delete(self, lease: Lease) -> bool:
        """See `LeaseStore.delete`."""
        return self._succeeds(
            self._client.delete_item,
            TableName=self._name,
            Key={LEASE_KEY: {"S": lease.key}},
            ConditionExpression="leaseCounter = :counter",
            ExpressionAttributeValues={":counter": {"N": str(lease.counter)}},
        )

    def report(self, worker: Worker) -> None:
        """See `LeaseStore.report`."""
        key = LEASE_KEY if self._is_single else "wid"
        table = self._name if self._is_single else self._workers
        self._client.put_item(TableName=table, Item=worker_item_of(worker, key))

    def forget(self, worker_id: str) -> None:
        """See `LeaseStore.forget`."""
        key = LEASE_KEY if self._is_single else "wid"
        table = self._name if self._is_single else self._workers
        self._client.delete_item(TableName=table, Key={key: {"S": worker_id}})

    def lead(self, old: Leader | None, new: Leader) -> bool:
        """See `LeaseStore.lead`. The item is that of AWS's DynamoDB lock client, which the KCL uses."""
        key = LEASE_KEY if self._is_single else "key"
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(#k)"}
        names = {"#k": key}
        if old is not None:
            condition["ConditionExpression"] = "recordVersionNumber = :version"
            condition["ExpressionAttributeValues"] = {":version": {"S": old.version}}
            names = {}
        if names:
            condition["ExpressionAttributeNames"] = names
        return self._succeeds(
            self._client.put_item,
            TableName=self._name if self._is_single else self._coordinator,
            Item=leader_item_of(new, key, with_entity=self._is_single),
            **condition,
        )

    @property
    def _coordinator(self) -> str:
        return f"{self._name}-CoordinatorState"

    @property
    def _workers(self) -> str:
        return f"{self._name}-WorkerMetricStats"

    def _all_tables(self) -> list[str]:
        others = [] if self._is_single else [self._coordinator, self._workers]
        return [self._name, *others]

    def _leader_in(self, items: list[dict[str, Any]]) -> dict[str, Any] | None:
        key = LEASE_KEY if self._is_single else "key"
        for item in items:
            is_leader = item.get(ENTITY, {}).get("S", LEADER) == LEADER
            if item[key].get("S") == LEADER_KEY and is_leader:
                return item
        return None

    def _scan(self, table: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        request: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
        while True:
            answer = self._client.scan(**request)
            items += answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return items
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _describe_table(self, table: str) -> dict[str, Any] | None:
        client = self._client
        try:
            return client.describe_table(TableName=table)["Table"]
        except client.exceptions.ResourceNotFoundException:
            return None

    def _create(self, table: str, key: str, *, with_index: bool = False) -> None:
        client = self._client
        request: dict[str, Any] = {
            "TableName": table,
            "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        }
        if with_index:
            # The KCL finds a worker's leases with it, and adds it where it is missing.
            request["AttributeDefinitions"].append(
                {"AttributeName": "leaseOwner", "AttributeType": "S"}
            )
            request["GlobalSecondaryIndexes"] = [
                {
                    "IndexName": _OWNER_INDEX,
                    "KeySchema": [
                        {"AttributeName": "leaseOwner", "KeyType": "HASH"},
                        {"AttributeName": key, "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ]
        try:
            client.create_table(**request)
            _LOG.info("The table %s is made", table)
        except client.exceptions.ResourceInUseException:
            _LOG.info("Another worker has made the table %s", table)

    def _succeeds(self, call: Any, **request: Any) -> bool:
        try:
            call(**request)
        except self._client.exceptions.ConditionalCheckFailedException:
            return False
        return True


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
