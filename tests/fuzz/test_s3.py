"""Every operation of S3 under random requests, sound and mutated: never a 500, and every answer is one botocore reads.

Ten requests an operation here, 10,000 with `--nightly`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import botocore.session
import pytest
from botocore import parsers

from headrace.aws.calls.http import HttpResponse
from headrace.aws.calls.operation import operation_name
from headrace.services.s3.actions import ACTIONS
from tests.api.s3.helpers import S3Lab
from tests.fuzz.requests import Requests
from tests.fuzz.sending import request_of
from tests.fuzz.upkeep import Caller, Upkeep
from tests.support.clock import FakeClock

MODEL = botocore.session.get_session().get_service_model("s3")
PARSER: Any = parsers.create_parser("rest-xml")
BUILT = sorted(map(operation_name, ACTIONS))
REQUESTS = 10
NIGHTLY_REQUESTS = 10_000
BUCKETS = ("bucket-one", "bucket-two", "bucket-locked")
MOST_VERSIONS = 100
THINNED_EVERY = 8
KEYS = ("k", "dir/k", "dir//k", "..", "ü", "k+k ")
# What random members would say so seldom that nothing behind it were reached.
STATUSES = {501, 503}
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class Target:
    """An S3 with buckets of all kinds, put right again after requests that deleted them."""

    def __init__(self, lab: S3Lab) -> None:
        self.lab = lab
        self.client = Caller("s3", "", lab.handle)
        self.ids: list[str] = ["null"]
        self.uploads: list[str] = ["none"]
        self._rounds = 0

    def put_right(self) -> None:
        have = {bucket["Name"] for bucket in self.client.list_buckets()["Buckets"]}
        for name in BUCKETS:
            if name not in have:
                self.client.create_bucket(
                    Bucket=name, ObjectLockEnabledForBucket=name == "bucket-locked"
                )
        self._rounds += 1
        for bucket in BUCKETS if self._rounds % THINNED_EVERY == 0 else ():
            self._thin_out(bucket)
        status = {"Status": "Enabled"}
        self.client.put_bucket_versioning(Bucket="bucket-two", VersioningConfiguration=status)
        self.client.delete_bucket_cors(Bucket="bucket-one")
        put = [self.client.put_object(Bucket="bucket-two", Key=key, Body=b"x") for key in KEYS[:3]]
        self.ids = ["null", *(answer["VersionId"] for answer in put)]
        for key in KEYS:
            self.client.put_object(Bucket="bucket-one", Key=key, Body=b"0123456789")
        upload = self.client.create_multipart_upload(Bucket="bucket-one", Key="k")
        self.uploads = [upload["UploadId"]]

    def _thin_out(self, bucket: str) -> None:
        """Delete versions and uploads where there are many: each operation would be slower than the last."""
        found = self.client.list_object_versions(Bucket=bucket, MaxKeys=MOST_VERSIONS)
        if found["IsTruncated"]:
            every = [*found.get("Versions", ()), *found.get("DeleteMarkers", ())]
            ids = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in every]
            self.client.delete_objects(Bucket=bucket, Delete={"Objects": ids})
        for upload in self.client.list_multipart_uploads(Bucket=bucket).get("Uploads", ()):
            self.client.abort_multipart_upload(
                Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"]
            )

    def known(self) -> dict[str, Any]:
        """Return sound values for members by name."""

        def one_of(*values: Any) -> Any:
            return lambda random: random.choice(values)

        return {
            "Bucket": one_of(*BUCKETS, *BUCKETS, "no-such-bucket"),
            "Key": one_of(*KEYS),
            "VersionId": lambda random: random.choice(self.ids),
            "VersionIdMarker": lambda random: random.choice(self.ids),
            "UploadId": lambda random: random.choice(self.uploads),
            "CopySource": one_of(*(f"{BUCKETS[0]}/{key}" for key in KEYS), "x", "/", "?versionId="),
            "Range": one_of("bytes=0-3", "bytes=-2", "bytes=5-", "bytes=99-", "bytes=a-b", "0-1"),
            "CopySourceRange": one_of("bytes=0-3", "bytes=4-1", "bytes=0-999"),
            "ExpectedBucketOwner": one_of("000000000000", "000000000001", "x"),
            "ExpectedSourceBucketOwner": one_of("000000000000"),
            "PartNumber": one_of(0, 1, 2, 10_000, 10_001),
            "ContentMD5": one_of("1B2M2Y8AsgTpgAmY7PhCfg==", "x"),
            "ChecksumAlgorithm": one_of(
                "CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME", "XXHASH64"
            ),
            "Tagging": one_of("a=b", "a=b&a=c", "a", {"TagSet": [{"Key": "a", "Value": "b"}]}),
            "Policy": one_of("{}", '{"Statement":[]}', "no JSON", '{"Statement":[1]}'),
            "ContentLength": one_of(None),
            "IfMatch": one_of('"x"', "*"),
            "QueueArn": one_of("arn:aws:sqs:us-east-1:000000000000:q", "no ARN"),
        }

    def send(self, operation: str, params: dict[str, Any], random: Random) -> HttpResponse | None:
        """Serialize and send a request, its body now and then damaged; None for what cannot be one."""
        sent = request_of("s3", operation, params, random, "")
        return None if sent is None else self.lab.handle(sent)


@pytest.fixture(scope="module")
def target(place: Path) -> Iterator[Target]:
    lab = S3Lab(place, FakeClock())
    yield Target(lab)
    lab.stop()


def check(operation: str, answer: HttpResponse) -> None:
    """Fail unless the answer is one that AWS could give, as botocore reads it."""
    assert answer.status < 500 or answer.status in STATUSES, answer.body
    assert isinstance(answer.body, bytes)
    headers = {name.lower(): value for name, value in answer.headers}
    assert headers["x-amz-request-id"]
    if answer.status < 300:
        shape = MODEL.operation_model(operation).output_shape
        has_stream = shape is not None and "Body" in shape.members
        # Without its sub-resource a request is for an object, whose body is anything.
        # As on AWS, no XML parser reads a key's control characters unless `encoding-type` was asked for:
        # https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListMultipartUploads.html
        if not has_stream and answer.body[:1] == b"<" and not _CONTROL.search(answer.body):
            PARSER.parse({"status_code": 200, "headers": headers, "body": answer.body}, shape)
    elif answer.body:
        error = ElementTree.fromstring(answer.body)
        assert error.tag == "Error"
        assert error.findtext("Code")


@pytest.mark.parametrize("operation", BUILT)
def test_no_request_breaks_an_operation(
    target: Target, operation: str, how_many: Callable[[int, int], int], seed: int
):
    upkeep = Upkeep(operation, 20, target.put_right)
    made = Requests(f"s3-{operation}-{seed}", target.known())
    answered = 0
    for number in range(how_many(REQUESTS, NIGHTLY_REQUESTS)):
        upkeep.before(number)
        params = made.of(MODEL.operation_model(operation))
        if not isinstance(params, dict):
            continue
        answer = target.send(operation, params, made.random)
        if answer is None:
            continue
        answered += 1
        upkeep.after(answer.status)
        try:
            check(operation, answer)
        except Exception as error:
            raise AssertionError(f"{operation} {number}: {params!r}") from error
    assert answered
