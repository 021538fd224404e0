"""ListShards, with its filters and its five-minute tokens."""

import base64
import binascii
import json
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.aws.shapes.kinesis import ListShardsInput, ListShardsOutput
from headrace.services.kinesis.actions.describe_stream import shard_description
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import ITERATOR_LIFE_MS, LIST_SHARDS_DEFAULT
from headrace.services.kinesis.service import Kinesis
from headrace.services.kinesis.state import Shard, Stream

MS_PER_HOUR = 3_600_000


@operation("ListShards")
def list_shards(kinesis: Kinesis, call: Call, request: ListShardsInput) -> ListShardsOutput:
    """Return a page of a stream's shards. Source: API_ListShards."""
    token = request.get("NextToken")
    if token is not None:
        if request.get("StreamName") or request.get("StreamARN"):
            raise invalid_argument("NextToken and StreamName cannot be provided together.")
        stream, after, shard_filter = _open_token(kinesis, token, call.now_ms)
    else:
        stream = kinesis.find(call.account, call.region, request)
        after = request.get("ExclusiveStartShardId", "")
        shard_filter = _filter(request)
    limit = request.get("MaxResults", LIST_SHARDS_DEFAULT)
    shards = [
        shard for shard in _selected(stream, shard_filter, call.now_ms) if shard.shard_id > after
    ]
    answer: ListShardsOutput = {"Shards": [shard_description(shard) for shard in shards[:limit]]}
    if len(shards) > limit:
        answer["NextToken"] = _token(stream, shards[limit - 1].shard_id, shard_filter, call.now_ms)
    return answer


def _filter(request: ListShardsInput) -> dict[str, Any]:
    given = request.get("ShardFilter")
    if given is None:
        return {"Type": "FROM_TRIM_HORIZON"}
    kind = given["Type"]
    value: dict[str, Any] = {"Type": kind}
    if kind == "AFTER_SHARD_ID":
        if "ShardId" not in given:
            raise invalid_argument(
                "ShardId must be provided when ShardFilter type is AFTER_SHARD_ID."
            )
        value["ShardId"] = given["ShardId"]
    elif kind in ("AT_TIMESTAMP", "FROM_TIMESTAMP"):
        if "Timestamp" not in given:
            raise invalid_argument(f"Timestamp must be provided when ShardFilter type is {kind}.")
        value["Timestamp"] = int(given["Timestamp"].timestamp() * 1000)
    return value


def _selected(stream: Stream, shard_filter: dict[str, Any], now_ms: int) -> list[Shard]:
    kind = shard_filter["Type"]
    horizon_ms = now_ms - stream.retention_hours * MS_PER_HOUR
    if kind == "AFTER_SHARD_ID":
        return [shard for shard in stream.shards if shard.shard_id > shard_filter["ShardId"]]
    if kind == "AT_LATEST":
        return [shard for shard in stream.shards if shard.closed_ms is None]
    if kind in ("AT_TRIM_HORIZON", "AT_TIMESTAMP"):
        at_ms = shard_filter.get("Timestamp", horizon_ms)
        at_ms = max(at_ms, horizon_ms, stream.created_ms)
        return [
            shard
            for shard in stream.shards
            if shard.created_ms <= at_ms and (shard.closed_ms is None or shard.closed_ms > at_ms)
        ]
    from_ms = shard_filter.get("Timestamp", horizon_ms)
    return [
        shard for shard in stream.shards if shard.closed_ms is None or shard.closed_ms >= from_ms
    ]


def _token(stream: Stream, after: str, shard_filter: dict[str, Any], now_ms: int) -> str:
    value = {"s": stream.stream_id, "a": after, "f": shard_filter, "t": now_ms}
    return base64.b64encode(json.dumps(value).encode()).decode()


def _open_token(kinesis: Kinesis, token: str, now_ms: int) -> tuple[Stream, str, dict[str, Any]]:
    try:
        value = json.loads(base64.b64decode(token, validate=True))
        stream = kinesis.by_id[value["s"]]
        after, shard_filter, made_ms = str(value["a"]), dict(value["f"]), int(value["t"])
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise invalid_argument("NextToken is invalid.") from error
    if now_ms - made_ms > ITERATOR_LIFE_MS:
        raise AwsError("ExpiredNextTokenException", "NextToken has expired.")
    return stream, after, shard_filter
