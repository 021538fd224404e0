"""How moto's state is kept: as large as what there is, whole or not at all, old journals included."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sqlite3
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES
from headrace.store.database import Database
from headrace.store.disk_space import DiskReserve
from tests.support.clock import FakeClock
from tests.support.moto_lab import ACCOUNT, MotoLab
from tests.support.policies import TRUST_TEXT

QUEUE = "arn:aws:sqs:us-east-1:000000000000:q"
POLICY = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'


def stored(lab: MotoLab, table: str) -> int:
    return int(lab.database.query(f"SELECT count(*) FROM {table}")[0][0])


# --- what a long-lived cloud repeats ----------------------------------------------------------------


def make(lab: MotoLab) -> None:
    """Make what `repeat` uses."""
    lab.client("dynamodb").create_table(
        TableName="t",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
    )
    lab.client("sqs").create_queue(QueueName="q")
    lab.client("sns").create_topic(Name="t")
    lab.client("sns").subscribe(
        TopicArn="arn:aws:sns:us-east-1:000000000000:t", Protocol="sqs", Endpoint=QUEUE
    )
    lab.client("events").put_rule(Name="r", EventPattern='{"source":["x"]}')
    lab.client("events").put_targets(Rule="r", Targets=[{"Id": "1", "Arn": QUEUE}])
    lab.client("kms").create_alias(
        AliasName="alias/k", TargetKeyId=lab.client("kms").create_key()["KeyMetadata"]["KeyId"]
    )
    lab.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT)
    lab.client("glue").create_database(DatabaseInput={"Name": "d"})
    lab.client("glue").create_table(
        DatabaseName="d",
        TableInput={"Name": "t", "PartitionKeys": [{"Name": "p", "Type": "string"}]},
    )
    lab.client("logs").create_log_group(logGroupName="g")
    lab.client("ecr").create_repository(repositoryName="r")
    lab.client("secretsmanager").create_secret(Name="s", SecretString="x")


def repeat(lab: MotoLab, n: int) -> None:
    """Do what pipelines, deployments and functions do again and again."""
    body, sqs = f"message {n}", lab.client("sqs")
    url = "http://127.0.0.1:4566/000000000000/q"
    lab.client("dynamodb").put_item(
        TableName="t", Item={"k": {"S": str(n % 5)}, "v": {"N": str(n)}}
    )
    lab.client("dynamodb").update_item(
        TableName="t",
        Key={"k": {"S": "lease"}},
        AttributeUpdates={"counter": {"Value": {"N": str(n)}}},
    )
    sqs.send_message(QueueUrl=url, MessageBody=body)
    lab.client("sns").publish(TopicArn="arn:aws:sns:us-east-1:000000000000:t", Message=body)
    lab.client("events").put_events(Entries=[{"Source": "x", "DetailType": "d", "Detail": "{}"}])
    for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ()):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    lab.client("ssm").put_parameter(Name="/p", Value=str(n), Type="String", Overwrite=True)
    lab.client("kms").decrypt(
        CiphertextBlob=lab.client("kms").encrypt(KeyId="alias/k", Plaintext=b"x")["CiphertextBlob"]
    )
    lab.client("sts").assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT}:role/r", RoleSessionName="s1")
    iam = lab.client("iam")
    iam.put_role_policy(RoleName="r", PolicyName="p", PolicyDocument=POLICY)
    iam.attach_role_policy(RoleName="r", PolicyArn="arn:aws:iam::aws:policy/ReadOnlyAccess")
    iam.detach_role_policy(RoleName="r", PolicyArn="arn:aws:iam::aws:policy/ReadOnlyAccess")
    glue = lab.client("glue")
    glue.create_partition(DatabaseName="d", TableName="t", PartitionInput={"Values": ["1"]})
    glue.delete_partition(DatabaseName="d", TableName="t", PartitionValues=["1"])
    logs, stream = lab.client("logs"), f"stream {n}"
    logs.create_log_stream(logGroupName="g", logStreamName=stream)
    logs.put_log_events(
        logGroupName="g",
        logStreamName=stream,
        logEvents=[{"timestamp": lab.clock.now_ms(), "message": body}],
    )
    logs.delete_log_stream(logGroupName="g", logStreamName=stream)
    lab.client("cloudwatch").put_metric_data(
        Namespace="n", MetricData=[{"MetricName": "m", "Value": 1.0}]
    )
    lab.client("ecr").put_image_tag_mutability(repositoryName="r", imageTagMutability="MUTABLE")
    lab.client("secretsmanager").put_secret_value(SecretId="s", SecretString=str(n))
    queue = sqs.create_queue(QueueName="made")["QueueUrl"]
    sqs.delete_queue(QueueUrl=queue)
    lab.clock.advance(600)


def test_what_is_repeated_does_not_grow(lab: MotoLab, nightly: bool):
    """Of what grows all the same: 100 versions of a parameter, and a secret's versions (AWS keeps them too)."""
    make(lab)

    def sizes() -> dict[str, int]:
        found = dict(lab.database.query("SELECT service, length(state) FROM fallback_services"))
        (rows,) = lab.database.query("SELECT count(*) FROM fallback_rows")[0]
        return {**found, "rows": int(rows), "journal": stored(lab, "fallback_journal")}

    for n in range(15):
        repeat(lab, n)
    first = sizes()
    for n in range(15, 60 if nightly else 30):
        repeat(lab, n)
    last = sizes()
    assert last["journal"] == 0
    assert last["rows"] <= first["rows"] + 2
    grown = {name for name in last if last[name] > 1.25 * first.get(name, 0) + 64}
    assert grown <= {"secretsmanager"}


# --- journals of an older headrace --------------------------------------------------------------------


def old_data_directory(folder: Path) -> None:
    """Make a data directory as headrace made it when every request was journalled."""
    folder.mkdir()
    database = Database(folder / "state.sqlite")
    database.migrate(
        "fallback_journal",
        [
            """CREATE TABLE fallback_journal (id INTEGER PRIMARY KEY AUTOINCREMENT,
            method TEXT, url TEXT, headers TEXT, body BLOB, seed INTEGER)"""
        ],
    )

    def entry(host: str, target: str, seed: int, **params: Any) -> None:
        scope = target.partition("_")[0].lower() if "." not in host else host
        headers = {
            "x-amz-target": target,
            "content-type": "application/x-amz-json-1.0",
            "host": "127.0.0.1:4566",
            "x-moto-account-id": ACCOUNT,
            "authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{scope}/aws4_request, x",
        }
        database.execute(
            "INSERT INTO fallback_journal (method, url, headers, body, seed) VALUES (?, ?, ?, ?, ?)",
            (
                "POST",
                f"https://{host}.us-east-1.amazonaws.com/",
                json.dumps(headers),
                json.dumps(params).encode(),
                seed,
            ),
        )

    entry(
        "dynamodb",
        "DynamoDB_20120810.CreateTable",
        1,
        TableName="t",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
    )
    for n in range(300):
        entry(
            "dynamodb",
            "DynamoDB_20120810.PutItem",
            2,
            TableName="t",
            Item={"k": {"S": str(n % 3)}, "n": {"N": str(n)}},
        )
    entry("sqs", "AmazonSQS.CreateQueue", 3, QueueName="q")
    for n in range(3):
        entry(
            "sqs",
            "AmazonSQS.SendMessage",
            n,
            QueueUrl="http://127.0.0.1:4566/000000000000/q",
            MessageBody=str(n),
        )
    entry("kms", "TrentService.CreateKey", 4)
    database.close()


def test_an_old_journal_is_read_once_and_becomes_snapshots(tmp_path: Path):
    old_data_directory(tmp_path / "data")
    keys = list[str]()
    with MotoLab(tmp_path / "data") as lab:
        for _ in range(2):
            items = lab.client("dynamodb").scan(TableName="t")["Items"]
            assert [(i["k"]["S"], i["n"]["N"]) for i in items] == [
                ("0", "297"),
                ("1", "298"),
                ("2", "299"),
            ]
            keys.append(lab.client("kms").list_keys()["Keys"][0]["KeyId"])
            assert stored(lab, "fallback_journal") == 0
            lab.restart()
        url = "http://127.0.0.1:4566/000000000000/q"
        received = lab.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)[
            "Messages"
        ]
        assert [m["Body"] for m in received] == ["0", "1", "2"]
    assert keys[0] == keys[1]


def test_loading_says_how_far_it_is(tmp_path: Path):
    old_data_directory(tmp_path / "data")
    with MotoLab(tmp_path / "data") as lab:
        seen = list[dict[str, Any]]()
        repeat_one = lab.moto._run_entry

        def spied(entry: Any) -> Any:
            seen.append(lab.moto.status())
            return repeat_one(entry)

        lab.moto._run_entry = spied  # type: ignore[method-assign]
        assert lab.moto.status()["moto"] == "loading"
        lab.moto.warm_up()
        assert lab.moto.status() == {"moto": "ready"}
    assert seen[0] == {"moto": "loading", "moto_loading": {"done": 0, "all": 306}}
    assert seen[-1] == {"moto": "loading", "moto_loading": {"done": 305, "all": 306}}


def test_an_old_journal_that_is_cut_short_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    old_data_directory(tmp_path / "data")
    with MotoLab(tmp_path / "data") as lab:

        def fail(*_: Any) -> None:
            raise OSError("killed")

        with monkeypatch.context() as patched:
            patched.setattr(lab.moto._kept.journal, "adopt_old_entries", fail)
            with pytest.raises(OSError, match="killed"):
                lab.moto.warm_up()
            assert lab.moto.status() == {"moto": "failed", "moto_failure": "OSError: killed"}
        assert stored(lab, "fallback_services") == 0
        lab.restart()
        assert lab.client("dynamodb").scan(TableName="t")["Count"] == 3


# --- what cannot be pickled -----------------------------------------------------------------------------


def test_a_service_that_cannot_be_pickled_is_journalled(
    lab: MotoLab, caplog: pytest.LogCaptureFixture
):
    from moto.sns.models import sns_backends

    sns = lab.client("sns")
    sns.create_topic(Name="before")
    backend = sns_backends[ACCOUNT]["us-east-1"]
    backend.oops = (n for n in range(3))  # a generator
    queue = lab.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    arns = [sns.create_topic(Name=name)["TopicArn"] for name in ("one", "two")]
    made = sns.subscribe(TopicArn=arns[0], Protocol="sqs", Endpoint=QUEUE)["SubscriptionArn"]
    sns.publish(TopicArn=arns[0], Message="m")
    assert stored(lab, "fallback_journal") >= 3
    assert "sns holds what cannot be stored" in caplog.text
    lab.restart()
    # The same ids, by the same seeds; and the message is not sent a second time.
    assert [s["SubscriptionArn"] for s in sns.list_subscriptions()["Subscriptions"]] == [made]
    assert len(sns.list_topics()["Topics"]) == 3
    (message,) = lab.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)[
        "Messages"
    ]
    assert json.loads(message["Body"])["Message"] == "m"
    # It can be pickled again, and the journal is not needed any more.
    sns.create_topic(Name="after")
    assert stored(lab, "fallback_journal") == 0
    lab.restart()
    assert len(sns.list_topics()["Topics"]) == 4


def test_rows_of_a_journalled_service_do_not_tell_of_requests_that_are_run_again(lab: MotoLab):
    from moto.ssm.models import ssm_backends

    ssm, dynamodb = lab.client("ssm"), lab.client("dynamodb")
    put = {"Name": "/p", "Type": "String", "Overwrite": True}
    assert ssm.put_parameter(Value="1", **put)["Version"] == 1
    ssm_backends[ACCOUNT]["us-east-1"].oops = (n for n in range(3))
    for version in (2, 3):
        assert ssm.put_parameter(Value=str(version), **put)["Version"] == version
    lab.restart()
    assert ssm.get_parameter(Name="/p")["Parameter"]["Version"] == 3
    assert ssm.put_parameter(Value="4", **put)["Version"] == 4
    assert stored(lab, "fallback_journal") == 0
    lab.restart()
    assert ssm.get_parameter(Name="/p")["Parameter"]["Version"] == 4
    make(lab)
    from moto.dynamodb.models import dynamodb_backends

    dynamodb_backends[ACCOUNT]["us-east-1"].oops = (n for n in range(3))
    count = {
        "TableName": "t",
        "Key": {"k": {"S": "a"}},
        "UpdateExpression": "ADD c :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    dynamodb.tag_resource(ResourceArn=f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/t", Tags=[])
    for _ in range(3):
        dynamodb.update_item(**count)
    lab.restart()
    assert dynamodb.get_item(TableName="t", Key=count["Key"])["Item"]["c"] == {"N": "3"}
    dynamodb.update_item(**count)
    assert stored(lab, "fallback_journal") == 0
    lab.restart()
    assert dynamodb.get_item(TableName="t", Key=count["Key"])["Item"]["c"] == {"N": "4"}


def test_what_was_read_can_be_stored_again(lab: MotoLab):
    make(lab)
    repeat(lab, 0)
    for _ in range(2):
        lab.restart()
        repeat(lab, 0)
    assert stored(lab, "fallback_journal") == 0


@pytest.mark.parametrize(
    "evil",
    [
        os.system,
        eval,
        getattr,
        print,
        pickle.loads,
        Path,
        pickles.__dict__["importlib"].import_module,
    ],
    ids=lambda value: getattr(value, "__name__", "value"),
)
def test_nothing_but_moto_s_state_is_read_or_written(evil: Any):
    class Evil:
        def __reduce__(self) -> Any:
            return evil, ("true",)

    with pytest.raises(pickle.PickleError, match="no part of moto's state"):
        pickles.load(pickle.dumps(Evil()))
    with pytest.raises(pickle.PickleError, match="no part of moto's state"):
        pickles.dump(Evil())


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("moto.sqs.models", "json.loads"),
        ("moto.sqs.models", "json"),
        ("moto.core.utils", "unix_time"),
        ("headrace.deliveries.outside_http", "urllib"),
        ("headrace.deliveries.outside_http", "urllib.request.urlopen"),
        ("headrace.store.database", "Database"),
    ],
)
def test_a_name_cannot_lead_through_a_module_of_ours(module: str, name: str):
    def text(value: str) -> bytes:
        return pickle.SHORT_BINUNICODE + bytes([len(value)]) + value.encode()

    data = pickle.PROTO + b"\x05" + text(module) + text(name) + pickle.STACK_GLOBAL + pickle.STOP
    with pytest.raises(pickle.PickleError, match="no part of moto's state"):
        pickles.load(data)


# --- failures of the disk ---------------------------------------------------------------------------------


@contextlib.contextmanager
def full_disk() -> Generator[None]:
    """Have the database take nothing but what gives room back."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DiskReserve, "is_low", property(lambda _: True))
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


# --- one moto, two clouds -----------------------------------------------------------------------------------


def test_two_clouds_of_a_process_have_their_own_state(tmp_path: Path):
    with MotoLab(tmp_path / "a") as one, MotoLab(tmp_path / "b", clock=FakeClock()) as other:
        for lab, name in ((one, "a"), (other, "b"), (one, "c"), (other, "d")):
            lab.client("sqs").create_queue(QueueName=name)
        for lab, names in ((one, ["a", "c"]), (other, ["b", "d"])):
            urls = lab.client("sqs").list_queues()["QueueUrls"]
            assert [url.rpartition("/")[2] for url in urls] == names


def test_a_service_is_loaded_when_it_is_first_asked_for(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch
):
    import sys

    made = lab.client("ecr").create_repository(repositoryName="r")["repository"]["repositoryArn"]
    lab.kill()
    # As in a new process, in which nobody has asked for it.
    models = sys.modules.pop("moto.ecr.models")
    lab.start()
    lab.moto.warm_up()
    assert "ecr" in CHANGES.deferred
    monkeypatch.setitem(sys.modules, "moto.ecr.models", models)
    (found,) = lab.client("ecr").describe_repositories()["repositories"]
    assert found["repositoryArn"] == made
    assert "ecr" not in CHANGES.deferred


def test_a_read_that_makes_something_keeps_it(lab: MotoLab):
    vpc = lab.client("ec2").describe_vpcs()["Vpcs"][0]["VpcId"]
    alias = lab.client("kms").describe_key(KeyId="alias/aws/s3")["KeyMetadata"]["KeyId"]
    lab.restart()
    assert lab.client("kms").describe_key(KeyId="alias/aws/s3")["KeyMetadata"]["KeyId"] == alias
    assert lab.client("ec2").describe_vpcs()["Vpcs"][0]["VpcId"] == vpc


def test_what_a_service_changes_in_another_that_it_holds_is_kept(lab: MotoLab):
    scaling = lab.client("autoscaling")
    scaling.create_launch_configuration(
        LaunchConfigurationName="c", ImageId="ami-12c6146b", InstanceType="t2.micro"
    )
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="g",
        MinSize=0,
        MaxSize=3,
        DesiredCapacity=1,
        LaunchConfigurationName="c",
        AvailabilityZones=["us-east-1a"],
    )
    scaling.set_desired_capacity(AutoScalingGroupName="g", DesiredCapacity=2)
    lab.restart()
    reservations = lab.client("ec2").describe_instances()["Reservations"]
    kept = {one["InstanceId"] for reservation in reservations for one in reservation["Instances"]}
    (group,) = lab.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    assert len(kept) == 2
    assert {one["InstanceId"] for one in group["Instances"]} == kept
