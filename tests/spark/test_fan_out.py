"""Enhanced fan-out in the distributed mode: pushed pages, on a real cloud; and moves between the modes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.client import KinesisClient, KinesisError
from headrace.spark.offsets import TrimHorizon
from headrace.spark.options import Options
from headrace.spark.streams import kinesis_stream
from headrace.spark.subscription import Subscription
from tests.spark.conftest import Stream
from tests.support.server import REGION

FAN_OUT = {"consumerType": "SubscribeToShard", "consumerName": "spark"}


class Broken:
    """An event stream that ends before its first event is whole."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, _: int, **__: Any) -> Any:
        yield self._content
        raise OSError("reset")

    def close(self) -> None:
        """There is nothing to close."""


def client_of(stream: Stream) -> KinesisClient:
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "test")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "test")
    url = stream.options()["kinesis.endpointUrl"]
    return KinesisClient(Options(stream=stream.name, region=REGION, endpoint_url=url))


def pages(source: Subscription) -> tuple[list[str], bool]:
    """Return the records' numbers up to the shard's present end, and whether the shard has ended."""
    numbers: list[str] = []
    while True:
        page = source.next_page(1, 60)
        assert page is not None
        numbers += page.records.column("sequenceNumber").to_pylist()
        if page.next_iterator is None or page.millis_behind_latest == 0:
            return numbers, page.next_iterator is None


def test_a_shard_is_pushed_to_its_end_and_from_a_number_on(
    make_stream: Callable[[int], Stream],
) -> None:
    stream = make_stream(1)
    stream.put(300)
    client = client_of(stream)
    arn = client.consumer_arn("spark")
    assert client.consumer_arn("spark") == arn
    (shard,) = stream.open_shards()
    source = Subscription(client, arn, shard["ShardId"], (None, TrimHorizon()))
    first, ended = pages(source)
    assert len(first) == 300
    assert not ended
    stream.put(5)
    stream.split()
    rest: list[str] = []
    while not ended:
        numbers, ended = pages(source)
        rest += numbers
    source.close()
    assert len(rest) == 5
    # Within five seconds of the last one Kinesis refuses another: it is waited for.
    again = Subscription(client, arn, shard["ShardId"], (first[297], TrimHorizon()))
    assert pages(again)[0] == [*first[298:], *rest]
    again.close()
    client.close()


def test_a_broken_subscription_goes_on_where_it_broke(
    make_stream: Callable[[int], Stream],
) -> None:
    stream = make_stream(1)
    stream.put(20)
    client = client_of(stream)
    arn = client.consumer_arn("spark")
    broken = [Broken(b"\0\0"), Broken(b"")]

    class Calls:
        def subscribe(self, *where: Any) -> Any:
            return broken.pop() if broken else client.subscribe(*where)

    (shard,) = stream.open_shards()
    source = Subscription(Calls(), arn, shard["ShardId"], (None, TrimHorizon()))
    assert len(pages(source)[0]) == 20
    source.close()
    client.close()

    class Never:
        def subscribe(self, *where: Any) -> Any:
            return Broken(b"")

    with pytest.raises(KinesisError, match="breaks again and again"):
        Subscription(Never(), arn, shard["ShardId"], (None, TrimHorizon())).next_page(1, 60)


def drained(spark: Any, stream: Stream, folder: Path, **more: str) -> None:
    """Run a query to the stream's end."""
    frame = kinesis_stream(spark, available_now=True, **stream.options(**more))
    query = (
        frame.selectExpr("cast(data as string) as data", "shardId")
        .writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def copied(spark: Any, folder: Path) -> Counter[int]:
    return Counter(int(row["data"]) for row in spark.read.parquet(str(folder / "rows")).collect())


@pytest.mark.spark
def test_one_checkpoint_goes_through_fan_out_polling_and_the_driver_over_reshards(
    spark: Any, make_stream: Callable[[int], Stream], tmp_path: Path, nightly: bool
) -> None:
    stream = make_stream(2)
    path = {"metadataPath": str(tmp_path / "metadata")}
    modes = (
        {**path, **FAN_OUT},
        {**path, "readMode": "driver"},
        {**path, "readMode": "executors"},
        {**path, **FAN_OUT},
    )
    # The last run is the driver's, which is what a local session has where nobody says.
    for mode in modes if nightly else modes[::2]:
        stream.put(200)
        stream.split()
        stream.put(200)
        drained(spark, stream, tmp_path, **mode)
    drained(spark, stream, tmp_path, **path)
    assert copied(spark, tmp_path) == Counter(range(stream.count))
    # Without the plans nobody knows where it stands; Spark 3.5 has another path by default.
    with pytest.raises(
        Exception,
        match=r"The checkpoint is of the distributed mode: set|which is not under kinesis",
    ):
        drained(spark, stream, tmp_path)
