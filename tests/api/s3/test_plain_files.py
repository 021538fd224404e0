"""Objects are plain files, and plain files are objects: what Spark and the API do to the same bucket."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.s3.files import ObjectFiles
from headrace.services.s3.store import ObjectIndex
from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of, files_under


def keys(s3: Any, **parameters: Any) -> list[str]:
    answer = s3.list_objects_v2(Bucket=BUCKET, **parameters)
    return [content["Key"] for content in answer.get("Contents", [])]


def write(lab: S3Lab, key: str, data: bytes) -> Path:
    """Write a file as Spark does."""
    path = lab.folder(BUCKET) / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# --- what the API writes is a file --------------------------------------------------------------


def test_an_object_is_a_file_of_its_key(lab: S3Lab, s3: Any):
    s3.put_object(Bucket=BUCKET, Key="year=2013/month=1/part 0.parquet", Body=b"PAR1")
    assert files_under(lab.folder(BUCKET)) == {"year=2013/month=1/part 0.parquet"}
    assert lab.objects.file(BUCKET, "year=2013/month=1/part 0.parquet").read_bytes() == b"PAR1"
    assert lab.objects.buckets() == {BUCKET: lab.folder(BUCKET)}


def test_a_write_removes_the_checksum_that_hadoop_left_for_the_file_before(lab: S3Lab, s3: Any):
    write(lab, "a/part-0", b"old")
    checksum = write(lab, "a/.part-0.crc", b"crc")
    s3.put_object(Bucket=BUCKET, Key="a/part-0", Body=b"new")
    assert not checksum.exists()


# --- what Spark writes is an object -------------------------------------------------------------


def test_a_file_is_an_object_with_a_computed_etag(lab: S3Lab, s3: Any):
    path = write(lab, "out/part-0.parquet", b"data")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    got = s3.get_object(Bucket=BUCKET, Key="out/part-0.parquet")
    assert got["Body"].read() == b"data"
    assert got["ETag"] == f'"{hashlib.md5(b"data").hexdigest()}"'
    assert got["LastModified"].timestamp() == 1_700_000_000
    assert got["ContentType"] == "binary/octet-stream"
    (entry,) = s3.list_objects_v2(Bucket=BUCKET, Prefix="out/")["Contents"]
    assert (entry["ETag"], entry["Size"]) == (got["ETag"], 4)


def test_a_file_written_over_an_object_is_another_object(lab: S3Lab, s3: Any):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"from boto3", Metadata={"m": "1"})
    write(lab, "k", b"from Spark")
    got = s3.get_object(Bucket=BUCKET, Key="k")
    assert (got["Body"].read(), got["Metadata"]) == (b"from Spark", {})
    assert got["ETag"] == f'"{hashlib.md5(b"from Spark").hexdigest()}"'
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"from boto3 again")
    assert (lab.folder(BUCKET) / "k").read_bytes() == b"from boto3 again"


def test_a_file_that_is_deleted_is_no_object(lab: S3Lab, s3: Any):
    s3.put_object(Bucket=BUCKET, Key="a/k", Body=b"1")
    (lab.folder(BUCKET) / "a" / "k").unlink()
    assert keys(s3) == []
    with pytest.raises(ClientError) as raised:
        s3.get_object(Bucket=BUCKET, Key="a/k")
    assert error_of(raised) == ("NoSuchKey", 404)
    s3.delete_bucket(Bucket=BUCKET)


def test_a_folder_that_is_renamed_takes_its_objects_along(lab: S3Lab, s3: Any):
    # As Spark's committer does at the end of a job.
    s3.put_object(Bucket=BUCKET, Key="_temporary/0/part-0", Body=b"1", Metadata={"m": "1"})
    (lab.folder(BUCKET) / "_temporary" / "0").rename(lab.folder(BUCKET) / "done")
    assert keys(s3) == ["done/part-0"]
    assert s3.get_object(Bucket=BUCKET, Key="done/part-0")["Body"].read() == b"1"


def test_folders_and_hadoops_checksums_are_no_objects(lab: S3Lab, s3: Any):
    write(lab, "out/part-0", b"1")
    write(lab, "out/.part-0.crc", b"crc")
    write(lab, "out/_SUCCESS", b"")
    (lab.folder(BUCKET) / "empty" / "folder").mkdir(parents=True)
    assert keys(s3) == ["out/_SUCCESS", "out/part-0"]
    for key in ("out", "out/", "empty/folder/", "out/.part-0.crc"):
        with pytest.raises(ClientError) as raised:
            s3.head_object(Bucket=BUCKET, Key=key)
        assert error_of(raised) == ("404", 404)
    rolled = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    assert rolled["CommonPrefixes"] == [{"Prefix": "out/"}]


def test_a_marker_of_a_folder_is_an_object_when_it_was_put(lab: S3Lab, s3: Any):
    s3.put_object(Bucket=BUCKET, Key="folder/", Body=b"")
    write(lab, "folder/file", b"1")
    assert keys(s3) == ["folder/", "folder/file"]
    assert s3.head_object(Bucket=BUCKET, Key="folder/")["ContentLength"] == 0


def test_a_file_whose_name_is_no_text_is_no_object(lab: S3Lab, s3: Any):
    (Path(os.fsdecode(bytes(lab.folder(BUCKET)) + b"/\xff\xfe"))).write_bytes(b"1")
    write(lab, "ok", b"1")
    assert keys(s3) == ["ok"]


def test_a_file_comes_before_what_was_put_aside_for_its_key(lab: S3Lab, s3: Any):
    write(lab, "a/b", b"1")
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"beside the folder")
    assert s3.get_object(Bucket=BUCKET, Key="a")["Body"].read() == b"beside the folder"
    (lab.folder(BUCKET) / "a" / "b").unlink()
    (lab.folder(BUCKET) / "a").rmdir()
    write(lab, "a", b"from Spark")
    assert keys(s3) == ["a"]
    assert s3.get_object(Bucket=BUCKET, Key="a")["Body"].read() == b"from Spark"
    s3.delete_object(Bucket=BUCKET, Key="a")
    assert files_under(lab.data_dir / "s3") == set()


def test_a_pipe_in_a_bucket_is_no_object_and_stops_nobody(lab: S3Lab, s3: Any):
    os.mkfifo(lab.folder(BUCKET) / "pipe")
    assert keys(s3) == []
    with pytest.raises(ClientError) as raised:
        s3.get_object(Bucket=BUCKET, Key="pipe")
    assert error_of(raised) == ("NoSuchKey", 404)


# --- kills and races ----------------------------------------------------------------------------


class KilledError(BaseException):
    """Stands for kill -9: nothing in the write path may catch it."""


@pytest.mark.parametrize("key", ["a/plain", "an//escaped"])
@pytest.mark.parametrize("at", ["before the move", "after the move"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_kill_between_file_and_index_leaves_one_whole_object(
    lab: S3Lab, s3: Any, monkeypatch, key: str, at: str, is_new: bool
):
    old = {"Body": b"old12", "Metadata": {"m": "old"}, "ContentType": "text/old"}
    new = {"Body": b"new12", "Metadata": {"m": "new"}, "ContentType": "text/new"}
    if not is_new:
        s3.put_object(Bucket=BUCKET, Key=key, **old)

    def kill(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        if at == "before the move":
            patched.setattr(Path, "replace", kill)
        else:
            patched.setattr(ObjectIndex, "confirm", kill)
        with pytest.raises(KilledError):
            s3.put_object(Bucket=BUCKET, Key=key, **new)
    lab.restart()
    if at == "before the move" and is_new:
        assert keys(s3) == []
        return
    expected = old if at == "before the move" else new
    got = s3.get_object(Bucket=BUCKET, Key=key)
    assert (got["Body"].read(), got["Metadata"], got["ContentType"]) == tuple(expected.values())
    assert got["ETag"] == f'"{hashlib.md5(expected["Body"]).hexdigest()}"'
    assert keys(s3) == [key]


def test_what_a_kill_left_half_written_is_gone(lab: S3Lab, s3: Any):
    lab.s3.files.write_temporary(b"half")
    lab.restart()
    assert files_under(lab.data_dir / "s3") == set()


def test_readers_see_one_write_or_another_never_a_mixture(lab: S3Lab, s3: Any):
    # Of one size, so that only the write itself tells them apart.
    bodies = [bytes([number]) * 100 for number in range(8)]
    expected = {hashlib.md5(body).hexdigest(): (body, {"n": str(body[0])}) for body in bodies}
    lab.objects.put(BUCKET, "k", bodies[0], metadata={"n": "0"})
    done = threading.Event()
    wrong: list[Any] = []

    def read() -> None:
        client = lab.client()
        while not done.is_set():
            got = client.get_object(Bucket=BUCKET, Key="k")
            found = (got["Body"].read(), got["Metadata"])
            if expected.get(got["ETag"].strip('"')) != found:
                wrong.append((got["ETag"], found))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(600):
        lab.objects.put(BUCKET, "k", bodies[number % 8], metadata={"n": str(number % 8)})
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_writes_in_one_tick_of_the_clock_are_told_apart(lab: S3Lab, s3: Any):
    files = lab.s3.files
    lab.objects.put(BUCKET, "k", b"0")
    stored = lab.s3.object(BUCKET, "k")
    times: list[int] = []
    for number in range(5):
        temporary = files.write_temporary(b"%d" % number)
        os.utime(temporary, ns=(stored.mtime_ns, stored.mtime_ns))
        files.publish(temporary, stored)
        times.append((lab.folder(BUCKET) / "k").stat().st_mtime_ns)
    assert times == sorted({stored.mtime_ns, *times})[1:]


def test_only_one_of_many_writers_makes_a_new_object(lab: S3Lab, s3: Any):
    outcomes: list[int] = []
    start = threading.Barrier(4)

    def put(number: int) -> None:
        client = lab.client()
        start.wait()
        try:
            client.put_object(Bucket=BUCKET, Key="k", Body=b"%d" % number, IfNoneMatch="*")
            outcomes.append(200)
        except ClientError as error:
            outcomes.append(error.response["ResponseMetadata"]["HTTPStatusCode"])

    writers = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(outcomes) == [200, 412, 412, 412]


def test_a_page_reads_only_the_folders_on_its_way(lab: S3Lab, s3: Any, monkeypatch):
    for folder in range(20):
        for number in range(5):
            write(lab, f"day={folder:02}/part-{number}", b"1")
    keys(s3)
    looked: list[str] = []
    plain = ObjectFiles._find_plain

    def look(self: ObjectFiles, bucket: str, key: str, *rest: Any) -> Any:
        looked.append(key)
        return plain(self, bucket, key, *rest)

    monkeypatch.setattr(ObjectFiles, "_find_plain", look)
    assert keys(s3, Prefix="day=07/") == [f"day=07/part-{n}" for n in range(5)]
    assert len(looked) == 5
    looked.clear()
    rolled = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    assert len(rolled["CommonPrefixes"]) == 20
    assert len(looked) == 20
