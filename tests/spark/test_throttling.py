"""The source and the sink against a cloud that throttles as AWS does."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError

from headrace.spark.client import KinesisClient
from headrace.spark.offsets import Offset, TrimHorizon
from headrace.spark.options import Options, parse_options, parse_sink_options
from headrace.spark.planner import Planner
from headrace.spark.sink import write
from headrace.spark.spool import read_slices
from tests.spark.conftest import Stream
from tests.support.server import ServerProcess

CLIENT_LOG = "headrace.spark.client"
DATA = b"x" * 10_000
RECORDS = 600


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, list[str]]]:
    """A cloud with AWS's limits, and streams of 6 MB in one shard: three seconds' worth of reading."""
    data_dir = tmp_path_factory.mktemp("limits") / "data"
    names = [f"filled-{number}" for number in range(2)]
    with ServerProcess(data_dir) as server:
        for name in names:
            stream = Stream(server, name, 1)
            for start in range(0, RECORDS, 100):
                records = [
                    {"Data": b"%d " % n + DATA, "PartitionKey": "k"}
                    for n in range(start, start + 100)
                ]
                stream.kinesis.put_records(StreamName=name, Records=records)
    with ServerProcess(data_dir, "--limits", "aws") as server:
        yield server, names


def options_of(server: ServerProcess, name: str, **more: str) -> dict[str, str]:
    return {
        "kinesis.streamName": name,
        "kinesis.region": "us-east-1",
        "kinesis.endpointUrl": server.endpoint_url,
        **{f"kinesis.{key}": value for key, value in more.items()},
    }


def read_all(options: Options, wanted: int) -> list[int]:
    """Plan batch after batch until so many records are read; return the numbers in them."""
    client = KinesisClient(options)
    planner = Planner(client, options)
    found: list[int] = []
    offset = Offset(options.stream, TrimHorizon())
    deadline_s = time.monotonic() + 60
    try:
        while len(found) < wanted:
            assert time.monotonic() < deadline_s, f"{len(found)} of {wanted}"
            end = planner.plan(offset, None)
            for _, slices in planner.slices(offset, end):
                for batch in read_slices(slices):
                    found += [int(data.split()[0]) for data in batch.column("data").to_pylist()]
            planner.release(end)
            if end == offset:
                time.sleep(0.05)
            offset = end
    finally:
        planner.close()
        client.close()
    return found


def throttled(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "ProvisionedThroughputExceeded" in line]


def test_a_reader_alone_is_never_throttled(
    filled: tuple[ServerProcess, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    server, names = filled
    # Many small calls at first, and then few of 3 MB: both limits are met.
    with caplog.at_level(logging.INFO, CLIENT_LOG):
        few = parse_options(
            options_of(server, names[0], **{"getRecords.numberOfRecordsPerFetch": "10"})
        )
        assert read_all(few, 200)[:200] == list(range(200))
        large = parse_options(
            options_of(server, names[1], **{"getRecords.numberOfRecordsPerFetch": "300"})
        )
        assert read_all(large, RECORDS) == list(range(RECORDS))
    assert throttled(caplog) == []


@contextmanager
def another_consumer(
    server: ServerProcess, name: str, has_refused: Callable[[], object] = lambda: True
) -> Iterator[list[str]]:
    """Read a stream's only shard beside, four of its five times a second; yield the refusals.

    A reader that took all five for ever would be a race that chance decides, not a test: it does so until another was
    refused, however slow that one is.
    """
    kinesis = server.client("kinesis")
    refused: list[str] = []
    stop = threading.Event()

    def read() -> None:
        iterator = kinesis.get_shard_iterator(
            StreamName=name, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while not stop.wait(0.25 if has_refused() else 0.02):
            try:
                kinesis.get_records(ShardIterator=iterator, Limit=60)
            except ClientError as error:
                refused.append(error.response["Error"]["Code"])

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield refused
    finally:
        stop.set()
        thread.join(30)
        kinesis.close()


def test_beside_another_consumer_it_backs_off_and_loses_nothing(
    filled: tuple[ServerProcess, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    server, names = filled
    options = parse_options(
        options_of(server, names[0], **{"getRecords.numberOfRecordsPerFetch": "60"})
    )
    with (
        caplog.at_level(logging.INFO, CLIENT_LOG),
        another_consumer(server, names[0], lambda: throttled(caplog)),
    ):
        assert read_all(options, RECORDS) == list(range(RECORDS))
    assert throttled(caplog), "the other consumer took nothing"


def test_over_the_write_limit_refused_records_only_are_sent_again_in_the_order_of_their_keys(
    filled: tuple[ServerProcess, list[str]],
) -> None:
    server, _ = filled
    stream = Stream(server, "written", 1)
    count, keys = 2500, 700
    batches = (
        pa.RecordBatch.from_pydict(
            {
                "data": [str(n).encode() for n in range(start, start + 250)],
                "partitionKey": [f"key-{n % keys}" for n in range(start, start + 250)],
            }
        )
        for start in range(0, count, 250)
    )
    began_s = time.monotonic()
    done = write(parse_sink_options(options_of(server, "written")), batches)
    assert time.monotonic() - began_s > 1.2  # a thousand at once, and then a thousand a second
    assert done.records == count
    assert done.retried > 0
    found = _stored(stream)
    assert Counter(n for _, n in found) == Counter(range(count))
    order: defaultdict[str, list[int]] = defaultdict(list)
    for key, number in found:
        order[key].append(number)
    assert all(numbers == sorted(numbers) for numbers in order.values())


def _stored(stream: Stream) -> list[tuple[str, int]]:
    iterator: Any = stream.kinesis.get_shard_iterator(
        StreamName=stream.name, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    found: list[tuple[str, int]] = []
    while True:
        page = stream.kinesis.get_records(ShardIterator=iterator)
        found += [(record["PartitionKey"], int(record["Data"])) for record in page["Records"]]
        iterator = page["NextShardIterator"]
        if page["MillisBehindLatest"] == 0:
            return found
        time.sleep(0.25)
