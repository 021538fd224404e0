"""The distributed mode without Spark: what tasks of a batch read once, whatever is repeated, killed or resharded."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headrace.spark.task_reading
from headrace.spark.metadata import FileStore, MetadataError
from headrace.spark.offsets import AtTimestamp, Offset, TrimHorizon
from headrace.spark.options import Options
from headrace.spark.plan_maker import PlanMaker
from headrace.spark.plans import groups_of, kin_of
from headrace.spark.reading import read_again
from headrace.spark.spans import DataLoss, Shard, Span
from headrace.spark.task_reading import Order, Polling, read_order
from tests.spark.fake_reads import FakeReads

OPTIONS = Options(stream="s", init=TrimHorizon(), fetch_interval_ms=0, metadata_path="?")
BEGIN = Offset("s", TrimHorizon()).to_json()


class Query:
    """A query's driver and executors on a stream in memory; it stores offsets as Spark does."""

    def __init__(
        self,
        reads: FakeReads,
        folder: Path,
        options: Options = OPTIONS,
        tasks: int = 3,
        **more: Any,
    ) -> None:
        self.reads, self.options, self.tasks, self.more = reads, options, tasks, more
        self.store = FileStore(folder)
        self.offset = BEGIN
        self.rows: list[tuple[str, str]] = []
        self.maker = self.driver()

    def driver(self) -> PlanMaker:
        return PlanMaker(
            self.reads, self.store, self.options, self.tasks, sleep=lambda _: None, **self.more
        )

    def task(self, order: Order) -> list[tuple[str, str]]:
        def source_of(shard_id: str, begin: Any) -> Polling:
            return Polling(self.reads, self.options, shard_id, begin, order.last.get(shard_id))

        batches = read_order(self.options, order, self.store, self.reads, source_of)
        rows: list[tuple[str, str]] = []
        for one in batches:
            names, numbers = (
                one.column(name).to_pylist() for name in ("shardId", "sequenceNumber")
            )
            rows += list(zip(names, numbers))  # noqa: B905 - Python 3.9 has no `strict`
        return rows

    def batch(self, most: int | None = None) -> int:
        """Run a batch; return its rows, or -1 without one."""
        end = self.maker.plan(self.offset, most)
        if end == self.offset:
            return -1
        rows = [row for order in self.maker.orders(end) for row in self.task(order)]
        self.rows += rows
        self.offset = end
        return len(rows)

    def drain(self, most: int | None = None) -> None:
        while self.batch(most) >= 0:
            pass


@pytest.fixture(autouse=True)
def read_again_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay makes its own client: have it be the stream in memory."""

    def again(options: Options, init: Any, span: Span, _: Any) -> Any:
        monkeypatch.setattr("headrace.spark.client.KinesisClient", lambda _: Query.reads_now)  # type: ignore[attr-defined]
        for records in read_again(options, init, span):
            yield headrace.spark.task_reading.with_constants(records, options.stream, span.shard_id)

    monkeypatch.setattr(headrace.spark.task_reading, "read_span", again)
    FakeReads.close = lambda self: None  # type: ignore[attr-defined]


def query_of(reads: FakeReads, folder: Path, **more: Any) -> Query:
    Query.reads_now = reads  # type: ignore[attr-defined]
    return Query(reads, folder, **more)


def everything(reads: FakeReads) -> Counter[tuple[str, str]]:
    return Counter(
        (n, number) for n, found in reads.all_records().items() for _, number, _ in found
    )


def change(reads: FakeReads, chance: random.Random) -> None:
    for shard in reads.open_shards:
        reads.put(shard, chance.randint(0, 12))
    if chance.random() < 0.5:
        reads.split(chance.choice(reads.open_shards))
    elif len(reads.open_shards) > 2:
        reads.merge(*chance.sample(reads.open_shards, 2))
    reads.clock_ms += 10
    for shard in reads.open_shards:
        reads.put(shard, chance.randint(0, 5))


def check_parents_first(query: Any, reads: FakeReads) -> None:
    first = {
        name: query.rows.index(next(r for r in query.rows if r[0] == name))
        for name, _ in query.rows
    }
    last = {
        name: len(query.rows) - 1 - [r[0] for r in reversed(query.rows)].index(name)
        for name in first
    }
    for shard in reads.shards():
        for parent in shard.parent_ids:
            if shard.shard_id in first and parent in last:
                assert last[parent] < first[shard.shard_id]


@pytest.mark.parametrize("seed", range(12))
def test_every_record_once_and_parents_first_with_repeats_and_new_drivers(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    reads = FakeReads(2, page_size=chance.randint(1, 9))
    limit = chance.choice([None, 6, 20])
    query = query_of(
        reads,
        tmp_path,
        options=replace(OPTIONS, max_records_per_shard=limit),
        tasks=chance.randint(1, 4),
    )
    most = chance.choice([None, 9, 40])
    for _ in range(6):
        change(reads, chance)
        end = query.maker.plan(query.offset, most)
        if end == query.offset:
            continue
        orders = query.maker.orders(end)
        results: dict[int, list[tuple[str, str]]] = {}
        for order in orders:
            if chance.random() < 0.7:
                results[order.number] = query.task(order)
        if chance.random() < 0.5:
            # The driver is killed in the batch: another one repeats it.
            query.maker = query.driver()
            orders = query.maker.orders(end)
        change(reads, chance)
        for order in orders:
            rows = query.task(order)
            assert results.setdefault(order.number, rows) == rows
        query.rows += [row for number in sorted(results) for row in results[number]]
        query.offset = end
    query.drain(most)
    assert Counter(query.rows) == everything(reads)
    check_parents_first(query, reads)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("most", [None, 1_000])
def test_one_batch_takes_all_with_parents_before_children(
    seed: int, most: int | None, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    reads = FakeReads(2, page_size=chance.randint(1, 9))
    for _ in range(8):
        change(reads, chance)
    query = query_of(
        reads, tmp_path, options=replace(OPTIONS, max_records_per_shard=most), one_batch=True
    )
    query.batch()
    assert Counter(query.rows) == everything(reads)


@pytest.mark.parametrize("seed", range(10))
def test_one_batch_leaves_out_the_children_of_a_shard_that_a_limit_cuts(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    reads = FakeReads(2, page_size=chance.randint(1, 9))
    for _ in range(8):
        change(reads, chance)
    options = replace(OPTIONS, max_records_per_shard=3)
    query = query_of(reads, tmp_path, options=options, one_batch=True)
    query.drain()
    assert Counter(query.rows) == everything(reads)
    check_parents_first(query, reads)


def test_two_runs_of_one_task_read_the_same_although_more_comes(tmp_path: Path) -> None:
    reads = FakeReads(1)
    (shard,) = reads.open_shards
    reads.put(shard, 5)
    query = query_of(reads, tmp_path)
    (order,) = query.maker.orders(query.maker.plan(BEGIN, None))

    class Slow(FileStore):
        """Another run of the task writes its stop between this one's read and its write."""

        def create(self, name: str, data: bytes) -> bool:
            other.append(query.task(order))
            return super().create(name, data)

    other: list[Any] = []
    fast, query_store = query.store, Slow(tmp_path)
    batches = read_order(
        OPTIONS, order, query_store, reads,
        lambda name, begin: (reads.put(shard, 3), Polling(reads, OPTIONS, name, begin, None))[1],
    )  # fmt: skip
    rows = [number for b in batches for number in b.column("sequenceNumber").to_pylist()]
    assert fast.read(order.file) is not None
    assert rows == [number for _, number in other[0]]


def test_nothing_new_is_no_batch_and_every_shard_is_asked(tmp_path: Path) -> None:
    reads = FakeReads(3)
    query = query_of(reads, tmp_path)
    query.drain()
    assert query.batch() == -1
    for shard in reads.open_shards:
        reads.put(shard, 1)
        assert query.batch() == 1
        assert query.batch() == -1


def test_a_batch_that_cannot_ask_all_shards_in_time_is_planned(tmp_path: Path) -> None:
    times = iter(range(100_000))
    reads = FakeReads(3)
    query = query_of(reads, tmp_path, clock_s=lambda: float(next(times)))
    assert query.batch() == 0
    assert query.batch() == 0


def test_available_now_ends_at_its_time_in_several_batches(tmp_path: Path) -> None:
    reads = FakeReads(2)
    for shard in reads.open_shards:
        reads.put(shard, 10)
    query = query_of(reads, tmp_path, options=replace(OPTIONS, max_records_per_shard=4))
    query.maker.stop_at_now()
    sizes = []
    reads.clock_ms += 1
    while (rows := query.batch()) >= 0:
        sizes.append(rows)
        reads.put(reads.open_shards[0], 1)
    assert sum(sizes) == 20
    assert max(sizes) == 8


def test_limits_hold_for_the_whole_batch(tmp_path: Path) -> None:
    reads = FakeReads(4)
    for shard in reads.open_shards:
        reads.put(shard, 10)
    query = query_of(reads, tmp_path)
    assert query.batch(8) == 8
    assert query.batch(2) == 2
    query.drain(2)
    assert Counter(query.rows) == everything(reads)
    bytes_ = query_of(reads, tmp_path / "b", options=replace(OPTIONS, max_bytes_per_trigger=12))
    assert bytes_.batch() == 12


def test_a_shard_that_nobody_read_comes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reads = FakeReads(2)
    for shard in reads.open_shards:
        reads.put(shard, 3)
    query = query_of(reads, tmp_path, tasks=2)
    end = query.maker.plan(BEGIN, None)
    query.rows += query.task(query.maker.orders(end)[0])
    query.offset = end
    assert query.batch() == 3
    assert Counter(query.rows) == everything(reads)
    assert "ended without its shards" in caplog.text
    # A run that ends at the present end ends even if nothing is read.
    reads.put(reads.open_shards[0], 1)
    query.maker.stop_at_now()
    after = query.maker.plan(query.offset, None)
    assert query.maker.plan(after, None) == after


def test_a_plan_that_is_gone_is_an_error(tmp_path: Path) -> None:
    reads = FakeReads(1)
    reads.put(reads.open_shards[0], 1)
    query = query_of(reads, tmp_path)
    query.batch()
    query.store = FileStore(tmp_path / "elsewhere")
    with pytest.raises(MetadataError, match="the same path at every start"):
        query.driver().plan(query.offset, None)


def test_a_lost_record_fails_a_replay(tmp_path: Path) -> None:
    reads = FakeReads(1)
    (shard,) = reads.open_shards
    reads.put(shard, 3)
    query = query_of(reads, tmp_path)
    (order,) = query.maker.orders(query.maker.plan(BEGIN, None))
    query.task(order)
    del reads._shards[shard].records[0]
    with pytest.raises(DataLoss, match="now has 2 of the 3"):
        query.task(order)


def test_a_position_older_than_the_retention_is_data_loss(tmp_path: Path) -> None:
    reads = FakeReads(1)
    (shard,) = reads.open_shards
    reads.put(shard, 3)
    query = query_of(reads, tmp_path)
    query.drain()
    reads.clock_ms += 90_000_000
    reads.put(shard, 1)
    query.maker = query.driver()
    with pytest.raises(DataLoss, match="older than the stream's retention"):
        query.batch()


def test_old_files_are_removed_and_others_queries_stay(tmp_path: Path) -> None:
    reads = FakeReads(1)
    other = query_of(reads, tmp_path)
    other.batch()
    query = query_of(reads, tmp_path, options=replace(OPTIONS, min_batches_to_retain=2))
    for _ in range(6):
        reads.put(reads.open_shards[0], 1)
        query.batch()
        query.maker.release(query.offset)
    query.maker._cleaner.shutdown(wait=True)
    lineage = query.offset["plan"].partition("/")[0]
    kept = sorted(path.name[:9] for path in (tmp_path / lineage).iterdir())
    assert kept == ["000000003", "000000004", "000000005"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_reshard_is_seen_without_a_listing_in_every_batch(tmp_path: Path) -> None:
    reads = FakeReads(1)
    listings: list[int] = []
    shards = reads.shards
    reads.shards = lambda: (listings.append(1), shards())[1]  # type: ignore[method-assign]
    query = query_of(reads, tmp_path)
    for _ in range(5):
        reads.put(reads.open_shards[0], 1)
        query.batch()
    assert len(listings) == 1
    reads.split(reads.open_shards[0])
    for shard in reads.open_shards:
        reads.put(shard, 2)
    query.drain()
    assert Counter(query.rows) == everything(reads)


def test_tasks_get_about_the_same_and_kin_stays_together() -> None:
    groups = groups_of({f"{n}": n for n in range(100)}, 7)
    sums = [sum(int(name) for name in group) for group in groups]
    assert len(groups) == 7
    assert max(sums) - min(sums) < 100
    shards = [Shard("0"), Shard("1"), Shard("2", ("0", "1")), Shard("3", ("2",)), Shard("4")]
    dealt, parents = kin_of("01234", shards, {}, 2)
    assert sorted(dealt) == [["0", "1", "2", "3"], ["4"]]
    assert parents == {"2": ["0", "1"], "3": ["2"]}


def test_iterators_save_calls(tmp_path: Path) -> None:
    reads = FakeReads(1)
    asked: list[str | None] = []
    iterator = reads.iterator
    reads.iterator = lambda *a: (asked.append(a[1]), iterator(*a))[1]  # type: ignore[method-assign]
    query = query_of(reads, tmp_path, options=replace(OPTIONS, init=AtTimestamp(0)))
    for _ in range(4):
        reads.put(reads.open_shards[0], 1)
        query.batch()
    assert asked == [None]
    reads.expire_iterators()
    reads.put(reads.open_shards[0], 1)
    query.drain()
    assert Counter(query.rows) == everything(reads)
