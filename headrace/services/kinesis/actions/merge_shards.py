"""MergeShards."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import MergeShardsInput
from headrace.services.kinesis.actions.split_shard import (
    check_provisioned,
    check_shard_id,
    open_shard,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.shards.reshard import reshard


@operation("MergeShards")
def merge_shards(kinesis: Kinesis, call: Call, request: MergeShardsInput) -> None:
    """Close two adjacent shards and open one child shard. Source: API_MergeShards."""
    for name in ("ShardToMerge", "AdjacentShardToMerge"):
        check_shard_id(request[name], request, call)
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        check_provisioned(stream)
        first = open_shard(stream, request["ShardToMerge"])
        second = open_shard(stream, request["AdjacentShardToMerge"])
        # The shard with the lower hash keys must be named first. Source of rule and message: kinesalite (observed).
        if first.ending_hash_key + 1 != second.starting_hash_key:
            raise invalid_argument(
                f"Shards {first.shard_id} and {second.shard_id} in stream {stream.name} under account"
                f" {stream.account} are not an adjacent pair of shards eligible for merging"
            )
        whole = (first.starting_hash_key, second.ending_hash_key)
        reshard(kinesis, stream, [([first, second], [whole])], call.now_ms)
