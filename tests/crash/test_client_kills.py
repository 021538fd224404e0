"""Kill -9 of a group's workers while shards split and merge: at least once, in order per key, few records twice."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest

from headrace.client import Producer
from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.crash

STREAM, APPLICATION = "orders", "orders-app"
ROOT = Path(__file__).parents[2]


class Line(NamedTuple):
    """A line of a worker's log."""

    at_ns: int
    kind: str
    shard_id: str
    place: tuple[int, int]
    key: str
    number: int


def lines_of(folder: Path) -> list[Line]:
    lines: list[Line] = []
    for path in folder.glob("*.log"):
        # The last line may be on its way, or cut off by the kill.
        for text in path.read_text().rpartition("\n")[0].splitlines():
            at_ns, kind, shard_id, number, sub, key, data = text.split("\t")
            place = (int(number), int(sub))
            lines.append(Line(int(at_ns), kind, shard_id, place, key, int(data or -1)))
    return sorted(lines)


class Workers:
    """The processes of a group, of which some are killed."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self._server, self._folder = server, folder
        self._count = 0
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._count += 1
        log = self._folder / f"{self._count}.log"
        command = [sys.executable, "-m", "tests.support.programs.group_worker", APPLICATION, STREAM]
        command += [self._server.endpoint_url, str(log)]
        errors = (self._folder / f"{self._count}.err").open("wb")
        self.running.append(subprocess.Popen(command, cwd=ROOT, stderr=errors))

    def kill(self, index: int) -> None:
        worker = self.running.pop(index)
        worker.kill()
        worker.wait()

    def stop(self) -> None:
        while self.running:
            self.kill(0)


def reshard(kinesis: Any, chance: random.Random) -> None:
    wait_until(
        lambda: kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamStatus"]
        == "ACTIVE",
        what="the stream",
    )  # fmt: skip
    shards = kinesis.list_shards(StreamName=STREAM, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    shards.sort(key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
    if len(shards) > 1 and chance.random() < 0.5:
        at = chance.randrange(len(shards) - 1)
        kinesis.merge_shards(
            StreamName=STREAM,
            ShardToMerge=shards[at]["ShardId"],
            AdjacentShardToMerge=shards[at + 1]["ShardId"],
        )
        return
    ranges = chance.choice(shards)
    start, end = (int(ranges["HashKeyRange"][f"{name}HashKey"]) for name in ("Starting", "Ending"))
    kinesis.split_shard(
        StreamName=STREAM,
        ShardToSplit=ranges["ShardId"],
        NewStartingHashKey=str((start + end) // 2 + 1),
    )


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
def test_kills_and_reshards(tmp_path: Path, seed: int, nightly: bool):
    chance = random.Random(seed)
    with ServerProcess(tmp_path / "data") as server:
        kinesis = server.client("kinesis")
        kinesis.create_stream(StreamName=STREAM, ShardCount=2)
        kinesis.get_waiter("stream_exists").wait(StreamName=STREAM)
        workers = Workers(server, tmp_path)
        for _ in range(3):
            workers.start()
        session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test")
        stop, count = threading.Event(), 0
        with Producer(
            STREAM, aggregate=True, ordered=True, linger_ms=20, session=session, region="us-east-1",
            endpoint_url=server.endpoint_url,
        ) as producer:  # fmt: skip

            def feed() -> None:
                nonlocal count
                while not stop.wait(0.02):
                    for _ in range(10):
                        producer.put(b"%d" % count, f"key-{count % 15}")
                        count += 1

            feeder = threading.Thread(target=feed)
            feeder.start()
            try:
                seen = 0
                for _ in range(4 if nightly else 2):
                    seen += 200
                    wait_for_records(tmp_path, seen)
                    reshard(kinesis, chance)
                    workers.kill(chance.randrange(len(workers.running)))
                    workers.start()
                    seen = records_seen(tmp_path)
            finally:
                stop.set()
                feeder.join()
        wait_until(
            lambda: records_seen(tmp_path) == count,
            within_s=120,
            most_pause_s=0.5,
            what="all records",
        )
        workers.stop()
    check(lines_of(tmp_path))


def wait_for_records(folder: Path, count: int) -> None:
    wait_until(lambda: records_seen(folder) > count, within_s=90, what=f"more than {count} records")


def records_seen(folder: Path) -> int:
    return len({line.number for line in lines_of(folder) if line.kind == "record"})


def check(lines: list[Line]) -> None:
    """Check the order of each key's first deliveries, and that nothing comes again after its checkpoint was written."""
    written: dict[str, tuple[int, int]] = {}
    newest: dict[str, int] = {}
    seen: set[int] = set()
    for line in lines:
        if line.kind == "checkpoint":
            written[line.shard_id] = max(line.place, written.get(line.shard_id, line.place))
            continue
        assert line.place > written.get(line.shard_id, (0, 0)), f"{line} came after its checkpoint"
        if line.number not in seen:
            seen.add(line.number)
            assert line.number > newest.get(line.key, -1), f"{line} overtook"
            newest[line.key] = line.number
