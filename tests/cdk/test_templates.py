from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template
from cfnlint.api import lint_file

Templates = dict[str, Template]
STAGES = ["analytics", "delivery", "ingest", "processing"]


def statements(template: Template) -> list[dict[str, Any]]:
    return [
        statement
        for policy in template.find_resources("AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]


def listed(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def allowed(template: Template, service: str) -> set[str]:
    return {
        action
        for statement in statements(template)
        for action in listed(statement["Action"])
        if action.startswith(f"{service}:")
    }


def test_the_app_has_a_stack_a_stage(templates: Templates) -> None:
    assert sorted(templates) == STAGES


@pytest.mark.parametrize("stage", STAGES)
def test_cfn_lint_finds_no_error(stage: str, assembly: Path) -> None:
    matches = lint_file(assembly / f"headrace-{stage}.template.json")

    assert [str(match) for match in matches if match.rule.severity == "error"] == []


@pytest.mark.parametrize(("name", "shards"), [("flights", 4), ("flights-enriched", 2)])
def test_the_streams_are_provisioned(name: str, shards: int, templates: Templates) -> None:
    templates["ingest"].has_resource(
        "AWS::Kinesis::Stream",
        {
            "Properties": {
                "Name": name,
                "ShardCount": shards,
                "StreamModeDetails": {"StreamMode": "PROVISIONED"},
            },
            "DeletionPolicy": "Delete",
        },
    )


def test_the_function_reads_flights_and_names_what_fails_in_the_queue(templates: Templates) -> None:
    templates["processing"].has_resource_properties(
        "AWS::Lambda::EventSourceMapping",
        {
            "BatchSize": 500,
            "BisectBatchOnFunctionError": True,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "MaximumBatchingWindowInSeconds": 1,
            "MaximumRetryAttempts": 3,
            "ParallelizationFactor": 1,
            "StartingPosition": "TRIM_HORIZON",
            "EventSourceArn": {"Fn::ImportValue": Match.string_like_regexp("FlightsStream.*Arn")},
            "DestinationConfig": {
                "OnFailure": {
                    "Destination": {"Fn::GetAtt": [Match.string_like_regexp("Failures"), "Arn"]}
                }
            },
        },
    )


def test_the_function_is_given_the_stream_that_it_writes_to(templates: Templates) -> None:
    templates["processing"].has_resource_properties(
        "AWS::Lambda::Function",
        {
            "FunctionName": "enrich",
            "Handler": "handler.handler",
            "Runtime": "python3.13",
            "Environment": {
                "Variables": {
                    "OUTPUT_STREAM": {"Fn::ImportValue": Match.string_like_regexp("Ref.*Enriched")}
                }
            },
        },
    )


def test_the_packed_function_is_its_folder_without_caches(assembly: Path) -> None:
    packed = next(path.parent for path in assembly.glob("asset.*/handler.py"))

    assert sorted(str(p.relative_to(packed)) for p in packed.rglob("*") if p.is_file()) == [
        "aggregation.py",
        "handler.py",
        "logic.py",
        "reference/airlines.csv",
        "reference/planes.csv",
        "writer.py",
    ]


def test_the_delivery_converts_enriched_flights_to_parquet(templates: Templates) -> None:
    templates["delivery"].has_resource_properties(
        "AWS::KinesisFirehose::DeliveryStream",
        {
            "DeliveryStreamType": "KinesisStreamAsSource",
            "ExtendedS3DestinationConfiguration": {
                "BufferingHints": {"IntervalInSeconds": 10, "SizeInMBs": 64},
                "CompressionFormat": "UNCOMPRESSED",
                "Prefix": "flights/delivered_hour=!{timestamp:yyyy-MM-dd-HH}/",
                "ErrorOutputPrefix": Match.string_like_regexp("firehose:error-output-type"),
                "DataFormatConversionConfiguration": {
                    "Enabled": True,
                    "OutputFormatConfiguration": {
                        "Serializer": {"ParquetSerDe": {"Compression": "SNAPPY"}}
                    },
                    "SchemaConfiguration": {
                        "DatabaseName": "headrace_lake",
                        "TableName": "flights",
                    },
                },
            },
        },
    )


def test_the_delivery_waits_for_its_policy_and_its_table(templates: Templates) -> None:
    delivery = next(
        iter(templates["delivery"].find_resources("AWS::KinesisFirehose::DeliveryStream").values())
    )

    assert {name.rstrip("0123456789ABCDEF") for name in delivery["DependsOn"]} == {
        "FlightsPolicy",
        "FlightsTable",
    }


def test_the_cluster_waits_for_steps_and_logs_to_the_bucket(templates: Templates) -> None:
    templates["analytics"].has_resource_properties(
        "AWS::EMR::Cluster",
        {
            "Applications": [{"Name": "Spark"}],
            "ReleaseLabel": "emr-spark-8.0.0",
            "Instances": {
                "KeepJobFlowAliveWhenNoSteps": True,
                "MasterInstanceGroup": {"InstanceCount": 1, "InstanceType": "m5.xlarge"},
            },
            "LogUri": {"Fn::Join": ["", ["s3://", Match.any_value(), "/logs/"]]},
        },
    )


def test_the_job_is_the_one_in_spark_jobs(assembly: Path) -> None:
    job = Path(__file__).parents[2] / "spark_jobs" / "departures.py"

    assert [path.read_text() for path in assembly.glob("asset.*.py")] == [job.read_text()]


def test_the_package_of_the_jobs_holds_what_they_share(assembly: Path) -> None:
    names = [zipfile.ZipFile(path).namelist() for path in assembly.glob("asset.*.zip")]
    (package,) = (found for found in names if "spark_jobs/departures.py" in found)
    folder = Path(__file__).parents[2]

    assert package == sorted(
        path.relative_to(folder).as_posix() for path in (folder / "spark_jobs").rglob("*.py")
    )


@pytest.mark.parametrize(
    ("stage", "outputs"),
    [
        ("ingest", {"FlightsStreamName", "EnrichedStreamName"}),
        ("processing", {"EnrichFunctionName", "FailureQueueUrl"}),
        (
            "delivery",
            {"LakeBucketName", "LakePrefix", "LakeErrorPrefix", "DeliveryStreamName"}
            | {"GlueDatabaseName", "GlueTableName"},
        ),
        (
            "analytics",
            {"ClusterId", "JobUri", "SubmitOptions", "ResultsUri", "CheckpointUri"}
            | {"ResultsBucketName", "ResultsPrefix"},
        ),
    ],
)
def test_the_outputs_say_where_everything_is(
    stage: str, outputs: set[str], templates: Templates
) -> None:
    assert set(templates[stage].find_outputs("*")) >= outputs


@pytest.mark.parametrize("stage", STAGES)
def test_no_statement_allows_every_action(stage: str, templates: Templates) -> None:
    for statement in statements(templates[stage]):
        actions = listed(statement["Action"])
        assert not [action for action in actions if action in ("*", "s3:*", "kinesis:*")], statement


@pytest.mark.parametrize("stage", STAGES)
def test_no_statement_of_ours_covers_every_resource(stage: str, templates: Templates) -> None:
    for statement in statements(templates[stage]):
        # ListStreams has no resource to name: the one action that CDK's grant adds so.
        if listed(statement["Action"]) != ["kinesis:ListStreams"]:
            assert "*" not in listed(statement["Resource"]), statement


def test_the_function_may_write_and_not_create_streams(templates: Templates) -> None:
    allowed_kinesis = allowed(templates["processing"], "kinesis")

    assert "kinesis:PutRecords" in allowed_kinesis
    assert not [action for action in allowed_kinesis if "Create" in action or "Delete" in action]


def test_the_cluster_may_read_the_stream_and_not_write_to_it(templates: Templates) -> None:
    assert allowed(templates["analytics"], "kinesis") == {
        "kinesis:DescribeStreamSummary",
        "kinesis:GetRecords",
        "kinesis:GetShardIterator",
        "kinesis:ListShards",
    }


@pytest.mark.parametrize("stage", ["delivery", "analytics"])
def test_buckets_are_private_and_go_with_their_stack(stage: str, templates: Templates) -> None:
    templates[stage].has_resource(
        "AWS::S3::Bucket",
        {
            "DeletionPolicy": "Delete",
            "Properties": {
                "PublicAccessBlockConfiguration": {
                    "BlockPublicAcls": True,
                    "BlockPublicPolicy": True,
                    "IgnorePublicAcls": True,
                    "RestrictPublicBuckets": True,
                }
            },
        },
    )
    templates[stage].resource_count_is("Custom::S3AutoDeleteObjects", 1)


@pytest.mark.parametrize("stage", STAGES)
def test_a_template_is_the_same_wherever_it_is_made(stage: str, templates: Templates) -> None:
    text = json.dumps(templates[stage].to_json())

    assert "127.0.0.1" not in text
    assert "localhost" not in text
    assert str(Path.home()) not in text
    assert "AWS::CDK::Metadata" not in text
