"""Reads DynamoDB streams for Lambda: a `StreamReader` on the rows of moto's tables, without requests.

A table's changes are seen once they are stored: the reader takes moto's lock, which a write holds until then. A stream
has one shard for its whole life; switching the stream off ends the shard.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC
from typing import Any, cast

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn, InvalidArn
from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    AtTimestamp,
    Latest,
    Position,
    ReadResult,
    ShardInfo,
    ShardNotFound,
    StreamNotFound,
    StreamRecord,
    TrimHorizon,
)
from headrace.moto.storage.changes import MOTO_LOCK


class TableStreams:
    """Implements `headrace.core.ports.StreamReader` for the streams of DynamoDB's tables. Thread-safe.

    A record's data is its JSON in the form of a function's event; its partition key is its item's key, as JSON.

    Args:
        load: makes moto ready, with this cloud's state; waits for it. Raises AwsError.
        now_ms: the cloud's clock.
    """

    def __init__(self, load: Callable[[], None], now_ms: Callable[[], int]) -> None:
        self._load = load
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._wakes: dict[str, list[Callable[[], None]]] = defaultdict(list)

    def shards(self, stream_arn: str) -> list[ShardInfo]:
        """See `StreamReader.shards`."""
        with MOTO_LOCK:
            shard = self._shard(stream_arn)
            first = int(shard.starting_sequence_number)
            ending = None if _is_on(shard) else str(first + max(shard.kept.next - 1, 0))
            return [ShardInfo(str(shard.id), (), 0, 0, str(first), ending)]

    def pin(
        self, stream_arn: str, shard_id: str, position: Position
    ) -> AtSequence | AfterSequence | TrimHorizon:
        """See `StreamReader.pin`; the streams of tables have no AtTimestamp."""
        if isinstance(position, AtSequence | AfterSequence | TrimHorizon):
            return position
        if isinstance(position, AtTimestamp):
            raise TypeError(f"a stream of a table cannot be read from a time: {stream_arn}")
        with MOTO_LOCK:
            shard = self._shard(stream_arn, shard_id)
            return AtSequence(str(int(shard.starting_sequence_number) + shard.kept.next))

    def read(
        self,
        stream_arn: str,
        shard_id: str,
        position: Position,
        *,
        max_records: int,
        max_bytes: int,
    ) -> ReadResult:
        """See `StreamReader.read`."""
        with MOTO_LOCK:
            shard = self._shard(stream_arn, shard_id)
            rows = shard.kept
            origin = int(shard.starting_sequence_number)
            wanted_number = _number(position, origin, rows.next)
            start = max(wanted_number, rows.first)
            changes: list[dict[str, Any]] = rows.slice(start, max_records)
            is_on, following = _is_on(shard), start
        records: list[StreamRecord] = []
        size_bytes = 0
        for change in changes:
            record = _record(change, stream_arn)
            size_bytes += len(record.data)
            if records and size_bytes > max_bytes:
                break
            records.append(record)
            following += 1
        behind_ms = max(0, self._now_ms() - records[-1].approximate_arrival_ms) if records else 0
        expired = 0 if isinstance(position, TrimHorizon) else start - wanted_number
        if not is_on and len(records) == len(changes) < max_records:
            return ReadResult(records, None, behind_ms, expired)
        return ReadResult(records, AtSequence(str(origin + following)), behind_ms, expired)

    def consumer_status(self, consumer_arn: str) -> str | None:
        """See `StreamReader.consumer_status`: the streams of tables have no consumers."""
        return None

    def subscribe(self, stream_arn: str, wake: Callable[[], None]) -> Callable[[], None]:
        """See `StreamReader.subscribe`."""
        with self._lock:
            self._wakes[stream_arn].append(wake)

        def undo() -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._wakes[stream_arn].remove(wake)

        return undo

    def changed(self, stream_arn: str) -> None:
        """Wake the readers of a stream that has a new record."""
        with self._lock:
            wakes = list(self._wakes.get(stream_arn, ()))
        for wake in wakes:
            wake()

    def _shard(self, stream_arn: str, shard_id: str | None = None) -> Any:
        """Return the shard of a stream. Raises StreamNotFound, ShardNotFound."""
        from moto.dynamodb.models import dynamodb_backends

        try:
            self._load()
            arn = Arn.parse(stream_arn)
        except (AwsError, InvalidArn) as error:
            raise StreamNotFound(stream_arn) from error
        table_name, _, label = arn.resource.removeprefix("table/").partition("/stream/")
        # Plain dictionary access: moto's own lookup would create a backend for an unused region.
        of_account: Any = cast("Any", dynamodb_backends).get(arn.account)
        backend: Any = None if of_account is None else of_account.get(arn.region)
        table: Any = None if backend is None else backend.tables.get(table_name)
        if table is None or table.stream_shard is None or table.latest_stream_label != label:
            raise StreamNotFound(stream_arn)
        if shard_id is not None and table.stream_shard.id != shard_id:
            raise ShardNotFound(f"{stream_arn} {shard_id}")
        return table.stream_shard


def _is_on(shard: Any) -> bool:
    return bool(shard.table.stream_specification.get("StreamEnabled"))


def _number(position: Position, origin: int, following: int) -> int:
    """Return the number of the first record to read, counted from the stream's beginning."""
    match position:
        case AtSequence(number):
            return int(number) - origin
        case AfterSequence(number):
            return int(number) - origin + 1
        case Latest():
            return following
        case TrimHorizon() | AtTimestamp():
            return 0


def _record(change: dict[str, Any], stream_arn: str) -> StreamRecord:
    """Return a change as a record; `data` has the members of the developer guide's example (documented)."""
    inner: dict[str, Any] = dict(change["dynamodb"])
    at_ms = round(inner["ApproximateCreationDateTime"].replace(tzinfo=UTC).timestamp() * 1000)
    # Whole seconds, as in AWS's events.
    inner["ApproximateCreationDateTime"] = float(at_ms // 1000)
    event = {**change, "dynamodb": inner, "eventSourceARN": stream_arn}
    if "userIdentity" in change:
        # Documented: events have other letters than the API.
        identity: dict[str, str] = change["userIdentity"]
        event["userIdentity"] = {name[0].lower() + name[1:]: identity[name] for name in identity}
    return StreamRecord(
        sequence_number=str(inner["SequenceNumber"]),
        partition_key=msgspec.json.encode(inner["Keys"], order="sorted").decode(),
        data=msgspec.json.encode(event),
        approximate_arrival_ms=at_ms,
    )
