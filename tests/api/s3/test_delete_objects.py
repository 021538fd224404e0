"""DeleteObject and DeleteObjects."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of, files_under


def keys(s3: Any) -> list[str]:
    return [content["Key"] for content in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


# --- serialization ------------------------------------------------------------------------------


def test_what_is_deleted_is_told_unless_quiet(s3: Any):
    for quiet, expected in ((False, [{"Key": "a"}, {"Key": "none"}]), (True, None)):
        s3.put_object(Bucket=BUCKET, Key="a", Body=b"")
        answer = s3.delete_objects(
            Bucket=BUCKET, Delete={"Objects": [{"Key": "a"}, {"Key": "none"}], "Quiet": quiet}
        )
        assert answer.get("Deleted") == expected
        assert keys(s3) == []


# --- validation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Delete>",
        b"<Delete></Delete>",
        b"<Delete><Object></Object></Delete>",
        b"<Delete><Object><Key></Key></Object></Delete>",
        b"not xml",
        b"<Delete>" + b"<Object><Key>k</Key></Object>" * 1001 + b"</Delete>",
        b'<!DOCTYPE d [<!ENTITY e "a">]><Delete><Object><Key>&e;</Key></Object></Delete>',
        '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE d><Delete><Object><Key>a</Key></Object></Delete>'.encode(
            "utf-16"
        ),
    ],
)
def test_a_body_of_another_shape_is_malformed_and_deletes_nothing(lab: S3Lab, s3: Any, body: bytes):
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"")
    response = lab.request("POST", f"/{BUCKET}", "delete", body)
    assert (response.status, b"<Code>MalformedXML</Code>" in response.body) == (400, True)
    assert keys(s3) == ["a"]


def test_a_body_other_than_its_checksum_is_refused(lab: S3Lab, s3: Any):
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"")
    body = b"<Delete><Object><Key>a</Key></Object></Delete>"
    headers = {"content-md5": base64.b64encode(hashlib.md5(b"other").digest()).decode()}
    response = lab.request("POST", f"/{BUCKET}", "delete", body, headers)
    assert (response.status, b"<Code>BadDigest</Code>" in response.body) == (400, True)
    assert keys(s3) == ["a"]


def test_a_bad_version_is_told_and_the_rest_is_deleted(s3: Any):
    for key in "ab":
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
    wanted = [{"Key": "a", "VersionId": "x"}, {"Key": "b", "VersionId": "null"}]
    answer = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": wanted})
    assert answer["Deleted"] == [{"Key": "b", "VersionId": "null"}]
    assert [(e["Key"], e["Code"]) for e in answer["Errors"]] == [("a", "NoSuchVersion")]
    assert keys(s3) == ["a"]


# --- behaviour ----------------------------------------------------------------------------------


def test_a_missing_object_is_deleted_without_error(s3: Any):
    assert s3.delete_object(Bucket=BUCKET, Key="none")["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_an_object_is_deleted_when_it_is_as_expected(s3: Any):
    etag = s3.put_object(Bucket=BUCKET, Key="a", Body=b"1")["ETag"]
    with pytest.raises(ClientError) as raised:
        s3.delete_object(Bucket=BUCKET, Key="a", IfMatch='"other"')
    assert error_of(raised) == ("PreconditionFailed", 412)
    s3.delete_object(Bucket=BUCKET, Key="a", IfMatch=etag)
    assert keys(s3) == []


def test_folders_go_with_their_last_object_but_not_those_of_others(lab: S3Lab, s3: Any):
    folder = lab.folder(BUCKET)
    (folder / "made" / "by-spark").mkdir(parents=True)
    s3.put_object(Bucket=BUCKET, Key="a/b/c", Body=b"")
    s3.put_object(Bucket=BUCKET, Key="a/d", Body=b"")
    s3.delete_object(Bucket=BUCKET, Key="a/b/c")
    assert not (folder / "a" / "b").exists()
    assert files_under(folder) == {"a/d"}
    s3.delete_object(Bucket=BUCKET, Key="made/by-spark/none")
    s3.delete_object(Bucket=BUCKET, Key="made/by-spark")
    assert (folder / "made" / "by-spark").is_dir()


def test_a_versioned_bucket_is_emptied_as_cdk_does(s3: Any):
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    for key in ("a", "b/c", "d//e"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"1")
    listed = s3.list_object_versions(Bucket=BUCKET)
    found = [*listed.get("Versions", []), *listed.get("DeleteMarkers", [])]
    wanted = [{"Key": item["Key"], "VersionId": item["VersionId"]} for item in found]
    s3.delete_objects(Bucket=BUCKET, Delete={"Objects": wanted})
    s3.delete_bucket(Bucket=BUCKET)
    assert s3.list_buckets()["Buckets"] == []
