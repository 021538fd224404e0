"""What a delivery wrote: its failed records, put again once each, and its Parquet files as tables."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.testing.waiting import until
from tests.dashboard.pipeline import make_conversion
from tests.dashboard.test_api import get, post
from tests.support.cloud import InProcessCloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("deliveries") / "data", limits="off") as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        make_conversion(cloud.client)
        until(lambda: objects(cloud, "failed/") and objects(cloud, "words/"), timeout_s=30)
        yield cloud


def objects(cloud: InProcessCloud, prefix: str) -> list[str]:
    listed = cloud.client("s3").list_objects_v2(Bucket="lake", Prefix=prefix)
    return [one["Key"] for one in listed.get("Contents", ())]


def put_object(cloud: InProcessCloud, key: str, body: bytes) -> None:
    cloud.client("s3").put_object(Bucket="lake", Key=key, Body=body)


def error_line(data: bytes, code: str) -> bytes:
    line = {"errorCode": code, "errorMessage": "why", "rawData": base64.b64encode(data).decode()}
    return json.dumps(line).encode() + b"\n"


def opened(cloud: InProcessCloud, key: str, status: int = 200) -> Any:
    return get(cloud, "deliveries/words/object", f"key={quote(key)}", status)


def test_failed_records_are_listed_with_their_reason(cloud: InProcessCloud) -> None:
    answer = get(cloud, "deliveries/words/failed")
    (record,) = answer["objects"][0]["records"]
    assert record["code"] == "DataFormatConversion.MalformedData"
    assert record["message"].endswith('For input string: "no number"')
    assert json.loads(record["payload"]["data"])["n"] == "no number"
    assert (answer["target"], record["isSent"]) == ("firehose:words", False)


def test_failed_records_are_put_again_once(cloud: InProcessCloud) -> None:
    key = "failed/again/1"
    put_object(cloud, key, error_line(b'{"n": 7, "word": "fig"}', "Some.Reason"))
    value = {"delivery": "words", "key": key}
    assert post(cloud, "redrive-failed", value, token="wrong")[0] == 403
    assert post(cloud, "redrive-failed", value)[1]["sent"] == 1
    assert post(cloud, "redrive-failed", value)[1] == {
        "target": "firehose:words",
        "sent": 0,
        "before": 1,
        "uncertain": 0,
    }
    listed = {one["key"]: one for one in get(cloud, "deliveries/words/failed")["objects"]}
    assert (listed[key]["sent"], listed[key]["records"][0]["isSent"]) == (1, True)


def test_only_the_delivery_s_own_objects_are_put_again_or_opened(cloud: InProcessCloud) -> None:
    put_object(cloud, "other/1", error_line(b"x", "C"))
    value = {"delivery": "words", "key": "other/1"}
    status, answer = post(cloud, "redrive-failed", value)
    assert (status, "no object of words" in answer["message"]) == (400, True)
    assert "no object of words" in opened(cloud, "other/1", 400)["message"]
    assert opened(cloud, "words/gone", 404)["operation"] == "HeadObject"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"no line of Firehose", "is not an error line"),
        (gzip.compress(b"\0" * (17 * 1024 * 1024), mtime=0), "has more than 16,777,216 bytes"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-20], "cannot be decompressed"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xff\xff", "cannot be decompressed"),
        (b"PK\x03\x04 no archive", "cannot be decompressed"),
    ],
)
def test_an_object_that_cannot_be_read_is_named(
    cloud: InProcessCloud, body: bytes, sentence: str
) -> None:
    key = "failed/zz/bad"
    put_object(cloud, key, body)
    try:
        listed = {one["key"]: one for one in get(cloud, "deliveries/words/failed")["objects"]}
        assert sentence in listed[key]["problem"]
        status, answer = post(cloud, "redrive-failed", {"delivery": "words", "key": key})
        assert (status, sentence in answer["message"]) == (400, True)
    finally:
        cloud.client("s3").delete_object(Bucket="lake", Key=key)


def test_a_parquet_file_is_a_table(cloud: InProcessCloud) -> None:
    table = min(
        (opened(cloud, key) for key in objects(cloud, "words/")), key=lambda one: one["rows"]
    )
    assert [one["name"] for one in table["columns"]] == ["n", "word"]
    assert table["rows"] == [["1", "pear"], ["3", None]]
    assert table["total"] == 2


def test_a_large_or_damaged_file_has_bounds(cloud: InProcessCloud) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"n": range(5_000), "long": ["x" * 2_000] * 5_000}), file)
    put_object(cloud, "words/many", file.getvalue())
    table = opened(cloud, "words/many")
    assert (len(table["rows"]), table["total"]) == (100, 5_000)
    assert len(table["rows"][0][1]) == 500
    put_object(cloud, "words/cut", file.getvalue()[:5_000])
    assert "cannot be read" in opened(cloud, "words/cut", 400)["message"]
    # A kilobyte of file whose first rows are 800 MB of text.
    file = io.BytesIO()
    one = pa.array(["\0" * (8 << 20)])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 100), one)
    most = 16 << 20
    bomb = pa.table({"a": column})
    pq.write_table(
        bomb, file, compression="zstd", dictionary_pagesize_limit=most, store_schema=False
    )
    put_object(cloud, "words/bomb", file.getvalue())
    answer = opened(cloud, "words/bomb", 400)["message"]
    assert "memory" in answer or "cannot be read" in answer


def test_a_delivery_that_reads_a_stream_gets_them_by_the_stream(cloud: InProcessCloud) -> None:
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName="source", ShardCount=1)
    arn = kinesis.describe_stream_summary(StreamName="source")["StreamDescriptionSummary"][
        "StreamARN"
    ]
    role = "arn:aws:iam::000000000000:role/r"
    cloud.client("firehose").create_delivery_stream(
        DeliveryStreamName="by-stream",
        DeliveryStreamType="KinesisStreamAsSource",
        KinesisStreamSourceConfiguration={"KinesisStreamARN": arn, "RoleARN": role},
        ExtendedS3DestinationConfiguration={"RoleARN": role, "BucketARN": "arn:aws:s3:::lake"},
    )
    put_object(cloud, "processing-failed/2026/1", error_line(b"again", "Lambda.X"))
    answer = get(cloud, "deliveries/by-stream/failed")
    keys = {one["key"] for one in answer["objects"]}
    assert (answer["target"], "processing-failed/2026/1" in keys, "words/many" in keys) == (
        "kinesis:source",
        True,
        False,
    )
    value = {"delivery": "by-stream", "key": "processing-failed/2026/1"}
    assert post(cloud, "redrive-failed", value)[1]["sent"] == 1
    records = get(cloud, "streams/source/records", "position=oldest")["records"]
    assert [one["payload"]["data"] for one in records] == ["again"]


def test_without_pyarrow_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    import runpy
    import sys

    from headrace.dashboard import objects as module

    kept = {name: sys.modules.get(name) for name in ("pyarrow", "pyarrow.parquet")}
    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    try:
        program = Path(module.__file__).with_name("parquet_child.py")
        answer = json.loads(runpy.run_path(str(program))["answer"](b"PAR1"))
    finally:
        for name, one in kept.items():
            if one is not None:
                sys.modules[name] = one
    assert answer == {
        "problem": "To open Parquet files, install pyarrow: pip install 'pyarrow>=21'."
    }
