"""SQS's message move tasks: messages go from a dead-letter queue back to their source, or to another queue.

A task without a limit moves all messages when it starts. One with MaxNumberOfMessagesPerSecond moves them as time goes
on: whoever asks for a queue next moves what is due, and a long poll wakes for it. Sentences are recorded (LocalStack's
test_sqs_move_task), but for those that say otherwise; the rest is documented: API_StartMessageMoveTask,
API_ListMessageMoveTasks, API_CancelMessageMoveTask.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import base64
import copy
import functools
import json
import uuid
from typing import Any

from headrace.core.values import parse_json
from headrace.moto.current_cloud import CURRENT
from headrace.services.sqs.checks import refuse
from headrace.services.sqs.messages import State

# The system attribute of a message that came from another queue, as ReceiveMessage names it (recorded).
SOURCE = "DeadLetterQueueSourceArn"
MOST_PER_SECOND = 500
_MOST_LISTED = 10
# API_ListMessageMoveTasks: the most recent ones are kept; how many is assumed.
_MOST_KEPT = 10
_NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"
_UNKNOWN_SOURCE = "CouldNotDetermineMessageSource"
Task = dict[str, Any]


def patch() -> None:
    """Add the actions to moto's responses, and the moving to whatever asks for a queue; called once."""
    from moto.sqs.models import SQSBackend
    from moto.sqs.responses import SQSResponse

    response: Any = SQSResponse
    response.start_message_move_task = _start
    response.list_message_move_tasks = _list
    response.cancel_message_move_task = _cancel
    response.receive_message = _with_source(response.receive_message)
    backend: Any = SQSBackend
    backend.get_queue = _move_first(backend.get_queue)


def note_source(message: Any, queue: Any) -> None:
    """Note the queue from which a message goes to its dead-letter queue."""
    message.system_attributes = {**(message.system_attributes or {}), SOURCE: queue.queue_arn}


def next_due_ms(backend: Any) -> float | None:
    """Return when a running task moves its next message; None for never."""
    due = [_due_ms(task) for task in _tasks_of(backend) if task["status"] == "RUNNING"]
    return min(due, default=None)


def _tasks_of(backend: Any) -> list[Task]:
    # Not made by moto's __init__: a stored backend of an older cloud has none.
    return vars(backend).setdefault("move_tasks", [])


def _due_ms(task: Task) -> float:
    return float(task["started_ms"]) + task["moved"] * 1000 / task["per_second"]


def _move_first(get_queue: Any) -> Any:
    @functools.wraps(get_queue)
    def get(self: Any, queue_name: str) -> Any:
        if vars(self).get("move_tasks"):
            _advance(self)
        return get_queue(self, queue_name)

    return get


def _advance(backend: Any) -> None:
    """Move what is due of every running task."""
    for task in _tasks_of(backend):
        if task["status"] == "RUNNING" and (due := _count_due(task)) > 0:
            _move(backend, task, due)
        if task["status"] == "RUNNING" and task["moved"] >= task["to_move"]:
            task["status"] = "COMPLETED"


def _count_due(task: Task) -> int:
    left = int(task["to_move"]) - int(task["moved"])
    if not task["per_second"]:
        return left
    elapsed_ms = CURRENT.clock.now_ms() - task["started_ms"]
    return min(left, 1 + elapsed_ms * task["per_second"] // 1000 - task["moved"])


def _move(backend: Any, task: Task, due: int) -> None:
    """Move a task's oldest messages, and end the task when there are fewer or one cannot be moved."""
    source = _find_queue(backend, task["source"])
    if source is None:
        _fail(task, _NO_QUEUE)
        return
    store, now_ms = source.store, CURRENT.clock.now_ms()
    store.expire(now_ms, source.message_retention_period)
    store.advance(now_ms)
    numbers = store.list_ready(due)
    for number in numbers:
        message = store.messages[number]
        target_arn = task["destination"] or (message.system_attributes or {}).get(SOURCE)
        target = _find_queue(backend, target_arn) if target_arn else None
        if target is None:
            _fail(task, _NO_QUEUE if target_arn else _UNKNOWN_SOURCE)
            return
        target.add_message(_renew(message))
        store.remove(number)
        task["moved"] += 1
    if len(numbers) < due:
        task["status"] = "COMPLETED"


def _fail(task: Task, reason: str) -> None:
    task["status"], task["failure"] = "FAILED", reason


def _renew(message: Any) -> Any:
    """Return a message as a new one, with its own id and time (documented: configuring a redrive)."""
    moved = copy.copy(message)
    moved.id = str(uuid.uuid4())
    moved.mark_sent()
    moved.delayed_until = 0.0
    moved.approximate_receive_count, moved.approximate_first_receive_timestamp = 0, None
    attributes = message.system_attributes or {}
    moved.system_attributes = {k: v for k, v in attributes.items() if k != SOURCE}
    # It may return within five minutes, and is no duplicate then.
    moved.deduplication_id = moved.id if message.deduplication_id is not None else None
    return moved


def _find_queue(backend: Any, arn: str) -> Any:
    return next((queue for queue in backend.queues.values() if queue.queue_arn == arn), None)


def _require_queue(backend: Any, arn: str, member: str) -> Any:
    queue = _find_queue(backend, arn)
    if queue is None:
        raise _not_found(
            f"The resource that you specified for the {member} parameter doesn't exist."
        )
    return queue


def _not_found(message: str) -> Exception:
    _declare_status()
    return refuse("ResourceNotFoundException", message)


@functools.cache
def _declare_status() -> None:
    """Give the error its status, 404 (recorded), which AWS's model leaves out."""
    from moto.core.utils import get_service_model

    model: Any = get_service_model("sqs")
    (shape,) = (one for one in model.error_shapes if one.name == "ResourceNotFoundException")
    # Not in the description, which is everybody's.
    error = {"httpStatusCode": 404, "senderFault": True}
    shape._shape_model = {**shape._shape_model, "error": error}


def _start(response: Any) -> Any:
    """Begin to move messages. Answers a TaskHandle."""
    from moto.core.responses import ActionResult

    backend = response.sqs_backend
    arn, destination = response._get_param("SourceArn"), response._get_param("DestinationArn")
    per_second = response._get_param("MaxNumberOfMessagesPerSecond")
    source = _require_queue(backend, arn, "SourceArn")
    if not _is_dead_letter_queue(backend, arn):
        raise refuse(
            "InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue."
        )
    if destination:
        _require_queue(backend, destination, "DestinationArn")
    if per_second is not None and not 1 <= int(per_second) <= MOST_PER_SECOND:
        # The range is documented; the sentence is assumed.
        raise refuse(
            "InvalidParameterValue",
            f"Value {per_second} for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: Must be between 1 and"
            f" {MOST_PER_SECOND}, if provided.",
        )
    _advance(backend)
    if any(task["source"] == arn and task["status"] == "RUNNING" for task in _tasks_of(backend)):
        raise refuse(
            "InvalidParameterValue",
            "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
        )
    now_ms = CURRENT.clock.now_ms()
    source.store.advance(now_ms)
    task: Task = {
        "id": str(uuid.uuid4()),
        "source": arn,
        "destination": destination or "",
        "per_second": int(per_second or 0),
        "started_ms": now_ms,
        "to_move": int(source.store.counts[State.READY]),
        "moved": 0,
        "status": "RUNNING",
        "failure": "",
    }
    tasks = _tasks_of(backend)
    tasks.insert(0, task)
    kept = [one for one in tasks if one["source"] == arn][:_MOST_KEPT]
    tasks[:] = [one for one in tasks if one["source"] != arn or one in kept]
    _advance(backend)
    CURRENT.message_arrived()
    return ActionResult({"TaskHandle": _handle_of(task)})


def _is_dead_letter_queue(backend: Any, arn: str) -> bool:
    return any(
        (queue.redrive_policy or {}).get("deadLetterTargetArn") == arn
        for queue in backend.queues.values()
    )


def _handle_of(task: Task) -> str:
    text = json.dumps({"taskId": task["id"], "sourceArn": task["source"]}, separators=(",", ":"))
    return base64.b64encode(text.encode()).decode()


def _list(response: Any) -> Any:
    """Answer the newest tasks of a source queue."""
    from moto.core.responses import ActionResult

    backend, arn = response.sqs_backend, response._get_param("SourceArn")
    most = int(response._get_param("MaxResults") or 1)
    _require_queue(backend, arn, "SourceArn")
    if not 1 <= most <= _MOST_LISTED:
        # The range is documented; the sentence is assumed.
        raise refuse(
            "InvalidParameterValue",
            f"Value {most} for parameter MaxResults is invalid. Reason: Must be between 1 and {_MOST_LISTED},"
            " if provided.",
        )
    _advance(backend)
    tasks = [task for task in _tasks_of(backend) if task["source"] == arn][:most]
    return ActionResult({"Results": [_describe(task) for task in tasks]})


def _describe(task: Task) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "Status": task["status"],
        "SourceArn": task["source"],
        "ApproximateNumberOfMessagesMoved": task["moved"],
        "ApproximateNumberOfMessagesToMove": task["to_move"],
        "StartedTimestamp": task["started_ms"],
    }
    optional = {
        "TaskHandle": _handle_of(task) if task["status"] == "RUNNING" else "",
        "DestinationArn": task["destination"],
        "MaxNumberOfMessagesPerSecond": task["per_second"],
        "FailureReason": task["failure"],
    }
    return {**entry, **{name: value for name, value in optional.items() if value}}


def _cancel(response: Any) -> Any:
    """Stop a task; what it has moved stays moved."""
    from moto.core.responses import ActionResult

    backend = response.sqs_backend
    try:
        handle = parse_json(base64.b64decode(response._get_param("TaskHandle"), validate=True))
        task_id, arn = str(handle["taskId"]), str(handle["sourceArn"])
    except (ValueError, KeyError, TypeError):
        raise refuse(
            "InvalidParameterValue", "Value for parameter TaskHandle is invalid."
        ) from None
    _require_queue(backend, arn, "SourceArn")
    _advance(backend)
    task = next((one for one in _tasks_of(backend) if one["id"] == task_id), None)
    if task is None:
        raise _not_found("Task does not exist.")
    if task["status"] != "RUNNING":
        # Documented: only a running task can be cancelled; the sentence is assumed.
        raise refuse("InvalidParameterValue", "Only active tasks can be cancelled")
    task["status"] = "CANCELLED"
    return ActionResult({"ApproximateNumberOfMessagesMoved": task["moved"]})


def _with_source(receive_message: Any) -> Any:
    """Show from which queue a message came, in a dead-letter queue."""

    @functools.wraps(receive_message)
    def receive(self: Any) -> Any:
        answer = receive_message(self)
        names = {
            *(self._get_param("AttributeNames") or ()),
            *(self._get_param("MessageSystemAttributeNames") or ()),
        }
        if names & {"All", SOURCE} and answer.result.get("Messages"):
            store = self.sqs_backend.get_queue(self._get_queue_name()).store
            for shown in answer.result["Messages"]:
                message = store.messages.get(store.number_of(shown["ReceiptHandle"]))
                arn = (getattr(message, "system_attributes", None) or {}).get(SOURCE)
                if arn:
                    shown.setdefault("Attributes", {})[SOURCE] = arn
        return answer

    return receive
