"""The operations that change received records: acknowledge, change the visibility, restore.

The two receives, for calls in process; `queues/receiving.py` answers requests, without a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    AcknowledgeDeadLetterQueueRecordsInput,
    AcknowledgeDeadLetterQueueRecordsOutput,
    AcknowledgeQueueRecordsInput,
    AcknowledgeQueueRecordsOutput,
    ReceiveDeadLetterQueueRecordsInput,
    ReceiveDeadLetterQueueRecordsOutput,
    ReceiveQueueRecordsInput,
    ReceiveQueueRecordsOutput,
    RestoreDeadLetterQueueRecordsInput,
    RestoreDeadLetterQueueRecordsOutput,
    UpdateDeadLetterQueueRecordsVisibilityInput,
    UpdateDeadLetterQueueRecordsVisibilityOutput,
    UpdateQueueRecordsVisibilityInput,
    UpdateQueueRecordsVisibilityOutput,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.queues.open_queue import OpenQueue, Outcome
from headrace.services.kinesis.queues.queues import Change
from headrace.services.kinesis.queues.receipts import Receipt
from headrace.services.kinesis.queues.receiving import (
    check_key,
    find_delivering,
    receive_of,
    records_of,
    wait_for,
)


@operation("ReceiveQueueRecords")
def receive_queue_records(
    kinesis: Kinesis, call: Call, request: ReceiveQueueRecordsInput
) -> ReceiveQueueRecordsOutput:
    """Return visible records, which are in flight from now on. Source: API_ReceiveQueueRecords."""
    return cast(
        "ReceiveQueueRecordsOutput", _receive(kinesis, call, request, "ReceiveQueueRecords")
    )


@operation("ReceiveDeadLetterQueueRecords")
def receive_dead_letter_queue_records(
    kinesis: Kinesis, call: Call, request: ReceiveDeadLetterQueueRecordsInput
) -> ReceiveDeadLetterQueueRecordsOutput:
    """Return visible dead-letter records. Source: API_ReceiveDeadLetterQueueRecords."""
    same = cast("ReceiveQueueRecordsInput", request)
    answer = _receive(kinesis, call, same, "ReceiveDeadLetterQueueRecords")
    return cast("ReceiveDeadLetterQueueRecordsOutput", answer)


def _receive(
    kinesis: Kinesis, call: Call, request: ReceiveQueueRecordsInput, name: str
) -> dict[str, Any]:
    opened = find_delivering(kinesis, request["QueueARN"], call.now_ms)
    check_key(kinesis, opened)
    receive = receive_of(opened, request, call, name, lambda outcome: outcome)
    outcome: Outcome = kinesis.queues.receive(opened, receive, call.now_ms)
    if outcome == []:
        outcome = wait_for(kinesis, kinesis.queues.wait(opened, receive))
    else:
        wait_for(kinesis, kinesis.queues.stored())
    if isinstance(outcome, Exception):
        raise outcome
    return {"QueueRecords": records_of(opened, outcome)}


@operation("AcknowledgeQueueRecords")
def acknowledge_queue_records(
    kinesis: Kinesis, call: Call, request: AcknowledgeQueueRecordsInput
) -> AcknowledgeQueueRecordsOutput:
    """Remove received records from the queue. Source: API_AcknowledgeQueueRecords."""
    opened = find_delivering(kinesis, request["QueueARN"], call.now_ms)
    answer = _change(kinesis, opened, call, request["Entries"], _acknowledge(call, dead=False))
    if answer["Successful"]:
        opened.counters.note("AcknowledgedQueueRecords", len(answer["Successful"]))
    return cast("AcknowledgeQueueRecordsOutput", answer)


@operation("AcknowledgeDeadLetterQueueRecords")
def acknowledge_dead_letter_queue_records(
    kinesis: Kinesis, call: Call, request: AcknowledgeDeadLetterQueueRecordsInput
) -> AcknowledgeDeadLetterQueueRecordsOutput:
    """Discard dead-letter records. Source: API_AcknowledgeDeadLetterQueueRecords."""
    opened = find_delivering(kinesis, request["QueueARN"], call.now_ms)
    answer = _change(kinesis, opened, call, request["Entries"], _acknowledge(call, dead=True))
    return cast("AcknowledgeDeadLetterQueueRecordsOutput", answer)


@operation("UpdateQueueRecordsVisibility")
def update_queue_records_visibility(
    kinesis: Kinesis, call: Call, request: UpdateQueueRecordsVisibilityInput
) -> UpdateQueueRecordsVisibilityOutput:
    """Change when records in flight become visible. Source: API_UpdateQueueRecordsVisibility."""
    opened = find_delivering(kinesis, request["QueueARN"], call.now_ms)
    change = _change_visibility(call, request["Entries"], dead=False)
    answer = _change(kinesis, opened, call, request["Entries"], change)
    return cast("UpdateQueueRecordsVisibilityOutput", answer)


@operation("UpdateDeadLetterQueueRecordsVisibility")
def update_dead_letter_queue_records_visibility(
    kinesis: Kinesis, call: Call, request: UpdateDeadLetterQueueRecordsVisibilityInput
) -> UpdateDeadLetterQueueRecordsVisibilityOutput:
    """Change when dead-letter records in flight become visible. Source: API_UpdateDeadLetterQueueRecordsVisibility."""
    opened = find_delivering(kinesis, request["QueueARN"], call.now_ms)
    change = _change_visibility(call, request["Entries"], dead=True)
    answer = _change(kinesis, opened, call, request["Entries"], change)
    return cast("UpdateDeadLetterQueueRecordsVisibilityOutput", answer)


@operation("RestoreDeadLetterQueueRecords")
def restore_dead_letter_queue_records(
    kinesis: Kinesis, call: Call, request: RestoreDeadLetterQueueRecordsInput
) -> RestoreDeadLetterQueueRecordsOutput:
    """Make dead-letter records ordinary, visible ones again. Source: API_RestoreDeadLetterQueueRecords."""

    def restore(opened: OpenQueue, receipt: Receipt, _: int) -> None:
        record_key = (receipt.shard_number, receipt.record)
        opened.deliveries.restore(record_key, receipt.number, call.now_ms)

    opened = find_delivering(kinesis, request["QueueARN"], call.now_ms)
    answer = _change(kinesis, opened, call, request["Entries"], restore)
    return cast("RestoreDeadLetterQueueRecordsOutput", answer)


def _acknowledge(call: Call, *, dead: bool) -> Change:
    def acknowledge(opened: OpenQueue, receipt: Receipt, _: int) -> None:
        record_key = (receipt.shard_number, receipt.record)
        opened.deliveries.acknowledge(record_key, receipt.number, call.now_ms, dead=dead)

    return acknowledge


def _change_visibility(call: Call, entries: Sequence[Any], *, dead: bool) -> Change:
    def change(opened: OpenQueue, receipt: Receipt, number: int) -> None:
        record_key = (receipt.shard_number, receipt.record)
        visibility_ms = entries[number]["VisibilityTimeoutSeconds"] * 1000
        opened.deliveries.change_visibility(
            record_key, receipt.number, visibility_ms, call.now_ms, dead=dead
        )

    return change


def _change(
    kinesis: Kinesis, opened: OpenQueue, call: Call, entries: Sequence[Any], change: Change
) -> dict[str, list[dict[str, str]]]:
    """Change the record of each entry; the answer is sent once the changes are durable."""
    handles = [entry["ReceiptHandle"] for entry in entries]
    successful, failed = kinesis.queues.change(opened, handles, change)
    if successful:
        call.waits.append(kinesis.queues.stored())
    return {
        "Successful": [{"ReceiptHandle": handle} for handle in successful],
        "Failed": [
            {
                "ReceiptHandle": one.handle,
                "ErrorCode": one.code,
                "ErrorMessage": one.message,
            }
            for one in failed
        ],
    }
