"""Puts the records of a request as SDKs send it; what is unusual about it, or refused, is left to its action.

`put_usual` puts any number of records; `put_one` is shorter, for one record and a stream without throttling, faults or
metrics of shards.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from headrace.aws.operation import Call
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.permits import ask
from headrace.services.kinesis.data_path.put import (
    Entries,
    Placed,
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
from headrace.store.shard_log import LogClosed, LogFull


class UsualPut(NamedTuple):
    """A PutRecord or PutRecords request of the usual form, decoded and not yet checked against the limits.

    `data` is base64 text, padded; `explicit_hash_keys` may be empty when no record has one. `longest_bytes` bounds
    the data of every record, `most_bytes` the data and keys together (0 when they have no common limit).
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
) -> tuple[Stream, Placed] | None:
    """Put the records of a usual request; None, and nothing done, when it must go through its action."""
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
    """Return the stream that a request names; None when there is none, or its action must look closer."""
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

    It stores and counts as `put_many` does, without columns and groups. It returns None when `put_many` or the action
    must take the record; then nothing is stored or counted. `data` is base64 text, padded. What the answer must wait
    for is added to the call's waits.
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
    try:
        numbers = shard.log.append_columns((data,), keys, data_bytes, call.now_ms, tail)
    except (LogClosed, LogFull):
        # Split meanwhile, or the disk is full: `put_many` goes on from there, or says so.
        return None
    if kinesis.flusher is None:
        _finish_one(kinesis, stream, data_bytes, call.now_ms)
    else:
        wait = kinesis.flusher.sync(shard.log)
        # Readers see a record when it is as durable as its acknowledgement says; its latency ends there too.
        wait.add_done_callback(lambda _: _finish_one(kinesis, stream, data_bytes, call.now_ms))
        call.waits.append(wait)
    return stream, shard.shard_id, numbers[0]


def _finish_one(kinesis: Kinesis, stream: Stream, data_bytes: int, now_ms: int) -> None:
    for wake in stream.listeners:
        wake()
    stream.counters.put_record(data_bytes, max(0, kinesis.clock.now_ms() - now_ms))


def _takes_one(kinesis: Kinesis, stream: Stream) -> bool:
    """Whether a put to the stream is nothing but an append."""
    return not (may_refuse(kinesis) or stream.distribution == "AUTO" or stream.enhanced_metrics)
