"""Kinesis trigger with tumbling windows: counts departures per carrier into the DynamoDB table named by TABLE.

Lambda passes a window's state from batch to batch of a shard and calls the function once more when the window ends;
only then the function writes the table. A record may hold several flights (`user_records`). A flight belongs to the
window of its arrival in the stream, not of its departure; a flight that was written twice (see `lambdas/enrich`)
counts twice, since a window's state holds counts, not flights. A repeated batch or last invocation changes nothing.
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
    """Add a batch to its window's state, or write the window if it has ended."""
    return process(event, dynamodb=_dynamodb(), table=os.environ["TABLE"], pause=time.sleep)


def process(
    event: dict[str, Any], *, dynamodb: Any, table: str, pause: Callable[[float], None]
) -> dict[str, Any]:
    """Return the window's new state; write it if this is the window's last invocation."""
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
    """Put items, and retry unprocessed ones. Raises RuntimeError when some are still unprocessed after all retries."""
    requests: dict[str, Any] = {table: [{"PutRequest": {"Item": row}} for row in rows]}
    for attempt in range(TRIES):
        requests = dynamodb.batch_write_item(RequestItems=requests).get("UnprocessedItems") or {}
        if not requests:
            return
        pause(0.05 * 2**attempt)
    raise RuntimeError(f"{len(requests[table])} items could not be written to {table}")
