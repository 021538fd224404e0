"""DynamoDB streams: records are stored as rows for a day, and iterators contain their own position.

moto keeps every record and every iterator for ever, and loses iterators when the process ends.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
from collections import deque
from collections.abc import Generator, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES, RowKey, Rows
from headrace.moto.storage.stored_names import stored_as

# Documented: records are kept for 24 hours. The two limits are headrace's, for one stream: records are in memory.
RETENTION_MS = 24 * 3600 * 1000
MOST_RECORDS = 50_000
MOST_BYTES = 32 * 1024 * 1024
# Documented: an iterator expires 15 minutes after its creation.
ITERATOR_MS = 15 * 60 * 1000
# The key of the row with the number of trimmed records.
TRIMMED = -1
_SERVICE = {"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"}


class _Deleting:
    """Whether the changes that happen now are the service's. Changed under `MOTO_LOCK`."""

    by_service = False


def identity_of_change() -> dict[str, str] | None:
    """Return who makes the change that a stream records now; None for a client. The caller holds `MOTO_LOCK`."""
    return dict(_SERVICE) if _Deleting.by_service else None


@contextlib.contextmanager
def deleting_by_service() -> Generator[None]:
    """Let the changes be the service's, because items have expired. The caller holds `MOTO_LOCK`."""
    _Deleting.by_service = True
    try:
        yield
    finally:
        _Deleting.by_service = False


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    from moto.dynamodb.models import DynamoDBBackend
    from moto.dynamodb.models.table import StreamShard
    from moto.dynamodbstreams.models import DynamoDBStreamsBackend

    shard: Any = StreamShard
    shard.__init__ = _with_rows(StreamShard.__init__)
    shard.add = _add
    tables: Any = DynamoDBBackend
    tables.update_table_streams = _update_table_streams
    streams: Any = DynamoDBStreamsBackend
    streams.describe_stream = _describe_stream
    streams.get_shard_iterator = _get_shard_iterator
    streams.get_records = _get_records


@stored_as("dynamodb_stream_rows")
class StreamRows(Rows):
    """The records of a stream, oldest first, each compressed with its time; `next` is the total number so far."""

    service = "dynamodb"

    def __init__(self, rows_id: int | None = None) -> None:
        super().__init__(rows_id)
        # A record takes two kilobytes in moto's form, compressed a few hundred bytes.
        self.records: deque[tuple[bytes, int]] = deque()
        self.first = 0
        self._bytes = 0

    @property
    def next(self) -> int:
        """The number of the next record."""
        return self.first + len(self.records)

    def add(self, record: dict[str, Any], now_ms: int) -> None:
        """Add a record, and drop records beyond the limits."""
        CHANGES.row(self, self.next)
        self._append(msgspec.msgpack.encode([record, now_ms], enc_hook=_plain), now_ms)
        self.trim(now_ms)

    def _append(self, packed: bytes, at_ms: int) -> None:
        self.records.append((packed, at_ms))
        self._bytes += len(packed)

    def trim(self, now_ms: int) -> None:
        """Drop records that are too old or beyond the limits."""
        while self.records and (
            self.records[0][1] <= now_ms - RETENTION_MS
            or len(self.records) > MOST_RECORDS
            or (self._bytes > MOST_BYTES and len(self.records) > 1)
        ):
            packed, _ = self.records.popleft()
            self._bytes -= len(packed)
            CHANGES.row(self, self.first)
            self.first += 1
            # The mark keeps an empty stream from restarting its numbers after a restart.
            CHANGES.row(self, TRIMMED)

    def cut(self, following: int) -> None:
        """Remove the records from number `following` on: their transaction was cancelled."""
        while self.next > following:
            packed, _ = self.records.pop()
            self._bytes -= len(packed)
            CHANGES.row(self, self.next)

    def slice(self, start: int, most: int) -> list[dict[str, Any]]:
        """Return up to `most` records from number `start` on."""
        numbers = range(max(start, self.first), min(start + most, self.next))
        return [self._record(*self.records[number - self.first]) for number in numbers]

    @staticmethod
    def _record(packed: bytes, at_ms: int) -> dict[str, Any]:
        record, _ = msgspec.msgpack.decode(packed)
        record["dynamodb"]["ApproximateCreationDateTime"] = _date(at_ms)
        return record

    def encode_row(self, key: Any) -> bytes | None:
        """See `Rows.encode_row`."""
        if key == TRIMMED:
            return msgspec.msgpack.encode(self.first)
        return self.records[key - self.first][0] if self.first <= key < self.next else None

    def keys(self) -> Iterable[Any]:
        """See `Rows.keys`."""
        return [TRIMMED, *range(self.first, self.next)]

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        for key, value in rows:
            if key == TRIMMED:
                self.first = max(self.first, int(msgspec.msgpack.decode(value)))
                continue
            if not self.records:
                self.first = max(self.first, int(key))
            self._append(value, int(msgspec.msgpack.decode(value)[1]))


def _plain(typed: Any) -> Any:
    return typed.to_json()


def _date(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC).replace(tzinfo=None)


def _update_table_streams(backend: Any, table: Any, specification: dict[str, Any]) -> None:
    """Switch a stream on or off; moto never switches a second one on."""
    from moto.dynamodb.exceptions import StreamAlreadyEnabledException

    stream_enabled = specification.get("StreamEnabled") or specification.get("StreamViewType")
    if stream_enabled and (table.stream_specification or {}).get("StreamEnabled"):
        raise StreamAlreadyEnabledException
    table.set_stream_specification(specification)


def _with_rows(init: Any) -> Any:
    @functools.wraps(init)
    def with_rows(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        del self.items
        self.kept = StreamRows()
        self.view_type = self.table.stream_specification.get("StreamViewType")

    return with_rows


def _add(shard: Any, old: Any, new: Any) -> None:
    """Record a change; a write that changes nothing adds no record (documented)."""
    from moto.dynamodb.models.table import StreamRecord

    specification = shard.table.stream_specification
    # A stream that was switched off can still be read, but gets no new records.
    if shard.kept is None or not specification.get("StreamEnabled"):
        return
    if old is not None and new is not None and old == new:
        return
    rows: StreamRows = shard.kept
    name = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
    number = shard.starting_sequence_number + rows.next
    record_of: Any = StreamRecord
    record = record_of(shard.table, specification["StreamViewType"], name, old, new, number)
    now_ms = CURRENT.clock.now_ms()
    record.record["awsRegion"] = shard.table.region_name
    # Observed in AWS's answers that LocalStack recorded; moto says 1.0.
    record.record["eventVersion"] = "1.1"
    change = record.record["dynamodb"]
    change["ApproximateCreationDateTime"] = None
    images: list[Any] = [i for i, part in ((old, "OldImage"), (new, "NewImage")) if part in change]
    whole: Any = new if old is None else old
    change["SizeBytes"] = _key_bytes(shard.table, whole) + sum(image.size() for image in images)
    identity = identity_of_change()
    if identity is not None:
        record.record["userIdentity"] = identity
    rows.add(record.record, now_ms)
    if CURRENT.stream_changed is not None:
        CURRENT.stream_changed(f"{shard.table.table_arn}/stream/{shard.table.latest_stream_label}")


def _key_bytes(table: Any, item: Any) -> int:
    """Return the bytes of a key's names and values, which a record's size counts beside its images.

    Observed in AWS's answers that LocalStack recorded; moto counts the characters of its JSON.
    """
    size_bytes = len(table.hash_key_attr.encode()) + item.hash_key.size()
    if table.range_key_attr is not None:
        size_bytes += len(table.range_key_attr.encode()) + item.range_key.size()
    return int(size_bytes)


# --- reading --------------------------------------------------------------------------------------


def _error(code: str, message: str) -> Exception:
    from moto.core.exceptions import JsonRESTError

    return JsonRESTError(f"com.amazonaws.dynamodb.v20120810#{code}", message)


def _describe_stream(backend: Any, arn: str) -> dict[str, Any]:
    shard = _shard(backend, arn)
    table, is_on = shard.table, shard.table.stream_specification.get("StreamEnabled")
    shown = shard.to_json()
    if not is_on:
        ending = shard.starting_sequence_number + max(shard.kept.next - 1, 0)
        shown["SequenceNumberRange"]["EndingSequenceNumber"] = str(ending)
    return {
        "StreamArn": arn,
        "StreamLabel": table.latest_stream_label,
        "StreamStatus": "ENABLED" if is_on else "DISABLED",
        "StreamViewType": shard.view_type,
        "CreationRequestDateTime": shard.created_on,
        "TableName": table.name,
        "KeySchema": table.schema,
        "Shards": [shown],
    }


def _get_shard_iterator(
    backend: Any, arn: str, shard_id: str, shard_iterator_type: str, sequence_number: Any = None
) -> Any:
    shard = _shard(backend, arn)
    if shard.id != shard_id:
        raise _error(
            "ResourceNotFoundException", f"Requested resource not found: Shard: {shard_id}"
        )
    rows: StreamRows = shard.kept
    if shard_iterator_type in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        if sequence_number is None:
            raise _error(
                "ValidationException",
                f"SequenceNumber must be provided when ShardIteratorType is {shard_iterator_type}",
            )
        start = int(sequence_number) - shard.starting_sequence_number
        start += shard_iterator_type == "AFTER_SEQUENCE_NUMBER"
        _check_not_trimmed(rows, start)
    else:
        start = rows.first if shard_iterator_type == "TRIM_HORIZON" else rows.next
    return _Iterator(arn, start)


class _Iterator:
    """An iterator, with the members that moto's response reads."""

    def __init__(self, stream_arn: str, start: int) -> None:
        position = msgspec.msgpack.encode([start, CURRENT.clock.now_ms()])
        self.arn = f"{stream_arn}|1|{base64.b64encode(position).decode()}"


def _check_not_trimmed(rows: StreamRows, start: int) -> None:
    rows.trim(CURRENT.clock.now_ms())
    if start < rows.first:
        raise _error(
            "TrimmedDataAccessException",
            "The operation attempted to read past the oldest stream record in a shard.",
        )


def _get_records(backend: Any, iterator_arn: str, limit: int) -> dict[str, Any]:
    stream_arn, _, rest = iterator_arn.partition("|1|")
    try:
        start, made_ms = msgspec.msgpack.decode(base64.b64decode(rest, validate=True))
    except (ValueError, TypeError, binascii.Error, msgspec.DecodeError):
        raise _error("ValidationException", "Invalid ShardIterator") from None
    if CURRENT.clock.now_ms() - made_ms > ITERATOR_MS:
        raise _error(
            "ExpiredIteratorException", "Iterator expired. The iterator was created too long ago."
        )
    rows: StreamRows = _shard(backend, stream_arn).kept
    _check_not_trimmed(rows, start)
    records = rows.slice(start, limit)
    return {
        "NextShardIterator": _Iterator(stream_arn, start + len(records)).arn,
        "Records": records,
    }


def _shard(backend: Any, stream_arn: str) -> Any:
    """Return the shard of a stream. Raises ResourceNotFoundException."""
    from moto.dynamodb.exceptions import ResourceNotFoundException

    table_name = stream_arn.partition(":table/")[2].partition("/stream/")[0]
    try:
        table = backend.dynamodb.get_table(table_name)
    except ResourceNotFoundException:
        table = None
    # The whole ARN: in another account or region it is of another table.
    own = "" if table is None else f"{table.table_arn}/stream/{table.latest_stream_label}"
    if table is None or table.stream_shard is None or stream_arn != own:
        raise _error(
            "ResourceNotFoundException",
            f"Requested resource not found: Stream: {stream_arn} not found",
        )
    return table.stream_shard
