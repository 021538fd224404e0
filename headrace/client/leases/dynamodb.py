"""Leases in DynamoDB in the format of the Kinesis Client Library, so that its workers and ours share an application.

Two forms: KCL 3.5's single table (documented: kcl-single-table-format.html; observed: kcl-rs 0.1.4), and the older one
with the tables NAME-WorkerMetricStats and NAME-CoordinatorState beside the leases (observed: KCL 3.1.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from headrace.client.access import AwsAccess
from headrace.client.leases.items import (
    ENTITY,
    LEADER,
    LEADER_KEY,
    LEASE_KEY,
    changes_of,
    is_lease,
    is_worker,
    item_of,
    leader_item_of,
    leader_of,
    lease_of,
    worker_item_of,
    worker_of,
)
from headrace.client.leases.lease import Leader, Lease, Table, Worker
from headrace.client.leases.stores import StoreError

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
        description = self._described(self._name)
        if self._tables == "auto":
            self._is_single = self._described(self._coordinator) is None
        if description is None:
            self._create(self._name, LEASE_KEY, with_index=True)
            description = self._described(self._name)
        keys = [key["AttributeName"] for key in (description or {}).get("KeySchema", ())]
        if keys != [LEASE_KEY]:
            raise StoreError(
                f"the table {self._name} is not a lease table: its key is {keys}, not [{LEASE_KEY!r}]"
            )
        if not self._is_single:
            for name, key in ((self._coordinator, "key"), (self._workers, "wid")):
                if self._described(name) is None:
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

    def _described(self, table: str) -> dict[str, Any] | None:
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
