"""Processes a group's batches with a class and threads, and decides what becomes of records that cannot be processed.

class Orders(Processor):
    def process(self, batch): ...

run(group, Orders(), threads=4, poison=Poison(retries=3, on_skip=dead_letters.append))

Reads a Kinesis queue as a consumer group reads a stream: batches, each acknowledged when it was processed.

    with QueueConsumer("orders-queue") as consumer:
        for batch in consumer:
            for record in batch:
                print(record.data)

The queue has the positions, and shares the records out among all its consumers: there are no leases, and no order.
`run` (headrace.client.processing) takes a `QueueConsumer` in the place of a group.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from headrace.client.access import AwsAccess
from headrace.client.clock import Clock, SystemClock
from headrace.client.group import GroupError
from headrace.client.leases.stores import Checkpoint
from headrace.client.records import Batch, Record

MOST_RECORDS = 10  # documented: API_ReceiveQueueRecords
_LONGEST_WAIT_S = 20
_PAUSE_S = 1.0
_FATAL = frozenset(
    {
        "AccessDeniedException",
        "InvalidArgumentException",
        "ResourceNotFoundException",
        "ValidationException",
    }
)


class QueueConsumer:
    """A consumer of one queue. Thread-safe. As a context manager it closes at the end.

    At least once: a batch that is not finished (a crash) is visible to others after `visibility_s`; while it is in
    process, that time is renewed. After the queue's own number of receives a record is a dead letter.
    """

    def __init__(
        self,
        queue: str,
        *,
        max_records: int = MOST_RECORDS,
        visibility_s: int = 30,
        session: Any = None,
        region: str | None = None,
        endpoint_url: str | None = None,
        client: Any = None,
        clock: Clock | None = None,
    ) -> None:
        """Take a queue's name or ARN. This sends nothing.

        Args:
            queue: the queue.
            max_records: of a batch.
            visibility_s: how long records are hidden from others at a time.
            session: as for boto3.
            region: as for boto3.
            endpoint_url: as for boto3.
            client: for tests.
            clock: for tests.
        """
        if not 1 <= max_records <= MOST_RECORDS or visibility_s < 3:
            raise ValueError(
                f"max_records is between 1 and {MOST_RECORDS}, visibility_s at least 3"
            )
        self._queue, self._max_records, self._visibility_s = queue, max_records, visibility_s
        self._access = AwsAccess(session=session, region=region, endpoint_url=endpoint_url)
        self._client, self._clock = client, clock or SystemClock()
        self._arn = queue if queue.startswith("arn:") else ""
        self._changed = threading.Condition()
        # With the batch itself, whose id must stay its own.
        self._held: dict[int, tuple[Batch, list[str]]] = {}
        self._keeper: threading.Thread | None = None
        self._is_closed = False

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches until it is closed; the one before is acknowledged when the next one is asked for."""
        while (batch := self.next_batch()) is not None:
            yield batch
            self.finish(batch)

    def next_batch(self, timeout_s: float | None = None) -> Batch | None:
        """Return the next batch, or None when it is closed or the time is up. Raises GroupError."""
        deadline_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        self._start()
        while not self._is_closed:
            left_s = (
                _LONGEST_WAIT_S if deadline_s is None else deadline_s - self._clock.monotonic_s()
            )
            rows = self._ask(
                "receive_queue_records",
                Limit=self._max_records,
                WaitTimeSeconds=max(1, min(_LONGEST_WAIT_S, int(left_s))),
                VisibilityTimeoutSeconds=self._visibility_s,
            )
            if rows is not None and rows["QueueRecords"]:
                return self._batch_of(rows["QueueRecords"])
            if deadline_s is not None and self._clock.monotonic_s() >= deadline_s:
                return None
        return None

    def finish(self, batch: Batch, *, is_processed: bool = True) -> None:
        """Acknowledge a batch, or give its records back, so that they are received again at once."""
        with self._changed:
            held = self._held.pop(id(batch), None)
        if held is None:
            return
        handles = held[1]
        if is_processed:
            entries = [{"ReceiptHandle": handle} for handle in handles]
            self._log_failures(
                self._ask("acknowledge_queue_records", Entries=entries), "acknowledged"
            )
        else:
            self._hide(handles, 0)

    def checkpoint(self, batch: Batch, record: Record | None) -> bool:
        """See `Batch.checkpoint`: a whole batch is acknowledged; a queue knows no position within it."""
        if record is not None:
            return False
        self.finish(batch)
        return True

    def close(self) -> None:
        """End the loop. What was not finished is visible to others when its time is up."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._keeper is not None and self._keeper is not threading.current_thread():
            self._keeper.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self) -> None:
        with self._changed:
            if self._client is None:
                self._client = self._access.client("kinesis")
            if not hasattr(self._client, "receive_queue_records"):
                raise GroupError("the installed botocore does not know queues: update it")
            if not self._arn:
                self._arn = self._find()
            if self._keeper is None and not self._is_closed:
                self._keeper = threading.Thread(
                    target=self._keep, name="headrace-queue", daemon=True
                )
                self._keeper.start()

    def _find(self) -> str:
        for page in self._client.get_paginator("list_queues").paginate():
            for summary in page["QueueSummaries"]:
                if summary["QueueName"] == self._queue:
                    return str(summary["QueueARN"])
        raise GroupError(f"there is no queue {self._queue}")

    def _batch_of(self, rows: list[dict[str, Any]]) -> Batch:
        records = [
            Record(
                row["Data"],
                row.get("PartitionKey") or "",
                str(row["RecordId"]),
                0,
                row["ApproximateArrivalTimestamp"].timestamp(),
            )
            for row in rows
        ]
        batch = Batch(self, self._queue, records, 0, Checkpoint(records[-1].sequence_number))
        with self._changed:
            self._held[id(batch)] = (batch, [row["ReceiptHandle"] for row in rows])
        return batch

    def _keep(self) -> None:
        """Renew the time of batches in process: one thread."""
        while True:
            with self._changed:
                if not self._is_closed:
                    self._clock.wait(self._changed, self._visibility_s / 3)
                if self._is_closed:
                    return
                held = list(self._held.values())
            for _, handles in held:
                try:
                    self._hide(handles, self._visibility_s)
                except GroupError as error:
                    # The loop meets it too, and raises it.
                    _LOG.warning("Records of %s cannot be kept hidden: %s", self._queue, error)

    def _hide(self, handles: list[str], seconds: int) -> None:
        entries = [
            {"ReceiptHandle": handle, "VisibilityTimeoutSeconds": seconds} for handle in handles
        ]
        self._log_failures(self._ask("update_queue_records_visibility", Entries=entries), "changed")

    def _log_failures(self, answer: dict[str, Any] | None, what: str) -> None:
        for entry in (answer or {}).get("Failed", ()):
            _LOG.warning(
                "A record of %s was not %s, and comes again: %s: %s",
                self._queue,
                what,
                entry["ErrorCode"],
                entry.get("ErrorMessage", ""),
            )

    def _ask(self, method: str, **request: Any) -> dict[str, Any] | None:
        """Call an operation; None: it failed for now, was logged, and a moment has passed. Raises GroupError."""
        try:
            return getattr(self._client, method)(QueueARN=self._arn, **request)
        except Exception as error:  # botocore's errors have no common base
            code = str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))
            if code in _FATAL:
                raise GroupError(f"the queue {self._queue} cannot be used: {error}") from error
            _LOG.warning("The queue %s is asked again in a moment: %s", self._queue, error)
        with self._changed:
            if not self._is_closed:
                self._clock.wait(self._changed, _PAUSE_S)
        return None


_LOG = logging.getLogger("headrace.client")


class Source(Protocol):
    """Where batches come from: a `ConsumerGroup` or a `QueueConsumer`."""

    def next_batch(self, timeout_s: float | None = None) -> Batch | None:
        """Return the next batch, or None when it is closed. Raises GroupError."""
        ...

    def finish(self, batch: Batch, *, is_processed: bool = True) -> None:
        """Take a batch back."""
        ...

    def close(self) -> None:
        """End."""
        ...


class Processor:
    """What an application does with batches; override `process`. Several threads call it, for different shards."""

    def process(self, batch: Batch) -> None:
        """Process a batch; when this returns, it is processed. What it raises is handled as `Poison` says."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Poison:
    """What to do when `process` raises.

    Attributes:
        retries: how often a batch is tried again, with a pause that doubles.
        first_pause_s: the first pause.
        then: what comes after: `stop` ends `run` with the error, and the batch is read again by whoever goes on;
            `skip` finds the records that fail, each in a batch of its own, and goes on without them.
        on_skip: is called with each skipped record and its error. If it raises, `run` stops: nothing is lost.
    """

    retries: int = 3
    first_pause_s: float = 0.2
    then: Literal["stop", "skip"] = "stop"
    on_skip: Callable[[Record, Exception], Any] | None = None


def run(
    group: Source,
    processor: Processor,
    *,
    threads: int = 1,
    poison: Poison | None = None,
    clock: Clock | None = None,
) -> None:
    """Process the group's batches until it is closed; shards in parallel, each in order.

    Raises:
        GroupError: the group cannot go on, or `process` raised and the policy is to stop; the cause is its error.
    """
    if threads < 1:
        raise ValueError("threads is at least 1")
    runner = _Runner(group, processor, poison or Poison(), clock or SystemClock())
    others = [
        threading.Thread(target=runner.work, name=f"headrace-process-{i}")
        for i in range(1, threads)
    ]
    for thread in others:
        thread.start()
    runner.work()
    for thread in others:
        thread.join()
    if runner.error is not None:
        raise runner.error


class _Runner:
    """The threads of one `run`."""

    def __init__(self, group: Source, processor: Processor, poison: Poison, clock: Clock) -> None:
        self._group, self._processor, self._poison, self._clock = group, processor, poison, clock
        self._pause = threading.Condition()
        self.error: GroupError | None = None

    def work(self) -> None:
        try:
            while self.error is None and (batch := self._group.next_batch()) is not None:
                try:
                    self._process(batch)
                except BaseException:
                    self._group.finish(batch, is_processed=False)
                    raise
                self._group.finish(batch)
        except GroupError as error:
            self._stop(error)
        except Exception as error:  # noqa: BLE001 - the processor is the application's
            stop = GroupError(f"a batch could not be processed: {error}")
            stop.__cause__ = error
            self._stop(stop)

    def _stop(self, error: GroupError) -> None:
        if self.error is None:
            self.error = error
        with self._pause:
            self._pause.notify_all()
        # The other threads wait for batches: without the group they end.
        self._group.close()

    def _process(self, batch: Batch) -> None:
        """Process a batch, again and again, and then record by record. Raises what cannot be skipped."""
        try:
            self._try(batch)
        except Exception as error:
            if self._poison.then == "stop":
                raise
            if len(batch) == 1:
                self._skip(batch.records[0], error)
                return
            for record in batch.records:
                self._process(replace(batch, records=[record]))

    def _try(self, batch: Batch) -> None:
        pause_s = self._poison.first_pause_s
        for attempt in range(self._poison.retries + 1):
            try:
                self._processor.process(batch)
            except Exception as error:
                if attempt == self._poison.retries or self.error is not None:
                    raise
                _LOG.warning(
                    "A batch of %s is processed again in %s s: %s", batch.shard_id, pause_s, error
                )
            else:
                return
            with self._pause:
                self._clock.wait(self._pause, pause_s)
            pause_s *= 2

    def _skip(self, record: Record, error: Exception) -> None:
        _LOG.error("The record %s is skipped: %s", record.sequence_number, error, exc_info=error)
        if self._poison.on_skip is not None:
            self._poison.on_skip(record, error)
