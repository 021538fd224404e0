"""S3 Tables: files of tables, the metadata that CreateTable writes, what stays when it is not empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from tests.api.kinesis.streams import failure
from tests.support.cloud import InProcessCloud

FIELDS = [
    {"name": "id", "type": "long", "required": True},
    {"name": "at", "type": "timestamptz"},
]
HOURLY = {"fields": [{"sourceId": 2, "transform": "hour", "name": "at_hour"}]}


def create_table(cloud: InProcessCloud, name: str, **iceberg: Any) -> dict[str, Any]:
    tables = cloud.client("s3tables")
    present = tables.list_table_buckets()["tableBuckets"]
    bucket = present[0]["arn"] if present else tables.create_table_bucket(name="lake")["arn"]
    if not tables.list_namespaces(tableBucketARN=bucket)["namespaces"]:
        tables.create_namespace(tableBucketARN=bucket, namespace=["ns"])
    named = {"tableBucketARN": bucket, "namespace": "ns", "name": name}
    more = {"metadata": {"iceberg": iceberg}} if iceberg else {}
    tables.create_table(**named, format="ICEBERG", **more)
    return named


def split(location: str) -> dict[str, str]:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": key}


@pytest.fixture
def cloud(data_dir: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir) as cloud:
        yield cloud


def test_files_and_metadata_of_a_table_outlive_a_restart(data_dir: Path, tmp_path: Path):
    with InProcessCloud(data_dir) as cloud:
        named = create_table(
            cloud,
            "t",
            schema={"fields": FIELDS},
            partitionSpec=HOURLY,
            writeOrder={
                "orderId": 1,
                "fields": [
                    {
                        "sourceId": 1,
                        "transform": "identity",
                        "direction": "asc",
                        "nullOrder": "nulls-last",
                    }
                ],
            },
            properties={"a": "b"},
        )
    with InProcessCloud(data_dir) as cloud:
        tables, s3 = cloud.client("s3tables"), cloud.client("s3")
        at = tables.get_table_metadata_location(**named)
        body = s3.get_object(**split(at["metadataLocation"]))["Body"].read()
        (tmp_path / "t.metadata.json").write_bytes(body)
        table = StaticTable.from_metadata(str(tmp_path / "t.metadata.json"))
        assert [(f.name, str(f.field_type), f.required) for f in table.schema().fields] == [
            ("id", "long", True),
            ("at", "timestamptz", False),
        ]
        assert [str(field.transform) for field in table.spec().fields] == ["hour"]
        assert [field.source_id for field in table.sort_order().fields] == [1]
        assert table.properties == {"a": "b"}
        s3.put_object(Bucket=split(at["warehouseLocation"])["Bucket"], Key="data/f", Body=b"x")
        new = f"{at['warehouseLocation']}/metadata/new.metadata.json"
        changed = tables.update_table_metadata_location(
            **named, versionToken=at["versionToken"], metadataLocation=new
        )
        assert tables.get_table(**named)["metadataLocation"] == new
        outdated = failure(
            lambda: tables.update_table_metadata_location(
                **named, versionToken=at["versionToken"], metadataLocation=new
            )
        )
        assert outdated.code == "ConflictException"
        assert changed["versionToken"] != at["versionToken"]


def test_a_tables_bucket_is_no_general_purpose_bucket(cloud: InProcessCloud):
    named = create_table(cloud, "t")
    tables, s3 = cloud.client("s3tables"), cloud.client("s3")
    bucket = split(tables.get_table(**named)["warehouseLocation"])["Bucket"]
    s3.put_object(Bucket=bucket, Key="data/f", Body=b"x")
    assert s3.list_buckets()["Buckets"] == []
    refused = [
        lambda: s3.list_objects_v2(Bucket=bucket),
        lambda: s3.delete_object(Bucket=bucket, Key="data/f"),
        lambda: s3.delete_bucket(Bucket=bucket),
        lambda: s3.put_bucket_policy(Bucket=bucket, Policy="{}"),
    ]
    assert {failure(call).code for call in refused} == {"MethodNotAllowed"}
    assert s3.head_object(Bucket=bucket, Key="data/f")["ContentLength"] == 1
    assert failure(lambda: s3.create_bucket(Bucket="my--table-s3")).code == "InvalidBucketName"
    tables.delete_table(**named)
    gone = failure(lambda: s3.get_object(Bucket=bucket, Key="data/f"))
    assert gone.code == "NoSuchBucket"


def test_what_is_not_empty_stays(cloud: InProcessCloud):
    named = create_table(cloud, "t")
    tables, bucket = cloud.client("s3tables"), named["tableBucketARN"]
    refused = failure(lambda: tables.delete_namespace(tableBucketARN=bucket, namespace="ns"))
    assert refused.code == "ConflictException"
    refused = failure(lambda: tables.delete_table_bucket(tableBucketARN=bucket))
    assert refused.code == "ConflictException"
    tables.delete_table(**named)
    tables.delete_namespace(tableBucketARN=bucket, namespace="ns")
    tables.delete_table_bucket(tableBucketARN=bucket)
    assert tables.list_table_buckets()["tableBuckets"] == []


@pytest.mark.parametrize(
    "schema",
    [
        {"fields": [{"name": "id", "type": "varchar"}]},
        {"fields": []},
        {"fields": [{"id": 1, "name": "a", "type": "int"}, {"id": 1, "name": "b", "type": "int"}]},
    ],
    ids=["type", "empty", "ids"],
)
def test_a_schema_that_iceberg_does_not_have_leaves_no_table(
    cloud: InProcessCloud, schema: dict[str, Any]
):
    assert failure(lambda: create_table(cloud, "t", schema=schema)).code == "BadRequestException"
    (bucket,) = cloud.client("s3tables").list_table_buckets()["tableBuckets"]
    assert cloud.client("s3tables").list_tables(tableBucketARN=bucket["arn"])["tables"] == []
