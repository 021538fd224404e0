"""`kinesis_stream` and `kinesis_batch` on Spark 3.5, where they are a source of their own (`headrace.spark.callbacks`).

From 4.0 on they are `format("kinesis")`, which has its own tests; `test_streams_writes` uses them on every Spark.
"""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.options import InvalidOption
from headrace.spark.planner import SPOOL_PREFIX
from headrace.spark.progress import of_progress
from headrace.spark.streams import kinesis_batch, kinesis_stream
from headrace.spark.versions import HAS_DATA_SOURCES
from tests.spark.conftest import Stream
from tests.support.server import REGION, wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(HAS_DATA_SOURCES, reason="of the way on Spark 3.5"),
]


def frame_of(spark: Any, stream: Stream, **options: str) -> Any:
    return kinesis_stream(spark, **stream.options(**options))


def start(frame: Any, places: tuple[str, str], **trigger: Any) -> Any:
    out, checkpoint = places
    return (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(**(trigger or {"availableNow": True}))
        .start(out)
    )


def drain(frame: Any, places: tuple[str, str]) -> Any:
    """Run a query until its input is drained; return it."""
    query = start(frame, places)
    assert query.awaitTermination(170)
    return query


def numbers(spark: Any, out: str) -> list[int]:
    """Return the numbers that a query wrote."""
    return sorted(int(bytes(row.data)) for row in spark.read.parquet(out).select("data").collect())


def spools() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob(f"{SPOOL_PREFIX}*"))


def rows_of_batches(query: Any) -> list[int]:
    return [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]


def test_a_drained_query_has_bounded_batches_and_its_progress_and_goes_on_where_it_stopped(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(3)
    stream.put(1000)
    before = spools()
    frame = frame_of(spark, stream, maxRecordsPerTrigger="400")
    assert frame.isStreaming
    assert frame.columns == [
        "data", "streamName", "partitionKey", "sequenceNumber", "approximateArrivalTimestamp",
        "shardId",
    ]  # fmt: skip
    query = drain(frame, places)
    assert rows_of_batches(query) == [400, 400, 200]
    (found,) = of_progress(query.lastProgress)
    assert (found.stream, sum(found.records_read.values()), found.behind_ms) == (
        stream.name, 1000, 0,
    )  # fmt: skip
    assert spools() == before
    stream.put(300)
    assert rows_of_batches(drain(frame, places)) == [300]
    assert numbers(spark, places[0]) == list(range(1300))


def test_what_was_just_put_is_processed_when_all_that_is_available_is(
    spark: Any, make_stream: Any
) -> None:
    stream = make_stream(2)
    query = frame_of(spark, stream).writeStream.format("memory").queryName("just_put").start()
    try:
        for count in range(1, 6):
            stream.put(1)
            query.processAllAvailable()
            assert spark.table("just_put").count() == count
    finally:
        query.stop()


def test_the_rows_are_what_kinesis_has(spark: Any, make_stream: Any) -> None:
    stream = make_stream(1)
    answer = stream.kinesis.put_record(StreamName=stream.name, Data=b"\x00\xff", PartitionKey="kéy")
    (shard,) = stream.shards()
    (row,) = kinesis_batch(spark, **stream.options()).collect()
    assert row.asDict() == {
        "data": bytearray(b"\x00\xff"),
        "streamName": stream.name,
        "partitionKey": "kéy",
        "sequenceNumber": answer["SequenceNumber"],
        "approximateArrivalTimestamp": row.approximateArrivalTimestamp,
        "shardId": shard["ShardId"],
    }
    assert abs(row.approximateArrivalTimestamp.timestamp() - time.time_ns() / 1e9) < 120


def test_a_batch_that_is_done_again_has_the_records_it_had(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(2)
    stream.put(300)
    seen: dict[int, list[list[tuple[str, str]]]] = {}

    def note(batch: Any, number: int) -> None:
        rows = [(row.shardId, row.sequenceNumber) for row in batch.collect()]
        seen.setdefault(number, []).append(rows)
        if len(seen[number]) == 1 and number == 1:
            raise RuntimeError("half-way")

    def run() -> Any:
        query = (
            frame_of(spark, stream, maxRecordsPerTrigger="100")
            .writeStream.foreachBatch(note)
            .option("checkpointLocation", places[1])
            .trigger(availableNow=True)
            .start()
        )
        return query.awaitTermination(170)

    with pytest.raises(Exception, match="half-way"):
        run()
    stream.split()
    stream.put(100)
    assert run()
    assert seen[1][0] == seen[1][1]
    assert len(seen[1][0]) == 100
    last = [rows[-1] for rows in seen.values()]
    assert len({row for rows in last for row in rows}) == sum(map(len, last)) == 400
    for rows in last:
        for shard in {row[0] for row in rows}:
            own = [int(row[1]) for row in rows if row[0] == shard]
            assert own == sorted(own)


def test_a_keys_records_come_in_order_through_splits_and_merges(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(2)
    stream.put(200)
    stream.split()
    stream.put(200)
    stream.merge()
    stream.put(200)
    found: list[tuple[int, str, int]] = []

    def note(batch: Any, number: int) -> None:
        found.extend((number, row.partitionKey, int(row.data)) for row in batch.collect())

    query = (
        frame_of(spark, stream)
        .writeStream.foreachBatch(note)
        .option("checkpointLocation", places[1])
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(170)
    assert sorted(number for _, _, number in found) == list(range(600))
    for key in {key for _, key, _ in found}:
        # Over the batches, and within each.
        own = [(batch, number) for batch, name, number in found if name == key]
        assert own == sorted(own)
        assert [number for _, number in own] == sorted(number for _, number in own)


def test_each_query_on_one_frame_reads_by_itself(
    spark: Any, make_stream: Any, tmp_path: Path
) -> None:
    stream = make_stream(2)
    stream.put(500)
    frame = frame_of(spark, stream, maxRecordsPerTrigger="200")
    other = frame_of(spark, stream)
    frames = {"one": frame, "two": frame, "union": frame.union(frame), "three": frame.union(other)}
    before = spools()
    queries = [
        start(of, (f"{tmp_path}/{name}", f"{tmp_path}/c-{name}")) for name, of in frames.items()
    ]
    for query in queries:
        assert query.awaitTermination(170)
    assert numbers(spark, f"{tmp_path}/one") == numbers(spark, f"{tmp_path}/two")
    assert numbers(spark, f"{tmp_path}/one") == list(range(500))
    twice = sorted([*range(500), *range(500)])
    assert numbers(spark, f"{tmp_path}/union") == numbers(spark, f"{tmp_path}/three") == twice
    assert spools() == before


def test_latest_takes_what_comes_after_the_query_began_and_a_stop_removes_the_spool(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(2)
    stream.put(100)
    before = spools()
    frame = frame_of(spark, stream, startingposition="LATEST")
    query = start(frame, places, processingTime="100 milliseconds")
    try:
        wait_until(lambda: Path(places[1], "commits", "0").exists(), within_s=60)
        stream.put(50)
        stream.split()
        stream.put(50)
        wait_until(lambda: sum(rows_of_batches(query)) == 100, within_s=120)
    finally:
        query.stop()
    assert numbers(spark, places[0]) == list(range(100, 200))
    assert query.exception() is None
    assert spools() == before


def test_state_and_watermarks(spark: Any, make_stream: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    stream = make_stream(2)
    stream.put(200)
    frame = frame_of(spark, stream, maxRecordsPerTrigger="100").withWatermark(
        "approximateArrivalTimestamp", "1 minute"
    )
    counted = frame.groupBy(
        F.window("approximateArrivalTimestamp", "1 hour"), "partitionKey"
    ).count()
    query = (
        counted.writeStream.format("memory")
        .queryName("counts")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(170)
    totals = spark.table("counts").groupBy("partitionKey").sum("count").collect()
    assert sorted((row[0], row[1]) for row in totals) == sorted((f"key-{n}", 10) for n in range(20))


# --- what goes wrong ------------------------------------------------------------------------------


def test_wrong_options_are_refused_before_a_query_is_made(spark: Any) -> None:
    with pytest.raises(InvalidOption, match=r"no option 'kinesis\.streamname2'. Is .*streamName"):
        kinesis_stream(spark, **{"kinesis.streamname2": "s"})
    with pytest.raises(InvalidOption, match=r"needs the option kinesis\.streamName"):
        kinesis_stream(spark)
    options = {"kinesis.streamName": "s", "kinesis.startingPosition": "LATEST"}
    with pytest.raises(InvalidOption, match="cannot start at LATEST"):
        kinesis_batch(spark, **options)


def test_a_session_that_cannot_have_it_is_told_so(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.spark.callbacks import UnsupportedSession

    options = {"kinesis.streamName": "s"}
    connect: Any = object()
    with pytest.raises(UnsupportedSession, match="not Spark Connect"):
        kinesis_stream(connect, **options)
    with monkeypatch.context() as patch:
        patch.setattr("pyspark.__version__", "3.4.1")
        with pytest.raises(UnsupportedSession, match=r"Spark 3\.5 or later; this is 3\.4\.1"):
            kinesis_stream(spark, **options)
    with monkeypatch.context() as patch:
        patch.setattr("py4j.clientserver.ClientServer", type("Other", (), {}))
        with pytest.raises(UnsupportedSession, match="PYSPARK_PIN_THREAD"):
            kinesis_stream(spark, **options)


def test_a_stream_that_is_not_there_fails_the_query_with_kinesis_own_sentence(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    options = {**make_stream(1).options(), "kinesis.streamName": "nowhere"}
    with pytest.raises(Exception, match=r"ResourceNotFoundException: .*\(stream nowhere"):
        drain(kinesis_stream(spark, **options), places)


def test_records_that_are_gone_fail_the_query(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(1)
    stream.put(100)
    drain(frame_of(spark, stream), places)
    fresh = stream.made_anew()
    fresh.put(40)
    before = spools()
    with pytest.raises(Exception, match=r"DataLoss: .* is not the stream .* another checkpoint"):
        drain(frame_of(spark, fresh), places)
    assert spools() == before
    assert numbers(spark, places[0]) == list(range(100))


def test_a_checkpoint_of_another_stream_is_refused(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    first, second = make_stream(1), make_stream(1)
    first.put(10)
    drain(frame_of(spark, first), places)
    with pytest.raises(
        Exception, match=f"InvalidOffset: The checkpoint is of stream '{first.name}"
    ):
        drain(frame_of(spark, second), places)


def test_a_query_stops_promptly_while_kinesis_cannot_be_reached(
    spark: Any, places: tuple[str, str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Nobody listens there.
        options = {
            "kinesis.streamName": "s",
            "kinesis.region": REGION,
            "kinesis.endpointUrl": f"http://127.0.0.1:{taken.getsockname()[1]}",
            "kinesis.clientNumRetries": "6",
        }
        query = start(kinesis_stream(spark, **options), places, processingTime="1 second")
        wait_until(
            lambda: any(thread.name == "kinesis-plan" for thread in threading.enumerate()),
            within_s=60,
        )
        began = time.monotonic()
        query.stop()
        assert time.monotonic() - began < 10
    assert query.exception() is None


def test_offsets_are_those_of_later_sparks(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    stream = make_stream(1)
    stream.put(10)
    drain(frame_of(spark, stream), places)
    *_, last = Path(places[1], "offsets", "0").read_text().splitlines()
    offset = json.loads(last)
    assert (offset["v"], offset["stream"]) == (1, stream.name)
    assert offset["shards"]["shardId-000000000000"]["count"] == 10
