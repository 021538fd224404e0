"""One record of the usual form, put with nothing made that one record does not need: no columns, no groups.

It stores and counts as `puts.put` does; whatever is out of the ordinary is left to that.
"""

from __future__ import annotations

import json.encoder
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.aws.operation import Call
from headrace.services.kinesis.limits import PARTITION_KEY_CHARS
from headrace.services.kinesis.state import Stream, hash_key_of
from headrace.store.shard_log import LogClosed, LogFull

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis

# Of a text of whole groups of four: padding only at the end, and no bits before it that count for nothing.
_is_base64 = re.compile("[A-Za-z0-9+/]*(?:[AEIMQUYcgkosw048]=|[AQgw]==)?").fullmatch
_quote: Callable[[str], str] = json.encoder.encode_basestring_ascii  # type: ignore[assignment]


def put(
    kinesis: Kinesis, stream: Stream, data: str, key: str, call: Call
) -> tuple[str, str] | None:
    """Append a record and return its (shard id, sequence number); None when it must go by `puts.put`.

    `data` is what should be base64 text. With None, nothing is stored or counted. What the answer has to wait for is
    added to the call's waits.
    """
    now_ms = call.now_ms
    size = len(data)
    if size & 3 or size * 3 // 4 > stream.max_record_bytes or not _is_base64(data):
        return None
    if not 0 < len(key) <= PARTITION_KEY_CHARS or not _is_plain(kinesis, stream):
        return None
    opened, starts = stream.routes
    shard = opened[0 if len(opened) == 1 else bisect_right(starts, hash_key_of(key)) - 1]
    if shard.log is None:
        return None
    key_bytes = len(key) if key.isascii() else len(key.encode())
    data_bytes = size * 3 // 4 - data.count("=") + key_bytes
    tail = f',"EncryptionType":"{stream.encryption_type}"' if stream.key_id else ""
    try:
        numbers = shard.log.append_columns((data,), (_quote(key)[1:-1],), data_bytes, now_ms, tail)
    except (LogClosed, LogFull):
        # Split meanwhile, or the disk is full: the other way knows what to do and to say.
        return None
    if kinesis.flusher is None:
        _done(kinesis, stream, data_bytes, now_ms)
    else:
        wait = kinesis.flusher.sync(shard.log)
        # Readers see a record when it is as durable as its acknowledgement says; its latency ends there too.
        wait.add_done_callback(lambda _: _done(kinesis, stream, data_bytes, now_ms))
        call.waits.append(wait)
    return shard.shard_id, numbers[0]


def _done(kinesis: Kinesis, stream: Stream, data_bytes: int, now_ms: int) -> None:
    kinesis.wake(stream)
    stream.meter.put_record(data_bytes, max(0, kinesis.clock.now_ms() - now_ms))


def _is_plain(kinesis: Kinesis, stream: Stream) -> bool:
    """Whether a put to the stream is nothing but an append."""
    return not (
        kinesis.throttle is not None
        or (kinesis.faults is not None and kinesis.faults.is_partial)
        or stream.distribution == "AUTO"
        or stream.enhanced_metrics
    )
