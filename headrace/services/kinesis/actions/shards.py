"""SplitShard, MergeShards and UpdateShardCount, which scales uniformly with splits and merges."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from headrace.aws.calls.errors import validation_error
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    MergeShardsInput,
    SplitShardInput,
    UpdateShardCountInput,
    UpdateShardCountOutput,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument, shard_not_found
from headrace.services.kinesis.limits import SHARD_COUNT_UPDATES_PER_DAY
from headrace.services.kinesis.quotas import check_shard_quota, use_daily
from headrace.services.kinesis.shards.equal_ranges import plan_shard_count
from headrace.services.kinesis.shards.reshard import reshard
from headrace.services.kinesis.state import Shard, Stream, shard_id_of, shard_number_of


class NamesStream(TypedDict):
    """The members by which a request names a stream."""

    StreamName: NotRequired[str]
    StreamARN: NotRequired[str]
    StreamId: NotRequired[str]


@operation("SplitShard")
def split_shard(kinesis: Kinesis, call: Call, request: SplitShardInput) -> None:
    """Close a shard and open two child shards. Source: API_SplitShard."""
    check_shard_id(request["ShardToSplit"], request, call)
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        check_provisioned(stream)
        shard = open_shard(stream, request["ShardToSplit"])
        middle = int(request["NewStartingHashKey"])
        start, end = shard.starting_hash_key, shard.ending_hash_key
        if middle <= start + 1 or middle >= end:
            raise invalid_argument(
                f"NewStartingHashKey {middle} used in SplitShard() on shard {shard.shard_id} in stream"
                f" {stream.name} under account {stream.account} is not both greater than one plus the shard's"
                f" StartingHashKey {start} and less than the shard's EndingHashKey {end}."
            )
        check_shard_quota(kinesis, call, 1)
        reshard(kinesis, stream, [([shard], [(start, middle - 1), (middle, end)])], call.now_ms)


def check_provisioned(stream: Stream) -> None:
    """Raise ValidationException when the stream is on demand: AWS alone changes the shards of such a stream."""
    if stream.mode == "ON_DEMAND":
        raise validation_error(
            f"Request is invalid. Stream {stream.name} under account {stream.account} is in On-Demand mode."
        )


def check_shard_id(shard_id: str, request: NamesStream, call: Call) -> int:
    """Return the number in a shard id. Raises AwsError for a malformed id, even when the stream does not exist."""
    number = shard_number_of(shard_id)
    if number is None:
        raise shard_not_found(shard_id, stream_name_of(request), call.account)
    return number


def stream_name_of(request: NamesStream) -> str:
    """Return the name of the stream that a request names."""
    arn = str(request.get("StreamARN", request.get("StreamId", "")))
    return str(request.get("StreamName", arn.rpartition("/")[2]))


def open_shard(stream: Stream, shard_id: str) -> Shard:
    """Return an open shard. Raises AwsError."""
    shard = stream.shard(shard_id)
    if shard is None:
        number = shard_number_of(shard_id) or 0
        raise shard_not_found(shard_id_of(number), stream.name, stream.account)
    if shard.closed_ms is not None:
        # Source: moto's tests/test_kinesis/test_kinesis_boto3.py (observed).
        raise invalid_argument(
            f"Shard {shard.shard_id} in stream {stream.name} under account {stream.account} has already been merged"
            " or split, and thus is not eligible for merging or splitting."
        )
    return shard


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


@operation("UpdateShardCount")
def update_shard_count(
    kinesis: Kinesis, call: Call, request: UpdateShardCountInput
) -> UpdateShardCountOutput:
    """Scale a stream to the requested number of shards. Source: API_UpdateShardCount."""
    target = request["TargetShardCount"]
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        check_provisioned(stream)
        current = len(stream.open_shards)
        if target > current * 2:
            raise invalid_argument(
                "UpdateShardCount cannot scale up over double your current open shard count."
                f" Current open shard count: {current} Target shard count: {target}"
            )
        if target < current / 2:
            raise invalid_argument(
                "UpdateShardCount cannot scale down below half your current open shard count."
                f" Current open shard count: {current} Target shard count: {target}"
            )
        check_shard_quota(kinesis, call, max(0, target - current))
        use_daily(stream, "UpdateShardCount", SHARD_COUNT_UPDATES_PER_DAY, call.now_ms)
        ranges = [(shard.starting_hash_key, shard.ending_hash_key) for shard in stream.open_shards]
        reshard(kinesis, stream, plan_shard_count(ranges, target), call.now_ms)
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "CurrentShardCount": current,
        "TargetShardCount": target,
    }
