"""Workers that share leases, on virtual time: kills, handoffs, reshards. One thread, seeded."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import cbor2
import pytest

from headrace.client.hash_keys import ShardRange
from headrace.client.leases.coordinator import Coordinator
from headrace.client.leases.stores import (
    TRIM_HORIZON,
    Checkpoint,
    Lease,
    MemoryLeaseStore,
    StoreError,
)
from tests.support.clock import FakeClock
from tests.support.fake_stream import FakeStream

FAILOVER_S = 10.0
CHECKPOINT_EVERY_S = 2.0


class SimulatedWorker:
    """A worker whose reading and processing are steps that a test takes."""

    def __init__(self, name: str, group: SimulatedGroup) -> None:
        self.name, self.group = name, group
        self.places: dict[str, int] = {}
        self.draining: set[str] = set()
        self.unwritten: Counter[str] = Counter()
        self.coordinator = Coordinator(
            group.store, group.stream, self, worker_id=name, initial=Checkpoint(TRIM_HORIZON),
            initial_filter={"Type": "AT_TRIM_HORIZON"}, clock=group.clock,  # type: ignore[arg-type]
            failover_s=FAILOVER_S, shard_sync_s=30.0,
        )  # fmt: skip

    def begin(self, lease: Lease) -> None:
        rows = self.group.stream.records[lease.key]
        number = lease.checkpoint.sequence_number
        numbers = [row["SequenceNumber"] for row in rows]
        self.places[lease.key] = numbers.index(number) + 1 if lease.checkpoint.is_number else 0

    def drain(self, key: str) -> None:
        self.places.pop(key, None)
        self.coordinator.note_drained(key)

    def lose(self, key: str) -> None:
        self.places.pop(key, None)

    def read(self) -> None:
        stream = self.group.stream
        for key, place in list(self.places.items()):
            page = json.loads(stream.page(key, place, 3))
            for row in page["Records"]:
                self.group.seen.append((row["PartitionKey"], int(row["SequenceNumber"])))
                self.unwritten[key] += 1
            self.places[key] = place + len(page["Records"])
            if page["Records"]:
                self.coordinator.note_processed(
                    key, Checkpoint(page["Records"][-1]["SequenceNumber"])
                )
            if "NextShardIterator" not in page:
                del self.places[key]
                self.coordinator.note_ended(key, [ShardRange.of(c) for c in page["ChildShards"]])


class SimulatedGroup:
    """A stream, a store, workers, and what they have seen."""

    def __init__(self, seed: int, shards: int) -> None:
        self.chance = random.Random(seed)
        self.clock, self.store, self.stream = FakeClock(), MemoryLeaseStore(), FakeStream(shards)
        self.workers: list[SimulatedWorker] = []
        self.seen: list[tuple[str, int]] = []
        self.lost_work = 0
        self._next = 0
        self._names = 0

    def join(self) -> SimulatedWorker:
        self._names += 1
        worker = SimulatedWorker(f"worker-{self._names}", self)
        self.workers.append(worker)
        worker.coordinator.tick()
        return worker

    def kill(self, worker: SimulatedWorker) -> None:
        self.workers.remove(worker)
        self.lost_work += worker.unwritten.total()

    def put(self, count: int) -> None:
        entries: list[Any] = []
        for _ in range(count):
            self._next += 1
            entries.append({"Data": b"x", "PartitionKey": f"key-{self.chance.randrange(20)}"})
        self.stream.call("PutRecords", cbor2.dumps({"Records": entries}), "")

    def reshard(self) -> None:
        shards = sorted(self.stream.open.values(), key=lambda shard: shard.start)
        if len(shards) > 1 and self.chance.random() < 0.5:
            at = self.chance.randrange(len(shards) - 1)
            self.stream.merge(shards[at].shard_id, shards[at + 1].shard_id)
        else:
            self.stream.split(self.chance.choice(shards).shard_id)

    def run(self, seconds: float) -> None:
        for step in range(int(seconds)):
            self.clock.advance(1)
            for worker in list(self.workers):
                worker.read()
                if step % int(CHECKPOINT_EVERY_S) == 0:
                    worker.coordinator.write_checkpoints()
                    worker.unwritten.clear()
                if step % 3 == 0:
                    worker.coordinator.tick()
                    worker.unwritten.clear()

    def is_drained(self) -> bool:
        return len({number for _, number in self.seen}) == self._next


def test_a_worker_alone_begins_at_its_first_tick():
    group = SimulatedGroup(0, 4)
    worker = group.join()
    assert len(worker.places) == 4
    assert worker.coordinator.is_leader


def test_a_second_worker_gets_half_without_a_record_twice():
    group = SimulatedGroup(0, 4)
    group.put(200)
    first, second = group.join(), group.join()
    group.run(30)
    assert (len(first.places), len(second.places)) == (2, 2)
    group.put(200)
    group.run(60)
    assert group.is_drained()
    assert len(group.seen) == 400


def test_a_worker_that_leaves_gives_its_shards_back_at_once():
    group = SimulatedGroup(0, 4)
    first, second = group.join(), group.join()
    group.run(30)
    first.coordinator.leave()
    group.workers.remove(first)
    group.run(4)
    assert len(second.places) == 4
    assert second.coordinator.is_leader


def test_a_dead_leaders_shards_are_taken():
    group = SimulatedGroup(0, 4)
    first, second = group.join(), group.join()
    group.run(30)
    group.kill(first)
    group.run(4 * FAILOVER_S)
    assert len(second.places) == 4


def test_the_same_worker_goes_on_at_once_after_a_crash():
    group = SimulatedGroup(0, 2)
    group.kill(group.join())
    again = SimulatedWorker("worker-1", group)
    again.coordinator.tick()
    assert len(again.places) == 2


def test_a_wall_clock_that_jumps_costs_nobody_a_lease(monkeypatch: pytest.MonkeyPatch):
    group = SimulatedGroup(0, 4)
    first, second = group.join(), group.join()
    group.run(30)
    monkeypatch.setattr(FakeClock, "now_ms", lambda self: int(self._now_ms) + 86_400_000)
    group.run(5)
    monkeypatch.setattr(FakeClock, "now_ms", lambda self: int(self._now_ms) - 86_400_000)
    group.run(60)
    assert (len(first.places), len(second.places)) == (2, 2)
    assert first.coordinator.counts.lost == second.coordinator.counts.lost == 0


def test_a_worker_that_could_not_renew_gives_up():
    group = SimulatedGroup(0, 2)
    worker = group.join()
    group.clock.advance(FAILOVER_S + 1)
    worker.coordinator.expire()
    assert worker.places == {}


def test_a_throttled_write_costs_no_other_lease_its_renewal(monkeypatch: pytest.MonkeyPatch):
    group = SimulatedGroup(0, 4)
    worker = group.join()
    write = group.store.write

    def throttled(old: Lease, new: Lease) -> bool:
        if old.key == "shardId-000000000000":
            raise OSError("throttled")
        return write(old, new)

    monkeypatch.setattr(group.store, "write", throttled)
    group.clock.advance(5)
    with pytest.raises(OSError, match="throttled"):
        worker.coordinator.tick()
    counters = {key[-1]: lease.counter for key, lease in group.store.load().leases.items()}
    assert counters == {"0": 0, "1": 1, "2": 1, "3": 1}


def test_leases_of_another_stream_are_refused():
    group = SimulatedGroup(0, 1)
    group.store.create([Lease("shardId-000000000099", Checkpoint("5"))])
    with pytest.raises(StoreError, match="none of the table's leases is of a shard of this stream"):
        group.join()


def test_leases_of_several_streams_are_refused():
    group = SimulatedGroup(0, 1)
    group.store.create([Lease("1:other:2:shardId-000000000000", Checkpoint("5"))])
    with pytest.raises(StoreError, match="reads several streams"):
        group.join()


def test_five_hundred_shards_at_once():
    group = SimulatedGroup(0, 1)
    first, second = group.join(), group.join()
    group.stream = FakeStream(500)
    for worker in (first, second):
        worker.coordinator._leadership._shards = group.stream
    group.run(90)
    assert len(first.places) + len(second.places) == 500
    assert abs(len(first.places) - len(second.places)) < 60


@pytest.mark.parametrize("seed", range(40))
def test_kills_and_reshards_lose_nothing_and_keep_the_order_of_keys(seed: int):
    group = SimulatedGroup(seed, 3)
    for _ in range(3):
        group.join()
    for _ in range(25):
        group.put(group.chance.randrange(30))
        event = group.chance.random()
        if event < 0.3:
            group.reshard()
        elif event < 0.45 and len(group.workers) > 1:
            group.kill(group.chance.choice(group.workers))
        elif event < 0.55 or len(group.workers) < 3:
            group.join()
        group.run(group.chance.randrange(2, 12))
    for _ in range(40):
        if group.is_drained():
            break
        group.run(20)
    assert group.is_drained()
    first: dict[str, list[int]] = {}
    for key, number in group.seen:
        if number not in first.setdefault(key, []):
            first[key].append(number)
    assert all(numbers == sorted(numbers) for numbers in first.values())
    # Twice: what a killed worker had not yet written, and nothing else.
    assert len(group.seen) - len({n for _, n in group.seen}) <= group.lost_work


def test_a_worker_that_never_reported_itself_deletes_nothing() -> None:
    # The table may be another application's: the store refused it.
    group = SimulatedGroup(seed=1, shards=1)
    forgotten: list[str] = []
    group.store.forget = forgotten.append  # type: ignore[method-assign]
    SimulatedWorker("early", group).coordinator.leave()
    assert forgotten == []
    group.join().coordinator.leave()
    assert forgotten == ["worker-1"]
