"""`format("kinesis")` in a Spark session, against a cloud on a socket."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.progress import of_progress
from tests.spark.conftest import Stream
from tests.support.server import wait_until

pytestmark = pytest.mark.spark


def stream_of(spark: Any, stream: Stream, **options: str) -> Any:
    return spark.readStream.format("kinesis").options(**stream.options(**options)).load()


def drain(frame: Any, places: tuple[str, str]) -> Any:
    """Run a query until its input is drained; return it."""
    out, checkpoint = places
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(out)
    )
    assert query.awaitTermination(120)
    return query


def run_to_the_end(query: Any) -> Any:
    """Run a query that was started without AvailableNow, batch by batch, until nothing is left; return it."""
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return query


def numbers(spark: Any, out: str) -> list[int]:
    """Return the numbers that a query wrote."""
    return sorted(int(bytes(row.data)) for row in spark.read.parquet(out).select("data").collect())


def test_what_was_just_put_is_processed_when_all_that_is_available_is(
    spark: Any, make_stream: Any
) -> None:
    stream = make_stream(2)
    query = stream_of(spark, stream).writeStream.format("memory").queryName("just_put").start()
    try:
        for count in range(1, 4):
            stream.put(1)
            query.processAllAvailable()
            assert spark.table("just_put").count() == count
    finally:
        query.stop()


def test_every_column_is_what_kinesis_says(spark: Any, make_stream: Any) -> None:
    stream = make_stream(1)
    answer = stream.kinesis.put_record(StreamName=stream.name, Data=b"\x00\xff", PartitionKey="kéy")
    (shard,) = stream.shards()
    iterator = stream.kinesis.get_shard_iterator(
        StreamName=stream.name, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    (record,) = stream.kinesis.get_records(ShardIterator=iterator)["Records"]
    (row,) = spark.read.format("kinesis").options(**stream.options()).load().collect()
    assert row.asDict() == {
        "data": bytearray(b"\x00\xff"),
        "streamName": stream.name,
        "partitionKey": "kéy",
        "sequenceNumber": answer["SequenceNumber"],
        "approximateArrivalTimestamp": row.approximateArrivalTimestamp,
        "shardId": shard["ShardId"],
    }
    arrival = row.approximateArrivalTimestamp.astimezone(UTC)
    assert (
        abs(arrival - record["ApproximateArrivalTimestamp"].astimezone(UTC)).total_seconds() < 0.001
    )


def test_limits_cut_a_backlog_into_batches(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(1)
    stream.put(700)
    writer = stream_of(spark, stream, maxRecordsPerTrigger="300").writeStream.format("parquet")
    query = run_to_the_end(writer.option("checkpointLocation", places[1]).start(places[0]))
    assert numbers(spark, places[0]) == list(range(700))
    # Progress tells lag, rates and what was read.
    batches = [one for batch in query.recentProgress for one in of_progress(batch)]
    assert [one.rows for one in batches if one.rows] == [300, 300, 100]
    (shard,) = stream.shards()
    assert [dict(one.records_read)[shard["ShardId"]] for one in batches][:3] == [300, 600, 700]
    assert batches[0].stream == stream.name
    assert batches[0].behind_ms_by_shard == {shard["ShardId"]: 0}
    assert batches[0].processed_per_s > 0


def test_a_drained_query_goes_on_through_reshards_before_and_between_runs(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(2)
    stream.put(300)
    stream.split()
    stream.put(300)
    drain(stream_of(spark, stream), places)
    stream.merge()
    stream.put(300)
    stream.split()
    stream.put(300)
    drain(stream_of(spark, stream), places)
    assert numbers(spark, places[0]) == list(range(1200))


def test_latest_takes_what_comes_after_the_query_began(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(2)
    stream.put(100)
    query = (
        stream_of(spark, stream, startingposition="LATEST")
        .writeStream.format("parquet")
        .option("checkpointLocation", places[1])
        .trigger(processingTime="100 milliseconds")
        .start(places[0])
    )
    try:
        wait_until(lambda: Path(places[1], "commits", "0").exists(), within_s=60)
        stream.put(50)
        stream.split()
        stream.put(50)
        wait_until(lambda: sum(b["numInputRows"] for b in query.recentProgress) == 100, within_s=60)
    finally:
        query.stop()
    assert numbers(spark, places[0]) == list(range(100, 200))


def test_a_timestamp_splits_the_stream_in_two(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(2)
    stream.put(100)
    put = datetime.now(UTC)
    # The border is a millisecond's: what was put must be older than that.
    wait_until(lambda: (datetime.now(UTC) - put).total_seconds() > 0.01)
    since = datetime.now(UTC)
    stream.put(100)
    position = f"AT_TIMESTAMP {since.isoformat(timespec='milliseconds')}"
    drain(stream_of(spark, stream, startingposition=position), places)
    assert numbers(spark, places[0]) == list(range(100, 200))


def test_a_batch_that_is_done_again_has_the_records_it_had(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(2)
    stream.put(200)
    batches: list[tuple[int, list[int]]] = []

    def keep(rows: Any, batch_id: int) -> None:
        found = [int(bytes(row.data)) for row in rows.select("data").collect()]
        batches.append((batch_id, found))

    def run() -> None:
        run_to_the_end(
            stream_of(spark, stream, maxRecordsPerTrigger="150")
            .writeStream.option("checkpointLocation", places[1])
            .foreachBatch(keep)
            .start()
        )

    run()
    first = dict(batches)
    # As a crash leaves it: the last batch is planned, and not committed.
    last = max(first)
    for name in (f"{last}", f".{last}.crc"):
        Path(places[1], "commits", name).unlink(missing_ok=True)
    batches.clear()
    stream.split()
    stream.put(100)
    run()
    again = dict(batches)
    assert again[last] == first[last]
    seen = Counter(n for batch in (first | again).values() for n in batch)
    assert seen == Counter(range(300))


def test_a_batch_that_retention_has_cut_is_refused(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(1)
    stream.put(10)

    def run() -> None:
        query = (
            stream_of(spark, stream)
            .writeStream.option("checkpointLocation", places[1])
            .trigger(availableNow=True)
            .foreachBatch(lambda rows, _: rows.collect())
            .start()
        )
        assert query.awaitTermination(120)

    run()
    Path(places[1], "commits", "0").unlink()
    Path(places[1], "commits", ".0.crc").unlink(missing_ok=True)
    # The checkpoint says that the batch had more than the stream now has.
    path = Path(places[1], "offsets", "0")
    *head, offset = path.read_text().splitlines()
    changed = json.loads(offset)
    for shard in changed["shards"].values():
        shard["count"] += 5
    Path(places[1], "offsets", ".0.crc").unlink(missing_ok=True)
    path.write_text("\n".join((*head, json.dumps(changed))))
    with pytest.raises(Exception, match="now has 10 of the 15 records"):
        run()


def test_keys_stay_in_order_through_a_reshard(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(1)
    for change in (stream.split, stream.split, stream.merge, stream.merge):
        stream.put(200)
        change()
    stream.put(200)
    order: dict[str, list[int]] = {}

    def keep(rows: Any, batch_id: int) -> None:
        for row in rows.select("partitionKey", "data").collect():
            order.setdefault(row.partitionKey, []).append(int(bytes(row.data)))

    query = (
        stream_of(spark, stream)
        .writeStream.option("checkpointLocation", places[1])
        .trigger(availableNow=True)
        .foreachBatch(keep)
        .start()
    )
    assert query.awaitTermination(120)
    assert sum(len(found) for found in order.values()) == 1000
    assert all(found == sorted(found) for found in order.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinesis.streamName": "s", "kinesis.stream": "s"}, "no option"),
        (
            {"kinesis.streamName": "s", "kinesis.startingposition": "NOW"},
            "not LATEST, TRIM_HORIZON",
        ),
        ({}, "needs the option kinesis.streamName"),
    ],
)
def test_wrong_options_are_refused_at_load(
    spark: Any, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        spark.readStream.format("kinesis").options(**options).load()


def test_a_missing_stream_is_named(spark: Any, make_stream: Any, places: tuple[str, str]) -> None:
    stream = make_stream(1)
    stream.name = "no-such-stream"
    with pytest.raises(Exception, match=r"ResourceNotFoundException.*no-such-stream"):
        drain(stream_of(spark, stream), places)


def test_a_batch_read_takes_what_is_there(spark: Any, make_stream: Any) -> None:
    stream = make_stream(2)
    stream.put(700)
    stream.split()
    stream.put(100)
    options = stream.options()
    del options["kinesis.startingposition"]
    frame = spark.read.format("kinesis").options(**options).load()
    assert sorted(int(bytes(row.data)) for row in frame.collect()) == list(range(800))
    latest = spark.read.format("kinesis").options(**stream.options(startingposition="LATEST"))
    with pytest.raises(Exception, match="cannot start at LATEST"):
        latest.load().count()


def test_a_shard_is_read_from_its_own_position(spark: Any, make_stream: Any) -> None:
    stream = make_stream(1)
    stream.put(10)
    whole = spark.read.format("kinesis").options(**stream.options()).load().collect()
    (shard,) = stream.shards()
    place = json.dumps({shard["ShardId"]: f"AFTER_SEQUENCE_NUMBER {whole[6].sequenceNumber}"})
    options = stream.options(startingposition=place)
    frame = spark.read.format("kinesis").options(**options).load()
    assert [int(bytes(row.data)) for row in frame.collect()] == [7, 8, 9]
