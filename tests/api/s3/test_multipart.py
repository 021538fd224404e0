"""Multipart uploads."""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of, files_under

MIB = 1024 * 1024
FIRST, SECOND = b"a" * (5 * MIB), b"b" * 1000


def begin(s3: Any, key: str = "big", **given: Any) -> dict[str, Any]:
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key, **given)
    return {"Bucket": BUCKET, "Key": key, "UploadId": upload["UploadId"]}


def send(s3: Any, upload: dict[str, Any], *parts: bytes) -> list[dict[str, Any]]:
    return [
        {
            "PartNumber": number,
            "ETag": s3.upload_part(**upload, PartNumber=number, Body=body)["ETag"],
        }
        for number, body in enumerate(parts, 1)
    ]


# --- serialization ------------------------------------------------------------------------------


def test_parts_become_the_object_with_what_the_upload_began_with(lab: S3Lab, s3: Any):
    upload = begin(s3, "folder/big", ContentType="text/csv", Metadata={"m": "1"}, Tagging="t=1")
    parts = send(s3, upload, FIRST, SECOND)
    answer = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    md5s = hashlib.md5(FIRST).digest() + hashlib.md5(SECOND).digest()
    assert answer["ETag"] == f'"{hashlib.md5(md5s).hexdigest()}-2"'
    got = s3.get_object(Bucket=BUCKET, Key="folder/big")
    assert got["Body"].read() == FIRST + SECOND
    assert (got["ETag"], got["ContentType"], got["Metadata"], got["TagCount"]) == (
        answer["ETag"],
        "text/csv",
        {"m": "1"},
        1,
    )
    assert files_under(lab.data_dir / "s3") == {f"{BUCKET}/folder/big"}


def test_one_part_can_be_got_again(s3: Any):
    upload = begin(s3)
    s3.complete_multipart_upload(
        **upload, MultipartUpload={"Parts": send(s3, upload, FIRST, SECOND)}
    )
    got = s3.get_object(Bucket=BUCKET, Key="big", PartNumber=2)
    assert (got["Body"].read(), got["PartsCount"]) == (SECOND, 2)
    assert got["ContentRange"] == f"bytes {len(FIRST)}-{len(FIRST) + 999}/{len(FIRST) + 1000}"
    assert "PartsCount" not in s3.head_object(Bucket=BUCKET, Key="big")


def test_checksums_of_parts_make_the_objects(s3: Any):
    crcs = [zlib.crc32(part).to_bytes(4, "big") for part in (FIRST, SECOND)]
    composite = base64.b64encode(zlib.crc32(b"".join(crcs)).to_bytes(4, "big")).decode() + "-2"
    whole = base64.b64encode(zlib.crc32(FIRST + SECOND).to_bytes(4, "big")).decode()
    for kind, expected in (("COMPOSITE", composite), ("FULL_OBJECT", whole)):
        upload = begin(s3, ChecksumAlgorithm="CRC32", ChecksumType=kind)
        parts = send(s3, upload, FIRST, SECOND)
        for part, crc in zip(parts, crcs, strict=True):
            part["ChecksumCRC32"] = base64.b64encode(crc).decode()
        answer = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        assert answer["ChecksumCRC32"] == expected
        head = s3.head_object(Bucket=BUCKET, Key="big", ChecksumMode="ENABLED")
        assert (head["ChecksumCRC32"], head["ChecksumType"]) == (expected, kind)
    # A copy is one piece again.
    copied = s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "big"})
    assert copied["CopyObjectResult"]["ChecksumCRC32"] == whole


def test_parts_are_listed_in_pages(s3: Any):
    upload = begin(s3)
    send(s3, upload, b"1", b"22", b"333")
    first = s3.list_parts(**upload, MaxParts=2)
    assert [(p["PartNumber"], p["Size"]) for p in first["Parts"]] == [(1, 1), (2, 2)]
    assert (first["IsTruncated"], first["NextPartNumberMarker"]) == (True, 2)
    rest = s3.list_parts(**upload, PartNumberMarker=2)
    assert [p["PartNumber"] for p in rest["Parts"]] == [3]


def test_uploads_are_listed_in_pages_and_rolled_up(s3: Any):
    for key in ("a", "b/1", "b/2", "c"):
        begin(s3, key)
    first = s3.list_multipart_uploads(Bucket=BUCKET, MaxUploads=3)
    assert [upload["Key"] for upload in first["Uploads"]] == ["a", "b/1", "b/2"]
    rest = s3.list_multipart_uploads(
        Bucket=BUCKET,
        KeyMarker=first["NextKeyMarker"],
        UploadIdMarker=first["NextUploadIdMarker"],
    )
    assert [upload["Key"] for upload in rest["Uploads"]] == ["c"]
    rolled = s3.list_multipart_uploads(Bucket=BUCKET, Delimiter="/")
    assert [upload["Key"] for upload in rolled["Uploads"]] == ["a", "c"]
    assert rolled["CommonPrefixes"] == [{"Prefix": "b/"}]


# --- validation ---------------------------------------------------------------------------------


def test_an_unknown_upload_is_no_such_upload(s3: Any):
    upload = {"Bucket": BUCKET, "Key": "big", "UploadId": "../../etc"}
    parts = {"MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": "x"}]}}
    for call in (
        lambda: s3.upload_part(**upload, PartNumber=1, Body=b""),
        lambda: s3.list_parts(**upload),
        lambda: s3.abort_multipart_upload(**upload),
        lambda: s3.complete_multipart_upload(**upload, **parts),
    ):
        with pytest.raises(ClientError) as raised:
            call()
        assert error_of(raised) == ("NoSuchUpload", 404)


def test_an_upload_belongs_to_its_key(s3: Any):
    upload = begin(s3)
    with pytest.raises(ClientError) as raised:
        s3.upload_part(**{**upload, "Key": "other"}, PartNumber=1, Body=b"")
    assert error_of(raised) == ("NoSuchUpload", 404)


@pytest.mark.parametrize("number", [0, 10_001, "x", ""])
def test_part_numbers_are_1_to_10000(lab: S3Lab, s3: Any, number: Any):
    upload = begin(s3)
    query = f"partNumber={number}&uploadId={upload['UploadId']}"
    response = lab.request("PUT", f"/{BUCKET}/big", query, b"x")
    assert (response.status, b"<Code>InvalidArgument</Code>" in response.body) == (400, True)


def test_a_part_other_than_its_checksum_is_refused(lab: S3Lab, s3: Any):
    upload = begin(s3)
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    with pytest.raises(ClientError) as raised:
        s3.upload_part(**upload, PartNumber=1, Body=b"data", ContentMD5=wrong)
    assert error_of(raised) == ("BadDigest", 400)
    assert files_under(lab.data_dir / "s3") == set()


def test_a_completion_must_name_the_parts_as_they_are(s3: Any):
    upload = begin(s3)
    first, second = send(s3, upload, FIRST, SECOND)
    for parts, code in (
        ([second, first], "InvalidPartOrder"),
        ([first, first], "InvalidPartOrder"),
        ([first, {**second, "ETag": '"other"'}], "InvalidPart"),
        ([first, {**second, "PartNumber": 3}], "InvalidPart"),
        ([{**first, "ChecksumCRC32": "AAAAAA=="}], "InvalidPart"),
        ([], "InvalidRequest"),
    ):
        with pytest.raises(ClientError) as raised:
            s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        assert error_of(raised) == (code, 400)
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [first, second]})


def test_all_parts_but_the_last_are_5_mib(s3: Any):
    upload = begin(s3)
    parts = send(s3, upload, FIRST[:-1], SECOND)
    with pytest.raises(ClientError) as raised:
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert error_of(raised) == ("EntityTooSmall", 400)
    assert raised.value.response["Error"]["ProposedSize"] == str(len(FIRST) - 1)


# --- behaviour ----------------------------------------------------------------------------------


def test_an_upload_goes_on_after_a_restart(lab: S3Lab, s3: Any):
    upload = begin(s3, Metadata={"m": "1"})
    (first,) = send(s3, upload, FIRST)
    lab.restart()
    etag = s3.upload_part(**upload, PartNumber=2, Body=SECOND)["ETag"]
    parts = [first, {"PartNumber": 2, "ETag": etag}]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    got = s3.get_object(Bucket=BUCKET, Key="big")
    assert (got["Body"].read(), got["Metadata"]) == (FIRST + SECOND, {"m": "1"})


def test_a_part_sent_again_replaces_the_first(s3: Any):
    upload = begin(s3)
    send(s3, upload, b"first")
    parts = send(s3, upload, b"second")
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=BUCKET, Key="big")["Body"].read() == b"second"


def test_an_aborted_upload_leaves_nothing(lab: S3Lab, s3: Any):
    upload = begin(s3)
    send(s3, upload, SECOND)
    s3.abort_multipart_upload(**upload)
    assert files_under(lab.data_dir / "s3") == set()
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=BUCKET)


def test_a_part_is_copied_from_a_range_of_an_object(s3: Any):
    s3.put_object(Bucket=BUCKET, Key="source", Body=b"0123456789")
    upload = begin(s3, "a//key")
    answer = s3.upload_part_copy(
        **upload,
        PartNumber=1,
        CopySource={"Bucket": BUCKET, "Key": "source"},
        CopySourceRange="bytes=2-5",
    )
    parts = [{"PartNumber": 1, "ETag": answer["CopyPartResult"]["ETag"]}]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=BUCKET, Key="a//key")["Body"].read() == b"2345"


def test_a_completion_can_be_conditional(s3: Any):
    s3.put_object(Bucket=BUCKET, Key="big", Body=b"there")
    upload = begin(s3)
    parts = send(s3, upload, SECOND)
    with pytest.raises(ClientError) as raised:
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*")
    assert error_of(raised) == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket=BUCKET, Key="big")["Body"].read() == b"there"
