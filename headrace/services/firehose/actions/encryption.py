"""Server-side encryption: recorded and echoed; journals are not encrypted."""

from typing import Any, cast

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.firehose import (
    StartDeliveryStreamEncryptionInput,
    StopDeliveryStreamEncryptionInput,
)
from headrace.core.values import mapped
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.service import Firehose


def checked_encryption(given: dict[str, Any]) -> dict[str, Any]:
    """Return an encryption configuration. Raises InvalidArgumentException for a key that does not fit its type."""
    if given and (given.get("KeyType") == "CUSTOMER_MANAGED_CMK") != bool(given.get("KeyARN")):
        raise invalid("KeyARN is required for CUSTOMER_MANAGED_CMK, and for no other key type.")
    return given


@operation("StartDeliveryStreamEncryption")
def start_delivery_stream_encryption(
    firehose: Firehose, call: Call, request: StartDeliveryStreamEncryptionInput
) -> dict[str, Any]:
    """Mark a delivery stream as encrypted. Source: API_StartDeliveryStreamEncryption."""
    given = cast("dict[str, Any]", request)
    with firehose.lock:
        stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
        if stream.source_arn:
            raise invalid(
                "Encryption cannot be started on a KinesisStreamAsSource delivery stream."
            )
        stream.encryption = checked_encryption(
            mapped(given, "DeliveryStreamEncryptionConfigurationInput")
            or {"KeyType": "AWS_OWNED_CMK"}
        )
        firehose.save(stream)
    return {}


@operation("StopDeliveryStreamEncryption")
def stop_delivery_stream_encryption(
    firehose: Firehose, call: Call, request: StopDeliveryStreamEncryptionInput
) -> dict[str, Any]:
    """Mark a delivery stream as not encrypted. Source: API_StopDeliveryStreamEncryption."""
    with firehose.lock:
        stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
        stream.encryption = {}
        firehose.save(stream)
    return {}
