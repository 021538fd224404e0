"""Reads one shard for one mapping and invokes the function, batch after batch."""

from __future__ import annotations

import json
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from headrace.core.clock import Clock
from headrace.core.ports import (
    AfterSequence,
    FunctionInvoker,
    FunctionNotFound,
    FunctionThrottled,
    InvokeResult,
    Metric,
    MetricSink,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
    StreamRecord,
)
from headrace.core.workers import WorkerDone
from headrace.services.lambda_.destinations import Destinations
from headrace.services.lambda_.event_source.batch import (
    AGE_EXCEEDED,
    RETRIES_EXHAUSTED,
    Batch,
    Succeeded,
    event_bytes,
    fitting,
    judge,
    kinesis_event,
    overhead_bytes,
    read_answer,
    retry_delay_s,
    split_expired,
)
from headrace.services.lambda_.event_source.failure import failure_document
from headrace.services.lambda_.event_source.filters import Filter, passes
from headrace.services.lambda_.event_source.mapping import Mapping, MappingStore
from headrace.services.lambda_.limits import SYNC_PAYLOAD_BYTES

log = logging.getLogger(__name__)

_MISSING_STREAM_RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerPorts:
    """What every poller works with."""

    clock: Clock
    streams: StreamReader
    invoker: FunctionInvoker
    destinations: Destinations
    metrics: MetricSink
    store: MappingStore
    role_of: Callable[[str], str]


class ShardPoller:
    """A worker for one (mapping, shard). `stop` may be called from any thread, the rest from one.

    The checkpoint moves after the function has succeeded or the batch was disposed of, so that a record is
    delivered at least once and none is skipped. Attempts are counted in memory: a restart begins them anew.
    """

    def __init__(
        self, mapping: Mapping, shard_id: str, ports: PollerPorts, on_drained: Callable[[], None]
    ) -> None:
        self.name = f"lambda-mapping-{mapping.uuid[:8]}-{shard_id}"
        self._mapping = mapping
        self._shard_id = shard_id
        self._ports = ports
        self._on_drained = on_drained
        self._overhead_bytes = overhead_bytes(
            stream_arn=mapping.stream_arn,
            shard_id=shard_id,
            region=mapping.region,
            role_arn=ports.role_of(mapping.function_arn),
        )
        self._position = ports.store.position(mapping.uuid, shard_id)
        self._buffer: list[StreamRecord] = []
        self._buffer_since_s = 0.0
        self._buffer_bytes = 0
        self._batches: deque[Batch] = deque()
        self._skipped: StreamRecord | None = None
        self._criteria: Any = None
        self._parsed_filters: tuple[Filter, ...] = ()
        self._not_before_s = 0.0
        self._throttles = 0
        self._last: InvokeResult | None = None
        self._stopped = False

    def stop(self) -> None:
        """Begin nothing more; a failure from now on is not the function's."""
        self._stopped = True

    def step(self) -> float:
        """Read, or invoke once; see `Worker.step`."""
        if self._stopped:
            raise WorkerDone
        if self._batches:
            wait_s = self._not_before_s - self._ports.clock.monotonic_s()
            return wait_s if wait_s > 0 else self._process(self._batches[0])
        return self._gather()

    # --- reading ------------------------------------------------------------------------------

    def _gather(self) -> float:
        mapping = self._mapping
        room = mapping.batch_size - len(self._buffer)
        if self._position is not None and room > 0:
            try:
                result = self._ports.streams.read(
                    mapping.stream_arn,
                    self._shard_id,
                    self._position,
                    max_records=room,
                    max_bytes=SYNC_PAYLOAD_BYTES,
                )
            except StreamNotFound:
                mapping.last_result = "PROBLEM: Stream not found"
                return _MISSING_STREAM_RETRY_S
            except ShardNotFound:
                # Retention has taken the shard and all that was left to read in it.
                self._finish()
            self._take(result.records)
            self._position = result.next_position
            more = len(result.records) == room
        else:
            more = False
        if self._buffer:
            return self._cut_batch()
        self._pass_skipped()
        if self._position is None:
            self._finish()
        return 0.0 if more else math.inf

    def _take(self, records: list[StreamRecord]) -> None:
        """Gather the records that the filters let through."""
        filters = self._filters()
        wanted = [record for record in records if passes(record, filters)] if filters else records
        if wanted and not self._buffer:
            self._buffer_since_s = self._ports.clock.monotonic_s()
        self._buffer.extend(wanted)
        self._buffer_bytes += self._size_of(wanted)
        if records:
            self._skipped = None if wanted and wanted[-1] is records[-1] else records[-1]

    def _size_of(self, records: Iterable[StreamRecord]) -> int:
        return sum(event_bytes(record, self._overhead_bytes) for record in records)

    def _filters(self) -> tuple[Filter, ...]:
        criteria = self._mapping.members.get("FilterCriteria")
        if criteria is not self._criteria:
            self._criteria, self._parsed_filters = criteria, self._mapping.filters()
        return self._parsed_filters

    def _pass_skipped(self) -> None:
        """Move the checkpoint over filtered records, when nothing before them is left to do."""
        if self._skipped is not None:
            self._checkpoint(self._skipped)
            self._skipped = None

    def _cut_batch(self) -> float:
        """Make a batch of what is gathered when it is time, else return how long to wait."""
        mapping = self._mapping
        full = (
            len(self._buffer) >= mapping.batch_size
            or self._buffer_bytes >= SYNC_PAYLOAD_BYTES
            or self._position is None
        )
        waited_s = self._ports.clock.monotonic_s() - self._buffer_since_s
        if not full and waited_s < mapping.window_s:
            return mapping.window_s - waited_s
        count = fitting(
            self._buffer,
            most_records=mapping.batch_size,
            most_bytes=SYNC_PAYLOAD_BYTES,
            overhead_bytes=self._overhead_bytes,
        )
        batch = Batch(tuple(self._buffer[:count]))
        self._batches.append(batch)
        self._buffer_bytes -= self._size_of(batch.records)
        del self._buffer[:count]
        self._buffer_since_s = self._ports.clock.monotonic_s()
        return 0.0

    def _finish(self) -> NoReturn:
        self._ports.store.checkpoint(self._mapping.uuid, self._shard_id, None)
        self._on_drained()
        raise WorkerDone

    # --- invoking -----------------------------------------------------------------------------

    def _process(self, batch: Batch) -> float:
        rules = self._mapping.rules
        expired, alive = split_expired(batch, now_ms=self._ports.clock.now_ms(), rules=rules)
        if expired is not None:
            self._discard(expired, AGE_EXCEEDED)
            self._replace(() if alive is None else (alive,))
            return 0.0
        try:
            result = self._invoke(batch)
        except FunctionThrottled:
            self._throttles += 1
            return self._back_off("PROBLEM: Function call throttled", self._throttles)
        except FunctionNotFound:
            self._throttles += 1
            return self._back_off("PROBLEM: Function not found", self._throttles)
        self._throttles = 0
        answer = read_answer(
            result.payload, function_error=result.function_error, batch=batch, rules=rules
        )
        succeeded = isinstance(answer, Succeeded)
        if self._stopped and not succeeded:
            raise WorkerDone
        self._last = result
        self._mapping.last_result = "OK" if succeeded else "PROBLEM: Function call failed"
        verdict = judge(batch, answer, rules)
        if verdict.done is not None:
            self._checkpoint(verdict.done)
        if verdict.discarded is not None:
            # Should the destination fail, this batch alone is tried again, not what is done.
            self._batches[0] = Batch(
                verdict.discarded.records, verdict.discarded.retries, batch.attempts
            )
            self._discard(verdict.discarded, RETRIES_EXHAUSTED)
        self._replace(verdict.rest)
        self._not_before_s = self._ports.clock.monotonic_s() + verdict.delay_s
        return verdict.delay_s

    def _invoke(self, batch: Batch) -> InvokeResult:
        mapping, ports = self._mapping, self._ports
        event = kinesis_event(
            batch,
            stream_arn=mapping.stream_arn,
            shard_id=self._shard_id,
            region=mapping.region,
            role_arn=ports.role_of(mapping.function_arn),
        )
        age_ms = max(0, ports.clock.now_ms() - batch.records[-1].approximate_arrival_ms)
        name = mapping.function_arn.split(":")[6]
        metric = Metric(
            "AWS/Lambda",
            "IteratorAge",
            float(age_ms),
            "Milliseconds",
            (("FunctionName", name),),
            ports.clock.now_ms(),
        )
        ports.metrics.put([metric], account=mapping.account, region=mapping.region)
        return ports.invoker.invoke(mapping.function_arn, msgspec.json.encode(event))

    def _back_off(self, problem: str, times: int) -> float:
        self._mapping.last_result = problem
        delay_s = retry_delay_s(times)
        self._not_before_s = self._ports.clock.monotonic_s() + delay_s
        return delay_s

    def _replace(self, batches: tuple[Batch, ...]) -> None:
        self._batches.popleft()
        self._batches.extendleft(reversed(batches))

    def _checkpoint(self, record: StreamRecord) -> None:
        position = AfterSequence(record.sequence_number)
        self._ports.store.checkpoint(self._mapping.uuid, self._shard_id, position)

    def _discard(self, batch: Batch, condition: str) -> None:
        """Send a batch to the failure destination, if there is one, and go on after it."""
        mapping, ports = self._mapping, self._ports
        log.warning(
            "mapping %s gives up %d records of %s: %s",
            mapping.uuid,
            len(batch.records),
            self._shard_id,
            condition,
        )
        destination = mapping.failure_destination
        if destination:
            last = self._last if batch.attempts else None
            document = failure_document(
                batch,
                condition=condition,
                stream_arn=mapping.stream_arn,
                shard_id=self._shard_id,
                function_arn=mapping.function_arn,
                request_id=last.request_id if last else "",
                result=last,
                now_ms=ports.clock.now_ms(),
            )
            try:
                ports.destinations.send(destination, json.dumps(document))
            except LookupError:
                # As on AWS, a destination that is gone loses the document, not the stream's progress.
                log.warning("mapping %s: no failure destination %s", mapping.uuid, destination)
                mapping.last_result = "PROBLEM: Failure destination not found"
        self._checkpoint(batch.records[-1])
