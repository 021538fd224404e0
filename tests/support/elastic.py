"""A stream on a real cloud whose shards follow its load: the function of lambdas/autoscale, and a producer."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3

from cdk.parts.elastic_stream import pack
from headrace.client import Producer
from tests.support.lambda_lab import zipped
from tests.support.server import REGION, ServerProcess, wait_until

ROLE = "arn:aws:iam::000000000000:role/functions"
CARRIERS = (
    "9E",
    "AA",
    "AS",
    "B6",
    "DL",
    "EV",
    "F9",
    "FL",
    "HA",
    "MQ",
    "UA",
    "US",
    "VX",
    "WN",
    "YV",
)
RECORD_BYTES = 200
# The bounds alone have the shards split and merged: how busy this machine is decides nothing.
MOST_SHARDS = 4
PUT_EVERY_S = 0.03


class ElasticLab:
    """Puts numbered records of each carrier in order; their number per second is set while it runs."""

    def __init__(self, server: ServerProcess, stream: str, folder: Path) -> None:
        self.server, self.stream = server, stream
        self.kinesis, self.functions = server.client("kinesis"), server.client("lambda")
        self.counts = dict.fromkeys(CARRIERS, 0)
        self.most_shards = 1
        self._folder = folder
        self._is_fast, self._stop = threading.Event(), threading.Event()
        self._feeder = threading.Thread(target=self._feed)
        self.kinesis.create_stream(StreamName=stream, ShardCount=1)
        self.kinesis.get_waiter("stream_exists").wait(StreamName=stream)
        self._is_fast.set()

    def __enter__(self) -> Self:
        self._feeder.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def options(self) -> dict[str, Any]:
        """Return what a producer or a group needs to reach the stream."""
        keys = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test")
        return {"session": keys, "region": REGION, "endpoint_url": self.server.endpoint_url}

    def add_function(self, name: str, code: bytes, variables: dict[str, str]) -> None:
        self.functions.create_function(
            FunctionName=name,
            Role=ROLE,
            Runtime="python3.13",
            Handler="handler.handler",
            Timeout=150,
            MemorySize=256,
            Code={"ZipFile": code},
            Environment={"Variables": variables},
        )
        self.functions.get_waiter("function_active_v2").wait(FunctionName=name)

    def scale(self, min_shards: int) -> str:
        """Add an autoscaler that keeps so many shards at least; return its name. Each invocation is one look."""
        pack(self._folder)
        files = {
            str(path.relative_to(self._folder)): path.read_bytes()
            for path in sorted(self._folder.rglob("*.py"))
        }
        variables = {
            "STREAM": self.stream, "MIN_SHARDS": str(min_shards), "MAX_SHARDS": str(MOST_SHARDS),
            "TARGET_UTILISATION": "0.6", "PERIOD_S": "60", "COLD_FOR_S": "2", "SAMPLE_S": "1",
            "METRICS": "Headrace/Shards",
        }  # fmt: skip
        name = f"autoscale-{min_shards}"
        self.add_function(name, zipped(files), variables)
        return name

    def open_shards(self) -> int:
        answer = self.kinesis.describe_stream_summary(StreamName=self.stream)
        count = int(answer["StreamDescriptionSummary"]["OpenShardCount"])
        self.most_shards = max(self.most_shards, count)
        return count

    def grow_and_shrink(self) -> None:
        """Have the shards split, and the idle ones merged; records go on meanwhile."""
        for count in (MOST_SHARDS, 1):
            name = self.scale(count)
            wait_until(
                lambda name=name, count=count: self._look(name) == count,
                within_s=150,
                what=f"{count} shards",
                most_pause_s=0.5,
            )
            self._is_fast.clear()
        self.stop()

    def _look(self, name: str) -> int:
        answer = self.functions.invoke(FunctionName=name)
        assert "FunctionError" not in answer, answer["Payload"].read()
        return self.open_shards()

    def stop(self) -> None:
        self._stop.set()
        if self._feeder.is_alive():
            self._feeder.join()

    def _feed(self) -> None:
        with Producer(self.stream, ordered=True, linger_ms=5, **self.options()) as producer:
            while not self._stop.wait(PUT_EVERY_S if self._is_fast.is_set() else 10 * PUT_EVERY_S):
                for carrier in CARRIERS:
                    number = self.counts[carrier]
                    producer.put(b"%d " % number + b"x" * RECORD_BYTES, carrier)
                    self.counts[carrier] = number + 1


def number_of(data: bytes) -> int:
    """Return the number in a record."""
    return int(data.partition(b" ")[0])


def disorder(seen: list[tuple[str, int]], counts: dict[str, int]) -> list[str]:
    """Return what is wrong with records in the order in which they were read: what came too early, what never came."""
    newest = dict.fromkeys(counts, -1)
    faults: list[str] = []
    for key, number in seen:
        if number > newest[key] + 1:
            faults.append(f"{key}: {number} came after {newest[key]}")
        newest[key] = max(newest[key], number)
    return faults + [
        f"{key}: {newest[key] + 1} of {n}" for key, n in counts.items() if newest[key] + 1 != n
    ]
