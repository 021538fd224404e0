"""Types that deliver streams to stores: Firehose's delivery streams, Kinesis' channels."""

from __future__ import annotations

from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.values import get_mapping
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
    tag_map,
    value_at,
    without,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same
from headrace.services.cloudformation.resources.types.kinesis import (
    CHECK_EVERY_S,
    GONE,
    wait_until_active,
)

_DESTINATIONS = ("S3DestinationConfiguration", "S3TablesDestinationConfiguration")
_FRESHNESS = "DataFreshnessInSeconds"
_DEFAULT_FRESHNESS_S = 300


def _create_channel(context: Context, properties: Properties) -> ResourceResult:
    params: dict[str, Any] = {
        name: properties[name]
        for name in (
            "ChannelName",
            "ServiceExecutionRoleARN",
            "StreamConfigurationList",
            "EncryptionConfiguration",
        )
        if name in properties
    }
    for name in _DESTINATIONS:
        if name in properties:
            params[name] = _destination(get_mapping(properties, name))
    if "LoggingConfiguration" in properties:
        params["LoggingConfiguration"] = _logging(properties)
    tags = tag_map(properties, context)
    if tags:
        params["Tags"] = tags
    arn = context.call("kinesis", "CreateChannel", params)["ChannelDescription"]["ChannelARN"]
    context.note_made(arn)
    return _build_result(context, arn)


def _destination(destination: dict[str, Any]) -> dict[str, Any]:
    """Return a template's destination with its number as a number."""
    number = {_FRESHNESS: int(destination[_FRESHNESS])} if _FRESHNESS in destination else {}
    return {**destination, **number}


def _logging(properties: Properties) -> dict[str, Any]:
    """Return a template's logging with its boolean as a boolean."""
    logs = get_mapping(get_mapping(properties, "LoggingConfiguration"), "CloudWatchLogs")
    return {"CloudWatchLogs": {**logs, "Enabled": boolean(logs.get("Enabled"))}}


def _build_result(context: Context, arn: str) -> ResourceResult:
    def describe() -> dict[str, Any]:
        answer = context.call("kinesis", "DescribeChannel", {"ChannelARN": arn})
        return dict(answer["ChannelDescription"])

    def status() -> str:
        channel = describe()
        if channel["ChannelStatus"] == "FAILED":
            raise ResourceFailed(f"Channel {arn} is FAILED: {channel['ChannelStatusReason']}")
        return str(channel["ChannelStatus"])

    wait_until_active(context, status, f"Channel {arn}")
    channel = describe()
    created = int(channel["ChannelCreationTimestamp"].timestamp())
    return ResourceResult(
        arn,
        {
            "ChannelARN": arn,
            "ChannelId": channel["ChannelId"],
            "ChannelStatus": "ACTIVE",
            "ChannelCreationTimestamp": str(created),
        },
    )


def _find(context: Context, properties: Properties) -> str | None:
    params: dict[str, Any] = {}
    while True:
        page = context.call("kinesis", "ListChannels", params)
        for channel in page["ChannelSummaries"]:
            if channel["ChannelName"] == properties["ChannelName"]:
                return str(channel["ChannelARN"])
        if "NextToken" not in page:
            return None
        params["NextToken"] = page["NextToken"]


def _retag(context: Context, arn: str, old: Properties, new: Properties) -> None:
    """Set the tags of a channel to those in `new`."""
    tags = tag_map(new, context)
    gone = sorted(set(tag_map(old, context)) - set(tags))
    if tags:
        context.call("kinesis", "TagResource", {"ResourceARN": arn, "Tags": tags})
    if gone:
        context.call("kinesis", "UntagResource", {"ResourceARN": arn, "TagKeys": gone})


def _update_channel(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    change: dict[str, Any] = {}
    for name in _DESTINATIONS:
        before, after = _freshness_s(old, name), _freshness_s(new, name)
        if name in new and before != after:
            change[name] = {_FRESHNESS: after}
    if old.get("LoggingConfiguration") != new.get("LoggingConfiguration"):
        change["LoggingConfiguration"] = _logging(new)
    if change:
        context.call("kinesis", "UpdateChannel", {"ChannelARN": physical_id, **change})
        _build_result(context, physical_id)
    _retag(context, physical_id, old, new)
    return _build_result(context, physical_id)


def _freshness_s(properties: Properties, name: str) -> int:
    return int(get_mapping(properties, name).get(_FRESHNESS, _DEFAULT_FRESHNESS_S))


def _is_replaced(old: Properties, new: Properties) -> bool:
    """Return whether more of a destination changes than the data freshness."""
    return any(
        without(get_mapping(old, name), _FRESHNESS) != without(get_mapping(new, name), _FRESHNESS)
        for name in _DESTINATIONS
    )


def _delete_channel(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"ChannelARN": physical_id}
    context.delete_if_exists("kinesis", "DeleteChannel", params, GONE)
    # The stream cannot be deleted before its channels are gone.
    while context.find_identifier(
        "kinesis", "DescribeChannel", params, "channel", "ChannelDescription"
    ):
        context.pause(CHECK_EVERY_S)


# How they are read back; see `reading.py`.


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


# How they are read back; see `reading.py`.


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
    ),
    ResourceType(
        "AWS::Kinesis::Channel",
        enforced(
            "ChannelName",
            "ServiceExecutionRoleARN",
            "StreamConfigurationList",
            *_DESTINATIONS,
            "EncryptionConfiguration",
            "LoggingConfiguration",
            "Tags",
        ),
        _create_channel,
        _delete_channel,
        update=_update_channel,
        replace_on=frozenset(
            {
                "ChannelName",
                "ServiceExecutionRoleARN",
                "StreamConfigurationList",
                "EncryptionConfiguration",
            }
        ),
        may_replace=frozenset(_DESTINATIONS),
        replaced_if=_is_replaced,
        named_by=("ChannelName",),
        made=_find,
    ),
]


def _extended_s3(described: Any) -> Any:
    """Return an S3 destination with its backup's bucket under the template's name."""
    destination = value_at(described, "Destinations.0.ExtendedS3DestinationDescription")
    if not isinstance(destination, dict):
        return None
    members = cast("dict[str, Any]", destination)
    return {**members, "S3BackupConfiguration": members.get("S3BackupDescription")}


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
                    ExtendedS3DestinationConfiguration=_extended_s3,
                    S3DestinationConfiguration="Destinations.0.S3DestinationDescription",
                    KinesisStreamSourceConfiguration="Source.KinesisStreamSourceDescription",
                ),
            ),
        ),
        {"Arn": "DeliveryStreamARN"},
    ),
    ReadingRules(
        "AWS::Kinesis::Channel",
        "kinesis",
        (
            ReadCall(
                "DescribeChannel",
                {"ChannelARN": "@id"},
                "ChannelDescription",
                same(
                    "ChannelName ServiceExecutionRoleARN StreamConfigurationList S3DestinationConfiguration"
                    " S3TablesDestinationConfiguration EncryptionConfiguration LoggingConfiguration"
                ),
            ),
        ),
        same("ChannelARN ChannelId ChannelStatus"),
        gone=lambda channel: channel["ChannelStatus"] == "DELETING",
    ),
)
