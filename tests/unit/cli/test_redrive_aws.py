"""`headrace redrive --aws`: the user's own endpoint and credentials, here a second cloud's that stands for AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli.commands import headrace
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


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessCloud]:
    """A cloud at the endpoint that boto3 finds in the environment, with credentials of another account."""
    with (
        InProcessCloud(tmp_path / "data") as cloud,
        serving(cloud.cloud.handle, tmp_path) as port,
    ):
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCOUNT)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
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
