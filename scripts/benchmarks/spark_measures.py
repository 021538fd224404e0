"""The Spark benchmark's measurements, which run in the measured Spark's interpreter, and only need a job's packages.

`scripts.benchmarks.spark` uses it as a module, and with `--spark` as a program: the first argument is a JSON request,
the last line of the output has the figures as JSON.
"""

# ruff: noqa: B905 - zip has no `strict` on Python 3.9, which Spark 3.5 has

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from pyspark.sql import SparkSession

from headrace.spark.client import KinesisClient
from headrace.spark.offsets import TrimHorizon
from headrace.spark.options import Options, SinkOptions
from headrace.spark.reading import COLUMNS, pages
from headrace.spark.sink import MOST_RECORDS, Sender
from headrace.spark.streams import kinesis_stream, stream_to_kinesis
from headrace.spark.versions import HAS_DATA_SOURCES, spark_version
from scripts.benchmarks.spark_by_hand import REGION, over_boto3, row_by_row, row_by_row_source

SHARDS = 8
WAIT_S = 600.0
SINK_KEYS = 5_000


class Failed(Exception):
    """A measured operation failed."""


@dataclass
class Run:
    """A query's result: rows, its batches' seconds, milliseconds by part, and processor time by process."""

    rows: int = 0
    seconds: float = 0.0
    parts_ms: dict[str, int] = field(default_factory=dict[str, int])
    processor_s: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds if self.seconds else 0.0


class Bench:
    """A Spark session and a cloud."""

    def __init__(self, spark: Any, endpoint_url: str, folder: Path) -> None:
        self.spark = spark
        self.endpoint_url = endpoint_url
        self.folder = folder
        self.kinesis: Any = boto3.client("kinesis", region_name=REGION, endpoint_url=endpoint_url)
        self._queries = 0

    def create(self, stream: str) -> None:
        """Create a stream."""
        self.kinesis.create_stream(StreamName=stream, ShardCount=SHARDS)
        self.kinesis.get_waiter("stream_exists").wait(
            StreamName=stream, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )

    def fill(self, stream: str, records: int, size: int) -> None:
        """Create a stream with `records` of `size` bytes, evenly over its shards."""
        self.create(stream)
        client = KinesisClient(
            SinkOptions(stream=stream, region=REGION, endpoint_url=self.endpoint_url)
        )

        def send(first: int) -> None:
            sender = Sender(
                client.put_records, stream,
                ordered=False, ttl_s=60, clock_s=time.monotonic, sleep=time.sleep,
            )  # fmt: skip
            numbers = range(first, min(first + 10 * MOST_RECORDS, records))
            sender.add([b"x" * size] * len(numbers), [b"key-%d" % n for n in numbers], None)
            sender.send()
            sender.close()

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(send, range(0, records, 10 * MOST_RECORDS)))
        client.close()

    def rows_to_write(self, records: int) -> Any:
        """Return a streaming frame of rows of 100 B, from two files with half of the keys each, in order."""
        path = str(self.folder / "rows")
        frame = self.spark.range(records).selectExpr(
            "lpad(cast(id as string), 100, '0') data",
            f"concat('key-', id % {SINK_KEYS}) partitionKey",
        )
        frame.repartition(2, "partitionKey").sortWithinPartitions("data").write.parquet(path)
        return self.spark.readStream.schema(frame.schema).parquet(path)

    def written(self, form: str, stream: str, rows: Any) -> Run:
        """Write a streaming frame to a new stream, by our sink or (`boto3`) by foreachBatch over boto3."""
        self.create(stream)
        if form == "boto3":
            writer = rows.writeStream.foreachBatch(over_boto3(stream, self.endpoint_url))
        else:
            options = {"streamName": stream, "region": REGION, "endpointUrl": self.endpoint_url}
            named = {f"kinesis.{name}": value for name, value in options.items()}
            writer = stream_to_kinesis(rows, **named)
        writer = writer.option("checkpointLocation", self.checkpoint())
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return _run(query.recentProgress)

    def is_in_order(self, stream: str, records: int) -> bool:
        """Whether a stream has every written record once, and each key's records in order."""
        options = Options(
            stream=stream, region=REGION, endpoint_url=self.endpoint_url,
            fetch_interval_ms=0, read_bytes_per_s=10**9,
        )  # fmt: skip
        client = KinesisClient(options)
        order: defaultdict[str, list[int]] = defaultdict(list)
        for shard in client.shards():
            for page in pages(client, options, shard.shard_id, None, TrimHorizon()):
                keys = page.records.column("partitionKey").to_pylist()
                for key, data in zip(keys, page.records.column("data").to_pylist()):
                    order[key].append(int(data))
                if page.millis_behind_latest == 0:
                    break
        client.close()
        wanted = sum(map(len, order.values())) == records
        return wanted and all(
            numbers == list(range(int(key[4:]), records, SINK_KEYS))
            for key, numbers in order.items()
        )

    def frame(self, form: str, stream: str, **more: str) -> Any:
        """Return the streaming frame of a source."""
        if form == "rowbyrow":
            reader = self.spark.readStream.format(form)
            return reader.options(stream=stream, endpointUrl=self.endpoint_url).load()
        options = {
            "streamName": stream, "region": REGION, "endpointUrl": self.endpoint_url,
            "startingPosition": "TRIM_HORIZON", "getRecords.fetchIntervalMs": "1",
            "getRecords.maxBytesPerSecond": "1000000000", **more,
        }  # fmt: skip
        named = {f"kinesis.{name}": value for name, value in options.items()}
        if not HAS_DATA_SOURCES:
            return kinesis_stream(self.spark, **dict[str, Any](named))
        return self.spark.readStream.format(form).options(**named).load()

    def checkpoint(self) -> str:
        """Return a new folder for the next query."""
        self._queries += 1
        return str(self.folder / f"checkpoint-{self._queries}")

    def count(self, form: str, stream: str, records: int, **more: str) -> Run:
        """Count a backlog."""
        if form == "foreachbatch":
            return self._count_in_batches(stream, records)
        counted = 0

        def add(rows: Any, batch_id: int) -> None:
            nonlocal counted
            counted += rows.count()

        before = processor_s()
        query = (
            self.frame(form, stream, **more).writeStream.foreachBatch(add)
            .option("checkpointLocation", self.checkpoint())
            .start()
        )  # fmt: skip
        deadline = time.monotonic() + WAIT_S
        while counted < records and query.isActive and time.monotonic() < deadline:
            time.sleep(0.05)
        query.processAllAvailable()
        # Before the planner's process ends.
        after = processor_s()
        query.stop()
        if counted != records:
            raise Failed(f"{form} counted {counted} of {records}")
        run = _run(query.recentProgress)
        run.processor_s = {part: after[part] - before.get(part, 0.0) for part in after}
        return run

    def _count_in_batches(self, stream: str, records: int) -> Run:
        """Count a backlog with Spark 3.5's alternative: a foreachBatch that calls boto3."""
        read = row_by_row(stream, self.endpoint_url)
        end: dict[str, str] = {}
        run = Run()
        began = time.monotonic()

        def add(ticks: Any, batch_id: int) -> None:
            rows, following = read(end)
            end.update(following)
            run.rows += self.spark.createDataFrame(rows, COLUMNS).count() if rows else 0

        ticks = self.spark.readStream.format("rate").load().writeStream.foreachBatch(add)
        query = ticks.option("checkpointLocation", self.checkpoint()).start()
        while run.rows < records and query.isActive and time.monotonic() - began < WAIT_S:
            time.sleep(0.05)
        run.seconds = time.monotonic() - began
        query.stop()
        if run.rows != records:
            raise Failed(f"foreachBatch counted {run.rows} of {records}: {query.exception()}")
        return run

    def latency_ms(self, stream: str, *, stateful: bool, puts: int, **more: str) -> list[float]:
        """Return the times from a put to its row in a running query, with the smallest trigger."""
        self.kinesis.create_stream(StreamName=stream, ShardCount=1)
        seen: dict[str, float] = {}
        arrived = threading.Event()

        def keep(rows: Any, batch_id: int) -> None:
            for row in rows.collect():
                seen[row.partitionKey] = time.monotonic()
            arrived.set()

        frame = self.frame("kinesis", stream, **more)
        frame = frame.groupBy("partitionKey").count() if stateful else frame
        query = (
            frame.writeStream.outputMode("update" if stateful else "append").foreachBatch(keep)
            .option("checkpointLocation", self.checkpoint())
            .start()
        )  # fmt: skip
        times: list[float] = []
        try:
            for number in range(puts + 3):
                key = f"key-{number}"
                put = time.monotonic()
                self.kinesis.put_record(StreamName=stream, Data=b"x", PartitionKey=key)
                while key not in seen:
                    if not query.isActive or time.monotonic() - put > WAIT_S:
                        raise Failed(f"the row did not come: {query.exception()}")
                    arrived.wait(1)
                    arrived.clear()
                times.append((seen[key] - put) * 1000)
        finally:
            query.stop()
        # The first batches start workers and compile code.
        return times[3:]


def _run(progress: list[Any]) -> Run:
    run = Run()
    for batch in progress:
        if not batch["numInputRows"]:
            continue
        run.rows += batch["numInputRows"]
        run.seconds += batch["durationMs"]["triggerExecution"] / 1000
        for name, ms in batch["durationMs"].items():
            run.parts_ms[name] = run.parts_ms.get(name, 0) + int(ms)
    return run


def processor_s() -> dict[str, float]:
    """Return the processor time so far of this process and of those below it, by what they are, in seconds."""
    parents: dict[int, int] = {}
    used_s: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        used_s[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    total: dict[str, float] = {}
    for pid, seconds in used_s.items():
        part = _part_of(pid, parents)
        if part is not None:
            total[part] = total.get(part, 0.0) + seconds
    return total


def _part_of(pid: int, parents: dict[int, int]) -> str | None:
    if pid == os.getpid():
        return "driver"
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    line = [pid]
    while parents.get(line[-1], 0) not in (0, os.getpid()):
        line.append(parents[line[-1]])
    if os.getpid() not in (parents.get(one) for one in line):
        return None
    if b"java" in command.partition(b"\0")[0]:
        return "JVM"
    if b"pyspark" not in command:
        return "cloud"
    return "planner" if b"streaming" in command else "tasks"


def set_credentials() -> None:
    """Give this process and its children the credentials that any cloud on this machine takes."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


def session() -> Any:
    """Return a Spark session on two cores; its Python workers use this interpreter."""
    # Before the JVM starts: its Python workers must find pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    set_credentials()
    spark: Any = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    if HAS_DATA_SOURCES:
        from headrace.spark.source import KinesisDataSource

        spark.dataSource.register(KinesisDataSource)
        spark.dataSource.register(row_by_row_source())
    return spark


def fill_once(bench: Bench, stream: str, records: int, size: int) -> None:
    """Create a stream with a backlog, unless a run of another Spark has created it."""
    if stream not in bench.kinesis.list_streams(Limit=1000)["StreamNames"]:
        bench.fill(stream, records, size)


def counts(bench: Bench, records: int, slow_records: int, size: int) -> tuple[Run, Run]:
    """Return the figures of counting a backlog with our source, and with the alternative."""
    slow = "rowbyrow" if HAS_DATA_SOURCES else "foreachbatch"
    # Measure both after the JVM has compiled the hot code.
    for form, count in (("kinesis", 400_000), (slow, 20_000)):
        fill_once(bench, f"warm-up-{count}", count, 100)
        bench.count(form, f"warm-up-{count}", count)
    fill_once(bench, f"backlog-{size}", records, size)
    run = bench.count("kinesis", f"backlog-{size}", records)
    fill_once(bench, f"slow-{size}", slow_records, size)
    return run, bench.count(slow, f"slow-{size}", slow_records)


def main() -> None:
    """Measure what the first argument requests; print the figures as the last line."""
    asked = json.loads(sys.argv[1])
    spark = session()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, asked["endpoint_url"], Path(folder))
        fast, slow = counts(bench, asked["records"], asked["slow_records"], 100)
        found |= {"source": fast.rate, "row by row": slow.rate}
        rows = bench.rows_to_write(asked["sink_records"])
        for name in ("kinesis", "boto3"):
            bench.written(name, f"warm-up-{name}-{spark_version()[1]}", rows)
            stream = f"sink-{name}-{'-'.join(map(str, spark_version()))}"
            found[f"sink, {name}"] = bench.written(name, stream, rows).rate
        found["keys in order"] = float(
            bench.is_in_order(stream.replace("boto3", "kinesis"), asked["sink_records"])
        )
        spark.stop()
    print("figures", json.dumps(found))


if __name__ == "__main__":
    main()
