"""SQS as an event source: passes messages to a function in batches, and deletes them once the function has succeeded.

Rules: https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html and .../services-sqs-errorhandling.html
(documented). The messages of a failed batch stay in the queue. They become visible again when their visibility timeout
ends, until the queue's redrive policy moves them. Messages that do not pass the filters are deleted.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from headrace.core.ports import FunctionNotFound, FunctionThrottled, QueueMessage
from headrace.core.values import parse_json, section
from headrace.core.workers import WorkerDone, WorkerHandle
from headrace.services.lambda_.errors import SYNC_PAYLOAD_BYTES
from headrace.services.lambda_.mappings import failed_batches
from headrace.services.lambda_.mappings.batch import failure_sentence, retry_delay_s
from headrace.services.lambda_.mappings.checks import parse_filters
from headrace.services.lambda_.mappings.failed_batches import Counts
from headrace.services.lambda_.mappings.mapping import Mapping
from headrace.services.lambda_.mappings.store import Ports

# A queue does not signal new messages, so pollers ask for them: often after a message, then less and less often.
_FIRST_IDLE_S = 0.05
_LONGEST_IDLE_S = 0.2
_POLLERS = 2
_POLLERS_MOST = 10
_MESSAGE_OVERHEAD_BYTES = 1024
_ENVELOPE_BYTES = 64


class IdleQueueWatch:
    """Chooses the one poller of a mapping that watches an empty queue while the others sleep. Thread-safe.

    A poller that has found messages hands the watch to another before it invokes the function, so that one poller
    always watches. If all are busy, the first one that becomes idle takes the watch.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watcher: QueuePoller | None = None
        self._asleep: list[QueuePoller] = []

    def take(self, poller: QueuePoller) -> bool:
        """Give the watch to the idle `poller` if nobody has it. Return whether it has it; if not, it may sleep."""
        with self._lock:
            if self._watcher in (None, poller):
                self._watcher = poller
                return True
            if poller not in self._asleep:
                self._asleep.append(poller)
            return False

    def hand_on(self, poller: QueuePoller) -> None:
        """Give the watch to another poller, because `poller` has messages or ends."""
        with self._lock:
            if self._watcher is poller:
                self._watcher = None
            if poller in self._asleep:
                self._asleep.remove(poller)
            if self._watcher is not None or not self._asleep:
                return
            successor = self._watcher = self._asleep.pop()
        successor.wake()


class QueuePoller:
    """A worker that invokes the function with a queue's messages, one batch at a time.

    The runner sets `wake`, which makes the next step happen now.
    """

    def __init__(self, mapping: Mapping, number: int, ports: Ports, watch: IdleQueueWatch) -> None:
        self.wake: Callable[[], None] = _do_nothing
        self._watch = watch
        self._settings = mapping.settings
        self.name = f"lambda-mapping-{mapping.uuid[:8]}-{number}"
        self._mapping = mapping
        self._ports = ports
        self._queues = ports.queues
        self._counts = Counts(mapping, ports.metrics, ports.clock)
        self._gathered: list[QueueMessage] = []
        self._gathered_bytes = 0
        self._since_s = 0.0
        self._idle_s = _FIRST_IDLE_S
        self._throttles = 0
        self._stopped = False

    def stop(self) -> None:
        """Start no more batches."""
        self._stopped = True
        self._watch.hand_on(self)

    def step(self) -> float:
        """Receive messages, and invoke the function if they make a batch; see `Worker.step`."""
        if self._stopped:
            self._watch.hand_on(self)
            raise WorkerDone
        mapping = self._mapping
        settings = self._settings = mapping.settings
        room = settings.batch_size - len(self._gathered)
        messages: list[QueueMessage] = []
        try:
            problem = self._find_problem(room)
            if problem:
                mapping.last_result = problem
                return self._rest(_LONGEST_IDLE_S)
            if not self._queues.is_empty(mapping.stream_arn):
                messages = self._queues.receive(mapping.stream_arn, most=room)
        except LookupError:
            mapping.last_result = "PROBLEM: Queue not found"
            return self._rest(_LONGEST_IDLE_S)
        self._take(messages)
        if not self._gathered:
            self._idle_s = _FIRST_IDLE_S if messages else min(self._idle_s * 2, _LONGEST_IDLE_S)
            return 0.0 if messages else self._rest(self._idle_s)
        self._idle_s = _FIRST_IDLE_S
        self._watch.hand_on(self)
        waited_s = self._ports.clock.monotonic_s() - self._since_s
        full = (
            len(self._gathered) >= settings.batch_size or self._gathered_bytes >= SYNC_PAYLOAD_BYTES
        )
        # Without a batching window, the messages of one call are the batch.
        if not full and waited_s < settings.window_s:
            return 0.0 if messages else min(_FIRST_IDLE_S, settings.window_s - waited_s)
        batch, self._gathered = self._cut()
        self._gathered_bytes = sum(map(_count_size_bytes, self._gathered))
        return self._invoke(batch)

    def _find_problem(self, room: int) -> str:
        """Return why the function's role may not read the queue, or "" when it may or there is no room for messages."""
        ports, arn = self._ports, self._mapping.stream_arn
        if room <= 0 or self._queues.is_empty(arn):
            return ""
        return ports.permits.problem_with_reading(ports.role_of(self._mapping.function_arn), arn)

    def _rest(self, idle_s: float) -> float:
        """Return how long to sleep: until the next look for the poller that watches, for ever for the others."""
        watches = self._watch.take(self)
        if self._stopped:
            # `stop` may have been called before this poller took the watch.
            self._watch.hand_on(self)
        return idle_s if watches else math.inf

    def _take(self, messages: list[QueueMessage]) -> None:
        """Gather the messages that pass the filters, and delete the others."""
        self._count(failed_batches.POLLED, len(messages))
        filters = parse_filters(self._mapping.settings.patterns)
        if filters:
            matching = [
                m
                for m in messages
                if any(f.matches_message(_render_message(m, batches=False)) for f in filters)
            ]
            unwanted = [m for m in messages if m not in matching]
            self._count(failed_batches.FILTERED_OUT, len(unwanted))
            self._delete(unwanted)
            messages = matching
        if messages and not self._gathered:
            self._since_s = self._ports.clock.monotonic_s()
        self._gathered.extend(messages)
        self._gathered_bytes += sum(map(_count_size_bytes, messages))

    def _cut(self) -> tuple[list[QueueMessage], list[QueueMessage]]:
        size_bytes = _ENVELOPE_BYTES
        for count, message in enumerate(self._gathered):
            size_bytes += _count_size_bytes(message)
            if count and size_bytes > SYNC_PAYLOAD_BYTES:
                return self._gathered[:count], self._gathered[count:]
        return self._gathered, []

    def _delete(self, messages: Sequence[QueueMessage]) -> None:
        if messages:
            handles = [message.receipt_handle for message in messages]
            self._queues.delete(self._mapping.stream_arn, handles)
            self._count(failed_batches.DELETED, len(messages))

    def _invoke(self, batch: list[QueueMessage]) -> float:
        mapping, ports = self._mapping, self._ports
        event = {"Records": [self._record(message) for message in batch]}
        self._count(failed_batches.INVOKED, len(batch))
        mapping.handed += len(batch)
        try:
            result = ports.invoker.invoke(mapping.function_arn, msgspec.json.encode(event))
        except (FunctionThrottled, FunctionNotFound) as error:
            throttled = isinstance(error, FunctionThrottled)
            mapping.last_result = (
                "PROBLEM: Function call throttled" if throttled else "PROBLEM: Function not found"
            )
            self._throttles += 1
            return retry_delay_s(self._throttles)
        self._throttles = 0
        failed = _list_failed(
            result.payload, result.function_error, batch, self._settings.rules.report_item_failures
        )
        mapping.last_result = "OK" if not failed else "PROBLEM: Function call failed"
        if failed:
            first = next(m.message_id for m in batch if m.message_id in failed)
            rest = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
            mapping.last_failure = failure_sentence(result, f"message {first}{rest}")
        self._count(failed_batches.FAILED_INVOKE, len(failed))
        self._delete([message for message in batch if message.message_id not in failed])
        return 0.0

    def _count(self, name: str, events: int) -> None:
        if self._settings.counts_events:
            self._counts.count(name, events)

    def _record(self, message: QueueMessage) -> dict[str, Any]:
        return {
            **_render_message(message, batches=self._settings.window_s > 0),
            "eventSource": "aws:sqs",
            "eventSourceARN": self._mapping.stream_arn,
            "awsRegion": self._mapping.region,
        }


def _render_message(message: QueueMessage, *, batches: bool) -> dict[str, Any]:
    """Return a message in the form of events.

    For a message without attributes, the hash of the attributes is null if the mapping has a batching window, and
    missing otherwise. Source: AWS's answers that LocalStack recorded in 2023 (observed by them).
    """
    hashed = {"md5OfMessageAttributes": message.attributes_md5 or None}
    return {
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": dict(message.attributes),
        "messageAttributes": {
            name: _render_attribute(value) for name, value in message.message_attributes.items()
        },
        **(hashed if batches or message.attributes_md5 else {}),
        "md5OfBody": message.body_md5,
    }


def _render_attribute(value: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"stringListValues": [], "binaryListValues": []}
    shown["dataType"] = value.get("DataType", "String")
    if "StringValue" in value:
        shown["stringValue"] = value["StringValue"]
    if "BinaryValue" in value:
        shown["binaryValue"] = value["BinaryValue"]
    return shown


def _count_size_bytes(message: QueueMessage) -> int:
    return len(json.dumps(message.body)) + _MESSAGE_OVERHEAD_BYTES


def _list_failed(
    payload: bytes, function_error: str | None, batch: list[QueueMessage], reports: bool
) -> set[str]:
    """Return the ids of the messages that a function failed to process: all of them if its response is malformed."""
    everything = {message.message_id for message in batch}
    if function_error is not None:
        return everything
    if not reports:
        return set()
    try:
        answer: Any = parse_json(payload or b"null")
    except ValueError:
        return everything
    if answer is None or answer in ("", []):
        return set()
    failures: Any = (
        cast("dict[str, Any]", answer).get("batchItemFailures")
        if isinstance(answer, dict)
        else False
    )
    if failures is None:
        return set()
    if not isinstance(failures, list):
        return everything
    failed: set[str] = set()
    for failure in cast("list[Any]", failures):
        name: Any = (
            cast("dict[str, Any]", failure).get("itemIdentifier")
            if isinstance(failure, dict)
            else None
        )
        if name not in everything:
            return everything
        failed.add(name)
    return failed


class QueueRunner:
    """Runs one mapping of a queue, with as many pollers as it may have concurrent invocations. Thread-safe."""

    def __init__(
        self,
        mapping: Mapping,
        ports: Ports,
        start: Callable[[QueuePoller], WorkerHandle],
    ) -> None:
        self._mapping = mapping
        self._ports = ports
        self._start = start
        self._lock = threading.Lock()
        self._running: list[tuple[QueuePoller, WorkerHandle]] = []
        self._next = 0
        self._watch = IdleQueueWatch()
        self.wake()

    def _count_wanted_runners(self) -> int:
        members = self._mapping.members
        concurrency = section(members, "ScalingConfig").get("MaximumConcurrency")
        pollers = section(members, "ProvisionedPollerConfig").get("MinimumPollers")
        if self._mapping.stream_arn.endswith(".fifo"):
            # A FIFO queue has a single poller, which keeps every message group in order.
            return 1
        return min(int(concurrency or pollers or _POLLERS), _POLLERS_MOST)

    def wake(self) -> None:
        """Run as many pollers as the settings require."""
        with self._lock:
            runner_count = self._count_wanted_runners()
            for poller, handle in self._running[runner_count:]:
                poller.stop()
                handle.stop()
            del self._running[runner_count:]
            while len(self._running) < runner_count:
                poller = QueuePoller(self._mapping, self._next, self._ports, self._watch)
                self._next += 1
                handle = self._start(poller)
                poller.wake = handle.wake
                self._running.append((poller, handle))
                # The poller may have gone to sleep before its `wake` was set.
                handle.wake()

    def stop(self) -> None:
        """Start no more batches. Does not wait for running ones."""
        for poller, handle in self._running:
            poller.stop()
            handle.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for running batches to end."""
        for _, handle in self._running:
            handle.join(timeout_s)


def _do_nothing() -> None:
    """Do nothing: the poller has no worker handle yet."""
