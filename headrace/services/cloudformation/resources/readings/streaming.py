"""How streams, delivery streams and functions are read back."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules
from headrace.services.cloudformation.resources.readings.common import each_of, same


def _enabled(mapping: dict[str, Any]) -> bool:
    return mapping["State"] in ("Enabled", "Enabling", "Creating", "Updating")


READINGS = (
    ReadingRules(
        "AWS::Kinesis::Stream",
        "kinesis",
        (
            ReadCall(
                "DescribeStreamSummary",
                {"StreamName": "@id"},
                "StreamDescriptionSummary",
                same(
                    "RetentionPeriodHours StreamModeDetails MaxRecordSizeInKiB",
                    Name="StreamName",
                    ShardCount="OpenShardCount",
                    StreamEncryption=".",
                    DesiredShardLevelMetrics="EnhancedMonitoring.0.ShardLevelMetrics",
                    WarmThroughputMiBps="WarmThroughput.TargetMiBps",
                ),
            ),
        ),
        {"Arn": "StreamARN"},
        gone=lambda stream: stream["StreamStatus"] == "DELETING",
    ),
    ReadingRules(
        "AWS::Kinesis::StreamConsumer",
        "kinesis",
        (
            ReadCall(
                "DescribeStreamConsumer",
                {"ConsumerARN": "@id"},
                "ConsumerDescription",
                same("ConsumerName StreamARN"),
            ),
        ),
        same("ConsumerARN ConsumerName ConsumerStatus StreamARN"),
        gone=lambda consumer: consumer["ConsumerStatus"] == "DELETING",
    ),
    ReadingRules(
        "AWS::Lambda::Function",
        "lambda",
        (
            ReadCall(
                "GetFunctionConfiguration",
                {"FunctionName": "@id"},
                properties=same(
                    "Architectures DeadLetterConfig Description Environment "
                    "EphemeralStorage FunctionName Handler LoggingConfig "
                    "MemorySize PackageType Role Runtime Timeout TracingConfig",
                    KmsKeyArn="KMSKeyArn",
                    Layers=each_of("Layers", "Arn"),
                ),
            ),
            ReadCall(
                "GetFunctionConcurrency",
                {"FunctionName": "@id"},
                properties=same("ReservedConcurrentExecutions"),
            ),
        ),
        {"Arn": "FunctionArn"},
    ),
    ReadingRules(
        "AWS::Lambda::EventSourceMapping",
        "lambda",
        (
            ReadCall(
                "GetEventSourceMapping",
                {"UUID": "@id"},
                properties=same(
                    "BatchSize BisectBatchOnFunctionError DestinationConfig "
                    "EventSourceArn FilterCriteria FunctionResponseTypes "
                    "MaximumBatchingWindowInSeconds MaximumRecordAgeInSeconds "
                    "MaximumRetryAttempts ParallelizationFactor StartingPosition "
                    "TumblingWindowInSeconds",
                    Enabled=_enabled,
                ),
            ),
        ),
        {"Id": "UUID", "EventSourceMappingArn": "EventSourceMappingArn"},
    ),
    ReadingRules(
        "AWS::Lambda::Alias",
        "lambda",
        (
            ReadCall(
                "GetAlias",
                {"FunctionName": "@FunctionName", "Name": "@Name"},
                properties=same("Description FunctionVersion Name"),
            ),
        ),
        named=False,
    ),
    ReadingRules(
        "AWS::KinesisFirehose::DeliveryStream",
        "firehose",
        (
            ReadCall(
                "DescribeDeliveryStream",
                {"DeliveryStreamName": "@id"},
                "DeliveryStreamDescription",
                same(
                    "DeliveryStreamName DeliveryStreamType",
                    ExtendedS3DestinationConfiguration="Destinations.0.ExtendedS3DestinationDescription",
                    S3DestinationConfiguration="Destinations.0.S3DestinationDescription",
                    KinesisStreamSourceConfiguration="Source.KinesisStreamSourceDescription",
                ),
            ),
        ),
        {"Arn": "DeliveryStreamARN"},
    ),
)
