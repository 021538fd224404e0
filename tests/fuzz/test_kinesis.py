"""Every action of Kinesis under random requests: never a 500, and every answer is one that botocore reads.

A hundred requests an action here, 10,000 with `--nightly`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from random import Random
from typing import Any

import botocore.session
import cbor2
import pytest
from botocore import parsers
from botocore.eventstream import EventStreamBuffer

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.server.server import when_done
from headrace.testing.clock import MovableClock
from tests.fuzz.requests import Known, Requests, cbor_ready, json_ready
from tests.fuzz.upkeep import Caller, Upkeep
from tests.support.cloud import InProcessCloud

JSON = "application/x-amz-json-1.1"
CBOR = "application/x-amz-cbor-1.1"
MODEL = botocore.session.get_session().get_service_model("kinesis")
PARSER: Any = parsers.create_parser("json")
REQUESTS = 100
NIGHTLY_REQUESTS = 10_000
ACCOUNT = "000000000000"
NAMES = ("flights", "gates", "delays")
# The stream of a queue and a channel.
FEED = "feed"
# So many that a receive seldom waits.
FED = 300
MOST_STREAMS = 12
WAITING = ("ReceiveQueueRecords", "ReceiveDeadLetterQueueRecords")
LONGEST_WAIT_S = 20


ROLE = f"arn:aws:iam::{ACCOUNT}:role/delivery"
# The lowest botocore that headrace takes does not know them.
HAS_QUEUES = "CreateChannel" in MODEL.operation_names and "CreateQueue" in MODEL.operation_names


def arn_of(name: str) -> str:
    return f"arn:aws:kinesis:us-east-1:{ACCOUNT}:stream/{name}"


class Target:
    """A cloud with a few streams, put right again after requests that changed or deleted them."""

    def __init__(self, cloud: InProcessCloud, clock: MovableClock) -> None:
        self.cloud, self.clock = cloud, clock
        self.client = Caller("kinesis", "kinesis", cloud.handle)
        self.iterators: list[str] = []
        self.consumers: list[str] = []
        self.stream_ids: list[str] = []
        self.tokens: list[str] = []
        self.number = ""
        self.queues: list[str] = []
        self.channels: list[str] = []
        self.handles: list[str] = []

    def put_right(self) -> None:
        """Make the streams that are not there; delete those that requests made."""
        names = set(self.client.list_streams(Limit=1000)["StreamNames"])
        for name in names - {*NAMES, FEED}:
            if len(names) > MOST_STREAMS:
                self.client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
        for name in NAMES:
            if name in names:
                shards = self.client.list_shards(StreamName=name, MaxResults=1000)["Shards"]
                if len(shards) < 60:
                    continue
                self.client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
            self.client.create_stream(StreamName=name, ShardCount=2)
        self._renew()
        if HAS_QUEUES:
            self._renew_feed(names)

    def _renew_feed(self, names: set[str]) -> None:
        """Make the on-demand stream with a queue that has records, and with a channel."""
        client, arn = self.client, arn_of(FEED)
        if FEED not in names:
            client.create_stream(StreamName=FEED, StreamModeDetails={"StreamMode": "ON_DEMAND"})
        queues = client.list_queues()["QueueSummaries"]
        for one in queues[4:]:
            client.delete_queue(QueueARN=one["QueueARN"])
        if not queues:
            client.create_queue(QueueName="jobs", StreamConfigurationList=[{"StreamARN": arn}])
            queues = client.list_queues()["QueueSummaries"]
        self.queues = [one["QueueARN"] for one in queues]
        records = [{"Data": b"x", "PartitionKey": str(n)} for n in range(FED)]
        client.put_records(StreamName=FEED, Records=records)
        received = client.receive_queue_records(QueueARN=self.queues[0])["QueueRecords"]
        self.handles = [record["ReceiptHandle"] for record in received] or ["none"]
        if not client.list_channels()["ChannelSummaries"]:
            client.create_channel(
                ChannelName="delivery",
                ServiceExecutionRoleARN=ROLE,
                StreamConfigurationList=[
                    {"StreamARN": arn, "RecordConfiguration": {"RecordFormatType": "JSON"}}
                ],
                S3DestinationConfiguration={
                    "StorageConfiguration": {
                        "BucketARN": "arn:aws:s3:::lake",
                        "ExpectedBucketOwner": ACCOUNT,
                        "CompressionType": "NONE",
                    }
                },
            )
        channels = client.list_channels()["ChannelSummaries"]
        self.channels = [one["ChannelARN"] for one in channels]

    def _renew(self) -> None:
        stream = NAMES[0]
        self.iterators = [
            self.client.get_shard_iterator(StreamName=stream, ShardId="0", ShardIteratorType=kind)[
                "ShardIterator"
            ]
            for kind in ("TRIM_HORIZON", "LATEST")
        ]
        put = self.client.put_record(StreamName=stream, Data=b"x", PartitionKey="k")
        self.number = put["SequenceNumber"]
        self.tokens = [self.client.list_shards(StreamName=stream, MaxResults=1)["NextToken"]]
        summaries = [self.client.describe_stream_summary(StreamName=name) for name in NAMES]
        self.stream_ids = [
            summary["StreamDescriptionSummary"]["StreamId"]
            for summary in summaries
            if "StreamId" in summary["StreamDescriptionSummary"]
        ] or ["none"]
        consumers = self.client.list_stream_consumers(StreamARN=arn_of(stream))["Consumers"]
        if not consumers:
            made = self.client.register_stream_consumer(
                StreamARN=arn_of(stream), ConsumerName="fuzzed"
            )
            consumers = [made["Consumer"]]
        self.consumers = [consumer["ConsumerARN"] for consumer in consumers]

    def known(self) -> Known:
        """Return sound values for members by name."""

        def one_of(*values: Any) -> Any:
            return lambda random: random.choice(values)

        def resource(random: Random) -> str:
            others = [*self.consumers, *self.queues, *self.channels]
            return random.choice([arn_of(random.choice(NAMES)), *others])

        return {
            "StreamName": one_of(*NAMES),
            "StreamARN": lambda random: arn_of(random.choice((*NAMES, FEED))),
            "QueueARN": one_of(
                *self.queues, f"{arn_of('none').partition(':stream')[0]}:queue/none"
            ),
            "ChannelARN": one_of(
                *self.channels, f"{arn_of('none').partition(':stream')[0]}:channel/none"
            ),
            "ReceiptHandle": one_of(*self.handles, "none"),
            "WaitTimeSeconds": one_of(1, 1, 21),
            "ServiceExecutionRoleARN": one_of(ROLE),
            "BucketARN": one_of("arn:aws:s3:::lake", "arn:aws:s3:::nowhere"),
            "ExpectedBucketOwner": one_of(ACCOUNT, "111111111111"),
            "OutputKeyTemplate": one_of("a/!{yyyy}!{extension}", "!{HH", "/a", "a/../b"),
            "DataFreshnessInSeconds": one_of(300, 900, 1),
            "ResourceARN": resource,
            "ConsumerARN": lambda random: random.choice(self.consumers),
            "ConsumerName": one_of("fuzzed", "another"),
            "ShardId": one_of("0", "1", "shardId-000000000000", "shardId-000000000001"),
            "ShardToSplit": one_of("0", "shardId-000000000001"),
            "ShardToMerge": one_of("shardId-000000000000"),
            "AdjacentShardToMerge": one_of("shardId-000000000001"),
            "NewStartingHashKey": lambda random: str(random.randrange(1 << 128)),
            "ExplicitHashKey": lambda random: str(random.randrange(1 << 128)),
            "ShardIterator": lambda random: random.choice(self.iterators),
            # Not made from nothing: such would be refused before anything is looked at.
            "ShardCount": one_of(1, 2, 3),
            "TargetShardCount": one_of(1, 2, 3, 4),
            "WarmThroughputMiBps": one_of(1, 4, 10),
            "RetentionPeriodHours": one_of(24, 25, 48, 8760),
            "Policy": one_of("{}", '{"Version":"2012-10-17","Statement":[]}', "no JSON"),
            "DryRun": one_of(False, False, False, True),
            "StreamId": one_of(*self.stream_ids),
            "NextToken": one_of(*self.tokens),
            "SequenceNumberForOrdering": one_of(self.number),
            "SequenceNumber": one_of(self.number),
            "StartingSequenceNumber": one_of(self.number),
        }

    def answer(self, operation: str, body: bytes, content_type: str) -> HttpResponse:
        headers = {"x-amz-target": f"Kinesis_20131202.{operation}", "content-type": content_type}
        answer = self.cloud.cloud.handle(HttpRequest("POST", "/", "", headers, body))
        if isinstance(answer, Future):
            if operation in WAITING:
                self.end_waits(answer)
            answer = answer.result(30)
        return when_done(answer).result(30)

    def end_waits(self, answer: Future[Any]) -> None:
        """Move the cloud's time until a receive without records is answered."""
        while not wait([answer], timeout=0.01).done:
            self.clock.advance(LONGEST_WAIT_S)


@pytest.fixture(scope="module")
def target(place: Path) -> Iterator[Target]:
    clock = MovableClock()
    with InProcessCloud(place / "data", clock=clock) as cloud:
        Caller("s3", "s3", cloud.handle).create_bucket(Bucket="lake")
        yield Target(cloud, clock)


def check(operation: str, answer: HttpResponse) -> None:
    """Fail unless the answer is one that AWS could give, as botocore reads it."""
    assert answer.status in (200, 400, 403, 413), answer.body
    headers = {name.lower(): value for name, value in answer.headers}
    assert headers["x-amzn-requestid"]
    if isinstance(answer.body, AsyncGenerator):
        asyncio.run(check_stream(answer.body))
        return
    assert isinstance(answer.body, bytes)
    body = answer.body
    if headers["content-type"] == CBOR and body:
        value = cbor2.loads(body, semantic_decoders={1: lambda value, _: value / 1000})
        body = json.dumps(json_ready(value)).encode()
    shape = MODEL.operation_model(operation).output_shape if answer.status == 200 else None
    parsed = PARSER.parse({"status_code": answer.status, "headers": headers, "body": body}, shape)
    if answer.status != 200:
        assert parsed["Error"]["Code"].endswith(("Exception", "Failure", "Error"))
        # AWS says no more of a body that it cannot read.
        assert parsed["Error"]["Message"] or parsed["Error"]["Code"] == "SerializationException"
    elif shape is not None:
        for name in shape.required_members:
            assert name in parsed


async def check_stream(body: AsyncGenerator[bytes, None]) -> None:
    """Read the first message of a subscription and leave."""
    buffer = EventStreamBuffer()
    try:
        buffer.add_data(await asyncio.wait_for(anext(body), 10))
        assert next(buffer).headers[":event-type"] == "initial-response"
    finally:
        await body.aclose()


def encoded(value: Any, content_type: str) -> bytes:
    if content_type == CBOR:
        return cbor2.dumps(cbor_ready(value))
    return json.dumps(json_ready(value)).encode()


def fuzz(target: Target, operation: str, count: int, seed: int) -> None:
    upkeep = Upkeep(operation, 25, target.put_right)
    made = Requests(f"{operation}-{seed}", target.known())
    for number in range(count):
        upkeep.before(number)
        value = made.of(MODEL.operation_model(operation))
        content_type = CBOR if made.random.random() < 0.4 else JSON
        try:
            body = encoded(value, content_type)
        except (ValueError, UnicodeEncodeError):
            continue
        if made.random.random() < 0.1:
            body = made.damaged(body)
        try:
            answer = target.answer(operation, body, content_type)
            upkeep.after(answer.status)
            check(operation, answer)
        except Exception as error:
            raise AssertionError(f"{operation} {number}, {content_type}: {body!r}") from error


@pytest.mark.parametrize("operation", MODEL.operation_names)
def test_no_request_breaks_an_action(
    target: Target, operation: str, how_many: Callable[[int, int], int], seed: int
):
    fuzz(target, operation, how_many(REQUESTS, NIGHTLY_REQUESTS), seed)


def test_the_requests_of_a_seed_are_always_the_same(target: Target):
    target.put_right()
    model = MODEL.operation_model("CreateStream")
    known: Known = {"StreamName": lambda random: random.choice(NAMES)}
    first, second = (Requests("a", known), Requests("a", known))
    assert [first.of(model) for _ in range(50)] == [second.of(model) for _ in range(50)]


def test_sound_requests_reach_what_they_are_about(target: Target):
    """Else a fuzz would only ever see validation."""
    target.put_right()
    made = Requests("sound", target.known())
    statuses = [
        target.answer(
            "PutRecord", encoded(made.of(MODEL.operation_model("PutRecord")), JSON), JSON
        ).status
        for _ in range(200)
    ]
    assert 10 < statuses.count(200) < 190


@pytest.mark.skipif(not HAS_QUEUES, reason="this botocore knows no queues")
@pytest.mark.parametrize("operation", ["ReceiveQueueRecords", "DescribeChannel", "UpdateChannel"])
def test_sound_requests_reach_queues_and_channels(target: Target, operation: str):
    target.put_right()
    made = Requests("sound", target.known())
    model = MODEL.operation_model(operation)
    answers = [target.answer(operation, encoded(made.of(model), JSON), JSON) for _ in range(60)]
    assert any(answer.status == 200 for answer in answers)


def test_the_check_finds_an_answer_that_is_none(tmp_path: Path):
    answer = HttpResponse(
        200, [("x-amzn-RequestId", "1"), ("Content-Type", JSON)], b'{"Records":1}'
    )
    with pytest.raises(Exception):  # noqa: B017 - whatever botocore says
        check("PutRecords", answer)
