"""Processes a group's batches with a class and threads, and decides what becomes of records that cannot be processed.

class Orders(Processor):
    def process(self, batch): ...

run(group, Orders(), threads=4, poison=Poison(retries=3, on_skip=dead_letters.append))
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from headrace.client.batches import Batch
from headrace.client.clock import Clock, SystemClock
from headrace.client.group import GroupError
from headrace.client.records import Record

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
