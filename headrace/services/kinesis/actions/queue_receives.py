"""The two receives, for calls in process; `queues/receiving.py` answers requests, without a thread."""

from typing import Any, cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    ReceiveDeadLetterQueueRecordsInput,
    ReceiveDeadLetterQueueRecordsOutput,
    ReceiveQueueRecordsInput,
    ReceiveQueueRecordsOutput,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.queues.open_queue import Outcome
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
