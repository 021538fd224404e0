"""Firehose delivery streams."""

from __future__ import annotations

from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceFailed,
    ResourceResult,
    ResourceType,
    boolean,
    enforced,
    stored,
    tag_list,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same

GONE = "ResourceNotFoundException"
_NUMBERS = frozenset(
    {
        "IntervalInSeconds",
        "SizeInMBs",
        "DurationInSeconds",
        "BlockSizeBytes",
        "PageSizeBytes",
        "MaxPaddingBytes",
        "StripeSizeBytes",
        "RowIndexStride",
        "HECAcknowledgmentTimeoutInSeconds",
        "ThroughputHintInMBs",
    }
)
# Kinds of destinations, in the API's spelling.
_KINDS = (
    "S3",
    "ExtendedS3",
    "Redshift",
    "Elasticsearch",
    "Amazonopensearchservice",
    "AmazonOpenSearchServerless",
    "Splunk",
    "HttpEndpoint",
    "Snowflake",
    "Iceberg",
)
_REALS = frozenset(
    {"PaddingTolerance", "BloomFilterFalsePositiveProbability", "DictionaryKeyThreshold"}
)
# Iceberg members that the API spells differently.
_NAMED = {"CatalogArn": "CatalogARN", "s3BackupMode": "S3BackupMode"}
# Members that UpdateDestination names differently.
_UPDATES = {"S3Configuration": "S3Update", "S3BackupConfiguration": "S3BackupUpdate"}
_SEARCH_KINDS = ("Elasticsearch", "Amazonopensearchservice", "AmazonOpenSearchServerless")
_FIXED_OF_SEARCH = ("VpcConfiguration", "S3BackupMode")
_ACTIVE_WITHIN_S = 600.0
_CHECK_EVERY_S = 0.05
_BOOLEANS = frozenset(
    {
        "Enabled",
        "EnableDictionaryCompression",
        "CaseInsensitive",
        "ConvertDotsInJsonKeysToUnderscores",
        "EnablePadding",
        "AppendOnly",
    }
)


def _convert_types(value: Any, name: str = "") -> Any:
    """Return a template's value with numbers and booleans in the API's types."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {_NAMED.get(key, key): _convert_types(item, key) for key, item in items}
    if isinstance(value, list):
        return [_convert_types(item) for item in cast("list[Any]", value)]
    if name in _NUMBERS and isinstance(value, str):
        return int(value)
    if name in _REALS and isinstance(value, str):
        return float(value)
    return boolean(value) if name in _BOOLEANS else value


def _create(context: Context, properties: Properties) -> ResourceResult:
    params = _convert_types(properties)
    name = properties.get("DeliveryStreamName") or context.generate_name(64)
    params["DeliveryStreamName"] = name
    tags = tag_list(properties, context)
    if tags:
        params["Tags"] = tags
    arn = context.call("firehose", "CreateDeliveryStream", params)["DeliveryStreamARN"]
    _wait_until_active(context, name)
    return ResourceResult(name, {"Arn": arn})


def _wait_until_active(context: Context, name: str) -> None:
    """Wait until a delivery stream is ACTIVE. Raises ResourceFailed when that takes too long."""
    deadline_s = context.clock.monotonic_s() + _ACTIVE_WITHIN_S
    while True:
        described = context.call("firehose", "DescribeDeliveryStream", {"DeliveryStreamName": name})
        if described["DeliveryStreamDescription"]["DeliveryStreamStatus"] != "CREATING":
            return
        if context.clock.monotonic_s() > deadline_s:
            raise ResourceFailed(f"Delivery stream {name} did not become ACTIVE in time.")
        context.pause(_CHECK_EVERY_S)


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    described = context.call(
        "firehose", "DescribeDeliveryStream", {"DeliveryStreamName": physical_id}
    )["DeliveryStreamDescription"]
    params: dict[str, Any] = {
        "DeliveryStreamName": physical_id,
        "CurrentDeliveryStreamVersionId": described["VersionId"],
        "DestinationId": described["Destinations"][0]["DestinationId"],
    }
    for kind in _KINDS:
        configuration = new.get(f"{kind}DestinationConfiguration")
        if configuration is not None:
            params[f"{kind}DestinationUpdate"] = _as_update(kind, configuration, old)
    context.call("firehose", "UpdateDestination", params)
    return ResourceResult(physical_id, {"Arn": described["DeliveryStreamARN"]})


def _as_update(kind: str, properties: Properties, old: Properties) -> dict[str, Any]:
    """Return a destination in UpdateDestination's form. Raises AwsError for a change that it does not support."""
    before: Properties = old.get(f"{kind}DestinationConfiguration") or {}
    update: dict[str, Any] = {}
    typed: dict[str, Any] = _convert_types(properties)
    for name, value in typed.items():
        if kind not in _SEARCH_KINDS or name not in _FIXED_OF_SEARCH:
            update[name if kind == "Iceberg" else _UPDATES.get(name, name)] = value
        elif before and value != _convert_types(before).get(name):
            raise AwsError(
                "ValidationError",
                f"{name} of {kind}DestinationConfiguration cannot be changed; give the delivery stream another name.",
            )
    return update


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"DeliveryStreamName": physical_id}
    context.delete_if_exists("firehose", "DeleteDeliveryStream", params, GONE)


TYPES = [
    ResourceType(
        "AWS::KinesisFirehose::DeliveryStream",
        {
            **enforced(
                "DeliveryStreamName",
                "DeliveryStreamType",
                *(f"{kind}DestinationConfiguration" for kind in _KINDS),
                "DirectPutSourceConfiguration",
                "KinesisStreamSourceConfiguration",
                "Tags",
            ),
            **stored("DeliveryStreamEncryptionConfigurationInput"),
        },
        _create,
        _delete,
        update=_update,
        named_by=("DeliveryStreamName",),
        replace_on=frozenset(
            {"DeliveryStreamName", "DeliveryStreamType", "KinesisStreamSourceConfiguration"}
        ),
    )
]


# How they are read back; see `reading.py`.
READINGS = (
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
