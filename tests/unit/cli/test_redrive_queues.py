"""`headrace redrive` of what Lambda gave up: ranges of a stream, asynchronous events, messages of a queue."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import redrive as command
from headrace.cli.commands import headrace
from headrace.cli.redrive_queues import QueueCounts, send_message
from headrace.deliveries.redrive_records import BATCH_BYTES, FailedRecord
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:"


class Lab:
    """A cloud with a stream, its copy and a failure queue, and the command on it."""

    def __init__(self, cloud: InProcessCloud) -> None:
        self.kinesis: Any = cloud.client("kinesis")
        self.sqs: Any = cloud.client("sqs")
        self.cloud = cloud

    def create(self, name: str) -> None:
        for stream in (name, f"{name}-again"):
            self.kinesis.create_stream(StreamName=stream, ShardCount=1)
        self.url = self.sqs.create_queue(QueueName=f"{name}-failed")["QueueUrl"]

    def fail_range(self, name: str, *datas: bytes, topic: bool = False) -> None:
        """Put records, and the message that Lambda writes when it gives their batch up."""
        put = [
            self.kinesis.put_record(StreamName=name, Data=data, PartitionKey=f"k{n}")
            for n, data in enumerate(datas)
        ]
        body = json.dumps(
            {
                "requestContext": {"condition": "RetryAttemptsExhausted"},
                "responseContext": {"statusCode": 200, "functionError": "Unhandled"},
                "KinesisBatchInfo": {
                    "shardId": put[0]["ShardId"],
                    "startSequenceNumber": put[0]["SequenceNumber"],
                    "endSequenceNumber": put[-1]["SequenceNumber"],
                    "batchSize": len(put),
                    "streamArn": f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{name}",
                },
            }
        )
        if topic:
            body = json.dumps({"Type": "Notification", "Message": body})
        self.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def run(self, *arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(headrace, ["redrive", *arguments])
        assert done.exit_code == code, done.output
        return done.output

    def arrived(self, stream: str) -> list[tuple[str, bytes]]:
        shard = self.kinesis.list_shards(StreamName=stream)["Shards"][0]["ShardId"]
        iterator = self.kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        records = self.kinesis.get_records(ShardIterator=iterator)["Records"]
        return [(record["PartitionKey"], record["Data"]) for record in records]

    def waiting(self) -> int:
        names = {"QueueUrl": self.url, "AttributeNames": ["All"]}
        attributes = self.sqs.get_queue_attributes(**names)["Attributes"]
        return sum(
            int(attributes[name])
            for name in ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with InProcessCloud(tmp_path_factory.mktemp("redrive") / "data") as cloud:
        yield Lab(cloud)


@pytest.fixture
def lab(shared: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(command, "client", lambda service, **_: shared.cloud.client(service))
    return shared


def test_a_range_of_a_stream_is_read_again_and_sent_once_with_its_keys(
    lab: Lab, tmp_path: Path
) -> None:
    lab.create("clicks")
    lab.kinesis.put_record(StreamName="clicks", Data=b"before", PartitionKey="b")
    lab.fail_range("clicks", b'{"n": 1}', b'{"n": "bad"}', b'{"n": 3}')
    lab.fail_range("clicks", b'{"n": 4}', topic=True)
    lab.kinesis.put_record(StreamName="clicks", Data=b"after", PartitionKey="a")
    shown = lab.run("sqs:clicks-failed")
    assert "RetryAttemptsExhausted" in shown
    assert "4" in shown
    fix = tmp_path / "fix.py"
    fix.write_text(
        "import json\n"
        "def f(data, error):\n"
        "    assert error['requestContext']['condition'] == 'RetryAttemptsExhausted'\n"
        "    record = json.loads(data)\n"
        "    return None if record['n'] == 3 else {'n': 2 if record['n'] == 'bad' else record['n']}\n"
    )
    again = ("--to", "kinesis:clicks-again", "--map", f"{fix}:f")
    dry = lab.run(lab.url, *again, "--dry-run")
    assert "3 records would be sent, 1 left out" in dry
    assert (lab.waiting(), lab.arrived("clicks-again")) == (2, [])
    assert "3 records sent to kinesis:clicks-again, 1 left out" in lab.run(lab.url, *again)
    sent = [("k0", b'{"n": 1}'), ("k1", b'{"n": 2}'), ("k0", b'{"n": 4}')]
    assert sorted(lab.arrived("clicks-again")) == sorted(sent)
    assert lab.waiting() == 0
    assert "0 records sent" in lab.run(f"{ARN}clicks-failed", *again)


def test_a_mapping_names_its_failure_queue(lab: Lab) -> None:
    lab.create("orders")
    lab.fail_range("orders", b"1")
    function: Any = lab.cloud.client("lambda")
    role = f"arn:aws:iam::{ACCOUNT}:role/r"
    function.create_function(
        FunctionName="f", Runtime="python3.12", Handler="a.b", Role=role, Code={"ZipFile": _zip()}
    )

    def mapping(**members: Any) -> str:
        return function.create_event_source_mapping(
            FunctionName="f",
            EventSourceArn=f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/orders",
            StartingPosition="LATEST",
            Enabled=False,
            **members,
        )["UUID"]

    lost = mapping()
    assert "has no failure destination" in lab.run(lost, code=1)
    function.delete_event_source_mapping(UUID=lost)
    kept = mapping(DestinationConfig={"OnFailure": {"Destination": f"{ARN}orders-failed"}})
    assert "1 records sent" in lab.run(kept, "--to", "kinesis:orders-again")
    assert lab.arrived("orders-again") == [("k0", b"1")]


def test_events_and_plain_messages_are_sent_and_what_expired_stays(lab: Lab) -> None:
    lab.create("mixed")
    event = {
        "requestContext": {"condition": "RetriesExhausted"},
        "requestPayload": {"id": 7},
        "responsePayload": {"errorMessage": "boom"},
    }
    lost = {
        "requestContext": {"condition": "RecordAgeExceeded"},
        "KinesisBatchInfo": {
            "shardId": "shardId-000000000000",
            "startSequenceNumber": "1",
            "endSequenceNumber": "2",
            "streamArn": f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/gone",
        },
    }
    for body in (json.dumps(event), "plain", json.dumps(lost)):
        lab.sqs.send_message(QueueUrl=lab.url, MessageBody=body)
    output = lab.run("sqs:mixed-failed", "--to", "kinesis:mixed-again", code=1)
    assert "boom" in output
    assert "stays: Shard shardId-000000000000 in stream gone under account" in output
    assert "2 records sent to kinesis:mixed-again" in output
    assert sorted(data for _, data in lab.arrived("mixed-again")) == [b"plain", b'{"id": 7}']
    assert lab.waiting() == 1


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (f"arn:aws:sns:{REGION}:{ACCOUNT}:none", "Topic does not exist"),
        ("arn:aws:s3:::failures", "is a bucket: name a place in it"),
        ("clicks", "is not a place in S3, such as s3://lake/errors/, a queue"),
        ("sqs:none", "NonExistentQueue"),
    ],
)
def test_other_sources_are_refused_by_what_they_are(lab: Lab, source: str, sentence: str) -> None:
    assert sentence in " ".join(lab.run(source, code=1).split())


def test_a_topic_stands_for_the_only_queue_that_is_subscribed_to_it(lab: Lab) -> None:
    sns: Any = lab.cloud.client("sns")
    topic = sns.create_topic(Name="given-up")["TopicArn"]
    alone = "is a topic, which keeps nothing itself, and has"
    assert f"{alone} no queue." in " ".join(lab.run(topic, code=1).split())
    lab.create("topical")
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"{ARN}topical-failed")
    lab.fail_range("topical", b'{"n": 1}', topic=True)
    output = lab.run(topic, "--to", "kinesis:topical-again")
    assert "1 records sent to kinesis:topical-again" in output
    assert lab.arrived("topical-again") == [("k0", b'{"n": 1}')]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"{ARN}other")
    several = f"{alone} several queues, name one: {ARN}topical-failed, {ARN}other."
    assert several in " ".join(lab.run(topic, code=1).split())


def _zip() -> bytes:
    from tests.support.lambda_lab import zipped

    return zipped({"a.py": "def b(event, context): pass\n"})


def test_a_large_range_is_sent_in_requests_that_a_delivery_stream_takes() -> None:
    class Target:
        name = "firehose:words"

        def send(self, datas: list[bytes], keys: Sequence[str] = ()) -> list[int]:
            assert list(keys) == [chr(data[0]) for data in datas]
            sizes_bytes.append(sum(map(len, datas)))
            return []

    sizes_bytes: list[int] = []
    done = QueueCounts()
    records = [
        FailedRecord(
            "url", n, "code", "", 0, letter * 900_000, True, {"partitionKey": letter.decode()}
        )
        for n, letter in enumerate([b"a", b"b", b"c", b"d", b"e"])
    ]
    send_message(records, Target(), None, done)
    assert (sum(sizes_bytes), done.sent) == (4_500_000, 5)
    assert max(sizes_bytes) <= BATCH_BYTES
