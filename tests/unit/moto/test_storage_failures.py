"""moto's state when the disk fails: nothing acknowledged is lost, and what cannot be stored is refused."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.store.disk_space import DiskReserve
from tests.support.moto_lab import ACCOUNT, MotoLab
from tests.support.policies import TRUST_TEXT
from tests.unit.moto.test_storage import make, repeat, stored


@contextlib.contextmanager
def full_disk() -> Generator[None]:
    """Have the database take nothing but what gives room back."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DiskReserve, "free_bytes", property(lambda _: 0))
        yield


def everything(lab: MotoLab) -> list[Any]:
    """Return what a client sees of what `make` and `repeat` made."""
    iam, logs = lab.client("iam"), lab.client("logs")
    return [
        lab.client("dynamodb").scan(TableName="t")["Items"],
        lab.client("sqs").list_queues()["QueueUrls"],
        lab.client("sqs").get_queue_attributes(QueueUrl="q", AttributeNames=["All"])["Attributes"],
        lab.client("sns").list_topics()["Topics"],
        lab.client("events").list_rules()["Rules"],
        lab.client("ssm").describe_parameters()["Parameters"],
        iam.list_roles()["Roles"],
        lab.client("glue").get_partitions(DatabaseName="d", TableName="t")["Partitions"],
        logs.describe_log_streams(logGroupName="g")["logStreams"],
        logs.get_log_events(logGroupName="g", logStreamName="kept")["events"],
        lab.client("ecr").describe_repositories()["repositories"],
    ]


def test_what_could_not_be_written_has_not_happened(lab: MotoLab):
    make(lab)
    repeat(lab, 0)
    logs, sts = lab.client("logs"), lab.client("sts")
    logs.create_log_stream(logGroupName="g", logStreamName="kept")
    now_ms = lab.clock.now_ms()
    line = [{"timestamp": now_ms, "message": "kept"}]
    logs.put_log_events(logGroupName="g", logStreamName="kept", logEvents=line)
    role = {"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/r", "RoleSessionName": "s1"}
    key = sts.assume_role(**role)["Credentials"]["AccessKeyId"]
    before = everything(lab)
    assert before[9][0]["message"] == "kept"
    item = {"k": {"S": "not stored"}}
    attempts: list[Callable[[], Any]] = [
        lambda: lab.client("dynamodb").put_item(TableName="t", Item=item),
        lambda: lab.client("dynamodb").update_table(
            TableName="t",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
        ),
        lambda: lab.client("sqs").send_message(QueueUrl="q", MessageBody="not stored"),
        lambda: lab.client("sqs").create_queue(QueueName="not-stored"),
        lambda: lab.client("sns").create_topic(Name="not-stored"),
        lambda: lab.client("events").put_rule(Name="not", EventPattern='{"source":["x"]}'),
        lambda: lab.client("ssm").put_parameter(Name="/not", Value="x", Type="String"),
        lambda: lab.client("iam").create_role(RoleName="not", AssumeRolePolicyDocument=TRUST_TEXT),
        lambda: lab.client("logs").create_log_stream(logGroupName="g", logStreamName="not"),
        lambda: lab.client("ecr").create_repository(repositoryName="not"),
        lambda: sts.assume_role(**role),
    ]
    with full_disk():
        for attempt in attempts:
            with pytest.raises(ClientError, match="No space left") as caught:
                attempt()
            assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
            assert "undone" in str(caught.value)
        assert everything(lab) == before
        assert lab.moto.account_of(key) == ACCOUNT
    # The disk has room again: all goes on.
    lab.client("sqs").send_message(QueueUrl="q", MessageBody="stored")
    lab.client("dynamodb").put_item(TableName="t", Item={"k": {"S": "stored"}})
    after = everything(lab)
    lab.restart()
    again = everything(lab)
    # Log events are in memory only.
    assert again[:8] == after[:8]
    assert lab.moto.account_of(key) == ACCOUNT


def test_a_full_disk_takes_back_what_a_service_keeps_for_the_first_time(lab: MotoLab):
    aoss = lab.client("opensearchserverless")
    key = '{"Rules":[{"ResourceType":"collection","Resource":["collection/x"]}],"AWSOwnedKey":true}'
    aoss.create_security_policy(name="kept", type="encryption", policy=key)
    access = (
        '[{"Rules":[{"ResourceType":"index","Resource":["index/x/*"],"Permission":["aoss:*"]}],'
        '"Principal":["arn:aws:iam::000000000000:role/r"]}]'
    )
    with full_disk(), pytest.raises(ClientError, match="No space left"):
        aoss.create_access_policy(name="not-stored", type="data", policy=access)
    assert aoss.list_access_policies(type="data")["accessPolicySummaries"] == []
    assert len(aoss.list_security_policies(type="encryption")["securityPolicySummaries"]) == 1


def test_a_full_disk_takes_what_gives_room_back(lab: MotoLab):
    make(lab)
    dynamodb, sqs = lab.client("dynamodb"), lab.client("sqs")
    for key in ("a", "b"):
        dynamodb.put_item(TableName="t", Item={"k": {"S": key}})
    sqs.send_message(QueueUrl="q", MessageBody="x")
    (message,) = sqs.receive_message(QueueUrl="q")["Messages"]
    with full_disk():
        dynamodb.delete_item(TableName="t", Key={"k": {"S": "a"}})
        sqs.delete_message(QueueUrl="q", ReceiptHandle=message["ReceiptHandle"])
        sqs.delete_queue(QueueUrl="q")
    lab.restart()
    assert [item["k"]["S"] for item in dynamodb.scan(TableName="t")["Items"]] == ["b"]
    assert sqs.list_queues().get("QueueUrls", []) == []


def test_a_write_that_fails_half_way_has_not_happened(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch
):
    lab.client("sqs").create_queue(QueueName="q")

    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(lab.database, "execute_many", full)
        with pytest.raises(ClientError, match="database or disk is full"):
            lab.client("sqs").create_queue(QueueName="other")
    for _ in range(2):
        (url,) = lab.client("sqs").list_queues()["QueueUrls"]
        assert url.endswith("/q")
        lab.restart()


def test_a_backend_that_could_not_be_written_is_written_when_it_can_be(lab: MotoLab):
    lab.client("sqs").create_queue(QueueName="q")
    with full_disk(), pytest.raises(ClientError, match="No space left"):
        lab.client("kms").describe_key(KeyId="alias/aws/s3")
    key = lab.client("kms").describe_key(KeyId="alias/aws/s3")["KeyMetadata"]["KeyId"]
    lab.restart()
    assert lab.client("kms").describe_key(KeyId="alias/aws/s3")["KeyMetadata"]["KeyId"] == key


def test_a_journalled_request_that_could_not_be_written_has_not_happened(lab: MotoLab):
    from moto.sns.models import sns_backends

    sns = lab.client("sns")
    sns.create_topic(Name="before")
    backend = sns_backends[ACCOUNT]["us-east-1"]
    backend.oops = (n for n in range(3))  # a generator
    sns.create_topic(Name="journalled")
    assert stored(lab, "fallback_journal") == 1
    with full_disk(), pytest.raises(ClientError, match="No space left"):
        sns.create_topic(Name="not-stored")
    topics = [topic["TopicArn"].rpartition(":")[2] for topic in sns.list_topics()["Topics"]]
    assert topics == ["before", "journalled"]


def test_an_item_that_cannot_be_encoded_fails_nobody_else(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch
):
    make(lab)
    dynamodb = lab.client("dynamodb")
    with monkeypatch.context() as patched:
        patched.setattr("headrace.services.dynamodb.patches._ENCODER", None)
        with pytest.raises(ClientError):
            dynamodb.put_item(TableName="t", Item={"k": {"S": "odd"}})
    dynamodb.put_item(TableName="t", Item={"k": {"S": "even"}})
    for _ in range(2):
        assert [i["k"]["S"] for i in dynamodb.scan(TableName="t")["Items"]] == ["even"]
        lab.restart()


def test_a_read_beside_a_write_that_is_undone_does_not_tell_of_it(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch
):
    make(lab)
    seen, answers = threading.Event(), list[int]()
    scan = lab.client("dynamodb").scan

    def read() -> None:
        run_entry = lab.moto._run_entry

        def noted(entry: Any) -> Any:
            answer = run_entry(entry)
            seen.set()
            return answer

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(lab.moto, "_run_entry", noted)
            answers.append(scan(TableName="t")["Count"])

    reader = threading.Thread(target=read)
    save = lab.moto._kept.save

    def saved_while_read(*args: Any, **named: Any) -> None:
        if not seen.is_set():
            reader.start()
            assert seen.wait(30)
        save(*args, **named)

    with full_disk(), monkeypatch.context() as patched:
        patched.setattr(lab.moto._kept, "save", saved_while_read)
        with pytest.raises(ClientError, match="No space left"):
            lab.client("dynamodb").put_item(TableName="t", Item={"k": {"S": "a"}})
        reader.join(30)
    assert answers == [0]
