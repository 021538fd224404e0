from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.lambdas.folders import load
from tests.lambdas.test_enrich_handler import Recorded

HANDLER, LOGIC = load("redrive")
ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/flights"


class FakeShard:
    """A shard that pages by two, and refuses every first put of a record when told to."""

    def __init__(self, payloads: list[bytes], *, first: int = 100, refuses: int = 0) -> None:
        self.records = [
            {"Data": data, "PartitionKey": "k", "SequenceNumber": str(first + number)}
            for number, data in enumerate(payloads)
        ]
        self.put: list[dict[str, Any]] = []
        self._refuses = refuses

    def get_shard_iterator(self, **request: Any) -> dict[str, Any]:
        assert request["ShardIteratorType"] == "AT_SEQUENCE_NUMBER"
        assert request["StreamARN"] == ARN
        return {"ShardIterator": request["StartingSequenceNumber"]}

    def get_records(self, *, ShardIterator: str, Limit: int) -> dict[str, Any]:
        after = [r for r in self.records if int(r["SequenceNumber"]) >= int(ShardIterator)]
        page = after[:2]
        following = str(int(page[-1]["SequenceNumber"]) + 1) if page else ShardIterator
        behind = 1 if len(after) > 2 else 0
        return {"Records": page, "NextShardIterator": following, "MillisBehindLatest": behind}

    def put_records(self, *, StreamARN: str, Records: list[dict[str, Any]]) -> dict[str, Any]:
        assert StreamARN == ARN
        if self._refuses:
            self._refuses -= 1
            return {
                "Records": [{"ErrorCode": "ProvisionedThroughputExceededException"}] * len(Records)
            }
        self.put.extend(Records)
        return {"Records": [{"SequenceNumber": "1"}] * len(Records)}


class FakeQueue:
    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def send_message(self, *, QueueUrl: str, MessageBody: str) -> None:
        assert QueueUrl == "url"
        self.reports.append(json.loads(MessageBody))


def message(first: int, last: int) -> dict[str, Any]:
    body = {
        "requestContext": {"condition": "RetryAttemptsExhausted"},
        "KinesisBatchInfo": {"shardId": "shardId-0", "startSequenceNumber": str(first),
                             "endSequenceNumber": str(last), "batchSize": last - first + 1,
                             "streamArn": ARN},
    }  # fmt: skip
    return {"messageId": "m1", "body": json.dumps(body)}


def run(given: dict[str, Any], shard: FakeShard, queue: FakeQueue) -> list[str]:
    answer = HANDLER.process(
        [given], kinesis=shard, sqs=queue, report_queue_url="url", pause=lambda _: None
    )
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def flights(recorded: Recorded) -> list[bytes]:
    return [base64.b64decode(r["kinesis"]["data"]) for r in recorded("kinesis_flights")]


def test_good_records_of_the_range_come_back_and_the_bad_are_reported(recorded: Recorded) -> None:
    good = flights(recorded)
    shard = FakeShard([good[0], good[1], b"poison", good[2], good[3]])
    queue = FakeQueue()
    assert run(message(101, 103), shard, queue) == []
    assert [r["Data"] for r in shard.put] == [good[1], good[2]]
    assert queue.reports == [
        {"streamArn": ARN, "shardId": "shardId-0", "sequenceNumber": "102",
         "condition": "RetryAttemptsExhausted", "reason": "it is not JSON"}
    ]  # fmt: skip


def test_a_range_that_retention_has_taken_is_reported(recorded: Recorded) -> None:
    shard, queue = FakeShard(flights(recorded)[:2], first=500), FakeQueue()
    assert run(message(101, 103), shard, queue) == []
    assert shard.put == []
    assert [r["reason"] for r in queue.reports] == ["the stream no longer has the range"]


def test_refused_records_are_put_again(recorded: Recorded) -> None:
    shard = FakeShard(flights(recorded)[:3], refuses=2)
    assert run(message(100, 102), shard, FakeQueue()) == []
    assert len(shard.put) == 3


def test_a_stream_that_refuses_to_the_end_leaves_the_message_to_the_queue(
    recorded: Recorded,
) -> None:
    shard, queue = FakeShard([*flights(recorded)[:1], b"bad"], refuses=99), FakeQueue()
    assert run(message(100, 101), shard, queue) == ["m1"]
    assert queue.reports == []


@pytest.mark.parametrize("body", ["", "7", "{}", '{"KinesisBatchInfo": 1}', "[]"])
def test_another_message_is_left_to_the_queue(body: str) -> None:
    given = {"messageId": "m1", "body": body}
    assert run(given, FakeShard([]), FakeQueue()) == ["m1"]
    with pytest.raises(LOGIC.NotAFailure):
        LOGIC.parse_failure(body)
