"""Stores of leases: the same promises in memory, in a file, and in DynamoDB in both of the KCL's forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.client.leases.dynamodb import DynamoDbLeaseStore
from headrace.client.leases.stores import (
    Checkpoint,
    FileLeaseStore,
    Leader,
    Lease,
    LeaseStore,
    MemoryLeaseStore,
    StoreError,
    Worker,
)
from tests.support.cloud import InProcessCloud

LEASE = Lease(
    key="shardId-000000000001",
    checkpoint=Checkpoint("49680594142429706487500571136722339917942897481542008850", 3),
    owner="a",
    counter=7,
    parents=frozenset({"shardId-000000000000"}),
    start=0,
    end=2**128 - 1,
    throughput_kbps=0.5,
)


@pytest.fixture(scope="module")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with InProcessCloud(tmp_path_factory.mktemp("leases") / "data") as cloud:
        yield cloud.client("dynamodb")


@pytest.fixture(params=["memory", "file", "single", "three"])
def store(request: pytest.FixtureRequest, tmp_path: Path, dynamodb: Any) -> LeaseStore:
    stores: dict[str, Any] = {
        "memory": MemoryLeaseStore,
        "file": lambda: FileLeaseStore(tmp_path / "leases.json"),
        "single": lambda: DynamoDbLeaseStore(tmp_path.name, client=dynamodb, tables="single"),
        "three": lambda: DynamoDbLeaseStore(tmp_path.name, client=dynamodb, tables="three"),
    }
    made: LeaseStore = stores[request.param]()
    made.prepare()
    made.prepare()
    return made


def test_what_is_created_is_loaded_and_stays(store: LeaseStore):
    store.create([LEASE, replace(LEASE, key="x", owner=None, parents=frozenset())])
    store.create([replace(LEASE, counter=99)])
    assert store.load().leases[LEASE.key] == LEASE
    assert store.load().leases["x"].owner is None


def test_many_leases_are_created(store: LeaseStore):
    store.create(replace(LEASE, key=f"s{i}") for i in range(30))
    assert len(store.load().leases) == 30


def test_a_write_needs_the_counter_and_the_owners(store: LeaseStore):
    store.create([LEASE])
    renewed = replace(LEASE, counter=8)
    assert store.write(LEASE, renewed)
    assert not store.write(LEASE, renewed)
    handed = replace(renewed, owner="b", checkpoint_owner="a")
    assert store.write(renewed, handed)
    # The counter is the same: the owners tell that somebody was faster.
    assert not store.write(renewed, replace(renewed, owner="c", checkpoint_owner="a"))
    # The worker that still works writes its checkpoint without touching the owners.
    assert store.write(renewed, replace(renewed, counter=9, checkpoint=Checkpoint("5")))
    assert store.load().leases[LEASE.key] == replace(handed, counter=9, checkpoint=Checkpoint("5"))
    given = store.load().leases[LEASE.key]
    assert store.write(given, replace(given, checkpoint_owner=None, owner=None, counter=10))
    assert store.load().leases[LEASE.key].worker is None
    missing = replace(LEASE, key="none")
    assert not store.write(missing, replace(missing, counter=8))


def test_a_delete_needs_the_counter(store: LeaseStore):
    store.create([LEASE])
    assert not store.delete(replace(LEASE, counter=1))
    assert store.delete(LEASE)
    assert store.load().leases == {}


def test_workers_report_and_leave(store: LeaseStore):
    store.report(Worker("a", 100))
    store.report(Worker("a", 200))
    assert store.load().workers == {"a": Worker("a", 200)}
    store.forget("a")
    assert store.load().workers == {}


def test_one_worker_leads(store: LeaseStore):
    first, second = Leader("a", "v1", 20_000), Leader("b", "v2", 20_000)
    assert store.lead(None, first)
    assert not store.lead(None, second)
    assert store.load().leader == first
    released = replace(first, version="v3", is_released=True)
    assert store.lead(first, released)
    assert store.load().leader == released
    assert store.lead(released, second)
    assert store.load().leader == second


def test_all_entities_live_in_one_table_side_by_side(dynamodb: Any):
    store = DynamoDbLeaseStore("side-by-side", client=dynamodb)
    store.prepare()
    store.create([LEASE])
    store.report(Worker("a", 100))
    store.lead(None, Leader("a", "v", 1000))
    dynamodb.put_item(
        TableName="side-by-side",
        Item={"leaseKey": {"S": "TableMigration3.5"}, "entityType": {"S": "TABLE_MIGRATION"}},
    )
    table = store.load()
    assert (list(table.leases), list(table.workers)) == ([LEASE.key], ["a"])
    items = dynamodb.scan(TableName="side-by-side")["Items"]
    kinds = {item["leaseKey"]["S"]: item["entityType"]["S"] for item in items}
    assert kinds == {
        LEASE.key: "LEASE", "a": "WORKER_METRIC_STATS", "Leader": "LEADER", "TableMigration3.5": "TABLE_MIGRATION",
    }  # fmt: skip


def test_a_lease_is_the_kcls_item(dynamodb: Any):
    store = DynamoDbLeaseStore("kcl-item", client=dynamodb)
    store.prepare()
    store.create([replace(LEASE, children=frozenset({"c"}))])
    (item,) = dynamodb.scan(TableName="kcl-item")["Items"]
    # As kcl-rs 0.1.4 wrote it on headrace, and as DynamoDBLeaseSerializer reads it (observed, 2026-11-26).
    assert item == {
        "leaseKey": {"S": "shardId-000000000001"},
        "leaseOwner": {"S": "a"},
        "leaseCounter": {"N": "7"},
        "ownerSwitchesSinceCheckpoint": {"N": "0"},
        "checkpoint": {"S": "49680594142429706487500571136722339917942897481542008850"},
        "checkpointSubSequenceNumber": {"N": "3"},
        "parentShardId": {"SS": ["shardId-000000000000"]},
        "childShardIds": {"SS": ["c"]},
        "startingHashKey": {"S": "0"},
        "endingHashKey": {"S": "340282366920938463463374607431768211455"},
        "throughputKBps": {"N": "0.5"},
        "entityType": {"S": "LEASE"},
    }


def test_the_form_of_a_kcl_3_1_application_is_found(dynamodb: Any):
    DynamoDbLeaseStore("old-form", client=dynamodb, tables="three").prepare()
    store = DynamoDbLeaseStore("old-form", client=dynamodb)
    store.prepare()
    store.report(Worker("a", 100))
    (worker,) = dynamodb.scan(TableName="old-form-WorkerMetricStats")["Items"]
    assert (worker["wid"], worker["lut"]) == ({"S": "a"}, {"N": "100"})


def test_a_table_of_another_kind_is_refused(dynamodb: Any):
    dynamodb.create_table(
        TableName="orders",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    with pytest.raises(StoreError, match="the table orders is not a lease table"):
        DynamoDbLeaseStore("orders", client=dynamodb).prepare()
