"""Glue's tables change by their version, and CreateTable with OpenTableFormatInput makes an Iceberg table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pyiceberg.table.metadata import TableMetadataUtil

from tests.support.cloud import InProcessCloud

ICEBERG = {"IcebergInput": {"MetadataOperation": "CREATE", "Version": "2"}}
COLUMNS = [
    {"Name": "id", "Type": "bigint", "Comment": "the key"},
    {"Name": "price", "Type": "decimal(10,2)"},
    {"Name": "at", "Type": "timestamp"},
    {"Name": "tags", "Type": "map<string,array<struct<a:int,b:string>>>"},
]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("glue") / "data") as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        cloud.client("glue").create_database(DatabaseInput={"Name": "db"})
        yield cloud


@pytest.fixture
def glue(cloud: InProcessCloud) -> Iterator[Any]:
    client = cloud.client("glue")
    yield client
    for table in client.get_tables(DatabaseName="db")["TableList"]:
        client.delete_table(DatabaseName="db", Name=table["Name"])


def storage(*columns: dict[str, str]) -> dict[str, Any]:
    return {"Location": "s3://lake/t", "Columns": list(columns)}


def make(glue: Any, **table: Any) -> dict[str, Any]:
    given = {"Name": "t", "StorageDescriptor": storage(*COLUMNS), **table}
    glue.create_table(DatabaseName="db", TableInput=given, OpenTableFormatInput=ICEBERG)
    return glue.get_table(DatabaseName="db", Name="t")["Table"]


def metadata_of(cloud: InProcessCloud, table: dict[str, Any]) -> Any:
    bucket, _, key = table["Parameters"]["metadata_location"][5:].partition("/")
    body = cloud.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    # pyiceberg checks every member.
    return TableMetadataUtil.parse_raw(body.decode())


def test_an_iceberg_table_has_its_first_metadata(cloud: InProcessCloud, glue: Any):
    table = make(glue)
    assert table["Parameters"]["table_type"] == "ICEBERG"
    metadata = metadata_of(cloud, table)
    assert metadata.format_version == 2
    assert metadata.location == "s3://lake/t"
    assert [str(column) for column in metadata.schema().columns] == [
        "1: id: optional long (the key)",
        "2: price: optional decimal(10, 2)",
        "3: at: optional timestamp",
        "4: tags: optional map<string, list<struct<8: a: optional int, 9: b: optional string>>>",
    ]
    assert metadata.last_column_id == 9
    columns = table["StorageDescriptor"]["Columns"]
    assert [(column["Name"], column["Type"]) for column in columns] == [
        (column["Name"], column["Type"]) for column in COLUMNS
    ]


def test_an_iceberg_schema_is_taken_as_it_is(cloud: InProcessCloud, glue: Any):
    iceberg = {
        "Location": "s3://lake/u",
        "Schema": {
            "Type": "struct",
            "IdentifierFieldIds": [1],
            "Fields": [
                {"Id": 1, "Name": "id", "Type": "long", "Required": True},
                {"Id": 2, "Name": "day", "Type": "date", "Required": False, "Doc": "d"},
            ],
        },
        "PartitionSpec": {
            "Fields": [{"SourceId": 2, "Transform": "identity", "Name": "day", "FieldId": 1000}]
        },
        "WriteOrder": {
            "OrderId": 1,
            "Fields": [
                {
                    "SourceId": 1,
                    "Transform": "identity",
                    "Direction": "asc",
                    "NullOrder": "nulls-last",
                }
            ],
        },
        "Properties": {"write.parquet.compression-codec": "snappy"},
    }
    given = {"IcebergInput": {"MetadataOperation": "CREATE", "CreateIcebergTableInput": iceberg}}
    glue.create_table(DatabaseName="db", Name="u", OpenTableFormatInput=given)
    metadata = metadata_of(cloud, glue.get_table(DatabaseName="db", Name="u")["Table"])
    assert metadata.schema().identifier_field_names() == {"id"}
    assert str(metadata.spec().fields[0]) == "1000: day: identity(2)"
    assert metadata.sort_order_by_id(1).fields[0].source_id == 1
    assert metadata.properties == {"write.parquet.compression-codec": "snappy"}


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"StorageDescriptor": storage({"Name": "a", "Type": "tinyint"})}, "tinyint"),
        ({"StorageDescriptor": storage({"Name": "a", "Type": "map<int>"})}, "map<int>"),
        ({"StorageDescriptor": storage()}, "needs a column"),
        ({"StorageDescriptor": {"Columns": COLUMNS}}, "needs a location in S3"),
        ({"PartitionKeys": [{"Name": "p", "Type": "int"}]}, "Cannot create partitions"),
    ],
)
def test_what_no_iceberg_table_can_have_is_refused(glue: Any, table: Any, sentence: str):
    with pytest.raises(ClientError) as caught:
        make(glue, **table)
    error = caught.value.response["Error"]
    assert error["Code"] == "InvalidInputException"
    assert sentence in error["Message"]
    assert glue.get_tables(DatabaseName="db")["TableList"] == []


def test_a_table_that_is_there_is_not_made_again(cloud: InProcessCloud, glue: Any):
    first = make(glue)["Parameters"]["metadata_location"]
    with pytest.raises(ClientError) as caught:
        make(glue)
    assert caught.value.response["Error"]["Code"] == "AlreadyExistsException"
    table = glue.get_table(DatabaseName="db", Name="t")["Table"]
    assert table["Parameters"]["metadata_location"] == first


def test_a_table_changes_as_it_was_at_a_version(glue: Any):
    """Iceberg's optimistic lock. Its sentence is AWS's (observed by others)."""
    before = make(glue)["VersionId"]
    change = {"DatabaseName": "db", "TableInput": {"Name": "t", "Description": "one"}}
    glue.update_table(**change, VersionId=before, SkipArchive=True)
    with pytest.raises(ClientError) as caught:
        glue.update_table(**change, VersionId=before)
    assert caught.value.response["Error"] == {
        "Code": "ConcurrentModificationException",
        "Message": "Update table failed due to concurrent modifications.",
    }
    glue.update_table(**change)
    versions = glue.get_table_versions(DatabaseName="db", TableName="t")["TableVersions"]
    # What was before the change that skipped the archive is gone.
    assert {version["VersionId"] for version in versions} == {"2", "3"}


def test_a_stack_makes_and_changes_an_iceberg_table(cloud: InProcessCloud, glue: Any):
    def template(description: str) -> str:
        properties = {
            "CatalogId": {"Ref": "AWS::AccountId"},
            "DatabaseName": "db",
            "OpenTableFormatInput": ICEBERG,
            "TableInput": {
                "Name": "t",
                "Description": description,
                "StorageDescriptor": storage(*COLUMNS),
            },
        }
        table = {"Type": "AWS::Glue::Table", "Properties": properties}
        return json.dumps({"Resources": {"Table": table}})

    cloudformation = cloud.client("cloudformation")
    cloudformation.create_stack(StackName="s", TemplateBody=template("one"))
    cloudformation.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig=SOON)
    made = glue.get_table(DatabaseName="db", Name="t")["Table"]
    assert metadata_of(cloud, made).format_version == 2
    cloudformation.update_stack(StackName="s", TemplateBody=template("two"))
    cloudformation.get_waiter("stack_update_complete").wait(StackName="s", WaiterConfig=SOON)
    changed = glue.get_table(DatabaseName="db", Name="t")["Table"]
    assert changed["Description"] == "two"
    assert changed["Parameters"] == made["Parameters"]
    cloudformation.delete_stack(StackName="s")
    cloudformation.get_waiter("stack_delete_complete").wait(StackName="s", WaiterConfig=SOON)


SOON = {"Delay": 1, "MaxAttempts": 30}


@pytest.mark.slow
def test_a_table_outlasts_a_restart(tmp_path_factory: pytest.TempPathFactory):
    data_dir = tmp_path_factory.mktemp("again") / "data"
    with InProcessCloud(data_dir) as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        cloud.client("glue").create_database(DatabaseInput={"Name": "db"})
        before = make(cloud.client("glue"))
    with InProcessCloud(data_dir) as cloud:
        after = cloud.client("glue").get_table(DatabaseName="db", Name="t")["Table"]
        assert after["Parameters"] == before["Parameters"]
        assert metadata_of(cloud, after).last_column_id == 9
