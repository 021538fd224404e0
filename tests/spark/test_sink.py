"""`df.write` and `df.writeStream` to a stream of a cloud on a socket."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.spark.conftest import Stream

pytestmark = pytest.mark.spark


def append(frame: Any, stream: Stream, **more: str) -> None:
    options = stream.options(**more)
    del options["kinesis.startingposition"]
    frame.write.format("kinesis").options(**options).mode("append").save()


def test_a_frame_is_written_with_every_key_in_order(spark: Any, make_stream: Any) -> None:
    stream = make_stream(2)
    frame = spark.range(3000).selectExpr(
        "cast(id as string) data", "concat('key-', id % 700) partitionKey"
    )
    append(
        frame.repartition(2, "partitionKey").sortWithinPartitions(frame.data.cast("long")), stream
    )
    records = stream.records()
    assert Counter(int(record["Data"]) for record in records) == Counter(range(3000))
    order: defaultdict[str, list[int]] = defaultdict(list)
    for record in records:
        order[record["PartitionKey"]].append(int(record["Data"]))
    assert all(numbers == sorted(numbers) for numbers in order.values())


def test_an_explicit_hash_key_chooses_the_shard(spark: Any, make_stream: Any) -> None:
    stream = make_stream(2)
    last = stream.open_shards()[-1]
    frame = spark.createDataFrame(
        [(bytearray(b"\x00\xff"), "a", last["HashKeyRange"]["EndingHashKey"])],
        "data binary, partitionKey string, explicitHashKey string",
    )
    append(frame, stream)
    (record,) = stream.records()
    assert (record["Data"], record["ShardId"]) == (b"\x00\xff", last["ShardId"])


def test_a_stream_is_copied_as_it_is_read(
    spark: Any, make_stream: Any, places: tuple[str, str]
) -> None:
    source, target = make_stream(2), make_stream(1)
    source.put(600)
    options = target.options()
    del options["kinesis.startingposition"]
    query = (
        spark.readStream.format("kinesis").options(**source.options()).load()
        .writeStream.format("kinesis").options(**options)
        .option("checkpointLocation", places[1])
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    assert query.awaitTermination(120)
    assert Counter(int(record["Data"]) for record in target.records()) == Counter(range(600))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("id data, 'k' partitionKey", {}, "column data must be BINARY or STRING, not BIGINT"),
        ("'x' data", {}, "needs a column partitionKey"),
        ("'x' data, 'k' partitionKey, 1 airport", {}, "no use for the column 'airport'"),
        ("'x' data, 'k' partitionKey", {"sink.ttl": "1"}, "sink has no option 'kinesis.sink.ttl'"),
        (
            "'x' data, 'k' partitionKey",
            {"sink.aggregationEnabled": "true"},
            "does not aggregate",
        ),
        ("'x' data, cast(null as string) partitionKey", {}, "has no partitionKey"),
    ],
)
def test_what_cannot_be_written_says_so(
    spark: Any, make_stream: Any, columns: str, options: dict[str, str], message: str
) -> None:
    stream = make_stream(1)
    with pytest.raises(Exception, match=message):
        append(spark.range(1).selectExpr(*columns.split(", ")), stream, **options)
    assert stream.records() == []


def test_a_missing_stream_fails_the_write_by_name(spark: Any, make_stream: Any) -> None:
    stream = make_stream(1)
    stream.name = "no-such-stream"
    with pytest.raises(Exception, match=r"ResourceNotFoundException.*no-such-stream"):
        append(spark.range(1).selectExpr("'x' data", "'k' partitionKey"), stream)


def test_a_stream_cannot_be_overwritten(spark: Any, make_stream: Any) -> None:
    frame = spark.range(1).selectExpr("'x' data", "'k' partitionKey")
    options = make_stream(1).options()
    del options["kinesis.startingposition"]
    with pytest.raises(Exception, match="append"):
        frame.write.format("kinesis").options(**options).mode("overwrite").save()
