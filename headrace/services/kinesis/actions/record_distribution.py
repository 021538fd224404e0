"""UpdateStreamRecordDistributionStrategy, and the check of a strategy, which CreateStream shares."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import UpdateStreamRecordDistributionStrategyInput
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.state import Distribution


@operation("UpdateStreamRecordDistributionStrategy")
def update_stream_record_distribution_strategy(
    kinesis: Kinesis, call: Call, request: UpdateStreamRecordDistributionStrategyInput
) -> None:
    """Choose the shards of new records by partition key, or spread the records evenly.

    Source: API_UpdateStreamRecordDistributionStrategy.
    """
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        strategy = distribution_of(stream.mode, request["RecordDistributionStrategy"])
        stream.distribution = strategy
        kinesis.update(stream, call.now_ms)


def distribution_of(mode: str, asked: str | None) -> Distribution:
    """Return the requested strategy, if a stream of this mode may have it. Raises InvalidArgumentException."""
    if asked != "AUTO":
        return "USER_PARTITION_KEY"
    if mode != "ON_DEMAND":
        raise invalid_argument(
            "The record distribution strategy AUTO is not supported for streams in provisioned mode."
        )
    return "AUTO"
