"""Operations on queues: the queue itself, its records (acknowledge, visibility, restore), and receives in process.

`fast_path.py` answers the receives of requests, without a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    AcknowledgeDeadLetterQueueRecordsInput,
    AcknowledgeDeadLetterQueueRecordsOutput,
    AcknowledgeQueueRecordsInput,
    AcknowledgeQueueRecordsOutput,
    CreateQueueInput,
    CreateQueueOutput,
    DeleteQueueInput,
    DescribeQueueInput,
    DescribeQueueOutput,
    ListQueuesInput,
    ListQueuesOutput,
    QueueAttributes,
    QueueDescription,
    QueueStartingPosition,
    QueueSummary,
    ReceiveDeadLetterQueueRecordsInput,
    ReceiveDeadLetterQueueRecordsOutput,
    ReceiveQueueRecordsInput,
    ReceiveQueueRecordsOutput,
    RestoreDeadLetterQueueRecordsInput,
    RestoreDeadLetterQueueRecordsOutput,
    UpdateDeadLetterQueueRecordsVisibilityInput,
    UpdateDeadLetterQueueRecordsVisibilityOutput,
    UpdateQueueInput,
    UpdateQueueOutput,
    UpdateQueueRecordsVisibilityInput,
    UpdateQueueRecordsVisibilityOutput,
)
from headrace.services.kinesis.actions.resources import check_tags
from headrace.services.kinesis.actions.streams import matches_filter
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import (
    LIST_QUEUES_DEFAULT,
    QUEUES_CHANGING,
    in_use,
    invalid_argument,
    limit_exceeded,
)
from headrace.services.kinesis.fast_path import (
    check_key,
    find_delivering,
    receive_of,
    records_of,
    wait_for,
)
from headrace.services.kinesis.queues.open_queue import OpenQueue, Outcome, Receipt
from headrace.services.kinesis.queues.queues import Change
from headrace.services.kinesis.queues.state import Queue, QueueStatus, StartType
from headrace.services.kinesis.resharding import consumer_quota
from headrace.services.kinesis.state import Stream


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


_MS_PER_HOUR = 3_600_000


@operation("CreateQueue")
def create_queue(kinesis: Kinesis, call: Call, request: CreateQueueInput) -> CreateQueueOutput:
    """Create a queue on an on-demand stream. Source: API_CreateQueue."""
    name, tags = request["QueueName"], dict(request.get("Tags", {}))
    configurations = request["StreamConfigurationList"]
    if len(configurations) != 1:
        raise _invalid("StreamConfigurationList must contain exactly one entry.")
    start: QueueStartingPosition = configurations[0].get("StartingPosition", {"Type": "LATEST"})
    start_ms = _start_ms(start, call.now_ms)
    settings = _settings(request.get("QueueAttributes", {}), {})
    check_tags({}, tags, name, call.account, "queue")
    with kinesis.lock:
        stream = _stream_for(kinesis, call, configurations[0]["StreamARN"])
        _check_room(kinesis, call, stream, name)
        oldest_ms = max(stream.created_ms, call.now_ms - stream.retention_hours * _MS_PER_HOUR)
        kind: StartType = start["Type"]  # pyright: ignore[reportAssignmentType] - the model's enum
        queue = Queue(
            name=name,
            account=call.account,
            region=call.region,
            queue_id=kinesis.queues.new_id(),
            number=kinesis.queues.free_number(),
            stream_id=stream.stream_id,
            created_ms=call.now_ms,
            start_type=kind,
            start_ms=start_ms,
            effective_ms=call.now_ms if kind == "LATEST" else max(start_ms or 0, oldest_ms),
            tags=tags,
            **settings,
        )
        kinesis.queues.add(queue, stream, _positions(stream, kind, start_ms))
    opened = kinesis.queues.find(queue.arn, call.now_ms)
    # AWS answers before the queue is there, however quickly it is.
    return {"QueueDescription": _description(opened, "CREATING")}


@operation("UpdateQueue")
def update_queue(kinesis: Kinesis, call: Call, request: UpdateQueueInput) -> UpdateQueueOutput:
    """Change the visibility timeout or the dead-letter handling. Source: API_UpdateQueue."""
    with kinesis.lock:
        opened = _find_active(kinesis, request["QueueARN"], call.now_ms)
        queue = opened.queue
        present = {"visibility_s": queue.visibility_s, "max_receives": queue.max_receives}
        for field, value in _settings(request["QueueAttributes"], present).items():
            setattr(queue, field, value)
        kinesis.queues.update(opened, call.now_ms)
        return {"QueueDescription": _description(opened, "UPDATING")}


@operation("DeleteQueue")
def delete_queue(kinesis: Kinesis, call: Call, request: DeleteQueueInput) -> None:
    """Delete a queue; the stream keeps its records. Source: API_DeleteQueue.

    Assumed: a queue in any other state than DELETING can be deleted, and a second call is no error.
    """
    with kinesis.lock:
        opened = kinesis.queues.find(request["QueueARN"], call.now_ms)
        if opened.queue.status(call.now_ms) != "DELETING":
            _check_changing(kinesis, call)
            kinesis.queues.delete(opened, call.now_ms)


@operation("DescribeQueue")
def describe_queue(
    kinesis: Kinesis, call: Call, request: DescribeQueueInput
) -> DescribeQueueOutput:
    """Return a queue. Source: API_DescribeQueue."""
    opened = kinesis.queues.find(request["QueueARN"], call.now_ms)
    return {"QueueDescription": _description(opened, opened.queue.status(call.now_ms))}


@operation("ListQueues")
def list_queues(kinesis: Kinesis, call: Call, request: ListQueuesInput) -> ListQueuesOutput:
    """Return a page of an account's queues, sorted by name. Source: API_ListQueues."""
    filters = request.get("StreamFilter", [])
    if len(filters) > 1:
        raise _invalid("StreamFilter must contain exactly one entry.")
    page, next_token = kinesis.tokens.cut_page(
        "ListQueues",
        [
            opened
            for opened in kinesis.queues.listed(call.account, call.region, call.now_ms)
            if all(matches_filter(opened.stream, one) for one in filters)
        ],
        lambda opened: opened.queue.name,
        token=request.get("NextToken"),
        limit=request.get("MaxResults", LIST_QUEUES_DEFAULT),
        now_ms=call.now_ms,
    )
    answer: ListQueuesOutput = {"QueueSummaries": [_summary(one, call.now_ms) for one in page]}
    if next_token is not None:
        answer["NextToken"] = next_token
    return answer


def _stream_for(kinesis: Kinesis, call: Call, arn: str) -> Stream:
    """Return the stream that a new queue is to read. Assumed: it belongs to the caller's account and region."""
    stream = kinesis.find_active(call.account, call.region, {"StreamARN": arn}, call.now_ms)
    if (stream.account, stream.region) != (call.account, call.region):
        raise invalid_argument(f"StreamARN {arn} is not in account {call.account}, {call.region}.")
    if stream.mode != "ON_DEMAND":
        raise _invalid(
            f"Stream {stream.name} under account {stream.account} is in PROVISIONED mode."
            " Queues are supported only on data streams in on-demand capacity mode."
        )
    return stream


def _check_room(kinesis: Kinesis, call: Call, stream: Stream, name: str) -> None:
    """Raise AwsError when the name is taken, or a quota is used up."""
    queues = kinesis.queues.listed(call.account, call.region, call.now_ms)
    if any(opened.queue.name == name for opened in queues):
        raise in_use(f"Queue {name} under account {call.account} already exists.")
    _check_changing(kinesis, call)
    quota = consumer_quota(kinesis, stream, call.now_ms)
    present = len(kinesis.consumers.of_stream(stream, call.now_ms))
    present += len(kinesis.queues.of_stream(stream, call.now_ms))
    if present >= quota:
        raise limit_exceeded(
            f"Failed to create queue {name} on stream {stream.name} under account {stream.account}."
            f" The stream has reached its limit of {quota} registered consumers."
        )


def _check_changing(kinesis: Kinesis, call: Call) -> None:
    changing = sum(
        opened.queue.status(call.now_ms) in ("CREATING", "DELETING")
        for opened in kinesis.queues.listed(call.account, call.region, call.now_ms)
    )
    if changing >= QUEUES_CHANGING:
        raise limit_exceeded(
            f"No more than {QUEUES_CHANGING} queues of account {call.account} can be in CREATING or DELETING status"
            " at the same time."
        )


def _find_active(kinesis: Kinesis, arn: str, now_ms: int) -> OpenQueue:
    opened = kinesis.queues.find(arn, now_ms)
    status = opened.queue.status(now_ms)
    if status != "ACTIVE":
        raise in_use(f"Queue {arn} is not ACTIVE, instead in state {status}.")
    return opened


def _start_ms(start: QueueStartingPosition, now_ms: int) -> int | None:
    """Return the timestamp of AT_TIMESTAMP. Assumed: it may not lie in the future, as that of an iterator."""
    at = start.get("Timestamp")
    if start["Type"] != "AT_TIMESTAMP":
        if at is not None:
            raise _invalid("Timestamp can be specified only when Type is AT_TIMESTAMP.")
        return None
    if at is None:
        raise _invalid("Timestamp is required when Type is AT_TIMESTAMP.")
    at_ms = int(at.timestamp() * 1000)
    if at_ms > now_ms:
        raise _invalid("Timestamp cannot be in the future.")
    return at_ms


def _positions(stream: Stream, kind: str, start_ms: int | None) -> dict[int, int]:
    positions: dict[int, int] = {}
    for shard in stream.shards:
        log = shard.log
        assert log is not None
        if kind == "LATEST":
            positions[shard.number] = log.readable_index
        elif start_ms is None:
            positions[shard.number] = log.first_index
        else:
            positions[shard.number] = log.index_at(start_ms)
    return positions


def _settings(attributes: QueueAttributes, present: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a queue that a request sets, over the present ones. Raises ValidationException."""
    settings = dict(present)
    if "VisibilityTimeoutSeconds" in attributes:
        settings["visibility_s"] = attributes["VisibilityTimeoutSeconds"]
    dead_letters = attributes.get("DeadLetterConfiguration")
    if dead_letters is not None:
        most = dead_letters.get("MaxReceiveCount")
        if dead_letters["TargetType"] == "BUILT_IN" and most is None:
            raise _invalid("MaxReceiveCount is required when TargetType is BUILT_IN.")
        if dead_letters["TargetType"] == "NONE" and most is not None:
            # Assumed: AWS refuses what would have no effect.
            raise _invalid("MaxReceiveCount cannot be specified when TargetType is NONE.")
        settings["max_receives"] = most
    return settings


def _description(opened: OpenQueue, status: QueueStatus) -> QueueDescription:
    queue = opened.queue
    start: QueueStartingPosition = {"Type": queue.start_type}
    start_ms = queue.start_ms if status == "CREATING" else queue.effective_ms
    if start_ms is not None:
        start["Timestamp"] = _time(start_ms)
    attributes: QueueAttributes = {
        "VisibilityTimeoutSeconds": queue.visibility_s,
        "DeadLetterConfiguration": {"TargetType": "NONE"},
    }
    if queue.max_receives is not None:
        attributes["DeadLetterConfiguration"] = {
            "TargetType": "BUILT_IN",
            "MaxReceiveCount": queue.max_receives,
        }
    return {
        "QueueName": queue.name,
        "QueueARN": queue.arn,
        "QueueStatus": status,
        "QueueCreationTimestamp": _time(queue.created_ms),
        "StreamConfigurationList": [{"StreamARN": opened.stream.arn, "StartingPosition": start}],
        "QueueAttributes": attributes,
    }


def _summary(opened: OpenQueue, now_ms: int) -> QueueSummary:
    queue, stream = opened.queue, opened.stream
    return {
        "QueueName": queue.name,
        "QueueARN": queue.arn,
        "QueueStatus": queue.status(now_ms),
        "QueueCreationTimestamp": _time(queue.created_ms),
        "Streams": [{"StreamARN": stream.arn, "StreamCreationTimestamp": stream.created_at}],
    }


def _time(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def _invalid(message: str) -> AwsError:
    """The sentences are assumed; the code is documented."""
    return AwsError("ValidationException", message)
