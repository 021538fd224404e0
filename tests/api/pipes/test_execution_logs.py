"""The LogConfiguration of pipes: records at every destination, changes, stacks, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.iam import allow, as_role, make_role, refusal
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"
HERE = f"{REGION}:{ACCOUNT}"


@pytest.fixture
def cloud(tmp_path: Any) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path / "data") as cloud:
        for name in ("from", "to"):
            cloud.client("sqs").create_queue(QueueName=name)
        yield cloud


def settings(**configuration: Any) -> dict[str, Any]:
    return {
        "Name": "p",
        "RoleArn": ROLE,
        "Source": f"arn:aws:sqs:{HERE}:from",
        "Target": f"arn:aws:sqs:{HERE}:to",
        "LogConfiguration": configuration,
    }


def send(cloud: InProcessCloud, body: str) -> None:
    url = f"http://localhost/{ACCOUNT}/from"
    cloud.client("sqs").send_message(QueueUrl=url, MessageBody=body)


def to_group(cloud: InProcessCloud, level: str) -> dict[str, Any]:
    """Return settings that log into a new group `g`."""
    cloud.client("logs").create_log_group(logGroupName="g")
    where = {"LogGroupArn": f"arn:aws:logs:{HERE}:log-group:g"}
    return settings(Level=level, CloudwatchLogsLogDestination=where)


def events(cloud: InProcessCloud) -> list[dict[str, Any]]:
    found = cloud.client("logs").filter_log_events(logGroupName="g")["events"]
    return [json.loads(event["message"]) for event in found]


def wait_for_end(cloud: InProcessCloud, executions: int) -> list[dict[str, Any]]:
    def ended() -> bool:
        told = [event["messageType"] for event in events(cloud)]
        return told.count("EXECUTION_SUCCEEDED") == executions

    wait_until(ended, within_s=20, what=f"{executions} logged executions")
    return events(cloud)


def objects(cloud: InProcessCloud, bucket: str) -> list[dict[str, Any]]:
    """Return the records in a bucket, once it has any."""
    s3 = cloud.client("s3")
    wait_until(
        lambda: s3.list_objects_v2(Bucket=bucket)["KeyCount"] > 0, within_s=20, what="an object"
    )
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    text = b"".join(s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys)
    return [json.loads(line) for line in text.splitlines()]


STEPS = [
    "EXECUTION_STARTED",
    "TARGET_STAGE_ENTERED",
    "TARGET_STAGE_SUCCEEDED",
    "EXECUTION_SUCCEEDED",
]


def test_a_log_group_gets_the_records_and_an_update_changes_them(cloud: InProcessCloud):
    pipes, given = cloud.client("pipes"), to_group(cloud, "INFO")
    pipes.create_pipe(**given)
    send(cloud, "one")
    assert [event["messageType"] for event in wait_for_end(cloud, 1)] == STEPS
    changed = {**given["LogConfiguration"], "IncludeExecutionData": ["ALL"]}
    pipes.update_pipe(Name="p", RoleArn=ROLE, LogConfiguration=changed)
    assert pipes.describe_pipe(Name="p")["LogConfiguration"] == changed
    send(cloud, "two")
    started = [e for e in wait_for_end(cloud, 2) if e["messageType"] == "EXECUTION_STARTED"]
    assert ["payload" in event for event in started] == [False, True]
    (event,) = json.loads(started[1]["payload"])
    assert event["body"] == "two"


def test_a_bucket_gets_the_records_below_the_prefix(cloud: InProcessCloud):
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="logs")
    where = {
        "BucketName": "logs",
        "BucketOwner": ACCOUNT,
        "Prefix": "deep",
        "OutputFormat": "plain",
    }
    cloud.client("pipes").create_pipe(**settings(Level="INFO", S3LogDestination=where))
    send(cloud, "one")
    assert [record["messageType"] for record in objects(cloud, "logs")] == STEPS
    (found,) = s3.list_objects_v2(Bucket="logs")["Contents"]
    assert found["Key"].startswith(f"deep/AWSLogs/{ACCOUNT}/pipes/{REGION}/p/")


def test_a_delivery_stream_gets_the_records(cloud: InProcessCloud):
    cloud.client("s3").create_bucket(Bucket="logs")
    stream = cloud.client("firehose").create_delivery_stream(
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration={
            "RoleARN": ROLE,
            "BucketARN": "arn:aws:s3:::logs",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
        },
    )["DeliveryStreamARN"]
    where = {"DeliveryStreamArn": stream}
    cloud.client("pipes").create_pipe(**settings(Level="INFO", FirehoseLogDestination=where))
    send(cloud, "one")
    assert [record["messageType"] for record in objects(cloud, "logs")] == STEPS


def test_a_destination_that_is_gone_does_not_stop_the_pipe(cloud: InProcessCloud):
    where = {"LogGroupArn": f"arn:aws:logs:{HERE}:log-group:none"}
    pipes = cloud.client("pipes")
    pipes.create_pipe(**settings(Level="TRACE", CloudwatchLogsLogDestination=where))
    send(cloud, "one")
    sqs, url = cloud.client("sqs"), f"http://localhost/{ACCOUNT}/to"
    wait_until(
        lambda: "Messages" in sqs.receive_message(QueueUrl=url), within_s=20, what="a message"
    )


def test_a_stack_has_a_pipe_that_logs(cloud: InProcessCloud):
    given = to_group(cloud, "INFO")
    template = {"Resources": {"P": {"Type": "AWS::Pipes::Pipe", "Properties": given}}}
    stacks = cloud.client("cloudformation")
    stacks.create_stack(StackName="s", TemplateBody=json.dumps(template))
    stacks.get_waiter("stack_create_complete").wait(
        StackName="s", WaiterConfig={"Delay": 1, "MaxAttempts": 20}
    )
    send(cloud, "one")
    assert [event["messageType"] for event in wait_for_end(cloud, 1)] == STEPS


def test_a_level_that_does_not_exist_is_refused(cloud: InProcessCloud):
    pipes = cloud.client("pipes")
    with pytest.raises(ClientError, match="ValidationException"):
        pipes.create_pipe(**settings(Level="DEBUG"))
    pipes.create_pipe(**settings(Level="OFF"))
    with pytest.raises(ClientError, match="ValidationException"):
        pipes.update_pipe(Name="p", RoleArn=ROLE, LogConfiguration={"Level": "DEBUG"})


def test_logs_go_into_no_other_account(cloud: InProcessCloud) -> None:
    pipes, other = cloud.client("pipes"), "111111111111"
    for where in (
        {"CloudwatchLogsLogDestination": {"LogGroupArn": f"arn:aws:logs:{REGION}:{other}:log-group:g"}},
        {"S3LogDestination": {"BucketName": "theirs", "BucketOwner": other}},
    ):  # fmt: skip
        with pytest.raises(ClientError, match="of their own account only"):
            pipes.create_pipe(**settings(Level="INFO", **where))
    # Whose a bucket is, its name does not say.
    cloud.client("s3", account=other).create_bucket(Bucket="theirs")
    mine = {"BucketName": "theirs", "BucketOwner": ACCOUNT}
    pipes.create_pipe(**settings(Level="INFO", S3LogDestination=mine))
    send(cloud, "a")
    to = f"http://localhost/{ACCOUNT}/to"
    queue = cloud.client("sqs")
    wait_until(lambda: queue.receive_message(QueueUrl=to).get("Messages"), what="the event")
    assert cloud.client("s3", account=other).list_objects_v2(Bucket="theirs")["KeyCount"] == 0


@pytest.mark.parametrize(
    "stored",
    [{"Level": "LOUD"}, {"Level": "INFO", "CloudwatchLogsLogDestination": {"LogGroupArn": "g"}}],
)
def test_a_pipe_that_was_stored_with_another_log_configuration_delivers(
    cloud: InProcessCloud, stored: dict[str, Any]
) -> None:
    """Earlier versions stored any."""
    asked = settings(Level="OFF")
    asked["DesiredState"] = "STOPPED"
    cloud.client("pipes").create_pipe(**asked)

    from moto.pipes.models import pipes_backends

    pipes_backends[ACCOUNT][REGION].pipes["p"].log_configuration = stored
    cloud.client("pipes").start_pipe(Name="p")
    send(cloud, "a")
    to, queue = f"http://localhost/{ACCOUNT}/to", cloud.client("sqs")
    wait_until(lambda: queue.receive_message(QueueUrl=to).get("Messages"), what="the event")


def test_whoever_sets_a_log_needs_permissions_on_its_destination(tmp_path: Any) -> None:
    with InProcessCloud(tmp_path / "enforced", iam="enforce") as cloud:
        make_role(cloud, "r", trusts="pipes.amazonaws.com")
        pipes = allow(["pipes:*", "iam:PassRole"], "*")
        make_role(cloud, "piper", pipes, trusts=f"arn:aws:iam::{ACCOUNT}:root")
        caller = as_role(cloud, "piper", "pipes")
        logs = {"BucketName": "b-1", "BucketOwner": ACCOUNT}
        asked = settings(Level="INFO", S3LogDestination=logs)
        assert "logs:CreateLogDelivery" in refusal(caller.create_pipe, **asked)[2]
        delivery = allow("logs:CreateLogDelivery", "*")
        make_role(cloud, "logger", pipes, delivery, trusts=f"arn:aws:iam::{ACCOUNT}:root")
        caller = as_role(cloud, "logger", "pipes")
        assert "s3:PutBucketPolicy" in refusal(caller.create_pipe, **asked)[2]
