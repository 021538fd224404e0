"""Buckets that keep versions: what each call leaves in the history, and what is a plain file.

Answers as AWS gave them are in tests/conformance/s3/versions.json. Sources of the rules (documented):
docs.aws.amazon.com/AmazonS3/latest/userguide/versioning-workflows.html, DeletingObjectVersions.html,
AddingObjectstoVersionSuspendedBuckets.html, DeletingObjectsfromVersioningSuspendedBuckets.html.
"""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of, files_under

KEYS = ("folder/k", "folder//k")  # one that is a path, and one that is not


def versioning(s3: Any, status: str = "Enabled") -> None:
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": status})


def put(s3: Any, key: str, body: bytes) -> str:
    return s3.put_object(Bucket=BUCKET, Key=key, Body=body).get("VersionId", "null")


def history(s3: Any, key: str) -> list[tuple[str, bytes | None, bool]]:
    """Return (version id, bytes or None of a marker, whether it is the latest), the newest first."""
    listed = s3.list_object_versions(Bucket=BUCKET, Prefix=key)
    entries = [(entry, True) for entry in listed.get("Versions", ())]
    entries += [(entry, False) for entry in listed.get("DeleteMarkers", ())]
    entries.sort(key=lambda item: (not item[0]["IsLatest"], -item[0]["LastModified"].timestamp()))
    return [
        (
            entry["VersionId"],
            s3.get_object(Bucket=BUCKET, Key=key, VersionId=entry["VersionId"])["Body"].read()
            if has_bytes
            else None,
            entry["IsLatest"],
        )
        for entry, has_bytes in entries
    ]


@pytest.mark.parametrize("key", KEYS)
def test_an_overwritten_and_a_deleted_object_can_be_read_by_their_versions(
    s3: Any, lab: S3Lab, key: str
):
    put(s3, key, b"zero")
    versioning(s3)
    lab.clock.advance(1)
    first = put(s3, key, b"one")
    lab.clock.advance(1)
    second = put(s3, key, b"two")
    lab.clock.advance(1)
    marker = s3.delete_object(Bucket=BUCKET, Key=key)["VersionId"]
    assert history(s3, key) == [
        (marker, None, True),
        (second, b"two", False),
        (first, b"one", False),
        ("null", b"zero", False),
    ]
    with pytest.raises(ClientError) as raised:
        s3.get_object(Bucket=BUCKET, Key=key)
    assert error_of(raised) == ("NoSuchKey", 404)
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)


@pytest.mark.parametrize("key", KEYS)
def test_what_is_under_a_deleted_version_comes_back(s3: Any, key: str):
    versioning(s3)
    first, second = put(s3, key, b"one"), put(s3, key, b"two")
    marker = s3.delete_object(Bucket=BUCKET, Key=key)["VersionId"]
    s3.delete_object(Bucket=BUCKET, Key=key, VersionId=marker)
    assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"two"
    s3.delete_object(Bucket=BUCKET, Key=key, VersionId=second)
    assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"one"
    s3.delete_object(Bucket=BUCKET, Key=key, VersionId=first)
    assert history(s3, key) == []


def test_the_current_version_is_the_plain_file_and_no_other_is(s3: Any, lab: S3Lab):
    versioning(s3)
    put(s3, "a/k", b"one")
    put(s3, "a/k", b"two")
    put(s3, "gone", b"three")
    s3.delete_object(Bucket=BUCKET, Key="gone")
    assert files_under(lab.folder(BUCKET)) == {"a/k"}
    assert (lab.folder(BUCKET) / "a/k").read_bytes() == b"two"


def test_no_versions_are_kept_where_nobody_asked_for_them(s3: Any, lab: S3Lab):
    put(s3, "k", b"one")
    put(s3, "k", b"two")
    assert files_under(lab.data_dir / "s3") == {f"{BUCKET}/k"}
    assert history(s3, "k") == [("null", b"two", True)]


def test_the_bytes_of_a_version_that_is_deleted_go_from_the_disk(s3: Any, lab: S3Lab):
    versioning(s3)
    ids = [put(s3, "k", b"one"), put(s3, "k", b"two")]
    for version_id in ids:
        s3.delete_object(Bucket=BUCKET, Key="k", VersionId=version_id)
    assert files_under(lab.data_dir / "s3") == set()


def test_a_suspended_bucket_overwrites_its_null_version_only(s3: Any, lab: S3Lab):
    versioning(s3)
    kept = put(s3, "k", b"kept")
    versioning(s3, "Suspended")
    lab.clock.advance(1)
    put(s3, "k", b"null one")
    put(s3, "k", b"null two")
    assert history(s3, "k") == [("null", b"null two", True), (kept, b"kept", False)]
    s3.delete_object(Bucket=BUCKET, Key="k")
    assert history(s3, "k") == [("null", None, True), (kept, b"kept", False)]


def test_a_file_that_spark_writes_is_a_version_and_what_it_replaces_stays(s3: Any, lab: S3Lab):
    versioning(s3)
    first = put(s3, "out/part-0", b"one")
    lab.clock.advance(-(10**9))  # files have the real time
    put_later = lab.data_dir / "written"
    put_later.write_bytes(b"spark")
    put_later.replace(lab.folder(BUCKET) / "out/part-0")
    got = s3.get_object(Bucket=BUCKET, Key="out/part-0")
    assert (got["Body"].read(), got["VersionId"]) not in ((b"spark", "null"), (b"spark", first))
    assert s3.get_object(Bucket=BUCKET, Key="out/part-0", VersionId=first)["Body"].read() == b"one"
    second = put(s3, "out/part-0", b"two")
    ids = [entry[0] for entry in history(s3, "out/part-0")]
    assert ids == [second, got["VersionId"], first] or set(ids) == {second, got["VersionId"], first}


def test_histories_survive_a_restart(s3: Any, lab: S3Lab):
    versioning(s3)
    put(s3, "k", b"one")
    put(s3, "k", b"two")
    s3.delete_object(Bucket=BUCKET, Key="other")
    before = [history(s3, key) for key in ("k", "other")]
    lab.restart()
    client = lab.client()
    assert [history(client, key) for key in ("k", "other")] == before


def test_a_listing_of_versions_has_pages(s3: Any):
    versioning(s3)
    for key in ("a", "b", "b", "dir/x", "dir/y", "e"):
        put(s3, key, key.encode())
    s3.delete_object(Bucket=BUCKET, Key="b")
    whole = s3.list_object_versions(Bucket=BUCKET)
    everything = {(e["Key"], e["VersionId"]) for e in [*whole["Versions"], *whole["DeleteMarkers"]]}
    assert len(everything) == 7
    for size in range(1, 8):
        seen: list[tuple[str, str]] = []
        for page in s3.get_paginator("list_object_versions").paginate(
            Bucket=BUCKET, PaginationConfig={"PageSize": size}
        ):
            entries = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            assert len(entries) <= size
            seen += [(e["Key"], e["VersionId"]) for e in entries]
        assert set(seen) == everything
        assert len(seen) == len(everything)


def test_a_listing_of_versions_rolls_keys_up_at_a_delimiter(s3: Any):
    versioning(s3)
    for key in ("a", "dir/x", "dir/x", "dir/y", "e"):
        put(s3, key, b"")
    s3.delete_object(Bucket=BUCKET, Key="dir/z")
    listed = s3.list_object_versions(Bucket=BUCKET, Delimiter="/")
    assert [e["Key"] for e in listed["Versions"]] == ["a", "e"]
    assert listed["CommonPrefixes"] == [{"Prefix": "dir/"}]
    keys: list[str] = []
    pages = s3.get_paginator("list_object_versions").paginate(
        Bucket=BUCKET, Delimiter="/", PaginationConfig={"PageSize": 1}
    )
    for page in pages:
        keys += [e["Key"] for e in page.get("Versions", ())]
        keys += [e["Prefix"] for e in page.get("CommonPrefixes", ())]
    assert keys == ["a", "dir/", "e"]


def test_a_version_is_the_source_of_a_copy_and_of_a_part(s3: Any):
    versioning(s3)
    first = put(s3, "k", b"one")
    put(s3, "k", b"two")
    source = {"Bucket": BUCKET, "Key": "k", "VersionId": first}
    s3.copy_object(Bucket=BUCKET, Key="k", CopySource=source)  # as AWS tells to restore a version
    assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"one"
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="m")["UploadId"]
    part = s3.upload_part_copy(
        Bucket=BUCKET, Key="m", UploadId=upload, PartNumber=1, CopySource=source
    )
    assert part["CopySourceVersionId"] == first
    marker = s3.delete_object(Bucket=BUCKET, Key="k")["VersionId"]
    with pytest.raises(ClientError) as raised:
        s3.copy_object(Bucket=BUCKET, Key="x", CopySource={**source, "VersionId": marker})
    assert error_of(raised) == ("InvalidRequest", 400)


def test_a_head_of_a_delete_marker_says_what_it_is(s3: Any, lab: S3Lab):
    versioning(s3)
    marker = s3.delete_object(Bucket=BUCKET, Key="k")["VersionId"]
    for query, status in (("", 404), (f"versionId={marker}", 405)):
        answer = lab.request("HEAD", f"/{BUCKET}/k", query)
        headers = {name.lower(): value for name, value in answer.headers}
        assert (answer.status, headers["x-amz-delete-marker"]) == (status, "true")
        assert headers["x-amz-version-id"] == marker
    assert headers["allow"] == "DELETE"
