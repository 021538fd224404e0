"""ListObjectsV2, ListObjects, ListObjectVersions."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of

# Slashes, and neighbours of the slash in the order of bytes; what must be escaped; other planes.
KEY_CHARACTERS = "ab/.-0 +%&ü\U0001f600"
KEYS = st.text(KEY_CHARACTERS, min_size=1, max_size=8)


def put_all(s3: Any, keys: Any) -> None:
    for key in keys:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")


def listed(answer: Any) -> tuple[list[str], list[str]]:
    return (
        [content["Key"] for content in answer.get("Contents", [])],
        [prefix["Prefix"] for prefix in answer.get("CommonPrefixes", [])],
    )


# --- serialization ------------------------------------------------------------------------------


def test_an_entry_tells_size_etag_and_time(s3: Any):
    put = s3.put_object(Bucket=BUCKET, Key="k", Body=b"123")
    answer = s3.list_objects_v2(Bucket=BUCKET, FetchOwner=True)
    (entry,) = answer["Contents"]
    assert (entry["Size"], entry["ETag"], entry["StorageClass"]) == (3, put["ETag"], "STANDARD")
    assert entry["Owner"]["ID"]
    assert "Owner" not in s3.list_objects_v2(Bucket=BUCKET)["Contents"][0]
    assert (answer["KeyCount"], answer["IsTruncated"], answer["Name"]) == (1, False, BUCKET)


def test_keys_are_url_encoded_when_asked(lab: S3Lab, s3: Any):
    put_all(s3, ["a b/ü+%&<\r\n.txt"])
    plain = lab.request("GET", f"/{BUCKET}", "list-type=2").body
    assert "<Key>a b/ü+%&amp;&lt;&#13;\n.txt</Key>".encode() in plain
    encoded = lab.request("GET", f"/{BUCKET}", "list-type=2&encoding-type=url").body
    assert b"<Key>a%20b/%C3%BC%2B%25%26%3C%0D%0A.txt</Key>" in encoded
    assert listed(s3.list_objects_v2(Bucket=BUCKET))[0] == ["a b/ü+%&<\r\n.txt"]


def test_every_object_has_the_version_null(s3: Any):
    put_all(s3, ["a", "b"])
    answer = s3.list_object_versions(Bucket=BUCKET)
    assert [(v["Key"], v["VersionId"], v["IsLatest"]) for v in answer["Versions"]] == [
        ("a", "null", True),
        ("b", "null", True),
    ]


# --- validation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "list-type=2&max-keys=abc",
        "list-type=2&max-keys=-1",
        "list-type=2&continuation-token=",
        "list-type=2&continuation-token=%21%21",
        "list-type=2&encoding-type=base64",
    ],
)
def test_bad_parameters_are_invalid_arguments(lab: S3Lab, s3: Any, query: str):
    response = lab.request("GET", f"/{BUCKET}", query)
    assert (response.status, b"<Code>InvalidArgument</Code>" in response.body) == (400, True)


# --- behaviour ----------------------------------------------------------------------------------


def test_folders_are_rolled_up_at_the_delimiter(s3: Any):
    put_all(s3, ["a", "b/1", "b/2/3", "b-1", "c/", "c/d"])
    assert listed(s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")) == (["a", "b-1"], ["b/", "c/"])
    inside = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/", Prefix="b/")
    assert listed(inside) == (["b/1"], ["b/2/"])
    marker = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/", Prefix="c/")
    assert listed(marker) == (["c/", "c/d"], [])
    assert listed(s3.list_objects_v2(Bucket=BUCKET, Delimiter="-")) == (
        ["a", "b/1", "b/2/3", "c/", "c/d"],
        ["b-"],
    )
    assert listed(s3.list_objects_v2(Bucket=BUCKET, Prefix="b")) == (["b-1", "b/1", "b/2/3"], [])


def test_no_more_than_a_thousand_keys_at_once(s3: Any, lab: S3Lab):
    folder = lab.folder(BUCKET) / "many"
    folder.mkdir()
    for number in range(1001):
        (folder / f"{number:04}").touch()
    first = s3.list_objects_v2(Bucket=BUCKET, MaxKeys=5000)
    assert (first["KeyCount"], first["MaxKeys"], first["IsTruncated"]) == (1000, 1000, True)
    rest = s3.list_objects_v2(Bucket=BUCKET, ContinuationToken=first["NextContinuationToken"])
    assert listed(rest)[0] == ["many/1000"]


def test_no_keys_at_all_are_a_whole_answer(s3: Any):
    put_all(s3, ["a"])
    answer = s3.list_objects_v2(Bucket=BUCKET, MaxKeys=0)
    assert (answer["KeyCount"], answer["IsTruncated"]) == (0, False)


def test_start_after_and_marker_leave_out_what_is_before(s3: Any):
    put_all(s3, ["a", "b", "b/1", "c"])
    assert listed(s3.list_objects_v2(Bucket=BUCKET, StartAfter="b"))[0] == ["b/1", "c"]
    assert listed(s3.list_objects(Bucket=BUCKET, Marker="b"))[0] == ["b/1", "c"]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    keys=st.sets(KEYS, max_size=12),
    prefix=st.text(KEY_CHARACTERS, max_size=3),
    delimiter=st.sampled_from(["", "/", "a"]),
    page=st.integers(1, 4),
    operation=st.sampled_from(["list_objects_v2", "list_objects", "list_object_versions"]),
)
def test_pages_together_are_the_whole_listing(s3: Any, keys, prefix, delimiter, page, operation):
    put_all(s3, keys)
    matching = sorted((k for k in keys if k.startswith(prefix)), key=lambda k: k.encode())
    rolled = [
        k[: k.index(delimiter, len(prefix)) + 1]
        if delimiter and delimiter in k[len(prefix) :]
        else ""
        for k in matching
    ]
    expected_keys = [k for k, r in zip(matching, rolled, strict=True) if not r]
    expected_prefixes = sorted({r for r in rolled if r}, key=lambda k: k.encode())
    parameters = {"Bucket": BUCKET, "Prefix": prefix, "MaxKeys": page}
    if delimiter:
        parameters["Delimiter"] = delimiter
    found_keys: list[str] = []
    found_prefixes: list[str] = []
    while True:
        answer = getattr(s3, operation)(**parameters)
        entries = answer.get("Contents", answer.get("Versions", []))
        found_keys += [entry["Key"] for entry in entries]
        found_prefixes += listed(answer)[1]
        assert len(entries) + len(listed(answer)[1]) <= page
        if not answer["IsTruncated"]:
            break
        if operation == "list_objects_v2":
            parameters["ContinuationToken"] = answer["NextContinuationToken"]
        elif operation == "list_objects":
            parameters["Marker"] = answer.get("NextMarker") or found_keys[-1]
        else:
            parameters["KeyMarker"] = answer["NextKeyMarker"]
    assert (found_keys, found_prefixes) == (expected_keys, expected_prefixes)
    for key in keys:
        s3.delete_object(Bucket=BUCKET, Key=key)
    assert listed(s3.list_objects_v2(Bucket=BUCKET)) == ([], [])


def test_a_missing_bucket_is_told(s3: Any):
    with pytest.raises(ClientError) as raised:
        s3.list_object_versions(Bucket="nowhere")
    assert error_of(raised) == ("NoSuchBucket", 404)
