"""The shards of a stream: split, merge, scale uniformly, and list, with tokens that expire after five minutes."""

from __future__ import annotations

from typing import NotRequired, TypedDict, cast

from headrace.aws.calls.errors import validation_error
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    ListShardsInput,
    ListShardsOutput,
    MergeShardsInput,
    SplitShardInput,
    UpdateShardCountInput,
    UpdateShardCountOutput,
)
from headrace.services.kinesis.actions.stream_consumers import check_creation
from headrace.services.kinesis.actions.streams import shard_description
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import (
    LIST_SHARDS_DEFAULT,
    SHARD_COUNT_UPDATES_PER_DAY,
    invalid_argument,
    not_active,
    shard_not_found,
)
from headrace.services.kinesis.resharding import (
    check_shard_quota,
    plan_shard_count,
    reshard,
    use_daily,
)
from headrace.services.kinesis.state import Shard, Stream, shard_id_of, shard_number_of

MS_PER_HOUR = 3_600_000
_NAMES = {"StreamName", "StreamARN", "StreamId"}


class TokenFilter(TypedDict):
    """A ShardFilter as tokens keep it: its time in epoch milliseconds."""

    Type: str
    ShardId: NotRequired[str]
    Timestamp: NotRequired[int]


@operation("ListShards")
def list_shards(kinesis: Kinesis, call: Call, request: ListShardsInput) -> ListShardsOutput:
    """Return a page of a stream's shards. Source: API_ListShards."""
    token = request.get("NextToken")
    if token is not None:
        for name in ("StreamName", "StreamCreationTimestamp", "ExclusiveStartShardId"):
            if name in request:
                raise invalid_argument(f"NextToken and {name} cannot be provided together.")
        held = kinesis.tokens.open("ListShards", token, call.now_ms)
        stream = _stream_of(kinesis, call, request, held["stream"])
        after, shard_filter = held["after"], cast("TokenFilter", held["filter"])
    else:
        if not _NAMES & request.keys():
            # Source: kinesalite (observed).
            raise invalid_argument("Either NextToken or StreamName should be provided.")
        stream = kinesis.find(call.account, call.region, request)
        check_creation(stream, request)
        if stream.status(call.now_ms) == "CREATING":
            raise not_active(stream.name, stream.account, "CREATING")
        after = _number(request.get("ExclusiveStartShardId", ""))
        shard_filter = _filter(request)
    limit = min(request.get("MaxResults", LIST_SHARDS_DEFAULT), LIST_SHARDS_DEFAULT)
    selected = _select_shards(stream, shard_filter, call.now_ms)
    shards = [shard for shard in selected if shard.number > after]
    answer: ListShardsOutput = {"Shards": [shard_description(shard) for shard in shards[:limit]]}
    if len(shards) > limit:
        value = {
            "stream": stream.stream_id,
            "after": shards[limit - 1].number,
            "filter": shard_filter,
        }
        answer["NextToken"] = kinesis.tokens.seal("ListShards", value, call.now_ms)
    return answer


def _stream_of(kinesis: Kinesis, call: Call, request: ListShardsInput, stream_id: str) -> Stream:
    stream = kinesis.by_id.get(stream_id)
    if stream is None:
        raise invalid_argument("NextToken is of a stream that was deleted.")
    named = "StreamARN" in request or "StreamId" in request
    if named and kinesis.find(call.account, call.region, request) is not stream:
        raise invalid_argument("NextToken was not given for the stream that is named.")
    return stream


def _number(shard_id: str) -> int:
    """Return the number in a shard id, or -1 when the text is not a shard id: every shard comes after -1."""
    number = shard_number_of(shard_id)
    return -1 if number is None else number


def _filter(request: ListShardsInput) -> TokenFilter:
    shard_filter = request.get("ShardFilter")
    if shard_filter is None:
        return {"Type": "FROM_TRIM_HORIZON"}
    kind = shard_filter["Type"]
    value: TokenFilter = {"Type": kind}
    if kind == "AFTER_SHARD_ID":
        if "ShardId" not in shard_filter:
            raise invalid_argument(
                "ShardId must be provided when ShardFilter type is AFTER_SHARD_ID."
            )
        value["ShardId"] = shard_filter["ShardId"]
    elif kind in ("AT_TIMESTAMP", "FROM_TIMESTAMP"):
        if "Timestamp" not in shard_filter:
            raise invalid_argument(f"Timestamp must be provided when ShardFilter type is {kind}.")
        value["Timestamp"] = int(shard_filter["Timestamp"].timestamp() * 1000)
    for name in ("ShardId", "Timestamp"):
        if name in shard_filter and name not in value:
            raise invalid_argument(f"{name} must not be provided when ShardFilter type is {kind}.")
    return value


def _select_shards(stream: Stream, shard_filter: TokenFilter, now_ms: int) -> list[Shard]:
    kind = shard_filter["Type"]
    horizon_ms = now_ms - stream.retention_hours * MS_PER_HOUR
    if kind == "AFTER_SHARD_ID":
        after = _number(shard_filter.get("ShardId", ""))
        return [shard for shard in stream.shards if shard.number > after]
    if kind == "AT_LATEST":
        return [shard for shard in stream.shards if shard.closed_ms is None]
    if kind in ("AT_TRIM_HORIZON", "AT_TIMESTAMP"):
        at_ms = shard_filter.get("Timestamp", horizon_ms)
        at_ms = max(at_ms, horizon_ms, stream.created_ms)
        return [
            shard
            for shard in stream.shards
            if shard.created_ms <= at_ms and (shard.closed_ms is None or shard.closed_ms >= at_ms)
        ]
    from_ms = max(shard_filter.get("Timestamp", horizon_ms), horizon_ms)
    return [
        shard for shard in stream.shards if shard.closed_ms is None or shard.closed_ms >= from_ms
    ]


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
