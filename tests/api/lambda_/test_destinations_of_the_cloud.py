"""Asynchronous results reach the cloud's own queues, topics, buses and buckets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud
from tests.support.lambda_lab import ROLE, zipped
from tests.support.server import wait_until

SOURCE = "def handler(event, context):\n    if event == 'fail': raise ValueError('bad')\n    return 'ok'\n"
ACCOUNT = "000000000000"


@pytest.fixture
def cloud(tmp_path: Path) -> Any:
    with InProcessCloud(tmp_path) as cloud:
        cloud.client("lambda").create_function(
            FunctionName="f", Runtime="python3.11", Role=ROLE, Handler="app.handler",
            Code={"ZipFile": zipped({"app.py": SOURCE})},
        )  # fmt: skip
        yield cloud


def queue(cloud: InProcessCloud, name: str) -> tuple[str, str]:
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    return url, f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"


def received(cloud: InProcessCloud, url: str) -> dict[str, Any]:
    sqs = cloud.client("sqs")

    def one() -> Any:
        answer = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"])
        return answer.get("Messages")

    (message,) = wait_until(one, what="the message")
    return message


def send(cloud: InProcessCloud, event: str, **destinations: str) -> None:
    client = cloud.client("lambda")
    client.put_function_event_invoke_config(
        FunctionName="f",
        MaximumRetryAttempts=0,
        DestinationConfig={side: {"Destination": arn} for side, arn in destinations.items()},
    )
    client.invoke(FunctionName="f", InvocationType="Event", Payload=json.dumps(event).encode())


def test_a_queue_gets_the_record(cloud: InProcessCloud) -> None:
    url, arn = queue(cloud, "results")
    send(cloud, "go", OnSuccess=arn)
    assert json.loads(received(cloud, url)["Body"])["responsePayload"] == "ok"


def test_a_topic_hands_the_record_on(cloud: InProcessCloud) -> None:
    url, arn = queue(cloud, "subscriber")
    sns = cloud.client("sns")
    topic = sns.create_topic(Name="results")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    send(cloud, "fail", OnFailure=topic)
    message = json.loads(json.loads(received(cloud, url)["Body"])["Message"])
    assert message["requestContext"]["condition"] == "RetriesExhausted"


def test_a_rule_of_the_bus_sees_the_event(cloud: InProcessCloud) -> None:
    url, arn = queue(cloud, "seen")
    events = cloud.client("events")
    events.create_event_bus(Name="results")
    pattern = {"detail-type": ["Lambda Function Invocation Result - Success"]}
    events.put_rule(Name="r", EventBusName="results", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="r", EventBusName="results", Targets=[{"Id": "1", "Arn": arn}])
    send(cloud, "go", OnSuccess=f"arn:aws:events:us-east-1:{ACCOUNT}:event-bus/results")
    event = json.loads(received(cloud, url)["Body"])
    assert event["source"] == "lambda"
    assert event["detail"]["responsePayload"] == "ok"


def test_a_bucket_gets_an_object(cloud: InProcessCloud) -> None:
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="failures")
    send(cloud, "fail", OnFailure="arn:aws:s3:::failures")

    def keys() -> list[str]:
        answer = s3.list_objects_v2(Bucket="failures", Prefix="aws/lambda/async/f/")
        return [one["Key"] for one in answer.get("Contents", [])]

    (key,) = wait_until(keys, what="the object")
    body = s3.get_object(Bucket="failures", Key=key)["Body"].read()
    assert json.loads(body)["responsePayload"]["errorMessage"] == "bad"


def test_a_dead_letter_has_its_error_as_attributes(cloud: InProcessCloud) -> None:
    url, arn = queue(cloud, "dead")
    client = cloud.client("lambda")
    client.update_function_configuration(FunctionName="f", DeadLetterConfig={"TargetArn": arn})
    client.put_function_event_invoke_config(FunctionName="f", MaximumRetryAttempts=0)
    client.invoke(FunctionName="f", InvocationType="Event", Payload=b'"fail"')
    message = received(cloud, url)
    assert message["Body"] == '"fail"'
    assert message["MessageAttributes"]["ErrorMessage"]["StringValue"] == "bad"
