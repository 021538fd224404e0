"""Requests by access points are refused by name, in every form in which SDKs make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of
from tests.support.clients import ENDPOINT_URL, client_of
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

SENTENCE = "headrace takes no requests by access points: name the bucket instead of"
POINT = f"arn:aws:s3:us-west-2:{ACCOUNT}:accesspoint/x"
OBJECT_LAMBDA = f"arn:aws:s3-object-lambda:{REGION}:{ACCOUNT}:accesspoint/x"
OUTPOST = f"arn:aws:s3-outposts:{REGION}:{ACCOUNT}:outpost/op-01234567890123456/accesspoint/x"
CALLS: tuple[Callable[[Any, str], Any], ...] = (
    lambda s3, name: s3.put_object(Bucket=name, Key="k", Body=b"body"),
    lambda s3, name: s3.get_object(Bucket=name, Key="k"),
    lambda s3, name: s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": "k"}]}),
    lambda s3, name: s3.list_objects_v2(Bucket=name),
    lambda s3, name: s3.create_multipart_upload(Bucket=name, Key="k"),
)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("points") / "data") as cloud:
        yield cloud


@pytest.mark.parametrize(
    "endpoint", [ENDPOINT_URL, "http://localhost:4566", "http://s3.localhost.localstack.cloud:4566"]
)
@pytest.mark.parametrize(
    ("name", "code"),
    [
        # The host is also that of a bucket of this name, which clients ask for to learn that there is none.
        (POINT, "NoSuchBucket"),
        (OBJECT_LAMBDA, "NotImplemented"),
        (OUTPOST, "NotImplemented"),
        ("x-metadata1234567890-s3alias", "NotImplemented"),
        ("x-abc--ol-s3", "NotImplemented"),
    ],
)
def test_a_request_by_an_access_point_is_refused(
    cloud: InProcessCloud, endpoint: str, name: str, code: str
) -> None:
    s3 = client_of("s3", cloud.handle, account=ACCOUNT, region=REGION, endpoint_url=endpoint)
    for call in CALLS:
        with pytest.raises(ClientError, match=SENTENCE) as refusal:
            call(s3, name)
        assert error_of(refusal)[0] == code
    assert s3.list_buckets()["Buckets"] == []


def test_paths_and_copy_sources_name_no_access_point(
    lab: S3Lab, s3: Any, caplog: pytest.LogCaptureFixture
) -> None:
    point = f"arn:aws:s3:{REGION}:{ACCOUNT}:accesspoint/ap"
    many = f"arn:aws:s3::{ACCOUNT}:accesspoint/m.mrap"
    alias = "/ap-metadata1234567890-s3alias/k"
    for method, path, headers in (
        ("PUT", f"/{BUCKET}/k", {"x-amz-copy-source": f"{point}/object/k"}),
        ("PUT", f"/{BUCKET}/k", {"x-amz-copy-source": f"{many}/object/k"}),
        ("PUT", f"/{BUCKET}/k", {"x-amz-copy-source": alias}),
        ("GET", f"/{point.replace(':', '%3A')}/k", {}),
        ("GET", alias, {}),
        ("PUT", alias, {}),
    ):
        answer = lab.handle(HttpRequest(method, path, "", {"host": "localhost", **headers}, b""))
        assert answer.status == 501, (method, path, answer.body)
        assert SENTENCE in str(answer.body)
    assert not caplog.records  # what is refused is no failure


@pytest.mark.parametrize(
    "host",
    [
        f"x-{ACCOUNT}.s3-accesspoint.us-east-1.amazonaws.com",
        f"x-{ACCOUNT}.s3-accesspoint-fips.dualstack.us-east-1.amazonaws.com",
        f"x-{ACCOUNT}.s3-object-lambda.us-east-1.amazonaws.com",
        f"x-{ACCOUNT}.op-01.s3-outposts.us-east-1.amazonaws.com",
        "m.mrap.accesspoint.s3-global.amazonaws.com",
    ],
)
def test_the_hosts_of_access_points_are_no_buckets(lab: S3Lab, host: str) -> None:
    answer = lab.handle(HttpRequest("PUT", "/k", "", {"host": host}, b"x"))
    assert (answer.status, SENTENCE in str(answer.body)) == (501, True), answer.body


def test_a_bucket_with_an_accounts_number_is_a_bucket(cloud: InProcessCloud) -> None:
    s3 = client_of(
        "s3", cloud.handle, account=ACCOUNT, region=REGION, endpoint_url="http://localhost:4566",
        addressing="virtual",
    )  # fmt: skip
    name = f"logs-{ACCOUNT}"
    with pytest.raises(ClientError, match="404"):
        s3.head_bucket(Bucket=name)
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="k", Body=b"1")
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == b"1"
    s3.delete_object(Bucket=name, Key="k")
    s3.delete_bucket(Bucket=name)
