"""Kinesis trigger with tumbling windows: tells the SNS topic TOPIC which devices are silent or too hot.

Lambda passes a window's state from batch to batch of a shard and calls the function once more when the window ends;
only then the function reads and writes the table TABLE, a row for each device, and publishes. It publishes before it
writes: a repeated last invocation publishes alerts again, with the same ids, and none is lost.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import boto3
from logic import add, alerts, newest, row_after, silences

log = logging.getLogger()
log.setLevel(logging.INFO)

ITEMS_PER_WRITE, ALERTS_PER_CALL = 25, 10
TRIES = 6


@functools.cache
def _client(service: str) -> Any:
    return boto3.client(service)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Add a batch to its window's state, or report the window if it has ended."""
    return process(
        event,
        dynamodb=_client("dynamodb"),
        sns=_client("sns"),
        table=os.environ["TABLE"],
        topic=os.environ["TOPIC"],
        pause=time.sleep,
    )


def process(
    event: dict[str, Any],
    *,
    dynamodb: Any,
    sns: Any,
    table: str,
    topic: str,
    pause: Callable[[float], None],
) -> dict[str, Any]:
    """Return the window's new state; publish and store if this is the window's last invocation."""
    payloads = (base64.b64decode(record["kinesis"]["data"]) for record in event["Records"])
    state = add(event.get("state") or {}, payloads)
    if event["isFinalInvokeForWindow"]:
        shard_id = event["shardId"]
        stored = _rows(dynamodb, table, shard_id)
        rows, alerts_found = dict(stored), list[dict[str, Any]]()
        for device, seen in state["devices"].items():
            alerts_found += alerts(seen, device, stored.get(device))
            rows[device] = row_after(seen, stored.get(device))
        for device, alert in list(silences(rows, newest(state))):
            alerts_found.append(alert)
            rows[device] = {**rows[device], "silent": alert["since_ms"]}
        _publish(sns, topic, alerts_found)
        changed = {name: row for name, row in rows.items() if row != stored.get(name)}
        _write(dynamodb, table, shard_id, changed, pause)
        log.info(
            "window %s of %s: %d devices, %d alerts, %d malformed records",
            event["window"]["start"],
            shard_id,
            len(state["devices"]),
            len(alerts_found),
            state["malformed"],
        )
    return {"state": state}


def _rows(dynamodb: Any, table: str, shard_id: str) -> dict[str, dict[str, Any]]:
    pages = dynamodb.get_paginator("query").paginate(
        TableName=table,
        KeyConditionExpression="shard_id = :shard",
        ExpressionAttributeValues={":shard": {"S": shard_id}},
        ConsistentRead=True,
    )
    return {
        item["device"]["S"]: {
            "last": int(item["last"]["N"]),
            "hot": item["hot"]["BOOL"],
            "silent": int(item["silent"]["N"]) if "silent" in item else None,
        }
        for page in pages
        for item in page["Items"]
    }


def _publish(sns: Any, topic: str, alerts_found: list[dict[str, Any]]) -> None:
    """Publish alerts. Raises RuntimeError when SNS refuses some; the window is then reported again."""
    for part in _parts(alerts_found, ALERTS_PER_CALL):
        entries = [
            {
                "Id": str(number),
                "Message": json.dumps(alert),
                "MessageAttributes": {"kind": {"DataType": "String", "StringValue": alert["kind"]}},
            }
            for number, alert in enumerate(part)
        ]
        answer = sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)
        if answer.get("Failed"):
            raise RuntimeError(f"{len(answer['Failed'])} alerts could not be published to {topic}")


def _write(
    dynamodb: Any,
    table: str,
    shard_id: str,
    rows: dict[str, dict[str, Any]],
    pause: Callable[[float], None],
) -> None:
    """Put rows, and retry unprocessed ones. Raises RuntimeError when some are still unprocessed after all retries."""
    items = [
        {
            "shard_id": {"S": shard_id},
            "device": {"S": device},
            "last": {"N": str(row["last"])},
            "hot": {"BOOL": row["hot"]},
            **({} if row.get("silent") is None else {"silent": {"N": str(row["silent"])}}),
        }
        for device, row in rows.items()
    ]
    for part in _parts(items, ITEMS_PER_WRITE):
        requests: dict[str, Any] = {table: [{"PutRequest": {"Item": item}} for item in part]}
        for attempt in range(TRIES):
            requests = (
                dynamodb.batch_write_item(RequestItems=requests).get("UnprocessedItems") or {}
            )
            if not requests:
                break
            pause(0.05 * 2**attempt)
        else:
            raise RuntimeError(f"{len(requests[table])} items could not be written to {table}")


def _parts(values: list[dict[str, Any]], size: int) -> Iterable[list[dict[str, Any]]]:
    return (values[start : start + size] for start in range(0, len(values), size))
