"""GetObject on the event loop's thread answers what it answers on another one, or needs that one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.aws.calls.http import HttpRequest, HttpResponse, NeedsThread
from headrace.services.s3.object_reads import AT_ONCE_BYTES, may_be_quick
from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab

DATA = bytes(range(256))
ETAG = '"e2c865db4162bed963bfaa9ef6ac18f0"'


def get(path: str, headers: dict[str, str] | None = None, query: str = "") -> HttpRequest:
    return HttpRequest("GET", path, query, {"host": "127.0.0.1", **(headers or {})})


def at_once(lab: S3Lab, request: HttpRequest) -> HttpResponse:
    """Answer as the event loop's thread does. Raises NeedsThread."""
    assert may_be_quick(request)
    request.at_once = True
    return lab.handle(request)


def shown(answer: HttpResponse) -> tuple[int, Any, Any]:
    """Return an answer without what differs between two requests."""
    own = ("x-amz-request-id", "x-amzn-RequestId")
    headers = [header for header in answer.headers if header[0] not in own]
    ids = [value for name, value in answer.headers if name in own]
    body = answer.body
    assert isinstance(body, bytes)
    for one in ids:
        body = body.replace(one.encode(), b"ID")
    return answer.status, headers, body


RANGES = ("bytes=0-9", "bytes=-7", "bytes=250-", "bytes=300-", "bytes=9-1", "bytes=0-1,3-4", "x")
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "range": st.sampled_from(RANGES),
        "if-match": st.sampled_from([ETAG, '"other"', "*"]),
        "if-none-match": st.sampled_from([ETAG, '"other"', "*"]),
        "if-range": st.sampled_from([ETAG, '"other"']),
        "if-modified-since": st.sampled_from(["Mon, 01 Jan 2001 00:00:00 GMT", "never"]),
        "if-unmodified-since": st.sampled_from(["Mon, 01 Jan 2001 00:00:00 GMT", "never"]),
        "x-amz-checksum-mode": st.sampled_from(["ENABLED", "other"]),
        "x-amz-expected-bucket-owner": st.sampled_from(["000000000000", "1" * 12, "me"]),
        "x-amz-server-side-encryption-customer-algorithm": st.just("AES256"),
    },
)
KEYS = st.sampled_from(["plain", "secret", "empty", "a/b", "cold", "missing", "", "%41", "a//b"])


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(KEYS, HEADERS, st.sampled_from(["", "x-id=GetObject"]))
def test_it_answers_what_a_thread_answers(
    lab: S3Lab, key: str, headers: dict[str, str], query: str
):
    if not lab.s3.has_bucket(BUCKET):
        s3 = lab.client()
        s3.create_bucket(Bucket=BUCKET)
        for name, more in (
            ("plain", {"ContentType": "text/plain", "Metadata": {"m": "v"}}),
            ("a/b", {}),
        ):
            s3.put_object(Bucket=BUCKET, Key=name, Body=DATA, **more)
        s3.put_object(Bucket=BUCKET, Key="empty", Body=b"")
        s3.put_object(
            Bucket=BUCKET,
            Key="secret",
            Body=DATA,
            SSECustomerAlgorithm="AES256",
            SSECustomerKey="k" * 32,
        )
        s3.put_object(Bucket=BUCKET, Key="A", Body=b"letter")
        s3.put_object(Bucket=BUCKET, Key="cold", Body=DATA, StorageClass="GLACIER")
    path = f"/{BUCKET}/{key}"
    try:
        answer = at_once(lab, get(path, headers, query))
    except NeedsThread:
        is_plain = "x-amz-server-side-encryption-customer-algorithm" not in headers
        assert not (is_plain and key in ("plain", "empty", "a/b", "cold", "%41"))
    else:
        assert shown(answer) == shown(lab.handle(get(path, headers, query)))


def test_it_needs_a_thread_for_a_file_that_spark_wrote(lab: S3Lab, s3: Any):
    s3.put_object(Bucket=BUCKET, Key="k", Body=DATA)
    Path(lab.folder(BUCKET), "k").write_bytes(b"of Spark")
    with pytest.raises(NeedsThread):
        at_once(lab, get(f"/{BUCKET}/k"))
    assert lab.handle(get(f"/{BUCKET}/k")).body == b"of Spark"
    assert at_once(lab, get(f"/{BUCKET}/k")).body == b"of Spark"


def test_it_needs_a_thread_for_versions_and_for_large_objects(lab: S3Lab, s3: Any):
    s3.put_object(Bucket=BUCKET, Key="large", Body=b"x" * (AT_ONCE_BYTES + 1))
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"x" * AT_ONCE_BYTES)
    with pytest.raises(NeedsThread):
        at_once(lab, get(f"/{BUCKET}/large"))
    assert at_once(lab, get(f"/{BUCKET}/k")).status == 200
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    with pytest.raises(NeedsThread):
        at_once(lab, get(f"/{BUCKET}/k"))


def test_it_does_not_wait_for_another_thread_of_the_database(lab: S3Lab, s3: Any):
    s3.put_object(Bucket=BUCKET, Key="k", Body=DATA)
    is_held, goes_on = threading.Event(), threading.Event()

    def hold() -> None:
        with lab._database.transaction():
            is_held.set()
            goes_on.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    try:
        assert is_held.wait(30)
        with pytest.raises(NeedsThread):
            at_once(lab, get(f"/{BUCKET}/k"))
    finally:
        goes_on.set()
        other.join()
    assert at_once(lab, get(f"/{BUCKET}/k")).body == DATA


@pytest.mark.parametrize(
    "request_",
    [
        get(f"/{BUCKET}"),
        get(f"/{BUCKET}/k", query="acl"),
        get(f"/{BUCKET}/k", query="versionId=null"),
        get(f"/{BUCKET}/k", {"host": "b.s3-website-us-east-1.localhost"}),
        HttpRequest("HEAD", f"/{BUCKET}/k"),
    ],
    ids=["a listing", "a sub-resource", "a version", "a website", "HEAD"],
)
def test_other_requests_are_not_tried_at_once(request_: HttpRequest):
    assert not may_be_quick(request_)
