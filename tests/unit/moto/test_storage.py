"""How moto's state is kept: as large as what there is, whole or not at all, old journals included."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES
from headrace.store.database import Database
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
    models = sys.modules["moto.ecr.models"]
    monkeypatch.delitem(sys.modules, "moto.ecr.models")
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
