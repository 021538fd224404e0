"""Puts the records of requests in the form that SDKs send; other requests, and refusals, are left to the action.

`put_usual` puts any number of records. `put_one` is a shorter path for one record and a stream without throttling,
faults and shard-level metrics.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from headrace.aws.calls.operation import Call
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.permits import ask
from headrace.services.kinesis.data_path.put import (
    Entries,
    PutResult,
    entry_bytes,
    may_refuse,
    put_many,
    quote,
    size_bytes,
)
from headrace.services.kinesis.limits import (
    PARTITION_KEY_CHARS,
    PUT_RECORDS_BYTES,
    PUT_RECORDS_COUNT,
)
from headrace.services.kinesis.state import Stream, hash_key_of
from headrace.store.frame import SharedFrame
from headrace.store.shard_log import LogClosed, LogFull

# A longer record gains nothing from sharing a write.
_MOST_SHARED_CHARS = 16 * 1024


class UsualPut(NamedTuple):
    """A PutRecord or PutRecords request in the form that SDKs send, decoded but not yet checked against the limits.

    `data` is padded base64 text; `explicit_hash_keys` may be empty when no record has one. No record's data is longer
    than `longest_bytes`; data and keys together are at most `most_bytes` (0 when they have no common limit).
    """

    stream_name: str | None
    stream_arn: str | None
    data: Sequence[str]
    keys: Sequence[str]
    explicit_hash_keys: Sequence[str | None]
    longest_bytes: int
    most_bytes: int


def put_usual(
    kinesis: Kinesis, request: UsualPut, call: Call, operation: str
) -> tuple[Stream, PutResult] | None:
    """Put the records of a request. Returns None, having done nothing, when the action must handle the request."""
    stream = _usual_stream(kinesis, request.stream_name, request.stream_arn, call)
    if stream is None or request.longest_bytes > stream.max_record_bytes:
        return None
    data, keys, explicit = request.data, request.keys, request.explicit_hash_keys
    key_lengths = set(map(len, keys))
    if 0 in key_lengths or max(key_lengths) > PARTITION_KEY_CHARS or len(keys) > PUT_RECORDS_COUNT:
        return None
    if not any(explicit):
        if "" in explicit:
            return None
        entries = Entries(data, keys)
    elif all(map(_is_hash_key, explicit)):
        entries = Entries(data, keys, explicit)
    else:
        return None
    if request.most_bytes > PUT_RECORDS_BYTES and size_bytes(data, keys) > PUT_RECORDS_BYTES:
        return None
    if call.permit is not None or stream.key_id:
        ask(call.permit, stream, operation, kinesis.registry.keys)
    placed = put_many(kinesis, stream, entries, call.now_ms, operation)
    call.waits.extend(placed.waits)
    return stream, placed


def _usual_stream(kinesis: Kinesis, name: str | None, arn: str | None, call: Call) -> Stream | None:
    """Return the stream that a request names, or None when the action must find it or report an error."""
    if arn is not None:
        stream = kinesis.find_arn(arn)
        if stream is not None and name not in (None, stream.name):
            return None
    else:
        stream = kinesis.streams.get((call.account, call.region, name or ""))
    return stream if stream is None or stream.latest_status == "ACTIVE" else None


def _is_hash_key(text: str | None) -> bool:
    if text is None:
        return True
    return text.isascii() and text.isdigit() and len(text) < 40 and (text[0] != "0" or text == "0")


def put_one(
    kinesis: Kinesis,
    *,
    stream_name: str | None,
    stream_arn: str | None,
    data: str,
    key: str,
    call: Call,
) -> tuple[Stream, str, str] | None:
    """Append a record and return (its stream, its shard's id, its sequence number).

    It does the same as `put_many`, without columns and groups. It returns None, having stored and counted nothing, when
    `put_many` or the action must handle the record. `data` is padded base64 text. The futures that the response must
    wait for are added to `call.waits`; a write that it shares is in `call.shared`.
    """
    stream, size = _usual_stream(kinesis, stream_name, stream_arn, call), len(data)
    if stream is None or size * 3 // 4 > stream.max_record_bytes:
        return None
    if not 0 < len(key) <= PARTITION_KEY_CHARS or not _takes_one(kinesis, stream):
        return None
    opened, starts = stream.routes
    shard = opened[0 if len(opened) == 1 else bisect_right(starts, hash_key_of(key)) - 1]
    if shard.log is None:
        return None
    if call.permit is not None or stream.key_id:
        ask(call.permit, stream, "PutRecord", kinesis.registry.keys)
    data_bytes = entry_bytes(data, key)
    tail = f',"EncryptionType":"{stream.encryption_type}"' if stream.key_id else ""
    keys = (quote(key)[1:-1],)
    may_share = call.may_share and size <= _MOST_SHARED_CHARS and kinesis.flusher is None
    try:
        if may_share:
            number, frame = shard.log.append_shared(data, keys[0], data_bytes, call.now_ms, tail)
            if len(frame.sizes) == 1:
                frame.then = functools.partial(_finish_shared, kinesis, stream, call.now_ms)
            call.shared = frame
            return stream, shard.shard_id, number
        numbers = shard.log.append_columns((data,), keys, data_bytes, call.now_ms, tail)
    except (LogClosed, LogFull):
        # The shard was split meanwhile, or the disk is full: `put_many` finds the child shard or reports the error.
        return None
    if kinesis.flusher is None:
        _finish_one(kinesis, stream, data_bytes, call.now_ms)
    else:
        wait = kinesis.flusher.sync(shard.log)
        # Readers see the record, and its latency ends, only once it is as durable as the response promises.
        wait.add_done_callback(lambda _: _finish_one(kinesis, stream, data_bytes, call.now_ms))
        call.waits.append(wait)
    return stream, shard.shard_id, numbers[0]


def _finish_one(kinesis: Kinesis, stream: Stream, data_bytes: int, now_ms: int) -> None:
    for wake in stream.listeners:
        wake()
    stream.counters.put_record(data_bytes, max(0, kinesis.clock.now_ms() - now_ms))


def _finish_shared(kinesis: Kinesis, stream: Stream, now_ms: int, frame: SharedFrame) -> None:
    for wake in stream.listeners:
        wake()
    latency_ms = max(0, kinesis.clock.now_ms() - now_ms)
    for data_bytes in frame.sizes:
        stream.counters.put_record(data_bytes, latency_ms)


def _takes_one(kinesis: Kinesis, stream: Stream) -> bool:
    """Whether a put to the stream needs no more than an append to one shard."""
    return not (may_refuse(kinesis) or stream.distribution == "AUTO" or stream.enhanced_metrics)
