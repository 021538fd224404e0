"""A delivery stream from a stream in memory to objects in memory, which can be killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.core.ids import Ids
from headrace.core.ports import StreamRecord
from headrace.services.firehose.delivery import Delivery
from headrace.services.firehose.queries import Queries
from headrace.services.firehose.records import Ports, Record
from headrace.services.firehose.s3_settings import check_extended_s3
from headrace.services.firehose.sources import KinesisSource, Source
from headrace.services.firehose.state import DeliveryStream, DeliveryStreams, Progress
from headrace.store.database import Database
from tests.support.clock import FakeClock
from tests.support.objects import (
    Killed,
    MemoryFunctions,
    MemoryLogs,
    MemoryMetrics,
    MemoryObjects,
    MemorySchemas,
)
from tests.support.streams import STREAM_ARN, MemoryStreams

# One for all tests.
QUERIES = Queries()
SHARD = "shardId-0"
INTERVAL_S = 60
FUNCTION = "arn:aws:lambda:us-east-1:000000000000:function:f"
CONVERSION: dict[str, Any] = {
    "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": INTERVAL_S},
    "ErrorOutputPrefix": "bad/!{firehose:error-output-type}/",
    "DataFormatConversionConfiguration": {
        "Enabled": True,
        "SchemaConfiguration": {
            "RoleARN": "arn:aws:iam::000000000000:role/r",
            "DatabaseName": "d",
            "TableName": "t",
        },
        "InputFormatConfiguration": {"Deserializer": {"OpenXJsonSerDe": {}}},
        "OutputFormatConfiguration": {"Serializer": {"ParquetSerDe": {}}},
    },
}


def record_of(number: str, key: str, data: bytes, arrival_ms: int) -> Record:
    """Return a record as its source has it."""
    return Record(data, StreamRecord(number, key, data, arrival_ms), SHARD)


def processing(kind: str, **parameters: str) -> dict[str, Any]:
    """Return a ProcessingConfiguration of one processor."""
    given = [{"ParameterName": n, "ParameterValue": v} for n, v in parameters.items()]
    return {"Enabled": True, "Processors": [{"Type": kind, "Parameters": given}]}


def several(*processors: tuple[str, dict[str, str]]) -> dict[str, Any]:
    """Return a ProcessingConfiguration of processors: type and parameters."""
    made = [processing(kind, **parameters)["Processors"][0] for kind, parameters in processors]
    return {"Enabled": True, "Processors": made}


class Lab:
    """See the module. `start` begins anew, as after a kill, with nothing but what was stored."""

    def __init__(self, tmp_path: Path, *, source: Source | None = None, **destination: Any) -> None:
        self.clock = FakeClock()
        self.streams = MemoryStreams()
        self.source = source or KinesisSource(self.streams, STREAM_ARN)
        self.objects = MemoryObjects()
        self.functions = MemoryFunctions()
        self.logs = MemoryLogs()
        self.metrics = MemoryMetrics()
        self.schemas = MemorySchemas(("a", "int"))
        self.ids = Ids(7)
        self.store = DeliveryStreams(Database(tmp_path / "state.sqlite"))
        given = {
            "BucketARN": "arn:aws:s3:::lake",
            "Prefix": "p/",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": INTERVAL_S},
            "CloudWatchLoggingOptions": {
                "Enabled": True,
                "LogGroupName": "g",
                "LogStreamName": "s",
            },
            **destination,
        }
        self.stream = DeliveryStream(
            name="d",
            account="000000000000",
            region="us-east-1",
            stream_id="id",
            kind="KinesisStreamAsSource",
            created_ms=self.clock.now_ms(),
            destination=check_extended_s3(given),
            source_arn=STREAM_ARN,
        )
        self.store.save_progress("id", Progress(self.source.first_positions()))
        self.start()

    def start(self) -> None:
        self.ports = Ports(
            self.clock,
            self.ids,
            self.objects,
            self.schemas,
            self.functions,
            self.logs,
            self.metrics,
            queries=QUERIES,
        )
        self.current = True
        self.delivery = Delivery(
            self.stream, self.source, self.store, self.ports, lambda: self.current
        )

    def put(self, *datas: bytes, shard: str = SHARD) -> None:
        self.streams.put(*datas, shard_id=shard, now_ms=self.clock.now_ms())

    def settle(self) -> float:
        """Step until there is nothing to do at once; return the wait."""
        for _ in range(1000):
            wait_s = self.delivery.step()
            if wait_s > 0:
                return wait_s
        raise AssertionError("the delivery never rests")

    def settle_through_kills(self) -> float:
        """Settle, starting again after each kill or failure."""
        while True:
            try:
                return self.settle()
            except (Killed, OSError):
                self.start()

    def deliver(self) -> None:
        """Let the interval pass."""
        self.settle()
        self.clock.advance(INTERVAL_S)
        self.settle()

    @property
    def delivered(self) -> bytes:
        return b"".join(self.objects.objects[key] for key in sorted(self.objects.objects))
