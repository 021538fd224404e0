"""Runs EventBridge Pipes: reads a stream, a table's stream or a queue, filters, enriches, and delivers to the target.

Sources: Kinesis streams, DynamoDB streams, SQS queues. The position in a stream is in the database after each batch,
so after kill -9 a batch is delivered again rather than lost. Parallelization and batching windows have no effect: a
batch is what is available. Sources and targets must be ARNs.
Documented: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes.html.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, cast

from headrace.core.clock import Clock
from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    AtTimestamp,
    ControlPlane,
    Latest,
    MessageQueues,
    Position,
    ShardInfo,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
    TrimHorizon,
)
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.moto.storage.changes import CHANGES, MOTO_LOCK
from headrace.services.pipes.delivery import (
    Batch,
    PartlyFailed,
    PipeFailed,
    deliver,
    event_of_message,
    event_of_record,
    id_of,
)
from headrace.services.pipes.execution_log import usable_configuration
from headrace.store.database import Database

log = logging.getLogger(__name__)

# How soon a failed source or target is retried.
RETRY_EVERY_S = 1.0
# How often a queue without messages is polled, and a stream whose wake-up was missed.
POLL_EVERY_S = 0.5
DEFAULT_RECORDS, DEFAULT_MESSAGES = 100, 10
MOST_BYTES = 4 << 20
_ENDED = "ended"
# The entry that says that a pipe has stored where it begins in the shards of its stream.
_WHOLE_STREAM, _BEGUN = "", "begun"


class LoadedState(Protocol):
    """moto's state: `MotoEngine` implements it."""

    def is_loaded(self) -> bool:
        """Whether moto currently holds this cloud's state."""
        ...


@dataclass(frozen=True, slots=True)
class Pipe:
    """A stored pipe; equal ones run alike."""

    arn: str
    source: str
    target: str
    role_arn: str
    enrichment: str
    source_parameters: dict[str, Any] = field(hash=False)
    target_parameters: dict[str, Any] = field(hash=False)
    enrichment_parameters: dict[str, Any] = field(hash=False)
    log_configuration: dict[str, Any] = field(hash=False)


class Positions:
    """The position of each pipe in each shard. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate(
            "pipes",
            [
                """CREATE TABLE pipe_positions (pipe TEXT, shard TEXT, position TEXT,
                   PRIMARY KEY (pipe, shard))"""
            ],
        )

    def of(self, pipe: str, shard: str) -> str | None:
        """Return the sequence number of the last delivered record, `ended`, or None before the first."""
        rows = self._database.query(
            "SELECT position FROM pipe_positions WHERE pipe = ? AND shard = ?", (pipe, shard)
        )
        return str(rows[0][0]) if rows else None

    def put(self, pipe: str, shard: str, position: str) -> None:
        """Store the position in a shard; durable on return."""
        self._database.execute(
            "INSERT OR REPLACE INTO pipe_positions VALUES (?, ?, ?)", (pipe, shard, position)
        )

    def keep_only(self, pipes: set[str]) -> None:
        """Remove the positions of deleted pipes."""
        for (pipe,) in self._database.query("SELECT DISTINCT pipe FROM pipe_positions"):
            if pipe not in pipes:
                self._database.execute("DELETE FROM pipe_positions WHERE pipe = ?", (pipe,))


@dataclass(frozen=True, slots=True)
class PipeServices:
    """The services that pipes read from and write to."""

    state: LoadedState
    supervisor: Supervisor
    clock: Clock
    control: ControlPlane
    streams: StreamReader
    queues: MessageQueues
    positions: Positions


class Pipes:
    """A `Worker` that starts and stops a worker for each pipe.

    It sleeps until it is woken, which must happen when moto's `PACKAGES` change or are loaded.
    """

    name = "pipes"
    PACKAGES = ("pipes",)

    def __init__(self, parts: PipeServices) -> None:
        self._parts = parts
        self._running: dict[str, tuple[Pipe, WorkerHandle, PipeWorker]] = {}

    def figures(self) -> dict[str, tuple[int, str]]:
        """Return, for each running pipe, how many events it has moved since its start, and what is wrong now."""
        return {
            arn: (worker.moved, worker.problem)
            for arn, (_, _, worker) in list(self._running.items())
        }

    def step(self) -> float:
        """Start and stop workers to match the current pipes."""
        if not self._parts.state.is_loaded():
            return math.inf
        with MOTO_LOCK:
            pipes = dict(_pipes())
        for arn, (pipe, handle, worker) in list(self._running.items()):
            if pipes.get(arn) != pipe:
                handle.stop()
                worker.close()
                del self._running[arn]
        for arn, pipe in pipes.items():
            if pipe is not None and arn not in self._running:
                worker = PipeWorker(pipe, self._parts)
                handle = self._parts.supervisor.start(worker)
                worker.wake = handle.wake
                self._running[arn] = pipe, handle, worker
        self._parts.positions.keep_only(set(pipes))
        return math.inf


def _pipes() -> Iterator[tuple[str, Pipe | None]]:
    """Yield the pipes by their ARN; None for a pipe that should not run."""
    # The stored state is loaded now, even if no request has needed it since the start.
    CHANGES.load_deferred("pipes")
    if "moto.pipes.models" not in sys.modules:
        return  # no request has used pipes, and none is stored
    from moto.pipes.models import pipes_backends

    for regions in list(cast("Any", pipes_backends).values()):
        for backend in list(regions.values()):
            for pipe in list(backend.pipes.values()):
                if pipe.desired_state != "RUNNING":
                    yield str(pipe.arn), None
                    continue
                yield (
                    str(pipe.arn),
                    Pipe(
                        arn=str(pipe.arn),
                        source=str(pipe.source),
                        target=str(pipe.target),
                        role_arn=str(pipe.role_arn),
                        enrichment=str(pipe.enrichment or ""),
                        source_parameters=dict(pipe.source_parameters or {}),
                        target_parameters=dict(pipe.target_parameters or {}),
                        enrichment_parameters=dict(pipe.enrichment_parameters or {}),
                        log_configuration=dict(pipe.log_configuration or {}),
                    ),
                )


class PipeWorker:
    """A `Worker` that moves events from one pipe's source to its target.

    Attributes:
        moved: how many events it has read and is done with, filtered ones among them.
        problem: why it does not go on now; empty while it does.
    """

    def __init__(self, pipe: Pipe, parts: PipeServices) -> None:
        self.name = f"pipe-{pipe.arn.rpartition('/')[2]}"
        self._pipe, self._parts = pipe, parts
        self._log_configuration = usable_configuration(pipe.arn, pipe.log_configuration)
        self.moved = 0
        self.problem = ""
        self._undo = lambda: None
        self._is_subscribed = False
        self._has_begun = False
        # The number of attempts at the first batch of each shard.
        self._tries: dict[str, int] = {}
        self._taken: dict[str, set[str]] = {}  # of a shard's batch, the ids that the target took
        self.wake = lambda: None

    def close(self) -> None:
        """Unsubscribe from the source's wake-ups."""
        self._undo()

    def step(self) -> float:
        """Move one batch of each shard, or of the queue."""
        # An older data directory may have a pipe whose source is not an ARN.
        kind = [*self._pipe.source.split(":"), "", ""][2]
        try:
            if kind == "sqs":
                delay_s = self._move_messages()
            elif kind in ("kinesis", "dynamodb"):
                delay_s = self._move_records("kinesis" if kind == "kinesis" else "dynamodb")
            else:
                raise PipeFailed(f"headrace's pipes read no source such as {self._pipe.source}")
        except (StreamNotFound, LookupError) as error:
            self._log_failure(f"the source does not exist: {error}")
            return RETRY_EVERY_S
        except PipeFailed as error:
            self._log_failure(str(error))
            return RETRY_EVERY_S if error.may_pass else math.inf
        self.problem = ""
        return delay_s

    def _log_failure(self, why: str) -> None:
        if why != self.problem:
            self.problem = why
            log.warning("%s: %s", self._pipe.arn, why)

    def _deliver(self, events: list[dict[str, Any]]) -> None:
        pipe = self._pipe
        batch = Batch(
            arn=pipe.arn,
            source=pipe.source,
            target=pipe.target,
            role_arn=pipe.role_arn,
            enrichment=pipe.enrichment,
            filters=pipe.source_parameters.get("FilterCriteria") or {},
            target_parameters=pipe.target_parameters,
            enrichment_parameters=pipe.enrichment_parameters,
            log_configuration=self._log_configuration,
        )
        deliver(batch, events, self._parts.control, self._parts.clock.now_ms())

    # --- queues -----------------------------------------------------------------------------------

    def _move_messages(self) -> float:
        parts, source = self._parts, self._pipe.source
        if parts.queues.is_empty(source):
            return POLL_EVERY_S
        settings = self._pipe.source_parameters.get("SqsQueueParameters") or {}
        most = min(int(settings.get("BatchSize") or DEFAULT_MESSAGES), DEFAULT_MESSAGES)
        messages = parts.queues.receive(source, most=most)
        if not messages:
            return POLL_EVERY_S
        # Failed messages become visible again after the queue's visibility timeout, as on AWS.
        failed = frozenset[str]()
        try:
            self._deliver([event_of_message(message, source) for message in messages])
        except PartlyFailed as error:
            self._log_failure(str(error))
            failed = error.failed
        taken = [one.receipt_handle for one in messages if one.message_id not in failed]
        parts.queues.delete(source, taken)
        self.moved += len(taken)
        return 0.0

    # --- streams ----------------------------------------------------------------------------------

    def _move_records(self, kind: str) -> float:
        parts, source = self._parts, self._pipe.source
        if not self._is_subscribed:
            self._undo = parts.streams.subscribe(source, lambda: self.wake())
            self._is_subscribed = True
        shards = parts.streams.shards(source)
        known = {shard.shard_id for shard in shards}
        self._begin(kind, shards)
        failure: PipeFailed | None = None
        moved = False
        for shard in shards:
            waits = any(
                parent in known and parts.positions.of(self._pipe.arn, parent) != _ENDED
                for parent in shard.parent_ids
            )
            if waits:
                continue
            try:
                moved = self._move_shard(kind, shard) or moved
            except PipeFailed as error:
                # The other shards continue.
                failure = error
            except ShardNotFound:
                continue
        if failure is not None:
            raise failure
        return 0.0 if moved else POLL_EVERY_S

    def _settings(self, kind: str) -> dict[str, Any]:
        member = "KinesisStreamParameters" if kind == "kinesis" else "DynamoDBStreamParameters"
        return dict(self._pipe.source_parameters.get(member) or {})

    def _move_shard(self, kind: str, shard: ShardInfo) -> bool:
        """Move a batch of a shard; return whether there may be more."""
        parts, pipe = self._parts, self._pipe
        kept = parts.positions.of(pipe.arn, shard.shard_id)
        if kept == _ENDED:
            return False
        settings = self._settings(kind)
        position = self._first(settings, shard, is_later=True) if kept is None else _position(kept)
        read = parts.streams.read(
            pipe.source,
            shard.shard_id,
            position,
            max_records=int(settings.get("BatchSize") or DEFAULT_RECORDS),
            max_bytes=MOST_BYTES,
        )
        if read.records:
            events = [
                event_of_record(record, shard.shard_id, pipe.source, kind)
                for record in read.records
            ]
            arrivals_ms = {
                id_of(event): record.approximate_arrival_ms
                for event, record in zip(events, read.records, strict=True)
            }
            self._try(events, settings, shard.shard_id, arrivals_ms)
            last = read.records[-1].sequence_number
            parts.positions.put(pipe.arn, shard.shard_id, last)
            self.moved += len(events)
        if read.next_position is None:
            parts.positions.put(pipe.arn, shard.shard_id, _ENDED)
        return bool(read.records) or read.next_position is None

    def _begin(self, kind: str, shards: list[ShardInfo]) -> None:
        """At the pipe's first look, store the starting position in each shard that exists then, children among them."""
        positions, arn = self._parts.positions, self._pipe.arn
        if self._has_begun or positions.of(arn, _WHOLE_STREAM) is not None:
            self._has_begun = True
            return
        fresh = [shard for shard in shards if positions.of(arn, shard.shard_id) is None]
        # An earlier release has begun a pipe that has any position.
        for shard in fresh if len(fresh) == len(shards) else ():
            self._first(self._settings(kind), shard, is_later=False)
        positions.put(arn, _WHOLE_STREAM, _BEGUN)
        self._has_begun = True

    def _first(self, settings: dict[str, Any], shard: ShardInfo, *, is_later: bool) -> Position:
        """Return a shard's starting position, and store it, so that a restart begins there too.

        `is_later`: a reshard made the shard after the pipe had begun, so that LATEST means its start.
        """
        name = settings.get("StartingPosition", "TRIM_HORIZON")
        position: Position = TrimHorizon()
        if name == "AT_TIMESTAMP":
            moment = settings.get("StartingPositionTimestamp")
            is_time = isinstance(moment, datetime)
            seconds = moment.timestamp() if is_time else float(moment or 0)
            position = AtTimestamp(round(seconds * 1000))
        elif name == "LATEST" and not is_later:
            position = Latest()
        pinned = self._parts.streams.pin(self._pipe.source, shard.shard_id, position)
        if not isinstance(pinned, TrimHorizon):
            prefix = ">" if isinstance(pinned, AfterSequence) else "="
            kept = f"{prefix}{pinned.sequence_number}"
            self._parts.positions.put(self._pipe.arn, shard.shard_id, kept)
        return pinned

    def _try(
        self,
        events: list[dict[str, Any]],
        settings: dict[str, Any],
        shard: str,
        arrivals_ms: dict[str, int],
    ) -> None:
        """Deliver what the target has not taken; give up after the most tries, or at an age. Raises PipeFailed."""
        taken = self._taken.setdefault(shard, set())
        events = [event for event in events if id_of(event) not in taken]
        try:
            self._deliver(events)
        except PipeFailed as error:
            events = error.drop_delivered(events, taken)
            self._tries[shard] = tries = self._tries.get(shard, 0) + (not error.is_internal)
            most_tries = _bound(settings, "MaximumRetryAttempts")
            most_age_s = _bound(settings, "MaximumRecordAgeInSeconds")
            over = events
            if not 0 <= most_tries < tries:
                since_ms = self._parts.clock.now_ms() - most_age_s * 1000 if most_age_s >= 0 else 0
                over = [event for event in events if arrivals_ms[id_of(event)] < since_ms]
            dead_arn = str((settings.get("DeadLetterConfig") or {}).get("Arn", ""))
            if over:
                self._give_up(over, dead_arn, error, taken)
            if len(over) < len(events):
                # Documented: what the customer can mend, such as permissions, is tried until then.
                error.may_pass |= most_tries >= 0 or most_age_s >= 0
                raise
        self._tries.pop(shard, None)
        del self._taken[shard]

    def _give_up(self, events: list[Any], arn: str, error: PipeFailed, taken: set[str]) -> None:
        """Send events to the dead-letter target, if there is one. Raises PipeFailed if that may take them later.

        Assumed, as Lambda documents it for mappings: what the target refuses for good is lost, and the pipe goes on.
        """
        pipe = self._pipe
        log.warning("%s gives up %d records: %s", pipe.arn, len(events), error)
        if not arn:
            taken.update(map(id_of, events))
            return
        batch = Batch(arn=pipe.arn, source=pipe.source, target=arn, role_arn=pipe.role_arn)
        for event in events:
            try:
                deliver(batch, [event], self._parts.control, self._parts.clock.now_ms())
            except PipeFailed as failure:
                why = f"The dead-letter target {arn} did not take what is given up: {failure}"
                if failure.is_internal:
                    raise PipeFailed(why, may_pass=True, is_internal=True) from error
                log.error("%s: a record is lost. %s", pipe.arn, why)  # noqa: TRY400 - nobody's defect
            taken.add(id_of(event))


def _bound(settings: dict[str, Any], name: str) -> int:
    """Return a source's setting; -1, if there is none, is no bound."""
    value = settings.get(name)
    return -1 if value is None else int(value)


def _position(kept: str) -> Position:
    if kept.startswith("="):
        return AtSequence(kept[1:])
    return AfterSequence(kept.removeprefix(">"))
