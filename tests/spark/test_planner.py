"""The planner over a stream in memory: exactly once and in order, through reshards, crashes and replays."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.spark.offsets import (
    AtSequenceNumber,
    AtTimestamp,
    Init,
    Latest,
    Offset,
    ShardOffset,
    ShardPositions,
    TrimHorizon,
)
from headrace.spark.options import Options
from headrace.spark.planner import Planner
from headrace.spark.spans import DataLoss
from headrace.spark.spool import read_slices
from tests.spark.fake_reads import FakeReads

OPTIONS = Options(stream="s", fetch_interval_ms=0, describe_interval_s=0)
BEGIN = Offset("s", TrimHorizon())


@contextmanager
def planner_of(reads: FakeReads, options: Options = OPTIONS) -> Iterator[Planner]:
    planner = Planner(reads, options)
    try:
        yield planner
    finally:
        planner.close()


def records(planner: Planner, start: Offset, end: Offset) -> dict[str, list[str]]:
    """Return the sequence numbers of a batch by shard, from the spool."""
    found: dict[str, list[str]] = {}
    for span, slices in planner.slices(start, end):
        assert slices, f"{span} is not spooled"
        numbers = [
            number
            for batch in read_slices(slices)
            for number in batch.column("sequenceNumber").to_pylist()
        ]
        assert len(numbers) == span.count
        assert numbers[-1] == span.end
        found[span.shard_id] = numbers
    return found


def test_a_batch_ends_exactly_where_the_stream_did() -> None:
    reads = FakeReads(2)
    reads.put(reads.open_shards[0], 3)
    reads.put(reads.open_shards[1], 2)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
        assert {name: shard.count for name, shard in end.shards.items()} == {
            "shardId-000000000000": 3,
            "shardId-000000000001": 2,
        }
        assert sum(len(found) for found in records(planner, BEGIN, end).values()) == 5


def test_without_new_records_the_end_is_the_start() -> None:
    reads = FakeReads(2)
    reads.put(reads.open_shards[0], 3)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
        assert planner.plan(end, None) == end


@pytest.mark.parametrize("at", [0, 1])
def test_an_empty_plan_has_asked_every_shard(at: int) -> None:
    reads = FakeReads(2)
    with planner_of(reads, replace(OPTIONS, fetch_interval_ms=100)) as planner:
        offset = planner.plan(BEGIN, None)
        for count in range(1, 4):
            reads.put(reads.open_shards[at], 1)
            offset = planner.plan(offset, None)
            assert offset.count(reads.open_shards[at]) == count


def test_a_shard_that_was_just_read_delays_no_batch() -> None:
    reads = FakeReads(2)
    reads.put(reads.open_shards[0], 20)
    with planner_of(reads, replace(OPTIONS, fetch_interval_ms=3_600_000)) as planner:
        offset = planner.plan(BEGIN, 10)
        assert planner.plan(offset, 10).count(reads.open_shards[0]) == 20


def test_no_record_is_fetched_twice_to_plan() -> None:
    reads = FakeReads(1, page_size=7)
    shard = reads.open_shards[0]
    with planner_of(reads) as planner:
        offset = BEGIN
        for count in (20, 0, 33, 1):
            reads.put(shard, count)
            offset = planner.plan(offset, 10)
        while (following := planner.plan(offset, 10)) != offset:
            offset = following
    assert len(reads.fetched) == len(set(reads.fetched)) == 54


def test_a_limit_on_the_trigger_is_divided_among_shards() -> None:
    reads = FakeReads(2)
    reads.put(reads.open_shards[0], 100)
    reads.put(reads.open_shards[1], 3)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, 10)
        assert sorted(shard.count for shard in end.shards.values()) == [3, 7]


def test_a_limit_on_a_shard_holds_in_every_batch() -> None:
    reads = FakeReads(1, page_size=1000)
    reads.put(reads.open_shards[0], 25)
    with planner_of(reads, replace(OPTIONS, max_records_per_shard=10)) as planner:
        counts, offset = [], BEGIN
        while (end := planner.plan(offset, None)) != offset:
            counts.append(end.shards["shardId-000000000000"].count)
            offset = end
    assert counts == [10, 20, 25]


@pytest.mark.parametrize(
    ("interval_ms", "drains", "most_wait_s", "rows"),
    [
        # Five calls may come at once; the sixth waits.
        (3_600_000, False, None, 50),
        (1, False, None, 90),
        (60, True, None, 90),
        (60, False, 1, 90),
        (3_600_000, True, 1, 50),
    ],
    ids=["not for long", "for a moment", "to drain", "as told", "draining, as told"],
)
def test_a_batch_with_records_waits_for_the_allowance(
    *, interval_ms: int, drains: bool, most_wait_s: int | None, rows: int
) -> None:
    reads = FakeReads(page_size=10)
    reads.put(reads.open_shards[0], 90)
    options = replace(OPTIONS, fetch_interval_ms=interval_ms, max_fetch_time_s=most_wait_s)
    with planner_of(reads, options) as planner:
        if drains:
            planner.stop_at_now()
        end = planner.plan(BEGIN, None)

    assert end.count(reads.open_shards[0]) == rows


def test_children_wait_for_a_later_batch_than_their_parents_last_record() -> None:
    reads = FakeReads(1)
    (parent,) = reads.open_shards
    reads.put(parent, 2)
    child, other = reads.split(parent)
    reads.put(child, 1)
    with planner_of(reads) as planner:
        first = planner.plan(BEGIN, None)
        assert set(records(planner, BEGIN, first)) == {parent}
        assert first.shards[parent].ended
        second = planner.plan(first, None)
        assert set(records(planner, first, second)) == {child}
        assert other not in second.shards


def test_children_need_not_wait_for_a_parent_without_records() -> None:
    reads = FakeReads(1)
    (parent,) = reads.open_shards
    child, _ = reads.split(parent)
    grandchild, _ = reads.split(child)
    reads.put(grandchild, 4)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
        assert set(records(planner, BEGIN, end)) == {grandchild}
        assert end.shards[parent] == ShardOffset(None, 0, 0, ended=True)


def test_finished_shards_leave_the_offset_when_they_expire() -> None:
    reads = FakeReads(1)
    (parent,) = reads.open_shards
    reads.put(parent, 2)
    child, _ = reads.split(parent)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
        reads.expire_shard(parent)
        reads.put(child, 1)
        end = planner.plan(end, None)
    assert set(end.shards) == {child}


def test_an_unfinished_shard_that_expires_is_data_loss() -> None:
    reads = FakeReads(2)
    lost, kept = reads.open_shards
    reads.put(lost, 2)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
        reads.expire_shard(lost)
        with pytest.raises(DataLoss, match=lost):
            planner.plan(end, None)
    with planner_of(reads, replace(OPTIONS, fail_on_data_loss=False)) as planner:
        reads.put(kept, 1)
        assert set(planner.plan(end, None).shards) == {kept}


def test_a_checkpoint_that_retention_has_overtaken_is_data_loss() -> None:
    reads = FakeReads(1)
    (shard,) = reads.open_shards
    reads.put(shard, 2)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
    reads.clock_ms += 86_400_001
    with planner_of(reads) as planner:
        # Nothing came: nothing can be missed.
        assert planner.plan(end, None) == end
    reads.put(shard, 1)
    with planner_of(reads) as planner, pytest.raises(DataLoss, match="older than the stream's"):
        planner.plan(end, None)
    with planner_of(reads, replace(OPTIONS, fail_on_data_loss=False)) as planner:
        assert planner.plan(end, None).shards[shard].count == 3


def test_a_young_checkpoint_is_gone_on_with() -> None:
    reads = FakeReads(1)
    (shard,) = reads.open_shards
    reads.put(shard, 2)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
    reads.clock_ms += 86_400_000
    reads.put(shard, 1)
    with planner_of(reads) as planner:
        assert planner.plan(end, None).shards[shard].count == 3


def test_latest_is_pinned_by_a_batch_without_records() -> None:
    reads = FakeReads(1)
    reads.put(reads.open_shards[0], 5)
    start = Offset("s", Latest())
    with planner_of(reads) as planner:
        reads.clock_ms += 10
        pinned = planner.plan(start, None)
        assert pinned == Offset("s", AtTimestamp(reads.clock_ms))
        assert planner.slices(start, pinned) == []
    reads.put(reads.open_shards[0], 2)
    with planner_of(reads) as planner:
        assert planner.plan(pinned, None).shards["shardId-000000000000"].count == 2


def test_available_now_ends_at_what_was_there_when_it_began() -> None:
    reads = FakeReads(2, page_size=3)
    first, second = reads.open_shards
    reads.put(first, 10)
    with planner_of(reads, replace(OPTIONS, max_records_per_shard=4)) as planner:
        planner.stop_at_now()
        offset, rows = BEGIN, 0
        for _ in range(20):
            # A producer that is never outrun: the run ends all the same.
            reads.clock_ms += 1
            reads.put(first, 5)
            reads.put(second, 5)
            end = planner.plan(offset, None)
            if end == offset:
                break
            rows += sum(len(found) for found in records(planner, offset, end).values())
            offset = end
        else:
            pytest.fail("the run did not end")
    assert rows == 10


def test_available_now_drains_the_children_too() -> None:
    reads = FakeReads(1)
    (parent,) = reads.open_shards
    reads.put(parent, 3)
    child, other = reads.split(parent)
    reads.put(child, 2)
    merged = reads.merge(child, other)
    reads.put(merged, 1)
    with planner_of(reads, replace(OPTIONS, describe_interval_s=3600)) as planner:
        planner.stop_at_now()
        offset, rows = BEGIN, 0
        while (end := planner.plan(offset, None)) != offset:
            rows += sum(len(found) for found in records(planner, offset, end).values())
            offset = end
    assert rows == 6


def test_an_expired_iterator_is_renewed_without_gap_or_double() -> None:
    reads = FakeReads(1)
    reads.put(reads.open_shards[0], 3)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
        reads.expire_iterators()
        reads.put(reads.open_shards[0], 2)
        following = planner.plan(end, None)
        assert len(records(planner, end, following)["shardId-000000000000"]) == 2


def test_what_is_committed_leaves_the_spool() -> None:
    reads = FakeReads(1, page_size=5)
    reads.put(reads.open_shards[0], 10)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
        planner.release(end)
        assert planner.slices(BEGIN, end)[0][1] == []


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), inits=st.sampled_from([TrimHorizon(), AtTimestamp(1_003)]))
def test_every_record_once_and_every_key_in_order_through_reshards_and_crashes(
    seed: int, inits: Init
) -> None:
    dice = random.Random(seed)
    reads = FakeReads(dice.randint(1, 3), page_size=dice.randint(1, 6))
    options = replace(OPTIONS, max_records_per_shard=dice.randint(1, 12))
    for shard_id in reads.open_shards:
        reads.put(shard_id, dice.randint(0, 9))
    reads.clock_ms = 1_003
    offset = Offset("s", inits)
    batches: list[dict[str, list[str]]] = []
    planner = Planner(reads, options)

    def act() -> None:
        reads.clock_ms += dice.randint(0, 2)
        open_shards = reads.open_shards
        what = dice.randint(0, 5)
        if what == 0:
            reads.split(dice.choice(open_shards))
        elif what == 1 and len(open_shards) > 1:
            reads.merge(*dice.sample(open_shards, 2))
        elif what == 2:
            reads.expire_iterators()
        else:
            reads.put(dice.choice(open_shards), dice.randint(0, 9))

    try:
        for _ in range(30):
            act()
            end = planner.plan(offset, dice.choice([None, 1, 7]))
            found = records(planner, offset, end)
            if dice.random() < 0.2:
                # Killed before the batch was committed: it is planned from the offset log, and read again.
                planner.close()
                planner = Planner(reads, options)
                spans = planner.slices(offset, end)
                assert {span.shard_id: span.count for span, _ in spans} == {
                    name: len(numbers) for name, numbers in found.items()
                }
            batches.append(found)
            planner.release(end)
            offset = end
        while (end := planner.plan(offset, None)) != offset:
            batches.append(records(planner, offset, end))
            offset = end
    finally:
        planner.close()
    _check(reads, inits, batches)


def _check(reads: FakeReads, init: Init, batches: list[dict[str, list[str]]]) -> None:
    since_ms = init.timestamp_ms if isinstance(init, AtTimestamp) else 0
    read: dict[str, list[str]] = defaultdict(list)
    last_batch: dict[str, int] = {}
    first_batch: dict[str, int] = {}
    for index, found in enumerate(batches):
        for name, numbers in found.items():
            read[name] += numbers
            last_batch[name] = index
            first_batch.setdefault(name, index)
    expected = {
        name: [number for _, number, arrival_ms in shard if arrival_ms >= since_ms]
        for name, shard in reads.all_records().items()
    }
    assert {name: numbers for name, numbers in expected.items() if numbers} == dict(read)
    for shard in reads.shards():
        for parent in shard.parent_ids:
            if shard.shard_id in first_batch and parent in last_batch:
                assert last_batch[parent] < first_batch[shard.shard_id]


def test_bytes_bound_a_batch_and_one_record_of_a_shard_always_fits() -> None:
    reads = FakeReads(2, page_size=7)
    for shard in reads.open_shards:
        reads.put(shard, 40)
    bounded = replace(OPTIONS, max_bytes_per_trigger=20)
    with planner_of(reads, bounded) as planner:
        start, sizes = BEGIN, []
        while (end := planner.plan(start, None)) != start:
            sizes.append(sum(span.count for span, _ in planner.slices(start, end)))
            planner.release(end)
            start = end
    assert sizes == [20, 20, 20, 20]
    with planner_of(reads, replace(OPTIONS, max_bytes_per_shard=3)) as planner:
        end = planner.plan(BEGIN, None)
        assert {shard.count for shard in end.shards.values()} == {3}


def test_a_shard_begins_where_it_was_told_to_and_the_others_where_they_were() -> None:
    reads = FakeReads(2)
    first, second = reads.open_shards
    reads.put(first, 3)
    reads.put(second, 3)
    number = reads.all_records()[first][1][1]
    init = ShardPositions(((first, AtSequenceNumber(number, after=True)),), TrimHorizon())
    with planner_of(reads) as planner:
        end = planner.plan(Offset("s", init), None)
    assert {name: shard.count for name, shard in end.shards.items()} == {first: 1, second: 3}


def test_lag_is_what_the_last_answers_said() -> None:
    reads = FakeReads(2, page_size=5)
    first, second = reads.open_shards
    reads.put(first, 20)
    reads.put(second, 3)
    with planner_of(reads, replace(OPTIONS, max_records_per_shard=5)) as planner:
        planner.plan(BEGIN, None)
        assert planner.behind_ms() == {first: 1, second: 0}
