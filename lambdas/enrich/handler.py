"""Kinesis trigger: enriches flights and writes them to the stream named by OUTPUT_STREAM.

Failures, and how the event source mapping (bisect, partial batch response, failure queue) handles them:

- A malformed record. The function writes the records before it and reports its sequence number: the mapping
  retries from there. A batch that *begins* with a malformed record fails as a whole, so that the mapping splits
  it (which costs no retry: documented, kinesis-on-failure-destination) until the record is alone. A single malformed
  record is reported until the retries are used up, and ends in the failure queue. Nothing is written twice meanwhile,
  and the records behind it wait only for these few invocations.
- Records that Kinesis refuses. The function sends them again before later records of their carrier (see `writer`).
  If Kinesis refuses to the end, the function reports the first such flight; the mapping retries everything from it on,
  so flights of other carriers are written again. Readers therefore use `event_id` as the key: a duplicate occurs only
  after a refusal, or when an invocation dies between writing and answering.

The partition key is the carrier, as in the source: all flights of a carrier come through one shard and one
invocation at a time, and several of them may share a record (see `aggregation`), so their order is kept from end to
end: no flight is written before an earlier one. With the airport as the key there would be no order, because one
airport's flights arrive through every shard at once.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import boto3
from logic import MalformedEvent, Reference, enrich, load_reference, parse_event
from writer import MAX_KEY_CHARACTERS, MAX_RECORD_BYTES, Entry, write

log = logging.getLogger()
log.setLevel(logging.INFO)

_REFERENCE = load_reference()


class MalformedHead(Exception):
    """The first of several records is malformed: the error fails the invocation, so that Lambda splits the batch."""


@functools.cache
def _kinesis() -> Any:
    return boto3.client("kinesis")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Process one batch of one shard; return the failures as Lambda's `batchItemFailures`."""
    return process(
        event["Records"],
        kinesis=_kinesis(),
        stream=os.environ["OUTPUT_STREAM"],
        reference=_REFERENCE,
        pause=time.sleep,
    )


def process(
    records: list[dict[str, Any]],
    *,
    kinesis: Any,
    stream: str,
    reference: Reference,
    pause: Callable[[float], None],
) -> dict[str, Any]:
    """Enrich and write the records before the first malformed one; return `batchItemFailures`.

    Raises MalformedHead when the first of several records is malformed.
    """
    entries, malformed = _entries(records, reference)
    if malformed is not None and not entries and len(records) > 1:
        raise MalformedHead(f"record {malformed} is malformed, and {len(records) - 1} follow it")
    unwritten = write(kinesis, stream, entries, pause=pause)
    failed = unwritten[0].source if unwritten else malformed
    if unwritten:
        log.warning("%d records could not be written; the first is %s", len(unwritten), failed)
    return {"batchItemFailures": [{"itemIdentifier": failed}] if failed is not None else []}


def _entries(records: list[dict[str, Any]], reference: Reference) -> tuple[list[Entry], str | None]:
    """Return the entries up to the first malformed record, and that record's sequence number."""
    entries: list[Entry] = []
    for record in records:
        sequence_number = record["kinesis"]["sequenceNumber"]
        try:
            entries.append(_entry(record["kinesis"], reference))
        except MalformedEvent as error:
            # Log the sequence number, never the content: a malformed record may contain anything.
            log.warning("record %s is malformed: %s", sequence_number, error)
            return entries, sequence_number
    return entries, None


def _entry(record: dict[str, Any], reference: Reference) -> Entry:
    event = enrich(parse_event(base64.b64decode(record["data"])), reference)
    try:
        entry = Entry(
            source=record["sequenceNumber"],
            data=json.dumps(event, separators=(",", ":"), allow_nan=False).encode(),
            partition_key=event["carrier"],
        )
        size_bytes = entry.size_bytes
    except ValueError as error:
        raise MalformedEvent("it holds an infinite number, or half a character") from error
    if len(entry.partition_key) > MAX_KEY_CHARACTERS:
        raise MalformedEvent("its carrier is longer than a partition key may be")
    if size_bytes > MAX_RECORD_BYTES:
        raise MalformedEvent("enriched, it is larger than a record may be")
    return entry
