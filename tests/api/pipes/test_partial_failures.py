"""Only the events that a pipe's target did not take are tried again.

Documented: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes-batching-concurrency.html.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.lambda_lab import zipped
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:picky"
CODE = """
import base64
def handler(events, context):
    bad = [e for e in events if "bad" in (e.get("body") or base64.b64decode(e.get("data", "")).decode())]
    return {"batchItemFailures": [{"itemIdentifier": e.get("messageId") or e["eventID"]} for e in bad]}
"""

# An enrichment that drops the events' ids, or makes up its own; its target fails the first event by what it has.
ENRICHMENTS = {
    "nameless": """
def handler(events, context):
    return [{"body": one["body"]} for one in events]
""",
    "renaming": """
def handler(events, context):
    return [{"messageId": "own-" + one["body"], "body": one["body"]} for one in events]
""",
}
NAMES_FIRST = """
def handler(events, context):
    return {"batchItemFailures": [{"itemIdentifier": events[0].get("messageId", "")}]}
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("pipes") / "data") as cloud:
        functions = cloud.client("lambda")
        for name, code in {"picky": CODE, "names-first": NAMES_FIRST, **ENRICHMENTS}.items():
            functions.create_function(
                FunctionName=name, Runtime="python3.11", Handler="app.handler", Role=ROLE, Timeout=30,
                Code={"ZipFile": zipped({"app.py": code})},
            )  # fmt: skip
            functions.get_waiter("function_active_v2").wait(FunctionName=name)
        yield cloud


def make_queue(cloud: InProcessCloud, name: str, **attributes: str) -> tuple[str, str]:
    """Return a queue's URL and ARN."""
    made = cloud.client("sqs").create_queue(QueueName=name, Attributes=attributes)
    return made["QueueUrl"], f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def bodies(cloud: InProcessCloud, url: str) -> list[str]:
    """Return what a queue has, once it has something."""
    sqs, found = cloud.client("sqs"), list[str]()

    def arrived() -> bool:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        found.extend(one["Body"] for one in answer.get("Messages", ()))
        return bool(found)

    wait_until(arrived, within_s=60, what="a message")
    return found


def test_a_queue_keeps_the_messages_that_were_not_taken(cloud: InProcessCloud):
    dead, dead_arn = make_queue(cloud, "dead")
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 1})
    url, source = make_queue(cloud, "from", RedrivePolicy=redrive, VisibilityTimeout="1")
    entries = [{"Id": one, "MessageBody": one} for one in ("good1", "bad", "good2")]
    cloud.client("sqs").send_message_batch(QueueUrl=url, Entries=entries)
    cloud.client("pipes").create_pipe(Name="q", RoleArn=ROLE, Source=source, Target=FUNCTION)
    assert bodies(cloud, dead) == ["bad"]


@pytest.mark.parametrize("enrichment", list(ENRICHMENTS))
def test_a_batch_whose_failures_are_no_events_of_the_source_is_tried_again(
    cloud: InProcessCloud, enrichment: str
):
    dead, dead_arn = make_queue(cloud, f"dead-{enrichment}")
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 1})
    url, source = make_queue(cloud, enrichment, RedrivePolicy=redrive, VisibilityTimeout="1")
    entries = [{"Id": one, "MessageBody": one} for one in ("one", "two")]
    cloud.client("sqs").send_message_batch(QueueUrl=url, Entries=entries)
    cloud.client("pipes").create_pipe(
        Name=enrichment, RoleArn=ROLE, Source=source, Target=FUNCTION.replace("picky", "names-first"),
        Enrichment=FUNCTION.replace("picky", enrichment),
    )  # fmt: skip
    found = list[str]()
    while len(found) < len(entries):
        found += bodies(cloud, dead)
    assert sorted(found) == ["one", "two"]


def test_a_stream_goes_on_behind_what_is_given_up(cloud: InProcessCloud):
    dead, dead_arn = make_queue(cloud, "given-up")
    kinesis: Any = cloud.client("kinesis")
    kinesis.create_stream(StreamName="s", ShardCount=1)
    for data in (b"good1", b"bad", b"good2"):
        kinesis.put_record(StreamName="s", Data=data, PartitionKey="a")
    parameters = {
        "StartingPosition": "TRIM_HORIZON",
        "MaximumRetryAttempts": 1,
        "DeadLetterConfig": {"Arn": dead_arn},
    }
    cloud.client("pipes").create_pipe(
        Name="s", RoleArn=ROLE, Target=FUNCTION, Source=f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/s",
        SourceParameters={"KinesisStreamParameters": parameters},
    )  # fmt: skip
    given_up = [json.loads(one) for one in bodies(cloud, dead)]
    assert [base64.b64decode(one["data"]) for one in given_up] == [b"bad"]


def make_stream_pipe(cloud: InProcessCloud, name: str, records: list[bytes], **more: Any) -> None:
    """Make a pipe of a stream with these records to the function `picky`."""
    kinesis: Any = cloud.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=1)
    entries: Any = [{"Data": data, "PartitionKey": "a"} for data in records]
    kinesis.put_records(StreamName=name, Records=entries)
    source = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{name}"
    cloud.client("pipes").create_pipe(
        Name=name, RoleArn=ROLE, Target=more.pop("Target", FUNCTION), Source=source,
        SourceParameters={"KinesisStreamParameters": {"StartingPosition": "TRIM_HORIZON", **more}},
    )  # fmt: skip


def given_up(cloud: InProcessCloud, url: str) -> list[bytes]:
    return [base64.b64decode(json.loads(one)["data"]) for one in bodies(cloud, url)]


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_dead_letter_queue_that_refuses_for_good_holds_up_nobody(
    cloud: InProcessCloud, caplog: pytest.LogCaptureFixture, is_gone: bool
):
    """What it takes it has once; the rest is lost, which the log says."""
    name = f"narrow-{is_gone}"
    dead, arn = make_queue(cloud, name, MaximumMessageSize="1024")
    kinds = [b"bad", b"bad" * 400, b"bad two"]
    make_stream_pipe(
        cloud, name, [b"good"], MaximumRetryAttempts=0, BatchSize=10, DeadLetterConfig={"Arn": arn}
    )
    if is_gone:
        cloud.client("sqs").delete_queue(QueueUrl=dead)
    kinesis: Any = cloud.client("kinesis")
    entries: Any = [{"Data": data, "PartitionKey": "a"} for data in kinds]
    kinesis.put_records(StreamName=name, Records=entries)
    lost = f"pipe/{name}: a record is lost. The dead-letter target {arn} did not take"
    wait_until(
        lambda: caplog.text.count(lost) == (3 if is_gone else 1), within_s=60, what="the losses"
    )
    if not is_gone:
        found = list[bytes]()
        while len(found) < 2:
            found += given_up(cloud, dead)
        assert sorted(found) == [b"bad", b"bad two"]
    assert caplog.text.count(f"pipe/{name} gives up") == 1


def test_a_pipe_whose_dead_letter_queue_is_missing_is_refused(cloud: InProcessCloud):
    """aws-samples/serverless-patterns #1543, #1857: AWS sends to it when the pipe is made."""
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:nowhere"
    with pytest.raises(ClientError, match=f"Error occurred while sending message to SQS.*{arn}"):
        make_stream_pipe(cloud, "nowhere", [b"one"], DeadLetterConfig={"Arn": arn})


def test_a_missing_target_is_given_up_after_its_tries(cloud: InProcessCloud):
    dead, arn = make_queue(cloud, "dead-missing")
    missing = FUNCTION.replace("picky", "missing")
    make_stream_pipe(
        cloud, "missing", [b"one"],
        Target=missing, MaximumRetryAttempts=1, DeadLetterConfig={"Arn": arn},
    )  # fmt: skip
    assert given_up(cloud, dead) == [b"one"]


def test_a_record_is_given_up_at_its_age(cloud: InProcessCloud):
    dead, arn = make_queue(cloud, "dead-old")
    make_stream_pipe(
        cloud, "old", [b"bad"], MaximumRecordAgeInSeconds=1, DeadLetterConfig={"Arn": arn}
    )
    assert given_up(cloud, dead) == [b"bad"]


def test_a_target_that_is_too_busy_costs_no_tries(
    cloud: InProcessCloud, caplog: pytest.LogCaptureFixture
):
    dead, arn = make_queue(cloud, "dead-busy")
    functions = cloud.client("lambda")
    functions.put_function_concurrency(FunctionName="picky", ReservedConcurrentExecutions=0)
    make_stream_pipe(
        cloud, "busy", [b"good"], MaximumRetryAttempts=0, DeadLetterConfig={"Arn": arn}
    )
    wait_until(lambda: "pipe/busy: " in caplog.text, within_s=60, what="the refusal")
    functions.delete_function_concurrency(FunctionName="picky")
    kinesis: Any = cloud.client("kinesis")
    kinesis.put_record(StreamName="busy", Data=b"bad", PartitionKey="a")
    assert given_up(cloud, dead) == [b"bad"]


def test_what_is_given_up_goes_to_the_queue_of_its_arn_s_region(cloud: InProcessCloud):
    make_queue(cloud, "namesake")
    there: Any = cloud.client("sqs", region="eu-west-1")
    url = there.create_queue(QueueName="namesake")["QueueUrl"]
    kinesis: Any = cloud.client("kinesis")
    kinesis.create_stream(StreamName="n", ShardCount=1)
    kinesis.put_record(StreamName="n", Data=b"bad", PartitionKey="a")
    parameters = {
        "StartingPosition": "TRIM_HORIZON",
        "MaximumRetryAttempts": 0,
        "DeadLetterConfig": {"Arn": f"arn:aws:sqs:eu-west-1:{ACCOUNT}:namesake"},
    }
    cloud.client("pipes").create_pipe(
        Name="n", RoleArn=ROLE, Target=FUNCTION, Source=f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/n",
        SourceParameters={"KinesisStreamParameters": parameters},
    )  # fmt: skip

    def count() -> int:
        names = ["ApproximateNumberOfMessages"]
        found = there.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return int(found[names[0]])

    wait_until(lambda: count() == 1, within_s=60, what="the record")
