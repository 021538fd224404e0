"""Kill -9 a cloud while consumers drain a queue: what is acknowledged stays away, all else comes again in its time."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.server import ServerProcess

pytestmark = pytest.mark.crash

STREAM = "flights"
CONSUMERS = 4
RECORDS = 1000
KILLS, NIGHTLY_KILLS = 1, 4


@dataclass
class Consumer:
    """Receives and acknowledges until the cloud is gone or the queue is empty; notes what was acknowledged."""

    client: Any
    queue: str
    chosen: random.Random
    acknowledged: set[str] = field(default_factory=set[str])
    asked: set[str] = field(default_factory=set[str])
    received: list[str] = field(default_factory=list[str])

    def run(self) -> None:
        try:
            while self._step():
                pass
        except (BotoCoreError, ClientError, OSError):
            return

    def _step(self) -> bool:
        records = self.client.receive_queue_records(
            QueueARN=self.queue, WaitTimeSeconds=3, VisibilityTimeoutSeconds=1
        )["QueueRecords"]
        texts = {r["ReceiptHandle"]: r["Data"].decode() for r in records}
        self.received += texts.values()
        # Some are left to become visible again.
        kept = [handle for handle in texts if self.chosen.random() < 0.9]
        if kept:
            self.asked |= {texts[handle] for handle in kept}
            answer = self.client.acknowledge_queue_records(
                QueueARN=self.queue, Entries=[{"ReceiptHandle": handle} for handle in kept]
            )
            self.acknowledged |= {texts[one["ReceiptHandle"]] for one in answer["Successful"]}
        return bool(records)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 4))]
)
@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_acknowledged_records_stay_away_and_the_others_come(
    tmp_path: Path, durability: str, seed: int, nightly: bool
):
    chosen, kills = random.Random(f"{durability} {seed}"), NIGHTLY_KILLS if nightly else KILLS
    texts = {str(number) for number in range(RECORDS)}
    acknowledged: set[str] = set()
    asked: set[str] = set()
    with ServerProcess(tmp_path / "data", "--durability", durability) as server:
        queue = create(server.client("kinesis"), sorted(texts))
        for kill in range(kills + 1):
            consumers = [
                Consumer(server.client("kinesis"), queue, chosen) for _ in range(CONSUMERS)
            ]
            threads = [threading.Thread(target=one.run) for one in consumers]
            for thread in threads:
                thread.start()
            if kill < kills:
                wait_for_records(consumers, RECORDS // 8, threads)
                server.kill9()
            for thread in threads:
                thread.join()
            for one in consumers:
                assert not acknowledged & set(one.received), "an acknowledged record came again"
            for one in consumers:
                acknowledged |= one.acknowledged
                asked |= one.asked
            if kill < kills:
                server.start()
        # What was asked for when the cloud died may be acknowledged; nothing else is missing.
        assert acknowledged <= asked <= texts
        assert texts - acknowledged <= asked


def create(client: Any, texts: list[str]) -> str:
    client.create_stream(StreamName=STREAM, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    summary = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    configuration = [
        {"StreamARN": summary["StreamARN"], "StartingPosition": {"Type": "TRIM_HORIZON"}}
    ]
    attributes = {"DeadLetterConfiguration": {"TargetType": "NONE"}}
    for start in range(0, len(texts), 500):
        records = [{"Data": t.encode(), "PartitionKey": t} for t in texts[start : start + 500]]
        assert client.put_records(StreamName=STREAM, Records=records)["FailedRecordCount"] == 0
    made = client.create_queue(
        QueueName="jobs", StreamConfigurationList=configuration, QueueAttributes=attributes
    )
    return str(made["QueueDescription"]["QueueARN"])


def wait_for_records(
    consumers: list[Consumer], count: int, threads: list[threading.Thread]
) -> None:
    """Wait until the consumers have received so many records, or have ended."""
    while sum(len(one.received) for one in consumers) < count:
        if not any(thread.is_alive() for thread in threads):
            return
        threads[0].join(0.001)


def test_what_is_in_flight_becomes_visible_after_its_time(tmp_path: Path):
    with ServerProcess(tmp_path / "data") as server:
        client = server.client("kinesis")
        queue = create(client, ["a"])
        (record,) = client.receive_queue_records(QueueARN=queue, VisibilityTimeoutSeconds=3)[
            "QueueRecords"
        ]
        received_at = record["FirstReceiveTimestamp"]
        server.kill9()
        server.start()
        client = server.client("kinesis")
        (again,) = client.receive_queue_records(
            QueueARN=queue, WaitTimeSeconds=20, VisibilityTimeoutSeconds=60
        )["QueueRecords"]
        assert (again["Data"], again["ReceiveCount"]) == (b"a", 2)
        assert again["FirstReceiveTimestamp"] == received_at
        # The handle from before the kill names an earlier receive.
        entry = [{"ReceiptHandle": record["ReceiptHandle"]}]
        failed = client.acknowledge_queue_records(QueueARN=queue, Entries=entry)["Failed"]
        assert failed[0]["ErrorCode"] == "InvalidArgumentException"
        entry = [{"ReceiptHandle": again["ReceiptHandle"]}]
        answer = client.acknowledge_queue_records(QueueARN=queue, Entries=entry)
        assert answer["Successful"] == entry
