"""Channels to streaming tables: tables of S3 Tables whose columns a schema in Glue's registry says."""

from __future__ import annotations

import gzip
import json
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.clock import MovableClock
from tests.api.cloudformation.test_stacks import create
from tests.api.kinesis.channels.lab import (
    AT,
    SCHEMA,
    SCHEMA_ARN,
    TABLES_ARN,
    TablesLab,
    request,
    to_table,
)
from tests.api.kinesis.streams import failure
from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.tables import read_rows, read_table


@pytest.fixture
def lab(data_dir: Path) -> Iterator[TablesLab]:
    clock = MovableClock()
    with InProcessCloud(data_dir, clock=clock) as cloud:
        made = TablesLab(cloud, clock)
        made.build()
        yield made


def test_records_become_rows_of_a_table_that_the_channel_makes(lab: TablesLab):
    arn = lab.create()
    described = lab.described(arn)
    assert described["ChannelStatus"] == "ACTIVE"
    shown = described["S3TablesDestinationConfiguration"]
    assert (
        shown["S3TablesConfigurationList"]
        == (to_table()["S3TablesDestinationConfiguration"]["S3TablesConfigurationList"])
    )
    assert shown["DataFreshnessInSeconds"] == 300
    (stream,) = described["StreamConfigurationList"]
    assert stream["RecordConfiguration"] == {
        "RecordFormatType": "JSON",
        "GSRSchemaARN": SCHEMA_ARN,
    }
    (summary,) = lab.kinesis.list_channels()["ChannelSummaries"]
    assert summary["ChannelDestinationType"] == "S3_TABLES"

    rows = [{"id": n, "at": AT, "price": n / 4, "tags": ["a"]} for n in range(3)]
    lab.put(*(json.dumps(row).encode() for row in rows))
    lab.put(
        b'{"id": 7}',
        b'{"id": "8", "at": "2026-03-04T05:06:07Z"}',
        b'{"id": 9, "at": "tomorrow"}',
        b"no JSON",
    )
    lab.deliver()
    table = read_table(lab.cloud, TABLES_ARN, "air", "flights")
    assert [(f.name, str(f.field_type), f.required) for f in table.schema().fields] == [
        ("id", "int", True),
        ("at", "timestamptz", True),
        ("price", "decimal(38, 2)", False),
        ("tags", "list<string>", False),
    ]
    assert [str(field.transform) for field in table.spec().fields] == ["hour"]
    assert table.properties["write.parquet.compression-codec"] == "zstd"
    stored = read_rows(table)
    assert sorted(row["id"] for row in stored) == [0, 1, 2]
    assert {row["at"].isoformat() for row in stored} == {"2026-03-04T05:06:07+00:00"}
    assert sorted(float(row["price"]) for row in stored) == [0.0, 0.25, 0.5]
    letters = lab.letters()
    assert sorted(letter["errorCode"] for letter in letters) == [
        "Iceberg.InvalidRecord",
        "Iceberg.MissingColumnWithinRecord",
        "Iceberg.SchemaTypeMismatch",
        "Iceberg.SchemaValidationFailed",
    ]
    assert all(letter["sequenceNumber"] for letter in letters)


def test_what_the_cdks_l1_synthesises_delivers(data_dir: Path):
    """aws-cdk-lib 2.275's CfnChannel, to a table and to a bucket: channels_of_cdk.json is its output."""
    clock = MovableClock()
    with InProcessCloud(data_dir, clock=clock) as cloud:
        cfn, lab = cloud.client("cloudformation"), TablesLab(cloud, clock)
        body = Path(__file__).with_name("channels_of_cdk.json").read_text()
        assert create(cfn, json.loads(body), Capabilities=["CAPABILITY_IAM"]) == "CREATE_COMPLETE"
        record = f'{{"id": 1, "at": "{AT}"}}'.encode()
        lab.put(record)
        lab.deliver()
        rows = read_rows(read_table(cloud, TABLES_ARN, "air", "flights"))
        assert [row["id"] for row in rows] == [1]
        lake = next(
            one["Name"] for one in lab.s3.list_buckets()["Buckets"] if "lake" in one["Name"]
        )
        assert [gzip.decompress(one) for one in lab.bodies(lake)] == [record]


def test_records_with_the_registrys_header(lab: TablesLab):
    lab.create(kind="GSR_JSON")
    body = json.dumps({"id": 1, "at": AT}).encode()
    version = uuid.UUID(lab.version_id).bytes
    lab.put(
        b"\x03\x00" + version + body,
        b"\x03\x05" + version + zlib.compress(body.replace(b"1", b"2", 1)),
        body,
        b"\x03\x00" + uuid.uuid4().bytes + body,
        b"\x03\x05" + version + zlib.compress(body)[:-1],
        b"\x03\x07" + version + body,
    )
    lab.deliver()
    table = read_table(lab.cloud, TABLES_ARN, "air", "flights")
    assert sorted(row["id"] for row in read_rows(table)) == [1, 2]
    assert [letter["errorCode"] for letter in lab.letters()] == ["Iceberg.InvalidRecord"] * 4


def test_a_stream_has_a_channel_of_each_kind_and_a_later_schema_changes_nothing(lab: TablesLab):
    lab.create()
    lab.channel()
    second = {**to_table(table={"TableName": "other"}), "ChannelName": "u"}
    assert failure(lab.kinesis.create_channel, **second).code == "LimitExceededException"
    newer = {**SCHEMA, "properties": {**SCHEMA["properties"], "more": {"type": "string"}}}
    lab.glue.register_schema_version(
        SchemaId={"SchemaArn": SCHEMA_ARN}, SchemaDefinition=json.dumps(newer)
    )
    lab.put(json.dumps({"id": 1, "at": AT, "more": "x"}).encode())
    lab.deliver()
    table = read_table(lab.cloud, TABLES_ARN, "air", "flights")
    assert [row["id"] for row in read_rows(table)] == [1]
    assert "more" not in table.schema().column_names
    assert len(lab.keys()) == 1


def test_a_channel_goes_on_after_a_restart_and_its_settings_change(data_dir: Path):
    clock = MovableClock()
    with InProcessCloud(data_dir, clock=clock) as cloud:
        lab = TablesLab(cloud, clock)
        lab.build()
        arn = lab.create()
        lab.put(json.dumps({"id": 1, "at": AT}).encode())
    with InProcessCloud(data_dir, clock=clock) as cloud:
        lab = TablesLab(cloud, clock)
        lab.put(json.dumps({"id": 2, "at": AT}).encode())
        lab.deliver()
        table = read_table(lab.cloud, TABLES_ARN, "air", "flights")
        assert sorted(row["id"] for row in read_rows(table)) == [1, 2]
        change = {"DataFreshnessInSeconds": 600}
        wrong = failure(
            lab.kinesis.update_channel, ChannelARN=arn, S3DestinationConfiguration=change
        )
        assert wrong.code == "ValidationException"
        lab.kinesis.update_channel(ChannelARN=arn, S3TablesDestinationConfiguration=change)
        shown = lab.described(arn)["S3TablesDestinationConfiguration"]
        assert shown["DataFreshnessInSeconds"] == 600
        lab.kinesis.delete_channel(ChannelARN=arn)
        # What was delivered stays, and so nobody else can have the table.
        assert "exists already" in lab.reason(lab.create())


def test_a_deleted_table_ends_the_channel(lab: TablesLab):
    arn = lab.create()
    lab.tables.delete_table(tableBucketARN=TABLES_ARN, namespace="air", name="flights")
    lab.put(json.dumps({"id": 1, "at": AT}).encode())
    lab.deliver()
    assert lab.reason(arn) == "The table air.flights does not exist any more."


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"table": {"TableBucketARN": f"{TABLES_ARN}-2"}}, "does not exist"),
        ({"table": {"TableBucketARN": TABLES_ARN.replace(ACCOUNT, "111122223333")}}, "account"),
        (
            {
                "table": {
                    "PartitionSpec": {
                        "PartitionFields": [{"Transform": "TIME_HOUR", "SourceName": "id"}]
                    }
                }
            },
            "not of the type timestamptz",
        ),
        ({"schema": "nowhere"}, "cannot be resolved"),
        ({"schema": "avro"}, "AVRO"),
        ({"schema": "all_of"}, "allOf"),
    ],
    ids=["bucket", "account", "partition", "schema", "avro", "keyword"],
)
def test_what_cannot_become_a_table_fails_the_channel(
    lab: TablesLab, change: dict[str, Any], sentence: str
):
    name = change.pop("schema", "")
    if name == "avro":
        lab.register(name, {"type": "record", "name": "r", "fields": []}, "AVRO")
    if name == "all_of":
        lab.register(name, {"type": "object", "properties": {"at": {"allOf": [{}]}}})
    given = to_table(**change)
    if name:
        records = given["StreamConfigurationList"][0]["RecordConfiguration"]
        records["GSRSchemaARN"] = SCHEMA_ARN.replace("flights", name)
    arn = lab.kinesis.create_channel(**given)["ChannelDescription"]["ChannelARN"]
    assert sentence in lab.reason(arn)


def without(given: dict[str, Any], *path: Any) -> dict[str, Any]:
    part: Any = given
    for key in path[:-1]:
        part = part[key]
    del part[path[-1]]
    return given


@pytest.mark.parametrize(
    "given",
    [
        to_table(kind="STRING"),
        without(to_table(), "StreamConfigurationList", 0, "RecordConfiguration", "GSRSchemaARN"),
        without(
            to_table(),
            "S3TablesDestinationConfiguration",
            "S3TablesConfigurationList",
            0,
            "PartitionSpec",
        ),
        without(to_table(), "S3TablesDestinationConfiguration", "DeadLetterQueueS3Configuration"),
        to_table(table={"Namespace": "Air"}),
        {**to_table(), "S3DestinationConfiguration": request()["S3DestinationConfiguration"]},
    ],
    ids=["string", "schema", "partition", "letters", "name", "both"],
)
def test_refusals(lab: TablesLab, given: dict[str, Any]):
    assert failure(lab.kinesis.create_channel, **given).code == "ValidationException"
    assert lab.kinesis.list_channels()["ChannelSummaries"] == []
