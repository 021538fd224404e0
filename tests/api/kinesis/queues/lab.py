"""What tests of queues do again and again, through boto3."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from tests.api.kinesis.streams import arn_of, split_first
from tests.support.clock import FakeClock
from tests.support.cloud import InProcessCloud

STREAM = "flights"
STREAM_ARN = arn_of(STREAM)


def configuration(**position: Any) -> list[dict[str, Any]]:
    """Return a StreamConfigurationList, with this StartingPosition."""
    return [{"StreamARN": STREAM_ARN, **({"StartingPosition": position} if position else {})}]


class QueueLab:
    """One on-demand stream, and queues on it."""

    def __init__(self, cloud: InProcessCloud, clock: FakeClock) -> None:
        self.cloud = cloud
        self.clock = clock
        self.kinesis = cloud.client("kinesis")

    def stream(self, name: str = STREAM) -> None:
        self.kinesis.create_stream(StreamName=name, StreamModeDetails={"StreamMode": "ON_DEMAND"})

    def queue(self, name: str = "jobs", *, start: dict[str, Any] | None = None, **more: Any) -> str:
        answer = self.kinesis.create_queue(
            QueueName=name, StreamConfigurationList=configuration(**(start or {})), **more
        )
        return str(answer["QueueDescription"]["QueueARN"])

    def dead_letters_after(self, count: int, name: str = "jobs") -> str:
        config = {"TargetType": "BUILT_IN", "MaxReceiveCount": count}
        return self.queue(name, QueueAttributes={"DeadLetterConfiguration": config})

    def put(self, *texts: str) -> None:
        records = [{"Data": text.encode(), "PartitionKey": text} for text in texts]
        answer = self.kinesis.put_records(StreamName=STREAM, Records=records)
        assert answer["FailedRecordCount"] == 0

    def receive(self, queue: str, *, dead: bool = False, **more: Any) -> list[dict[str, Any]]:
        """Return what one receive returns; one that finds nothing ends after a second of the clock."""
        call = (
            self.kinesis.receive_dead_letter_queue_records
            if dead
            else self.kinesis.receive_queue_records
        )
        more = {"WaitTimeSeconds": 1, **more}
        received: list[list[dict[str, Any]]] = []
        thread = threading.Thread(
            target=lambda: received.append(call(QueueARN=queue, **more)["QueueRecords"])
        )
        thread.start()
        while thread.is_alive():
            thread.join(0.01)
            opened = self.cloud.cloud.kinesis.queues.by_arn(queue)
            if opened is not None and opened.waiting:
                self.clock.advance(more["WaitTimeSeconds"])
                thread.join(10)
        assert received, "the receive has failed"
        return received[0]

    def drain(self, queue: str) -> list[str]:
        """Receive and acknowledge until nothing is visible; return the texts."""
        texts: list[str] = []
        while records := self.receive(queue):
            texts += texts_of(records)
            assert not self.acknowledge(queue, records)
        return texts

    def acknowledge(
        self, queue: str, records: Iterable[dict[str, Any]], *, dead: bool = False
    ) -> list[dict[str, Any]]:
        """Acknowledge records; return the entries that failed."""
        call = (
            self.kinesis.acknowledge_dead_letter_queue_records
            if dead
            else self.kinesis.acknowledge_queue_records
        )
        return call(QueueARN=queue, Entries=entries(records))["Failed"]

    def split(self) -> None:
        """Split the first open shard; see `split_first`."""
        split_first(self.cloud, STREAM_ARN, self.clock.now_ms())


def entries(records: Iterable[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    return [{"ReceiptHandle": record["ReceiptHandle"], **more} for record in records]


def texts_of(records: Iterable[dict[str, Any]]) -> list[str]:
    return [record["Data"].decode() for record in records]
