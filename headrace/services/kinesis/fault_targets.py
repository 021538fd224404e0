"""Finds the stream and the shard that a request names, so that injected faults can be limited to them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from headrace.aws.calls.http import HttpRequest
from headrace.aws.calls.operation import Call
from headrace.aws.protocols import codec_json
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.get import ExpiredIterator
from headrace.services.kinesis.data_path.put import explicit_hash_key
from headrace.services.kinesis.state import Stream, hash_key_of, shard_id_of, shard_number_of


def fault_target(
    kinesis: Kinesis, request: HttpRequest, action: str, call: Call
) -> tuple[str, str]:
    """Return the stream's name and the shard's id; each is "" when the request has none. Raises AwsError.

    PutRecords has no shard, since its records go to many shards.
    """
    content_type = request.headers.get("content-type", codec_json.JSON_1_1)
    params = codec_json.decode_input("kinesis", action, request.body, content_type)
    if action == "GetRecords":
        return _of_iterator(kinesis, params, call)
    if "QueueARN" in params:
        opened = kinesis.queues.by_arn(str(params["QueueARN"]))
        return ("", "") if opened is None else (opened.stream.name, "")
    if "ChannelARN" in params:
        order = kinesis.channels.by_arn(str(params["ChannelARN"]))
        return ("", "") if order is None else (order.stream.name, "")
    name = _stream_name(params)
    shard = ""
    if action == "PutRecord":
        stream = kinesis.streams.get((call.account, call.region, name))
        shard = "" if stream is None else _shard_of_key(stream, params)
    elif "ShardId" in params:
        number = shard_number_of(params["ShardId"])
        shard = "" if number is None else shard_id_of(number)
    elif "ShardToSplit" in params or "ShardToMerge" in params:
        shard = params.get("ShardToSplit", params.get("ShardToMerge", ""))
    return name, shard


def shards_by_stream(kinesis: Kinesis) -> dict[str, set[str]]:
    """Return the ids of all open and closed shards of every account and region, by stream name."""
    shards: dict[str, set[str]] = {}
    with kinesis.lock:
        for stream in kinesis.streams.values():
            shards.setdefault(stream.name, set()).update(s.shard_id for s in stream.shards)
    return shards


def _stream_name(params: Mapping[str, Any]) -> str:
    for member in ("StreamARN", "ConsumerARN", "ResourceARN"):
        if member in params:
            return str(params[member]).partition("stream/")[2].partition("/")[0]
    return str(params.get("StreamName", ""))


def _of_iterator(kinesis: Kinesis, params: Mapping[str, Any], call: Call) -> tuple[str, str]:
    try:
        iterator = kinesis.iterators.open(params.get("ShardIterator", ""), call.now_ms)
    except ExpiredIterator:
        return "", ""
    stream = kinesis.by_id.get(iterator.stream_id)
    return ("", "") if stream is None else (stream.name, shard_id_of(iterator.shard_number))


def _shard_of_key(stream: Stream, params: Mapping[str, Any]) -> str:
    if stream.distribution == "AUTO":
        return ""  # This stream spreads records over all shards, whatever their keys.
    opened, starts = stream.routes
    text = params.get("ExplicitHashKey")
    hash_key = hash_key_of(params["PartitionKey"]) if text is None else explicit_hash_key(text)
    return opened[bisect_right(starts, hash_key) - 1].shard_id if opened else ""
