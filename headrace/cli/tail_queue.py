"""`headrace tail --queue`: receives the records of a queue, prints them, and acknowledges what it printed."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import click

from headrace.cli.interrupts import reader_is_gone
from headrace.cli.options import explain, fail

_MOST = 10
_WAIT_S = 20
_DRAIN_WAIT_S = 1


def tail_queue(kinesis: Any, queue: str, limit: int | None, *, drain: bool, as_json: bool) -> None:
    """Print up to `limit` records; with `drain` stop when none is visible. A record that is printed is acknowledged."""
    from botocore.exceptions import BotoCoreError, ClientError

    if not hasattr(kinesis, "receive_queue_records"):
        raise fail("The installed boto3 does not know queues: pip install --upgrade boto3")
    try:
        arn = queue if queue.startswith("arn:") else _arn_of(kinesis, queue)
        left = limit
        while left is None or left > 0:
            records = kinesis.receive_queue_records(
                QueueARN=arn,
                Limit=_MOST if left is None else min(_MOST, left),
                WaitTimeSeconds=_DRAIN_WAIT_S if drain else _WAIT_S,
            )["QueueRecords"]
            if not records:
                if drain:
                    return
                if reader_is_gone():
                    raise BrokenPipeError
                continue
            for record in records:
                click.echo(_line(record, as_json=as_json))
            _acknowledge(kinesis, arn, records)
            left = None if left is None else left - len(records)
    except (BotoCoreError, ClientError) as error:
        raise explain(error) from error


def _arn_of(kinesis: Any, name: str) -> str:
    for page in kinesis.get_paginator("list_queues").paginate():
        for one in page["QueueSummaries"]:
            if one["QueueName"] == name:
                return str(one["QueueARN"])
    raise fail(f"There is no queue {name}.")


def _acknowledge(kinesis: Any, arn: str, records: list[dict[str, Any]]) -> None:
    entries = [{"ReceiptHandle": record["ReceiptHandle"]} for record in records]
    failed = kinesis.acknowledge_queue_records(QueueARN=arn, Entries=entries)["Failed"]
    for one in failed:
        click.echo(f"not acknowledged: {one['ErrorCode']}: {one.get('ErrorMessage', '')}", err=True)


def _line(record: dict[str, Any], *, as_json: bool) -> str | bytes:
    if not as_json:
        return record["Data"]
    return json.dumps(
        {
            "recordId": record["RecordId"],
            "partitionKey": record.get("PartitionKey"),
            "approximateArrivalTimestamp": _iso(record["ApproximateArrivalTimestamp"]),
            "firstReceiveTimestamp": _iso(record["FirstReceiveTimestamp"]),
            "receiveCount": record["ReceiveCount"],
            **data_shown(record["Data"]),
        }
    )


def data_shown(data: bytes) -> dict[str, str]:
    """Return a record's data for JSON: as text, or in base64 when it is not UTF-8."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"dataBase64": base64.b64encode(data).decode()}


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")
