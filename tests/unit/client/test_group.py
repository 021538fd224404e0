"""A group's loop over a stream without a cloud: checkpoints, shards that end, errors, poison."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import pytest
from botocore.exceptions import ClientError

from headrace.client.aggregation import aggregate
from headrace.client.group import ConsumerGroup, GroupError
from headrace.client.leases.stores import SHARD_END, FileLeaseStore, MemoryLeaseStore, StoreError
from headrace.client.processing import Poison, Processor, run
from headrace.client.records import Batch, Record
from headrace.client.wire import ServiceError, WireError
from tests.support.fake_stream import FakeStream, throttle
from tests.support.server import wait_until


def group_of(stream: FakeStream, store: Any, **options: Any) -> ConsumerGroup:
    settings = {"checkpoint_every_s": 0.01, "idle_s": 0.001, "worker_id": "me", **options}
    return ConsumerGroup(
        "app", "s", store=store, streams=stream, make_wire=lambda: stream, **settings
    )  # type: ignore[arg-type]


def put(stream: FakeStream, *data: bytes, key: str = "k") -> None:
    entries = [{"Data": item, "PartitionKey": key} for item in data]
    stream.call("PutRecords", cbor2.dumps({"Records": entries}))


def take(batches: Iterator[Batch], count: int) -> list[bytes]:
    data: list[bytes] = []
    while len(data) < count:
        data += [record.data for record in next(batches)]
    return data


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return (
        MemoryLeaseStore()
        if request.param == "memory"
        else FileLeaseStore(tmp_path / "leases.json")
    )


def test_the_loop_goes_on_where_the_last_one_stopped(store: Any):
    stream = FakeStream()
    put(stream, b"1", b"2")
    with group_of(stream, store) as group:
        batches = iter(group)
        assert take(batches, 2) == [b"1", b"2"]
        put(stream, b"3")
        assert take(batches, 1) == [b"3"]
    put(stream, b"4")
    with group_of(stream, store) as group:
        # The batch with 3 was not processed: nobody had asked for the next one.
        assert take(iter(group), 2) == [b"3", b"4"]


def test_by_hand_a_batch_may_be_checkpointed_in_part():
    stream, store = FakeStream(), MemoryLeaseStore()
    put(stream, b"1", b"2", b"3")
    with group_of(stream, store, checkpoint="manual") as group:
        batch = next(iter(group))
        assert batch.checkpoint(batch.records[1])
    with group_of(stream, store) as group:
        assert take(iter(group), 1) == [b"3"]


def test_an_aggregate_may_be_checkpointed_in_part_and_foreign_records_are_dropped():
    stream, store = FakeStream(2), MemoryLeaseStore()
    hashes = {0: "0", 1: "0", 2: str(2**128 - 1), 3: "0"}
    blob = aggregate(["k"] * 4, [b"a", b"b", b"foreign", b"c"], hashes)
    entry = {"Data": blob, "PartitionKey": "k", "ExplicitHashKey": "0"}
    stream.call("PutRecords", cbor2.dumps({"Records": [entry]}))
    with group_of(stream, store, checkpoint="manual") as group:
        batch = next(iter(group))
        assert [(r.data, r.sub_sequence_number) for r in batch] == [(b"a", 0), (b"b", 1), (b"c", 3)]
        batch.checkpoint(batch.records[1])
        assert group.metrics().foreign == 1
    with group_of(stream, store) as group:
        assert take(iter(group), 1) == [b"c"]


def test_children_are_read_after_their_parents():
    stream, store = FakeStream(), MemoryLeaseStore()
    put(stream, b"1")
    left, right = stream.split("shardId-000000000000")
    put(stream, b"2", key="a")
    stream.merge(left.shard_id, right.shard_id)
    put(stream, b"3", key="a")
    with group_of(stream, store) as group:
        batches = iter(group)
        assert take(batches, 3) == [b"1", b"2", b"3"]
        wait_until(
            lambda: set(group.metrics().shards) == {"shardId-000000000003"}, what="the last shard"
        )
    leases = store.load().leases
    ended = [key for key, lease in leases.items() if lease.checkpoint.sequence_number == SHARD_END]
    assert sorted(ended) == [f"shardId-{i:012d}" for i in range(3)]


@pytest.mark.parametrize(
    "error",
    [
        ServiceError("ExpiredIteratorException", "old", 400),
        throttle(),
        WireError("lost"),
        ServiceError("InternalFailure", "", 500),
        ServiceError("ExpiredTokenException", "old keys", 400),
    ],
)
def test_errors_that_pass_lose_and_repeat_nothing(error: Exception):
    stream = FakeStream()
    put(stream, *(b"%d" % i for i in range(50)))
    stream.read_faults = [None, error, None, None, error, error]
    with group_of(stream, MemoryLeaseStore(), max_records=10) as group:
        assert take(iter(group), 50) == [b"%d" % i for i in range(50)]


def test_a_stream_that_is_gone_stops_the_loop_with_an_advice():
    stream = FakeStream()
    stream.read_faults = [ServiceError("ResourceNotFoundException", "no stream", 400)]
    with (
        group_of(stream, MemoryLeaseStore()) as group,
        pytest.raises(GroupError, match="Was the stream deleted, or made anew"),
    ):
        next(iter(group))


def test_a_wrong_table_stops_the_start(tmp_path: Path):
    (tmp_path / "leases.json").write_text("[]")
    with pytest.raises(GroupError, match="is not a file of leases"):
        group_of(FakeStream(), FileLeaseStore(tmp_path / "leases.json")).start()


def test_a_stream_that_is_not_there_stops_the_start_with_a_sentence_and_nobody_waits_for_it():
    stream, store = FakeStream(), MemoryLeaseStore()
    put(stream, b"a")
    refusal = {"Code": "ResourceNotFoundException", "Message": "Stream s not found."}

    def refuse(*_: Any) -> Any:
        raise ClientError({"Error": refusal}, "ListShards")

    shards, stream.shards = stream.shards, refuse  # type: ignore[method-assign]
    sentence = "^app cannot read s: ResourceNotFoundException: Stream s not found.$"
    with group_of(stream, store) as group:
        for _ in range(2):
            with pytest.raises(GroupError, match=sentence) as raised:
                group.start()
            assert isinstance(raised.value.__cause__, ClientError)
        leader = store.load().leader
        assert leader is None or leader.is_released
        stream.shards = shards  # type: ignore[method-assign]
        assert take(iter(group), 1) == [b"a"]


def test_an_application_of_another_stream_with_the_same_name_costs_no_record(
    caplog: pytest.LogCaptureFixture,
):
    stream, other, store = FakeStream(2), FakeStream(1), MemoryLeaseStore()
    with group_of(stream, store, start="LATEST") as group:
        group.start()
        wait_until(lambda: set(group.metrics().shards.values()) == {0})
        for i in range(20):
            put(stream, b"before", key=f"k{i}")
        while group.metrics().records < 20:
            batch = group.next_batch()
            assert batch is not None
            group.finish(batch)
    for i in range(20):
        put(stream, b"%d" % i, key=f"k{i}")
    other.read_faults = [ServiceError("InvalidArgumentException", "not of this stream", 400)] * 9
    with (
        group_of(other, store, start="LATEST") as wrong,
        pytest.raises(GroupError, match="Was the stream deleted, or made anew"),
    ):
        next(iter(wrong))
    assert "The lease of shardId-000000000001 stays" in caplog.text
    seen: set[bytes] = set()
    with group_of(stream, store, start="LATEST") as group:
        for batch in group:
            seen |= {record.data for record in batch}
            if seen >= {b"%d" % i for i in range(20)}:
                break


class FailingStore(MemoryLeaseStore):
    """A store whose writes are throttled for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0

    def write(self, old: Any, new: Any) -> bool:
        if self.failures > 0:
            self.failures -= 1
            raise OSError("the table is throttled")
        return super().write(old, new)


def test_a_throttled_table_is_tried_again():
    stream, store = FakeStream(), FailingStore()
    put(stream, b"1")
    with group_of(stream, store) as group:
        group.start()
        store.failures = 3
        batches = iter(group)
        assert take(batches, 1) == [b"1"]
        put(stream, b"2")
        assert take(batches, 1) == [b"2"]
        wait_until(
            lambda: store.load().leases["shardId-000000000000"].checkpoint.is_number,
            what="the checkpoint",
        )
    assert store.failures == 0


def test_a_store_that_breaks_for_good_stops_the_loop():
    stream, store = FakeStream(), FailingStore()
    with group_of(stream, store, failover_s=0.05) as group:
        group.start()

        def broken(*_: Any) -> Any:
            raise StoreError("the table was replaced")

        store.load = broken  # type: ignore[method-assign]
        with pytest.raises(GroupError, match="the table was replaced"):
            next(iter(group))


def test_a_batch_that_is_held_for_long_is_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headrace.client.group._HELD_FOR_S", 0.0)
    stream = FakeStream()
    put(stream, b"1")
    with group_of(stream, MemoryLeaseStore()) as group:
        assert group.next_batch(5) is not None
        wait_until(lambda: "A batch of shardId-000000000000 has been in process" in caplog.text)


def test_a_worker_that_holds_a_batch_for_too_long_leaves_its_shards_until_it_is_done():
    stream, store = FakeStream(2), MemoryLeaseStore()
    put(stream, b"1")
    with (
        group_of(stream, store, worker_id="a", failover_s=0.3, hold_at_most_s=0.2) as stuck,
        group_of(stream, store, worker_id="b", failover_s=0.3) as other,
    ):
        batch = stuck.next_batch(5)
        assert batch is not None
        other.start()
        wait_until(lambda: len(other.metrics().shards) == 2, what="the stuck worker's shards")
        again = other.next_batch(5)
        assert again is not None
        assert [record.data for record in again] == [b"1"]
        assert not stuck.metrics().shards
        # Nobody else's checkpoint is overwritten, and the worker takes its share again.
        other.finish(again)
        assert not batch.checkpoint()
        stuck.finish(batch)
        wait_until(lambda: len(stuck.metrics().shards) == 1, what="a share for who came back")
        put(stream, b"2")
        late: list[bytes] = []
        while not late:
            for group in (stuck, other):
                got = group.next_batch(0.01)
                if got is not None:
                    late += [record.data for record in got]
                    group.finish(got)
        assert late == [b"2"]


def test_not_all_of_many_shards_that_are_behind_is_held_in_memory():
    stream = FakeStream(100)
    for i in range(2000):
        put(stream, b"%d" % i, key=f"key-{i}")
    with group_of(stream, MemoryLeaseStore(), max_records=1) as group:
        group.start()
        wait_until(lambda: len(group._readings._ready) >= 32, what="a full buffer")
        assert len(group._readings._ready) <= 32 + 2
        assert len(take(iter(group), 2000)) == 2000


# A class and threads.


class Notes(Processor):
    def __init__(self, group: ConsumerGroup, until: int, bad: bytes | None = None) -> None:
        self.group, self.until, self.bad = group, until, bad
        self.data: list[bytes] = []
        self.attempts = 0
        self._lock = threading.Lock()

    def process(self, batch: Batch) -> None:
        with self._lock:
            self.attempts += 1
            if any(record.data == self.bad for record in batch):
                raise ValueError("poison")
            self.data += [record.data for record in batch]
            if len(self.data) >= self.until:
                threading.Thread(target=self.group.close).start()


def test_threads_process_shards_in_parallel():
    stream = FakeStream(4)
    for i in range(100):
        put(stream, b"%d" % i, key=f"key-{i}")
    group = group_of(stream, MemoryLeaseStore())
    notes = Notes(group, 100)
    run(group, notes, threads=3)
    assert sorted(notes.data) == sorted(b"%d" % i for i in range(100))


def test_a_poisoned_record_is_skipped_and_told():
    stream = FakeStream()
    put(stream, b"1", b"bad", b"2")
    group = group_of(stream, MemoryLeaseStore())
    notes, skipped = Notes(group, 2, bad=b"bad"), list[Record]()
    run(
        group,
        notes,
        poison=Poison(
            retries=1,
            first_pause_s=0.001,
            then="skip",
            on_skip=lambda record, _: skipped.append(record),
        ),
    )
    assert (notes.data, [record.data for record in skipped]) == ([b"1", b"2"], [b"bad"])


def test_a_poisoned_record_stops_the_run_and_is_read_again():
    stream, store = FakeStream(), MemoryLeaseStore()
    put(stream, b"bad")
    group = group_of(stream, store)
    notes = Notes(group, 1, bad=b"bad")
    with pytest.raises(GroupError, match="could not be processed: poison"):
        run(group, notes, threads=2, poison=Poison(retries=2, first_pause_s=0.001))
    assert notes.attempts == 3
    with group_of(stream, store) as again:
        assert take(iter(again), 1) == [b"bad"]


def test_a_batch_given_back_unprocessed_comes_again():
    stream = FakeStream()
    put(stream, b"1")
    with group_of(stream, MemoryLeaseStore()) as group:
        batch = group.next_batch(5)
        assert batch is not None
        group.finish(batch, is_processed=False)
        again = group.next_batch(5)
        assert again is not None
        assert [record.data for record in again] == [b"1"]


def test_two_workers_share_the_shards_and_hand_over():
    stream, store = FakeStream(4), MemoryLeaseStore()
    for i in range(40):
        put(stream, b"%d" % i, key=f"key-{i}")
    with (
        group_of(stream, store, worker_id="a", failover_s=0.3) as first,
        group_of(stream, store, worker_id="b", failover_s=0.3) as second,
    ):
        first.start()
        second.start()
        wait_until(lambda: len(second.metrics().shards) == 2, what="a share for the second worker")
        assert second.metrics().lost_leases == 0
        data: set[bytes] = set()
        while len(data) < 40:
            for group in (first, second):
                batch = group.next_batch(0.01)
                if batch is not None:
                    data |= {record.data for record in batch}
                    group.finish(batch)


class CountingStore(MemoryLeaseStore):
    """A store that counts what it is asked, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def _do(self, change: Any, *, writes: bool = True) -> Any:
        self.calls += 1
        return super()._do(change, writes=writes)

    def _do_leading(self, old: Any, new: Any) -> bool:
        self.calls += 1
        return super()._do_leading(old, new)


def test_a_worker_alone_asks_little_before_its_first_record():
    stream, store = FakeStream(4), CountingStore()
    for i in range(20):
        put(stream, b"%d" % i, key=f"key-{i}")
    with group_of(stream, store, checkpoint_every_s=60.0) as group:
        assert next(iter(group)).records
        # It waits for no clock: at 100 ms each, with those of the table and the iterator, it begins within 3 s.
        assert store.calls + stream.listed <= 10
