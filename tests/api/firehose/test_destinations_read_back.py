"""Every member of destinations other than S3 is read back, or it is said why not. See `tests.support.read_back`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.firehose.fidelity import FIDELITY
from tests.api.firehose.test_read_back import DESCRIBE, LAKE, OTHERS, PROCESSORS, ROLE, D
from tests.support.cloud import InProcessCloud
from tests.support.read_back import Case, check, overlooked

CATALOG = "arn:aws:glue:us-east-1:000000000000:catalog"
SECRET = "arn:aws:secretsmanager:us-east-1:000000000000:secret:s"
DOMAIN = "arn:aws:es:us-east-1:000000000000:domain/flights"
S3 = {
    "RoleARN": ROLE,
    "BucketARN": LAKE,
    "Prefix": "p/",
    "ErrorOutputPrefix": "bad/!{firehose:error-output-type}/",
    "BufferingHints": {"SizeInMBs": 3, "IntervalInSeconds": 61},
    "CompressionFormat": "GZIP",
    "EncryptionConfiguration": {"NoEncryptionConfig": "NoEncryption"},
    "CloudWatchLoggingOptions": {"Enabled": False},
}
COMMON: dict[str, Any] = {
    "BufferingHints": {"SizeInMBs": 4, "IntervalInSeconds": 59},
    "RetryOptions": {"DurationInSeconds": 77},
    "CloudWatchLoggingOptions": {"Enabled": True, "LogGroupName": "g", "LogStreamName": "s"},
    "ProcessingConfiguration": {"Enabled": True, "Processors": PROCESSORS},
}
MANAGER = {"Enabled": True, "SecretARN": SECRET, "RoleARN": ROLE}
VPC = {"SubnetIds": ["subnet-1"], "RoleARN": ROLE, "SecurityGroupIds": ["sg-1"]}
SEARCH: dict[str, Any] = {
    **COMMON,
    "RoleARN": ROLE,
    "DomainARN": DOMAIN,
    "IndexName": "f",
    "TypeName": "t",
    "IndexRotationPeriod": "OneMonth",
    "DocumentIdOptions": {"DefaultDocumentIdFormat": "NO_DOCUMENT_ID"},
}
GIVEN: dict[str, dict[str, Any]] = {
    "HttpEndpoint": {
        **COMMON,
        "RoleARN": ROLE,
        "EndpointConfiguration": {"Url": "https://x/", "Name": "n", "AccessKey": "k"},
        "RequestConfiguration": {
            "ContentEncoding": "GZIP",
            "CommonAttributes": [{"AttributeName": "a", "AttributeValue": "b"}],
        },
        "S3BackupMode": "AllData",
        "SecretsManagerConfiguration": MANAGER,
    },
    "Amazonopensearchservice": {**SEARCH, "S3BackupMode": "AllDocuments", "VpcConfiguration": VPC},
    "Elasticsearch": {**SEARCH, "S3BackupMode": "AllDocuments", "VpcConfiguration": VPC},
    "AmazonOpenSearchServerless": {
        **COMMON,
        "RoleARN": ROLE,
        "CollectionEndpoint": "https://x.us-east-1.aoss.amazonaws.com",
        "IndexName": "f",
        "S3BackupMode": "AllDocuments",
        "VpcConfiguration": VPC,
    },
    "Splunk": {
        **COMMON,
        "HECEndpoint": "https://x",
        "HECEndpointType": "Event",
        "HECToken": "t",
        "HECAcknowledgmentTimeoutInSeconds": 200,
        "S3BackupMode": "AllEvents",
        "SecretsManagerConfiguration": MANAGER,
    },
    "Iceberg": {
        **COMMON,
        "RoleARN": ROLE,
        "AppendOnly": False,
        "CatalogConfiguration": {"CatalogARN": CATALOG},
        "DestinationTableConfigurationList": [
            {
                "DestinationDatabaseName": "db",
                "DestinationTableName": "t",
                "UniqueKeys": ["id"],
                "S3ErrorOutputPrefix": "of-t/",
            }
        ],
        "SchemaEvolutionConfiguration": {"Enabled": False},
        "TableCreationConfiguration": {"Enabled": False},
        "S3BackupMode": "FailedDataOnly",
    },
}
# What a second configuration has, that an update may show what it changes.
OTHER = {
    "HttpEndpoint": {"EndpointConfiguration": {"Url": "https://before/"}},
    "Amazonopensearchservice": {"DomainARN": DOMAIN, "IndexName": "before", "RoleARN": ROLE},
    "Elasticsearch": {"DomainARN": DOMAIN, "IndexName": "before", "RoleARN": ROLE},
    "AmazonOpenSearchServerless": {
        "CollectionEndpoint": "https://before",
        "IndexName": "before",
        "RoleARN": ROLE,
    },
    "Splunk": {"HECEndpoint": "https://before", "HECEndpointType": "Raw", "HECToken": "before"},
    "Iceberg": {"RoleARN": ROLE, "CatalogConfiguration": {"CatalogARN": CATALOG}},
}
FIXED = {"S3BackupMode", "VpcConfiguration"}
ELSEWHERE = {
    **{f"{name}DestinationConfiguration": "another destination" for name in OTHERS},
    **dict.fromkeys(
        ("ExtendedS3DestinationConfiguration", "S3DestinationConfiguration"), "another destination"
    ),
    **dict.fromkeys(
        (
            "DeliveryStreamType",
            "DeliveryStreamEncryptionConfigurationInput",
            "KinesisStreamSourceConfiguration",
            "DirectPutSourceConfiguration",
            "MSKSourceConfiguration",
            "DatabaseSourceConfiguration",
            "Tags",
        ),
        "test_read_back.py has it",
    ),
}


def creation(kind: str) -> Case:
    name = f"{kind}DestinationConfiguration"
    members = {**GIVEN[kind], "S3Configuration": S3}
    without = {member: why for member, why in ELSEWHERE.items() if member != name}
    unseen: dict[str, str] = {}
    if kind == "HttpEndpoint":
        unseen[f"{name}.EndpointConfiguration.AccessKey"] = "a secret: AWS does not show it either"
    if kind in ("Amazonopensearchservice", "Elasticsearch"):
        without[f"{name}.ClusterEndpoint"] = "in place of the domain"
    given = {**D, **{f"{name}.{member}": value for member, value in members.items()}}
    return Case("CreateDeliveryStream", [DESCRIBE], given=given, without=without, unseen=unseen)


def update(kind: str) -> Case:
    name = f"{kind}DestinationUpdate"
    # Iceberg's update calls it otherwise.
    members = {**GIVEN[kind], "S3Configuration" if kind == "Iceberg" else "S3Update": S3}
    if kind not in ("HttpEndpoint", "Splunk", "Iceberg"):
        members = {member: value for member, value in members.items() if member not in FIXED}
    without = {
        member.replace("Configuration", "Update"): why
        for member, why in ELSEWHERE.items()
        if "Destination" in member and member != f"{kind}DestinationConfiguration"
    }
    unseen = {"CurrentDeliveryStreamVersionId": "checked; afterwards it is another"}
    if kind == "HttpEndpoint":
        unseen[f"{name}.EndpointConfiguration.AccessKey"] = "a secret: AWS does not show it either"
    if kind in ("Amazonopensearchservice", "Elasticsearch"):
        without[f"{name}.ClusterEndpoint"] = "in place of the domain"
    before = {
        f"{kind}DestinationConfiguration": {
            **OTHER[kind],
            "S3Configuration": {"RoleARN": ROLE, "BucketARN": LAKE},
        }
    }
    return Case(
        "UpdateDestination",
        [DESCRIBE],
        before=[("CreateDeliveryStream", {**D, **before})],
        given={
            **D,
            "CurrentDeliveryStreamVersionId": "1",
            "DestinationId": "destinationId-000000000001",
            **{f"{name}.{member}": value for member, value in members.items()},
        },
        without=without,
        unseen=unseen,
    )


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("read-back") / "data") as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        glue = cloud.client("glue")
        glue.create_database(DatabaseInput={"Name": "db"})
        glue.create_table(DatabaseName="db", TableInput={"Name": "t"})
        cloud.client("opensearch").create_domain(DomainName="flights")
        yield cloud


@pytest.mark.parametrize("make", [creation, update])
@pytest.mark.parametrize("kind", sorted(GIVEN))
def test_what_a_call_takes_is_read_back(firehose: Any, kind: str, make: Any):
    assert check("firehose", make(kind), firehose, FIDELITY) == []


def test_no_member_of_a_destination_is_overlooked():
    cases = [make(kind) for make in (creation, update) for kind in sorted(GIVEN)]
    assert overlooked("firehose", cases) == []
