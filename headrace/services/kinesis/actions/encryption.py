"""StartStreamEncryption and StopStreamEncryption: recorded and echoed; records are not encrypted on disk."""

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.kinesis import StartStreamEncryptionInput, StopStreamEncryptionInput
from headrace.services.kinesis.service import Kinesis


@operation("StartStreamEncryption")
def start_stream_encryption(
    kinesis: Kinesis, call: Call, request: StartStreamEncryptionInput
) -> None:
    """Mark a stream as encrypted with a KMS key. Source: API_StartStreamEncryption."""
    with kinesis.lock:
        stream = kinesis.find(call.account, call.region, request)
        stream.encryption_type, stream.key_id = request["EncryptionType"], request["KeyId"]
        kinesis.save(stream)


@operation("StopStreamEncryption")
def stop_stream_encryption(
    kinesis: Kinesis, call: Call, request: StopStreamEncryptionInput
) -> None:
    """Mark a stream as not encrypted. Source: API_StopStreamEncryption."""
    with kinesis.lock:
        stream = kinesis.find(call.account, call.region, request)
        stream.encryption_type, stream.key_id = "NONE", None
        kinesis.save(stream)
