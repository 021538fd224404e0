"""GetShardIterator, with all five types of iterator."""

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.kinesis import GetShardIteratorInput, GetShardIteratorOutput
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.positions import start_index
from headrace.services.kinesis.errors import check_dry_run, shard_not_found


@operation("GetShardIterator")
def get_shard_iterator(
    kinesis: Kinesis, call: Call, request: GetShardIteratorInput
) -> GetShardIteratorOutput:
    """Return an iterator, good for five minutes. Source: API_GetShardIterator."""
    stream = kinesis.find(call.account, call.region, request)
    shard = stream.shard(request["ShardId"])
    if shard is None or shard.log is None or stream.status(call.now_ms) == "CREATING":
        raise shard_not_found(request["ShardId"], stream.name, stream.account)
    index = start_index(
        stream,
        shard,
        request["ShardIteratorType"],
        request.get("StartingSequenceNumber"),
        request.get("Timestamp"),
        call.now_ms,
        "GetShardIterator",
    )
    check_dry_run(request)
    return {
        "ShardIterator": kinesis.iterators.seal(stream.stream_id, shard.number, index, call.now_ms)
    }
