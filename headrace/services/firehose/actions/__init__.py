"""Firehose's operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.protocols.validate import validate
from headrace.aws.shapes.firehose import (
    CreateDeliveryStreamInput,
    CreateDeliveryStreamOutput,
    DeleteDeliveryStreamInput,
    DeleteDeliveryStreamOutput,
    DeliveryStreamDescription,
    DeliveryStreamEncryptionConfiguration,
    DeliveryStreamEncryptionConfigurationInput,
    DescribeDeliveryStreamInput,
    DescribeDeliveryStreamOutput,
    DestinationDescription,
    ListDeliveryStreamsInput,
    ListDeliveryStreamsOutput,
    ListTagsForDeliveryStreamInput,
    ListTagsForDeliveryStreamOutput,
    StartDeliveryStreamEncryptionInput,
    StartDeliveryStreamEncryptionOutput,
    StopDeliveryStreamEncryptionInput,
    StopDeliveryStreamEncryptionOutput,
    TagDeliveryStreamInput,
    TagDeliveryStreamOutput,
    UntagDeliveryStreamInput,
    UntagDeliveryStreamOutput,
    UpdateDestinationInput,
    UpdateDestinationOutput,
)
from headrace.core.ports import StreamNotFound
from headrace.core.system_tags import count_tags, is_refused
from headrace.core.values import moment
from headrace.services.firehose.backend import Firehose
from headrace.services.firehose.destinations import DESTINATIONS
from headrace.services.firehose.destinations.opensearch import SEARCH_KINDS
from headrace.services.firehose.errors import (
    LIST_DEFAULT,
    TAGS_PER_STREAM,
    check_count,
    check_key,
    in_use,
    invalid,
    not_built,
)
from headrace.services.firehose.fast_path import put_record, put_record_batch
from headrace.services.firehose.fidelity import WORDING
from headrace.services.firehose.permits import check_roles, find_domain
from headrace.services.firehose.state import DeliveryStream


def check_encryption(
    configuration: DeliveryStreamEncryptionConfigurationInput | None,
) -> dict[str, str]:
    """Return a checked encryption configuration, empty for None. Raises AwsError InvalidArgumentException."""
    if (
        configuration
        and configuration.get("KeyType") == "CUSTOMER_MANAGED_CMK"
        and not configuration.get("KeyARN")
    ):
        raise invalid("KeyARN must be specified when KeyType is CUSTOMER_MANAGED_CMK")
    if (
        configuration
        and configuration.get("KeyType") != "CUSTOMER_MANAGED_CMK"
        and configuration.get("KeyARN")
    ):
        raise invalid("KeyARN cannot be specified when KeyType is AWS_OWNED_CMK")
    return cast("dict[str, str]", configuration or {})


def only_direct(kind: str) -> AwsError:
    """Return the error for encryption of a stream whose source encrypts (documented; the sentence is assumed)."""
    return invalid(f"Encryption cannot be started on a {kind} delivery stream.")


@operation("StartDeliveryStreamEncryption")
def start_delivery_stream_encryption(
    firehose: Firehose, call: Call, request: StartDeliveryStreamEncryptionInput
) -> StartDeliveryStreamEncryptionOutput:
    """Mark a delivery stream as encrypted, if its key can be used. Source: API_StartDeliveryStreamEncryption."""
    with firehose.lock:
        stream = firehose.changeable(call.account, call.region, request["DeliveryStreamName"])
        if stream.source_arn:
            raise only_direct(stream.kind)
        encryption = check_encryption(
            request.get("DeliveryStreamEncryptionConfigurationInput")
            or {"KeyType": "AWS_OWNED_CMK"}
        )
        firehose.keys.require(stream, encryption.get("KeyARN"))
        if firehose.throttle is not None:
            check_key(firehose.all(call.account, call.region), stream, encryption.get("KeyARN", ""))
            firehose.throttle.note_encryption(stream, call.now_ms)
        stream.encryption = encryption
        stream.encryption_settles_ms = firehose.settles_ms()
        firehose.save(stream)
    return {}


@operation("StopDeliveryStreamEncryption")
def stop_delivery_stream_encryption(
    firehose: Firehose, call: Call, request: StopDeliveryStreamEncryptionInput
) -> StopDeliveryStreamEncryptionOutput:
    """Mark a delivery stream as not encrypted. Source: API_StopDeliveryStreamEncryption."""
    with firehose.lock:
        stream = firehose.changeable(call.account, call.region, request["DeliveryStreamName"])
        if firehose.throttle is not None:
            firehose.throttle.note_encryption(stream, call.now_ms)
        stream.encryption = {}
        stream.encryption_settles_ms = firehose.settles_ms()
        firehose.save(stream)
    return {}


def check_keys(keys: Iterable[str]) -> None:
    """Refuse tags with AWS's prefix. Raises AwsError InvalidArgumentException."""
    if any(map(is_refused, keys)):
        raise invalid("Tag keys starting with aws: are reserved for system use.")


def check_tags(present: dict[str, str], added: dict[str, str]) -> None:
    """Refuse reserved tags, and too many. Raises AwsError InvalidArgumentException."""
    check_keys(added)
    if count_tags({*present, *added}) > TAGS_PER_STREAM:
        raise invalid(f"A delivery stream can have at most {TAGS_PER_STREAM} tags.")


@operation("TagDeliveryStream")
def tag_delivery_stream(
    firehose: Firehose, call: Call, request: TagDeliveryStreamInput
) -> TagDeliveryStreamOutput:
    """Add tags, or overwrite the values of existing ones. Source: API_TagDeliveryStream."""
    with firehose.lock:
        stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
        tags = {tag["Key"]: tag.get("Value", "") for tag in request["Tags"]}
        check_tags(stream.tags, tags)
        stream.tags.update(tags)
        firehose.save(stream)
    return {}


@operation("UntagDeliveryStream")
def untag_delivery_stream(
    firehose: Firehose, call: Call, request: UntagDeliveryStreamInput
) -> UntagDeliveryStreamOutput:
    """Remove tags. Source: API_UntagDeliveryStream."""
    with firehose.lock:
        stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
        check_keys(request["TagKeys"])
        for key in request["TagKeys"]:
            stream.tags.pop(key, None)
        firehose.save(stream)
    return {}


@operation("ListTagsForDeliveryStream")
def list_tags_for_delivery_stream(
    firehose: Firehose, call: Call, request: ListTagsForDeliveryStreamInput
) -> ListTagsForDeliveryStreamOutput:
    """Return a page of tags, sorted by key. Source: API_ListTagsForDeliveryStream."""
    stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
    after = request.get("ExclusiveStartTagKey", "")
    limit = request.get("Limit", TAGS_PER_STREAM)
    keys = sorted(key for key in stream.tags if key > after)
    return {
        "Tags": [{"Key": key, "Value": stream.tags[key]} for key in keys[:limit]],
        "HasMoreTags": len(keys) > limit,
    }


DESTINATION_ID = "destinationId-000000000001"


def _check_source(kind: str, request: CreateDeliveryStreamInput) -> None:
    if kind not in ("DirectPut", "KinesisStreamAsSource"):
        raise not_built(f"delivery streams of type {kind}")
    if (kind == "KinesisStreamAsSource") != bool(request.get("KinesisStreamSourceConfiguration")):
        raise invalid(
            "KinesisStreamSourceConfig is required for KinesisStreamAsSource, and for no other type."
        )
    for unbuilt in ("MSKSourceConfiguration", "DatabaseSourceConfiguration"):
        if unbuilt in request:
            raise not_built(f"the source of {unbuilt}")


@operation("CreateDeliveryStream")
def create_delivery_stream(
    firehose: Firehose, call: Call, request: CreateDeliveryStreamInput
) -> CreateDeliveryStreamOutput:
    """Create a delivery stream, CREATING for `state_delay_ms`. Source: API_CreateDeliveryStream."""
    name = request["DeliveryStreamName"]
    members = [key for key in request if key.endswith("DestinationConfiguration")]
    if len(members) != 1:
        raise invalid("Exactly one destination configuration is supported for a Firehose")
    destination_kind = _find_kind(members[0].removesuffix("DestinationConfiguration"))
    destination = DESTINATIONS[destination_kind].check(cast("Any", request)[members[0]])
    firehose.check_destination(destination_kind, destination)
    kind = request.get("DeliveryStreamType", "DirectPut")
    source = request.get("KinesisStreamSourceConfiguration")
    _check_source(kind, request)
    encryption = check_encryption(request.get("DeliveryStreamEncryptionConfigurationInput"))
    if encryption and kind != "DirectPut":
        raise only_direct(kind)
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
        destination=destination,
        destination_kind=destination_kind,
        source_arn=source["KinesisStreamARN"] if source else "",
        source_role_arn=source["RoleARN"] if source else "",
        source_from_ms=call.now_ms,
        throughput_hint_mb=hinted["ThroughputHintInMBs"] if hinted else 0,
        encryption=encryption,
        tags=tags,
        settles_ms=firehose.settles_ms(),
    )
    firehose.keys.require(stream)
    # Without the lock: the catalogue may wait for a thread that waits for Firehose's lock.
    firehose.check_tables(stream)
    firehose.check_domain(stream)
    firehose.find_vpc(stream)
    with firehose.lock:
        if firehose.exists(call.account, call.region, name):
            raise in_use(name, call.account)
        if firehose.throttle is not None:
            present = firehose.all(call.account, call.region)
            check_count(present)
            check_key(present, stream, encryption.get("KeyARN", ""))
        check_roles(firehose.guard, stream)
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
    described = DESTINATIONS[stream.destination_kind].describe(stream.destination)
    description: DeliveryStreamDescription = {
        "DeliveryStreamName": stream.name,
        "DeliveryStreamARN": stream.arn,
        "DeliveryStreamStatus": cast("Any", stream.status(call.now_ms)),
        "DeliveryStreamType": stream.kind,
        "VersionId": str(stream.version),
        "CreateTimestamp": moment(stream.created_ms),
        "HasMoreDestinations": False,
        "DeliveryStreamEncryptionConfiguration": cast(
            "DeliveryStreamEncryptionConfiguration",
            {"Status": stream.encryption_status(call.now_ms), **stream.encryption},
        ),
        "Destinations": [
            cast("DestinationDescription", {"DestinationId": DESTINATION_ID, **described})
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
    firehose.reports(stream).report_call("DescribeDeliveryStream", call.now_ms)
    return {"DeliveryStreamDescription": description}


@operation("ListDeliveryStreams")
def list_delivery_streams(
    firehose: Firehose, call: Call, request: ListDeliveryStreamsInput
) -> ListDeliveryStreamsOutput:
    """Return a page of delivery stream names. Source: API_ListDeliveryStreams."""
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
    """Change a delivery stream's destination. Source: API_UpdateDestination."""
    present = firehose.changeable(call.account, call.region, request["DeliveryStreamName"])
    if request["CurrentDeliveryStreamVersionId"] == str(present.version):
        kind, destination = _apply_update(present, request)
        # Without the lock, as above; the version id shows whether another update came in between.
        changed = replace(present, destination_kind=kind, destination=destination)
        firehose.check_tables(changed)
        if find_domain(changed) != find_domain(present):
            firehose.check_domain(changed)
    with firehose.lock:
        stream = firehose.changeable(call.account, call.region, request["DeliveryStreamName"])
        if request["CurrentDeliveryStreamVersionId"] != str(stream.version):
            raise AwsError(
                "ConcurrentModificationException",
                f"Cannot update firehose: {stream.name} since the current version id: {stream.version} and specified"
                f" version id: {request['CurrentDeliveryStreamVersionId']} do not match",
            )
        if request["DestinationId"] != DESTINATION_ID:
            raise invalid(f"Destination Id {request['DestinationId']} not found")
        kind, destination = _apply_update(stream, request)
        firehose.check_destination(kind, destination)
        if (kind, destination) == (stream.destination_kind, stream.destination):
            return {}  # As on AWS, no new version (observed by others, 2026).
        changed = replace(stream, destination_kind=kind, destination=destination)
        check_roles(firehose.guard, changed, before=stream)
        stream.destination_kind, stream.destination = kind, destination
        stream.version += 1
        stream.updated_ms = call.now_ms
        firehose.save(stream)
    firehose.reports(stream).report_call("UpdateDeliveryStream", call.now_ms)
    return {}


def _apply_update(
    stream: DeliveryStream, request: UpdateDestinationInput
) -> tuple[str, dict[str, Any]]:
    """Return the destination's kind and configuration after an update. Raises AwsError."""
    members = [
        key for key in request if key.endswith("DestinationUpdate") and key != "DestinationUpdate"
    ]
    if len(members) != 1:
        raise invalid("Exactly one destination update is supported for a Firehose")
    kind = _find_kind(members[0].removesuffix("DestinationUpdate"))
    update = cast("dict[str, Any]", request)[members[0]]
    destination = DESTINATIONS[kind]
    if kind == stream.destination_kind:
        return kind, destination.update(stream.destination, update)
    if (kind in SEARCH_KINDS) != (stream.destination_kind in SEARCH_KINDS):
        # Documented: API_UpdateDestination. Assumed: the sentence, which is the documentation's, and that a domain may
        # replace a collection and a collection a domain.
        raise invalid(
            "Switching between Amazon OpenSearch Service and other services is not supported."
        )
    # Another kind: none of the current configuration is kept (documented: API_UpdateDestination).
    configuration = {
        name.removesuffix("Update") + "Configuration" if name.endswith("Update") else name: value
        for name, value in update.items()
    }
    # The shape of an update does not list a new destination's required members; assumed: AWS checks it like a creation.
    whole = {"DeliveryStreamName": stream.name, f"{kind}DestinationConfiguration": configuration}
    validate("firehose", "CreateDeliveryStream", whole, wording=WORDING)
    return kind, destination.check(configuration)


def _find_kind(name: str) -> str:
    """Return the kind of the destination in a request. Raises AwsError."""
    kind = "ExtendedS3" if name == "S3" else name
    if kind not in DESTINATIONS:
        raise not_built(f"delivery to {name}")
    return kind


@operation("DeleteDeliveryStream")
def delete_delivery_stream(
    firehose: Firehose, call: Call, request: DeleteDeliveryStreamInput
) -> DeleteDeliveryStreamOutput:
    """Delete a delivery stream; a second call changes nothing. Source: API_DeleteDeliveryStream."""
    with firehose.lock:
        stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
        if not stream.is_deleting:
            firehose.changeable(call.account, call.region, stream.name)
        firehose.delete(stream)
    return {}


ACTIONS = [
    create_delivery_stream,
    delete_delivery_stream,
    describe_delivery_stream,
    list_delivery_streams,
    list_tags_for_delivery_stream,
    put_record,
    put_record_batch,
    start_delivery_stream_encryption,
    stop_delivery_stream_encryption,
    tag_delivery_stream,
    untag_delivery_stream,
    update_destination,
]
