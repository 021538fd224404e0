"""StartStreamEncryption and StopStreamEncryption: they set what responses show; records on disk are not encrypted."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import StartStreamEncryptionInput, StopStreamEncryptionInput
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import ENCRYPTION_CHANGES_PER_DAY
from headrace.services.kinesis.quotas import use_daily


@operation("StartStreamEncryption")
def start_stream_encryption(
    kinesis: Kinesis, call: Call, request: StartStreamEncryptionInput
) -> None:
    """Mark a stream as encrypted with a KMS key that can be used. Source: API_StartStreamEncryption."""
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        _check_type(request["EncryptionType"])
        kinesis.registry.keys.usable(request["KeyId"], call.account, call.region)
        use_daily(stream, "StartStreamEncryption", ENCRYPTION_CHANGES_PER_DAY, call.now_ms)
        stream.encryption_type, stream.key_id = request["EncryptionType"], request["KeyId"]
        kinesis.update(stream, call.now_ms)


@operation("StopStreamEncryption")
def stop_stream_encryption(
    kinesis: Kinesis, call: Call, request: StopStreamEncryptionInput
) -> None:
    """Mark a stream as not encrypted. Source: API_StopStreamEncryption."""
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        _check_type(request["EncryptionType"])
        use_daily(stream, "StopStreamEncryption", ENCRYPTION_CHANGES_PER_DAY, call.now_ms)
        stream.encryption_type, stream.key_id = "NONE", None
        kinesis.update(stream, call.now_ms)


def _check_type(encryption_type: str) -> None:
    if encryption_type != "KMS":
        raise invalid_argument(f"EncryptionType {encryption_type} is not valid: it must be KMS.")
