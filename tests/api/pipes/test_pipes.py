"""Pipes: what a target gets of each source, and that nothing is lost or moved twice over a restart.

Documented: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes.html and its pages on each source.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def url(name: str) -> str:
    return f"http://localhost/{ACCOUNT}/{name}"


def received(cloud: InProcessCloud, name: str, count: int) -> list[Any]:
    """Return what arrives in a queue, once it is `count` messages."""
    sqs = cloud.client("sqs")
    found: list[Any] = []

    def arrived() -> bool:
        answer = sqs.receive_message(QueueUrl=url(name), MaxNumberOfMessages=10)
        for message in answer.get("Messages", []):
            found.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=url(name), ReceiptHandle=message["ReceiptHandle"])
        return len(found) >= count

    wait_until(arrived, within_s=20, what=f"{count} messages in {name}")
    return found


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("pipes") / "data") as cloud:
        yield cloud


def test_messages_go_from_queue_to_queue_by_filter_and_template(cloud: InProcessCloud):
    sqs = cloud.client("sqs")
    for name in ("from", "to"):
        sqs.create_queue(QueueName=name)
    cloud.client("pipes").create_pipe(
        Name="p",
        RoleArn=ROLE,
        Source=arn("from"),
        SourceParameters={
            "FilterCriteria": {"Filters": [{"Pattern": json.dumps({"body": {"kind": ["a"]}})}]}
        },
        Target=arn("to"),
        TargetParameters={"InputTemplate": '{"n": <$.body.n>, "say": "it is <$.body.kind>"}'},
    )
    for body in ({"kind": "b", "n": 1}, {"kind": "a", "n": 2}):
        sqs.send_message(QueueUrl=url("from"), MessageBody=json.dumps(body))
    assert received(cloud, "to", 1) == [{"n": 2, "say": "it is a"}]

    def is_empty() -> bool:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = sqs.get_queue_attributes(QueueUrl=url("from"), AttributeNames=names)["Attributes"]
        return set(found.values()) == {"0"}

    # What a filter drops is gone from the queue, too.
    wait_until(is_empty, within_s=10, what="an empty source")


def test_the_records_of_a_table_arrive(cloud: InProcessCloud):
    cloud.client("sqs").create_queue(QueueName="changes")
    dynamodb = cloud.client("dynamodb")
    table = dynamodb.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )["TableDescription"]
    cloud.client("pipes").create_pipe(
        Name="d",
        RoleArn=ROLE,
        Source=table["LatestStreamArn"],
        SourceParameters={"DynamoDBStreamParameters": {"StartingPosition": "TRIM_HORIZON"}},
        Target=arn("changes"),
    )
    dynamodb.put_item(TableName="t", Item={"id": {"S": "x"}})
    (change,) = received(cloud, "changes", 1)
    assert change["eventName"] == "INSERT"
    assert change["dynamodb"]["NewImage"] == {"id": {"S": "x"}}


def test_a_stream_goes_on_where_it_was_after_a_restart(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("kinesis").create_stream(StreamName="s", ShardCount=1)
        cloud.client("sqs").create_queue(QueueName="q")
        cloud.client("pipes").create_pipe(
            Name="k",
            RoleArn=ROLE,
            Source=f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/s",
            SourceParameters={"KinesisStreamParameters": {"StartingPosition": "TRIM_HORIZON"}},
            Target=arn("q"),
        )
        cloud.client("kinesis").put_record(StreamName="s", Data=b"one", PartitionKey="a")
        (first,) = received(cloud, "q", 1)
        assert (base64.b64decode(first["data"]), first["partitionKey"]) == (b"one", "a")
        assert first["eventSource"] == "aws:kinesis"
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("kinesis").put_record(StreamName="s", Data=b"two", PartitionKey="a")
        (second,) = received(cloud, "q", 1)
        assert base64.b64decode(second["data"]) == b"two"


def test_latest_is_the_end_of_every_shard_and_later_children_are_read_whole(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="s", ShardCount=1)
        cloud.client("sqs").create_queue(QueueName="to")

        def split(shard: int, at: int) -> None:
            name = f"shardId-{shard:012}"
            kinesis.split_shard(StreamName="s", ShardToSplit=name, NewStartingHashKey=str(at))

        def put(text: bytes) -> None:
            # One record in each half of the keys.
            for hash_key in ("0", str(2**128 - 1)):
                kinesis.put_record(
                    StreamName="s", Data=text, PartitionKey="k", ExplicitHashKey=hash_key
                )

        put(b"parent")
        split(0, 2**127)
        put(b"old")
        stream = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]
        pipes = cloud.client("pipes")
        start = {"KinesisStreamParameters": {"StartingPosition": "LATEST"}}
        pipes.create_pipe(
            Name="p", RoleArn=ROLE, Source=stream["StreamARN"], SourceParameters=start,
            Target=arn("to"),
        )  # fmt: skip
        pipe = pipes.describe_pipe(Name="p")["Arn"]
        rows = "SELECT count(*) FROM pipe_positions WHERE pipe = ? AND shard = ''"
        wait_until(
            lambda: cloud.cloud.database.query(rows, (pipe,))[0][0], what="the pipe's beginning"
        )
        put(b"new")
        split(1, 2**126)
        put(b"newer")
        texts = [base64.b64decode(one["data"]) for one in received(cloud, "to", 4)]
        assert sorted(texts) == [b"new", b"new", b"newer", b"newer"]


def test_a_source_and_a_target_are_arns(cloud: InProcessCloud) -> None:
    pipes = cloud.client("pipes")
    with pytest.raises(ClientError) as caught:
        pipes.create_pipe(Name="p", RoleArn=ROLE, Source="queue", Target="stream")
    error = caught.value.response["Error"]
    assert error["Code"] == "ValidationException"
    assert "Value 'queue' at 'source' failed to satisfy constraint" in error["Message"]
    assert "Value 'stream' at 'target'" in error["Message"]


def test_a_standard_machine_does_not_run_synchronously(
    cloud: InProcessCloud, caplog: pytest.LogCaptureFixture
) -> None:
    states, pipes = cloud.client("stepfunctions"), cloud.client("pipes")
    cloud.client("sqs").create_queue(QueueName="starts")
    definition = {"StartAt": "A", "States": {"A": {"Type": "Pass", "End": True}}}
    machine = states.create_state_machine(
        name="standard", definition=json.dumps(definition), roleArn=ROLE
    )["stateMachineArn"]
    pipes.create_pipe(Name="sync", RoleArn=ROLE, Source=arn("starts"), Target=machine)
    cloud.client("sqs").send_message(QueueUrl=url("starts"), MessageBody="{}")
    wait_until(lambda: "StateMachineTypeNotSupported" in caplog.text, within_s=20, what="a refusal")
    assert states.list_executions(stateMachineArn=machine)["executions"] == []

    pipes.delete_pipe(Name="sync")
    parameters = {"StepFunctionStateMachineParameters": {"InvocationType": "FIRE_AND_FORGET"}}
    cloud.client("sqs").create_queue(QueueName="forgets")
    pipes.create_pipe(
        Name="async",
        RoleArn=ROLE,
        Source=arn("forgets"),
        Target=machine,
        TargetParameters=parameters,
    )
    cloud.client("sqs").send_message(QueueUrl=url("forgets"), MessageBody="{}")
    wait_until(
        lambda: states.list_executions(stateMachineArn=machine)["executions"],
        within_s=20,
        what="an execution",
    )
