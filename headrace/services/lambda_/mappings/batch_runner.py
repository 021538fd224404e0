"""One lane of a shard: gathers its records into batches, and invokes the function with one batch after another."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from headrace.core.ports import (
    AtSequence,
    FunctionNotFound,
    FunctionThrottled,
    InvokeResult,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
    StreamRecord,
)
from headrace.core.workers import WorkerDone
from headrace.services.lambda_.errors import SYNC_PAYLOAD_BYTES
from headrace.services.lambda_.mappings import failed_batches, store
from headrace.services.lambda_.mappings.batch import (
    AGE_EXCEEDED,
    FOREVER,
    RETRIES_EXHAUSTED,
    Attempt,
    Batch,
    FailedFrom,
    History,
    Succeeded,
    Verdict,
    Window,
    add_state,
    build_expired_part,
    count_done,
    count_fitting,
    decide_batch,
    failure_sentence,
    note_failure,
    read_answer,
    read_state,
    retry_delay_s,
    split_expired,
)
from headrace.services.lambda_.mappings.checks import EventWriter, TableEventWriter
from headrace.services.lambda_.mappings.failed_batches import Counts, FailedBatches
from headrace.services.lambda_.mappings.mapping import Mapping, Settings
from headrace.services.lambda_.mappings.store import BatchSource, Ports, Progress

log = logging.getLogger(__name__)


# Finds the records of a failing batch that have expired in the stream, since AWS retries a batch until they expire.
#
# Source: https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html (documented).

# The shortest retention of a stream.
SHORTEST_RETENTION_MS = 24 * 3600 * 1000


def split_gone(
    batch: Batch, streams: StreamReader, stream_arn: str, shard_id: str, *, now_ms: int
) -> tuple[Batch | None, Batch | None]:
    """Return the records of a failed batch that the stream no longer has, and the rest."""
    first = batch.records[0]
    if now_ms - first.approximate_arrival_ms < SHORTEST_RETENTION_MS:
        return None, batch
    at = AtSequence(first.sequence_number)
    try:
        first_batch = streams.read(stream_arn, shard_id, at, max_records=1, max_bytes=1)
    except StreamNotFound:
        return None, batch
    except ShardNotFound:
        return batch, None
    if not first_batch.expired:
        return None, batch
    if not first_batch.records:
        return batch, None
    oldest = int(first_batch.records[0].sequence_number)
    cut = sum(int(record.sequence_number) < oldest for record in batch.records)
    gone, rest = (
        Batch(records, batch.retries, batch.attempts, batch.history) if records else None
        for records in (batch.records[:cut], batch.records[cut:])
    )
    return gone, rest


class BatchRunner:
    """The records of some partition keys of a shard, with one batch in flight (AWS: ParallelizationFactor).

    It is a worker, or the poller calls its steps. A batch leaves the lane when the function has succeeded with it or it
    was given up; only then may the checkpoint move past it. Attempts are counted in memory and start anew after a
    restart.

    Attributes:
        batches, buffer, done, window: see `LaneState`.
        buffered_bytes: about how many bytes the records in the buffer take in events.
    """

    def __init__(
        self,
        mapping: Mapping,
        source: BatchSource,
        ports: Ports,
        progress: Progress,
        on_room: Callable[[], None],
    ) -> None:
        self.name = f"lambda-mapping-{mapping.uuid[:8]}-{source.shard_id}-{source.lane}"
        self.done = ""
        self.window: Window | None = None
        self._mapping = mapping
        self._place = source
        self._ports = ports
        self._progress = progress
        self._on_room = on_room
        self._settings = mapping.settings
        self._counts = Counts(mapping, ports.metrics, ports.clock)
        self._events = self._build_writer(ports.role_of(mapping.function_arn))
        self._failed_batches = FailedBatches(mapping, source, ports, self._counts)
        self.buffer: deque[StreamRecord] = deque()
        self._buffer_since_s = 0.0
        self.buffered_bytes = 0
        self.batches: deque[Batch] = deque()
        self._ended = False
        self._not_before_s = 0.0
        self._troubles = 0
        self._final_retries = 0
        self._stopped = False

    def _build_writer(self, role: str) -> EventWriter:
        mapping = self._mapping
        kind = TableEventWriter if mapping.reads_table else EventWriter
        return kind(
            source_arn=mapping.stream_arn,
            shard_id=self._place.shard_id,
            region=mapping.region,
            role_arn=role,
        )

    # --- called by the poller, under the progress's lock ----------------------------------------

    def add(self, records: list[StreamRecord]) -> None:
        """Add records to the buffer, in the order in which they were read."""
        if records and not self.buffer:
            self._buffer_since_s = self._ports.clock.monotonic_s()
        self.buffer.extend(records)
        self.buffered_bytes += sum(map(self._events.record_bytes, records))

    def end(self) -> None:
        """Record that the shard has no more records."""
        self._ended = True

    @property
    def is_empty(self) -> bool:
        """Whether the lane has no records, no batches and, at the shard's end, no open window."""
        return not self.buffer and not self.batches and not (self._ended and self.window)

    def stop(self) -> None:
        """Start no more invocations, and treat failures from now on as caused by the stop."""
        self._stopped = True

    # --- working ------------------------------------------------------------------------------

    def step(self) -> float:
        """See `Worker.step`."""
        return self.work(self._mapping.settings)

    def work(self, settings: Settings) -> float:
        """Invoke the function once or cut a batch, with these settings. Return how long to wait, as `Worker.step`."""
        if self._stopped:
            raise WorkerDone
        self._settings = settings
        wait_s = self._not_before_s - self._ports.clock.monotonic_s()
        if wait_s > 0 and (self.batches or self._is_window_over()):
            return wait_s
        if self.batches:
            return self._process(self.batches[0])
        return self.cut()

    def cut(self) -> float:
        """Make a batch from the buffer's records, or close the window, if it is time. Return how long to wait."""
        with self._progress.lock:
            final = self.window if self._is_window_over() else None
            if final is None:
                return self._cut_batch()
        return self._close_window(final)

    def _cut_batch(self) -> float:
        if not self.buffer:
            return self._compute_window_left_s()
        settings, clock = self._settings, self._ports.clock
        most = self._count_window_records()
        full = (
            len(self.buffer) >= settings.batch_size
            or self.buffered_bytes >= SYNC_PAYLOAD_BYTES
            or most < len(self.buffer)
            or self._ended
            or self._compute_window_left_s() == 0
        )
        waited_s = clock.monotonic_s() - self._buffer_since_s
        if not full and waited_s < settings.window_s:
            return min(settings.window_s - waited_s, self._compute_window_left_s())
        count = self._batch_length(min(most, settings.batch_size))
        if count == len(self.buffer):
            records = tuple(self.buffer)
            self.buffer.clear()
            self.buffered_bytes = 0
        else:
            records = tuple(self.buffer.popleft() for _ in range(count))
            self.buffered_bytes -= sum(map(self._events.record_bytes, records))
        self.batches.append(Batch(records))
        self._buffer_since_s = clock.monotonic_s()
        return 0.0

    def _batch_length(self, most: int) -> int:
        """Return how many of the first records fit into one event."""
        if self.buffered_bytes < SYNC_PAYLOAD_BYTES // 2:
            return most
        return count_fitting(
            [self.buffer[n] for n in range(most)],
            most_records=most,
            most_bytes=SYNC_PAYLOAD_BYTES,
            record_bytes=self._events.record_bytes,
        )

    def _process(self, batch: Batch) -> float:
        rules, now_ms = self._settings.rules, self._ports.clock.now_ms()
        expired: Batch | None = None
        alive: Batch | None = batch
        if rules.maximum_age_s != FOREVER:
            expired, alive = split_expired(batch, now_ms - rules.maximum_age_s * 1000)
        if expired is not None:
            if alive is not None:
                expired = expired.of(build_expired_part(batch.history))
            self._failed_batches.give_up(expired, AGE_EXCEEDED, self._events)
            self._replace(() if alive is None else (alive,), expired.records[-1])
            return 0.0
        gone: Batch | None = None
        if batch.attempts:
            streams, read_arn = self._ports.streams, self._settings.read_arn
            gone, alive = split_gone(batch, streams, read_arn, self._place.shard_id, now_ms=now_ms)
        if gone is not None:
            if alive is not None:
                gone = gone.of(build_expired_part(batch.history))
            self._failed_batches.note_expired(gone)
            self._replace(() if alive is None else (alive,), gone.records[-1])
            return 0.0
        result = self._invoke(batch.records, final=False, history=batch.history)
        if result is None:
            return self._back_off(batch)
        return self._follow(batch, result)

    def _follow(self, batch: Batch, result: InvokeResult) -> float:
        """Act on a function's response to a batch. Return how long to wait afterwards."""
        history, window = batch.history, self.window
        answer = read_answer(
            result.payload,
            function_error=result.function_error,
            batch=batch,
            rules=self._settings.rules,
        )
        if window is not None and result.function_error is None:
            answer, window = add_state(window, answer, read_state(result.payload))
        succeeded = isinstance(answer, Succeeded)
        if self._stopped and not succeeded:
            raise WorkerDone
        self._mapping.last_result = "OK" if succeeded else "PROBLEM: Function call failed"
        note_failure(history, answer, result.payload, result.function_error)
        if not succeeded:
            self._mapping.last_failure = failure_sentence(
                result, self._record_name(batch, count_done(answer))
            )
        verdict = decide_batch(batch, answer, self._settings.rules)
        self.window = window
        if succeeded:
            self._ports.trace.write(self._place, history, batch, store.SUCCESS)
            self._replace((), batch.records[-1])
            return 0.0
        if self._settings.counts_events:
            self._counts.count(
                failed_batches.FAILED_INVOKE, len(batch.records) - count_done(answer)
            )
        if verdict.discarded is not None:
            given_up = self._split(batch, Verdict(rest=(verdict.discarded,)))[0]
            # Store the progress first: if the destination fails, only this batch is retried.
            self._replace((replace(given_up, attempts=batch.attempts),), verdict.done)
            self._failed_batches.give_up(given_up, RETRIES_EXHAUSTED, self._events, result=result)
            self._replace((), given_up.records[-1])
        else:
            self._replace(self._split(batch, verdict), verdict.done)
        self._not_before_s = self._ports.clock.monotonic_s() + verdict.delay_s
        return verdict.delay_s

    def _record_name(self, batch: Batch, index: int) -> str:
        """Return the words that name a batch's record and its batch."""
        name = f"record {batch.records[index].sequence_number} of {self._place.shard_id}"
        rest = len(batch.records) - index - 1
        return f"{name} and the {rest} after it" if rest else name

    def _split(self, batch: Batch, verdict: Verdict) -> tuple[Batch, ...]:
        """Return the batches that a failed batch leaves, each with its node of the batch tree."""
        history, write = batch.history, self._ports.trace.write
        rest = verdict.rest
        if len(rest) == 1 and rest[0].records == batch.records:
            write(self._place, history, batch, store.OPEN)
            return (rest[0].of(history),)
        if len(rest) == 1:
            write(self._place, history, batch, store.PARTLY)
            return (rest[0].of(History(history.number, "rest")),)
        write(self._place, history, batch, store.BISECTED)
        names = ("first half", "second half")
        return tuple(
            part.of(History(history.number, name)) for part, name in zip(rest, names, strict=True)
        )

    def _invoke(
        self, records: tuple[StreamRecord, ...], *, final: bool, history: History
    ) -> InvokeResult | None:
        """Invoke the function. If it is throttled or missing, record an attempt and return None."""
        mapping, ports = self._mapping, self._ports
        role = ports.role_of(mapping.function_arn)
        if role != self._events.role_arn:
            self._events = self._build_writer(role)
        event = self._build_event(records, final=final)
        mapping.handed += len(records)
        if records:
            self._counts.iterator_age(records[-1].approximate_arrival_ms)
            if self._settings.counts_events:
                self._counts.count(failed_batches.INVOKED, len(records))
        began_ms = ports.clock.now_ms()
        try:
            result = ports.invoker.invoke(mapping.function_arn, event)
        except FunctionThrottled:
            mapping.last_result = "PROBLEM: Function call throttled"
            history.attempts.append(Attempt(began_ms, 0, "throttled"))
            return None
        except FunctionNotFound:
            mapping.last_result = "PROBLEM: Function not found"
            history.attempts.append(Attempt(began_ms, 0, "no function"))
            return None
        self._troubles = 0
        duration_ms = ports.clock.now_ms() - began_ms
        history.attempts.append(Attempt(began_ms, duration_ms, "success", result.request_id))
        return result

    def _build_event(self, records: tuple[StreamRecord, ...], *, final: bool) -> bytes:
        length_s = self._settings.tumbling_s
        if self.window is None and length_s and records:
            self.window = Window.of(records[0].approximate_arrival_ms, length_s)
        window = self.window
        if window is None:
            return self._events.event(records)
        return self._events.window_event(
            records,
            start=window.start,
            end=window.end,
            state=window.state,
            final=final,
            early=final and window.early,
        )

    def _back_off(self, batch: Batch | None) -> float:
        if batch is not None:
            self._ports.trace.write(self._place, batch.history, batch, store.OPEN)
        self._troubles += 1
        delay_s = retry_delay_s(self._troubles)
        self._not_before_s = self._ports.clock.monotonic_s() + delay_s
        return delay_s

    def _replace(self, batches: tuple[Batch, ...], done: StreamRecord | None) -> None:
        """Replace the first batch with the batches that are left of it, and move the checkpoint."""
        with self._progress.lock:
            self.batches.popleft()
            self.batches.extendleft(reversed(batches))
            if done is not None:
                self.done = done.sequence_number
                self._progress.save()
        if not batches:
            self._on_room()

    # --- tumbling windows ---------------------------------------------------------------------

    def _count_window_records(self) -> int:
        """Return how many of the gathered records are in the same window as the first."""
        length_s = self._settings.tumbling_s
        if not length_s:
            return len(self.buffer)
        window = self.window or Window.of(self.buffer[0].approximate_arrival_ms, length_s)
        for count, record in enumerate(self.buffer):
            if not window.holds(record.approximate_arrival_ms):
                return count
        return len(self.buffer)

    def _is_window_over(self) -> bool:
        window = self.window
        if window is None or self.batches:
            return False
        if window.early or window.end_ms - window.start_ms != self._settings.tumbling_s * 1000:
            return True
        if self.buffer:
            return not window.holds(self.buffer[0].approximate_arrival_ms)
        return self._ended or window.is_over(self._ports.clock.now_ms())

    def _compute_window_left_s(self) -> float:
        window, length_s = self.window, self._settings.tumbling_s
        if window is None and length_s and self.buffer:
            window = Window.of(self.buffer[0].approximate_arrival_ms, length_s)
        return math.inf if window is None else window.wait_ms(self._ports.clock.now_ms()) / 1000

    def _close_window(self, window: Window) -> float:
        """Invoke the function without records, for the last time in a window."""
        history = History(part=f"end of window {window.start}")
        result = self._invoke((), final=True, history=history)
        if result is None:
            return self._back_off(None)
        succeeded = result.function_error is None and read_state(result.payload) is not None
        if self._stopped and not succeeded:
            raise WorkerDone
        empty = Batch((), history=history)
        rules = self._settings.rules
        self._mapping.last_result = "OK" if succeeded else "PROBLEM: Function call failed"
        if not succeeded:
            note_failure(history, FailedFrom(0), result.payload, result.function_error)
            self._mapping.last_failure = failure_sentence(
                result, f"the end of the window {window.start}, {self._place.shard_id}"
            )
            if rules.maximum_retries < 0 or self._final_retries < rules.maximum_retries:
                self._final_retries += 1
                self._troubles = self._final_retries
                self._ports.trace.write(self._place, history, empty, store.OPEN)
                return self._back_off(None)
            log.warning("mapping %s drops the window of %s", self._mapping.uuid, window.start)
        self._final_retries = 0
        disposal = store.SUCCESS if succeeded else store.DROPPED
        self._ports.trace.write(self._place, history, empty, disposal)
        with self._progress.lock:
            self.window = None
            self._progress.save()
        self._on_room()
        return 0.0
