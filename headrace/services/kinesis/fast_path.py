"""Answers requests before the generic decoder reads them: puts, reads and receives, and SubscribeToShard.

Answers requests with a method, Content-Type or target that Kinesis does not have; AWS does not read their bodies.

Source: kinesalite's index.js and test/connection.js, whose author compared it with Kinesis (observed).

Finds the stream and the shard that a request names, so that injected faults can be limited to them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call
from headrace.aws.protocols import codec_json
from headrace.aws.protocols.codec_json import CBOR_1_1, JSON_1_1
from headrace.aws.protocols.service import RawAnswer
from headrace.services.kinesis.actions import stream_consumers
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path import cbor_wire, json_wire
from headrace.services.kinesis.data_path.cbor_wire import CBOR
from headrace.services.kinesis.data_path.get import ExpiredIterator
from headrace.services.kinesis.data_path.json_wire import JSON
from headrace.services.kinesis.data_path.put import explicit_hash_key
from headrace.services.kinesis.queues import receiving
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


_NO_NAME = b"""<AccessDeniedException>
  <Message>Unable to determine service/operation name to be authorized</Message>
</AccessDeniedException>
"""
_OLD_JSON = "application/json"


def refusal_of(request: HttpRequest) -> HttpResponse | None:
    """Return AWS's response to a request in no protocol of Kinesis, or None for other requests.

    headrace is more lenient than AWS, which answers 404: a request with a target and any Content-Type but
    application/json is read as JSON, because programs that call a local cloud by hand often send text/plain or none.
    """
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if request.method != "POST":
        return HttpResponse(403, [], _NO_NAME)
    if kind == _OLD_JSON:
        return _old_json(request)
    if kind not in (JSON_1_1, CBOR_1_1) and "." not in headers.get("x-amz-target", "").strip("."):
        return HttpResponse(403, [], _NO_NAME)
    return None


def _old_json(request: HttpRequest) -> HttpResponse:
    """Answer in AWS's first JSON protocol, which has no operations any more."""
    try:
        is_read = not request.body or isinstance(msgspec.json.decode(request.body), dict | list)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        is_read = False
    prefix = "com.amazon.coral.service#"
    output = (
        {"__type": f"{prefix}UnknownOperationException", "message": None}
        if is_read
        else {"__type": f"{prefix}SerializationException", "Message": None}
    )
    body = msgspec.json.encode({"Output": output, "Version": "1.0"})
    return HttpResponse(200, [("Content-Type", _OLD_JSON)], body)


_PREFIX = "Kinesis_20131202."
_SUBSCRIBE = _PREFIX + "SubscribeToShard"
_USUAL_JSON = {
    _PREFIX + "PutRecords": json_wire.put_records,
    _PREFIX + "PutRecord": json_wire.put_record,
    _PREFIX + "GetRecords": json_wire.get_records,
}
_USUAL_CBOR = {
    _PREFIX + "PutRecords": cbor_wire.put_records,
    _PREFIX + "PutRecord": cbor_wire.put_record,
    _PREFIX + "GetRecords": cbor_wire.get_records,
}


class RawRequests:
    """The service's `raw` hook. Thread-safe."""

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis

    def answer_raw(self, request: HttpRequest) -> RawAnswer:
        """Return the response to a request, or None when its action must answer. Raises AwsError."""
        target = request.headers.get("x-amz-target", "")
        content_type = request.headers.get("content-type")
        call = request.call
        if call is None:
            return None
        if content_type not in (CBOR, JSON):
            refusal = refusal_of(request)
            if refusal is not None:
                return refusal
        if target in _USUAL_JSON:
            if content_type == CBOR:
                return _USUAL_CBOR[target](self._kinesis, request.body, call)
            if content_type != JSON:
                return None
            try:
                return _USUAL_JSON[target](self._kinesis, request.body, call)
            except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
                return None
        operation = target.removeprefix(_PREFIX)
        if operation in receiving.RECEIVES and target != operation:
            return receiving.answer(self._kinesis, request, call, operation)
        return (
            stream_consumers.answer(self._kinesis, request, call) if target == _SUBSCRIBE else None
        )
