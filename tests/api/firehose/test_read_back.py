"""Every member that a call takes is read back, or it is said why not. See `tests.support.read_back`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ports import AnyKeys
from headrace.services.firehose.actions import ACTIONS
from headrace.services.firehose.fidelity import FIDELITY
from tests.support.cloud import InProcessCloud
from tests.support.read_back import Case, Read, check, never_given, not_read_back, overlooked

ROLE = "arn:aws:iam::000000000000:role/r"
LAKE = "arn:aws:s3:::lake"
KEY = "arn:aws:kms:us-east-1:000000000000:key/00000000-0000-0000-0000-000000000000"
STREAM = "arn:aws:kinesis:us-east-1:000000000000:stream/flights"
FUNCTION = "arn:aws:lambda:us-east-1:000000000000:function:f"
D = {"DeliveryStreamName": "d"}
DESCRIBE: Read = ("DescribeDeliveryStream", D)
TAGS: Read = ("ListTagsForDeliveryStream", D)
MADE: Read = (
    "CreateDeliveryStream",
    {**D, "ExtendedS3DestinationConfiguration": {"RoleARN": ROLE, "BucketARN": LAKE}},
)
OTHERS = (
    "Redshift",
    "Elasticsearch",
    "Amazonopensearchservice",
    "Splunk",
    "HttpEndpoint",
    "AmazonOpenSearchServerless",
    "Snowflake",
    "Iceberg",
)
NOT_BUILT = "refused by name, or in test_destinations_read_back.py"
PROCESSORS = [
    {
        "Type": "Lambda",
        "Parameters": [{"ParameterName": "LambdaArn", "ParameterValue": FUNCTION}],
    }
]


def s3_values(prefix: str) -> dict[str, Any]:
    """Return the values of an extended S3 destination's members."""
    return {
        f"{prefix}.RoleARN": ROLE,
        f"{prefix}.BucketARN": LAKE,
        f"{prefix}.Prefix": "raw/!{timestamp:yyyy}/",
        f"{prefix}.ErrorOutputPrefix": "bad/!{firehose:error-output-type}/",
        f"{prefix}.BufferingHints": {"SizeInMBs": 3, "IntervalInSeconds": 61},
        f"{prefix}.CompressionFormat": "GZIP",
        f"{prefix}.EncryptionConfiguration": {"NoEncryptionConfig": "NoEncryption"},
        f"{prefix}.CloudWatchLoggingOptions": {
            "Enabled": True,
            "LogGroupName": "g",
            "LogStreamName": "s",
        },
        f"{prefix}.ProcessingConfiguration": {"Enabled": True, "Processors": PROCESSORS},
        f"{prefix}.S3BackupMode": "Disabled",
        f"{prefix}.FileExtension": ".gz",
        f"{prefix}.CustomTimeZone": "Europe/Berlin",
    }


def left_out(prefix: str, backup: str) -> dict[str, str]:
    """Return the members of a destination that cannot go with the rest."""
    return {
        f"{prefix}.{backup}": "a backup is not built, and its mode refused",
        f"{prefix}.DataFormatConversionConfiguration": "not with GZIP; test_serde.py has it",
        f"{prefix}.DynamicPartitioningConfiguration": "not built: refused when it is enabled",
    }


def others(suffix: str) -> dict[str, str]:
    return {f"{name}Destination{suffix}": NOT_BUILT for name in OTHERS}


X, U = "ExtendedS3DestinationConfiguration", "ExtendedS3DestinationUpdate"
CASES = [
    Case(
        "CreateDeliveryStream",
        [DESCRIBE, TAGS],
        given={
            **D,
            "DeliveryStreamType": "DirectPut",
            "DeliveryStreamEncryptionConfigurationInput": {
                "KeyType": "CUSTOMER_MANAGED_CMK",
                "KeyARN": KEY,
            },
            "Tags": [{"Key": "a", "Value": "b"}],
            **s3_values(X),
        },
        without={
            **others("Configuration"),
            **left_out(X, "S3BackupConfiguration"),
            "S3DestinationConfiguration": "one destination; the second case has it",
            "KinesisStreamSourceConfiguration": "of another type; the third case has it",
            "MSKSourceConfiguration": "not built: refused",
            "DatabaseSourceConfiguration": "not built: refused",
        },
        title="of puts",
    ),
    Case(
        "CreateDeliveryStream",
        [DESCRIBE, TAGS],
        given={
            **D,
            "DeliveryStreamType": "DirectPut",
            "Tags": [{"Key": "a", "Value": "b"}],
            **{
                name.replace(X, "S3DestinationConfiguration"): value
                for name, value in s3_values(X).items()
                if name.rpartition(".")[2]
                not in (
                    "ProcessingConfiguration",
                    "S3BackupMode",
                    "FileExtension",
                    "CustomTimeZone",
                )
            },
        },
        without={
            **others("Configuration"),
            X: "the first case has it",
            "DeliveryStreamEncryptionConfigurationInput": "the first case has it",
            "KinesisStreamSourceConfiguration": "of another type; the third case has it",
            "MSKSourceConfiguration": "not built: refused",
            "DatabaseSourceConfiguration": "not built: refused",
        },
        title="to S3 by the old member",
    ),
    Case(
        "CreateDeliveryStream",
        [DESCRIBE, TAGS],
        given={
            **D,
            "DeliveryStreamType": "KinesisStreamAsSource",
            "KinesisStreamSourceConfiguration": {"KinesisStreamARN": STREAM, "RoleARN": ROLE},
            "Tags": [{"Key": "a", "Value": "b"}],
            **s3_values(X),
        },
        without={
            **others("Configuration"),
            **left_out(X, "S3BackupConfiguration"),
            "S3DestinationConfiguration": "the second case has it",
            "DeliveryStreamEncryptionConfigurationInput": "the first case has it",
            "MSKSourceConfiguration": "not built: refused",
            "DirectPutSourceConfiguration": "of another type",
            "DatabaseSourceConfiguration": "not built: refused",
        },
        title="of a stream",
    ),
    Case(
        "UpdateDestination",
        [DESCRIBE],
        before=[MADE],
        given={
            **D,
            "CurrentDeliveryStreamVersionId": "1",
            "DestinationId": "destinationId-000000000001",
            **s3_values(U),
        },
        without={
            **others("Update"),
            **left_out(U, "S3BackupUpdate"),
            "S3DestinationUpdate": "one destination",
            f"{U}.EncryptionConfiguration.KMSEncryptionConfig": "a creation has it",
        },
        unseen={"CurrentDeliveryStreamVersionId": "checked; afterwards it is another"},
    ),
    Case(
        "StartDeliveryStreamEncryption",
        [DESCRIBE],
        before=[MADE],
        given={
            **D,
            "DeliveryStreamEncryptionConfigurationInput": {
                "KeyType": "CUSTOMER_MANAGED_CMK",
                "KeyARN": KEY,
            },
        },
    ),
    Case(
        "TagDeliveryStream",
        [DESCRIBE, TAGS],
        before=[MADE],
        given={**D, "Tags": [{"Key": "a", "Value": "b"}]},
    ),
]
NEVER_GIVEN = [
    *(f"CreateDeliveryStream.{name}DestinationConfiguration" for name in OTHERS),
    *(f"CreateDeliveryStream.{name}SourceConfiguration" for name in ("MSK", "Database")),
    *(f"UpdateDestination.{name}DestinationUpdate" for name in OTHERS),
    "UpdateDestination.S3DestinationUpdate",
]


@pytest.fixture
def firehose(tmp_path: Path) -> Iterator[Any]:
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        cloud.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        # A key that moto does not have, which takes seconds to load.
        cloud.cloud.firehose.keys._keys = AnyKeys()
        yield cloud.client("firehose")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.operation} {case.title}".strip())
def test_what_a_call_takes_is_read_back(firehose: Any, case: Case):
    assert check("firehose", case, firehose, FIDELITY) == []


def test_every_call_that_keeps_something_is_read_back():
    assert overlooked("firehose", CASES) == []
    assert not_read_back("firehose", ACTIONS, CASES) == ["PutRecord", "PutRecordBatch"]
    assert sorted(never_given("firehose", CASES)) == sorted(NEVER_GIVEN)
