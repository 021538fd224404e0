"""What the planner keeps, reads again and lets go of; and reading a batch again without its spool."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.get_records import PAGE_SCHEMA, Page
from headrace.spark.offsets import AtTimestamp, Init, TrimHorizon
from headrace.spark.options import parse_options
from headrace.spark.planner import Planner
from headrace.spark.reading import pages, read_again, read_span
from headrace.spark.spans import DataLoss, Span
from headrace.spark.spool import ShardSpool, read_slices
from tests.spark.fake_reads import FakeReads
from tests.spark.test_planner import BEGIN, OPTIONS, planner_of, records


def test_one_record_of_every_shard_fits_however_few_bytes_a_batch_may_have() -> None:
    reads = FakeReads(2)
    for shard in reads.open_shards:
        reads.put(shard, 3)
    with planner_of(reads, replace(OPTIONS, max_bytes_per_trigger=1)) as planner:
        end = planner.plan(BEGIN, None)
        assert [shard.count for shard in end.shards.values()] == [1, 1]


def test_a_bound_in_bytes_bounds_what_is_read_ahead() -> None:
    reads = FakeReads(1, page_size=1)
    reads.put(reads.open_shards[0], 50)
    with planner_of(reads, replace(OPTIONS, max_bytes_per_shard=3)) as planner:
        planner.plan(BEGIN, None)
    assert len(reads.fetched) <= 4


def test_what_a_batch_has_left_in_the_spool_is_not_read_again() -> None:
    reads = FakeReads(1, page_size=10)
    reads.put(reads.open_shards[0], 30)
    with planner_of(reads, replace(OPTIONS, max_records_per_shard=4)) as planner:
        offset = BEGIN
        while (end := planner.plan(offset, None)) != offset:
            records(planner, offset, end)
            planner.release(end)
            offset = end
    assert len(reads.fetched) == len(set(reads.fetched)) == 30


def test_a_batch_whose_beginning_is_no_longer_spooled_is_read_again_as_a_whole() -> None:
    reads = FakeReads(1, page_size=5)
    reads.put(reads.open_shards[0], 10)
    with planner_of(reads, replace(OPTIONS, max_records_per_shard=5)) as planner:
        half = planner.plan(BEGIN, None)
        end = planner.plan(half, None)
        planner.release(half)
        ((span, slices),) = planner.slices(BEGIN, end)
        assert (span.count, slices) == (10, [])


def test_a_plan_from_an_earlier_offset_than_the_spools_begins_there() -> None:
    reads = FakeReads(1, page_size=5)
    (shard,) = reads.open_shards
    reads.put(shard, 10)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
        planner.release(end)
        again = planner.plan(BEGIN, None)
        assert again == end
        assert len(records(planner, BEGIN, again)[shard]) == 10


def test_a_shard_that_ends_has_the_stream_looked_at_before_the_interval_is_over() -> None:
    reads = FakeReads(1)
    (parent,) = reads.open_shards
    reads.put(parent, 1)
    with planner_of(reads, replace(OPTIONS, describe_interval_s=3600)) as planner:
        first = planner.plan(BEGIN, None)
        reads.put(parent, 1)
        child, _ = reads.split(parent)
        reads.put(child, 2)
        second = planner.plan(first, None)
        third = planner.plan(second, None)
    assert third.shards[child].count == 2


def test_a_shard_that_was_read_to_its_end_has_no_lag_any_more() -> None:
    reads = FakeReads(2)
    ending, other = reads.open_shards
    reads.put(ending, 1)
    reads.put(other, 1)
    reads.split(ending)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
        planner.release(end)
        assert ending not in planner.behind_ms()


def test_what_was_read_before_a_run_was_told_to_stop_does_not_carry_it_further() -> None:
    reads = FakeReads(1)
    (shard,) = reads.open_shards
    reads.put(shard, 3)
    with planner_of(reads) as planner:
        end = planner.plan(BEGIN, None)
        planner.stop_at_now()
        reads.clock_ms += 10
        reads.put(shard, 3)
        assert planner.plan(end, None) == end


@given(
    page_sizes=st.lists(
        st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=5
    ),
    dice=st.data(),
)
def test_a_spool_gives_any_range_and_counts_bytes_from_any_record(
    page_sizes: list[list[int]], dice: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool = ShardSpool(Path(folder), 100)
        for sizes in page_sizes:
            spool.append(page_of(spool.end, sizes))
        every = [size for sizes in page_sizes for size in sizes]
        begin = dice.draw(st.integers(0, len(every) - 1))
        end = dice.draw(st.integers(begin + 1, len(every)))
        most = dice.draw(st.integers(0, 30))
        within = sum(1 for total in accumulate(every[begin:]) if total <= most)
        assert spool.rows_within(100 + begin, most) == within
        slices = spool.slices(100 + begin, 100 + end)
        assert slices is not None
        assert all(part.rows > 0 for part in slices)
        found = [
            number
            for batch in read_slices(slices)
            for number in batch.column("sequenceNumber").to_pylist()
        ]
        assert found == [str(100 + n) for n in range(begin, end)]
        assert spool.row(100 + end - 1) == (str(100 + end - 1), 100 + end - 1)
        spool.release(100 + begin)
        assert spool.slices(100 + begin, 100 + end) is not None
        assert spool.first <= 100 + begin
        assert len(list(Path(folder).iterdir())) <= len(page_sizes)


def page_of(first: int, sizes: list[int]) -> Page:
    """Return a page of records numbered from `first`, which arrived at the millisecond of their number."""
    numbers = range(first, first + len(sizes))
    columns = [
        pa.array([b"x" * size for size in sizes], pa.binary()),
        pa.array(["k"] * len(sizes), pa.string()),
        pa.array([str(n) for n in numbers], pa.string()),
        pa.array([n * 1000 for n in numbers], pa.timestamp("us", tz="UTC")),
    ]
    return Page(pa.RecordBatch.from_arrays(columns, schema=PAGE_SCHEMA), None, 0)


@pytest.mark.parametrize(("slept_s", "lost"), [(86_300, False), (86_500, True)])
def test_a_query_that_slept_for_longer_than_retention_has_lost_data(
    slept_s: int, lost: bool
) -> None:
    reads = FakeReads(1)
    (shard,) = reads.open_shards
    reads.put(shard, 2)
    planner = Planner(reads, OPTIONS, wall_s=lambda: reads.clock_ms / 1000)
    try:
        end = planner.plan(BEGIN, None)
        reads.expire_iterators()
        reads.clock_ms += slept_s * 1000
        reads.put(shard, 1)
        if lost:
            with pytest.raises(DataLoss, match="older than the stream's"):
                planner.plan(end, None)
        else:
            assert planner.plan(end, None).shards[shard].count == 3
    finally:
        planner.close()


def test_a_shard_that_was_quiet_for_days_while_it_was_looked_at_has_lost_nothing() -> None:
    reads = FakeReads(1)
    (shard,) = reads.open_shards
    reads.put(shard, 2)
    planner = Planner(reads, OPTIONS, wall_s=lambda: reads.clock_ms / 1000)
    try:
        end = planner.plan(BEGIN, None)
        for _ in range(3):
            # A trigger of half a day: the iterator never lives that long.
            reads.clock_ms += 43_200_000
            reads.expire_iterators()
            assert planner.plan(end, None) == end
        reads.put(shard, 1)
        reads.expire_iterators()
        assert planner.plan(end, None).shards[shard].count == 3
    finally:
        planner.close()


# --- reading again ------------------------------------------------------------------------------


def numbers_of(
    reads: FakeReads, after: str | None, init: Init, *, expire_after: int = -1
) -> list[str]:
    """Return the sequence numbers of a shard's pages; iterators expire after so many pages."""
    found: list[str] = []
    options = replace(OPTIONS, records_per_fetch=3)
    (shard,) = reads.open_shards
    for index, page in enumerate(pages(cast("Any", reads), options, shard, after, init)):
        found += page.records.column("sequenceNumber").to_pylist()
        if index == expire_after:
            reads.expire_iterators()
        if page.millis_behind_latest == 0:
            break
    return found


def test_pages_go_on_after_an_expired_iterator_without_gap_or_double() -> None:
    reads = FakeReads(1)
    reads.put(reads.open_shards[0], 10)
    expected = [number for _, number, _ in reads.all_records()[reads.open_shards[0]]]
    assert numbers_of(reads, None, TrimHorizon(), expire_after=1) == expected
    assert numbers_of(reads, expected[3], TrimHorizon(), expire_after=0) == expected[4:]
    assert numbers_of(reads, expected[3], AtTimestamp(0), expire_after=1) == expected[4:]


@pytest.fixture
def shard(make_stream: Any) -> tuple[Any, str, list[str]]:
    stream = make_stream(1)
    stream.put(25)
    (found,) = stream.shards()
    iterator = stream.kinesis.get_shard_iterator(
        StreamName=stream.name, ShardId=found["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    page = stream.kinesis.get_records(ShardIterator=iterator)
    return stream, found["ShardId"], [record["SequenceNumber"] for record in page["Records"]]


@pytest.mark.spark
@pytest.mark.parametrize("fetch", ["3", "1000"])
@pytest.mark.parametrize(("first", "last"), [(0, 25), (0, 7), (7, 8), (7, 25), (24, 25)])
def test_a_batch_without_its_spool_is_read_again_exactly(
    shard: tuple[Any, str, list[str]], fetch: str, first: int, last: int
) -> None:
    stream, shard_id, all_numbers = shard
    options = parse_options(
        stream.options(
            **{"getRecords.numberOfRecordsPerFetch": fetch, "getRecords.fetchIntervalMs": "0"}
        )
    )
    after = all_numbers[first - 1] if first else None
    span = Span(shard_id, after, all_numbers[last - 1], last - first)
    found = [
        int(data)
        for batch in read_span(options, TrimHorizon(), span, [])
        for data in batch.column("data").to_pylist()
    ]
    assert found == list(range(first, last))


@pytest.mark.spark
@pytest.mark.parametrize("count", [6, 8])
def test_a_batch_that_has_not_the_records_that_it_had_is_data_loss(
    shard: tuple[Any, str, list[str]], count: int
) -> None:
    stream, shard_id, all_numbers = shard
    options = parse_options(stream.options())
    span = Span(shard_id, None, all_numbers[6], count)
    with pytest.raises(DataLoss, match=rf"now has 7 of the {count} records"):
        list(read_again(options, TrimHorizon(), span))
    told = replace(options, fail_on_data_loss=False)
    assert sum(batch.num_rows for batch in read_again(told, TrimHorizon(), span)) == 7
