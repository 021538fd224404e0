"""DynamoDB's Kinesis streaming destinations: each change of an item goes to the Kinesis streams that its table names.

moto lacks this. A change is in the outbox from the write's transaction on, so it survives kill -9, and may then
arrive twice; changes of one item may arrive in another order while Kinesis fails, as AWS warns.
Documented: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/kds.html; errors and records are recorded.

Reads DynamoDB streams for Lambda: a `StreamReader` on the rows of moto's tables, without requests.

A table's changes are seen once they are stored: the reader takes moto's lock, which a write holds until then. A stream
has one shard for its whole life; switching the stream off ends the shard.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import functools
import json
import threading
import uuid
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
from headrace.deliveries.outbox import OUTBOX, Delivery
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.services.dynamodb.streams import identity_of_change

_PRECISIONS = ("MILLISECOND", "MICROSECOND")
_INVALID_STATE = "Table is not in a valid state to enable Kinesis Streaming Destination: "
# Documented: a table streams to at most two.
MOST_DESTINATIONS = 2
_DAY_S = 86_400


@functools.cache
def patch() -> None:
    """Add the operations to moto's DynamoDB, once; `dynamodb_items` calls `tell` for changes."""
    from moto.dynamodb.responses import DynamoHandler

    handler: Any = DynamoHandler
    handler.enable_kinesis_streaming_destination = _enable
    handler.disable_kinesis_streaming_destination = _disable
    handler.update_kinesis_streaming_destination = _update
    handler.describe_kinesis_streaming_destination = _describe


def destinations_of(table: Any) -> dict[str, str]:
    """Return a table's destinations: stream ARN -> precision of times ('' for AWS's default)."""
    destinations: dict[str, str] = getattr(table, "kinesis_destinations", {})
    return destinations


# --- operations -----------------------------------------------------------------------------------


def _table(response: Any) -> Any:
    from moto.dynamodb.exceptions import ResourceNotFoundException

    name = str(response.body["TableName"])
    try:
        return response.dynamodb_backend.get_table(name)
    except ResourceNotFoundException:
        raise AwsError(
            "ResourceNotFoundException", f"Requested resource not found: Table: {name} not found"
        ) from None


def _build_refusal(message: str) -> AwsError:
    return AwsError("ValidationException", message)


def _precision(configuration: dict[str, Any], member: str) -> str:
    precision = str(configuration.get("ApproximateCreationDateTimePrecision") or "")
    if precision and precision not in _PRECISIONS:
        raise _build_refusal(
            f"1 validation error detected: Value '{precision}' at"
            f" '{member}.approximateCreationDateTimePrecision' failed to satisfy constraint: Member"
            f" must satisfy enum value set: [{', '.join(_PRECISIONS)}]"
        )
    return precision


def _enable(response: Any) -> Any:
    table, stream_arn = _table(response), str(response.body["StreamArn"])
    configuration = response.body.get("EnableKinesisStreamingConfiguration") or {}
    precision = _precision(configuration, "enableKinesisStreamingConfiguration")
    kept = destinations_of(table)
    if stream_arn in kept:
        # The state's name is assumed.
        raise _build_refusal(
            f"{_INVALID_STATE}Kinesis streaming destination {stream_arn} is already enabled"
        )
    if len(kept) >= MOST_DESTINATIONS:
        raise AwsError("LimitExceededException", "Table has reached its limit of destinations")
    _find_stream(stream_arn, table.account_id)
    table.kinesis_destinations = {**kept, stream_arn: precision}
    answer = {"EnableKinesisStreamingConfiguration": dict(configuration)}
    return _answer(table, stream_arn, "ENABLING", answer)


def _find_stream(stream_arn: str, account: str) -> None:
    """Raise AWS's error when the stream does not exist (the sentence is assumed)."""
    if CURRENT.control is None:
        return
    try:
        arn = Arn.parse(stream_arn)
        CURRENT.control.call(
            "kinesis",
            "DescribeStreamSummary",
            {"StreamARN": stream_arn},
            account=account,
            region=arn.region,
        )
    except (AwsError, InvalidArn) as error:
        raise AwsError(
            "ResourceNotFoundException",
            f"Requested resource not found: Stream: {stream_arn} not found",
        ) from error


def _disable(response: Any) -> Any:
    table, stream_arn = _table(response), str(response.body["StreamArn"])
    kept = dict(destinations_of(table))
    if kept.pop(stream_arn, None) is None:
        raise AwsError(
            "ResourceNotFoundException",
            f"{_INVALID_STATE}No streaming destination with streamArn: {stream_arn} found for table"
            f" with tableName: {table.name}",
        )
    table.kinesis_destinations = kept
    return _answer(table, stream_arn, "DISABLING", {})


def _update(response: Any) -> Any:
    table, stream_arn = _table(response), str(response.body["StreamArn"])
    configuration = response.body.get("UpdateKinesisStreamingConfiguration") or {}
    precision = _precision(configuration, "updateKinesisStreamingConfiguration")
    if not precision:
        raise _build_refusal(
            "Streaming destination cannot be updated with given parameters:"
            " UpdateKinesisStreamingConfiguration cannot be null or contain only null values"
        )
    kept = destinations_of(table)
    if stream_arn not in kept:
        raise _build_refusal(
            f"{_INVALID_STATE}No streaming destination with streamArn: {stream_arn} found for table"
            f" with tableName: {table.name}"
        )
    if (kept[stream_arn] or _PRECISIONS[0]) == precision:
        raise _build_refusal(
            f"Invalid Request: Precision is already set to the desired value of {precision} for"
            f" tableId: {uuid.uuid5(uuid.NAMESPACE_URL, table.table_arn)}, kdsArn: {stream_arn}"
        )
    table.kinesis_destinations = {**kept, stream_arn: precision}
    answer = {"UpdateKinesisStreamingConfiguration": dict(configuration)}
    return _answer(table, stream_arn, "UPDATING", answer)


def _answer(table: Any, stream_arn: str, status: str, more: dict[str, Any]) -> Any:
    from moto.core.responses import ActionResult

    named = {"TableName": table.name, "StreamArn": stream_arn}
    return ActionResult({**named, "DestinationStatus": status, **more})


def _describe(response: Any) -> Any:
    from moto.core.responses import ActionResult

    table = _table(response)
    shown = [
        {
            "StreamArn": stream_arn,
            "DestinationStatus": "ACTIVE",
            **({"ApproximateCreationDateTimePrecision": precision} if precision else {}),
        }
        for stream_arn, precision in destinations_of(table).items()
    ]
    return ActionResult({"TableName": table.name, "KinesisDataStreamDestinations": shown})


# --- changes --------------------------------------------------------------------------------------


def tell(table: Any, old: Any, new: Any) -> None:
    """Put a change into the outbox for each destination; a write without a change sends none (documented)."""
    kept = destinations_of(table)
    if not kept or CURRENT.control is None or (old is not None and new is not None and old == new):
        return
    for stream_arn, precision in kept.items():
        _queue_delivery(table, stream_arn, _record(table, old, new, precision))


def _identity() -> dict[str, str] | None:
    identity = identity_of_change()
    return None if identity is None else {"principalId": identity["PrincipalId"], "type": "Service"}


def _record(table: Any, old: Any, new: Any, precision: str) -> dict[str, Any]:
    whole = new if old is None else old
    keys = {table.hash_key_attr: whole.hash_key.to_json()}
    size_bytes = len(table.hash_key_attr.encode()) + whole.hash_key.size()
    if table.range_key_attr is not None:
        keys[table.range_key_attr] = whole.range_key.to_json()
        size_bytes += len(table.range_key_attr.encode()) + whole.range_key.size()
    now_ms = CURRENT.clock.now_ms()
    change: dict[str, Any] = {
        "ApproximateCreationDateTime": now_ms * 1000 if precision == _PRECISIONS[1] else now_ms,
        "Keys": keys,
    }
    # Both images are always present, whatever the table's own stream has (documented).
    for name, item in (("NewImage", new), ("OldImage", old)):
        if item is not None:
            change[name] = item.to_json()["Attributes"]
            size_bytes += item.size()
    change["SizeBytes"] = int(size_bytes)
    if precision:
        change["ApproximateCreationDateTimePrecision"] = precision
    return {
        "awsRegion": table.region_name,
        "eventID": str(uuid.uuid4()),
        "eventName": "INSERT" if old is None else "REMOVE" if new is None else "MODIFY",
        "userIdentity": _identity(),
        "recordFormat": "application/json",
        "tableName": table.name,
        "dynamodb": change,
        "eventSource": "aws:dynamodb",
    }


def _queue_delivery(table: Any, stream_arn: str, record: dict[str, Any]) -> None:
    arn = Arn.parse(stream_arn)
    body = json.dumps(record).encode()
    # An item always has the same partition key, so all its changes are in one shard; the key itself is assumed.
    key = json.dumps(record["dynamodb"]["Keys"], sort_keys=True)
    OUTBOX.add(
        Delivery(
            what=f"A change of {table.name} for {stream_arn}",
            body=body,
            service="kinesis",
            operation="PutRecord",
            params={
                "StreamARN": stream_arn,
                "PartitionKey": uuid.uuid5(uuid.NAMESPACE_URL, key).hex.upper(),
                "Data": body,
            },
            account=arn.account,
            region=arn.region,
            most_age_s=_DAY_S,
            most_retries=_DAY_S,
        )
    )


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
            record = _stream_record(change, stream_arn)
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


def _stream_record(change: dict[str, Any], stream_arn: str) -> StreamRecord:
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
