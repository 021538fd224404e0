"""Firehose delivery streams."""

from __future__ import annotations

from typing import Any, cast

from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    Properties,
    ResourceType,
    boolean,
    enforced,
    stored,
    tag_list,
)

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
    }
)
_BOOLEANS = frozenset(
    {
        "Enabled",
        "EnableDictionaryCompression",
        "CaseInsensitive",
        "ConvertDotsInJsonKeysToUnderscores",
    }
)


def _typed(value: Any, name: str = "") -> Any:
    """Return a template's value with the numbers and booleans that the API wants."""
    if isinstance(value, dict):
        return {key: _typed(item, key) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_typed(item) for item in cast("list[Any]", value)]
    if name in _NUMBERS and isinstance(value, str):
        return int(value)
    return boolean(value) if name in _BOOLEANS else value


def _create(context: Context, properties: Properties) -> Made:
    params = _typed(properties)
    name = properties.get("DeliveryStreamName") or context.generated_name(64)
    params["DeliveryStreamName"] = name
    tags = tag_list(properties, context)
    if tags:
        params["Tags"] = tags
    arn = context.call("firehose", "CreateDeliveryStream", params)["DeliveryStreamARN"]
    return Made(name, {"Arn": arn})


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    described = context.call(
        "firehose", "DescribeDeliveryStream", {"DeliveryStreamName": physical_id}
    )["DeliveryStreamDescription"]
    params: dict[str, Any] = {
        "DeliveryStreamName": physical_id,
        "CurrentDeliveryStreamVersionId": described["VersionId"],
        "DestinationId": described["Destinations"][0]["DestinationId"],
    }
    for kind in ("S3", "ExtendedS3"):
        if f"{kind}DestinationConfiguration" in new:
            params[f"{kind}DestinationUpdate"] = _typed(new[f"{kind}DestinationConfiguration"])
    context.call("firehose", "UpdateDestination", params)
    return Made(physical_id, {"Arn": described["DeliveryStreamARN"]})


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"DeliveryStreamName": physical_id}
    context.gone_is_fine("firehose", "DeleteDeliveryStream", params, GONE)


TYPES = [
    ResourceType(
        "AWS::KinesisFirehose::DeliveryStream",
        {
            **enforced(
                "DeliveryStreamName",
                "DeliveryStreamType",
                "ExtendedS3DestinationConfiguration",
                "S3DestinationConfiguration",
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
