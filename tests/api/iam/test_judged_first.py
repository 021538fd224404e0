"""An access is judged by the policies of its moment, though these change before the judge comes round."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.permissions.decisions.report import report_of
from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, as_role, make_role, statements

ROLE = f"arn:aws:iam::{ACCOUNT}:role/guest"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("report")) as made:
        # Nobody comes round: only a change of policies and the report judge.
        made.cloud.decisions.judge.step = lambda: 3600.0  # type: ignore[method-assign]
        make_role(made, "guest")
        yield made


def policy(action: str, resource: str) -> str:
    return json.dumps(statements({**allow(action, resource), "Principal": {"AWS": ROLE}}))


def bucket(cloud: InProcessCloud, name: str) -> tuple[Callable[[], Any], Any]:
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket=name)
    s3.put_bucket_policy(Bucket=name, Policy=policy("s3:PutObject", f"arn:aws:s3:::{name}/*"))
    guest = as_role(cloud, "guest", "s3")
    return lambda: guest.put_object(Bucket=name, Key="a", Body=b"1"), s3


def stream(cloud: InProcessCloud, name: str) -> tuple[Callable[[], Any], Any]:
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=1)
    arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{name}"
    kinesis.put_resource_policy(ResourceARN=arn, Policy=policy("kinesis:PutRecord", arn))
    guest = as_role(cloud, "guest", "kinesis")
    return lambda: guest.put_record(StreamName=name, Data=b"1", PartitionKey="a"), kinesis


def function(cloud: InProcessCloud, name: str) -> tuple[Callable[[], Any], Any]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("f.py", "def handle(event, context):\n    return 1\n")
    lambda_ = cloud.client("lambda")
    lambda_.create_function(
        FunctionName=name, Runtime="python3.12", Role=ROLE, Handler="f.handle",
        Code={"ZipFile": archive.getvalue()},
    )  # fmt: skip
    lambda_.add_permission(
        FunctionName=name, StatementId="guest", Action="lambda:GetFunction", Principal=ROLE
    )
    guest = as_role(cloud, "guest", "lambda")
    return lambda: guest.get_function(FunctionName=name), lambda_


def secret(cloud: InProcessCloud, name: str) -> tuple[Callable[[], Any], Any]:
    secrets = cloud.client("secretsmanager")
    arn = secrets.create_secret(Name=name, SecretString="1")["ARN"]
    text = policy("secretsmanager:GetSecretValue", "*")
    secrets.put_resource_policy(SecretId=name, ResourcePolicy=text)
    guest = as_role(cloud, "guest", "secretsmanager")
    return lambda: guest.get_secret_value(SecretId=arn), secrets


def table(cloud: InProcessCloud, name: str) -> tuple[Callable[[], Any], Any]:
    tables = cloud.client("dynamodb")
    arn = tables.create_table(
        TableName=name, BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
    )["TableDescription"]["TableArn"]  # fmt: skip
    tables.put_resource_policy(ResourceArn=arn, Policy=policy("dynamodb:PutItem", arn))
    guest = as_role(cloud, "guest", "dynamodb")
    return lambda: guest.put_item(TableName=name, Item={"k": {"S": "1"}}), tables


def tagged(cloud: InProcessCloud, name: str) -> tuple[Callable[[], Any], Any]:
    kinesis, role = cloud.client("kinesis"), f"of-{name}"
    kinesis.create_stream(StreamName=name, ShardCount=1, Tags={"team": "air"})
    by_tag = {"StringEquals": {"aws:ResourceTag/team": "air"}}
    make_role(cloud, role, {**allow("kinesis:PutRecord", "*"), "Condition": by_tag})
    guest = as_role(cloud, role, "kinesis")
    return lambda: guest.put_record(StreamName=name, Data=b"1", PartitionKey="a"), kinesis


STREAM = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/"
CHANGES: list[tuple[str, Callable[..., tuple[Callable[[], Any], Any]], Callable[[Any, str], Any]]]
CHANGES = [
    ("delete-bucket-policy", bucket, lambda s3, name: s3.delete_bucket_policy(Bucket=name)),
    ("put-bucket-policy", bucket, lambda s3, name: s3.put_bucket_policy(
        Bucket=name, Policy=policy("s3:GetObject", f"arn:aws:s3:::{name}/*"))),
    ("delete-bucket", bucket, lambda s3, name: (
        s3.delete_object(Bucket=name, Key="a"), s3.delete_bucket(Bucket=name))),
    ("delete-stream-policy", stream, lambda kinesis, name: kinesis.delete_resource_policy(
        ResourceARN=STREAM + name)),
    ("delete-stream", stream, lambda kinesis, name: kinesis.delete_stream(StreamName=name)),
    ("remove-permission", function, lambda lambda_, name: lambda_.remove_permission(
        FunctionName=name, StatementId="guest")),
    ("delete-function", function, lambda lambda_, name: lambda_.delete_function(
        FunctionName=name)),
    ("delete-secret", secret, lambda secrets, name: secrets.delete_secret(
        SecretId=name, ForceDeleteWithoutRecovery=True)),
    ("delete-table", table, lambda tables, name: tables.delete_table(TableName=name)),
    ("untag-stream", tagged, lambda kinesis, name: kinesis.remove_tags_from_stream(
        StreamName=name, TagKeys=["team"])),
    ("retag-stream", tagged, lambda kinesis, name: kinesis.add_tags_to_stream(
        StreamName=name, Tags={"team": "sea"})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "prepare", "change"), CHANGES, ids=[row[0] for row in CHANGES])
def test_an_access_is_judged_before_what_allows_it_is_gone(
    cloud: InProcessCloud, name: str, prepare: Any, change: Any
):
    access, client = prepare(cloud, name)
    cloud.cloud.decisions.entries()
    access()
    change(client, name)
    denied = [row for row in report_of(cloud.cloud.decisions)["denied"] if name in str(row)]
    assert denied == []
    assert any(name in entry.access.resource for entry in cloud.cloud.decisions.entries())


def test_who_changes_a_policy_does_not_wait_for_ever_for_a_judge_that_waits_for_it(
    cloud: InProcessCloud, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headrace.permissions.decisions.judge.LONGEST_WAIT_S", 0.01)
    judge, begun, done = cloud.cloud.decisions.judge, threading.Event(), threading.Event()

    def hold() -> None:
        with judge._judging:
            begun.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait()
    try:
        cloud.client("s3").create_bucket(Bucket="held")
        cloud.client("s3").delete_bucket(Bucket="held")
    finally:
        done.set()
        holder.join()


def test_nothing_that_runs_on_the_event_loop_changes_policies(cloud: InProcessCloud):
    for api in cloud.cloud.gateway.owned.values():
        changing = cloud.cloud.gateway._services[api.name].operations._changing
        assert not api.inline & changing
    assert {"PutResourcePolicy", "DeleteStream", "TagResource"} <= (
        cloud.cloud.gateway._services["kinesis"].operations._changing
    )
