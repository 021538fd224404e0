"""Delivery streams: create, describe, list, change, delete."""

from typing import cast

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.aws.shapes.firehose import (
    CreateDeliveryStreamInput,
    CreateDeliveryStreamOutput,
    DeleteDeliveryStreamInput,
    DeleteDeliveryStreamOutput,
    DeliveryStreamDescription,
    DeliveryStreamEncryptionConfiguration,
    DescribeDeliveryStreamInput,
    DescribeDeliveryStreamOutput,
    ExtendedS3DestinationDescription,
    ListDeliveryStreamsInput,
    ListDeliveryStreamsOutput,
    S3DestinationDescription,
    UpdateDestinationInput,
    UpdateDestinationOutput,
)
from headrace.core.ports import StreamNotFound
from headrace.core.values import moment
from headrace.services.firehose.actions.encryption import checked_encryption
from headrace.services.firehose.actions.tags import check_tags
from headrace.services.firehose.backend import Firehose
from headrace.services.firehose.destination import checked
from headrace.services.firehose.errors import in_use, invalid, not_built
from headrace.services.firehose.limits import LIST_DEFAULT
from headrace.services.firehose.state import DeliveryStream

_S3 = ("ExtendedS3DestinationConfiguration", "S3DestinationConfiguration")
DESTINATION_ID = "destinationId-000000000001"


@operation("CreateDeliveryStream")
def create_delivery_stream(
    firehose: Firehose, call: Call, request: CreateDeliveryStreamInput
) -> CreateDeliveryStreamOutput:
    """Make a delivery stream; it is ACTIVE at once. Source: API_CreateDeliveryStream."""
    name = request["DeliveryStreamName"]
    destinations = [key for key in request if key.endswith("DestinationConfiguration")]
    if len(destinations) != 1:
        raise invalid("Exactly one destination configuration is supported for a Firehose")
    if destinations[0] not in _S3:
        kind = destinations[0].removesuffix("DestinationConfiguration")
        raise not_built(f"delivery to {kind}")
    given = request.get("ExtendedS3DestinationConfiguration") or request.get(
        "S3DestinationConfiguration"
    )
    kind = request.get("DeliveryStreamType", "DirectPut")
    source = request.get("KinesisStreamSourceConfiguration")
    if kind not in ("DirectPut", "KinesisStreamAsSource"):
        raise not_built(f"delivery streams of type {kind}")
    if (kind == "KinesisStreamAsSource") != bool(source):
        raise invalid(
            "KinesisStreamSourceConfig is required for KinesisStreamAsSource, and for no other type."
        )
    for unbuilt in ("MSKSourceConfiguration", "DatabaseSourceConfiguration"):
        if unbuilt in request:
            raise not_built(f"the source of {unbuilt}")
    hinted = request.get("DirectPutSourceConfiguration")
    if hinted is not None and kind != "DirectPut":
        raise invalid("DirectPutSourceConfiguration is for delivery streams of type DirectPut.")
    tags = {tag["Key"]: tag.get("Value", "") for tag in request.get("Tags") or ()}
    check_tags({}, tags)
    stream = DeliveryStream(
        name=name,
        account=call.account,
        region=call.region,
        stream_id=firehose.ids.hex(32),
        kind=kind,
        created_ms=call.now_ms,
        destination=checked(given or {}),
        source_arn=source["KinesisStreamARN"] if source else "",
        source_role_arn=source["RoleARN"] if source else "",
        source_from_ms=call.now_ms,
        throughput_hint_mb=hinted["ThroughputHintInMBs"] if hinted else 0,
        encryption=checked_encryption(request.get("DeliveryStreamEncryptionConfigurationInput")),
        tags=tags,
    )
    with firehose.lock:
        if firehose.exists(call.account, call.region, name):
            raise in_use(name, call.account)
        try:
            firehose.add(stream)
        except StreamNotFound as error:
            raise AwsError(
                "ResourceNotFoundException",
                f"Kinesis stream {stream.source_arn.rpartition('/')[2]} under account {call.account} not found.",
            ) from error
    return {"DeliveryStreamARN": stream.arn}


@operation("DescribeDeliveryStream")
def describe_delivery_stream(
    firehose: Firehose, call: Call, request: DescribeDeliveryStreamInput
) -> DescribeDeliveryStreamOutput:
    """Return a delivery stream. Source: API_DescribeDeliveryStream."""
    stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
    s3 = {
        key: stream.destination[key]
        for key in (
            "RoleARN",
            "BucketARN",
            "Prefix",
            "ErrorOutputPrefix",
            "BufferingHints",
            "CompressionFormat",
            "EncryptionConfiguration",
            "CloudWatchLoggingOptions",
        )
        if key in stream.destination
    }
    description: DeliveryStreamDescription = {
        "DeliveryStreamName": stream.name,
        "DeliveryStreamARN": stream.arn,
        "DeliveryStreamStatus": "ACTIVE",
        "DeliveryStreamType": stream.kind,
        "VersionId": str(stream.version),
        "CreateTimestamp": moment(stream.created_ms),
        "HasMoreDestinations": False,
        "DeliveryStreamEncryptionConfiguration": cast(
            "DeliveryStreamEncryptionConfiguration",
            {"Status": "ENABLED" if stream.encryption else "DISABLED", **stream.encryption},
        ),
        "Destinations": [
            {
                "DestinationId": DESTINATION_ID,
                "S3DestinationDescription": cast("S3DestinationDescription", s3),
                "ExtendedS3DestinationDescription": cast(
                    "ExtendedS3DestinationDescription", stream.destination
                ),
            }
        ],
    }
    if stream.updated_ms:
        description["LastUpdateTimestamp"] = moment(stream.updated_ms)
    if stream.source_arn:
        description["Source"] = {
            "KinesisStreamSourceDescription": {
                "KinesisStreamARN": stream.source_arn,
                "RoleARN": stream.source_role_arn,
                "DeliveryStartTimestamp": moment(stream.source_from_ms),
            }
        }
    elif stream.throughput_hint_mb:
        description["Source"] = {
            "DirectPutSourceDescription": {"ThroughputHintInMBs": stream.throughput_hint_mb}
        }
    return {"DeliveryStreamDescription": description}


@operation("ListDeliveryStreams")
def list_delivery_streams(
    firehose: Firehose, call: Call, request: ListDeliveryStreamsInput
) -> ListDeliveryStreamsOutput:
    """Return a page of names. Source: API_ListDeliveryStreams."""
    after = request.get("ExclusiveStartDeliveryStreamName", "")
    limit = request.get("Limit", LIST_DEFAULT)
    kind = request.get("DeliveryStreamType")
    names = [
        stream.name
        for stream in firehose.all(call.account, call.region)
        if stream.name > after and kind in (None, stream.kind)
    ]
    return {"DeliveryStreamNames": names[:limit], "HasMoreDeliveryStreams": len(names) > limit}


@operation("UpdateDestination")
def update_destination(
    firehose: Firehose, call: Call, request: UpdateDestinationInput
) -> UpdateDestinationOutput:
    """Change where and how a delivery stream delivers. Source: API_UpdateDestination."""
    with firehose.lock:
        stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
        if request["CurrentDeliveryStreamVersionId"] != str(stream.version):
            raise AwsError(
                "ConcurrentModificationException",
                f"Cannot update firehose: {stream.name} since the current version id: {stream.version} and specified"
                f" version id: {request['CurrentDeliveryStreamVersionId']} do not match",
            )
        if request["DestinationId"] != DESTINATION_ID:
            raise invalid(f"Destination Id {request['DestinationId']} not found")
        update = request.get("ExtendedS3DestinationUpdate") or request.get("S3DestinationUpdate")
        if update is None:
            raise not_built("a change of the destination's kind")
        stream.destination = checked({**stream.destination, **update})
        stream.version += 1
        stream.updated_ms = call.now_ms
        firehose.save(stream)
    return {}


@operation("DeleteDeliveryStream")
def delete_delivery_stream(
    firehose: Firehose, call: Call, request: DeleteDeliveryStreamInput
) -> DeleteDeliveryStreamOutput:
    """Delete a delivery stream, at once. Source: API_DeleteDeliveryStream."""
    with firehose.lock:
        firehose.remove(firehose.find(call.account, call.region, request["DeliveryStreamName"]))
    return {}
