"""The delivery stack's other destinations, and the constructs that they are made of."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Match, Template

from cdk.app import build, new_app
from cdk.parts.delivery_config import Column
from cdk.parts.delivery_options import DeliveryOptions
from cdk.parts.http_delivery import HttpDelivery
from cdk.parts.iceberg_delivery import IcebergDelivery
from cdk.parts.redshift_delivery import RedshiftDelivery
from cdk.parts.search_delivery import SearchDelivery
from cdk.parts.splunk_delivery import SplunkDelivery
from cdk.stacks.delivery import DeliveryStack
from cdk.stacks.ingest import IngestStack

STREAM = "AWS::KinesisFirehose::DeliveryStream"
ERRORS = "errors/!{firehose:error-output-type}/"
SHARED = {option.name for option in fields(DeliveryOptions)}
SECRET_ARN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:s-abcdef"


def stack_of(**options: str) -> Template:
    app = new_app()
    ingest = IngestStack(app, "ingest")
    return Template.from_stack(DeliveryStack(app, "d", enriched=ingest.enriched, **options))


def test_flights_go_to_a_domain_of_the_stack() -> None:
    template = stack_of(destination="opensearch")
    template.has_resource_properties(
        STREAM,
        {
            "AmazonopensearchserviceDestinationConfiguration": {
                "DomainARN": {"Fn::GetAtt": [Match.string_like_regexp("Domain"), "Arn"]},
                "IndexName": "flights",
                "IndexRotationPeriod": "OneDay",
                "S3BackupMode": "FailedDocumentsOnly",
            },
            # Not the name of the others: Firehose exchanges OpenSearch for no other destination.
            "DeliveryStreamName": "flights-to-search",
        },
    )
    template.resource_count_is("AWS::OpenSearchService::Domain", 1)
    template.resource_count_is("AWS::Glue::Table", 0)
    template.has_output("DomainEndpoint", {})


def test_flights_go_into_a_table_of_a_cluster_of_the_stack() -> None:
    template = stack_of(destination="redshift")
    template.has_resource_properties(
        STREAM,
        {
            "RedshiftDestinationConfiguration": {
                "CopyCommand": {"DataTableName": "flights", "CopyOptions": "json 'auto' gzip"},
                "RetryOptions": {"DurationInSeconds": 3600},
                "SecretsManagerConfiguration": {"Enabled": True},
                "S3Configuration": {"Prefix": "redshift/", "CompressionFormat": "GZIP"},
                "Username": Match.absent(),
            }
        },
    )
    template.resource_count_is("AWS::Redshift::Cluster", 1)
    statement = template.find_outputs("CreateTable")["CreateTable"]["Value"]
    assert statement.startswith(
        "create table flights (event_id varchar(256), event_time varchar(256)"
    )
    # The password is not in the template.
    assert "resolve:secretsmanager" in str(template.to_json())


def test_flights_go_to_an_endpoint() -> None:
    template = stack_of(destination="http", url="https://example.com/in")
    template.has_resource_properties(
        STREAM,
        {
            "HttpEndpointDestinationConfiguration": {
                "EndpointConfiguration": {"Url": "https://example.com/in"},
                "RequestConfiguration": {"ContentEncoding": "GZIP"},
                # firehose/flights/delivery.json's.
                "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 10},
                "S3Configuration": {
                    "ErrorOutputPrefix": Match.string_like_regexp("error-output-type")
                },
            }
        },
    )


def test_flights_go_to_an_iceberg_table() -> None:
    template = stack_of(destination="iceberg")
    template.has_resource_properties(
        STREAM,
        {
            "IcebergDestinationConfiguration": {
                "AppendOnly": True,
                "CatalogConfiguration": {"CatalogArn": Match.any_value()},
                "DestinationTableConfigurationList": [
                    {
                        "DestinationDatabaseName": "headrace_lake",
                        # Not the Parquet table's name: one may follow the other in a deployed stack.
                        "DestinationTableName": "flights_iceberg",
                    }
                ],
                "s3BackupMode": "FailedDataOnly",
            }
        },
    )
    template.has_resource_properties(
        "AWS::Glue::Table",
        {"OpenTableFormatInput": {"IcebergInput": {"MetadataOperation": "CREATE", "Version": "2"}}},
    )
    (delivery,) = template.find_resources(STREAM).values()
    assert any("Table" in name for name in delivery["DependsOn"])


def test_the_context_names_the_destination() -> None:
    app = new_app()
    app.node.set_context("leave_out", "processing, analytics")
    app.node.set_context("delivery", "http")
    app.node.set_context("delivery_url", "https://example.com/in")
    _, delivery = build(app)
    Template.from_stack(delivery).resource_count_is("AWS::Glue::Table", 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"destination": "ftp"}, "must be one of parquet, iceberg, opensearch, redshift, http"),
        ({"destination": "http"}, "-c delivery_url="),
        ({"destination": "http", "url": "http://example.com"}, "must begin with https://"),
    ],
)
def test_a_destination_that_there_is_not(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        stack_of(**options)


@pytest.fixture(scope="module")
def parts() -> dict[str, Any]:
    app = new_app()
    stack = Stack(app, "s")
    ingest = IngestStack(app, "ingest")
    return {
        "stack": stack,
        "source": ingest.enriched,
        "bucket": s3.Bucket.from_bucket_name(stack, "B", "lake-of-tests"),
        "secret": secretsmanager.Secret.from_secret_complete_arn(stack, "S", SECRET_ARN),
    }


def delivery_options(source: Any, bucket: Any, **others: Any) -> DeliveryOptions:
    shared = {"name": "n", "error_prefix": ERRORS, **others}
    return DeliveryOptions(source=source, bucket=bucket, **shared)


def made(parts: dict[str, Any], kind: Any, id_: str, **options: Any) -> Any:
    """Create a construct; the options that all deliveries have become its `DeliveryOptions`."""
    shared = {name: options.pop(name) for name in SHARED & options.keys()}
    return kind(
        parts["stack"], id_, delivery_options(parts["source"], parts["bucket"], **shared), **options
    )


def test_secrets_are_read_by_the_role_alone(parts: dict[str, Any]) -> None:
    key = parts["secret"]
    made(
        parts, HttpDelivery, "Http", url="https://x/", access_key=key, attributes={"stage": "test"}
    )
    made(parts, SplunkDelivery, "Splunk", hec_endpoint="https://x:8088", hec_token=key)
    template = Template.from_stack(parts["stack"])
    for destination in ("HttpEndpoint", "Splunk"):
        template.has_resource_properties(
            STREAM,
            {
                f"{destination}DestinationConfiguration": {
                    "SecretsManagerConfiguration": {"Enabled": True, "SecretARN": SECRET_ARN}
                }
            },
        )
    template.has_resource_properties(
        "AWS::IAM::Policy",
        {
            "PolicyDocument": {
                "Statement": Match.array_with(
                    [
                        Match.object_like(
                            {"Action": "secretsmanager:GetSecretValue", "Resource": SECRET_ARN}
                        )
                    ]
                )
            }
        },
    )


def test_an_operation_is_a_query_over_unique_keys() -> None:
    stack = Stack(new_app(), "s")
    IcebergDelivery(
        stack,
        "Ice",
        delivery_options(kinesis.Stream(stack, "Source"), s3.Bucket(stack, "Lake")),
        **ICEBERG,
        unique_keys=["id"],
        operation=".op",
    )
    template = Template.from_stack(stack)
    expected = {"ParameterName": "MetadataExtractionQuery", "ParameterValue": "{operation:(.op)}"}
    processor = {"Type": "MetadataExtraction", "Parameters": Match.array_with([expected])}
    template.has_resource_properties(
        STREAM,
        {
            "IcebergDestinationConfiguration": {
                "AppendOnly": False,
                "ProcessingConfiguration": {"Enabled": True, "Processors": [processor]},
            }
        },
    )


HTTP = {"url": "https://x/"}
SPLUNK = {"hec_endpoint": "https://x", "hec_token": None}
JDBC = "jdbc:redshift://c.x.us-east-1.redshift.amazonaws.com:5439/dev"
REDSHIFT = {"jdbc_url": JDBC, "login": None, "table": "public.flights"}
SEARCH = {"domain": None, "index_name": "f"}
ID = Column(name="id", type="int")
ICEBERG: dict[str, Any] = {"database": "d", "table": "t", "location": "t/", "columns": [ID]}


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        (HttpDelivery, {**HTTP, "name": "a b"}, "A delivery stream's name must match"),
        (HttpDelivery, {**HTTP, "error_prefix": "e/"}, "must hold !{firehose:error-output-type}"),
        (HttpDelivery, {**HTTP, "size_mib": 65}, "1 to 64 MiB, not 65"),
        (HttpDelivery, {**HTTP, "attributes": {str(n): "" for n in range(51)}}, "at most 50"),
        (HttpDelivery, {**HTTP, "attributes": {" ": ""}}, "1 to 256 characters"),
        (SearchDelivery, {**SEARCH, "index_name": "Flights"}, "An index's name must match"),
        (SearchDelivery, {**SEARCH, "rotation": "OneYear"}, "A rotation must be one of"),
        (SearchDelivery, {**SEARCH, "size_mib": 101}, "1 to 100 MiB"),
        (IcebergDelivery, {**ICEBERG, "table": "a-b"}, "A Glue table's name must match"),
        (IcebergDelivery, {**ICEBERG, "location": "t"}, "must end in a slash"),
        (IcebergDelivery, {**ICEBERG, "columns": []}, "must have a column"),
        (IcebergDelivery, {**ICEBERG, "columns": [ID, ID]}, "id occurs twice"),
        (
            IcebergDelivery,
            {**ICEBERG, "columns": [Column(name="n", type="tinyint")]},
            "a type that Iceberg does not have",
        ),
        (IcebergDelivery, {**ICEBERG, "unique_keys": ["k"]}, "k is not a column"),
        (IcebergDelivery, {**ICEBERG, "operation": ".op"}, "need unique keys"),
        (IcebergDelivery, {**ICEBERG, "size_mib": 129}, "1 to 128 MiB"),
        (RedshiftDelivery, {**REDSHIFT, "table": "a b"}, "A table's name must match"),
        (RedshiftDelivery, {**REDSHIFT, "columns": ["a,b"]}, "A column's name must match"),
        (RedshiftDelivery, {**REDSHIFT, "jdbc_url": "redshift://x"}, "A JDBC URL must match"),
        (RedshiftDelivery, {**REDSHIFT, "prefix": "a/!{timestamp:yyyy}/"}, "A prefix must match"),
        (
            RedshiftDelivery,
            {**REDSHIFT, "copy_options": "csv MANIFEST"},
            "must not contain MANIFEST",
        ),
        (RedshiftDelivery, {**REDSHIFT, "size_mib": 129}, "1 to 128 MiB"),
        (SplunkDelivery, {**SPLUNK, "size_mib": 6}, "1 to 5 MiB"),
        (SplunkDelivery, {**SPLUNK, "interval_s": 61}, "0 to 60 seconds"),
        (SplunkDelivery, {**SPLUNK, "acknowledged_within_s": 60}, "180 to 600 seconds"),
        (SplunkDelivery, {**SPLUNK, "endpoint_type": "Both"}, "must be Raw or Event"),
        (SplunkDelivery, {**SPLUNK, "hec_endpoint": "x"}, "A collector's URL must match"),
    ],
)
def test_what_aws_would_refuse(
    parts: dict[str, Any], kind: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        made(parts, kind, f"Bad{abs(hash(sentence))}", **options)


@pytest.mark.parametrize("options", [{"interval_s": 901}, {"retry_s": 7201}, {"retry_s": -1}])
def test_buffering_that_no_destination_takes(
    parts: dict[str, Any], options: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match="seconds"):
        delivery_options(parts["source"], parts["bucket"], **options)
