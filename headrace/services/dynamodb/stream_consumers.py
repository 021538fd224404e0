"""DynamoDB's Kinesis streaming destinations: each change of an item goes to the Kinesis streams that its table names.

moto lacks this. A change is in the outbox from the write's transaction on, so it survives kill -9, and may then
arrive twice; changes of one item may arrive in another order while Kinesis fails, as AWS warns.
Documented: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/kds.html; errors and records are recorded.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
import uuid
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn, InvalidArn
from headrace.deliveries.outbox import OUTBOX, Delivery
from headrace.moto.current_cloud import CURRENT
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
