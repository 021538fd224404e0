"""Spark 3.5: `kinesis_stream` to a count, beside a foreachBatch that reads with boto3, in the same run.

    PYTHONPATH=. HEADRACE_PYTHON=.venv/bin/python /path/to/spark3.5/bin/python -m scripts.benchmarks.spark_functions

Runs with the interpreter of the Spark that is measured, 3.5 or later; the cloud runs with HEADRACE_PYTHON. Both share
this machine's cores (`local[2]`). Read limits of AWS are off: they hold a shard to 2 MiB a second. Prints JSON, with
rates in rows a second over the queries' batches.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REGION = "us-east-1"
SHARDS = 8
WAIT_S = 600.0


@contextmanager
def cloud(folder: Path) -> Iterator[str]:
    """Run a cloud of its own; yield its endpoint."""
    python = os.environ.get("HEADRACE_PYTHON") or sys.executable
    command = [python, "-m", "headrace.cli.main", "up", "--data-dir", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    record = folder / "headrace.json"
    deadline = time.monotonic() + 60
    try:
        while not record.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the cloud has not started")
            time.sleep(0.1)
        yield json.loads(record.read_text())["endpoint_url"]
    finally:
        process.terminate()
        process.wait(20)


def fill(endpoint_url: str, stream: str, records: int, size: int) -> None:
    """Make a stream that holds `records` of `size` bytes, evenly over its shards."""
    import boto3

    from headrace.spark.client import KinesisClient
    from headrace.spark.options import SinkOptions

    kinesis: Any = boto3.client("kinesis", region_name=REGION, endpoint_url=endpoint_url)
    kinesis.create_stream(StreamName=stream, ShardCount=SHARDS)
    kinesis.get_waiter("stream_exists").wait(
        StreamName=stream, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    client = KinesisClient(SinkOptions(stream=stream, region=REGION, endpoint_url=endpoint_url))
    data = b64encode(b"x" * size).decode()

    def send(first: int) -> None:
        waiting = [{"Data": data, "PartitionKey": f"key-{n}"} for n in range(first, first + 500)]
        while waiting:
            body = json.dumps({"StreamName": stream, "Records": waiting}).encode()
            answers: list[dict[str, Any]] = client.put_records(body) or []
            refused = [place for place, answer in enumerate(answers) if answer.get("ErrorCode")]
            waiting = [waiting[place] for place in refused]

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(send, range(0, records, 500)))
    client.close()


def functions_frame(spark: Any, endpoint_url: str, stream: str) -> Any:
    """Return the frame of `kinesis_stream`."""
    from headrace.spark.streams import kinesis_stream

    options = {
        "kinesis.streamName": stream, "kinesis.region": REGION, "kinesis.endpointUrl": endpoint_url,
        "kinesis.startingPosition": "TRIM_HORIZON", "kinesis.getRecords.fetchIntervalMs": 1,
        "kinesis.getRecords.maxBytesPerSecond": 1_000_000_000,
    }  # fmt: skip
    return kinesis_stream(spark, **options)


class ByBoto3:
    """The alternative: a foreachBatch of a `rate` stream that reads every shard with boto3, and makes rows of it."""

    def __init__(self, endpoint_url: str, stream: str) -> None:
        import boto3

        self._kinesis: Any = boto3.client("kinesis", region_name=REGION, endpoint_url=endpoint_url)
        self._stream = stream
        self._iterators = {
            shard["ShardId"]: self._kinesis.get_shard_iterator(
                StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            for shard in self._kinesis.list_shards(StreamName=stream)["Shards"]
        }
        self.rows = 0
        self.seconds = 0.0

    def read(self, batch: Any, _: int) -> None:
        """Read a page of every shard, and count it."""
        began = time.monotonic()
        rows: list[tuple[Any, ...]] = []
        for name, iterator in list(self._iterators.items()):
            page = self._kinesis.get_records(ShardIterator=iterator)
            self._iterators[name] = page["NextShardIterator"]
            rows += [
                (
                    record["Data"], self._stream, record["PartitionKey"], record["SequenceNumber"],
                    record["ApproximateArrivalTimestamp"], name,
                )
                for record in page["Records"]
            ]  # fmt: skip
        if rows:
            from headrace.spark.reading import COLUMNS

            self.rows += batch.sparkSession.createDataFrame(rows, COLUMNS).count()
            self.seconds += time.monotonic() - began


def count_by_functions(spark: Any, endpoint_url: str, stream: str, records: int, to: str) -> float:
    """Return the rate at which a backlog is counted, in rows a second."""
    counted = [0]

    def add(batch: Any, _: int) -> None:
        counted[0] += batch.count()

    query = (
        functions_frame(spark, endpoint_url, stream)
        .writeStream.foreachBatch(add)
        .option("checkpointLocation", to)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(WAIT_S)
    if counted[0] != records:
        raise SystemExit(f"counted {counted[0]} of {records}: {query.exception()}")
    batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
    ms: dict[str, int] = {}
    for batch in batches:
        for name, value in batch["durationMs"].items():
            ms[name] = ms.get(name, 0) + value
    sys.stderr.write(f"{stream}: {len(batches)} batches, ms: {ms}\n")
    return records * 1000 / ms["triggerExecution"]


def count_by_boto3(spark: Any, endpoint_url: str, stream: str, records: int, to: str) -> float:
    """Return the rate of the alternative, in rows a second."""
    reader = ByBoto3(endpoint_url, stream)
    query = (
        spark.readStream.format("rate").load().writeStream.foreachBatch(reader.read)
        .option("checkpointLocation", to).start()
    )  # fmt: skip
    deadline = time.monotonic() + WAIT_S
    while reader.rows < records and query.isActive and time.monotonic() < deadline:
        time.sleep(0.05)
    query.stop()
    if reader.rows != records:
        raise SystemExit(f"counted {reader.rows} of {records}: {query.exception()}")
    return records / reader.seconds


def main() -> None:
    """Measure `kinesis_stream` on two local cores."""
    words = argparse.ArgumentParser(description=main.__doc__)
    words.add_argument("--records", type=int, default=1_600_000, help="backlog of 100 B records")
    words.add_argument("--slow-records", type=int, default=50_000, help="of the alternative")
    given = words.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    from pyspark.sql import SparkSession

    spark: Any = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as name, cloud(Path(name) / "data") as url:
        # The JVM compiles what runs often: both are to be seen after that.
        fill(url, "warm-up", 100_000, 100)
        count_by_functions(spark, url, "warm-up", 100_000, f"{name}/1")
        fill(url, "slow", given.slow_records, 100)
        fill(url, "backlog", given.records, 100)
        fast = count_by_functions(spark, url, "backlog", given.records, f"{name}/2")
        slow = count_by_boto3(spark, url, "slow", given.slow_records, f"{name}/3")
        found = {
            "spark": spark.version, "functions": round(fast), "foreachBatch over boto3": round(slow),
            "times": round(fast / slow, 1),
        }  # fmt: skip
        sys.stdout.write(json.dumps(found) + "\n")
        spark.stop()


if __name__ == "__main__":
    main()
