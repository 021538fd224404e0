"""The map's edges of channels, queues and topics, and the rate of a pipe."""

from __future__ import annotations

import json
from pathlib import Path

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
        }

        def has_rate() -> bool:
            kinesis.put_record(StreamName="feed", Data=b"{}", PartitionKey="k")
            rows = {one["id"]: one["reading"] for one in get(cloud, "resources")["resources"]}
            return bool(rows["pipe:carry"] and rows["pipe:carry"][0])

        until(has_rate, timeout_s=30)
