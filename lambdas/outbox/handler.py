"""DynamoDB stream trigger on an outbox table: puts each new item's event into the Kinesis stream STREAM.

An item has `key`, the partition key (its SHA-256 beyond 256 characters), and `data`, the event (a text or bytes).
Events of one key are put in the order in which the table's stream has them: no request has two of a key. At least once:
after a failure Lambda calls again from the first event that was not put (`batchItemFailures`), and those behind it come
again.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import boto3

log = logging.getLogger()
log.setLevel(logging.INFO)

RECORDS_PER_PUT, BYTES_PER_PUT = 500, 4 << 20
TRIES, KEY_CHARS = 6, 256


@functools.cache
def _kinesis() -> Any:
    return boto3.client("kinesis")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Put a batch's events; return where to go on, in Lambda's form."""
    return process(event["Records"], _kinesis(), os.environ["STREAM"], time.sleep)


def process(
    changes: list[dict[str, Any]], kinesis: Any, stream: str, pause: Callable[[float], None]
) -> dict[str, Any]:
    """Put the events of new items; updates and deletions, such as of an expiry, are none."""
    # By key, in order: where in the batch, and the record.
    waiting: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for at, change in enumerate(changes):
        if change["eventName"] == "INSERT":
            record = _record_of(change["dynamodb"]["NewImage"])
            if record is None:
                # It would hold up all others for a day; the table still has it.
                log.error(
                    "an item has no data that is a text or bytes: %s", change["dynamodb"]["Keys"]
                )
                continue
            waiting.setdefault(record["PartitionKey"], []).append((at, record))
    tries = 0
    while waiting and tries < TRIES:
        heads = _request(waiting)
        answer = kinesis.put_records(StreamName=stream, Records=[record for _, record in heads])
        if answer["FailedRecordCount"]:
            tries += 1
            pause(0.1 * 2**tries)
        for (_, record), result in zip(heads, answer["Records"], strict=True):
            key = record["PartitionKey"]
            if "ErrorCode" not in result:
                waiting[key].pop(0)
                if not waiting[key]:
                    del waiting[key]
    if not waiting:
        return {"batchItemFailures": []}
    first = min(records[0][0] for records in waiting.values())
    log.warning("%d keys have events that %s refused", len(waiting), stream)
    return {"batchItemFailures": [{"itemIdentifier": changes[first]["dynamodb"]["SequenceNumber"]}]}


def _request(
    waiting: dict[str, list[tuple[int, dict[str, Any]]]],
) -> list[tuple[int, dict[str, Any]]]:
    """Return the first event of each key, as many as fit into a request."""
    heads: list[tuple[int, dict[str, Any]]] = []
    size = 0
    for records in waiting.values():
        size += len(records[0][1]["Data"]) + 256 * 4
        if heads and (len(heads) == RECORDS_PER_PUT or size > BYTES_PER_PUT):
            break
        heads.append(records[0])
    return heads


def _record_of(image: dict[str, Any]) -> dict[str, Any] | None:
    data, key = image.get("data", {}), image["key"]["S"]
    if "S" not in data and "B" not in data:
        return None
    body = data["S"].encode() if "S" in data else base64.b64decode(data["B"])
    if len(key) > KEY_CHARS:
        key = "sha256:" + hashlib.sha256(key.encode()).hexdigest()
    return {"Data": body, "PartitionKey": key}
