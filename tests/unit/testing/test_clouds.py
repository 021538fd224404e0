"""Clouds in the test's own process: what they catch, what they restore, and time that is moved on."""

from __future__ import annotations

import asyncio
import json
import os
import re
import unittest
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError

import headrace.testing
from headrace.testing import LocalCloud, cloud
from headrace.testing.in_process import UnknownOption

# Made when the module is imported, as in most programs, long before any cloud is entered.
EARLY = boto3.client("kinesis", region_name="us-east-1")
EARLY_S3 = boto3.client("s3", region_name="eu-west-1")


def test_a_client_made_before_reaches_the_cloud() -> None:
    with cloud() as here:
        EARLY.create_stream(StreamName="orders", ShardCount=1)
        EARLY.put_record(StreamName="orders", Data=b"1", PartitionKey="k")
        assert [record.data for record in here.records_of("orders")] == [b"1"]


@pytest.mark.parametrize("style", ["path", "virtual"])
def test_buckets_in_hosts_and_in_paths_are_found(style: Any) -> None:
    config = Config(s3={"addressing_style": style})
    endpoint = "https://s3.eu-west-1.amazonaws.com"
    s3 = boto3.client("s3", region_name="eu-west-1", endpoint_url=endpoint, config=config)
    with cloud() as here:
        here.client("s3").create_bucket(Bucket="lake")
        s3.put_object(Bucket="lake", Key="a/b.txt", Body=b"flight")
        EARLY_S3.put_object(Bucket="lake", Key="a/c.txt", Body=b"x" * 100_000)
        assert here.objects_under("lake", "a/b") == {"a/b.txt": b"flight"}
        assert len(EARLY_S3.get_object(Bucket="lake", Key="a/c.txt")["Body"].read()) == 100_000


def test_a_client_with_an_emulators_address_reaches_the_cloud() -> None:
    kinesis = boto3.client("kinesis", region_name="us-east-1", endpoint_url="http://localhost:4566")
    with cloud() as here:
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        assert here.client("kinesis").list_streams()["StreamNames"] == ["orders"]


def test_each_cloud_begins_empty_and_the_inner_one_answers() -> None:
    with cloud() as outer:
        EARLY.create_stream(StreamName="outer", ShardCount=1)
        with cloud():
            assert EARLY.list_streams()["StreamNames"] == []
        assert EARLY.list_streams()["StreamNames"] == ["outer"]
        assert outer.data_dir.is_dir()
    assert not outer.data_dir.exists()


def test_the_environment_is_set_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://elsewhere:9000")
    monkeypatch.delenv("AWS_REGION", raising=False)
    before, session = dict(os.environ), boto3.DEFAULT_SESSION
    with cloud(account="123456789012", region="eu-west-1"):
        assert "AWS_PROFILE" not in os.environ
        assert "AWS_ENDPOINT_URL_S3" not in os.environ
        identity = boto3.client("sts").get_caller_identity()
        assert identity["Account"] == "123456789012"
        assert boto3.client("kinesis").meta.region_name == "eu-west-1"
    assert dict(os.environ) == before
    assert boto3.DEFAULT_SESSION is session


def test_the_environment_is_restored_after_an_error() -> None:
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError), cloud():
        raise ZeroDivisionError
    assert dict(os.environ) == before


def test_nobody_finds_credentials_of_the_machine() -> None:
    from botocore.utils import IMDSFetcher

    with cloud(), pytest.raises(EndpointConnectionError):
        IMDSFetcher(num_attempts=1)._session.send(
            boto3.session.botocore.awsrequest.AWSPreparedRequest(
                "GET", "http://169.254.169.254/latest/", {}, b"", False
            )
        )


def test_functions_coroutines_and_classes_are_decorated() -> None:
    @cloud()
    def names() -> list[str]:
        EARLY.create_stream(StreamName="s", ShardCount=1)
        return EARLY.list_streams()["StreamNames"]

    @cloud()
    async def names_async() -> list[str]:
        return names()

    @cloud()
    class TestBoth:
        def test_one(self) -> list[str]:
            return names()

    @cloud()
    class Old(unittest.TestCase):
        def setUp(self) -> None:
            EARLY.create_stream(StreamName="from-set-up", ShardCount=1)

        def test_it(self) -> None:
            assert EARLY.list_streams()["StreamNames"] == ["from-set-up"]

    assert names() == names() == asyncio.run(names_async()) == TestBoth().test_one() == ["s"]
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Old).run(result)
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])


def test_an_unknown_option_is_one_sentence() -> None:
    with pytest.raises(UnknownOption, match="no option 'shards'; it has account, region"):
        cloud(shards=3).__enter__()
    with pytest.raises(UnknownOption, match="An account is 12 digits, not '42'"):
        cloud(account="42").__enter__()


def test_time_is_moved_on_for_firehose_and_for_retention() -> None:
    with cloud() as here:
        s3, firehose, kinesis = map(here.client, ("s3", "firehose", "kinesis"))
        s3.create_bucket(Bucket="lake")
        firehose.create_delivery_stream(
            DeliveryStreamName="d",
            ExtendedS3DestinationConfiguration={
                "RoleARN": "arn:aws:iam::000000000000:role/r",
                "BucketARN": "arn:aws:s3:::lake",
                "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 900},
            },
        )
        firehose.put_record(DeliveryStreamName="d", Record={"Data": b"one\n"})
        here.until_drained()
        assert list(here.objects_under("lake").values()) == [b"one\n"]
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        kinesis.put_record(StreamName="orders", Data=b"old", PartitionKey="k")
        here.advance(hours=26)
        kinesis.put_record(StreamName="orders", Data=b"new", PartitionKey="k")
        # A worker's work, on a thread of its own.
        headrace.testing.until(lambda: [r.data for r in here.records_of("orders")] == [b"new"])
        with pytest.raises(ValueError, match="forward only"):
            here.advance(seconds=-1)


def test_waiting_names_what_was_last_seen() -> None:
    seen = iter(range(1000))
    assert headrace.testing.until(lambda: next(seen) >= 3, pause=lambda _: None) is True
    with pytest.raises(
        headrace.testing.NotInTime, match=r"After 0 s the third does not hold.*\[\]"
    ):
        headrace.testing.until(list, timeout_s=0, what="the third")


def orders_and_broken_function(here: LocalCloud) -> dict[str, str]:
    """Make the stream `orders`, and a function that no file has; return the two as a mapping's parameters."""
    kinesis = here.client("kinesis")
    kinesis.create_stream(StreamName="orders", ShardCount=1)
    stream = kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
    here.client("lambda").create_function(
        FunctionName="broken",
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/r",
        Handler="nothing.here",
        Code={"S3Bucket": "headrace-local", "S3Key": str(Path(__file__).parent)},
    )
    return {"EventSourceArn": stream["StreamARN"], "FunctionName": "broken"}


def test_what_still_waits_is_named() -> None:
    with cloud() as here:
        kinesis, functions = here.client("kinesis"), here.client("lambda")
        source = orders_and_broken_function(here)
        functions.create_event_source_mapping(**source, StartingPosition="LATEST")
        kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="k")
        with pytest.raises(headrace.testing.NotInTime, match="1 records of orders wait for broken"):
            here.until_drained(timeout_s=0.2)


@pytest.mark.parametrize("start", ["LATEST", "TRIM_HORIZON"])
def test_what_expires_unhandled_is_no_drained_stream(start: str) -> None:
    with cloud() as here:
        kinesis, functions = here.client("kinesis"), here.client("lambda")
        source = orders_and_broken_function(here)
        functions.create_event_source_mapping(**source, StartingPosition=start)
        kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="k")
        headrace.testing.until(
            lambda: here.page("lambda/mappings")["mappings"][0]["waiting"], what="the record"
        )
        here.advance(hours=30)
        with pytest.raises(
            headrace.testing.RecordsExpired, match="1 records of orders expired before broken"
        ):
            here.until_drained()


@pytest.mark.parametrize("start", ["LATEST", "TRIM_HORIZON"])
def test_a_record_that_nobody_tried_is_waiting_or_expired(start: str) -> None:
    with cloud() as here:
        kinesis, functions = here.client("kinesis"), here.client("lambda")
        source = orders_and_broken_function(here)
        # Disabled, so that no poller notes the loss.
        functions.create_event_source_mapping(
            **source,
            StartingPosition=start,
            Enabled=False,
        )
        kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="k")

        def counted() -> tuple[int, int]:
            mapping = here.page("lambda/mappings")["mappings"][0]
            return mapping["waiting"], mapping["expired"]

        assert counted() == (1, 0)
        here.advance(hours=30)
        headrace.testing.until(lambda: counted()[0] == 0, what="the end of retention")
        assert counted() == (0, 1)


def test_a_noted_loss_counts_once_while_the_checkpoint_is_behind() -> None:
    with cloud() as here:
        kinesis, functions = here.client("kinesis"), here.client("lambda")
        source = orders_and_broken_function(here)
        mapping = functions.create_event_source_mapping(
            **source,
            StartingPosition="TRIM_HORIZON",
            Enabled=False,
        )["UUID"]
        kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="k")

        def described() -> dict[str, Any]:
            return here.page("lambda/mappings")["mappings"][0]

        here.advance(hours=30)
        headrace.testing.until(lambda: not described()["waiting"], what="the end of retention")
        kinesis.put_record(StreamName="orders", Data=b"2", PartitionKey="k")
        functions.update_event_source_mapping(UUID=mapping, Enabled=True)
        headrace.testing.until(lambda: described()["lastFailure"], what="the second's failure")
        # The second record is tried again and again, and so the checkpoint stays before the first.
        assert (described()["expired"], described()["waiting"]) == (1, 1)


@pytest.mark.parametrize(
    "limit",
    [{"MaximumRetryAttempts": 0}, {"MaximumRecordAgeInSeconds": 60}],
    ids=lambda one: next(iter(one)),
)
def test_what_is_given_up_is_lost_unless_the_test_expects_it(limit: dict[str, int]) -> None:
    with cloud() as here:
        kinesis, functions = here.client("kinesis"), here.client("lambda")
        source = orders_and_broken_function(here)
        functions.create_event_source_mapping(**source, StartingPosition="TRIM_HORIZON", **limit)
        kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="k")
        with pytest.raises(
            headrace.testing.RecordsLost,
            match="1 records of orders were given up: broken never handled them",
        ):
            here.until_drained()
        here.until_drained(may_lose=1)
        other = here.client("sqs").create_queue(QueueName="failures")["QueueUrl"].rpartition("/")[2]
        queue = f"arn:aws:sqs:us-east-1:000000000000:{other}"
        mapping = functions.list_event_source_mappings()["EventSourceMappings"][0]["UUID"]
        functions.update_event_source_mapping(
            UUID=mapping, DestinationConfig={"OnFailure": {"Destination": queue}}
        )
        kinesis.put_record(StreamName="orders", Data=b"2", PartitionKey="k")
        here.until_drained(may_lose=1)
        with pytest.raises(headrace.testing.RecordsLost, match="1 records of orders"):
            here.until_drained()


def test_the_deadline_hides_no_loss_and_the_message_names_exception_and_record(
    tmp_path: Path,
) -> None:
    (tmp_path / "f.py").write_text(
        "def handler(event, context):\n"
        "    if any(r['kinesis']['partitionKey'] == 'bad' for r in event['Records']):\n"
        "        raise ValueError('bad record')\n"
    )
    with cloud() as here:
        kinesis, functions = here.client("kinesis"), here.client("lambda")
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        stream = kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
        functions.create_function(
            FunctionName="f",
            Runtime="python3.13",
            Role="arn:aws:iam::000000000000:role/r",
            Handler="f.handler",
            Code={"S3Bucket": "headrace-local", "S3Key": str(tmp_path)},
        )
        functions.create_event_source_mapping(
            EventSourceArn=stream["StreamARN"], FunctionName="f", StartingPosition="TRIM_HORIZON"
        )
        number = kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="bad")
        record = f"record {number['SequenceNumber']} of shardId-000000000000"
        cause = re.escape(f"ValueError: bad record ({record})")
        headrace.testing.until(
            lambda: here.page("lambda/mappings")["mappings"][0]["lastFailure"], what="the failure"
        )
        with pytest.raises(headrace.testing.NotInTime, match=f"1 records of orders wait.*{cause}"):
            here.until_drained(timeout_s=0)
        here.advance(hours=30)
        headrace.testing.until(
            lambda: here.page("lambda/mappings")["mappings"][0]["expired"], what="expiry"
        )
        # Nothing waits any more when the deadline has passed, as after an advance that took all the time.
        with pytest.raises(headrace.testing.RecordsExpired, match=cause):
            here.until_drained(timeout_s=0)
        here.until_drained(timeout_s=0, may_lose=1)


def test_a_queue_s_messages_are_waited_for_until_they_are_given_up(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(
        "def handler(event, context):\n    assert event['Records'][0]['body'] != 'poison'\n"
    )
    with cloud() as here:
        sqs, functions = here.client("sqs"), here.client("lambda")
        dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        arns = {"QueueUrl": dead, "AttributeNames": ["QueueArn"]}
        arn = sqs.get_queue_attributes(**arns)["Attributes"]["QueueArn"]
        redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
        orders = sqs.create_queue(QueueName="orders", Attributes={"RedrivePolicy": redrive})
        functions.create_function(
            FunctionName="f",
            Runtime="python3.13",
            Role="arn:aws:iam::000000000000:role/r",
            Handler="f.handler",
            Code={"S3Bucket": "headrace-local", "S3Key": str(tmp_path)},
        )
        functions.create_event_source_mapping(
            EventSourceArn=arn.replace("dead", "orders"), FunctionName="f", BatchSize=1
        )
        for body in ("good", "poison"):
            sqs.send_message(QueueUrl=orders["QueueUrl"], MessageBody=body)
        here.until_drained()
        left = sqs.receive_message(QueueUrl=dead, MaxNumberOfMessages=10)["Messages"]
        assert [message["Body"] for message in left] == ["poison"]


def test_data_that_was_kept_is_there_again(tmp_path: Path) -> None:
    for _ in range(2):
        with LocalCloud(data_dir=tmp_path / "data") as here:
            kinesis = here.client("kinesis")
            if kinesis.list_streams()["StreamNames"]:
                break
            kinesis.create_stream(StreamName="orders", ShardCount=1)
    else:
        pytest.fail("the second cloud has lost the stream")


def queue_of(kinesis: Any) -> str:
    """Make the stream `orders` with the queue `jobs`; return the queue's ARN."""
    kinesis.create_stream(StreamName="orders", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    stream = kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
    queue = kinesis.create_queue(
        QueueName="jobs", StreamConfigurationList=[{"StreamARN": stream["StreamARN"]}]
    )
    return str(queue["QueueDescription"]["QueueARN"])


def test_a_queue_with_a_consumer_is_waited_for() -> None:
    with cloud() as here:
        kinesis = here.client("kinesis")
        queue = queue_of(kinesis)
        kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="k")
        here.until_drained(timeout_s=5)  # nobody receives from it
        (record,) = kinesis.receive_queue_records(QueueARN=queue)["QueueRecords"]
        with pytest.raises(
            headrace.testing.NotInTime, match="0 records of orders wait in queue jobs, and 1 are in"
        ):
            here.until_drained(timeout_s=0.2)
        # Its time was not moved on: the record is still in flight.
        assert here.page("kinesis/queues")[0]["inFlight"] == 1
        entry = [{"ReceiptHandle": record["ReceiptHandle"]}]
        kinesis.acknowledge_queue_records(QueueARN=queue, Entries=entry)
        here.until_drained(timeout_s=5)


def test_a_channel_is_waited_for() -> None:
    with cloud() as here:
        kinesis, s3 = here.client("kinesis"), here.client("s3")
        s3.create_bucket(Bucket="lake")
        kinesis.create_stream(StreamName="orders", StreamModeDetails={"StreamMode": "ON_DEMAND"})
        stream = kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
        kinesis.create_channel(
            ChannelName="c",
            ServiceExecutionRoleARN="arn:aws:iam::000000000000:role/r",
            StreamConfigurationList=[
                {
                    "StreamARN": stream["StreamARN"],
                    "RecordConfiguration": {"RecordFormatType": "STRING"},
                }
            ],
            S3DestinationConfiguration={
                "StorageConfiguration": {
                    "BucketARN": "arn:aws:s3:::lake",
                    "ExpectedBucketOwner": here.account,
                    "CompressionType": "NONE",
                }
            },
        )
        kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="k")
        with pytest.raises(headrace.testing.NotInTime, match="records wait in channel c"):
            here.until_drained(timeout_s=0)
        here.until_drained(timeout_s=10)
        assert len(s3.list_objects_v2(Bucket="lake")["Contents"]) == 1


def test_a_receive_by_the_hosts_of_aws_reaches_the_cloud() -> None:
    hosts: list[str] = []

    def note(request: Any, **_: Any) -> None:
        hosts.append(str(urlsplit(request.url).hostname))

    EARLY.meta.events.register("before-send.*", note)
    try:
        with cloud():
            queue = queue_of(EARLY)
            EARLY.put_record(StreamName="orders", Data=b"1", PartitionKey="k")
            hosts.clear()
            assert len(EARLY.receive_queue_records(QueueARN=queue)["QueueRecords"]) == 1
            EARLY.describe_queue(QueueARN=queue)
            EARLY.list_queues()
    finally:
        EARLY.meta.events.unregister("before-send.*", note)
    label = queue.rpartition("/")[2]
    assert hosts == [
        f"{label}.data-kinesis-queues.us-east-1.amazonaws.com",
        f"{label}.control-kinesis-queues.us-east-1.amazonaws.com",
        "kinesis-queues.us-east-1.amazonaws.com",
    ]
