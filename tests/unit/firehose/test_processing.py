"""The processors before the function, aggregates of the KPL, backup, and ORC."""

from __future__ import annotations

import base64
import gzip
import io
import json
from datetime import datetime
from hashlib import md5
from pathlib import Path
from typing import Any

import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from headrace.services.firehose.processing import (
    MAGIC,
    UnsplittableRecord,
    inflate_logs,
    split_aggregate,
)
from tests.unit.firehose.helpers import CONVERSION, FUNCTION, INTERVAL_S, Lab, several
from tests.unit.firehose.test_partitions import PARTITIONED
from tests.unit.firehose.test_transform import upper

EVENTS = [{"id": "1", "timestamp": 1, "message": "one"}, {"id": "2", "timestamp": 2, "message": ""}]
ENVELOPE = {"messageType": "DATA_MESSAGE", "owner": "1", "logGroup": "g", "logEvents": EVENTS}


def packed(envelope: Any) -> bytes:
    return gzip.compress(json.dumps(envelope).encode(), mtime=0)


def logs(tmp_path: Path, *, messages: bool, **more: Any) -> Lab:
    kinds: list[tuple[str, dict[str, str]]] = [("Decompression", {"CompressionFormat": "GZIP"})]
    if messages:
        kinds.append(("CloudWatchLogProcessing", {"DataMessageExtraction": "true"}))
    return Lab(tmp_path, ProcessingConfiguration=several(*kinds), **more)


def failures(lab: Lab, kind: str) -> list[dict[str, Any]]:
    (key,) = [key for key in lab.objects.objects if kind in key]
    return [json.loads(line) for line in lab.objects.objects[key].splitlines()]


def test_log_messages_are_taken_out_of_their_envelopes(tmp_path: Path):
    lab = logs(tmp_path, messages=True)
    lab.put(packed(ENVELOPE), packed({"messageType": "CONTROL_MESSAGE", "logEvents": []}))
    lab.deliver()
    assert lab.delivered == b"one\n\n"


def test_without_the_messages_the_envelopes_json_is_delivered(tmp_path: Path):
    lab = logs(tmp_path, messages=False)
    lab.put(packed(ENVELOPE))
    lab.deliver()
    assert json.loads(lab.delivered) == ENVELOPE


@pytest.mark.parametrize("data", [b"plain", packed([1]), packed({"a": 1}), packed(ENVELOPE)[:20]])
def test_what_is_no_log_goes_to_the_error_output_as_it_came(tmp_path: Path, data: bytes):
    lab = logs(tmp_path, messages=True)
    lab.put(data)
    lab.deliver()
    (line,) = failures(lab, "decompression-failed")
    # The code, which is a sentence, as others saw it on AWS, 2026.
    assert line["errorCode"] == "Decompression failed."
    assert base64.b64decode(line["rawData"]) == data


def test_a_bomb_is_not_inflated():
    with pytest.raises(UnsplittableRecord, match="inflates to more than"):
        inflate_logs(gzip.compress(bytes(65 * 1024 * 1024)))


def splitting(tmp_path: Path, **parameters: str) -> Lab:
    pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
    extraction = {"MetadataExtractionQuery": "{c:.c}", "JsonParsingEngine": "JQ-1.6"}
    kinds = several(("RecordDeAggregation", parameters), ("MetadataExtraction", extraction))
    return Lab(tmp_path, **{**PARTITIONED, "ProcessingConfiguration": kinds})


@pytest.mark.parametrize(
    ("parameters", "data"),
    [
        ({"SubRecordType": "JSON"}, b'{"c":"a"}{"c":"b"}\n {"c":null}'),
        (
            {"SubRecordType": "DELIMITED", "Delimiter": "IyM="},
            b'{"c":"a"}##{"c":"b"}##{"c":null}##',
        ),
    ],
)
def test_an_aggregates_parts_are_partitioned_each_for_itself(
    tmp_path: Path, parameters: dict[str, str], data: bytes
):
    lab = splitting(tmp_path, **parameters)
    lab.put(data)
    lab.deliver()
    assert sorted(body for key, body in lab.objects.objects.items() if "/in/" in key) == [
        b'{"c":"a"}',
        b'{"c":"b"}',
    ]
    # Only the part that failed: the others must not come back with it.
    (line,) = failures(lab, "processing-failed")
    assert base64.b64decode(line["rawData"]) == b'{"c":null}'


@pytest.mark.parametrize("data", [b"[1]", b'{"c":1} x', b"", b"{}" * 501])
def test_what_cannot_be_split_fails_whole(tmp_path: Path, data: bytes):
    lab = splitting(tmp_path, SubRecordType="JSON")
    lab.put(data)
    lab.deliver()
    (line,) = failures(lab, "processing-failed")
    assert base64.b64decode(line["rawData"]) == data


# --- aggregates of the KPL --------------------------------------------------------------------


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def aggregate(*users: tuple[str, bytes]) -> bytes:
    """Return an aggregate of short user records, as the KPL's format is described."""
    body = b"".join(_field(1, key.encode()) for key, _ in users)
    for number, (_, data) in enumerate(users):
        body += _field(3, b"\x08" + bytes([number]) + _field(3, data))
    return MAGIC + body + md5(body, usedforsecurity=False).digest()


def test_aggregates_of_the_kpl_are_taken_apart(tmp_path: Path):
    lab = Lab(tmp_path, ProcessingConfiguration=several(("Lambda", {"LambdaArn": FUNCTION})))
    lab.functions.functions[FUNCTION] = upper
    lab.put(aggregate(("k1", b"one,"), ("k2", b"two,")), b"three")
    lab.deliver()
    assert lab.delivered == b"ONE,TWO,THREE"
    metadata = [record["kinesisRecordMetadata"] for record in lab.functions.events[0]["records"]]
    assert [(m["partitionKey"], m["subsequenceNumber"]) for m in metadata] == [
        ("k1", 0),
        ("k2", 1),
        ("key", 0),
    ]
    assert len({record["recordId"] for record in lab.functions.events[0]["records"]}) == 3


@pytest.mark.parametrize("data", [b"", MAGIC, MAGIC + bytes(20), aggregate(("k", b"x"))[:-1]])
def test_what_only_looks_like_an_aggregate_is_passed_on(data: bytes):
    assert split_aggregate(data) is None


# --- backup, formats --------------------------------------------------------------------------


def test_the_backup_has_the_records_as_they_came(tmp_path: Path):
    lab = Lab(
        tmp_path,
        ProcessingConfiguration=several(
            ("Lambda", {"LambdaArn": FUNCTION}), ("AppendDelimiterToRecord", {})
        ),
        S3BackupMode="Enabled",
        S3BackupConfiguration={
            "BucketARN": "arn:aws:s3:::attic",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": INTERVAL_S},
            "Prefix": "raw/",
            "CompressionFormat": "GZIP",
        },
    )
    lab.functions.functions[FUNCTION] = upper
    lab.put(b"one", b"two")
    lab.deliver()
    (saved,) = [key for key in lab.objects.objects if key.startswith("attic/raw/")]
    assert saved.endswith(".gz")
    assert gzip.decompress(lab.objects.objects[saved]) == b"one\ntwo"
    assert [b for k, b in lab.objects.objects.items() if k.startswith("lake/")] == [b"ONE\nTWO"]
    metrics = {metric.name: metric.value for metric in lab.metrics.metrics}
    assert (metrics["BackupToS3.Records"], metrics["BackupToS3.Bytes"]) == (2, 6)


def converting(serializer: dict[str, Any], deserializer: dict[str, Any]) -> dict[str, Any]:
    given = {
        **CONVERSION["DataFormatConversionConfiguration"],
        "InputFormatConfiguration": {"Deserializer": deserializer},
        "OutputFormatConfiguration": {"Serializer": serializer},
    }
    return {**CONVERSION, "DataFormatConversionConfiguration": given}


def test_orc_with_its_options_is_read_back(tmp_path: Path):
    options = {
        "Compression": "ZLIB",
        "StripeSizeBytes": 8 * 1024 * 1024,
        "RowIndexStride": 1000,
        "FormatVersion": "V0_11",
        "BloomFilterColumns": ["a"],
        "EnablePadding": True,
    }
    lab = Lab(tmp_path, **converting({"OrcSerDe": options}, {"OpenXJsonSerDe": {}}))
    lab.put(b'{"a": 1}', b'{"a": 2}', b"nonsense")
    lab.deliver()
    (key,) = [key for key in lab.objects.objects if key.endswith(".orc")]
    file = orc.ORCFile(io.BytesIO(lab.objects.objects[key]))
    assert file.read().to_pylist() == [{"a": 1}, {"a": 2}]
    assert (file.compression, file.file_version, file.row_index_stride) == ("ZLIB", "0.11", 1000)
    assert len(failures(lab, "format-conversion-failed")) == 1


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("dd/MM/yyyy HH:mm", "07/03/2026 04:05", datetime(2026, 3, 7, 4, 5)),
        ("dd MMM yyyy hh:mm:ss a", "07 Mar 2026 04:05:06 PM", datetime(2026, 3, 7, 16, 5, 6)),
        ("yyyy-MM-dd'T'HH:mm:ssZ", "2026-03-07T04:05:06+0200", datetime(2026, 3, 7, 2, 5, 6)),
        ("millis", 1_700_000_000_000, datetime(2023, 11, 14, 22, 13, 20)),
    ],
)
def test_the_hive_serdes_timestamp_formats(
    tmp_path: Path, pattern: str, value: Any, expected: datetime
):
    hive = {"HiveJsonSerDe": {"TimestampFormats": [pattern]}}
    lab = Lab(tmp_path, **converting({"ParquetSerDe": {}}, hive))
    lab.schemas.columns = (("a", "timestamp"),)
    lab.put(json.dumps({"a": value}).encode())
    lab.deliver()
    (body,) = lab.objects.objects.values()
    (row,) = pq.read_table(io.BytesIO(body)).to_pylist()
    assert row["a"] == expected
