"""Every legal key is an object, and none leads out of the bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of, files_under

LEGAL_KEYS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    # The odd ones oftener than chance would have them.
    st.lists(
        st.sampled_from(["a", "b", "..", ".", "", ".a.crc", "c" * 255, "d" * 256]),
        min_size=1,
        max_size=3,
    )
    .map("/".join)
    .filter(bool),
)
TRICKS = [
    "../../etc/passwd",
    "..",
    ".",
    "/",
    "//",
    "/etc/passwd",
    "a/../../b",
    "a/./b",
    "a//b",
    "a/",
    "a\\..\\b",
    "~root",
    "a\0b",
    ".headrace-tmp/x",
    ".headrace-escaped/x",
    ".a.crc",
    "x" * 251,
    "x" * 255,
    "x" * 256,
    "%2e%2e/%2e%2e/x",
    "..%2fx",
    "a?b#c",
    "a;b",
    "+ +",
    "\r\n",
    "CON",
]


def outside(lab: S3Lab) -> set[str]:
    """What is beside the data directory's own folders."""
    return {name for name in files_under(lab.data_dir.parent) if not name.startswith("data/s3/")}


def round_trip(s3: Any, key: str) -> None:
    body = key.encode()
    s3.put_object(Bucket=BUCKET, Key=key, Body=body, Metadata={"m": "1"})
    got = s3.get_object(Bucket=BUCKET, Key=key)
    assert (got["Body"].read(), got["Metadata"]) == (body, {"m": "1"})
    assert [c["Key"] for c in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == [key]
    assert [c["Key"] for c in s3.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"]] == [key]
    s3.put_object_tagging(Bucket=BUCKET, Key=key, Tagging={"TagSet": [{"Key": "t", "Value": "1"}]})
    assert s3.head_object(Bucket=BUCKET, Key=key)["ContentLength"] == len(body)
    s3.copy_object(Bucket=BUCKET, Key="copied", CopySource={"Bucket": BUCKET, "Key": key})
    assert s3.get_object(Bucket=BUCKET, Key="copied")["Body"].read() == body
    s3.delete_object(Bucket=BUCKET, Key="copied")
    s3.delete_object(Bucket=BUCKET, Key=key)
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)


@pytest.mark.parametrize("key", TRICKS)
def test_a_key_that_looks_like_a_trick_is_an_object_like_any(lab: S3Lab, s3: Any, key: str):
    before = outside(lab)
    round_trip(s3, key)
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"1")
    assert outside(lab) == before
    for name in files_under(lab.data_dir / "s3"):
        assert name.startswith((f"{BUCKET}/", f".headrace-escaped/{BUCKET}/"))
    lab.restart()
    assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"1"
    if "\0" in key:  # which XML cannot carry
        s3.delete_object(Bucket=BUCKET, Key=key)
    else:
        s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key}]})
    assert files_under(lab.data_dir / "s3") == set()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(key=LEGAL_KEYS)
@example(key="\ud7ff")
@example(key="\U0010ffff")
def test_any_legal_key_round_trips_and_never_escapes(lab: S3Lab, s3: Any, key: str):
    if len(key.encode()) > 1024:
        return
    before = outside(lab)
    round_trip(s3, key)
    assert outside(lab) == before
    assert files_under(lab.data_dir / "s3") == set()


@pytest.mark.parametrize("path", ["/%2e%2e/x", "/../x", "/..%2fx/k", "/.headrace-tmp/x", "//x"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
def test_a_bucket_is_no_path(lab: S3Lab, s3: Any, method: str, path: str):
    before = files_under(lab.data_dir.parent)
    response = lab.request(method, path, body=b"x" if method == "PUT" else b"")
    assert response.status in (400, 404, 405)
    assert files_under(lab.data_dir.parent) == before


def test_a_key_and_a_key_below_it_are_two_objects(lab: S3Lab, s3: Any):
    for first, second in (("a", "a/b"), ("c/d", "c")):
        s3.put_object(Bucket=BUCKET, Key=first, Body=b"first")
        s3.put_object(Bucket=BUCKET, Key=second, Body=b"second")
    lab.restart()
    keys = [content["Key"] for content in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert keys == ["a", "a/b", "c", "c/d"]
    assert s3.get_object(Bucket=BUCKET, Key="a/b")["Body"].read() == b"second"
    assert s3.get_object(Bucket=BUCKET, Key="c/d")["Body"].read() == b"first"
    s3.delete_object(Bucket=BUCKET, Key="a")
    assert s3.get_object(Bucket=BUCKET, Key="a/b")["Body"].read() == b"second"


def test_links_planted_in_a_bucket_lead_nowhere(lab: S3Lab, s3: Any, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_bytes(b"secret")
    bucket = lab.folder(BUCKET)
    (bucket / "folder-link").symlink_to(secret)
    (bucket / "file-link").symlink_to(secret / "file")
    (bucket / "self").symlink_to(bucket)
    for key in ("folder-link/file", "file-link", "self/self/file-link"):
        with pytest.raises(ClientError) as raised:
            s3.get_object(Bucket=BUCKET, Key=key)
        assert error_of(raised) == ("NoSuchKey", 404)
    for prefix in ("", "folder-link/", "self/"):
        assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    for key in ("folder-link/file", "folder-link/new", "file-link"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"ours")
        assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"ours"
        s3.delete_object(Bucket=BUCKET, Key=key)
    assert {path.name: path.read_bytes() for path in secret.iterdir()} == {"file": b"secret"}


def test_a_bucket_that_is_itself_a_link_is_still_whole(lab: S3Lab, s3: Any, tmp_path: Path):
    elsewhere = tmp_path / "volume"
    lab.folder(BUCKET).rename(elsewhere)
    lab.folder(BUCKET).symlink_to(elsewhere)
    s3.put_object(Bucket=BUCKET, Key="a/b", Body=b"1")
    assert (elsewhere / "a" / "b").read_bytes() == b"1"
    assert s3.get_object(Bucket=BUCKET, Key="a/b")["Body"].read() == b"1"
