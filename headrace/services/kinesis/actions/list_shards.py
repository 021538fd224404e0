"""ListShards, with its shard filters and its tokens, which expire after five minutes."""

from typing import NotRequired, TypedDict, cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import ListShardsInput, ListShardsOutput
from headrace.services.kinesis.actions.describe_stream import shard_description
from headrace.services.kinesis.actions.stream_consumers import check_creation
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument, not_active
from headrace.services.kinesis.limits import LIST_SHARDS_DEFAULT
from headrace.services.kinesis.state import Shard, Stream, shard_number_of

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
    selected = _selected(stream, shard_filter, call.now_ms)
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


def _selected(stream: Stream, shard_filter: TokenFilter, now_ms: int) -> list[Shard]:
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
