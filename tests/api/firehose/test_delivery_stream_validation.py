"""What requests about delivery streams are refused for, with AWS's sentences."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.firehose.test_delivery_streams import (
    ROLE,
    conversion,
    create,
    destination,
    extraction,
    partitioned,
    processors,
    refused,
)
from tests.api.firehose.test_delivery_streams import cloud as cloud  # a fixture
from tests.api.firehose.test_delivery_streams import firehose as firehose  # a fixture
from tests.support.cloud import InProcessCloud


def test_a_missing_delivery_stream(firehose: Any):
    assert refused(firehose.put_record, DeliveryStreamName="no", Record={"Data": b"x"}) == (
        "ResourceNotFoundException",
        "Firehose no under account 000000000000 not found.",
    )


def test_a_name_that_is_taken(firehose: Any):
    create(firehose)
    code, _ = refused(
        firehose.create_delivery_stream,
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration=destination(),
    )
    assert code == "ResourceInUseException"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"BufferingHints": {"SizeInMBs": 200}}, "less than or equal to 128"),
        ({"BufferingHints": {"IntervalInSeconds": 901}}, "less than or equal to 900"),
        ({"CompressionFormat": "SNAPPY"}, "failed to satisfy constraint"),
        ({"S3BackupMode": "Enabled"}, "S3BackupConfiguration is required"),
        (
            {
                "DynamicPartitioningConfiguration": {"Enabled": True},
                "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 60},
            },
            "S3 Prefix should contain Dynamic Partitioning namespaces",
        ),
        (
            {
                "DynamicPartitioningConfiguration": {"Enabled": True},
                "BufferingHints": {"SizeInMBs": 5, "IntervalInSeconds": 300},
            },
            "BufferingHints.SizeInMBs must be at least 64 when Dynamic Partitioning is enabled.",
        ),
        (
            {
                "DynamicPartitioningConfiguration": {"Enabled": True},
                "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 59},
            },
            "BufferingHints.IntervalInSeconds must be at least 60 seconds when Dynamic",
        ),
        (partitioned("query"), "Processing Configuration is not enabled when DataPartitioning is"),
        (
            partitioned("query", {"Type": "AppendDelimiterToRecord"}),
            "MetadataExtraction processor should be present when S3 Prefix has partitionKeyFromQuery",
        ),
        (
            partitioned("lambda", extraction("{}")),
            "Lambda should be present when S3 Prefix contains keys from partitionKeyFromLambda",
        ),
        (
            partitioned("query", extraction("{k:.k,other:.o}")),
            "MetaDataExtraction JQ Query can't contain keys that are not present in the S3 Prefix",
        ),
        (
            {"CloudWatchLoggingOptions": {"Enabled": True}},
            "CloudWatch Log Group Name is required if CloudWatch Logging is enabled",
        ),
        (
            {"EncryptionConfiguration": {}},
            "Exactly one of NoEncryptionConfig or KMSEncryptionConfig must be specified",
        ),
        (
            {"ProcessingConfiguration": {"Enabled": True, "Processors": []}},
            "A maximum of 5 and a minimum of 1 processor",
        ),
        (processors("CloudWatchLogProcessing"), "can only be enabled with DecompressionProcessor"),
        (
            {"ProcessingConfiguration": {"Enabled": True, "Processors": [{"Type": "Lambda"}]}},
            "LambdaArn is required when Lambda processor is used.",
        ),
        (
            {
                "ProcessingConfiguration": {
                    "Enabled": True,
                    "Processors": [{"Type": "RecordDeAggregation"}],
                }
            },
            "RecordDeAggregationProcessor can only be present when Dynamic Partitioning is enabled.",
        ),
        ({"Prefix": "!{timestamp:yyyy}/"}, "ErrorOutputPrefix cannot be null"),
        ({"CustomTimeZone": "Mars"}, "Invalid CustomTimeZone"),
        ({"BucketARN": "lake"}, "failed to satisfy constraint"),
        ({"RoleARN": "nobody"}, "failed to satisfy constraint"),
        (conversion(BufferingHints={"SizeInMBs": 63, "IntervalInSeconds": 60}), "at least 64"),
        (conversion(CompressionFormat="GZIP"), "must be set to UNCOMPRESSED"),
        (
            conversion(serializer={"OrcSerDe": {}, "ParquetSerDe": {}}),
            "More than one serializer specified. Only one may be chosen.",
        ),
        (conversion(serializer={}), "Serializer must not be null"),
        (
            conversion(schema={"DatabaseName": "d", "RoleARN": ROLE}),
            "SchemaConfiguration.TableName must not be null or empty",
        ),
        (
            conversion(schema={"DatabaseName": "d", "TableName": "t"}),
            "SchemaConfiguration.RoleArn must not be null or empty",
        ),
        (
            conversion(deserializer={"HiveJsonSerDe": {"TimestampFormats": ["QQ"]}}),
            "Invalid timestamp format: QQ",
        ),
    ],
)
def test_what_cannot_be_delivered_is_refused_not_dropped(firehose: Any, more: Any, words: str):
    code, message = refused(
        firehose.create_delivery_stream,
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration=destination(**more),
    )
    assert code in ("InvalidArgumentException", "ValidationException")
    assert words in message
    assert firehose.list_delivery_streams()["DeliveryStreamNames"] == []


def test_another_destination_is_refused(firehose: Any):
    code, message = refused(
        firehose.create_delivery_stream,
        DeliveryStreamName="d",
        SnowflakeDestinationConfiguration={
            "AccountUrl": "https://a.snowflakecomputing.com",
            "Database": "d",
            "Schema": "s",
            "Table": "t",
            "RoleARN": ROLE,
            "S3Configuration": {"RoleARN": ROLE, "BucketARN": "arn:aws:s3:::lake"},
        },
    )
    assert (code, message) == (
        "InvalidArgumentException",
        "headrace does not support delivery to Snowflake yet.",
    )


def test_a_source_that_is_not_there(firehose: Any):
    code, message = refused(
        firehose.create_delivery_stream,
        DeliveryStreamName="d",
        DeliveryStreamType="KinesisStreamAsSource",
        KinesisStreamSourceConfiguration={
            "KinesisStreamARN": "arn:aws:kinesis:us-east-1:000000000000:stream/no",
            "RoleARN": ROLE,
        },
        ExtendedS3DestinationConfiguration=destination(),
    )
    assert code == "ResourceNotFoundException"
    assert "Kinesis stream no" in message


def test_what_reads_a_stream_is_not_encrypted_by_firehose(cloud: InProcessCloud, firehose: Any):
    """Documented: API_StartDeliveryStreamEncryption; the sentence is assumed."""
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName="s", ShardCount=1)
    arn = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]["StreamARN"]
    given = {
        "DeliveryStreamName": "d",
        "DeliveryStreamType": "KinesisStreamAsSource",
        "KinesisStreamSourceConfiguration": {"KinesisStreamARN": arn, "RoleARN": ROLE},
        "ExtendedS3DestinationConfiguration": destination(),
    }
    expected = (
        "InvalidArgumentException",
        "Encryption cannot be started on a KinesisStreamAsSource delivery stream.",
    )
    key = {"KeyType": "AWS_OWNED_CMK"}
    assert (
        refused(
            firehose.create_delivery_stream,
            **given,
            DeliveryStreamEncryptionConfigurationInput=key,
        )
        == expected
    )
    firehose.create_delivery_stream(**given)
    assert refused(firehose.start_delivery_stream_encryption, DeliveryStreamName="d") == expected
