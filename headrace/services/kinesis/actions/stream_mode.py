"""UpdateStreamMode."""

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.kinesis import UpdateStreamModeInput
from headrace.services.kinesis.service import Kinesis


@operation("UpdateStreamMode")
def update_stream_mode(kinesis: Kinesis, call: Call, request: UpdateStreamModeInput) -> None:
    """Switch between provisioned and on-demand; the shards stay. Source: API_UpdateStreamMode."""
    with kinesis.lock:
        stream = kinesis.find(call.account, call.region, request)
        mode = request["StreamModeDetails"]["StreamMode"]
        stream.mode = "ON_DEMAND" if mode == "ON_DEMAND" else "PROVISIONED"
        kinesis.save(stream)
