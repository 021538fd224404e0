"""`headrace redrive --aws`: the user's own endpoint and credentials, here a second cloud's that stands for AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli.commands import headrace
from headrace.testing.waiting import until
from tests.support.cloud import InProcessCloud
from tests.support.http_server import serving

ACCOUNT = "111122223333"
LINE = {
    "attemptsMade": 1,
    "arrivalTimestamp": 1_700_000_000_000,
    "lastErrorCode": "DataFormatConversion.MalformedData",
    "lastErrorMessage": "a: not a number",
    "rawData": "eyJhIjoxfQ==",
}


@contextmanager
def as_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> Iterator[InProcessCloud]:
    """A cloud at the endpoint that boto3 finds in the environment, with credentials of another account."""
    with (
        InProcessCloud(tmp_path / "data", **options) as cloud,
        serving(cloud.cloud.handle, tmp_path) as port,
    ):
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCOUNT)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        yield cloud


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessCloud]:
    with as_aws(tmp_path, monkeypatch) as cloud:
        yield cloud


@pytest.fixture
def aws_with_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> Iterator[InProcessCloud]:
    with as_aws(tmp_path, monkeypatch, redshift_url=postgres_url) as cloud:
        yield cloud


def run(*arguments: str) -> str:
    done = CliRunner().invoke(headrace, ["redrive", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_records_come_back_in_the_users_own_account(aws: InProcessCloud):
    s3: Any = aws.client("s3", account=ACCOUNT)
    firehose: Any = aws.client("firehose", account=ACCOUNT)
    s3.create_bucket(Bucket="lake")
    s3.put_object(Bucket="lake", Key="errors/one", Body=f"{json.dumps(LINE)}\n".encode())
    destination = {"RoleARN": f"arn:aws:iam::{ACCOUNT}:role/r", "BucketARN": "arn:aws:s3:::lake"}
    firehose.create_delivery_stream(
        DeliveryStreamName="d", ExtendedS3DestinationConfiguration=destination
    )
    # The local cloud's address is not asked with --aws: nobody listens there.
    nowhere = ("--endpoint-url", "http://127.0.0.1:9")
    assert "MalformedData" in run("s3://lake/errors/", "--aws", *nowhere)
    told = run("s3://lake/errors/", "--aws", "--to", "firehose:d", *nowhere)
    assert "1 records sent to firehose:d" in told
    (status,) = aws.cloud.firehose.statuses()
    assert (status["account"], status["is_drained"]) == (ACCOUNT, False)
    # The place is kept in the user's bucket: nothing is sent twice.
    assert "0 records sent" in run("s3://lake/errors/", "--aws", "--to", "firehose:d", *nowhere)


@pytest.mark.slow
def test_copies_are_repeated_in_the_users_own_account(
    aws_with_tables: InProcessCloud, tmp_path: Path
):
    aws = aws_with_tables
    role = f"arn:aws:iam::{ACCOUNT}:role/r"
    names = ("s3", "redshift", "redshift-data", "firehose")
    clients: dict[str, Any] = {name: aws.client(name, account=ACCOUNT) for name in names}
    clients["s3"].create_bucket(Bucket="lake")
    where = {"ClusterIdentifier": "flights", "Database": f"aws_{tmp_path.parent.name}"}
    where["Database"] = where["Database"].replace("-", "_")
    clients["redshift"].create_cluster(
        ClusterIdentifier="flights",
        NodeType="ra3.large",
        MasterUsername="admin",
        MasterUserPassword="Secret123",
        DBName=where["Database"],
        IamRoles=[role],
    )
    clients["firehose"].create_delivery_stream(
        DeliveryStreamName="d",
        RedshiftDestinationConfiguration={
            "RoleARN": role,
            "ClusterJDBCURL": "jdbc:redshift://flights.abc.us-east-1.redshift.amazonaws.com:5439/"
            + where["Database"],
            "CopyCommand": {"DataTableName": "t", "CopyOptions": "json 'auto'"},
            "Username": "admin",
            "Password": "Secret123",
            "RetryOptions": {"DurationInSeconds": 0},
            "S3Configuration": {
                "RoleARN": role,
                "BucketARN": "arn:aws:s3:::lake",
                "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            },
        },
    )
    clients["firehose"].put_record(DeliveryStreamName="d", Record={"Data": b'{"n": 7}'})
    # There is no table yet: the COPY is given up, and its manifest set aside.
    until(lambda: aws.cloud.firehose.statuses()[0]["is_drained"])
    data = clients["redshift-data"]

    def sql(text: str) -> Any:
        begun = data.execute_statement(Sql=text, **where)
        assert data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)["Status"] == "FINISHED"
        return begun["Id"]

    sql("create table t (n int)")
    again = ("s3://lake/errors/", "--aws", "--endpoint-url", "http://127.0.0.1:9")
    assert "1 manifests loaded" in run(*again, "--to", "redshift:d")
    assert "0 manifests loaded, 1 loaded before" in run(*again, "--to", "redshift:d")
    rows = data.get_statement_result(Id=sql("select n from t"))["Records"]
    assert rows == [[{"longValue": 7}]]
