"""Buffering, and each record exactly once whatever step of a delivery a kill cuts short."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ids import Ids
from headrace.services.firehose.delivery import Delivery, Ports
from headrace.services.firehose.destination import checked
from headrace.services.firehose.sources import JournalSource, KinesisSource, Source
from headrace.services.firehose.state import DeliveryStream, DeliveryStreams, Progress
from headrace.store.database import Database
from tests.support.clock import FakeClock
from tests.support.objects import MemoryLogs, MemoryMetrics, MemoryObjects, MemorySchemas
from tests.support.streams import STREAM_ARN, MemoryStreams

SHARD = "shardId-0"


class Lab:
    """A delivery stream from a stream in memory to objects in memory, which can be killed."""

    def __init__(self, tmp_path: Path, *, source: Source | None = None, **destination: Any) -> None:
        self.clock = FakeClock()
        self.streams = MemoryStreams()
        self.source = source or KinesisSource(self.streams, STREAM_ARN)
        self.objects = MemoryObjects()
        self.logs = MemoryLogs()
        self.schemas = MemorySchemas(("a", "int"))
        self.store = DeliveryStreams(Database(tmp_path / "state.sqlite"))
        given = {
            "BucketARN": "arn:aws:s3:::lake",
            "Prefix": "p/",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 60},
            "CloudWatchLoggingOptions": {"Enabled": True, "LogGroupName": "g"},
            **destination,
        }
        self.stream = DeliveryStream(
            "d", "000000000000", "us-east-1", "id", "KinesisStreamAsSource",
            self.clock.now_ms(), checked(given),
        )  # fmt: skip
        self.store.save_progress("id", Progress(self.source.first_positions()))
        self.start()

    def start(self) -> None:
        """Begin as after a restart: nothing but what was stored."""
        ports = Ports(self.clock, Ids(7), self.objects, self.schemas, self.logs, MemoryMetrics())
        self.delivery = Delivery(self.stream, self.source, self.store, ports, lambda: True)

    def put(self, *datas: bytes, shard: str = SHARD) -> None:
        self.streams.put(*datas, shard_id=shard, now_ms=self.clock.now_ms())

    def settle(self) -> float:
        """Step until there is nothing to do at once; return the wait."""
        while True:
            wait_s = self.delivery.step()
            if wait_s > 0:
                return wait_s

    @property
    def delivered(self) -> bytes:
        return b"".join(self.objects.objects[key] for key in sorted(self.objects.objects))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_the_interval_counts_from_the_first_record(lab: Lab):
    lab.put(b"one")
    assert lab.settle() == 60
    lab.clock.advance(20)
    lab.put(b"two")
    assert lab.settle() == 40
    assert lab.objects.objects == {}
    lab.clock.advance(40)
    assert lab.settle() == float("inf")
    assert lab.delivered == b"onetwo"
    assert len(lab.objects.objects) == 1


def test_a_full_buffer_does_not_wait(lab: Lab):
    lab.put(*[b"x" * 300_000] * 4)
    lab.put(b"y")
    assert lab.settle() == float("inf")
    assert len(lab.objects.objects) == 1
    lab.put(b"z")
    assert lab.settle() == 60
    assert len(lab.objects.objects) == 1


def test_what_was_put_before_the_delivery_stream_is_not_delivered(tmp_path: Path):
    streams = MemoryStreams()
    streams.put(b"old")
    lab = Lab(tmp_path, source=KinesisSource(streams, STREAM_ARN))
    streams.put(b"new")
    lab.settle()
    lab.clock.advance(60)
    lab.settle()
    assert lab.delivered == b"new"


def test_children_are_read_after_their_parent(lab: Lab):
    lab.put(b"1", b"2")
    lab.streams.replace(SHARD, "shardId-1", "shardId-2")
    lab.put(b"3", shard="shardId-1")
    lab.settle()
    for _ in range(3):
        lab.clock.advance(60)
        lab.settle()
    assert b"".join(sorted(lab.objects.objects.values())) == b"123"


@pytest.mark.parametrize("moment", ["before the object", "after the object"])
def test_a_kill_between_the_steps_loses_and_doubles_nothing(lab: Lab, moment: str):
    lab.put(b"one", b"two")
    lab.settle()
    lab.clock.advance(60)
    if moment == "after the object":
        lab.objects.die_after_put = True
        with pytest.raises(KeyboardInterrupt):
            lab.settle()
    else:
        lab.objects.refuse = True
        with pytest.raises(OSError, match="no space"):
            lab.settle()
    lab.objects.die_after_put = lab.objects.refuse = False
    lab.put(b"three")
    lab.clock.advance(1)
    lab.start()
    lab.settle()
    assert lab.delivered == b"onetwo"
    lab.clock.advance(60)
    lab.settle()
    assert sorted(lab.objects.objects.values()) == [b"onetwo", b"three"]
    assert lab.delivery.progress.delivered_records == 3


def test_a_failing_bucket_is_tried_again_and_said_in_the_log(lab: Lab):
    lab.put(b"one")
    lab.settle()
    lab.clock.advance(60)
    lab.objects.refuse = True
    with pytest.raises(OSError, match="no space"):
        lab.delivery.step()
    assert "no space left" in lab.logs.lines[0]
    lab.objects.refuse = False
    lab.settle()
    assert lab.delivered == b"one"


def test_gzip_and_a_delimiter(tmp_path: Path):
    lab = Lab(
        tmp_path,
        CompressionFormat="GZIP",
        ProcessingConfiguration={
            "Enabled": True,
            "Processors": [{"Type": "AppendDelimiterToRecord"}],
        },
    )
    lab.put(b"one", b"two")
    lab.settle()
    lab.clock.advance(60)
    lab.settle()
    (key,) = lab.objects.objects
    assert key.endswith(".gz")
    assert gzip.decompress(lab.delivered) == b"one\ntwo\n"


def test_records_that_cannot_be_converted_go_to_the_error_prefix(tmp_path: Path):
    lab = Lab(
        tmp_path,
        BufferingHints={"SizeInMBs": 64, "IntervalInSeconds": 60},
        ErrorOutputPrefix="bad/!{firehose:error-output-type}/",
        DataFormatConversionConfiguration={
            "Enabled": True,
            "SchemaConfiguration": {"DatabaseName": "d", "TableName": "t"},
            "OutputFormatConfiguration": {"Serializer": {"ParquetSerDe": {}}},
        },
    )
    lab.put(b'{"a": 1}', b"nonsense")
    lab.settle()
    lab.clock.advance(60)
    lab.settle()
    bad, good = sorted(lab.objects.objects)
    assert bad.startswith("lake/bad/format-conversion-failed/")
    assert b'"errorCode": "DataFormatConversion.MalformedData"' in lab.objects.objects[bad]
    assert good.endswith(".parquet")
    assert lab.delivery.progress.failed_records == 1


def test_records_put_directly_are_there_after_a_kill(tmp_path: Path):
    def journal() -> JournalSource:
        return JournalSource(tmp_path / "journal", "id", 1_700_000_000_000)

    first = journal()
    lab = Lab(tmp_path, source=first)
    first.put([b"one", b"two"], lab.clock.now_ms(), sync=False)
    lab.settle()
    # Killed with both in the buffer: the journal is all there is.
    lab.source = journal()
    lab.start()
    lab.settle()
    lab.clock.advance(60)
    lab.settle()
    assert lab.delivered == b"onetwo"
