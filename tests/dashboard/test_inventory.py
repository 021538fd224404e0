"""The map's edges of channels, queues and topics, and the rate of a pipe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.moto.current_cloud import CURRENT, Handled
from headrace.testing.waiting import until
from tests.dashboard.test_api import get
from tests.support.cloud import InProcessCloud

ROLE = "arn:aws:iam::000000000000:role/r"


def test_channels_queues_topics_and_pipes_are_on_the_map(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path / "data", limits="off") as cloud:
        kinesis, sqs, sns = (cloud.client(name) for name in ("kinesis", "sqs", "sns"))
        on_demand = {"StreamMode": "ON_DEMAND"}
        kinesis.create_stream(StreamName="feed", StreamModeDetails=on_demand)
        stream = kinesis.describe_stream_summary(StreamName="feed")["StreamDescriptionSummary"]
        arn = stream["StreamARN"]
        cloud.client("s3").create_bucket(Bucket="lake")
        kinesis.create_queue(QueueName="jobs", StreamConfigurationList=[{"StreamARN": arn}])
        storage = {
            "BucketARN": "arn:aws:s3:::lake",
            "ExpectedBucketOwner": "000000000000",
            "CompressionType": "NONE",
        }
        records = {"RecordFormatType": "STRING"}
        kinesis.create_channel(
            ChannelName="to-lake",
            ServiceExecutionRoleARN=ROLE,
            StreamConfigurationList=[{"StreamARN": arn, "RecordConfiguration": records}],
            S3DestinationConfiguration={"StorageConfiguration": storage},
        )
        dead = "arn:aws:sqs:us-east-1:000000000000:dead"
        sqs.create_queue(QueueName="dead")
        policy = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 3})
        sqs.create_queue(QueueName="work", Attributes={"RedrivePolicy": policy})
        work = dead.replace("dead", "work")
        topic = sns.create_topic(Name="news")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=work)
        cloud.client("pipes").create_pipe(
            Name="carry",
            RoleArn=ROLE,
            Source=arn,
            SourceParameters={"KinesisStreamParameters": {"StartingPosition": "TRIM_HORIZON"}},
            Target=work,
        )
        events, dynamodb = cloud.client("events"), cloud.client("dynamodb")
        events.create_event_bus(Name="shop")
        events.put_rule(Name="sold", EventBusName="shop", EventPattern='{"source": ["till"]}')
        events.put_targets(Rule="sold", EventBusName="shop", Targets=[{"Id": "1", "Arn": work}])
        gone = {"Id": "2", "Arn": dead.replace("dead", "gone")}
        events.put_rule(Name="lost", EventPattern='{"source": ["till"]}')
        events.put_targets(Rule="lost", Targets=[gone])
        key = {"AttributeName": "id"}
        dynamodb.create_table(
            TableName="prices",
            KeySchema=[{**key, "KeyType": "HASH"}],
            AttributeDefinitions=[{**key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        )
        shown = get(cloud, "map")
        edges = {(edge["start"], edge["end"]) for edge in shown["edges"]}
        assert edges >= {
            ("stream:feed", "kinesis queue:jobs"),
            ("stream:feed", "channel:to-lake"),
            ("channel:to-lake", "bucket:lake"),
            ("queue:work", "queue:dead"),
            ("topic:news", "queue:work"),
            ("stream:feed", "pipe:carry"),
            ("pipe:carry", "queue:work"),
            ("bus:shop", "rule:shop/sold"),
            ("rule:shop/sold", "queue:work"),
        }

        def have_rates() -> bool:
            sns.publish(TopicArn=topic, Message="new")
            sold = {"Source": "till", "DetailType": "sold", "Detail": "{}"}
            events.put_events(Entries=[sold, {**sold, "EventBusName": "shop"}])
            dynamodb.put_item(TableName="prices", Item={"id": {"S": "pear"}})
            listed = {one["id"]: one for one in get(cloud, "resources")["resources"]}
            busy = ("topic:news", "rule:shop/sold", "rule:lost", "table:prices", "queue:work")
            # A rule whose target is gone fails.
            fails = "errors a second" in listed["rule:lost"]["problem"]
            return fails and all((listed[one]["reading"] or [0])[0] for one in busy)

        until(have_rates, timeout_s=30)
        write = {"Put": {"TableName": "prices", "Item": {"id": {"S": "plum"}}}}
        check = {
            "TableName": "prices",
            "Key": {"id": {"S": "pear"}},
            "ConditionExpression": "attribute_not_exists(id)",
        }
        table = "arn:aws:dynamodb:us-east-1:000000000000:table/prices"
        before = CURRENT.handled.totals()[table]
        with pytest.raises(dynamodb.exceptions.TransactionCanceledException):
            dynamodb.transact_write_items(TransactItems=[write, {"ConditionCheck": check}])
        assert CURRENT.handled.totals()[table] == before  # what was undone was not written

        def has_rate() -> bool:
            kinesis.put_record(StreamName="feed", Data=b"{}", PartitionKey="k")
            rows = {one["id"]: one["reading"] for one in get(cloud, "resources")["resources"]}
            return bool(rows["pipe:carry"] and rows["pipe:carry"][0])

        until(has_rate, timeout_s=30)


def test_every_consumer_of_a_stream_has_its_position(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path / "data", limits="off") as cloud:
        kinesis, dynamodb = cloud.client("kinesis"), cloud.client("dynamodb")
        for name in ("orders", "others"):
            kinesis.create_stream(StreamName=name, ShardCount=1)
        arn = kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"][
            "StreamARN"
        ]
        cloud.client("s3").create_bucket(Bucket="lake")
        cloud.client("firehose").create_delivery_stream(
            DeliveryStreamName="to-lake",
            DeliveryStreamType="KinesisStreamAsSource",
            KinesisStreamSourceConfiguration={"KinesisStreamARN": arn, "RoleARN": ROLE},
            ExtendedS3DestinationConfiguration={
                "RoleARN": ROLE,
                "BucketARN": "arn:aws:s3:::lake",
                "BufferingHints": {"IntervalInSeconds": 900, "SizeInMBs": 64},
            },
        )
        registered = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="fast")
        fast = registered["Consumer"]["ConsumerARN"]
        numbers = [
            kinesis.put_record(StreamName="orders", Data=b"x", PartitionKey="k")["SequenceNumber"]
            for _ in range(5)
        ]
        foreign = kinesis.put_record(StreamName="others", Data=b"x", PartitionKey="k")
        key = {"AttributeName": "leaseKey"}
        dynamodb.create_table(
            TableName="app",
            KeySchema=[{**key, "KeyType": "HASH"}],
            AttributeDefinitions=[{**key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        shard = "shardId-000000000000"
        for lease, checkpoint in (
            (shard, numbers[1]),
            (f"000000000000:orders:1:{shard}", numbers[4]),
            (f"000000000000:others:1:{shard}", foreign["SequenceNumber"]),
            ("shardId-000000000009", "TRIM_HORIZON"),
        ):
            item = {"leaseKey": {"S": lease}, "checkpoint": {"S": checkpoint}}
            dynamodb.put_item(TableName="app", Item={**item, "leaseOwner": {"S": "w"}})
        detail = get(cloud, "streams/orders")
        by_id = {one["id"]: one["shards"] for one in detail["consumers"]}
        # Nothing is in an object yet; nobody is subscribed.
        assert by_id["delivery:to-lake"][shard]["waiting"] == 5
        assert by_id["fan-out:fast"] == {}
        waiting = sorted(one["waiting"] for one in detail["leases"])
        assert waiting == [0, 3]
        assert {one["owner"] for one in detail["leases"]} == {"w"}
        backend = cloud.cloud.kinesis
        (stream,) = (one for one in backend.streams.values() if one.name == "orders")
        now_ms = stream.shards[0].created_ms
        consumer = backend.subscriptions.consumers.by_arn(fast, now_ms)
        assert consumer is not None
        opened = backend.subscriptions.open(
            stream, stream.shards[0], consumer, 2, cbor=False, now_ms=now_ms
        )
        rows = {one["id"]: one["shards"] for one in get(cloud, "streams/orders")["consumers"]}
        opened.close()
        assert rows["fan-out:fast"][shard]["waiting"] == 4  # the first record is 1


def test_resources_that_are_long_gone_are_forgotten() -> None:
    handled = Handled()
    handled.MOST = 2
    for arn in ("first", "first", "second", "third"):
        handled.add(arn)
    handled.fail("third")
    assert handled.totals() == {"second": (1, 0), "third": (1, 1)}
    # What fails now may have been handled before the start.
    for arn in ("fourth", "fifth", "sixth"):
        handled.fail(arn)
    assert handled.totals() == {"fifth": (0, 1), "sixth": (0, 1)}
    assert len(handled._failures) == 2
