"""UpdateMaxRecordSize."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import UpdateMaxRecordSizeInput
from headrace.services.kinesis.backend import Kinesis


@operation("UpdateMaxRecordSize")
def update_max_record_size(kinesis: Kinesis, call: Call, request: UpdateMaxRecordSizeInput) -> None:
    """Set how large a new record may be, 1 to 10 MiB. Source: API_UpdateMaxRecordSize."""
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        stream.max_record_bytes = request["MaxRecordSizeInKiB"] * 1024
        kinesis.update(stream, call.now_ms)
