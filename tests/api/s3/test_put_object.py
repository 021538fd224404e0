"""PutObject."""

from __future__ import annotations

import base64
import hashlib
import zlib
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of, files_under, header
from tests.support.clock import FakeClock

STREAMED = {
    "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "content-encoding": "aws-chunked",
    "x-amz-trailer": "x-amz-checksum-crc32",
}


def crc32(data: bytes) -> str:
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


def chunked(*chunks: bytes, trailer: str) -> bytes:
    body = b"".join(b"%x;chunk-signature=abc\r\n%b\r\n" % (len(part), part) for part in chunks)
    return body + b"0\r\n" + trailer.encode() + b"\r\n\r\n"


# --- serialization ------------------------------------------------------------------------------


def test_what_is_put_with_an_object_comes_back_with_it(s3: Any):
    kept = {
        "ContentType": "text/csv",
        "CacheControl": "no-cache",
        "ContentDisposition": 'attachment; filename="a.csv"',
        "ContentEncoding": "gzip",
        "ContentLanguage": "de",
        "Metadata": {"flight": "UA1545"},
    }
    put = s3.put_object(Bucket=BUCKET, Key="k", Body=b"data", Tagging="a=b&c=", **kept)
    assert put["ETag"] == f'"{hashlib.md5(b"data").hexdigest()}"'
    got = s3.get_object(Bucket=BUCKET, Key="k")
    assert {name: got[name] for name in kept} == kept
    assert got["TagCount"] == 2
    tags = s3.get_object_tagging(Bucket=BUCKET, Key="k")["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"a": "b", "c": ""}


@pytest.mark.parametrize(
    "encoding", ["STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"]
)
def test_aws_chunked_bodies_are_unwrapped_and_their_trailers_checked(lab: S3Lab, s3: Any, encoding):
    body = chunked(b"hello ", b"world", trailer=f"x-amz-checksum-crc32:{crc32(b'hello world')}")
    headers = {
        **STREAMED,
        "x-amz-content-sha256": encoding,
        "content-encoding": "aws-chunked,gzip",
        "x-amz-decoded-content-length": "11",
    }
    response = lab.request("PUT", f"/{BUCKET}/k", body=body, headers=headers)
    assert response.status == 200
    got = s3.get_object(Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == b"hello world"
    assert got["ContentEncoding"] == "gzip"
    assert got["ChecksumCRC32"] == crc32(b"hello world")


def test_a_body_that_the_server_put_in_a_file_becomes_the_object(lab: S3Lab, s3: Any, tmp_path):
    for name, data, headers in (
        ("plain", b"x" * 100, {}),
        (
            "wrapped",
            chunked(b"x" * 100, trailer=f"x-amz-checksum-crc32:{crc32(b'x' * 100)}"),
            STREAMED,
        ),
    ):
        spooled = tmp_path / name
        spooled.write_bytes(data)
        request = HttpRequest("PUT", f"/{BUCKET}/{name}", "", dict(headers), b"", spooled)
        assert lab.handle(request).status == 200
        assert s3.get_object(Bucket=BUCKET, Key=name)["Body"].read() == b"x" * 100
        assert not spooled.exists()
    assert files_under(lab.data_dir / "s3" / ".headrace-tmp") == set()


def test_presigned_urls_carry_their_headers_in_the_query(lab: S3Lab, s3: Any):
    url = s3.generate_presigned_url(
        "put_object", {"Bucket": BUCKET, "Key": "a b", "Metadata": {"m": "1"}}
    )
    path, _, query = url.removeprefix("http://127.0.0.1").partition("?")
    assert lab.request("PUT", path, query + "&x-amz-meta-n=2", b"signed").status == 200
    got = s3.get_object(Bucket=BUCKET, Key="a b")
    assert got["Body"].read() == b"signed"
    assert got["Metadata"]["n"] == "2"


# --- validation ---------------------------------------------------------------------------------


def test_a_key_of_1025_bytes_is_too_long_and_of_1024_is_not(s3: Any):
    s3.put_object(Bucket=BUCKET, Key="ü" * 512, Body=b"")
    for operation in (s3.put_object, s3.get_object, s3.delete_object):
        with pytest.raises(ClientError) as raised:
            operation(Bucket=BUCKET, Key="ü" * 512 + "a")
        assert error_of(raised) == ("KeyTooLongError", 400)


def test_a_key_that_is_not_utf8_is_an_invalid_uri(lab: S3Lab, s3: Any):
    for method in ("PUT", "GET", "DELETE"):
        response = lab.request(method, f"/{BUCKET}/%ff%fe", body=b"")
        assert (response.status, b"<Code>InvalidURI</Code>" in response.body) == (400, True)


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"ContentMD5": base64.b64encode(b"0" * 16).decode()}, "BadDigest"),
        ({"ContentMD5": "not base64"}, "InvalidDigest"),
        ({"ContentMD5": base64.b64encode(b"short").decode()}, "InvalidDigest"),
        ({"ChecksumCRC32": crc32(b"other")}, "BadDigest"),
        ({"ChecksumSHA1": base64.b64encode(b"0" * 20).decode()}, "BadDigest"),
        ({"ChecksumSHA256": base64.b64encode(b"0" * 32).decode()}, "BadDigest"),
        ({"ChecksumSHA256": base64.b64encode(b"0" * 31).decode()}, "InvalidRequest"),
        ({"ChecksumCRC32": "?", "ChecksumSHA1": "?"}, "InvalidRequest"),
        ({"Metadata": {"m": "x" * 2048}}, "MetadataTooLarge"),
        ({"Tagging": "&".join(f"t{i}=v" for i in range(11))}, "BadRequest"),
        ({"Tagging": "t=1&t=2"}, "InvalidArgument"),
        ({"Tagging": f"{'t' * 129}=1"}, "InvalidTag"),
    ],
)
def test_what_s3_refuses_leaves_nothing_behind(lab: S3Lab, s3: Any, parameters, code: str):
    with pytest.raises(ClientError) as raised:
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"data", **parameters)
    assert error_of(raised) == (code, 400)
    assert files_under(lab.data_dir / "s3") == set()


@pytest.mark.parametrize(
    ("body", "extra", "code"),
    [
        (b"5\r\nhel", {}, b"IncompleteBody"),
        (b"zz\r\nhello\r\n0\r\n\r\n", {}, b"IncompleteBody"),
        (b"-5\r\nhello\r\n0\r\n\r\n", {}, b"IncompleteBody"),
        (b"5\r\nhelloXX0\r\n\r\n", {}, b"IncompleteBody"),
        (b"", {}, b"IncompleteBody"),
        (b"5\r\nhello\r\n0\r\n\r\n", {}, b"MalformedTrailerError"),
        (b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", {}, b"BadDigest"),
        (
            chunked(b"hello", trailer=f"x-amz-checksum-crc32:{crc32(b'hello')}"),
            {"x-amz-decoded-content-length": "6"},
            b"IncompleteBody",
        ),
    ],
)
def test_a_broken_chunked_body_is_refused(lab: S3Lab, s3: Any, body: bytes, extra, code: bytes):
    headers = {**STREAMED, **extra}
    response = lab.request("PUT", f"/{BUCKET}/k", body=body, headers=headers)
    assert (response.status, b"<Code>%b</Code>" % code in response.body) == (400, True)
    assert files_under(lab.data_dir / "s3") == set()


def test_a_body_other_than_its_signed_digest_is_refused(lab: S3Lab, s3: Any):
    headers = {"x-amz-content-sha256": hashlib.sha256(b"signed").hexdigest()}
    response = lab.request("PUT", f"/{BUCKET}/k", body=b"forged", headers=headers)
    assert b"XAmzContentSHA256Mismatch" in response.body
    assert lab.request("PUT", f"/{BUCKET}/k", body=b"signed", headers=headers).status == 200


def test_an_object_is_at_most_5_gib_at_once(lab: S3Lab, s3: Any, tmp_path: Path):
    spooled = tmp_path / "large"
    with spooled.open("wb") as file:
        file.truncate(5 * 1024**3 + 1)
    response = lab.handle(HttpRequest("PUT", f"/{BUCKET}/k", "", {}, b"", spooled))
    assert (response.status, b"<Code>EntityTooLarge</Code>" in response.body) == (400, True)
    assert files_under(lab.data_dir / "s3") == set()


def test_a_document_is_at_most_2_mib(lab: S3Lab, s3: Any):
    body = b"<Tagging>" + b" " * 2 * 1024**2 + b"</Tagging>"
    response = lab.request("PUT", f"/{BUCKET}", "tagging", body)
    assert (response.status, b"<Code>MaxMessageLengthExceeded</Code>" in response.body) == (
        400,
        True,
    )


def test_an_announced_checksum_must_come(lab: S3Lab, s3: Any):
    headers = {"x-amz-sdk-checksum-algorithm": "CRC32"}
    response = lab.request("PUT", f"/{BUCKET}/k", body=b"data", headers=headers)
    assert (response.status, b"<Code>InvalidRequest</Code>" in response.body) == (400, True)


# --- behaviour ----------------------------------------------------------------------------------


def test_an_object_is_written_when_there_is_none(s3: Any):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError) as raised:
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"2", IfNoneMatch="*")
    assert error_of(raised) == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"1"


def test_an_object_is_replaced_when_it_is_as_expected(s3: Any):
    etag = s3.put_object(Bucket=BUCKET, Key="k", Body=b"1")["ETag"]
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"2", IfMatch=etag)
    with pytest.raises(ClientError) as raised:
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"3", IfMatch=etag)
    assert error_of(raised) == ("PreconditionFailed", 412)
    with pytest.raises(ClientError) as raised:
        s3.put_object(Bucket=BUCKET, Key="none", Body=b"3", IfMatch=etag)
    assert error_of(raised) == ("NoSuchKey", 404)


def test_a_second_put_replaces_bytes_and_metadata(s3: Any, clock: FakeClock):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"first", Metadata={"m": "1"}, Tagging="t=1")
    before = s3.head_object(Bucket=BUCKET, Key="k")["LastModified"]
    clock.advance(5)
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"2nd")
    got = s3.get_object(Bucket=BUCKET, Key="k")
    assert (got["Body"].read(), got["Metadata"], got.get("TagCount")) == (b"2nd", {}, None)
    assert (got["LastModified"] - before).total_seconds() == 5


def test_in_process_calls_write_the_same_object(lab: S3Lab, s3: Any):
    lab.gateway.call("s3", "PutObject", {"Bucket": BUCKET, "Key": "k", "Body": b"0123456789"})
    assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"0123456789"
    got = lab.gateway.call("s3", "GetObject", {"Bucket": BUCKET, "Key": "k", "Range": "bytes=2-4"})
    assert (got["Body"], got["ContentRange"]) == (b"234", "bytes 2-4/10")


def test_the_store_takes_a_file_and_leaves_it(lab: S3Lab, s3: Any, tmp_path: Path):
    source = tmp_path / "source"
    source.write_bytes(b"from a file")
    etag = lab.objects.put(BUCKET, "k", source, content_type="text/plain")
    assert source.read_bytes() == b"from a file"
    assert lab.objects.get(BUCKET, "k") == b"from a file"
    assert s3.head_object(Bucket=BUCKET, Key="k")["ETag"] == f'"{etag}"'


def test_listeners_hear_of_every_write(lab: S3Lab, s3: Any):
    heard: list[tuple[str, str, int]] = []
    lab.s3.on_object_created.append(
        lambda bucket, key, size, etag: heard.append((bucket, key, size))
    )
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"123")
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "k"})
    assert heard == [(BUCKET, "k", 3), (BUCKET, "copy", 3)]


def test_with_fsync_an_object_is_written_as_well(data_dir: Path, clock: FakeClock):
    lab = S3Lab(data_dir, clock, durability="fsync")
    client = lab.client()
    client.create_bucket(Bucket=BUCKET)
    for key in ("a/b/c", "a//b"):
        client.put_object(Bucket=BUCKET, Key=key, Body=b"1")
    lab.restart()
    assert [c["Key"] for c in client.list_objects_v2(Bucket=BUCKET)["Contents"]] == [
        "a//b",
        "a/b/c",
    ]
    lab.stop()


def test_an_empty_chunked_body_is_an_empty_object(lab: S3Lab, s3: Any):
    body = b"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"
    response = lab.request("PUT", f"/{BUCKET}/k", body=body, headers=STREAMED)
    assert (response.status, header(response, "etag")) == (200, f'"{hashlib.md5(b"").hexdigest()}"')
