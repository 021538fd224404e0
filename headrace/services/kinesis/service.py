"""Kinesis Data Streams: the backend that actions work on, and the list of the actions."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.aws.faults import Faults
from headrace.aws.service import ServiceApi
from headrace.core.arn import Arn, InvalidArn
from headrace.core.clock import Clock
from headrace.core.config import Durability, Limits
from headrace.core.ids import Ids
from headrace.core.ports import MetricSink
from headrace.core.workers import Supervisor
from headrace.services.kinesis.account import AccountSettings
from headrace.services.kinesis.consumers import Consumers
from headrace.services.kinesis.errors import (
    invalid_argument,
    not_active,
    stream_not_found,
    translate,
)
from headrace.services.kinesis.fidelity import FIDELITY
from headrace.services.kinesis.growth import Growth
from headrace.services.kinesis.guard import rated
from headrace.services.kinesis.hot import HotPath
from headrace.services.kinesis.iterators import IteratorCodec
from headrace.services.kinesis.metrics import MinuteMetrics, observe_event
from headrace.services.kinesis.profile import PROFILE
from headrace.services.kinesis.pushes import Pushes
from headrace.services.kinesis.reader import KinesisReader
from headrace.services.kinesis.retention import Retention
from headrace.services.kinesis.state import Shard, Stream
from headrace.services.kinesis.subjects import subject_of
from headrace.services.kinesis.subscriptions import Subscriptions
from headrace.services.kinesis.throttle import Throttle
from headrace.services.kinesis.tokens import TokenCodec
from headrace.store.check import STREAMS_FOLDER
from headrace.store.database import Database
from headrace.store.discard import clear, discard
from headrace.store.flusher import Flusher
from headrace.store.losses import NOTHING_KNOWN, Known
from headrace.store.marks import Marks
from headrace.store.memory import keep_freed_memory
from headrace.store.shard_log import ShardLog, identity_of

log = logging.getLogger(__name__)

Wake = Callable[[], None]
ReshardStep = tuple[Sequence[Shard | tuple[int, int]], Sequence[tuple[int, int]]]


class Kinesis:
    """All streams of all accounts and regions.

    Thread-safe. Control-plane changes hold `lock` and are in the database before they show; appends go
    to shard logs under each log's own lock.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        clock: Clock,
        ids: Ids,
        database: Database,
        supervisor: Supervisor,
        durability: Durability = "os",
        metrics: MetricSink | None = None,
        state_delay_ms: int = 0,
        limits: Limits = "off",
        faults: Faults | None = None,
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.lock = threading.RLock()
        self.streams: dict[tuple[str, str, str], Stream] = {}
        self.by_id: dict[str, Stream] = {}
        self.flusher: Flusher | None = Flusher() if durability == "fsync" else None
        self.metrics = metrics
        self._folder = data_dir / STREAMS_FOLDER
        self._database = database
        self._documents = database.documents("kinesis_streams")
        self._settings = database.documents("kinesis_settings")
        self._supervisor = supervisor
        self._subscribers: dict[str, list[Wake]] = {}
        self.marks = Marks(database, data_dir, fsync=durability == "fsync")
        # What was found to be missing at the start, a sentence each.
        self.losses: list[str] = []
        self.iterators = IteratorCodec(self._iterator_key())
        self.tokens = TokenCodec(self._iterator_key())
        self.account_settings = AccountSettings(self._settings)
        self.consumers = Consumers(database.documents("kinesis_consumers"), state_delay_ms)
        self.state_delay_ms = state_delay_ms
        self._deleting: set[str] = set()
        self.throttle = Throttle() if limits == "aws" else None
        self.faults = faults
        self.subscriptions = Subscriptions(self)
        self.subscriptions.observe = observe_event
        self.pushes = Pushes(self)
        self.reader = KinesisReader(self)

    def _iterator_key(self) -> bytes:
        stored = self._settings.get("iterator_key")
        if stored is None:
            stored = self.ids.bytes(32).hex()
            self._settings.put("iterator_key", stored)
        return bytes.fromhex(stored)

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Open every stream's logs and start retention."""
        keep_freed_memory()
        known = self.marks.known()
        for _, document in self._documents.items():  # noqa: PERF102 - not a dict
            stream = Stream.from_document(document)
            for shard in stream.shards:
                self._open_log(stream, shard, known)
                self._tell_losses(stream, shard)
            self._add(stream)
        self._remove_orphans()
        self._supervisor.start(Retention(self))
        self._supervisor.start(MinuteMetrics(self, Growth(self)))

    def _tell_losses(self, stream: Stream, shard: Shard) -> None:
        """Say which records are missing; readers that come there are told again, until it is accepted."""
        assert shard.log is not None
        if not shard.log.losses:
            return
        for loss in shard.log.losses:
            sentence = f"stream {stream.name}: {shard.log.describe(loss)}"
            if loss.accepted:
                log.info("%s; that is accepted", sentence)
            else:
                log.error("%s; see: headrace check --repair", sentence)
                self.losses.append(sentence)
        self.marks.note_losses(shard.log)

    def stop(self) -> None:
        """Close the logs."""
        if self.flusher is not None:
            self.flusher.stop()
        try:
            self.mark()
        except OSError as error:
            log.warning("how far the logs reach is not noted: %s", error)
        for stream in self.streams.values():
            for shard in stream.shards:
                if shard.log is not None:
                    shard.log.close_files()

    def _remove_orphans(self) -> None:
        """Remove what a kill left of deletions, creations and reshards that did not finish.

        None of it was acknowledged: records are taken only once their shard is in the database.
        """
        clear(self._folder, set(self.by_id))
        for stream_id, stream in self.by_id.items():
            clear(self._folder / stream_id, {shard.shard_id for shard in stream.shards})

    def mark(self) -> None:
        """Note how far every log reaches, for the next start and `headrace check`."""
        self._database.keep_room()
        with self.lock:
            shards = [shard for stream in self.streams.values() for shard in stream.shards]
            self.marks.note(shard.log for shard in shards if shard.log is not None)

    # --- streams ------------------------------------------------------------------------------

    def find(self, account: str, region: str, request: Any) -> Stream:
        """Return the stream that a request names by StreamName, StreamARN or StreamId. Raises AwsError."""
        self.remove_deleted()
        name = request.get("StreamName")
        arn = request.get("StreamARN")
        stream_id = request.get("StreamId")
        if arn is not None:
            key = _key_of_arn(arn)
            if key is None:
                raise invalid_argument(f"StreamARN {arn} is not a valid ARN.")
            if name is not None and key[2] != name:
                raise invalid_argument("StreamName and StreamARN do not name the same stream.")
        elif name is not None:
            key = (account, region, name)
        elif stream_id is not None:
            return self._of_public_id(account, region, stream_id)
        else:
            raise invalid_argument("Either StreamName or StreamARN should be specified.")
        stream = self.streams.get(key)
        if stream is None:
            raise stream_not_found(key[2], key[0])
        if stream_id is not None and stream.public_id != stream_id:
            raise invalid_argument("StreamId does not belong to the stream that is named.")
        return stream

    def _of_public_id(self, account: str, region: str, stream_id: str) -> Stream:
        for stream in list(self.by_id.values()):
            where = (stream.account, stream.region)
            if where == (account, region) and stream.public_id == stream_id:
                return stream
        raise stream_not_found(stream_id, account)

    def find_active(self, account: str, region: str, request: Any, now_ms: int) -> Stream:
        """As `find`, for what only an ACTIVE stream takes. Raises ResourceInUseException otherwise."""
        stream = self.find(account, region, request)
        status = stream.status(now_ms)
        if status != "ACTIVE":
            raise not_active(stream.name, stream.account, status)
        return stream

    def find_arn(self, arn: str) -> Stream | None:
        """Return the stream of an ARN, or None."""
        key = _key_of_arn(arn)
        return None if key is None else self.streams.get(key)

    def add(self, stream: Stream) -> None:
        """Make a new stream: its logs, then its document, then it shows."""
        try:
            for shard in stream.shards:
                self._open_log(stream, shard)
            self._documents.put(stream.stream_id, stream.document())
        except BaseException:
            for shard in stream.shards:
                if shard.log is not None:
                    shard.log.close_files()
            discard(self._folder / stream.stream_id)
            raise
        self._add(stream)

    def _add(self, stream: Stream) -> None:
        stream.index_routes()
        self.streams[(stream.account, stream.region, stream.name)] = stream
        self.by_id[stream.stream_id] = stream
        if stream.passing == "DELETING":
            self._deleting.add(stream.stream_id)

    def update(self, stream: Stream, now_ms: int) -> None:
        """Store what a control-plane operation changed; the stream is UPDATING for a while, if so configured."""
        if self.state_delay_ms:
            stream.passing, stream.settles_ms = "UPDATING", now_ms + self.state_delay_ms
        self.save(stream)

    def delete(self, stream: Stream, now_ms: int) -> None:
        """Delete a stream: at once, or after a while in DELETING, if so configured."""
        if not self.state_delay_ms:
            self.remove(stream)
            return
        stream.passing, stream.settles_ms = "DELETING", now_ms + self.state_delay_ms
        self.save(stream, frees=True)
        self._deleting.add(stream.stream_id)

    def remove_deleted(self) -> None:
        """Remove the streams whose time in DELETING is over."""
        if not self._deleting:
            return
        with self.lock:
            for stream_id in list(self._deleting):
                stream = self.by_id.get(stream_id)
                if stream is None:
                    self._deleting.discard(stream_id)
                elif self.clock.now_ms() >= stream.settles_ms:
                    self._deleting.discard(stream_id)
                    self.remove(stream)

    def save(self, stream: Stream, *, frees: bool = False) -> None:
        """Store a changed stream; durable when this returns. When it cannot be stored it is as it was.

        With `frees` it is stored on a full disk too, as what gives room back.
        """
        try:
            with self._database.transaction(frees=frees):
                self._documents.put(stream.stream_id, stream.document())
        except BaseException:
            stored = self._documents.get(stream.stream_id)
            if stored is not None:
                stream.take_back(Stream.from_document(stored))
            raise

    def remove(self, stream: Stream) -> None:
        """Delete a stream and its records."""
        with self.lock:
            with self.consumers.lock, self._database.transaction(frees=True):
                self.consumers.remove_of(stream)
                self._documents.delete(stream.stream_id)
                self.marks.forget(self._folder / stream.stream_id)
            self.streams.pop((stream.account, stream.region, stream.name), None)
            self.by_id.pop(stream.stream_id, None)
            for shard in stream.shards:
                if shard.log is not None:
                    with shard.log.lock:
                        shard.log.end()
        self.wake(stream)
        if self.throttle is not None:
            self.throttle.forget(stream)
        discard(self._folder / stream.stream_id)

    # --- shards -------------------------------------------------------------------------------

    def _open_log(
        self, stream: Stream, shard: Shard, known: Mapping[Path, Known] | None = None
    ) -> None:
        folder = self._folder / stream.stream_id / shard.shard_id
        identity = identity_of(stream.stream_id, shard.shard_id)
        of_log = NOTHING_KNOWN if known is None else known.get(folder, NOTHING_KNOWN)
        shard.log = shard_log = ShardLog(folder, shard.base, identity, known=of_log)
        shard_log.before_trim = lambda start: self.marks.note_start(shard_log, start)
        if self.flusher is not None:
            shard.log.synced_index = shard.log.next_index
        if shard.closed_ms is not None:
            with shard.log.lock:
                shard.log.end()

    def reshard(self, stream: Stream, steps: Sequence[ReshardStep], now_ms: int) -> None:
        """Close shards and open their children: wholly, or, after a kill, not at all.

        Each step names open shards (by shard or by range, children of earlier steps included) and the
        ranges that replace them. The caller holds `lock`.
        """
        opened = {(s.starting_hash_key, s.ending_hash_key): s for s in stream.open_shards}
        children: list[Shard] = []
        closing: list[Shard] = []
        number = max(shard.number for shard in stream.shards) + 1
        for parents_given, ranges in steps:
            parents = [p if isinstance(p, Shard) else opened[p] for p in parents_given]
            parents.sort(key=lambda p: p.starting_hash_key)
            for parent in parents:
                del opened[(parent.starting_hash_key, parent.ending_hash_key)]
            closing.extend(parents)
            for start, end in ranges:
                child = Shard(
                    number=number,
                    starting_hash_key=start,
                    ending_hash_key=end,
                    created_ms=now_ms,
                    # Later than every parent's second: children's sequence numbers are above theirs.
                    created_s=max(now_ms // 1000, *(p.created_s + 1 for p in parents)),
                    parent=parents[0].shard_id,
                    adjacent_parent=parents[1].shard_id if len(parents) > 1 else None,
                )
                number += 1
                opened[(start, end)] = child
                children.append(child)
        try:
            for child in children:
                self._open_log(stream, child)
            self._replace(stream, closing, children, now_ms)
        except BaseException:
            for child in children:
                if child.log is not None:
                    child.log.close_files()
                discard(self._folder / stream.stream_id / child.shard_id)
            raise

    def _replace(
        self, stream: Stream, closing: list[Shard], children: list[Shard], now_ms: int
    ) -> None:
        """Store a reshard in one write while no append can pass, then let it show."""
        with contextlib.ExitStack() as held:
            for shard in closing:
                assert shard.log is not None
                held.enter_context(shard.log.lock)
                shard.closed_ms = now_ms
            before = stream.shards
            stream.shards = [*before, *children]
            try:
                self.update(stream, now_ms)
            except BaseException:
                stream.shards = before
                for shard in closing:
                    shard.closed_ms = None
                raise
            stream.index_routes()
            for shard in closing:
                assert shard.log is not None
                shard.log.end()
        self.wake(stream)

    # --- waking readers -----------------------------------------------------------------------

    def subscribe(self, stream_arn: str, wake: Wake) -> Callable[[], None]:
        """See `StreamReader.subscribe`."""
        with self.lock:
            self._subscribers[stream_arn] = [*self._subscribers.get(stream_arn, []), wake]

        def undo() -> None:
            with self.lock:
                left = [w for w in self._subscribers.get(stream_arn, []) if w is not wake]
                self._subscribers[stream_arn] = left

        return undo

    def wake(self, stream: Stream) -> None:
        """Tell whoever reads the stream that there is something new."""
        if self._subscribers:
            for wake in self._subscribers.get(stream.arn, ()):
                wake()


def _key_of_arn(arn: str) -> tuple[str, str, str] | None:
    """Return (account, region, name) of a stream's ARN; None for anything else."""
    try:
        parsed = Arn.parse(arn)
    except InvalidArn:
        return None
    kind, _, name = parsed.resource.partition("/")
    return (parsed.account, parsed.region, name) if kind == "stream" else None


def kinesis_api(kinesis: Kinesis) -> ServiceApi:
    """Return the service for the gateway."""
    from headrace.services.kinesis import actions
    from headrace.services.kinesis.actions.subscribe_to_shard import SubscribeToShardWire

    throttle = kinesis.throttle
    all_actions = actions.ALL
    if throttle is not None:
        all_actions = [rated(action, throttle) for action in all_actions]
    hot, subscribe = HotPath(kinesis), SubscribeToShardWire(kinesis)
    return ServiceApi(
        name="kinesis",
        backend=kinesis,
        actions=all_actions,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
        raw=lambda request: hot.handle(request) or subscribe.handle(request),
        # A write to the page cache; with fsync the answer waits for the disk, not the thread.
        inline=frozenset({"GetRecords", "PutRecord", "PutRecords"}),
        subject=functools.partial(subject_of, kinesis),
    )
