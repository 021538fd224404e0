"""All event source mappings: finds, runs, changes and removes them, shows their states and their backlog.

The states in which an event source mapping is in use: Creating, Updating, Enabling, Disabling, Deleting.

They last `--state-delay` seconds, by default none. Meanwhile AWS refuses to change or delete the mapping (documented:
ResourceInUseException of UpdateEventSourceMapping and DeleteEventSourceMapping).

Counts the records or messages that wait for a mapping: 0 means that it has handled everything put so far.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.core.clock import Clock
from headrace.core.ports import (
    AtSequence,
    Position,
    QueueReceiver,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
)
from headrace.core.workers import Supervisor, WorkerDone, WorkerHandle
from headrace.services.lambda_.errors import invalid_parameter, mapping_in_use, not_found
from headrace.services.lambda_.mappings.mapping import Checkpoint, Mapping, Pinned, first_unread
from headrace.services.lambda_.mappings.poller import ShardPoller, build_mapping_report
from headrace.services.lambda_.mappings.sqs import QueueRunner
from headrace.services.lambda_.mappings.store import MappingStore, Ports

# Counting stops here: a large count need not be exact.
MOST_COUNTED = 10_000
_READ_BYTES = 4 * 1024 * 1024


def describe_backlog(
    mapping: Mapping,
    *,
    store: MappingStore,
    streams: StreamReader,
    queues: QueueReceiver,
    most: int = MOST_COUNTED,
) -> dict[str, Any]:
    """Return a description of a mapping in which `waiting` is the number of records after its checkpoints.

    Records in flight count too; `waiting` is at most `most`. For a queue, all its messages count. `expired` is the
    number of records that the stream lost before the function was done with them. `dropped` is the number of records
    that the mapping gave up without a failure destination receiving them.
    """
    report: dict[str, Any] = {
        "mapping": mapping.uuid,
        "function": mapping.function_arn,
        "source": mapping.stream_arn,
        "enabled": mapping.enabled,
        "lastProcessingResult": mapping.last_result,
        "lastFailure": mapping.last_failure,
        "expired": mapping.expired,
        "dropped": mapping.dropped,
    }
    if mapping.service == "sqs":
        with contextlib.suppress(LookupError):
            report["waiting"] = queues.message_count(mapping.stream_arn)
        return report
    while True:
        noted = mapping.expired
        report["waiting"], expired = _count_behind(mapping, store, streams, most)
        # A loss that the mapping notes meanwhile, whose checkpoint then moves, would be in neither of the two numbers.
        if mapping.expired == noted:
            break
    report["expired"] = noted + expired
    return report


def _count_behind(
    mapping: Mapping, store: MappingStore, streams: StreamReader, most: int
) -> tuple[int, int]:
    """Return how many records follow the checkpoints, and how many more have expired there."""
    kept = store.checkpoints(mapping.uuid)
    waiting = expired = 0
    try:
        for shard in streams.shards(mapping.read_arn):
            # A shard that a reshard made after the mapping has no checkpoint yet; it is read from its start.
            start = AtSequence(shard.starting_sequence_number)
            position: Position | None = start
            if shard.shard_id in kept:
                position = kept[shard.shard_id].position
            while position is not None and waiting < most:
                try:
                    batch = streams.read(
                        mapping.read_arn,
                        shard.shard_id,
                        position,
                        max_records=most - waiting,
                        max_bytes=_READ_BYTES,
                    )
                except ShardNotFound:
                    break
                expired += batch.expired - _count_noted(
                    mapping, shard.shard_id, position, batch.expired
                )
                if not batch.records:
                    break
                waiting += len(batch.records)
                position = batch.next_position
    except StreamNotFound:
        return 0, 0
    return waiting, expired


def _count_noted(mapping: Mapping, shard_id: str, position: Position, expired: int) -> int:
    """Return how many of the `expired` records after a position are counted already: a checkpoint follows later."""
    first = first_unread(position)
    losses = mapping.noted_losses.get(shard_id, ())
    return min(expired, sum(count for last_number, count in losses if last_number >= first))


class Transitions:
    """The mappings that are changing, by UUID; a restart ends all transitions. Thread-safe."""

    def __init__(self, clock: Clock, delay_ms: int) -> None:
        self._clock = clock
        self._delay_ms = delay_ms
        self._lock = threading.Lock()
        self._changing: dict[str, tuple[str, int]] = {}

    def begin(self, uuid: str, state: str) -> None:
        """Let a mapping be in `state` for the delay."""
        if self._delay_ms:
            with self._lock:
                self._changing[uuid] = (state, self._clock.now_ms() + self._delay_ms)

    def find(self, uuid: str) -> str | None:
        """Return the state that a mapping is passing through; None: it is settled."""
        with self._lock:
            state, until_ms = self._changing.get(uuid, ("", 0))
            if state and self._clock.now_ms() < until_ms:
                return state
            self._changing.pop(uuid, None)
        return None


# New shards of a reshard are seen at once, when the poller of a parent reaches its end. This interval is for streams
# that are created after the mapping.
_LOOK_AGAIN_S = 1.0
_LOOK_FOR_SHARDS_S = 30.0
_JOIN_S = 5.0


@dataclass(slots=True)
class _Running:
    poller: ShardPoller
    handle: WorkerHandle


class MappingRunner:
    """Runs one mapping: one poller for each shard whose parents are drained. Thread-safe."""

    def __init__(self, mapping: Mapping, ports: Ports, supervisor: Supervisor) -> None:
        self.name = f"lambda-mapping-{mapping.uuid[:8]}"
        self._mapping = mapping
        self._ports = ports
        self._supervisor = supervisor
        self._lock = threading.Lock()
        self._pollers: dict[str, _Running] = {}
        self._stopped = False
        self._unsubscribe: Callable[[], None] | None = None
        self._handle = supervisor.start(self)

    def step(self) -> float:
        """Start pollers for the shards whose parents are drained."""
        if self._stopped:
            raise WorkerDone
        arn, store = self._mapping.read_arn, self._ports.store
        try:
            shards = self._ports.streams.shards(arn)
            if self._unsubscribe is None:
                self._unsubscribe = self._ports.streams.subscribe(arn, self._wake_pollers)
        except StreamNotFound:
            self._mapping.last_result = "PROBLEM: Stream not found"
            return _LOOK_AGAIN_S
        if self._has_lost_consumer():
            return _LOOK_AGAIN_S
        kept = store.checkpoints(self._mapping.uuid)
        done = {shard_id for shard_id, reader in kept.items() if reader.position is None}
        open_ids = {shard.shard_id for shard in shards} - done
        self._forget(done, {shard.shard_id for shard in shards})
        for shard in shards:
            if shard.shard_id not in kept and shard.starting_sequence_number:
                # A shard that is newer than the mapping is read from its first record, or that counts as expired.
                start = AtSequence(shard.starting_sequence_number)
                store.checkpoint(self._mapping.uuid, shard.shard_id, start)
            # Read parents first, so that records with the same partition key stay in order across a reshard.
            if shard.shard_id in open_ids and not open_ids.intersection(shard.parent_ids):
                self._start_poller(shard.shard_id)
        return _LOOK_FOR_SHARDS_S

    def _forget(self, done: set[str], there: set[str]) -> None:
        """Remove pollers that have ended, and the checkpoints of shards that retention has removed."""
        with self._lock:
            for shard_id in done & self._pollers.keys():
                if not self._pollers[shard_id].handle.alive:
                    del self._pollers[shard_id]
        if gone := done - there:
            self._ports.store.forget_shards(self._mapping.uuid, gone)

    def _has_lost_consumer(self) -> bool:
        """Whether the mapping's registered consumer no longer exists. If so, stop the running pollers."""
        mapping = self._mapping
        if not mapping.reads_as_consumer:
            return False
        if self._ports.streams.consumer_status(mapping.stream_arn) == "ACTIVE":
            return False
        mapping.last_result = "PROBLEM: Stream consumer not found"
        with self._lock:
            lost, self._pollers = list(self._pollers.values()), {}
        for one in lost:
            one.poller.stop()
            one.handle.stop()
        return True

    def _start_poller(self, shard_id: str) -> None:
        with self._lock:
            running = self._pollers.get(shard_id)
            if self._stopped or (running is not None and running.handle.alive):
                return
            poller = ShardPoller(
                self._mapping,
                shard_id,
                self._ports,
                on_drained=self._handle_drained,
                spawn=self._supervisor.start,
            )
            handle = self._supervisor.start(poller)
            poller.wake = handle.wake
            self._pollers[shard_id] = _Running(poller, handle)
        # An append between the poller's first read and its registration did not wake the poller.
        handle.wake()

    def _handle_drained(self) -> None:
        self._handle.wake()

    def _wake_pollers(self) -> None:
        for running in list(self._pollers.values()):
            running.handle.wake()

    def wake(self) -> None:
        """Wake the pollers, so that they read changed settings now."""
        self._handle.wake()
        self._wake_pollers()

    def stop(self) -> None:
        """Start no more batches. Does not wait for running ones."""
        with self._lock:
            self._stopped = True
            running = list(self._pollers.values())
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._handle.stop()
        for one in running:
            one.poller.stop()
            one.handle.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for running batches to end."""
        for running in list(self._pollers.values()):
            running.handle.join(timeout_s)
            running.poller.join(timeout_s)


class Mappings:
    """The mappings of all accounts and regions. Thread-safe."""

    def __init__(self, *, ports: Ports, supervisor: Supervisor, transitions: Transitions) -> None:
        self._ports = ports
        self._supervisor = supervisor
        self._transitions = transitions
        self._lock = threading.RLock()
        self._deleting: dict[str, Mapping] = {}
        self._mappings: dict[str, Mapping] = {}
        self._runners: dict[str, MappingRunner | QueueRunner] = {}
        self._stopping: list[MappingRunner | QueueRunner] = []

    def start(self) -> None:
        """Run every mapping from its checkpoints."""
        for mapping in self._ports.store.load():
            self._mappings[mapping.uuid] = mapping
            self._run(mapping)

    def stop(self) -> None:
        """Start no more batches. Batches that fail from now on are retried by the next run of the cloud."""
        with self._lock:
            stopping, self._runners = list(self._runners.values()), {}
            self._stopping.extend(stopping)
        for runner in stopping:
            runner.stop()

    def join(self) -> None:
        """Wait for the batches that were running when `stop` was called."""
        for runner in self._stopping:
            runner.join(_JOIN_S)

    def _run(self, mapping: Mapping) -> None:
        """Start, wake or stop the mapping's runner, depending on whether the mapping is enabled."""
        with self._lock:
            runner = self._runners.get(mapping.uuid)
            if mapping.enabled and runner is None:
                self._runners[mapping.uuid] = self._build_runner(mapping)
            elif mapping.enabled and runner is not None:
                runner.wake()
            elif runner is not None:
                del self._runners[mapping.uuid]
                runner.stop()
                runner.join(_JOIN_S)

    def _build_runner(self, mapping: Mapping) -> MappingRunner | QueueRunner:
        if mapping.service == "sqs":
            return QueueRunner(mapping, self._ports, self._supervisor.start)
        return MappingRunner(mapping, self._ports, self._supervisor)

    def visibility_timeout_s(self, queue_arn: str) -> int:
        """Return a queue's visibility timeout. Raises LookupError."""
        return self._ports.queues.visibility_timeout_s(queue_arn)

    def create(self, mapping: Mapping) -> None:
        """Store and run a mapping. Raises StreamNotFound.

        The starting positions of the shards are fixed here, so that even with LATEST the function gets every record
        that is put after this returns.
        """
        pinned: dict[str, Pinned] = {}
        if mapping.service != "sqs":
            self._check_consumer(mapping)
            streams = self._ports.streams
            pinned = {
                shard.shard_id: streams.pin(mapping.read_arn, shard.shard_id, mapping.start())
                for shard in streams.shards(mapping.read_arn)
            }
        with self._lock:
            self._ports.store.put(mapping, pinned)
            self._mappings[mapping.uuid] = mapping
        if mapping.enabled:
            self._transitions.begin(mapping.uuid, "Creating")
        self._run(mapping)

    def _check_consumer(self, mapping: Mapping) -> None:
        """Refuse a registered consumer that is missing or not ACTIVE. Raises StreamNotFound, AwsError."""
        if not mapping.reads_as_consumer:
            return
        status = self._ports.streams.consumer_status(mapping.stream_arn)
        if status is None:
            raise StreamNotFound(mapping.stream_arn)
        if status != "ACTIVE":
            raise invalid_parameter(
                f"Consumer {mapping.stream_arn} is in status {status}. It must be ACTIVE."
            )

    def change(self, mapping: Mapping, state: str) -> None:
        """Store a changed mapping, which passes through `state`, and start, wake or stop its pollers."""
        self._ports.store.put(mapping)
        self._transitions.begin(mapping.uuid, state)
        self._run(mapping)

    def state_of(self, mapping: Mapping) -> str | None:
        """Return the state that a mapping is passing through; None: it is settled."""
        return self._transitions.find(mapping.uuid)

    def get_settled(self, account: str, region: str, uuid: str, verb: str) -> Mapping:
        """Return a mapping that can be changed or deleted now. Raises AwsError."""
        mapping = self.get(account, region, uuid)
        if self.state_of(mapping) is not None:
            raise mapping_in_use(verb)
        return mapping

    def delete(self, mapping: Mapping) -> None:
        """Stop a mapping, and delete it and its checkpoints."""
        with self._lock:
            mapping.enabled = False
            self._run(mapping)
            self._mappings.pop(mapping.uuid, None)
            self._transitions.begin(mapping.uuid, "Deleting")
            if self.state_of(mapping) is not None:
                self._deleting[mapping.uuid] = mapping
            self._ports.store.delete(mapping.uuid)
            self._ports.trace.forget(mapping.uuid)

    def find(self, account: str, region: str, uuid: str) -> Mapping | None:
        """Return a mapping, or None."""
        mapping = self._mappings.get(uuid) or self._find_deleting().get(uuid)
        if mapping is None or (mapping.account, mapping.region) != (account, region):
            return None
        return mapping

    def _find_deleting(self) -> dict[str, Mapping]:
        with self._lock:
            for uuid in [u for u, m in self._deleting.items() if self.state_of(m) is None]:
                del self._deleting[uuid]
            return dict(self._deleting)

    def get(self, account: str, region: str, uuid: str) -> Mapping:
        """Return a mapping. Raises AwsError."""
        mapping = self.find(account, region, uuid)
        if mapping is None:
            raise not_found("The resource you requested does not exist.")
        return mapping

    def all(self, account: str, region: str) -> list[Mapping]:
        """Return the mappings of an account and region, sorted by UUID."""
        with self._lock:
            known = [*self._mappings.values(), *self._find_deleting().values()]
            mappings = [m for m in known if (m.account, m.region) == (account, region)]
        return sorted(mappings, key=lambda mapping: mapping.uuid)

    def traces(self, name: str, sequence: str | None) -> list[dict[str, Any]]:
        """Return the reports of the mapping with the UUID `name`, or of all mappings of the function `name`."""
        ports = self._ports
        with self._lock:
            mappings = [
                mapping
                for mapping in self._mappings.values()
                if name in (mapping.uuid, mapping.function_arn, mapping.function_arn.split(":")[6])
            ]
        return [
            build_mapping_report(
                mapping,
                trace=ports.trace,
                store=ports.store,
                streams=ports.streams,
                sequence=sequence,
            )
            for mapping in mappings
        ]

    def backlogs(self, most: int = MOST_COUNTED) -> list[dict[str, Any]]:
        """Return every mapping with the number of records that wait for it, at most `most`; see `describe_backlog`."""
        ports = self._ports
        with self._lock:
            mappings = list(self._mappings.values())
        return [
            describe_backlog(
                mapping, store=ports.store, streams=ports.streams, queues=ports.queues, most=most
            )
            for mapping in mappings
        ]

    def positions(self) -> list[tuple[Mapping, dict[str, Checkpoint]]]:
        """Return every mapping with its checkpoints by shard id."""
        with self._lock:
            mappings = list(self._mappings.values())
        return [(mapping, self._ports.store.checkpoints(mapping.uuid)) for mapping in mappings]

    def change_tags(
        self, mapping: Mapping, change: Callable[[dict[str, str]], None]
    ) -> dict[str, str]:
        """Apply `change` to a mapping's tags, store the result, and return it."""
        with self._lock:
            tags = dict(mapping.tags)
            change(tags)
            mapping.tags = tags
            self._ports.store.put(mapping)
            return dict(tags)
