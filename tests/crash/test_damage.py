"""Damage that somebody, or a disk, has done to a data directory: it is told, readers are told, and it can be mended."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud
from tests.support.forked_command import run
from tests.support.lambda_lab import ROLE, zipped
from tests.support.server import wait_until

pytestmark = pytest.mark.crash

SHARD = "shardId-000000000000"


def put(kinesis: Any, *texts: str) -> list[str]:
    return [
        kinesis.put_record(StreamName="flights", Data=text.encode(), PartitionKey="k")[
            "SequenceNumber"
        ]
        for text in texts
    ]


def read(kinesis: Any, kind: str = "TRIM_HORIZON", **position: Any) -> list[str]:
    """Return what one GetRecords gives from a position on."""
    iterator = kinesis.get_shard_iterator(
        StreamName="flights", ShardId=SHARD, ShardIteratorType=kind, **position
    )["ShardIterator"]
    return [r["Data"].decode() for r in kinesis.get_records(ShardIterator=iterator)["Records"]]


def flip(path: Path, at: int) -> None:
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def where(data_dir: Path) -> list[str]:
    return ["--data-dir", str(data_dir)]


def _check_that_a_mapping_says_so(cloud: InProcessCloud) -> None:
    functions = cloud.client("lambda")
    functions.create_function(
        FunctionName="f", Runtime="python3.11", Role=ROLE, Handler="m.handler",
        Code={"ZipFile": zipped({"m.py": "def handler(e, c): pass"})},
    )  # fmt: skip
    mapping = functions.create_event_source_mapping(
        EventSourceArn="arn:aws:kinesis:us-east-1:000000000000:stream/flights",
        FunctionName="f",
        StartingPosition="TRIM_HORIZON",
    )["UUID"]
    wait_until(
        lambda: (
            functions.get_event_source_mapping(UUID=mapping)["LastProcessingResult"]
            == "PROBLEM: Records of the stream are damaged or lost"
        )
    )


def test_an_emptied_segment_is_told_at_up_and_to_readers_until_it_is_repaired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    data_dir = tmp_path / "data"
    with InProcessCloud(data_dir) as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="flights", ShardCount=1)
        lost = put(kinesis, "one", "two", "three")
    (segment,) = data_dir.glob("streams/*/*/*.log")
    segment.write_bytes(b"")

    up = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "up", "--detach", "--port", "0", *where(data_dir)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    warning = up.stderr.strip().splitlines()[-1]  # one that takes long says that it starts
    for part in ("stream flights", SHARD, "3 records are missing", "number 1 to 3", str(segment)):
        assert part in warning
    assert warning.endswith("see: headrace check --repair")
    assert warning in run("status", *where(data_dir))[2]
    code, _, err = run("check", "--repair", *where(data_dir))
    assert (code, "A cloud is running on" in err) == (1, True)
    assert run("down", *where(data_dir))[0] == 0
    assert (data_dir / "headrace.log").read_text().count("3 records are missing") == 1

    caplog.clear()
    with InProcessCloud(data_dir) as cloud:
        kinesis = cloud.client("kinesis")
        (after,) = put(kinesis, "four")
        assert int(after) > int(lost[-1])
        for position in (
            {"kind": "TRIM_HORIZON"},
            {"kind": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": lost[1]},
            {"kind": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": lost[0]},
        ):
            with pytest.raises(ClientError, match="3 records are missing") as caught:
                read(kinesis, **position)
            assert caught.value.response["Error"]["Code"] == "InternalFailureException"
            assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
            assert segment.name in str(caught.value)
        assert read(kinesis, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=after) == ["four"]
        # At the start, and by the first reader; not by the others.
        assert caplog.text.count("3 records are missing") == 1 + 1
        assert caplog.text.count("the segment was emptied") == 1 + 1
        _check_that_a_mapping_says_so(cloud)

    code, out, _ = run("check", *where(data_dir))
    assert (code, f"{segment}, byte 0: the segment was emptied" in out) == (1, True)
    code, out, err = run("check", "--repair", *where(data_dir))
    assert (code, err) == (0, "")
    assert f"lost: 3 records are missing of {SHARD}" in out
    assert out.splitlines()[-1] == f"{data_dir} is sound"
    assert run("check", "--repair", *where(data_dir)) == (0, f"{data_dir} is sound\n", "")
    with InProcessCloud(data_dir) as cloud:
        assert read(cloud.client("kinesis")) == ["four"]


def test_a_flipped_byte_names_its_segment_and_is_cut_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    data_dir = tmp_path / "data"
    with InProcessCloud(data_dir) as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="flights", ShardCount=1)
        numbers = put(kinesis, "one", "two", "three")
    (segment,) = data_dir.glob("streams/*/*/*.log")
    flip(segment, segment.read_bytes().index(b"HRB1", 100) + 50)
    with InProcessCloud(data_dir) as cloud:
        kinesis = cloud.client("kinesis")
        assert read(kinesis) == ["one"]
        for _ in range(3):
            with pytest.raises(ClientError, match=str(segment)) as caught:
                read(kinesis, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[0])
            assert "headrace check --repair" in str(caught.value)
        assert read(kinesis, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[2]) == ["three"]
    assert caplog.text.count(f"{segment}, byte") == 1
    code, out, err = run("check", "--repair", *where(data_dir))
    assert code == 0, err
    lost = f"1 record is missing of {SHARD}, number 2 (after sequence number {numbers[0]} and before {numbers[2]})"
    assert f"lost: {lost}" in out
    (aside,) = (path for path in (data_dir / "quarantine").rglob("*") if path.is_file())
    assert aside.read_bytes().startswith(b"HRB1")
    with InProcessCloud(data_dir) as cloud:
        assert read(cloud.client("kinesis")) == ["one", "three"]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped cloud's directory with objects of all forms, a function and a layer."""
    data_dir = tmp_path_factory.mktemp("stored") / "data"
    with InProcessCloud(data_dir) as cloud:
        s3 = cloud.client("s3")
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="plain", Body=b"plain" * 100)
        s3.put_object(Bucket="bucket", Key="no//path", Body=b"escaped" * 100)
        s3.put_object(
            Bucket="bucket", Key="sse", Body=b"sse" * 100,
            ServerSideEncryption="aws:kms", SSEKMSKeyId="alias/aws/s3",
        )  # fmt: skip
        upload = s3.create_multipart_upload(Bucket="bucket", Key="parts")["UploadId"]
        where = {"Bucket": "bucket", "Key": "parts", "UploadId": upload}
        parts = [
            {"PartNumber": n, "ETag": s3.upload_part(**where, PartNumber=n, Body=body)["ETag"]}
            for n, body in ((1, b"a" * (5 << 20)), (2, b"b" * 100))
        ]
        s3.complete_multipart_upload(**where, MultipartUpload={"Parts": parts})
        pending = s3.create_multipart_upload(Bucket="bucket", Key="pending")["UploadId"]
        s3.upload_part(
            Bucket="bucket", Key="pending", UploadId=pending, PartNumber=1, Body=b"part" * 50
        )
        functions = cloud.client("lambda")
        layer = functions.publish_layer_version(
            LayerName="l", Content={"ZipFile": zipped({"python/lib.py": "X = 1\n"})}
        )["LayerVersionArn"]
        functions.create_function(
            FunctionName="f", Runtime="python3.11", Role=ROLE, Handler="m.handler", Layers=[layer],
            Code={"ZipFile": zipped({"m.py": "def handler(e, c):\n    return 1\n"})},
        )  # fmt: skip
    # As Spark would: a file of its own, and one over what S3 wrote.
    (data_dir / "s3/bucket/of-spark").write_bytes(b"no row")
    return data_dir


def test_what_is_sound_is_sound_and_files_of_spark_are_no_damage(stored: Path):
    assert run("check", *where(stored)) == (0, f"{stored} is sound\n", "")


@pytest.mark.parametrize("key", ["plain", "sse", "parts", "escaped", "pending"])
def test_an_object_that_is_not_what_its_etag_says_is_found(stored: Path, key: str):
    path = {
        "escaped": next((stored / "s3/.headrace-escaped/bucket").iterdir()),
        "pending": next((stored / "s3/.headrace-uploads").rglob("1")),
    }.get(key, stored / "s3/bucket" / key)
    flip(path, -1)
    code, out, _ = run("check", *where(stored))
    flip(path, -1)
    assert code == 1
    (line,) = out.splitlines()
    assert str(path) in line
    assert "is not what its ETag says" in line


def test_an_object_that_was_changed_as_a_file_is_no_damage(stored: Path):
    path = stored / "s3/bucket/plain"
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(b"by Spark")
    code, out, _ = run("check", *where(stored))
    path.write_bytes(before)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert code == 0
    assert "1 object was changed or deleted as files" in out


@pytest.mark.parametrize("user", ["function f $LATEST", "layer arn:aws:lambda"])
def test_code_that_is_not_what_was_uploaded_is_found_and_unpacked_anew(stored: Path, user: str):
    name = "m.py" if user.startswith("function") else "python/lib.py"
    (file,) = (stored / "lambda/code").glob(f"*/{name}")
    before = file.read_text()
    file.write_text(before.replace("1", "2"))
    code, out, _ = run("check", *where(stored))
    assert code == 1
    assert user in out
    assert f"differs from its zip in {name}" in out
    assert run("check", "--repair", *where(stored))[0] == 0
    assert file.read_text() == before
    archive = file.parents[name.count("/")].with_suffix(".zip")
    flip(archive, -1)
    code, out, _ = run("check", "--repair", "--no-objects", *where(stored))
    flip(archive, -1)
    assert code == 1
    assert "does not match its hash; deploy it again" in out


def test_a_damaged_state_database_is_mended_as_far_as_it_can_be_read(tmp_path: Path):
    data_dir = tmp_path / "data"
    with InProcessCloud(data_dir) as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="flights", ShardCount=1)
        put(kinesis, "one", "two")
        sqs = cloud.client("sqs")
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        for n in range(250):
            sqs.send_message(QueueUrl=url, MessageBody=f"{n} " + "x" * 500)
    path = data_dir / "state.sqlite"
    with sqlite3.connect(path) as database:
        (page,) = database.execute("PRAGMA page_size").fetchone()
        pages = path.stat().st_size // page
    database.close()
    content = bytearray(path.read_bytes())
    at = pages * 2 // 3 * page
    content[at : at + page] = b"\xff" * page
    path.write_bytes(content)
    assert run("check", *where(data_dir))[0] == 1
    code, out, err = run("check", "--repair", *where(data_dir))
    assert code == 0, err
    assert "rows are saved, those on damaged pages are lost" in out
    assert (data_dir / "quarantine/state-1/state.sqlite").read_bytes() == bytes(content)
    with InProcessCloud(data_dir) as cloud:
        assert read(cloud.client("kinesis")) == ["one", "two"]
