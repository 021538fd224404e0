"""UpdateStreamRecordDistributionStrategy, and its check, which CreateStream makes too."""

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.kinesis import UpdateStreamRecordDistributionStrategyInput
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.state import Distribution


@operation("UpdateStreamRecordDistributionStrategy")
def update_stream_record_distribution_strategy(
    kinesis: Kinesis, call: Call, request: UpdateStreamRecordDistributionStrategyInput
) -> None:
    """Let partition keys choose shards, or spread records evenly, from the next record on.

    Source: API_UpdateStreamRecordDistributionStrategy.
    """
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        strategy = distribution_of(stream.mode, request["RecordDistributionStrategy"])
        stream.distribution = strategy
        kinesis.update(stream, call.now_ms)


def distribution_of(mode: str, asked: str | None) -> Distribution:
    """Return the strategy of a stream of this mode. Raises InvalidArgumentException."""
    if asked != "AUTO":
        return "USER_PARTITION_KEY"
    if mode != "ON_DEMAND":
        raise invalid_argument(
            "The record distribution strategy AUTO is not supported for streams in provisioned mode."
        )
    return "AUTO"
