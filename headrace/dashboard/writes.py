"""What the page can change: split and merge shards, put and replay records, redrive failed records."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from headrace.dashboard.account import Account
from headrace.dashboard.objects import redrive_failed
from headrace.dashboard.records import BadQuestion, read_record

MOST_PUT_BYTES = 10 * 1024 * 1024


def split(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Split a shard at `hashKey`, or in its middle."""
    stream, shard_id = _text(body, "stream"), _text(body, "shardId")
    hash_key = str(body.get("hashKey") or "")
    if not hash_key:
        listed = account.call("kinesis", "ListShards", StreamName=stream)["Shards"]
        keys = next((s["HashKeyRange"] for s in listed if s["ShardId"] == shard_id), None)
        if keys is None:
            raise BadQuestion(f"Stream {stream} has no shard {shard_id}.")
        hash_key = str((int(keys["StartingHashKey"]) + int(keys["EndingHashKey"]) + 1) // 2)
    account.call(
        "kinesis",
        "SplitShard",
        StreamName=stream,
        ShardToSplit=shard_id,
        NewStartingHashKey=hash_key,
    )
    return {"split": shard_id, "hashKey": hash_key}


def merge(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a shard with an adjacent one."""
    shard_id, other = _text(body, "shardId"), _text(body, "adjacentShardId")
    account.call(
        "kinesis",
        "MergeShards",
        StreamName=_text(body, "stream"),
        ShardToMerge=shard_id,
        AdjacentShardToMerge=other,
    )
    return {"merged": [shard_id, other]}


def put(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Put one record; its data is text, or base64 with `encoding`."""
    data = body.get("data")
    if not isinstance(data, str) or len(data) > MOST_PUT_BYTES * 2:
        raise BadQuestion("data is a text of at most 10 MiB.")
    try:
        raw = base64.b64decode(data, validate=True) if body.get("encoding") == "base64" else None
    except binascii.Error as error:
        raise BadQuestion(f"data is not base64: {error}.") from error
    answer = account.call(
        "kinesis",
        "PutRecord",
        StreamName=_text(body, "stream"),
        PartitionKey=_text(body, "partitionKey"),
        Data=data.encode() if raw is None else raw,
    )
    return {"shardId": answer["ShardId"], "sequenceNumber": answer["SequenceNumber"]}


def replay(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Put a record of a stream once more, into the same or another stream."""
    stream = _text(body, "stream")
    start = {
        "ShardIteratorType": "AT_SEQUENCE_NUMBER",
        "StartingSequenceNumber": _text(body, "sequenceNumber"),
    }
    shard_id = _text(body, "shardId")
    read_record(account, stream, shard_id, _text(body, "sequenceNumber"))
    iterator = account.call(
        "kinesis", "GetShardIterator", StreamName=stream, ShardId=shard_id, **start
    )["ShardIterator"]
    record = account.call("kinesis", "GetRecords", ShardIterator=iterator, Limit=1)["Records"][0]
    answer = account.call(
        "kinesis",
        "PutRecord",
        StreamName=str(body.get("target") or stream),
        PartitionKey=record.get("PartitionKey", ""),
        Data=record["Data"],
    )
    return {"shardId": answer["ShardId"], "sequenceNumber": answer["SequenceNumber"]}


def redrive(account: Account, body: Mapping[str, Any]) -> dict[str, Any]:
    """Move the messages of a dead-letter queue back to the queue that they came from, as SQS does."""
    answer = account.call("sqs", "StartMessageMoveTask", SourceArn=_text(body, "queueArn"))
    return {"taskHandle": answer.get("TaskHandle", "")}


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise BadQuestion(f"{name} is missing.")
    return value


WRITES: Mapping[str, Callable[[Account, Mapping[str, Any]], dict[str, Any]]] = {
    "split": split,
    "merge": merge,
    "put": put,
    "replay": replay,
    "redrive": redrive,
    "redrive-failed": redrive_failed,
}
