"""What differs by Spark's version: a query's place where it is not told, and AvailableNow where it is one batch."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest

from headrace.spark.offsets import Offset, ShardOffset, TrimHorizon
from headrace.spark.options import as_one_batch, parse_options
from headrace.spark.planner import Planner
from headrace.spark.source import KinesisStreamReader
from headrace.spark.spans import Shard, Span, families
from headrace.spark.spool import read_slices
from headrace.spark.versions import (
    HAS_ARROW_STREAM_WRITER,
    HAS_READ_LIMITS,
    AskedTooEarly,
    InferredStart,
    spark_version,
)
from tests.spark.fake_reads import FakeReads
from tests.spark.test_planner import BEGIN, OPTIONS
from tests.spark.test_source import drain, numbers, stream_of

# By day as many as test_distributed.py has.
SEEDS = [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 30))]
one_batch_only = pytest.mark.skipif(
    HAS_READ_LIMITS, reason="Spark tells the source of AvailableNow"
)


def test_what_there_is_fits_the_version() -> None:
    assert ".".join(map(str, spark_version())) == re.match(r"\d+\.\d+", pyspark.__version__)[0]
    assert (spark_version() >= (4, 2)) == HAS_READ_LIMITS
    assert (spark_version() >= (4, 1)) == HAS_ARROW_STREAM_WRITER


# --- a query's place ------------------------------------------------------------------------------


def offset(count: int) -> dict[str, Any]:
    shards = {"a": ShardOffset("1", count, 0)} if count else {}
    return Offset("s", TrimHorizon(), shards).to_json()


def test_a_first_start_begins_at_the_initial_offset_and_goes_on_from_plan_to_plan() -> None:
    place = InferredStart("s", offset(0))
    assert place.next_start() == offset(0)
    place.planned(offset(5))
    assert not place.is_repeated(offset(0), offset(5))
    assert place.next_start() == offset(5)


def test_a_restart_begins_at_the_last_planned_offset() -> None:
    place = InferredStart("s", offset(0))
    assert not place.is_repeated(offset(7), offset(7))
    assert place.is_repeated(offset(5), offset(7))  # that batch was not committed
    assert place.next_start() == offset(7)
    place.planned(offset(9))
    assert not place.is_repeated(offset(7), offset(9))


def test_a_place_never_goes_back() -> None:
    place = InferredStart("s", offset(0))
    place.is_repeated(offset(7), offset(7))
    place.is_repeated(offset(0), offset(5))
    assert place.next_start() == offset(7)


def test_an_empty_stream_is_no_restart() -> None:
    place = InferredStart("s", offset(0))
    place.planned(place.next_start())
    place.is_repeated(offset(0), offset(0))
    assert place.next_start() == offset(0)


@pytest.mark.parametrize("planned", [3, 7, 9])
def test_a_restart_that_asks_first_is_refused_whatever_was_planned(planned: int) -> None:
    place = InferredStart("s", offset(0))
    place.next_start()
    place.planned(offset(planned))
    with pytest.raises(
        AskedTooEarly, match=r"triggerAvailableNowWrapper.*Nothing was read or lost"
    ):
        place.is_repeated(offset(7), offset(7))


# --- a batch that is whole ------------------------------------------------------------------------


def test_a_family_is_read_by_one_task_parents_first() -> None:
    shards = [
        Shard("0"), Shard("1"), Shard("2", ("0", "1")), Shard("3", ("2",)), Shard("4", ("9",)),
    ]  # fmt: skip
    spans = [Span(name, None, "1", 1) for name in "43210"]
    found = families(spans, {"0", "1", "2"}, shards)
    names = [[span.shard_id for span in family] for family in found]
    assert sorted(names) == [["0", "1", "2", "3"], ["4"]]
    # An empty shard between two of a batch joins them all the same; one that ended long ago does not.
    grandparents = families([spans[4], spans[1]], {"0", "2"}, shards)
    assert [[span.shard_id for span in family] for family in grandparents] == [["0", "3"]]
    assert len(families([spans[4], spans[1]], {"0"}, shards)) == 2


def test_a_family_of_many_generations_is_ordered_in_one_look() -> None:
    shards = [Shard("000")]
    for first in range(1, 181, 3):
        split = [f"{first:03d}", f"{first + 1:03d}"]
        merged = shards[-1].shard_id
        shards += [Shard(one, (merged,)) for one in split]
        shards.append(Shard(f"{first + 2:03d}", tuple(split)))
    names = [shard.shard_id for shard in shards]
    spans = [Span(name, None, "1", 1) for name in reversed(names)]
    (family,) = families(spans, set(names), shards)
    assert [span.shard_id for span in family] == names


def resharded(seed: int) -> FakeReads:
    """Return a stream that was split and merged eight times, with records in most of its shards."""
    chance = random.Random(seed)
    reads = FakeReads(2, page_size=chance.randint(1, 20))
    for _ in range(8):
        for shard in reads.open_shards:
            reads.put(shard, chance.randint(0, 30))
        pair = chance.sample(reads.open_shards, 2)
        if chance.random() < 0.5:
            reads.split(pair[0])
        else:
            reads.merge(*pair)
        if len(reads.open_shards) < 2:
            reads.split(reads.open_shards[0])
    for shard in reads.open_shards:
        reads.put(shard, 3)
    return reads


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "limits",
    # No limit, and limits of each shard that cut none, as the bundled connector's default is.
    [{}, {"max_records_per_shard": 1_000}, {"max_bytes_per_shard": 1_000_000}],
    ids=["no limit", "records", "bytes"],
)
def test_one_batch_takes_all_with_every_key_in_order(seed: int, limits: dict[str, int]) -> None:
    reads = resharded(seed)
    options = replace(as_one_batch(OPTIONS, {}), **limits)
    planner = Planner(reads, options, one_batch=True)
    end = planner.plan(BEGIN, None)
    everything = reads.all_records()
    tasks = planner.tasks(BEGIN, end)
    seen: dict[str, list[str]] = {}
    for task in tasks:
        names = [span.shard_id for span, _ in task]
        for name in names:
            parents = {
                p for shard in reads.shards() if shard.shard_id == name for p in shard.parent_ids
            }
            with_records = {p for p in parents if everything[p]}
            assert with_records <= set(names[: names.index(name)])
        for span, slices in task:
            seen[span.shard_id] = [
                number
                for batch in read_slices(slices)
                for number in batch.column("sequenceNumber").to_pylist()
            ]
    assert seen == {
        n: [number for _, number, _ in found] for n, found in everything.items() if found
    }
    assert not planner.has_left
    assert planner.plan(end, None) == end
    planner.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["max_records_per_shard", "max_bytes_per_shard"])
def test_children_wait_for_a_parent_that_a_limit_cuts(seed: int, name: str) -> None:
    reads = resharded(seed)
    options = replace(as_one_batch(OPTIONS, {}), **{name: 12})
    planner = Planner(reads, options, one_batch=True)
    everything = {shard: len(found) for shard, found in reads.all_records().items()}
    at, batches = BEGIN, 0
    while (end := planner.plan(at, None)) != at:
        for shard in reads.shards():
            cut = [p for p in shard.parent_ids if end.count(p) < everything[p]]
            assert not cut or not end.count(shard.shard_id)
        at, batches = end, batches + 1
    assert {shard: at.count(shard) for shard in everything} == everything
    assert batches > 1
    assert not planner.has_left
    planner.close()


def test_a_batch_without_limits_ends_although_the_producer_is_never_outrun() -> None:
    reads = FakeReads(1, page_size=5)
    (shard,) = reads.open_shards
    reads.put(shard, 20)
    records = reads.records

    def while_others_put(iterator: str, limit: int) -> Any:
        reads.clock_ms += 1
        reads.put(shard, 6)
        return records(iterator, limit)

    reads.records = while_others_put  # type: ignore[method-assign]
    planner = Planner(reads, as_one_batch(OPTIONS, {}), one_batch=True)
    assert 20 <= planner.plan(BEGIN, None).count(shard) < 60
    planner.close()


@pytest.mark.parametrize(
    ("options", "left"),
    [({}, False), ({"kinesis.maxFetchRecordsPerShard": "4"}, True), ({"kinesis.maxFetchRecordsPerShard": "10"}, False),
     ({"kinesis.maxRecordsPerTrigger": "9"}, True), ({"kinesis.maxBytesPerTrigger": "3"}, True),
     ({"kinesis.maxRecordsPerTrigger": "9", "kinesis.availableNow": "true"}, False)],
)  # fmt: skip
def test_a_limit_that_leaves_records_is_known(options: dict[str, str], left: bool) -> None:
    given = {"kinesis.streamName": "s", "kinesis.getRecords.fetchIntervalMs": "0", **options}
    found = as_one_batch(parse_options(given), given)
    reads = FakeReads(1)
    reads.put(reads.open_shards[0], 10)
    planner = Planner(reads, found, one_batch=True)
    planner.plan(BEGIN, found.max_records_per_trigger)
    assert planner.has_left == left
    planner.close()


# --- in a session ---------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.slow
@one_batch_only
def test_a_limit_that_cuts_the_only_batch_of_a_run_is_told(
    spark: Any, make_stream: Any, places: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    stream = make_stream(1)
    stream.put(30)
    options = stream.options(maxRecordsPerTrigger="20")
    reader = KinesisStreamReader(parse_options(options))
    try:
        for end in (20, 30):
            following = reader.latestOffset()
            assert [shard["count"] for shard in following["shards"].values()] == [end]
    finally:
        reader.stop()
    assert caplog.text.count(f"has cut a batch of stream {stream.name}") == 1
    drain(stream_of(spark, stream, maxRecordsPerTrigger="20"), places)
    assert len(numbers(spark, places[0])) == 20
    drain(stream_of(spark, stream, maxRecordsPerTrigger="20", availableNow="true"), places)
    assert numbers(spark, places[0]) == list(range(30))


@pytest.mark.spark
@pytest.mark.slow
def test_available_now_is_whole_with_and_without_its_option(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(1)
    stream.put(30)
    stream.split()
    stream.put(30)
    drain(stream_of(spark, stream, availableNow="true"), places)
    stream.split()
    stream.put(30)
    drain(stream_of(spark, stream), places)
    assert numbers(spark, places[0]) == list(range(90))


@pytest.mark.spark
@one_batch_only
@pytest.mark.slow
def test_a_restart_with_the_wrapper_is_refused_and_loses_nothing(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(1)
    stream.put(30)
    drain(stream_of(spark, stream), places)
    stream.put(30)
    name = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
    spark.conf.set(name, "true")
    try:
        with pytest.raises(Exception, match="before it said where the query stands"):
            drain(stream_of(spark, stream), places)
    finally:
        spark.conf.set(name, "false")
    drain(stream_of(spark, stream), places)
    assert numbers(spark, places[0]) == list(range(60))


@pytest.mark.spark
@pytest.mark.slow
def test_an_interrupted_batch_is_done_again_first(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    """On Spark 4.0 and 4.1 that is then the run's only batch."""
    stream = make_stream(1)
    stream.put(30)
    drain(stream_of(spark, stream), places)
    for name in ("0", ".0.crc"):
        Path(places[1], "commits", name).unlink(missing_ok=True)
    stream.put(30)
    drain(stream_of(spark, stream), places)
    assert len(numbers(spark, places[0])) == (60 if HAS_READ_LIMITS else 30)
    drain(stream_of(spark, stream), places)
    assert numbers(spark, places[0]) == list(range(60))
