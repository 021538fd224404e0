"""GetShardIterator, with all five types of iterator."""

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import GetShardIteratorInput, GetShardIteratorOutput
from headrace.services.kinesis.actions.shards import check_shard_id, stream_name_of
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.positions import start_index
from headrace.services.kinesis.errors import check_dry_run, shard_absent
from headrace.services.kinesis.state import shard_id_of


@operation("GetShardIterator")
def get_shard_iterator(
    kinesis: Kinesis, call: Call, request: GetShardIteratorInput
) -> GetShardIteratorOutput:
    """Return a shard iterator, which expires after five minutes. Source: API_GetShardIterator."""
    number = check_shard_id(request["ShardId"], request, call)
    absent = shard_absent(shard_id_of(number), stream_name_of(request), call.account)
    try:
        stream = kinesis.find(call.account, call.region, request)
    except AwsError as error:
        raise (absent if error.code == absent.code else error) from error
    shard = stream.shard(request["ShardId"])
    if shard is None or shard.log is None or stream.status(call.now_ms) == "CREATING":
        raise absent
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
    return {"ShardIterator": kinesis.iterators.seal(stream, shard.number, index, call.now_ms)}
