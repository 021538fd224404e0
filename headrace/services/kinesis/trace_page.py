"""The page that says where a queue or a channel stands, and what it did with one record.

The page of queues: how many records of each are visible, in flight, or dead letters.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.aws.protocols.service import DataPage, NothingToShow
from headrace.core.clock import Clock
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.channel_orders import ChannelOrder
from headrace.services.kinesis.queues.open_queue import OpenQueue
from headrace.services.kinesis.queues.queues import Queues
from headrace.services.kinesis.queues.state import Delivery, DeliveryState, Place, StoredRecord
from headrace.services.kinesis.state import Shard, Stream
from headrace.store import sequence
from headrace.store.losses import LogDamaged


def queues_page(queues: Queues, clock: Clock) -> DataPage:
    """Return the page."""

    def data(_: Mapping[str, str]) -> list[dict[str, Any]]:
        now_ms = clock.now_ms()
        return [queue_row(opened, now_ms) for opened in queues.all()]

    return DataPage("kinesis/queues", "Kinesis: each queue's records by their state (JSON)", data)


def queue_row(opened: OpenQueue, now_ms: int) -> dict[str, Any]:
    """Return a queue's row of the page."""
    queue, counts = opened.queue, opened.deliveries.counts(now_ms)
    return {
        "queue": queue.name,
        "arn": queue.arn,
        "account": queue.account,
        "region": queue.region,
        "stream": opened.stream.name,
        "status": queue.status(now_ms),
        # A consumer is a program of the user's: headrace knows of one when it receives.
        "hasConsumer": bool(opened.waiting) or opened.counters.active_ms > 0,
        "waitingReceives": len(opened.waiting),
        "visible": counts.visible,
        "inFlight": counts.in_flight,
        "deadLetters": counts.dead_visible + counts.dead_in_flight,
    }


# Of a queue's records that are not acknowledged, so many are listed.
_MOST = 20
_STATES = {
    DeliveryState.IN_FLIGHT: "in flight",
    DeliveryState.VISIBLE: "visible again",
    DeliveryState.DEAD_IN_FLIGHT: "dead letter, in flight",
    DeliveryState.DEAD_VISIBLE: "dead letter",
}
_decode = msgspec.json.Decoder(list[StoredRecord]).decode


def trace_page(kinesis: Kinesis) -> DataPage:
    """Return the page. Parameters: `consumer` (a queue or channel: name, id or ARN) and `sequence` (a number)."""

    def data(params: Mapping[str, str]) -> dict[str, Any]:
        name, number = params.get("consumer", ""), params.get("sequence")
        reports = list(_reports(kinesis, name, number))
        if not reports:
            raise NothingToShow(f"No queue or channel {name}.")
        return {"consumers": reports}

    return DataPage(
        "kinesis/trace",
        "Kinesis: what a queue or a channel did with a record (JSON)",
        data,
        query="?consumer=<queue or channel>",
    )


def _reports(kinesis: Kinesis, name: str, number: str | None) -> Iterator[dict[str, Any]]:
    now_ms = kinesis.clock.now_ms()
    for opened in kinesis.queues.all():
        queue = opened.queue
        if name in (queue.name, queue.queue_id, queue.arn):
            row = {"kind": "queue", **queue_row(opened, now_ms)}
            if number is None:
                places = opened.deliveries.unacknowledged(now_ms, _MOST)
                row["records"] = [_queue_record(opened, location, now_ms) for location in places]
            else:
                location = _place_of(opened.stream, number)
                row["records"] = (
                    [] if location is None else [_queue_record(opened, location, now_ms)]
                )
            yield row
    for row in kinesis.channels.statuses():
        order = kinesis.channels.by_arn(row["arn"])
        if order is None or name not in (order.name, order.order_id, row["arn"]):
            continue
        location = None if number is None else _place_of(order.stream, number)
        positions = row.get("positions", {})
        records = [] if location is None else [_channel_record(order, location, positions)]
        yield {"kind": "channel", **row, "records": records}


def _place_of(stream: Stream, number: str) -> Place | None:
    """Return where a record is, by its sequence number; None when the stream never had it."""
    try:
        parsed = sequence.parse(number)
    except sequence.InvalidSequence:
        return None
    shard = _shard(stream, parsed.base.shard_number)
    if shard is None or shard.base != parsed.base or shard.log is None:
        return None
    return (shard.number, parsed.index) if parsed.index < shard.log.next_index else None


def _shard(stream: Stream, number: int) -> Shard | None:
    return next((shard for shard in stream.shards if shard.number == number), None)


def _find_stored(stream: Stream, record_key: Place) -> tuple[str, StoredRecord | None]:
    """Return the shard of a record, and what the log has of it; None when it has expired or is lost."""
    shard = _shard(stream, record_key[0])
    if shard is None or shard.log is None:
        return "", None
    try:
        batch = shard.log.read_readable(record_key[1], 1, 1)
    except LogDamaged:
        return shard.shard_id, None
    for payload, (start, _) in zip(batch.payloads, batch.starts, strict=True):
        if start == record_key[1]:
            return shard.shard_id, _decode(b"".join((b"[", payload, b"]")))[0]
    return shard.shard_id, None


def _row(stream: Stream, record_key: Place) -> tuple[dict[str, Any], StoredRecord | None]:
    shard_id, stored = _find_stored(stream, record_key)
    row: dict[str, Any] = {"shardId": shard_id}
    if stored is not None:
        row |= {"sequenceNumber": stored.SequenceNumber, "partitionKey": stored.PartitionKey}
    return row, stored


def _queue_record(opened: OpenQueue, record_key: Place, now_ms: int) -> dict[str, Any]:
    row, stored = _row(opened.stream, record_key)
    was_received, entry = opened.deliveries.look(record_key, now_ms)
    if stored is None:
        return {**row, "outcome": "expired: the stream has it no longer"}
    if entry is None:
        return {**row, "outcome": _without_entry(opened, stored, was_received=was_received)}
    most = opened.queue.max_receives
    receives = f"received {entry.receives} times" + ("" if most is None else f" of {most}")
    return {**row, "outcome": f"{_STATES[DeliveryState(entry.state)]}: {receives}{_until(entry)}"}


def _without_entry(opened: OpenQueue, stored: StoredRecord, *, was_received: bool) -> str:
    if not was_received:
        return "visible: never received"
    is_older = stored.ApproximateArrivalTimestamp * 1000 < opened.queue.effective_ms
    return "older than the queue's start" if is_older else "acknowledged"


def _until(entry: Delivery) -> str:
    if not entry.is_in_flight:
        return ""
    at = datetime.fromtimestamp(entry.visible_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return f", in flight until {at}"


def _channel_record(
    order: ChannelOrder, record_key: Place, positions: Mapping[str, str]
) -> dict[str, Any]:
    row, stored = _row(order.stream, record_key)
    if stored is None:
        return {**row, "outcome": "expired: the stream has it no longer"}
    if not _is_behind(positions.get(row["shardId"], ""), stored.SequenceNumber):
        return {**row, "outcome": "waits for its object"}
    began_ms = max(order.channel.created_ms, order.from_ms)
    if stored.ApproximateArrivalTimestamp * 1000 < began_ms:
        return {**row, "outcome": "older than the channel, which delivers nothing from before"}
    bucket = order.error_target.arn.rpartition(":")[2]
    if order.channel.table:
        where = f"delivered to {order.channel.destination}, or noted in {bucket} if it is not valid"
        return {**row, "outcome": where}
    fault = order.find_fault(base64.b64decode(stored.Data))
    if fault is None:
        return {**row, "outcome": "delivered"}
    code, message = fault
    return {**row, "outcome": f"refused, and noted in {bucket}: {code}: {message}"}


def _is_behind(position: str, number: str) -> bool:
    """Return whether a delivery that stands at `position` is over with a record. See `Progress.positions`."""
    if position.isdecimal():
        return int(number) <= int(position)
    if position.startswith("AT:"):
        return int(number) < int(position[3:])
    return position == "END"
