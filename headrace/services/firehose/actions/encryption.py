"""Server-side encryption: the setting is stored and returned; journals are not encrypted."""

from typing import cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.firehose import (
    DeliveryStreamEncryptionConfigurationInput,
    StartDeliveryStreamEncryptionInput,
    StartDeliveryStreamEncryptionOutput,
    StopDeliveryStreamEncryptionInput,
    StopDeliveryStreamEncryptionOutput,
)
from headrace.services.firehose.backend import Firehose
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.quotas import check_key


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
