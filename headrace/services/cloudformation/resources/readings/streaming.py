"""How streams, delivery streams and functions are read back."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.reading import Look, Reading
from headrace.services.cloudformation.resources.readings.common import each_of, same


def _enabled(mapping: dict[str, Any]) -> bool:
    return mapping["State"] in ("Enabled", "Enabling", "Creating", "Updating")


READINGS = (
    Reading(
        "AWS::Kinesis::Stream",
        "kinesis",
        (
            Look(
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
    Reading(
        "AWS::Kinesis::StreamConsumer",
        "kinesis",
        (
            Look(
                "DescribeStreamConsumer",
                {"ConsumerARN": "@id"},
                "ConsumerDescription",
                same("ConsumerName StreamARN"),
            ),
        ),
        same("ConsumerARN ConsumerName ConsumerStatus StreamARN"),
        gone=lambda consumer: consumer["ConsumerStatus"] == "DELETING",
    ),
    Reading(
        "AWS::Lambda::Function",
        "lambda",
        (
            Look(
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
            Look(
                "GetFunctionConcurrency",
                {"FunctionName": "@id"},
                properties=same("ReservedConcurrentExecutions"),
            ),
        ),
        {"Arn": "FunctionArn"},
    ),
    Reading(
        "AWS::Lambda::EventSourceMapping",
        "lambda",
        (
            Look(
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
    Reading(
        "AWS::Lambda::Alias",
        "lambda",
        (
            Look(
                "GetAlias",
                {"FunctionName": "@FunctionName", "Name": "@Name"},
                properties=same("Description FunctionVersion Name"),
            ),
        ),
        named=False,
    ),
    Reading(
        "AWS::KinesisFirehose::DeliveryStream",
        "firehose",
        (
            Look(
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
