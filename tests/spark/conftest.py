"""One Spark session and one cloud for all tests of the source."""

from __future__ import annotations

import itertools
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Of pyspark, about pandas 3, which these tests do not use.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

# Before the JVM starts: its Python workers must find pyarrow, and headrace where it is not installed (the environment
# of a Spark under test).
os.environ["PYSPARK_PYTHON"] = sys.executable
_PATH = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PATH))

# Tests look for what a query leaves there: other processes' tests leave theirs elsewhere.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
_TEMPORARY = tempfile.TemporaryDirectory(prefix="headrace-spark-tests-")
os.environ["TMPDIR"] = tempfile.tempdir = _TEMPORARY.name

from tests.support.environments import borrow, left_out  # noqa: E402 - see above
from tests.support.java import FILE_SYSTEM, session_variables  # noqa: E402
from tests.support.server import REGION, ServerProcess, wait_until  # noqa: E402

# Some tests have a cloud in their own process.
borrow()
collect_ignore = left_out("spark")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from headrace.spark.versions import HAS_DATA_SOURCES

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
    )
    for name, value in FILE_SYSTEM.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        variables = session_variables(os.environ["PYTHONPATH"], is_spark_4=HAS_DATA_SOURCES)
        for name, value in variables.items():
            patch.setenv(name, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if HAS_DATA_SOURCES:
        from headrace.spark.source import KinesisDataSource

        session.dataSource.register(KinesisDataSource)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("cloud") / "data") as server:
        yield server


class Stream:
    """A stream of numbered records: record n has the data b"n" and a key of its own choice."""

    def __init__(self, server: ServerProcess, name: str, shards: int) -> None:
        self.server = server
        self.name = name
        self.kinesis = server.client("kinesis")
        self.kinesis.create_stream(StreamName=name, ShardCount=shards)
        self.until_active()
        self.count = 0

    def until_active(self) -> None:
        def active() -> bool:
            answer = self.kinesis.describe_stream_summary(StreamName=self.name)
            return answer["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"

        wait_until(active)

    def put(self, count: int, keys: int = 20) -> None:
        """Put the next `count` numbers, spread over `keys` partition keys."""
        records = [
            {"Data": str(n).encode(), "PartitionKey": f"key-{n % keys}"}
            for n in range(self.count, self.count + count)
        ]
        for start in range(0, count, 500):
            answer = self.kinesis.put_records(
                StreamName=self.name, Records=records[start : start + 500]
            )
            assert answer["FailedRecordCount"] == 0
        self.count += count

    def records(self) -> list[Any]:
        """Return all records, shard by shard, with their shards' ids."""
        found: list[Any] = []
        for shard in self.shards():
            iterator = self.kinesis.get_shard_iterator(
                StreamName=self.name, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            while True:
                page = self.kinesis.get_records(ShardIterator=iterator)
                found += [record | {"ShardId": shard["ShardId"]} for record in page["Records"]]
                iterator = page.get("NextShardIterator")
                if not page["Records"] or iterator is None:
                    break
        return found

    def made_anew(self) -> Stream:
        """Delete it, and return a stream of the same name, with one shard.

        Sequence numbers tell streams apart by the second in which they were made.
        """
        summary = self.kinesis.describe_stream_summary(StreamName=self.name)
        made_s = summary["StreamDescriptionSummary"]["StreamCreationTimestamp"].timestamp()
        self.kinesis.delete_stream(StreamName=self.name)
        wait_until(lambda: time.time_ns() // 10**9 > int(made_s), what="the next second")
        return Stream(self.server, self.name, 1)

    def shards(self) -> list[Any]:
        return self.kinesis.list_shards(StreamName=self.name)["Shards"]

    def open_shards(self) -> list[Any]:
        found = [
            shard
            for shard in self.shards()
            if "EndingSequenceNumber" not in shard["SequenceNumberRange"]
        ]
        return sorted(found, key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))

    def split(self) -> None:
        """Split the first open shard in the middle."""
        shard = self.open_shards()[0]
        edges = shard["HashKeyRange"]
        middle = (int(edges["StartingHashKey"]) + int(edges["EndingHashKey"])) // 2 + 1
        self.kinesis.split_shard(
            StreamName=self.name, ShardToSplit=shard["ShardId"], NewStartingHashKey=str(middle)
        )
        self.until_active()

    def merge(self) -> None:
        """Merge the first two open shards."""
        first, second, *_ = self.open_shards()
        self.kinesis.merge_shards(
            StreamName=self.name,
            ShardToMerge=first["ShardId"],
            AdjacentShardToMerge=second["ShardId"],
        )
        self.until_active()

    def options(self, **more: str) -> dict[str, str]:
        return {
            "kinesis.streamName": self.name,
            "kinesis.region": REGION,
            "kinesis.endpointUrl": self.server.endpoint_url,
            "kinesis.startingposition": "TRIM_HORIZON",
            **{f"kinesis.{name}": value for name, value in more.items()},
        }


@pytest.fixture
def make_stream(server: ServerProcess, request: pytest.FixtureRequest) -> Any:
    numbers = itertools.count()

    def make(shards: int = 2) -> Stream:
        name = re.sub("[^a-zA-Z0-9_.-]", "-", f"{request.node.name[:80]}-{next(numbers)}")
        return Stream(server, name, shards)

    return make


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, str]:
    """Where a query writes, and its checkpoint."""
    return str(tmp_path / "out"), str(tmp_path / "checkpoint")
