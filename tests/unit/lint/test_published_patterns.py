"""Defects that AWS's own published patterns ship, each as the pattern's settings, and the rule that finds it.

Read in November 2026 in the source of the Streaming Data Solution for Amazon Kinesis (aws-solutions on GitHub), in
aws-samples/serverless-patterns, and in what AWS Solutions Constructs 2.92.2 synthesise.
"""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from headrace.cli.commands import headrace
from tests.unit.lint.support import findings, found

PARAMETERS = """\
Parameters:
  ParallelizationFactor: {Type: Number, Default: 1}
  MaxRetryAttempts: {Type: Number, Default: 3}
  BatchSize: {Type: Number, Default: 100}
  BufferingSize: {Type: Number, Default: 5}
  BufferingInterval: {Type: Number, Default: 300}
"""


def test_retries_and_parallel_batches_are_swapped() -> None:
    """source/patterns/apigw-kds-lambda.ts: each takes the other's parameter."""
    mapping = """\
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties:
    EventSourceArn: arn:aws:kinesis:us-east-1:123456789012:stream/Kds
    FunctionName: consumer
    StartingPosition: LATEST
    BatchSize: !Ref BatchSize
    MaximumRetryAttempts: !Ref ParallelizationFactor
    ParallelizationFactor: !Ref MaxRetryAttempts
    BisectBatchOnFunctionError: true
"""
    swapped = [one.message for one in findings(mapping, head=PARAMETERS) if one.rule.id == "W9008"]

    assert swapped == [
        "Mapping takes MaximumRetryAttempts from ParallelizationFactor, which is named after ParallelizationFactor",
        "Mapping takes ParallelizationFactor from MaxRetryAttempts, which is named after MaximumRetryAttempts",
    ]


DELIVERY = """\
Delivery:
  Type: AWS::KinesisFirehose::DeliveryStream
  Properties:
    DeliveryStreamType: KinesisStreamAsSource
    ExtendedS3DestinationConfiguration:
      BucketARN: arn:aws:s3:::output
      RoleARN: arn:aws:iam::123456789012:role/firehose
      BufferingHints: {SizeInMBs: !Ref BufferingSize, IntervalInSeconds: !Ref BufferingInterval}
      Prefix: data/year=!{timestamp:yyyy}/
"""


def test_dynamic_partitioning_has_the_buffer_of_a_delivery_without() -> None:
    """source/lib/kdf-delivery-stream.ts: both deliveries share the hints, whose default is 5 MB."""
    partitioned = """\
      ErrorOutputPrefix: errors/!{timestamp:yyyy}/!{firehose:error-output-type}
      DynamicPartitioningConfiguration: {Enabled: true}
"""
    assert "E9020" in found(DELIVERY + partitioned, head=PARAMETERS)


def test_an_error_prefix_lacks_the_type_of_error() -> None:
    """A prefix by year, month and day for errors, as for data: seen in several published templates."""
    prefix = "      ErrorOutputPrefix: errors/year=!{timestamp:yyyy}/month=!{timestamp:MM}/\n"

    assert "E9023" in found(DELIVERY + prefix, head=PARAMETERS)


def test_parquet_is_compressed_again() -> None:
    """Metrics by way of Firehose to Parquet, with CompressionFormat GZIP: seen in a published template."""
    converted = """\
      ErrorOutputPrefix: errors/!{firehose:error-output-type}
      CompressionFormat: GZIP
      DataFormatConversionConfiguration: {Enabled: true}
"""
    assert "E9021" in found(DELIVERY + converted, head=PARAMETERS)


def test_an_alarm_on_the_iterators_age_names_no_stream() -> None:
    """AWS Solutions Constructs, aws-kinesis-streams-lambda: both alarms are without a dimension."""
    template = """\
Alarm:
  Type: AWS::CloudWatch::Alarm
  Properties:
    ComparisonOperator: GreaterThanOrEqualToThreshold
    EvaluationPeriods: 1
    MetricName: GetRecords.IteratorAgeMilliseconds
    Namespace: AWS/Kinesis
    Period: 300
    Statistic: Maximum
    Threshold: 43200000
"""
    assert found(template) == ["W9031"]


def test_a_sam_function_on_a_stream_says_nothing_of_failures() -> None:
    """serverless-patterns, kinesis-lambda: a stream, a function, and an event with a size and a position."""
    template = """\
KinesisStream: {Type: 'AWS::Kinesis::Stream', Properties: {ShardCount: 1}}
ApplicationFunction:
  Type: AWS::Serverless::Function
  Properties:
    Events:
      Stream:
        Type: Kinesis
        Properties: {Stream: !GetAtt KinesisStream.Arn, StartingPosition: LATEST, BatchSize: 100}
"""
    ids = set(found(template, head="Transform: AWS::Serverless-2016-10-31\n"))

    assert ids == {"W9001", "W9002", "W9003", "W9030", "W9040"}


def test_permissions_that_do_not_exist_are_found_by_cfn_lints_own_rule(tmp_path: Path) -> None:
    statement = {"Effect": "Allow", "Action": ["kinesis:ReadRecords"], "Resource": "*"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    policy = {"PolicyName": "read", "Roles": ["consumer"], "PolicyDocument": document}
    body = {"Resources": {"Read": {"Type": "AWS::IAM::Policy", "Properties": policy}}}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(body))

    result = CliRunner().invoke(headrace, ["lint", str(path), "--format", "parseable"])

    assert result.exit_code == 4
    assert ":W3037:" in result.stdout
    assert "readrecords" in result.stdout.lower()
