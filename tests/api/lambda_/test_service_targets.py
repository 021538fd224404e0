"""Topics and rules that have functions for targets: SNS and EventBridge, which are moto's, reach headrace's Lambda."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud
from tests.support.lambda_lab import ROLE, zipped
from tests.support.server import wait_until

ARN = "arn:aws:lambda:us-east-1:000000000000:function:f"
SOURCE = """
import json, pathlib
def handler(event, context):
    file = pathlib.Path(PLACE, context.aws_request_id)
    file.with_suffix(".new").write_text(json.dumps(event))
    file.with_suffix(".new").replace(file)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    return place


@pytest.fixture
def cloud(tmp_path: Path, place: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path / "cloud") as cloud:
        source = SOURCE.replace("PLACE", repr(str(place)))
        cloud.client("lambda").create_function(
            FunctionName="f", Runtime="python3.11", Role=ROLE, Handler="app.handler",
            Code={"ZipFile": zipped({"app.py": source})},
        )  # fmt: skip
        yield cloud


def events(place: Path) -> list[Any]:
    return [json.loads(f.read_text()) for f in place.iterdir() if f.suffix != ".new"]


def allow(cloud: InProcessCloud, service: str, source_arn: str) -> None:
    cloud.client("lambda").add_permission(
        FunctionName="f",
        StatementId=service.partition(".")[0],
        Action="lambda:InvokeFunction",
        Principal=service,
        SourceArn=source_arn,
    )


def test_a_topic_invokes_its_subscriber(cloud: InProcessCloud, place: Path) -> None:
    sns = cloud.client("sns")
    topic = sns.create_topic(Name="t")["TopicArn"]
    made = sns.subscribe(TopicArn=topic, Protocol="lambda", Endpoint=ARN)
    allow(cloud, "sns.amazonaws.com", topic)
    attributes = {"colour": {"DataType": "String", "StringValue": "red"}}
    sent = sns.publish(TopicArn=topic, Message="hi", Subject="about", MessageAttributes=attributes)
    ((record,),) = [event["Records"] for event in wait_until(lambda: events(place), what="it")]
    assert record["EventSubscriptionArn"] == made["SubscriptionArn"]
    assert record["EventSource"] == "aws:sns"
    told = record["Sns"]
    assert (told["Message"], told["Subject"], told["TopicArn"]) == ("hi", "about", topic)
    assert told["MessageId"] == sent["MessageId"]
    assert told["MessageAttributes"] == {"colour": {"Type": "String", "Value": "red"}}


def test_without_a_permission_publishing_works_and_nothing_runs(
    cloud: InProcessCloud, place: Path
) -> None:
    sns = cloud.client("sns")
    closed = sns.create_topic(Name="closed")["TopicArn"]
    opened = sns.create_topic(Name="opened")["TopicArn"]
    for topic in (closed, opened):
        sns.subscribe(TopicArn=topic, Protocol="lambda", Endpoint=ARN)
    allow(cloud, "sns.amazonaws.com", opened)
    sns.publish(TopicArn=closed, Message="no")
    sns.publish(TopicArn=opened, Message="yes")
    (event,) = wait_until(lambda: events(place), what="the event")
    assert event["Records"][0]["Sns"]["Message"] == "yes"


def test_a_rule_invokes_its_target_with_what_it_asked_for(
    cloud: InProcessCloud, place: Path
) -> None:
    client = cloud.client("events")
    sqs = cloud.client("sqs")
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    arn = client.put_rule(Name="r", EventPattern=json.dumps({"source": ["x"]}))["RuleArn"]
    allow(cloud, "events.amazonaws.com", arn)
    client.put_targets(
        Rule="r",
        Targets=[
            {"Id": "whole", "Arn": ARN},
            {"Id": "part", "Arn": ARN, "InputPath": "$.detail.a"},
            {
                "Id": "template",
                "Arn": ARN,
                "InputTransformer": {
                    "InputPathsMap": {"n": "$.detail.a[0]"},
                    "InputTemplate": '["red", <n>]',
                },
            },
            {"Id": "fixed", "Arn": ARN, "Input": '{"fixed": true}'},
            {"Id": "queue", "Arn": "arn:aws:sqs:us-east-1:000000000000:q"},
        ],
    )
    client.put_events(
        Entries=[
            {"Source": "x", "DetailType": "d", "Detail": json.dumps({"a": [1]})},
            {"Source": "other", "DetailType": "d", "Detail": "{}"},
        ]
    )
    found = wait_until(lambda: len(events(place)) == 4 and events(place), what="the events")
    assert [1] in found
    assert {"fixed": True} in found
    (whole,) = [event for event in found if isinstance(event, dict) and "source" in event]
    assert (whole["source"], whole["detail"]) == ("x", {"a": [1]})
    assert whole["account"] == "000000000000"
    assert whole["time"].endswith("Z")
    assert ["red", 1] in found
    assert sqs.receive_message(QueueUrl=queue)["Messages"]


def test_a_restart_does_not_deliver_again(tmp_path: Path, place: Path) -> None:
    source = SOURCE.replace("PLACE", repr(str(place)))
    with InProcessCloud(tmp_path / "cloud") as cloud:
        cloud.client("lambda").create_function(
            FunctionName="f", Runtime="python3.11", Role=ROLE, Handler="app.handler",
            Code={"ZipFile": zipped({"app.py": source})},
        )  # fmt: skip
        sns = cloud.client("sns")
        topic = sns.create_topic(Name="t")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="lambda", Endpoint=ARN)
        allow(cloud, "sns.amazonaws.com", topic)
        sns.publish(TopicArn=topic, Message="first")
        wait_until(lambda: len(events(place)) == 1, what="the first event")
    with InProcessCloud(tmp_path / "cloud") as cloud:
        cloud.client("sns").publish(TopicArn=topic, Message="second")
        found = wait_until(lambda: len(events(place)) > 1 and events(place), what="the second")
    messages = sorted(event["Records"][0]["Sns"]["Message"] for event in found)
    assert messages == ["first", "second"]


def test_a_queues_event_has_the_hash_of_its_messages_attributes(
    cloud: InProcessCloud, place: Path
) -> None:
    """Null without attributes where batches are gathered, and elsewhere not there (AWS, recorded)."""
    sqs, attributes = cloud.client("sqs"), {"colour": {"DataType": "String", "StringValue": "red"}}
    sent: dict[str, str | None] = {}
    for name, window_s in (("at-once", 0), ("gathered", 1)):
        queue = sqs.create_queue(QueueName=name)["QueueUrl"]
        cloud.client("lambda").create_event_source_mapping(
            EventSourceArn=f"arn:aws:sqs:us-east-1:000000000000:{name}", FunctionName="f",
            MaximumBatchingWindowInSeconds=window_s,
        )  # fmt: skip
        answer = sqs.send_message(
            QueueUrl=queue, MessageBody=f"{name}, with", MessageAttributes=attributes
        )
        sent[f"{name}, with"] = answer["MD5OfMessageAttributes"]
        sqs.send_message(QueueUrl=queue, MessageBody=f"{name}, without")
    sent |= {"at-once, without": "not there", "gathered, without": None}

    def told() -> dict[str, str | None]:
        records = [record for event in events(place) for record in event["Records"]]
        return {one["body"]: one.get("md5OfMessageAttributes", "not there") for one in records}

    assert wait_until(lambda: told() if len(told()) == 4 else None, what="four messages") == sent
