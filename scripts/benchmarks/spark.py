"""Spark: the Kinesis source to a count, beside a row-by-row Python source over boto3 in the same run.

Cloud and Spark share this machine's cores (`local[2]`). A backlog is read by an AvailableNow query and counted: rows a
second over the query's batches, and where the time goes by the query's own progress. Then single records are put into
a running query: the time from the put to the row, without and with state. Read limits of AWS are off: they hold a shard
to 2 MiB a second. Last a step of EMR: what it takes from AddJobFlowSteps to the job's first line, beside a bare
`spark-submit` of the same job.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import click
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from rich.console import Console
from rich.table import Table

from headrace.spark.client import KinesisClient
from headrace.spark.get_records import parse_page, parse_records
from headrace.spark.offsets import TrimHorizon
from headrace.spark.options import Options, SinkOptions
from headrace.spark.puts import MOST_RECORDS, Put, Sender
from headrace.spark.source import KinesisDataSource
from headrace.spark.spool import ShardSpool
from headrace.spark_submit.spark_home import find_spark_home
from scripts.benchmarks.servers import running

REGION = "us-east-1"
SHARDS = 8
WAIT_S = 600.0


class RowByRow(SimpleDataSourceStreamReader):
    """The alternative: what a page of documentation leads to. Reads shard by shard with boto3, row tuples out."""

    def __init__(self, options: Any) -> None:
        self._stream = options["stream"]
        self._endpoint_url = options["endpointUrl"]

    def initialOffset(self) -> dict[str, str]:
        """Return an offset that names no shard: all begin at the oldest record."""
        return {}

    def read(self, start: dict[str, str]) -> tuple[Iterator[tuple[Any, ...]], dict[str, str]]:
        """Return the next rows of every shard."""
        kinesis: Any = boto3.client("kinesis", region_name=REGION, endpoint_url=self._endpoint_url)
        rows: list[tuple[Any, ...]] = []
        end = dict(start)
        for shard in kinesis.list_shards(StreamName=self._stream)["Shards"]:
            name = shard["ShardId"]
            where: dict[str, str] = (
                {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": end[name]}
                if name in end
                else {"ShardIteratorType": "TRIM_HORIZON"}
            )
            iterator = kinesis.get_shard_iterator(StreamName=self._stream, ShardId=name, **where)
            page = kinesis.get_records(ShardIterator=iterator["ShardIterator"])
            for record in page["Records"]:
                rows.append((
                    record["Data"], self._stream, record["PartitionKey"], record["SequenceNumber"],
                    record["ApproximateArrivalTimestamp"], name,
                ))  # fmt: skip
                end[name] = record["SequenceNumber"]
        return iter(rows), end

    def readBetweenOffsets(
        self, start: dict[str, str], end: dict[str, str]
    ) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a batch that is done again; the benchmark does none again."""
        return self.read(start)[0]


class RowByRowSource(DataSource):
    """`format("rowbyrow")`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "rowbyrow"

    def schema(self) -> str:
        """Return the columns of the other source."""
        return KinesisDataSource({"kinesis.streamName": "s"}).schema()

    def simpleStreamReader(self, schema: Any) -> RowByRow:
        """Return the reader."""
        return RowByRow(self.options)


@dataclass
class Run:
    """What a query did: rows, its batches' seconds, and milliseconds by part."""

    rows: int = 0
    seconds: float = 0.0
    parts_ms: dict[str, int] = field(default_factory=dict[str, int])

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

    def fill(self, stream: str, records: int, size: int) -> None:
        """Make a stream that holds `records` of `size` bytes, evenly over its shards."""
        self.kinesis.create_stream(StreamName=stream, ShardCount=SHARDS)
        self.kinesis.get_waiter("stream_exists").wait(
            StreamName=stream, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
        client = KinesisClient(
            SinkOptions(stream=stream, region=REGION, endpoint_url=self.endpoint_url)
        )
        data = b"x" * size

        def send(first: int) -> None:
            sender = Sender(
                client.put_records, stream,
                ordered=False, ttl_s=60, clock_s=time.monotonic, sleep=time.sleep,
            )  # fmt: skip
            sender.send([Put(n, data, f"key-{n}") for n in range(first, first + MOST_RECORDS)])

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(send, range(0, records, MOST_RECORDS)))
        client.close()

    def frame(self, form: str, stream: str, **more: str) -> Any:
        """Return the streaming frame of a source."""
        reader = self.spark.readStream.format(form)
        if form == "rowbyrow":
            return reader.options(stream=stream, endpointUrl=self.endpoint_url).load()
        options = {
            "streamName": stream, "region": REGION, "endpointUrl": self.endpoint_url,
            "startingPosition": "TRIM_HORIZON", "getRecords.fetchIntervalMs": "1",
            "getRecords.maxBytesPerSecond": "1000000000", **more,
        }  # fmt: skip
        return reader.options(
            **{f"kinesis.{name}": value for name, value in options.items()}
        ).load()

    def checkpoint(self) -> str:
        """Return a folder of the next query's own."""
        self._queries += 1
        return str(self.folder / f"checkpoint-{self._queries}")

    def count(self, form: str, stream: str, records: int, **more: str) -> Run:
        """Count a backlog."""
        counted = 0

        def add(rows: Any, batch_id: int) -> None:
            nonlocal counted
            counted += rows.count()

        query = (
            self.frame(form, stream, **more).writeStream.foreachBatch(add)
            .option("checkpointLocation", self.checkpoint())
            .start()
        )  # fmt: skip
        deadline = time.monotonic() + WAIT_S
        while counted < records and query.isActive and time.monotonic() < deadline:
            time.sleep(0.05)
        query.processAllAvailable()
        query.stop()
        if counted != records:
            raise click.ClickException(f"{form} counted {counted} of {records}")
        return _run(query.recentProgress)

    def latency_ms(self, stream: str, *, stateful: bool, puts: int) -> list[float]:
        """Return the times from a put to its row in a running query."""
        self.kinesis.create_stream(StreamName=stream, ShardCount=1)
        seen: dict[str, float] = {}
        arrived = threading.Event()

        def keep(rows: Any, batch_id: int) -> None:
            for row in rows.collect():
                seen[row.partitionKey] = time.monotonic()
            arrived.set()

        frame = self.frame("kinesis", stream)
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
                        raise click.ClickException(f"the row did not come: {query.exception()}")
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


def parts(bench: Bench, stream: str) -> dict[str, float]:
    """Return rows a second of the planner's three parts, each alone in one thread: fetching, parsing, spooling."""
    client = KinesisClient(Options(stream=stream, region=REGION, endpoint_url=bench.endpoint_url))
    iterator = client.iterator(client.shards()[0].shard_id, None, TrimHorizon())
    request = json.dumps({"ShardIterator": iterator, "Limit": 10_000}).encode()
    began = time.perf_counter()
    # The same page again and again.
    bodies = [client.send("GetRecords", request) for _ in range(5)]
    fetched_s = time.perf_counter() - began
    began = time.perf_counter()
    for body in bodies:
        parse_records(body)
    parsed_s = time.perf_counter() - began
    spool = ShardSpool(bench.folder / "spool", 0)
    began = time.perf_counter()
    for body in bodies:
        spool.append(parse_page(body))
    spooled_s = time.perf_counter() - began
    client.close()
    rows = spool.end
    return {"fetch": rows / fetched_s, "parse": rows / parsed_s, "spool": rows / spooled_s}


JOB = """\
import time
print("moment", time.monotonic(), flush=True)
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("moment", time.monotonic(), flush=True)
spark.stop()
"""


def _moments(text: str) -> tuple[float, float]:
    words = [line.split() for line in text.splitlines() if line.startswith("moment ")]
    return float(words[0][1]), float(words[1][1])


def bare_s(folder: Path) -> tuple[float, float]:
    """Return the seconds of a bare spark-submit to the job's first line and to its session."""
    job = folder / "job.py"
    job.write_text(JOB)
    command = [str(find_spark_home() / "bin" / "spark-submit"), "--master", "local[2]", str(job)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, session = _moments(done.stdout)
    return first - began, session - began


def step_s(endpoint_url: str) -> tuple[float, float, float]:
    """Return a step's seconds from AddJobFlowSteps to RUNNING, to the job's first line, and to its session."""

    def client(service: str) -> Any:
        return boto3.client(service, region_name=REGION, endpoint_url=endpoint_url)

    s3, emr = client("s3"), client("emr")
    s3.create_bucket(Bucket="bench")
    s3.put_object(Bucket="bench", Key="job.py", Body=JOB.encode())
    cluster = emr.run_job_flow(
        Name="bench", LogUri="s3://bench/logs/", Instances={"KeepJobFlowAliveWhenNoSteps": True}
    )["JobFlowId"]
    emr.get_waiter("cluster_running").wait(ClusterId=cluster, WaiterConfig={"Delay": 1})
    jar = {"Jar": "command-runner.jar", "Args": ["spark-submit", "s3://bench/job.py"]}
    began, running_s, state = time.monotonic(), 0.0, "PENDING"
    step = emr.add_job_flow_steps(
        JobFlowId=cluster,
        Steps=[{"Name": "job", "ActionOnFailure": "CONTINUE", "HadoopJarStep": jar}],
    )["StepIds"][0]
    while state in ("PENDING", "RUNNING") and time.monotonic() - began < WAIT_S:
        state = emr.describe_step(ClusterId=cluster, StepId=step)["Step"]["Status"]["State"]
        running_s = running_s or (time.monotonic() - began if state != "PENDING" else 0.0)
        time.sleep(0.02)
    if state != "COMPLETED":
        raise click.ClickException(f"the step is {state}")
    log = s3.get_object(Bucket="bench", Key=f"logs/{cluster}/steps/{step}/stdout.gz")["Body"].read()
    first, session = _moments(gzip.decompress(log).decode())
    return running_s, first - began, session - began


@click.command()
@click.option("--records", default=3_200_000, show_default=True, help="Backlog of 100 B records.")
@click.option("--slow-records", default=100_000, show_default=True, help="Of the alternative.")
@click.option("--puts", default=15, show_default=True, help="Single records for the latencies.")
def main(records: int, slow_records: int, puts: int) -> None:
    """Measure the Kinesis source on two local cores."""
    console = Console()
    # Before the JVM starts: its Python workers must find pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    rows: list[tuple[str, float, str, str, bool | None]] = []
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
    spark.dataSource.register(KinesisDataSource)
    spark.dataSource.register(RowByRowSource)
    with running("headrace") as cloud, tempfile.TemporaryDirectory() as name:
        bench = Bench(spark, f"http://127.0.0.1:{cloud.port}", Path(name))
        # The JVM compiles what runs often: both are to be seen after that.
        for form, count in (("kinesis", 400_000), ("rowbyrow", 20_000)):
            bench.fill(f"warm-up-{form}", count, 100)
            bench.count(form, f"warm-up-{form}", count)
        shares: dict[str, Run] = {}
        for size, count in ((100, records), (1024, records // 8)):
            stream = f"backlog-{size}"
            bench.fill(stream, count, size)
            shares[stream] = run = bench.count("kinesis", stream, count)
            goal = 300_000 if size == 100 else None
            rows.append((
                f"source to a count, {size} B", run.rate, "rows/s",
                f">= {goal:,}" if goal else "", run.rate >= goal if goal else None,
            ))  # fmt: skip
            bench.fill(f"slow-{size}", slow_records, size)
            slow = bench.count("rowbyrow", f"slow-{size}", slow_records)
            rows.append((f"row by row over boto3, {size} B", slow.rate, "rows/s", "", None))
            ratio = run.rate / slow.rate
            rows.append((f"times the alternative, {size} B", ratio, "x", ">= 10", ratio >= 10))
        for stateful, most in ((False, 1000), (True, 2000)):
            kind = "stateful" if stateful else "stateless"
            p50 = statistics.median(bench.latency_ms(kind, stateful=stateful, puts=puts))
            rows.append((f"put to row, p50, {kind}", p50, "ms", f"< {most:,}", p50 < most))
        alone = parts(bench, "backlog-100")
        spark.stop()
        bare = bare_s(Path(name))
        running_s, *step = step_s(bench.endpoint_url)
        rows.append(("step, AddJobFlowSteps to RUNNING", running_s * 1000, "ms", "", None))
        more_s = step[0] - bare[0]
        rows.append((
            "step to its first line, beyond spark-submit's own", more_s * 1000, "ms",
            "< 3,000", more_s < 3,
        ))  # fmt: skip
    table = Table("what", "value", "unit", "target", "met")
    for what, value, unit, target, met in rows:
        table.add_row(what, f"{value:,.1f}", unit, target, "" if met is None else str(met))
    console.print(table)
    for stream, run in shares.items():
        console.print(
            f"{stream}: {run.rows:,} rows in {run.seconds:.2f} s of batches; ms: {run.parts_ms}"
        )
    console.print(
        "to the first line and the session: "
        f"spark-submit {bare[0]:.2f} and {bare[1]:.2f} s, step {step[0]:.2f} and {step[1]:.2f} s"
    )
    console.print("alone, rows/s of 100 B: " + ", ".join(f"{k} {v:,.0f}" for k, v in alone.items()))


if __name__ == "__main__":
    main()
