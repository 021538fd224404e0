"""Firehose's CloudWatch metrics: which of AWS's metrics headrace has, their units, and why it lacks the others.

Source of names and units: docs.aws.amazon.com/firehose/latest/dev/monitoring-with-cloudwatch-metrics.html (documented,
read 2026). tests/unit/firehose/test_metrics.py checks that each name in `EMITTED` is sent, with its unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAMESPACE: Final = "AWS/Firehose"
# A metric's value: name, value, unit.
Measure = tuple[str, float, str]

_COUNT, _BYTES, _SECONDS, _MS = "Count", "Bytes", "Seconds", "Milliseconds"


def _list_metrics(start: str, **units: str) -> dict[str, str]:
    return {f"{start}.{name}": unit for name, unit in units.items()}


def _list_delivery_metrics(start: str) -> dict[str, str]:
    return _list_metrics(
        start, Bytes=_BYTES, Records=_COUNT, Success=_COUNT, DataFreshness=_SECONDS
    )


# The unit by name, for metrics that do not belong to one destination and for those that do.
EMITTED: Final[Mapping[str, str]] = {
    # Direct puts.
    "IncomingBytes": _BYTES,
    "IncomingRecords": _COUNT,
    "IncomingPutRequests": _COUNT,
    "ThrottledRecords": _COUNT,
    "BytesPerSecondLimit": _BYTES,
    "RecordsPerSecondLimit": _COUNT,
    "PutRequestsPerSecondLimit": _COUNT,
    # Calls.
    **_list_metrics("PutRecord", Bytes=_BYTES, Latency=_MS, Requests=_COUNT),
    **_list_metrics("PutRecordBatch", Bytes=_BYTES, Latency=_MS, Records=_COUNT, Requests=_COUNT),
    **_list_metrics("DescribeDeliveryStream", Latency=_MS, Requests=_COUNT),
    **_list_metrics("UpdateDeliveryStream", Latency=_MS, Requests=_COUNT),
    # A Kinesis stream as the source.
    **_list_metrics("DataReadFromKinesisStream", Bytes=_BYTES, Records=_COUNT),
    "KinesisMillisBehindLatest": _MS,
    # An unusable customer-managed key.
    "KMSKeyDisabled": _COUNT,
    "KMSKeyInvalidState": _COUNT,
    "KMSKeyNotFound": _COUNT,
    # Processing.
    **_list_metrics("ExecuteProcessing", Duration=_MS, Success=_COUNT),
    **_list_metrics("SucceedProcessing", Records=_COUNT, Bytes=_BYTES),
    **_list_metrics("OutputDecompressedBytes", Success=_BYTES, Failed=_BYTES),
    **_list_metrics("OutputDecompressedRecords", Success=_COUNT, Failed=_COUNT),
    **_list_metrics("SucceedConversion", Records=_COUNT, Bytes=_BYTES),
    **_list_metrics("FailedConversion", Records=_COUNT, Bytes=_BYTES),
    # Dynamic partitioning.
    "ActivePartitionsLimit": _COUNT,
    "PartitionCount": _COUNT,
    "PartitionCountExceeded": _COUNT,
    "PerPartitionThroughput": "Bytes/Second",
    "JQProcessing.Duration": _MS,
    "DeliveryToS3.ObjectCount": _COUNT,
    # Deliveries.
    **_list_delivery_metrics("DeliveryToS3"),
    **_list_delivery_metrics("BackupToS3"),
    **_list_delivery_metrics("DeliveryToAmazonOpenSearchService"),
    **_list_metrics(
        "DeliveryToAmazonOpenSearchService", AuthFailure=_COUNT, DeliveryRejected=_COUNT
    ),
    **_list_delivery_metrics("DeliveryToElasticsearch"),
    **_list_delivery_metrics("DeliveryToAmazonOpenSearchServerless"),
    **_list_metrics(
        "DeliveryToAmazonOpenSearchServerless", AuthFailure=_COUNT, DeliveryRejected=_COUNT
    ),
    **_list_delivery_metrics("DeliveryToHttpEndpoint"),
    **_list_metrics("DeliveryToHttpEndpoint", ProcessedBytes=_BYTES, ProcessedRecords=_COUNT),
    **_list_delivery_metrics("DeliveryToSplunk"),
    **_list_metrics("DeliveryToSplunk", DataAckLatency=_SECONDS),
    # DeliveryToS3 counts its objects in S3.
    **_list_metrics("DeliveryToRedshift", Bytes=_BYTES, Records=_COUNT, Success=_COUNT),
    **_list_metrics("DeliveryToIceberg", Bytes=_BYTES, Success=_COUNT, DataFreshness=_SECONDS),
    **_list_metrics(
        "DeliveryToIceberg",
        IncomingRowCount=_COUNT,
        SuccessfulRowCount=_COUNT,
        FailedRowCount=_COUNT,
    ),
}

_NO_THROTTLE = "headrace's own reads of a stream are never throttled"
_NO_GRANT = "a key is looked at, but no grant on it is made that could be revoked"
_NO_MSK = "MSK as the source is refused by name"
_NO_SNOWFLAKE = "Snowflake as the destination is refused by name"
# AWS's other metrics, and why headrace does not have them.
NOT_EMITTED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("ThrottledDescribeStream", "ThrottledGetRecords", "ThrottledGetShardIterator"),
        _NO_THROTTLE,
    ),
    "KMSKeyAccessDenied": _NO_GRANT,
    **dict.fromkeys(
        ("ListDeliveryStreams.Latency", "ListDeliveryStreams.Requests"),
        "a metric of no delivery stream, which belongs to none of the workers that send metrics",
    ),
    **dict.fromkeys(
        (
            "DataReadFromSource.Records",
            "DataReadFromSource.Bytes",
            "DataReadFromSource.Backpressured",
            "SourceThrottled.Delay",
            "KafkaOffsetLag",
            "FailedValidation.Records",
            "FailedValidation.Bytes",
        ),
        _NO_MSK,
    ),
    **dict.fromkeys(
        (
            f"DeliveryToSnowflake.{name}"
            for name in ("Bytes", "Records", "Success", "DataFreshness", "DataCommitLatency")
        ),
        _NO_SNOWFLAKE,
    ),
    "ResourceCount": "of AWS/Usage: quotas are read from the service, not counted",
}
