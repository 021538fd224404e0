"""UpdateStreamMode."""

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import UpdateStreamModeInput
from headrace.services.kinesis.actions.warm_throughput import check_warm_throughput, scale
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import in_use
from headrace.services.kinesis.limits import MODE_CHANGES_PER_DAY
from headrace.services.kinesis.quotas import check_on_demand_quota, check_shard_quota, use_daily
from headrace.services.kinesis.state import Stream


@operation("UpdateStreamMode")
def update_stream_mode(kinesis: Kinesis, call: Call, request: UpdateStreamModeInput) -> None:
    """Switch between provisioned and on-demand; the shards stay. Source: API_UpdateStreamMode."""
    on_demand = request["StreamModeDetails"]["StreamMode"] == "ON_DEMAND"
    warm = request.get("WarmThroughputMiBps")
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        if warm is not None:
            check_warm_throughput(kinesis, call, request["StreamModeDetails"]["StreamMode"], warm)
        if on_demand != (stream.mode == "ON_DEMAND"):
            if on_demand:
                check_on_demand_quota(kinesis, call)
            elif kinesis.queues.of_stream(stream, call.now_ms):
                raise _need_on_demand(stream, "queues")
            elif kinesis.channels.of_stream(stream, call.now_ms):
                raise _need_on_demand(stream, "channels")
            else:
                check_shard_quota(kinesis, call, len(stream.open_shards))
            use_daily(stream, "UpdateStreamMode", MODE_CHANGES_PER_DAY, call.now_ms)
        stream.mode = "ON_DEMAND" if on_demand else "PROVISIONED"
        if not on_demand:
            stream.warm_throughput_mibps = None
            stream.distribution = "USER_PARTITION_KEY"
        if warm is None:
            kinesis.update(stream, call.now_ms)
        else:
            scale(kinesis, stream, warm, call.now_ms)


def _need_on_demand(stream: Stream, what: str) -> AwsError:
    """Code and sentence are assumed."""
    return in_use(
        f"Stream {stream.name} under account {stream.account} has {what}, which need on-demand mode. Delete them first."
    )
