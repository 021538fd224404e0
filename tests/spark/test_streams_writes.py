"""Writing by the functions that are the same on every Spark: `write_to_kinesis` and `stream_to_kinesis`."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.spark.options import InvalidOption
from headrace.spark.sink import InvalidSchema
from headrace.spark.streams import kinesis_stream, stream_to_kinesis, write_to_kinesis
from tests.spark.conftest import Stream

pytestmark = pytest.mark.spark


def sink_options(stream: Stream, **more: str) -> dict[str, Any]:
    options = stream.options(**more)
    del options["kinesis.startingposition"]
    return options


def stored(stream: Stream) -> dict[str, list[int]]:
    """Return the numbers in a stream by key, each key's in their order."""
    found: dict[str, list[int]] = {}
    for record in stream.records():
        found.setdefault(record["PartitionKey"], []).append(int(record["Data"]))
    return found


def test_a_frame_is_appended_every_key_in_order(spark: Any, make_stream: Any) -> None:
    stream = make_stream(2)
    frame = spark.range(0, 2000, 1, 1).selectExpr(
        "string(id) data", "concat('key-', id % 7) partitionKey", "'x' shardId"
    )
    for _ in range(2):
        write_to_kinesis(frame, **sink_options(stream))
    found = stored(stream)
    assert sorted(found) == [f"key-{n}" for n in range(7)]
    for n in range(7):
        once = list(range(n, 2000, 7))
        assert found[f"key-{n}"] == once + once


@pytest.mark.slow
def test_a_stream_is_copied_by_a_query_and_by_a_foreach_batch(
    spark: Any, make_stream: Any, tmp_path: Any
) -> None:
    source, target, other = make_stream(2), make_stream(1), make_stream(1)
    source.put(300)
    frame = kinesis_stream(spark, **source.options())
    options = sink_options(other)
    queries = [
        writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start()
        for name, writer in (
            ("query", stream_to_kinesis(frame, **sink_options(target))),
            ("body", frame.writeStream.foreachBatch(
                lambda batch, _: write_to_kinesis(batch, **options)
            )),
        )
    ]  # fmt: skip
    for query in queries:
        assert query.awaitTermination(170)
    for stream in (target, other):
        found = stored(stream)
        assert {key: len(numbers) for key, numbers in found.items()} == {
            f"key-{n}": 15 for n in range(20)
        }
        assert all(numbers == sorted(numbers) for numbers in found.values())


def test_what_cannot_be_written_is_refused_at_once(spark: Any, make_stream: Any) -> None:
    stream = make_stream(1)
    rows = spark.range(3).selectExpr("string(id) data", "'k' partitionKey")
    with pytest.raises(InvalidOption, match=r"no option 'kinesis\.sink\.recordTtls'"):
        write_to_kinesis(rows, **{"kinesis.streamName": "s", "kinesis.sink.recordTtls": 3})
    with pytest.raises(InvalidSchema, match="needs a column partitionKey"):
        write_to_kinesis(rows.drop("partitionKey"), **sink_options(stream))
    with pytest.raises(Exception, match="ResourceNotFoundException"):
        write_to_kinesis(rows, **{**sink_options(stream), "kinesis.streamName": "nowhere"})
    assert stored(stream) == {}
