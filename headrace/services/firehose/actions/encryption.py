"""Server-side encryption: recorded and echoed; journals are not encrypted."""

from typing import Any, cast

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.firehose import (
    StartDeliveryStreamEncryptionInput,
    StopDeliveryStreamEncryptionInput,
)
from headrace.services.firehose.service import Firehose


@operation("StartDeliveryStreamEncryption")
def start_delivery_stream_encryption(
    firehose: Firehose, call: Call, request: StartDeliveryStreamEncryptionInput
) -> dict[str, Any]:
    """Mark a delivery stream as encrypted. Source: API_StartDeliveryStreamEncryption."""
    given = cast("dict[str, Any]", request)
    with firehose.lock:
        stream = firehose.find(call.account, call.region, request["DeliveryStreamName"])
        stream.encryption = dict(
            given.get("DeliveryStreamEncryptionConfigurationInput") or {"KeyType": "AWS_OWNED_CMK"}
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
