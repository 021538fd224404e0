"""Kinesis trigger with tumbling windows: counts departures per carrier into the DynamoDB table named by TABLE.

Lambda hands the state of a window from batch to batch of a shard and calls once more when the window is over; only then
is the table written. A record may hold several flights (`user_records`). A flight belongs to the window of its arrival
in the stream, not of its departure; one that was written twice (see `lambdas/enrich`) is counted twice, since a window
remembers counts, not flights. A batch or a last invocation that is repeated changes nothing.
"""

from __future__ import annotations

import base64
import functools
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import boto3
from logic import add, items
from user_records import user_records

log = logging.getLogger()
log.setLevel(logging.INFO)

ITEMS_PER_WRITE = 25
TRIES = 6


@functools.cache
def _dynamodb() -> Any:
    return boto3.client("dynamodb")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Add a batch to its window's state, or write the window that is over."""
    return process(event, dynamodb=_dynamodb(), table=os.environ["TABLE"], pause=time.sleep)


def process(
    event: dict[str, Any], *, dynamodb: Any, table: str, pause: Callable[[float], None]
) -> dict[str, Any]:
    """Return the window's new state; write it when this is the last invocation of the window."""
    payloads = (
        payload
        for record in event["Records"]
        for payload in user_records(base64.b64decode(record["kinesis"]["data"]))
    )
    state = add(event.get("state") or {}, payloads)
    if event["isFinalInvokeForWindow"]:
        rows = items(state, window=event["window"], shard_id=event["shardId"])
        for start in range(0, len(rows), ITEMS_PER_WRITE):
            _write(dynamodb, table, rows[start : start + ITEMS_PER_WRITE], pause)
        log.info(
            "window %s of %s: %d carriers, %d malformed records",
            event["window"]["start"],
            event["shardId"],
            len(rows),
            state["malformed"],
        )
    return {"state": state}


def _write(
    dynamodb: Any, table: str, rows: list[dict[str, Any]], pause: Callable[[float], None]
) -> None:
    """Put items, trying again what DynamoDB refuses. Raises RuntimeError when it refuses to the end."""
    requests: dict[str, Any] = {table: [{"PutRequest": {"Item": row}} for row in rows]}
    for attempt in range(TRIES):
        requests = dynamodb.batch_write_item(RequestItems=requests).get("UnprocessedItems") or {}
        if not requests:
            return
        pause(0.05 * 2**attempt)
    raise RuntimeError(f"{len(requests[table])} items could not be written to {table}")
