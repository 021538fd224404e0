"""CreateChannel, UpdateChannel, DeleteChannel, DescribeChannel and ListChannels."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    ChannelDescription,
    ChannelSummary,
    CreateChannelInput,
    CreateChannelOutput,
    DeleteChannelInput,
    DescribeChannelInput,
    DescribeChannelOutput,
    ListChannelsInput,
    ListChannelsOutput,
    RecordConfiguration,
    S3TablesDestinationConfiguration,
    UpdateChannelInput,
    UpdateChannelOutput,
)
from headrace.services.kinesis.actions.resources import check_tags
from headrace.services.kinesis.actions.streams import matches_filter
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.channel_orders import (
    DEFAULT_TEMPLATE,
    Channel,
    ChannelOrder,
    ChannelStatus,
    find_fault,
    names_of,
)
from headrace.services.kinesis.errors import (
    LIST_CHANNELS_MOST,
    MAX_FRESHNESS_S,
    MIN_FRESHNESS_S,
    in_use,
    invalid_argument,
    limit_exceeded,
)
from headrace.services.kinesis.state import Stream

_OWN_KEY = "alias/aws/kinesis"
_TO_BUCKET: Final = "S3DestinationConfiguration"
_TO_TABLE: Final = "S3TablesDestinationConfiguration"


@operation("CreateChannel")
def create_channel(
    kinesis: Kinesis, call: Call, request: CreateChannelInput
) -> CreateChannelOutput:
    """Create a channel from an on-demand stream to a bucket or a table. Source: API_CreateChannel.

    What the destination lacks makes the channel FAILED after its time in CREATING (data-delivery-troubleshooting.md).
    """
    configuration, records = _check_request(request)
    table = configuration.get("S3TablesConfigurationList", [{}])[0]
    name, tags = request["ChannelName"], dict(request.get("Tags", {}))
    check_tags({}, tags, name, call.account, "channel")
    stream = _stream_for(kinesis, call, request)
    _check_room(kinesis, call, stream, name, is_table=bool(table))
    channel_id = kinesis.channels.new_id()
    encryption = request.get("EncryptionConfiguration")
    key_id = encryption["KeyId"] if encryption else ""
    channel = Channel(
        name=name,
        account=call.account,
        region=call.region,
        channel_id=channel_id,
        stream_id=stream.stream_id,
        created_ms=call.now_ms,
        role_arn=request["ServiceExecutionRoleARN"],
        record_format=records["RecordFormatType"],
        freshness_s=_freshness_s(configuration),
        storage={} if table else _storage(configuration, names_of(name, channel_id, stream.name)),
        table=table,
        schema_arn=records.get("GSRSchemaARN", ""),
        dead_letters=_dead_letters(configuration, name, channel_id),
        logging=_logging(request.get("LoggingConfiguration"), _default_logging(name, channel_id)),
        key_id=key_id,
        key_arn=_key_arn(kinesis, call, key_id),
        tags=tags,
    )
    # Asked before the lock is taken: the question may first have to load IAM.
    obstacle = kinesis.channels.find_obstacle(channel, stream)
    with kinesis.lock:
        stream = _stream_for(kinesis, call, request)
        _check_room(kinesis, call, stream, name, is_table=bool(table))
        kinesis.channels.add(channel, stream, obstacle)
    order = kinesis.channels.find(channel.arn, call.now_ms)
    kinesis.channels.make_table(order)
    # AWS answers before the channel is there, however quickly it is.
    return {"ChannelDescription": _description(order, "CREATING")}


@operation("UpdateChannel")
def update_channel(
    kinesis: Kinesis, call: Call, request: UpdateChannelInput
) -> UpdateChannelOutput:
    """Change the data freshness or the logging. Source: API_UpdateChannel."""
    logging = request.get("LoggingConfiguration")
    of_kind = {
        name: cast("dict[str, Any]", request.get(name))
        for name in (_TO_BUCKET, _TO_TABLE)
        if name in request
    }
    if not of_kind and logging is None:
        raise _invalid(f"{_TO_BUCKET}, {_TO_TABLE} or LoggingConfiguration must be specified.")
    with kinesis.lock:
        order = kinesis.channels.find(request["ChannelARN"], call.now_ms)
        channel, status = order.channel, order.channel.status(call.now_ms)
        if status != "ACTIVE":
            raise in_use(f"Channel {channel.arn} is not ACTIVE, instead in state {status}.")
        if of_kind.keys() - {_TO_TABLE if channel.table else _TO_BUCKET}:
            kind = "general purpose bucket" if channel.table else "streaming table"
            raise _invalid(f"The destination of the channel is not a {kind}.")
        freshness_s = channel.freshness_s
        for configuration in of_kind.values():
            freshness_s = _freshness_s(configuration)
        channel.logging = _logging(logging, channel.logging)
        channel.freshness_s = freshness_s
        kinesis.channels.update(order, call.now_ms)
        return {"ChannelDescription": _description(order, "UPDATING")}


@operation("DeleteChannel")
def delete_channel(kinesis: Kinesis, call: Call, request: DeleteChannelInput) -> None:
    """Delete a channel; what it delivered stays. Source: API_DeleteChannel.

    Assumed: a channel in any other state than DELETING can be deleted, and a second call is no error.
    """
    with kinesis.lock:
        order = kinesis.channels.find(request["ChannelARN"], call.now_ms)
        if order.channel.status(call.now_ms) != "DELETING":
            kinesis.channels.delete(order, call.now_ms)


@operation("DescribeChannel")
def describe_channel(
    kinesis: Kinesis, call: Call, request: DescribeChannelInput
) -> DescribeChannelOutput:
    """Return a channel. Source: API_DescribeChannel."""
    order = kinesis.channels.find(request["ChannelARN"], call.now_ms)
    return {"ChannelDescription": _description(order, order.channel.status(call.now_ms))}


@operation("ListChannels")
def list_channels(kinesis: Kinesis, call: Call, request: ListChannelsInput) -> ListChannelsOutput:
    """Return a page of an account's channels, sorted by name. Source: API_ListChannels."""
    filters = request.get("StreamFilter", [])
    page, next_token = kinesis.tokens.cut_page(
        "ListChannels",
        [
            order
            for order in kinesis.channels.listed(call.account, call.region, call.now_ms)
            # Assumed: of several filters one must match.
            if not filters or any(matches_filter(order.stream, one) for one in filters)
        ],
        lambda order: order.name,
        token=request.get("NextToken"),
        limit=min(request.get("MaxResults", LIST_CHANNELS_MOST), LIST_CHANNELS_MOST),
        now_ms=call.now_ms,
    )
    answer: ListChannelsOutput = {
        "ChannelSummaries": [_summary(order, call.now_ms) for order in page]
    }
    if next_token is not None:
        answer["NextToken"] = next_token
    return answer


# --- checks ---------------------------------------------------------------------------------------


def _check_request(request: CreateChannelInput) -> tuple[dict[str, Any], RecordConfiguration]:
    """Return the destination and the configuration of the records. Raises AwsError."""
    destination, tables = request.get(_TO_BUCKET), request.get(_TO_TABLE)
    if (destination is None) == (tables is None):
        raise _invalid(f"You must specify either {_TO_BUCKET} or {_TO_TABLE}, but not both.")
    configurations = request["StreamConfigurationList"]
    if len(configurations) != 1:
        raise _invalid("StreamConfigurationList must contain exactly one entry.")
    records = configurations[0]["RecordConfiguration"]
    if tables is not None:
        _check_table(tables, records)
        return cast("dict[str, Any]", tables), records
    if records["RecordFormatType"] == "GSR_JSON":
        raise _invalid("RecordFormatType GSR_JSON is supported only for streaming tables.")
    if "GSRSchemaARN" in records:
        raise _invalid("GSRSchemaARN is supported only for streaming tables.")
    return cast("dict[str, Any]", destination), records


def _check_table(tables: S3TablesDestinationConfiguration, records: RecordConfiguration) -> None:
    """Raise AwsError for a table that no channel can have."""
    if len(tables["S3TablesConfigurationList"]) != 1:
        raise _invalid("S3TablesConfigurationList must contain exactly one entry.")
    kind = records["RecordFormatType"]
    if kind not in ("JSON", "GSR_JSON"):
        raise _invalid(f"RecordFormatType {kind} is supported only for general purpose buckets.")
    if "GSRSchemaARN" not in records:
        raise _invalid("GSRSchemaARN is required for streaming tables.")
    if "PartitionSpec" not in tables["S3TablesConfigurationList"][0]:
        # Documented: references/streaming-tables.md of aws/agent-toolkit-for-aws.
        raise _invalid("PartitionSpec is required for streaming tables.")


def _stream_for(kinesis: Kinesis, call: Call, request: CreateChannelInput) -> Stream:
    """Return the stream that a new channel is to read, of the caller's account and region (documented)."""
    arn = request["StreamConfigurationList"][0]["StreamARN"]
    stream = kinesis.find_active(call.account, call.region, {"StreamARN": arn}, call.now_ms)
    if (stream.account, stream.region) != (call.account, call.region):
        raise invalid_argument(f"StreamARN {arn} is not in account {call.account}, {call.region}.")
    if stream.mode != "ON_DEMAND":
        raise _invalid(
            f"Stream {stream.name} under account {stream.account} is in PROVISIONED mode."
            " Channels are supported only on data streams in on-demand capacity mode."
        )
    if (stream.key_id or "").endswith(_OWN_KEY):
        # Documented: data-delivery-s3-about.md.
        raise _invalid(
            "Channels do not support streams that are encrypted with the key aws/kinesis."
        )
    return stream


def _check_room(kinesis: Kinesis, call: Call, stream: Stream, name: str, *, is_table: bool) -> None:
    """Raise AwsError when the name is taken, or the stream has its channel to such a destination."""
    present = kinesis.channels.listed(call.account, call.region, call.now_ms)
    if any(order.channel.name == name for order in present):
        raise in_use(f"Channel {name} under account {call.account} already exists.")
    others = kinesis.channels.of_stream(stream, call.now_ms)
    if any(bool(order.channel.table) == is_table for order in others):
        kind = "streaming table" if is_table else "general purpose bucket"
        raise limit_exceeded(
            f"Stream {stream.name} under account {stream.account} has already a channel to a {kind}."
        )


def _freshness_s(configuration: Mapping[str, Any]) -> int:
    freshness_s = int(configuration.get("DataFreshnessInSeconds", MIN_FRESHNESS_S))
    if not MIN_FRESHNESS_S <= freshness_s <= MAX_FRESHNESS_S:
        raise _invalid(
            f"DataFreshnessInSeconds must be between {MIN_FRESHNESS_S} and {MAX_FRESHNESS_S}."
        )
    return freshness_s


def _storage(configuration: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    """Return the storage configuration with AWS's defaults. Raises AwsError for a key template that is not valid."""
    storage = {
        "StorageClass": "STANDARD",
        "OutputKeyTemplate": DEFAULT_TEMPLATE,
        **cast("dict[str, str]", configuration["StorageConfiguration"]),
    }
    fault = find_fault(storage["OutputKeyTemplate"], storage["CompressionType"], names)
    if fault:
        raise _invalid(fault)
    return storage


def _dead_letters(configuration: Mapping[str, Any], name: str, channel_id: str) -> dict[str, str]:
    """Return where errors go, with AWS's defaults (documented: CfnChannel.DeadLetterQueueS3Configuration)."""
    letters = configuration.get("DeadLetterQueueS3Configuration") or {
        name: configuration["StorageConfiguration"][name]
        for name in ("BucketARN", "ExpectedBucketOwner")
    }
    prefix = f"kinesis-channel/errors/{name}/{channel_id}/"
    return {"ErrorOutputPrefix": prefix, **cast("dict[str, str]", letters)}


def _default_logging(name: str, channel_id: str) -> dict[str, Any]:
    return {
        "Enabled": False,
        "LogGroupName": f"/aws/kinesis/{name}/{channel_id}",
        "LogStreamName": "DestinationDelivery",
    }


def _logging(change: Mapping[str, Any] | None, present: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the log; what a request leaves out stays."""
    return {**present, **(change["CloudWatchLogs"] if change else {})}


def _key_arn(kinesis: Kinesis, call: Call, key_id: str) -> str:
    """Return the ARN of a key that can be used; "" without. Raises AwsError."""
    if key_id.endswith(_OWN_KEY):
        raise _invalid("KeyId must be that of a customer managed key, not of aws/kinesis.")
    return kinesis.registry.keys.usable(key_id, call.account, call.region) if key_id else ""


# --- answers --------------------------------------------------------------------------------------


def _description(order: ChannelOrder, status: ChannelStatus) -> ChannelDescription:
    channel, stream = order.channel, order.stream
    records = {"RecordFormatType": channel.record_format}
    if channel.schema_arn:
        records["GSRSchemaARN"] = channel.schema_arn
    own = (
        {"S3TablesConfigurationList": [channel.table]}
        if channel.table
        else {"StorageConfiguration": channel.storage}
    )
    description: dict[str, Any] = {
        "ChannelName": channel.name,
        "ChannelARN": channel.arn,
        "ChannelId": channel.channel_id,
        "ChannelStatus": status,
        "ChannelCreationTimestamp": _time(channel.created_ms),
        "ServiceExecutionRoleARN": channel.role_arn,
        "StreamConfigurationList": [
            {
                "StreamARN": stream.arn,
                "StreamCreationTimestamp": stream.created_at,
                "RecordConfiguration": records,
            }
        ],
        _TO_TABLE if channel.table else _TO_BUCKET: {
            "DataFreshnessInSeconds": channel.freshness_s,
            "DeadLetterQueueS3Configuration": channel.dead_letters,
            **own,
        },
        "LoggingConfiguration": {"CloudWatchLogs": channel.logging},
    }
    if status == "FAILED":
        description["ChannelStatusReason"] = channel.reason
    if channel.key_id:
        description["EncryptionConfiguration"] = {"EncryptionType": "KMS", "KeyId": channel.key_id}
    return cast("ChannelDescription", description)


def _summary(order: ChannelOrder, now_ms: int) -> ChannelSummary:
    channel, stream = order.channel, order.stream
    status = channel.status(now_ms)
    summary: ChannelSummary = {
        "ChannelName": channel.name,
        "ChannelARN": channel.arn,
        "ChannelId": channel.channel_id,
        "ChannelStatus": status,
        "ChannelCreationTimestamp": _time(channel.created_ms),
        "ChannelDestinationType": "S3_TABLES" if channel.table else "S3",
        "Streams": [{"StreamARN": stream.arn, "StreamCreationTimestamp": stream.created_at}],
    }
    if status == "FAILED":
        summary["ChannelStatusReason"] = channel.reason
    return summary


def _time(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def _invalid(message: str) -> AwsError:
    """The sentences are assumed; the code is documented."""
    return AwsError("ValidationException", message)
