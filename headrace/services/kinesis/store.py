"""Stores streams and account settings: documents in the database, and a folder with a log for each shard.

All streams in memory, by name and by id, and the listeners that are told of new records.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from headrace.core.arn import Arn, InvalidArn
from headrace.core.ids import Ids
from headrace.core.ports import AnyKeys, KeyStates
from headrace.services.kinesis.permits import StreamKeys
from headrace.services.kinesis.state import Commitment, Shard, Stream, Wake
from headrace.store.check import STREAMS_FOLDER, Marks
from headrace.store.database import Database, Documents
from headrace.store.folders import clear, discard
from headrace.store.losses import NOTHING_KNOWN, KnownLog
from headrace.store.shard_log import ShardLog, identity_of

Key = tuple[str, str, str]


class StreamRegistry:
    """The streams of all accounts and regions. Thread-safe.

    Args:
        keys: KMS.

    Attributes:
        by_name: the streams by (account, region, name).
        by_id: the streams by `stream_id`.
        keys: checks the KMS keys of the streams.
    """

    def __init__(self, keys: KeyStates | None = None) -> None:
        self.by_name: dict[Key, Stream] = {}
        self.by_id: dict[str, Stream] = {}
        self.keys = StreamKeys(keys or AnyKeys())
        # By ARN, not in the stream: a listener stays when its stream is deleted and created again.
        self._listeners: dict[str, tuple[Wake, ...]] = {}
        # Reentrant: the garbage collector may unsubscribe a reader while this thread holds the lock.
        self._lock = threading.RLock()

    def add(self, stream: Stream) -> None:
        """Let requests see a stream, and index its open shards."""
        stream.index_routes()
        with self._lock:
            stream.listeners = self._listeners.get(stream.arn, ())
            self.by_name[(stream.account, stream.region, stream.name)] = stream
            self.by_id[stream.stream_id] = stream

    def remove(self, stream: Stream) -> None:
        """Hide a stream from requests."""
        self.by_name.pop((stream.account, stream.region, stream.name), None)
        self.by_id.pop(stream.stream_id, None)

    def find_arn(self, arn: str) -> Stream | None:
        """Return the stream with this ARN, or None."""
        key = key_of_arn(arn)
        return None if key is None else self.by_name.get(key)

    def subscribe(self, stream_arn: str, wake: Wake) -> Callable[[], None]:
        """See `StreamReader.subscribe`."""
        with self._lock:
            self._listen(stream_arn, (*self._listeners.get(stream_arn, ()), wake))

        def undo() -> None:
            with self._lock:
                left = tuple(w for w in self._listeners.get(stream_arn, ()) if w is not wake)
                self._listen(stream_arn, left)

        return undo

    def _listen(self, stream_arn: str, listeners: tuple[Wake, ...]) -> None:
        self._listeners[stream_arn] = listeners
        stream = self.find_arn(stream_arn)
        if stream is not None:
            stream.listeners = listeners

    def wake(self, stream: Stream) -> None:
        """Tell the listeners of a stream that it has new records or has changed, even after `remove`."""
        for wake in self._listeners.get(stream.arn, ()):
            wake()


@functools.lru_cache(maxsize=1000)
def key_of_arn(arn: str) -> Key | None:
    """Return (account, region, name) from a stream's ARN, or None for any other text."""
    try:
        parsed = Arn.parse(arn)
    except InvalidArn:
        return None
    kind, _, name = parsed.resource.partition("/")
    return (parsed.account, parsed.region, name) if kind == "stream" else None


log = logging.getLogger(__name__)


class StreamStore:
    """Stores the documents and logs of all streams. Thread-safe; callers make one change of a stream at a time.

    Attributes:
        marks: where each log ended; the next start and `headrace check` find missing records by it.
        losses: one sentence for each gap of missing records that `load` found.
    """

    def __init__(self, database: Database, data_dir: Path, *, fsync: bool) -> None:
        self.database = database
        self.marks = Marks(database, data_dir, fsync=fsync)
        self.losses: list[str] = []
        self._documents = database.documents("kinesis_streams")
        self._folder = data_dir / STREAMS_FOLDER
        self._fsync = fsync

    def load(self) -> list[Stream]:
        """Return all streams with open logs. Remove what is left of changes that a kill interrupted."""
        known = self.marks.known()
        streams: list[Stream] = []
        for _, document in self._documents.items():  # noqa: PERF102 - not a dict
            stream = Stream.from_document(document)
            for shard in stream.shards:
                self.open_log(stream, shard, known)
                self._report_losses(stream, shard)
            streams.append(stream)
        self._remove_orphans(streams)
        return streams

    def _report_losses(self, stream: Stream, shard: Shard) -> None:
        """Log which records are missing. Reads at a gap raise an error until the user accepts the loss."""
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

    def _remove_orphans(self, streams: Iterable[Stream]) -> None:
        """Remove the logs that deletions, creations and reshards left behind when a kill interrupted them.

        No acknowledged record is lost: a shard takes records only once it is in the database.
        """
        shard_ids = {s.stream_id: {shard.shard_id for shard in s.shards} for s in streams}
        clear(self._folder, set(shard_ids))
        for stream_id, present in shard_ids.items():
            clear(self._folder / stream_id, present)

    def add(self, stream: Stream) -> None:
        """Store a new stream: its logs, then its document. If this fails, remove the logs again."""
        try:
            for shard in stream.shards:
                self.open_log(stream, shard)
            self._documents.put(stream.stream_id, stream.document())
        except BaseException:
            _close(stream.shards)
            discard(self._folder / stream.stream_id)
            raise

    def save(self, stream: Stream, *, frees: bool = False) -> None:
        """Store a changed stream; the change is durable when this returns. If this fails, take the change back.

        `frees` says that the change frees disk space; such a change is stored even when the disk is full.
        """
        try:
            with self.database.transaction(frees=frees):
                self._documents.put(stream.stream_id, stream.document())
        except BaseException:
            stored = self._documents.get(stream.stream_id)
            if stored is not None:
                stream.restore(Stream.from_document(stored))
            raise

    def delete(self, stream: Stream) -> None:
        """Remove a stream's document and marks. Call `discard` afterwards to remove its records."""
        self._documents.delete(stream.stream_id)
        self.marks.forget(self._folder / stream.stream_id)

    def discard(self, stream: Stream) -> None:
        """Remove a deleted stream's logs."""
        discard(self._folder / stream.stream_id)

    def discard_shards(self, stream: Stream, shards: Iterable[Shard]) -> None:
        """Remove the logs of shards that were opened but never stored."""
        for shard in shards:
            _close([shard])
            discard(self._folder / stream.stream_id / shard.shard_id)

    def mark(self, streams: Iterable[Stream]) -> None:
        """Save where every log ends."""
        shards = (shard for stream in streams for shard in stream.shards)
        self.marks.note(shard.log for shard in shards if shard.log is not None)

    def close(self, streams: Iterable[Stream]) -> None:
        """Close the logs."""
        for stream in streams:
            _close(stream.shards)

    def open_log(
        self, stream: Stream, shard: Shard, known: Mapping[Path, KnownLog] | None = None
    ) -> None:
        """Open or create a shard's log. `known` says where the log ended, so that missing records are noticed."""
        folder = self._folder / stream.stream_id / shard.shard_id
        identity = identity_of(stream.stream_id, shard.shard_id)
        of_log = NOTHING_KNOWN if known is None else known.get(folder, NOTHING_KNOWN)
        shard.log = shard_log = ShardLog(folder, shard.base, identity, known=of_log)
        shard_log.before_trim = lambda start: self.marks.note_start(shard_log, start)
        if self._fsync:
            shard.log.synced_index = shard.log.next_index
        if shard.closed_ms is not None:
            with shard.log.lock:
                shard.log.end()


class AccountSettings:
    """Stores billing commitments by account and region. The caller holds the service's lock."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._known: dict[str, Commitment] = {
            key: Commitment(**value) for key, value in documents.items("commitment/")
        }

    def commitment(self, account: str, region: str) -> Commitment:
        """Return an account's commitment in a region."""
        return self._known.get(_key(account, region), Commitment())

    def is_committed(self, account: str, region: str, now_ms: int) -> bool:
        """Whether the account's on-demand streams run in on-demand Advantage mode."""
        return self.commitment(account, region).status(now_ms) != "DISABLED"

    def set(self, account: str, region: str, commitment: Commitment) -> None:
        """Store a changed commitment; it is durable when this returns."""
        key = _key(account, region)
        self._documents.put(key, asdict(commitment))
        self._known[key] = commitment


def iterator_key(settings: Documents, ids: Ids) -> bytes:
    """Return the key that authenticates iterators and tokens. The first start makes the key."""
    stored = settings.get("iterator_key")
    if stored is None:
        stored = ids.bytes(32).hex()
        settings.put("iterator_key", stored)
    return bytes.fromhex(stored)


def _close(shards: Iterable[Shard]) -> None:
    for shard in shards:
        if shard.log is not None:
            shard.log.close_files()


def _key(account: str, region: str) -> str:
    return f"commitment/{account}/{region}"
