"""Beside the pipeline: an on-demand stream with a queue, whose consumer acknowledges, and a channel to a bucket."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.pipeline.checks import Broken, read_stream
from tests.crash.pipeline.cloud import CloudUnderTest
from tests.crash.pipeline.producers import RETRY_S, Caller, Unanswered
from tests.support.lambda_lab import ROLE
from tests.support.server import wait_until

STREAM, BUCKET = "third", "archived"
ACCOUNT = "000000000000"
_BATCH = 5
# The consumer may be killed with records in flight: they come again soon.
_VISIBLE_AFTER_S = 1
_WITHIN_S = 60


def deploy_jobs(cloud: CloudUnderTest) -> str:
    """Make the stream, its queue and its channel; return the queue's ARN.

    The clouds of these tests allow a data freshness of a second (`zygote`), or no object would be under way at a kill.
    """
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName=STREAM, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    arn = kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"][
        "StreamARN"
    ]
    cloud.client("s3").create_bucket(Bucket=BUCKET)
    kinesis.create_channel(
        ChannelName="archive",
        ServiceExecutionRoleARN=ROLE,
        StreamConfigurationList=[
            {"StreamARN": arn, "RecordConfiguration": {"RecordFormatType": "JSON"}}
        ],
        S3DestinationConfiguration={
            "DataFreshnessInSeconds": 1,
            "StorageConfiguration": {
                "BucketARN": f"arn:aws:s3:::{BUCKET}",
                "ExpectedBucketOwner": ACCOUNT,
                "CompressionType": "NONE",
            },
        },
    )
    queue = kinesis.create_queue(
        QueueName="jobs",
        StreamConfigurationList=[{"StreamARN": arn}],
        QueueAttributes={"DeadLetterConfiguration": {"TargetType": "NONE"}},
    )
    return str(queue["QueueDescription"]["QueueARN"])


class _Client:
    """A thread that calls Kinesis through every fault."""

    def __init__(self, name: str, port: int) -> None:
        self.caller = Caller(port)
        self.failure: Exception | None = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def stop(self) -> None:
        """Bring what was begun to its end, and begin no more."""
        self.stopping.set()

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.step()
        except Exception as error:  # noqa: BLE001 - told to the test's own thread
            self.failure = error

    def step(self) -> None:
        """Do one round."""
        raise NotImplementedError

    def call(self, operation: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer; None when there was none."""
        try:
            return self.caller.call(operation, body)
        except Unanswered:
            time.sleep(RETRY_S)
            return None


class JobProducer(_Client):
    """Puts numbered records; `acknowledged` has the numbers that the stream has taken."""

    def __init__(self, port: int) -> None:
        super().__init__("jobs' producer", port)
        self.acknowledged: set[int] = set()
        self._next = 0

    def step(self) -> None:
        """Put a batch until all of it is taken."""
        left = list(range(self._next, self._next + _BATCH))
        self._next += _BATCH
        while left:
            records = [
                {
                    "Data": base64.b64encode(b'{"id": %d}\n' % number).decode(),
                    "PartitionKey": str(number),
                }
                for number in left
            ]
            answer = self.call("PutRecords", {"StreamName": STREAM, "Records": records})
            if answer is not None:
                results = list(zip(left, answer["Records"], strict=True))
                self.acknowledged |= {n for n, result in results if "ErrorCode" not in result}
                left = [n for n, result in results if "ErrorCode" in result]
        self.stopping.wait(0.05)


class JobConsumer(_Client):
    """Receives and acknowledges; a record whose acknowledgement succeeded must never come again."""

    def __init__(self, port: int, queue: str) -> None:
        super().__init__("jobs' consumer", port)
        self._queue = queue
        self.done: set[str] = set()
        self.numbers: set[int] = set()

    def step(self) -> None:
        """Receive once, and acknowledge."""
        wanted = {"WaitTimeSeconds": 1, "VisibilityTimeoutSeconds": _VISIBLE_AFTER_S}
        answer = self.call("ReceiveQueueRecords", {"QueueARN": self._queue, **wanted})
        records: list[dict[str, Any]] = [] if answer is None else answer["QueueRecords"]
        again = [one["RecordId"] for one in records if one["RecordId"] in self.done]
        if again:
            raise Broken(f"acknowledged records came again: {again}")
        ids = {one["ReceiptHandle"]: one["RecordId"] for one in records}
        self.numbers |= {json.loads(base64.b64decode(one["Data"]))["id"] for one in records}
        if ids:
            entries = [{"ReceiptHandle": handle} for handle in ids]
            answer = self.call(
                "AcknowledgeQueueRecords", {"QueueARN": self._queue, "Entries": entries}
            )
            if answer is not None:
                self.done |= {ids[one["ReceiptHandle"]] for one in answer["Successful"]}


def check_jobs(
    cloud: CloudUnderTest, producer: JobProducer, consumer: JobConsumer, folder: Path
) -> int:
    """Check the queue and the bucket once nothing strikes any more; return how many objects there are.

    The consumer still runs. Raises Broken.
    """
    try:
        _wait(lambda: producer.acknowledged <= consumer.numbers, "every record received")
    except AssertionError as error:
        missing = producer.acknowledged - consumer.numbers
        queue = cloud.page("/_headrace/kinesis/queues")
        raise Broken(
            f"{error}: {len(missing)} are missing, such as {sorted(missing)[:5]}; the consumer"
            f" {'runs' if consumer.thread.is_alive() else f'has ended: {consumer.failure!r}'}; the queue: {queue}"
        ) from error
    stored = Counter(one.data["id"] for one in read_stream(cloud.port, STREAM))
    lost = producer.acknowledged - set(stored)
    if lost:
        raise Broken(f"the third stream has lost {sorted(lost)[:5]}")
    _wait(lambda: bool(cloud.page("/_headrace/kinesis/channels")[0]["is_drained"]), "all delivered")
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]
    lines = [line for path in paths for line in path.read_text().splitlines()]
    delivered = Counter(json.loads(line)["id"] for line in lines)
    if delivered != stored:
        wrong = {
            n: (stored[n], delivered[n]) for n in stored | delivered if stored[n] != delivered[n]
        }
        raise Broken(f"stored and delivered so often: {dict(list(wrong.items())[:5])}")
    return len(paths)


def _wait(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, within_s=_WITHIN_S, what=what)
