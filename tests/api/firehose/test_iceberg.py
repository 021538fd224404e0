"""Iceberg tables as a destination, whole: through boto3 and CloudFormation, with Glue's tables and enforced roles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError

from headrace.core.ports import NoGuard
from headrace.services.firehose.destinations.iceberg_catalog import CloudCatalog
from headrace.services.firehose.destinations.iceberg_routing import Glue
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.iam import allow, make_role
from tests.support.server import wait_until
from tests.support.tables import read_rows, read_table

ROLE = "arn:aws:iam::000000000000:role/r"
CATALOG = "arn:aws:glue:us-east-1:000000000000:catalog"
OF_TABLES = f"{CATALOG}/s3tablescatalog/lake-tables"
TABLES_ARN = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake-tables"
S3 = {
    "RoleARN": ROLE,
    "BucketARN": "arn:aws:s3:::lake",
    "ErrorOutputPrefix": "bad/!{firehose:error-output-type}/",
}
TABLE = {"DestinationDatabaseName": "db", "DestinationTableName": "t", "UniqueKeys": ["id"]}
GIVEN: dict[str, Any] = {
    "RoleARN": ROLE,
    "CatalogConfiguration": {"CatalogARN": CATALOG},
    "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
    "RetryOptions": {"DurationInSeconds": 0},
    "DestinationTableConfigurationList": [TABLE],
    "S3Configuration": S3,
}
QUERY = {
    "Type": "MetadataExtraction",
    "Parameters": [
        {"ParameterName": "JsonParsingEngine", "ParameterValue": "JQ-1.6"},
        {"ParameterName": "MetadataExtractionQuery", "ParameterValue": "{operation: .op}"},
    ],
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("iceberg") / "data", iam="enforce") as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        glue = cloud.client("glue")
        glue.create_database(DatabaseInput={"Name": "db"})
        for name in ("t", "u"):
            columns = [{"Name": "id", "Type": "bigint"}, {"Name": "v", "Type": "string"}]
            glue.create_table(
                DatabaseName="db",
                TableInput={
                    "Name": name,
                    "StorageDescriptor": {"Location": f"s3://lake/{name}", "Columns": columns},
                },
                OpenTableFormatInput={"IcebergInput": {"MetadataOperation": "CREATE"}},
            )
        tables = cloud.client("s3tables")
        tables.create_table_bucket(name="lake-tables")
        tables.create_namespace(tableBucketARN=TABLES_ARN, namespace=["air"])
        fields = [{"name": "id", "type": "long"}, {"name": "v", "type": "string"}]
        tables.create_table(
            tableBucketARN=TABLES_ARN,
            namespace="air",
            name="t",
            format="ICEBERG",
            metadata={"iceberg": {"schema": {"fields": fields}}},
        )
        everything = allow(["s3:*", "glue:*", "s3tables:*"], "*")
        make_role(cloud, "r", everything, trusts="firehose.amazonaws.com")
        yield cloud


def make(firehose: Any, **given: Any) -> None:
    firehose.create_delivery_stream(
        DeliveryStreamName="d", IcebergDestinationConfiguration={**GIVEN, **given}
    )


def put(firehose: Any, *records: dict[str, Any]) -> None:
    datas = [{"Data": json.dumps(record)} for record in records]
    assert firehose.put_record_batch(DeliveryStreamName="d", Records=datas)["FailedPutCount"] == 0


def rows(cloud: InProcessCloud, name: str) -> list[dict[str, Any]]:
    glue = Glue(cloud.cloud.gateway, ACCOUNT, REGION, "")
    catalog = CloudCatalog(glue, cloud.cloud.objects, NoGuard())
    found = catalog.load_table(("db", name)).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def errors(cloud: InProcessCloud, prefix: str) -> list[dict[str, Any]]:
    s3 = cloud.client("s3")
    keys = [i["Key"] for i in s3.list_objects_v2(Bucket="lake", Prefix=prefix).get("Contents", [])]
    bodies = [s3.get_object(Bucket="lake", Key=key)["Body"].read() for key in keys]
    return [json.loads(line) for body in bodies for line in body.splitlines()]


def test_records_become_rows_of_the_table(cloud: InProcessCloud, firehose: Any):
    pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
    make(firehose, ProcessingConfiguration={"Enabled": True, "Processors": [QUERY]})
    put(firehose, {"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": "x"})
    wait_until(lambda: len(rows(cloud, "t")) == 2)
    put(firehose, {"op": "update", "id": 1, "v": "c"}, {"op": "delete", "id": 2})
    wait_until(lambda: rows(cloud, "t") == [{"id": 1, "v": "c"}])
    (line,) = wait_until(lambda: errors(cloud, "bad/iceberg-failed/"))
    assert line["errorCode"] == "Iceberg.SchemaTypeMismatch"
    # The files are plain Parquet for whoever looks.
    s3 = cloud.cloud.objects
    keys = [item.key for item in s3.list("lake", "t/data/")]
    assert any(pq.read_table(s3.file("lake", key)).num_rows == 2 for key in keys)


def test_records_become_rows_of_a_table_in_s3_tables(cloud: InProcessCloud, firehose: Any):
    to_t = {"DestinationDatabaseName": "air", "DestinationTableName": "t", "UniqueKeys": ["id"]}
    of_bucket = {
        "CatalogConfiguration": {"CatalogARN": OF_TABLES},
        "DestinationTableConfigurationList": [to_t],
    }
    allowed = [
        "GetTable",
        "GetTableData",
        "GetTableMetadataLocation",
        "UpdateTableMetadataLocation",
    ]
    role = make_role(
        cloud,
        "reads",
        allow([*(f"s3tables:{name}" for name in allowed), "s3:*"], "*"),
        trusts="firehose.amazonaws.com",
    )
    make(firehose, **of_bucket)
    shown = firehose.describe_delivery_stream(DeliveryStreamName="d")
    assert OF_TABLES in str(shown["DeliveryStreamDescription"]["Destinations"])
    put(firehose, {"id": 1, "v": "a"}, {"id": "x"}, {"id": 2, "v": "b"})
    wait_until(lambda: read_rows(read_table(cloud, TABLES_ARN, "air", "t")))
    stored = read_rows(read_table(cloud, TABLES_ARN, "air", "t"))
    assert sorted(row["id"] for row in stored) == [1, 2]
    firehose.delete_delivery_stream(DeliveryStreamName="d")
    wait_until(lambda: not firehose.list_delivery_streams()["DeliveryStreamNames"])

    to_errors = {**S3, "ErrorOutputPrefix": "tables/!{firehose:error-output-type}/"}
    make(firehose, **of_bucket, RoleARN=role, S3Configuration=to_errors)
    put(firehose, {"id": 3, "v": "c"})
    (line,) = wait_until(lambda: errors(cloud, "tables/iceberg-failed/"))
    assert line["errorCode"] == "Iceberg.AccessDenied"
    assert "s3tables:PutTableData" in line["errorMessage"]
    assert read_rows(read_table(cloud, TABLES_ARN, "air", "t")) == stored

    cloud.client("s3tables").delete_table(tableBucketARN=TABLES_ARN, namespace="air", name="t")
    put(firehose, {"id": 4, "v": "d"})
    wait_until(lambda: len(errors(cloud, "tables/iceberg-failed/")) == 2)
    codes = {line["errorCode"] for line in errors(cloud, "tables/iceberg-failed/")}
    assert codes == {"Iceberg.AccessDenied", "Iceberg.GlueTableNotFound"}


def test_a_template_makes_table_and_delivery_stream(cloud: InProcessCloud, firehose: Any):
    columns = [{"Name": "id", "Type": "bigint"}]
    table = {
        "Type": "AWS::Glue::Table",
        "Properties": {
            "CatalogId": {"Ref": "AWS::AccountId"},
            "DatabaseName": "db",
            "OpenTableFormatInput": {"IcebergInput": {"MetadataOperation": "CREATE"}},
            "TableInput": {
                "Name": "made",
                "StorageDescriptor": {"Location": "s3://lake/made", "Columns": columns},
            },
        },
    }
    given = {
        **GIVEN,
        "CatalogConfiguration": {"CatalogArn": CATALOG},
        "AppendOnly": "true",
        "DestinationTableConfigurationList": [
            {"DestinationDatabaseName": "db", "DestinationTableName": {"Ref": "Table"}}
        ],
        "s3BackupMode": "FailedDataOnly",
    }
    delivery = {
        "Type": "AWS::KinesisFirehose::DeliveryStream",
        "Properties": {"DeliveryStreamName": "d", "IcebergDestinationConfiguration": given},
    }
    body = json.dumps({"Resources": {"Table": table, "Delivery": delivery}})
    cloudformation = cloud.client("cloudformation")
    cloudformation.create_stack(StackName="s", TemplateBody=body)
    wait_until(lambda: "IN_PROGRESS" not in status(cloudformation))
    assert status(cloudformation) == "CREATE_COMPLETE"
    described = firehose.describe_delivery_stream(DeliveryStreamName="d")
    (destination,) = described["DeliveryStreamDescription"]["Destinations"]
    assert destination["IcebergDestinationDescription"]["AppendOnly"] is True
    put(firehose, {"id": 7})
    wait_until(lambda: rows(cloud, "made") == [{"id": 7}])
    given["BufferingHints"] = {"SizeInMBs": 2, "IntervalInSeconds": 1}
    body = json.dumps({"Resources": {"Table": table, "Delivery": delivery}})
    cloudformation.update_stack(StackName="s", TemplateBody=body)
    wait_until(lambda: "IN_PROGRESS" not in status(cloudformation))
    assert status(cloudformation) == "UPDATE_COMPLETE"
    described = firehose.describe_delivery_stream(DeliveryStreamName="d")
    assert "'SizeInMBs': 2" in str(described)
    cloudformation.delete_stack(StackName="s")
    wait_until(lambda: not firehose.list_delivery_streams()["DeliveryStreamNames"])


def status(cloudformation: Any) -> str:
    return str(cloudformation.describe_stacks(StackName="s")["Stacks"][0]["StackStatus"])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"S3BackupMode": "AllData"}, "supports only FailedDataOnly"),
        ({"CatalogConfiguration": {}}, "CatalogARN is required"),
        (
            {"CatalogConfiguration": {"CatalogARN": f"{CATALOG}/other"}},
            "does not support delivery to catalogs within the Glue Data Catalog",
        ),
        ({"CatalogConfiguration": {"CatalogARN": OF_TABLES}}, "or the table does not exist"),
        ({"SchemaEvolutionConfiguration": {"Enabled": True}}, "SchemaEvolutionConfiguration"),
        ({"TableCreationConfiguration": {"Enabled": True}}, "TableCreationConfiguration"),
        (
            {"DestinationTableConfigurationList": [{**TABLE, "PartitionSpec": {"Identity": []}}]},
            "PartitionSpec",
        ),
        ({"DestinationTableConfigurationList": [TABLE, TABLE]}, "twice"),
        (
            {"DestinationTableConfigurationList": [{**TABLE, "DestinationTableName": "T"}]},
            "names have lower case letters",
        ),
        (
            {"DestinationTableConfigurationList": [{**TABLE, "S3ErrorOutputPrefix": "!{x:y}"}]},
            "ErrorOutputPrefix must contain",
        ),
        (
            {"DestinationTableConfigurationList": [{**TABLE, "DestinationTableName": "none"}]},
            f"Role {ROLE} is not authorized to perform: glue:GetTable for the given table or the table does not exist.",
        ),
    ],
)
def test_what_cannot_be_is_refused(firehose: Any, given: dict[str, Any], sentence: str):
    with pytest.raises(ClientError) as caught:
        make(firehose, **given)
    error = caught.value.response["Error"]
    assert error["Code"] == "InvalidArgumentException"
    assert sentence in error["Message"]
    assert firehose.list_delivery_streams()["DeliveryStreamNames"] == []


def test_pyiceberg_is_named_where_it_is_missing(firehose: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ClientError, match=r"pip install .*\[iceberg\]"):
        make(firehose)


def test_an_update_changes_what_can_change(cloud: InProcessCloud, firehose: Any):
    make(firehose)
    update = {
        "DeliveryStreamName": "d",
        "CurrentDeliveryStreamVersionId": "1",
        "DestinationId": "destinationId-000000000001",
    }
    with pytest.raises(ClientError, match="AppendOnly cannot be updated"):
        firehose.update_destination(**update, IcebergDestinationUpdate={"AppendOnly": True})
    other = {**TABLE, "DestinationTableName": "none"}
    with pytest.raises(ClientError, match="or the table does not exist"):
        firehose.update_destination(
            **update, IcebergDestinationUpdate={"DestinationTableConfigurationList": [other]}
        )
    to_u = {**TABLE, "DestinationTableName": "u"}
    firehose.update_destination(
        **update, IcebergDestinationUpdate={"DestinationTableConfigurationList": [to_u]}
    )
    put(firehose, {"id": 5, "v": "u"})
    wait_until(lambda: rows(cloud, "u") == [{"id": 5, "v": "u"}])


def test_a_role_needs_the_table_when_the_stream_is_made(cloud: InProcessCloud, firehose: Any):
    role = make_role(cloud, "none", allow("s3:*", "*"), trusts="firehose.amazonaws.com")
    with pytest.raises(ClientError, match=f"Role {role} is not authorized to perform: glue:Get"):
        make(firehose, RoleARN=role)


@pytest.mark.parametrize("missing", ["glue:UpdateTable", "s3:PutObject", "s3:GetObject"])
def test_what_the_role_lacks_stops_the_delivery(cloud: InProcessCloud, firehose: Any, missing: str):
    name = missing.replace(":", "-")
    allowed = ["glue:GetTable", "glue:UpdateTable", "s3:PutObject", "s3:GetObject"]
    allowed.remove(missing)
    role = make_role(cloud, name, allow(allowed, "*"), trusts="firehose.amazonaws.com")
    make(
        firehose,
        RoleARN=role,
        S3Configuration={**S3, "ErrorOutputPrefix": f"{name}/!{{firehose:error-output-type}}/"},
    )
    before = rows(cloud, "t")
    put(firehose, {"id": 100, "v": "x"})
    (line,) = wait_until(lambda: errors(cloud, f"{name}/iceberg-failed/"))
    assert line["errorCode"] == "Iceberg.AccessDenied"
    assert missing in line["errorMessage"]
    assert rows(cloud, "t") == before
