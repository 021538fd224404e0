"""Firehose through boto3: serialization, validation, behaviour."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

ROLE = "arn:aws:iam::000000000000:role/r"


@pytest.fixture
def cloud(data_dir: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir) as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        yield cloud


@pytest.fixture
def firehose(cloud: InProcessCloud) -> Any:
    return cloud.client("firehose")


def destination(**more: Any) -> dict[str, Any]:
    hints = {"SizeInMBs": 1, "IntervalInSeconds": 0}
    return {"RoleARN": ROLE, "BucketARN": "arn:aws:s3:::lake", "BufferingHints": hints, **more}


def create(firehose: Any, name: str = "d", **more: Any) -> None:
    firehose.create_delivery_stream(
        DeliveryStreamName=name, ExtendedS3DestinationConfiguration=destination(**more)
    )


def processors(*kinds: str, **more: Any) -> dict[str, Any]:
    """Return the members of a destination whose processors are of these kinds, without parameters."""
    given = [{"Type": kind} for kind in kinds]
    return {"ProcessingConfiguration": {"Enabled": True, "Processors": given}, **more}


def extraction(query: str) -> dict[str, Any]:
    given = {"MetadataExtractionQuery": query, "JsonParsingEngine": "JQ-1.6"}
    parameters = [{"ParameterName": n, "ParameterValue": v} for n, v in given.items()]
    return {"Type": "MetadataExtraction", "Parameters": parameters}


def partitioned(source: str, *given: dict[str, Any]) -> dict[str, Any]:
    """Return a destination's members for dynamic partitioning by the key k, with processors."""
    processing = {"ProcessingConfiguration": {"Enabled": True, "Processors": list(given)}}
    return {
        "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 60},
        "DynamicPartitioningConfiguration": {"Enabled": True},
        "Prefix": f"!{{partitionKeyFrom{source.title()}:k}}/",
        "ErrorOutputPrefix": "bad/",
        **(processing if given else {}),
    }


def refused(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def objects(cloud: InProcessCloud) -> dict[str, bytes]:
    s3 = cloud.client("s3")
    keys = [item["Key"] for item in s3.list_objects_v2(Bucket="lake").get("Contents", [])]
    return {key: s3.get_object(Bucket="lake", Key=key)["Body"].read() for key in keys}


def conversion(
    *,
    schema: dict[str, Any] | None = None,
    serializer: dict[str, Any] | None = None,
    deserializer: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a destination's members for conversion to Parquet."""
    return {
        "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 0},
        "DataFormatConversionConfiguration": {
            "Enabled": True,
            "SchemaConfiguration": schema
            or {"RoleARN": ROLE, "DatabaseName": "d", "TableName": "t"},
            "InputFormatConfiguration": {"Deserializer": deserializer or {"OpenXJsonSerDe": {}}},
            "OutputFormatConfiguration": {
                "Serializer": {"ParquetSerDe": {}} if serializer is None else serializer
            },
        },
        **more,
    }


# --- serialization ----------------------------------------------------------------------------


def test_a_body_that_is_not_json_is_refused(cloud: InProcessCloud):
    answer = cloud.json_request("Firehose_20150804.PutRecord", b"{")
    assert answer.status == 400
    assert b"SerializationException" in bytes(answer.body)


def test_a_member_of_the_wrong_type_is_refused(cloud: InProcessCloud):
    body = b'{"DeliveryStreamName": 5, "Record": {"Data": ""}}'
    answer = cloud.json_request("Firehose_20150804.PutRecord", body)
    assert b"NUMBER_VALUE can not be converted to a String" in bytes(answer.body)


# --- behaviour --------------------------------------------------------------------------------


def test_a_stream_is_delivered_and_describe_says_so(cloud: InProcessCloud, firehose: Any):
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName="s", ShardCount=2)
    arn = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]["StreamARN"]
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        DeliveryStreamType="KinesisStreamAsSource",
        KinesisStreamSourceConfiguration={"KinesisStreamARN": arn, "RoleARN": ROLE},
        ExtendedS3DestinationConfiguration=destination(),
    )
    for key in "abcdef":
        kinesis.put_record(StreamName="s", Data=key.encode(), PartitionKey=key)
    wait_until(
        lambda: sorted(b"".join(objects(cloud).values())) == sorted(b"abcdef"), what="delivery"
    )
    described = firehose.describe_delivery_stream(DeliveryStreamName="d")
    source = described["DeliveryStreamDescription"]["Source"]["KinesisStreamSourceDescription"]
    assert source["KinesisStreamARN"] == arn
    code, _ = refused(firehose.put_record, DeliveryStreamName="d", Record={"Data": b"x"})
    assert code == "InvalidArgumentException"


def test_an_update_changes_where_records_go(cloud: InProcessCloud, firehose: Any):
    create(firehose)
    firehose.update_destination(
        DeliveryStreamName="d",
        CurrentDeliveryStreamVersionId="1",
        DestinationId="destinationId-000000000001",
        ExtendedS3DestinationUpdate={"Prefix": "moved/"},
    )
    firehose.put_record(DeliveryStreamName="d", Record={"Data": b"x"})
    found = wait_until(lambda: objects(cloud), what="the object")
    assert all(key.startswith("moved/") for key in found)
    assert refused(
        firehose.update_destination,
        DeliveryStreamName="d",
        CurrentDeliveryStreamVersionId="1",
        DestinationId="destinationId-000000000001",
        ExtendedS3DestinationUpdate={},
    )[0] == ("ConcurrentModificationException")


def make_table(cloud: InProcessCloud, name: str = "t") -> None:
    glue = cloud.client("glue")
    with contextlib.suppress(glue.exceptions.AlreadyExistsException):
        glue.create_database(DatabaseInput={"Name": "d"})
    columns = [{"Name": "carrier", "Type": "string"}, {"Name": "delay", "Type": "int"}]
    glue.create_table(
        DatabaseName="d", TableInput={"Name": name, "StorageDescriptor": {"Columns": columns}}
    )


def test_json_becomes_parquet_through_a_glue_table(cloud: InProcessCloud, firehose: Any):
    make_table(cloud)
    create(firehose, Prefix="rows/", **conversion())
    firehose.put_record(DeliveryStreamName="d", Record={"Data": b'{"Carrier": "AA", "delay": 5}'})
    found = wait_until(lambda: objects(cloud), what="the object")
    ((key, body),) = found.items()
    assert key.endswith(".parquet")
    assert pq.read_table(io.BytesIO(body)).to_pylist() == [{"carrier": "AA", "delay": 5}]


def test_describe_shows_what_was_given_with_defaults(firehose: Any):
    create(firehose, Prefix="in/")
    found = firehose.describe_delivery_stream(DeliveryStreamName="d")["DeliveryStreamDescription"]
    assert found["DeliveryStreamStatus"] == "ACTIVE"
    assert found["DeliveryStreamType"] == "DirectPut"
    assert found["DeliveryStreamARN"].endswith(":deliverystream/d")
    (described,) = found["Destinations"]
    extended = described["ExtendedS3DestinationDescription"]
    assert extended["BufferingHints"] == {"SizeInMBs": 1, "IntervalInSeconds": 0}
    assert extended["CompressionFormat"] == "UNCOMPRESSED"
    assert extended["S3BackupMode"] == "Disabled"
    assert described["S3DestinationDescription"]["Prefix"] == "in/"


def described(firehose: Any) -> dict[str, Any]:
    found = firehose.describe_delivery_stream(DeliveryStreamName="d")["DeliveryStreamDescription"]
    return found["Destinations"][0]["ExtendedS3DestinationDescription"]


def update(firehose: Any, **members: Any) -> None:
    version = firehose.describe_delivery_stream(DeliveryStreamName="d")
    firehose.update_destination(
        DeliveryStreamName="d",
        CurrentDeliveryStreamVersionId=version["DeliveryStreamDescription"]["VersionId"],
        DestinationId="destinationId-000000000001",
        ExtendedS3DestinationUpdate=members,
    )


@pytest.mark.parametrize(
    ("hints", "shown"),
    [
        ({"IntervalInSeconds": 60}, {"SizeInMBs": 5, "IntervalInSeconds": 60}),
        ({"SizeInMBs": 7}, {"SizeInMBs": 7, "IntervalInSeconds": 300}),
    ],
)
def test_one_of_the_two_hints_is_enough(
    firehose: Any, hints: dict[str, int], shown: dict[str, int]
):
    create(firehose, BufferingHints=hints)
    assert described(firehose)["BufferingHints"] == shown


def test_an_update_of_a_conversion_is_merged(cloud: InProcessCloud, firehose: Any):
    make_table(cloud)
    make_table(cloud, "other")
    create(firehose, **conversion())
    name = "DataFormatConversionConfiguration"
    update(firehose, **{name: {"SchemaConfiguration": {"TableName": "other"}}})
    schema = described(firehose)[name]["SchemaConfiguration"]
    assert schema == {"RoleARN": ROLE, "DatabaseName": "d", "TableName": "other"}
    update(firehose, **{name: {"Enabled": False}})
    kept = described(firehose)[name]
    assert (kept["Enabled"], kept["SchemaConfiguration"]) == (False, schema)
    update(firehose, CompressionFormat="GZIP")
    with pytest.raises(ClientError, match="must be set to UNCOMPRESSED"):
        update(firehose, **{name: {"Enabled": True}})
    hive = {"Deserializer": {"HiveJsonSerDe": {}}}
    update(
        firehose,
        CompressionFormat="UNCOMPRESSED",
        **{name: {"Enabled": True, "InputFormatConfiguration": hive}},
    )
    assert described(firehose)[name]["InputFormatConfiguration"] == hive
    with pytest.raises(ClientError, match="EntityNotFoundException"):
        update(firehose, **{name: {"SchemaConfiguration": {"TableName": "none"}}})


def test_a_lambda_processor_is_shown_with_all_its_parameters(firehose: Any):
    function = "arn:aws:lambda:us-east-1:000000000000:function:f"
    parameters = [{"ParameterName": "LambdaArn", "ParameterValue": function}]
    given = processors("Lambda")
    given["ProcessingConfiguration"]["Processors"][0]["Parameters"] = parameters
    create(firehose, **given)
    (shown,) = described(firehose)["ProcessingConfiguration"]["Processors"]
    assert [tuple(one.values()) for one in shown["Parameters"]] == [
        ("LambdaArn", function),
        ("NumberOfRetries", "3"),
        ("RoleArn", ROLE),
        ("BufferSizeInMBs", "1"),
        ("BufferIntervalInSeconds", "60"),
    ]
    given["ProcessingConfiguration"].pop("Enabled")
    create(firehose, "e", **given)
    found = firehose.describe_delivery_stream(DeliveryStreamName="e")["DeliveryStreamDescription"]
    extended = found["Destinations"][0]["ExtendedS3DestinationDescription"]
    assert extended["ProcessingConfiguration"]["Enabled"] is False


def test_lists_go_on_after_a_name(firehose: Any):
    for name in ("c", "a", "b"):
        create(firehose, name)
    page = firehose.list_delivery_streams(Limit=2)
    assert (page["DeliveryStreamNames"], page["HasMoreDeliveryStreams"]) == (["a", "b"], True)
    page = firehose.list_delivery_streams(ExclusiveStartDeliveryStreamName="b")
    assert (page["DeliveryStreamNames"], page["HasMoreDeliveryStreams"]) == (["c"], False)
    kind = "KinesisStreamAsSource"
    assert firehose.list_delivery_streams(DeliveryStreamType=kind)["DeliveryStreamNames"] == []


def test_another_account_and_region_see_nothing(cloud: InProcessCloud, firehose: Any):
    create(firehose)
    elsewhere = cloud.client("firehose", region="eu-west-1")
    other = cloud.client("firehose", account="111111111111")
    for client in (elsewhere, other):
        assert client.list_delivery_streams()["DeliveryStreamNames"] == []


def test_a_bucket_that_comes_later_gets_the_records(cloud: InProcessCloud, firehose: Any):
    create(firehose, BucketARN="arn:aws:s3:::later")
    firehose.put_record(DeliveryStreamName="d", Record={"Data": b"x"})
    status = cloud.cloud.firehose.statuses
    wait_until(lambda: "S3.NoSuchBucket" in status()[0]["last_error"], what="the failure")
    cloud.client("s3").create_bucket(Bucket="later")
    wait_until(lambda: status()[0]["delivered_records"] == 1, what="the delivery")
    assert status()[0]["last_error"] == ""


def test_deliveries_go_on_after_a_restart(data_dir: Path):
    with InProcessCloud(data_dir) as first:
        first.client("s3").create_bucket(Bucket="lake")
        hints = {"SizeInMBs": 1, "IntervalInSeconds": 900}
        create(first.client("firehose"), BufferingHints=hints)
        first.client("firehose").put_record(DeliveryStreamName="d", Record={"Data": b"x"})
    with InProcessCloud(data_dir) as second:
        (status,) = wait_until(
            lambda: [s for s in second.cloud.firehose.statuses() if s["buffered_records"]],
            what="the buffer",
        )
        assert (status["name"], status["delivered_records"]) == ("d", 0)
        second.client("firehose").update_destination(
            DeliveryStreamName="d",
            CurrentDeliveryStreamVersionId="1",
            DestinationId="destinationId-000000000001",
            ExtendedS3DestinationUpdate={
                "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0}
            },
        )
        found = wait_until(lambda: objects(second), what="the object")
        assert list(found.values()) == [b"x"]


def test_deletion_takes_the_journal_and_frees_the_name(
    cloud: InProcessCloud, firehose: Any, data_dir: Path
):
    create(firehose, BufferingHints={"SizeInMBs": 1, "IntervalInSeconds": 900})
    firehose.put_record(DeliveryStreamName="d", Record={"Data": b"old"})
    assert list((data_dir / "firehose").iterdir())
    firehose.delete_delivery_stream(DeliveryStreamName="d")
    assert list((data_dir / "firehose").iterdir()) == []
    assert firehose.list_delivery_streams()["DeliveryStreamNames"] == []
    create(firehose)
    firehose.put_record(DeliveryStreamName="d", Record={"Data": b"new"})
    found = wait_until(lambda: objects(cloud), what="the object")
    assert list(found.values()) == [b"new"]
