"""Finds the record of a shard where reading starts, for the five types of starting position."""

from __future__ import annotations

from datetime import datetime

from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.state import Shard, Stream, shard_id_of
from headrace.store import sequence

# This hexadecimal digit is 0 in every record's sequence number. A number with the digit set lies between two records'.
_BETWEEN = 0xF << 76
# AWS refuses a number in its first layout whose creation time is this or later. Source: kinesalite (observed).
_FIRST_LAYOUT_ENDS_S = 16_025_175_000


def start_index(
    stream: Stream,
    shard: Shard,
    kind: str,
    number: str | None,
    timestamp: datetime | None,
    now_ms: int,
    operation: str,
) -> int:
    """Return the index of the first record to read. `operation` appears in error messages. Raises AwsError."""
    log = shard.log
    assert log is not None
    if kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        if number is None:
            raise _contradiction(kind, "no")
        index = _index_of_number(stream, shard, number, now_ms, operation)
        if kind == "AFTER_SEQUENCE_NUMBER" or int(number) & _BETWEEN:
            index += 1
        # The ending sequence number of a closed shard is above every record; reading then starts at the log's end.
        return min(index, log.next_index)
    if kind == "AT_TIMESTAMP":
        return log.index_at(_timestamp_ms(timestamp, now_ms))
    if number is not None:
        raise _contradiction(kind, "also a")
    return log.first_index if kind == "TRIM_HORIZON" else log.readable_index


def number_before(shard: Shard, index: int, now_ms: int) -> str:
    """Return a sequence number above every record before `index` and below the record at `index`.

    AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER with this number both start at `index`.
    """
    return str(shard.base.first_of(index - 1, now_ms) | _BETWEEN)


def _contradiction(kind: str, conflicting: str) -> Exception:
    return invalid_argument(
        "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or"
        " (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber."
        f" Request specified {kind} and {conflicting} StartingSequenceNumber."
    )


def _timestamp_ms(timestamp: datetime | None, now_ms: int) -> int:
    if timestamp is None:
        raise invalid_argument(
            "Must specify timestamp parameter for iterator of type AT_TIMESTAMP."
            " Current request has no timestamp parameter."
        )
    timestamp_ms = int(timestamp.timestamp() * 1000)
    if timestamp_ms > now_ms:
        raise invalid_argument(
            "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis."
            f" timestampInMillis: {timestamp_ms}, currentTimestampInMillis: {now_ms}"
        )
    return timestamp_ms


def _index_of_number(stream: Stream, shard: Shard, text: str, now_ms: int, operation: str) -> int:
    first = sequence.parse_first(text)
    used = (
        f"StartingSequenceNumber {text if first is None else first.text} used in {operation} on shard"
        f" {shard.shard_id} in stream {stream.name} under account {stream.account} is invalid"
    )
    if first is not None:
        if first.created_s >= _FIRST_LAYOUT_ENDS_S:
            raise invalid_argument(f"{used}.")
        _check_shard(first.shard_number, shard)
        raise invalid_argument(f"{used} because it did not come from this stream.")
    try:
        number = sequence.parse(text)
    except sequence.InvalidSequence:
        number = None
    if number is None or number.base.created_s > now_ms // 1000 + 3600:
        raise invalid_argument(f"{used}.")
    _check_shard(number.base.shard_number, shard)
    if number.base != shard.base:
        raise invalid_argument(f"{used} because it did not come from this stream.")
    return number.index


def _check_shard(number: int, shard: Shard) -> None:
    if number != shard.number:
        raise invalid_argument(
            f"Invalid StartingSequenceNumber. It encodes {shard_id_of(number)},"
            f" while it was used in a call to a shard with {shard.shard_id}"
        )
