"""The log of one shard: segments in a folder, one appender, any number of readers.

When `append_columns` returns, the operating system has the records (they survive kill -9); `sync` writes them to the
disk. A torn end is cut off when the log is opened, and reported. The caller passes the time.

Records are rendered as the JSON that GetRecords sends once, when they are put.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path

from headrace.store import frame
from headrace.store.folders import sync_path
from headrace.store.frame import Batch, SharedFrame
from headrace.store.losses import (
    NOTHING_KNOWN,
    DamageLog,
    KnownLog,
    LogDamaged,
    Loss,
    describe,
    end_of_gap,
    first_arrived_at,
    frames,
    open_segments,
)
from headrace.store.segment import Segment, SegmentDeleted
from headrace.store.sequence import STEP, SequenceBase

log = logging.getLogger(__name__)

_MOST_SHARED = 256
ROLL_AT_BYTES = 128 * 1024 * 1024
# Retention deletes whole segments: a segment that spans more time keeps old records longer.
ROLL_AFTER_MS = 3_600_000
_FIRST_INDEX = attrgetter("first_index")


class LogClosed(Exception):
    """The shard was split or merged: it takes no more records."""


class LogFull(Exception):
    """The disk did not take the batch; no record of it is in the log."""


def identity_of(stream_id: str, shard_id: str) -> bytes:
    """Return the 32 bytes that identify the segments of a shard."""
    return hashlib.sha256(f"{stream_id}/{shard_id}".encode()).digest()


class ShardLog:
    """Thread-safe: appends take a lock; reads do not.

    Attributes:
        lock: held while a thread appends to, rolls, trims or ends the log.
        closed: it takes no more records; see `end`.
        synced_index: one past the last record on the disk, when readers must not see records beyond it (the caller that
            syncs every append sets it); None when they may.
        dropped_bytes: the size of a torn end that was cut off when the log was opened, and kept beside it.
        losses: the records that were found missing when the log was opened.
        before_trim: called with the index of the oldest record that stays, before retention deletes older ones; the
            caller does not hold `lock`.
        roll_after_ms: a segment spans no more time, since retention deletes whole segments.
    """

    def __init__(
        self,
        folder: Path,
        base: SequenceBase,
        identity: bytes,
        *,
        known: KnownLog = NOTHING_KNOWN,
        roll_at_bytes: int = ROLL_AT_BYTES,
    ) -> None:
        """Open or create the log in `folder`; `known` is its entry in the state database.

        Damage does not prevent opening a log: see `losses` and `read`. Raises OSError.
        """
        self.folder = folder
        self.base = base
        self.lock = threading.Lock()
        self._trim_lock = threading.Lock()
        self.closed = False
        self.synced_index: int | None = None
        self.roll_after_ms = ROLL_AFTER_MS
        self._identity = identity
        self._roll_at_bytes = roll_at_bytes
        self._zero_second, self._zero = -1, 0
        self._unsynced: list[Segment] = []
        # The frame that `append_shared` still adds to; it is written before any other.
        self._shared: SharedFrame | None = None
        self._folder_synced = False
        self._damage = DamageLog()
        opened = open_segments(folder, identity, known)
        self._segments: list[Segment] = opened.segments
        self.losses: list[Loss] = opened.losses
        self.dropped_bytes = opened.dropped_bytes
        self.before_trim: Callable[[int], None] | None = None
        # The oldest record that should be there; lower than the first segment's when earlier segments are missing.
        self._start_index = min(
            [self._segments[0].first_index, *(s.first_index for s in self.losses if not s.accepted)]
        )

    @property
    def first_index(self) -> int:
        """The index of the oldest record, or of the next one when there is none."""
        return self._start_index

    @property
    def next_index(self) -> int:
        """The index that the next record will have."""
        return self._segments[-1].end_index

    @property
    def readable_index(self) -> int:
        """The index after the last record that readers may see."""
        synced = self.synced_index
        return self.next_index if synced is None else synced

    @property
    def stored_bytes(self) -> int:
        """The bytes of the log's files; retention makes them fewer."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def last_arrival_ms(self) -> int:
        """When the last record arrived; 0 when there never was one, or retention has deleted it."""
        for segment in reversed(self._segments):
            if segment.last_arrival_ms:
                return segment.last_arrival_ms
        return 0

    # --- appending ----------------------------------------------------------------------------

    def append_columns(
        self,
        data: Sequence[str],
        keys: Sequence[str],
        data_bytes: int,
        now_ms: int,
        tail: str = "",
    ) -> list[str]:
        """Append records, given as columns, and return their sequence numbers, in order.

        Args:
            data: base64 texts.
            keys: partition keys as they stand between the quotes of a JSON string, in ASCII.
            data_bytes: the decoded size of data and keys, for metrics and read limits.
            now_ms: the time; never goes back within a shard, whatever is given.
            tail: JSON that follows in each record, such as `,"EncryptionType":"KMS"`.

        Raises LogClosed, LogFull: then no record of the batch is in the log.
        """
        with self.lock:
            segment, arrival_ms = self._next(now_ms)
            index, count = segment.end_index, len(data)
            value = self._number_zero(arrival_ms) + STEP * index
            numbers = [str(value)]
            # Quicker than a range, which costs as much to begin as six numbers.
            for _ in range(1, count):
                value += STEP
                numbers.append(str(value))
            payload = frame.render(numbers, data, keys, arrival_ms, tail)
            encoded = frame.encode(payload, count, data_bytes, index, arrival_ms)
            self._write(segment, encoded, count, arrival_ms)
        return numbers

    def append_payload(self, payload: bytes, count: int, data_bytes: int, now_ms: int) -> str:
        """Append records that carry no sequence number; return the sequence number of the first.

        Readers compute the numbers from `Batch.starts`.

        Args:
            payload: JSON values joined by `frame.SEPARATOR`; no value contains it.
            count: of the records.
            data_bytes: their decoded size.
            now_ms: the time; never goes back within a shard, whatever is given.

        Raises LogClosed, LogFull: then no record of the batch is in the log.
        """
        with self.lock:
            segment, arrival_ms = self._next(now_ms)
            index = segment.end_index
            number = str(self._number_zero(arrival_ms) + STEP * index)
            encoded = frame.encode(payload, count, data_bytes, index, arrival_ms)
            self._write(segment, encoded, count, arrival_ms)
        return number

    def append_shared(
        self, data: str, key: str, data_bytes: int, now_ms: int, tail: str
    ) -> tuple[str, SharedFrame]:
        """Add a record to a frame that is not written yet; return its sequence number, and the frame.

        Nobody may be told that the record is stored before `SharedFrame.write` has returned True. The log writes the
        frame itself before anything that follows: another append, a later millisecond, or its end. The arguments are as
        for `append_columns`, of one record with a key.

        Raises LogClosed.
        """
        with self.lock:
            shared = self._shared
            if shared is None or now_ms > shared.arrival_ms or len(shared.sizes) >= _MOST_SHARED:
                segment, arrival_ms = self._next(now_ms)
                number = self._number_zero(arrival_ms) + STEP * segment.end_index
                shared = self._shared = SharedFrame(number, arrival_ms, self.write_shared)
            return shared.add(data, key, data_bytes, tail), shared

    def write_shared(self, shared: SharedFrame) -> None:
        """Write a shared frame if it still waits; see `SharedFrame.is_written`."""
        if shared.is_written:
            return
        # With the lock also to look: another thread may be writing it.
        with self.lock:
            if self._shared is shared:
                self._write_waiting()

    def _write_waiting(self) -> None:
        """Write the frame that waits, if there is one. The caller holds `lock`."""
        shared, self._shared = self._shared, None
        if shared is None:
            return
        segment, count = self._segments[-1], len(shared.sizes)
        encoded = frame.encode(
            shared.payload, count, sum(shared.sizes), segment.end_index, shared.arrival_ms
        )
        try:
            self._write(segment, encoded, count, shared.arrival_ms)
        except LogFull:
            return  # each of the requests is told so when it is answered again: `is_written` stays False
        shared.is_written = True

    def _next(self, now_ms: int) -> tuple[Segment, int]:
        """Return the index and the arrival time of the next records. The caller holds `lock`."""
        if self._shared is not None:
            self._write_waiting()
        if self.closed:
            raise LogClosed
        segment = self._segments[-1]
        last_ms = segment.last_arrival_ms or self.last_arrival_ms
        return segment, max(now_ms, last_ms)

    def _write(self, segment: Segment, encoded: bytes, count: int, arrival_ms: int) -> None:
        """Write one frame, into a new segment when one is due. The caller holds `lock`."""
        is_due = (
            segment.size_bytes + len(encoded) > self._roll_at_bytes
            or arrival_ms - segment.first_arrival_ms >= self.roll_after_ms
        )
        try:
            # An empty segment takes a frame of any size, at any time.
            if is_due and segment.end_index != segment.first_index:
                segment = self._roll(segment)
            segment.append(encoded, segment.end_index, count, arrival_ms)
        except OSError as error:
            raise LogFull(os.strerror(error.errno or 0)) from error

    def _number_zero(self, arrival_ms: int) -> int:
        """The sequence number of index 0 at that time: computed once a second, not once a batch."""
        second = arrival_ms // 1000
        if second != self._zero_second:
            self._zero_second, self._zero = second, self.base.first_of(0, arrival_ms)
        return self._zero

    def _roll(self, full: Segment) -> Segment:
        following = Segment.create(self.folder, full.end_index, self._identity)
        # The sealed segment may not be on the disk yet: `sync` covers it too.
        self._unsynced = [*self._unsynced, full]
        # A new list, since readers may be iterating over the old one.
        self._segments = [*self._segments, following]
        full.seal()
        return following

    def sync(self) -> None:
        """Write every append that has returned to the disk. For one thread at a time. Raises OSError."""
        with self.lock:
            sealed, self._unsynced = self._unsynced, []
            tail = self._segments[-1]
            end_index = tail.end_index
        try:
            for segment in (*sealed, tail):
                segment.sync()
            if sealed or not self._folder_synced:
                # A file's name is on the disk only when its folder has been synced too.
                for folder in (self.folder, *self.folder.parents[:2]):
                    sync_path(folder)
                self._folder_synced = True
            if self.synced_index is not None:
                self.synced_index = end_index
        except OSError:
            with self.lock:
                self._unsynced = [*sealed, *self._unsynced]
            raise

    # --- reading ------------------------------------------------------------------------------

    def read_readable(self, index: int, max_records: int, max_data_bytes: int) -> Batch:
        """Do as `read` with the records that readers may see: if the log is synced, those that are on the disk."""
        if self.synced_index is not None:
            left = self.synced_index - max(index, self.first_index)
            max_records = min(max_records, max(0, left))
        return self.read(index, max_records, max_data_bytes)

    def read(self, index: int, max_records: int, max_data_bytes: int) -> Batch:
        """Return records from `index` on (from the oldest one, when retention has deleted that record).

        Returns at least one record when there is one, however large. Raises LogDamaged when the first record is lost or
        damaged; records before such a record are returned first. Losses that were accepted are skipped.
        """
        while True:
            segments = self._segments
            try:
                return self._read(segments, index, max_records, max_data_bytes)
            except SegmentDeleted:
                # Retention has deleted the segment meanwhile, or the whole stream was deleted.
                if segments is not self._segments:
                    continue
                if self.closed and not self.folder.exists():
                    return Batch([], [], 0, 0, index, None)
                raise self._damage.log_once(
                    LogDamaged(f"{self.folder}: a segment is gone", index, index + 1)
                ) from None

    def _read(
        self, segments: list[Segment], index: int, max_records: int, max_data_bytes: int
    ) -> Batch:
        index = max(index, self._start_index)
        if index >= segments[-1].end_index:
            # Consumers that wait for new records end here most of the time.
            return Batch([], [], 0, 0, index, None)
        at = max(0, bisect_right(segments, index, key=_FIRST_INDEX) - 1)
        payloads: list[bytes | memoryview] = []
        starts: list[tuple[int, int]] = []
        count = data_bytes = 0
        last_arrival: int | None = None
        try:
            for segment in segments[at:]:
                if segment.first_index > index:
                    index = self._pass_gap(index, segment.first_index)
                if index >= segment.end_index:
                    continue
                for header, payload in frames(segment, index):
                    if header.first_index > index:
                        index = self._pass_gap(index, header.first_index)
                    skip = index - header.first_index
                    take = min(header.count - skip, max_records - count)
                    bytes_each = header.data_bytes / header.count
                    room = int((max_data_bytes - data_bytes) // max(bytes_each, 1))
                    if room < take:
                        # To cut a frame costs more than all else here: half of what may be read is enough without.
                        is_enough = 2 * data_bytes >= max_data_bytes
                        take = 0 if count and is_enough else max(room, 0 if count else 1)
                    if take <= 0:
                        return Batch(payloads, starts, count, data_bytes, index, last_arrival)
                    whole = take == header.count
                    if not whole:
                        payload = frame.cut(payload, skip, take)
                    payloads.append(payload)
                    starts.append((index, header.arrival_ms))
                    count += take
                    data_bytes += header.data_bytes if whole else int(bytes_each * take)
                    index += take
                    last_arrival = header.arrival_ms
                    if count >= max_records or data_bytes >= max_data_bytes:
                        return Batch(payloads, starts, count, data_bytes, index, last_arrival)
        except LogDamaged as error:
            if not count:
                raise self._damage.log_once(error) from None
            # The next read starts here and raises the error.
        return Batch(payloads, starts, count, data_bytes, index, last_arrival)

    def _pass_gap(self, index: int, following: int) -> int:
        """See `end_of_gap`."""
        return end_of_gap(index, following, self.losses, self.folder, self.describe)

    def describe(self, loss: Loss) -> str:
        """Return one sentence: which records are missing, and where they were."""
        return describe(loss, self.folder.name, self.base, self._segments)

    def index_at(self, timestamp_ms: int) -> int:
        """Return the index of the first record that arrived at or after `timestamp_ms`.

        When lost records may have arrived then, the index of the first of these.
        """
        following = self.next_index
        for segment in self._segments:
            if segment.last_arrival_ms < timestamp_ms:
                continue
            first_arrived = first_arrived_at(segment, timestamp_ms)
            if first_arrived is not None:
                following = first_arrived
                break
        for loss in self.losses:
            if loss.end_index == following and not loss.accepted:
                return loss.first_index
        return following

    # --- trimming and closing -----------------------------------------------------------------

    def trim(self, horizon_ms: int) -> int:
        """Delete the segments whose records all arrived before `horizon_ms`; return how many.

        Appends continue meanwhile: `before_trim`, which writes to the database, is called without `lock`.
        """
        with self._trim_lock:
            with self.lock:
                old = self._old_segments(horizon_ms)
                following = self._segments[old].first_index
            if not old:
                return 0
            if self.before_trim is not None:
                self.before_trim(following)
            with self.lock:
                # Only `trim` removes segments at the front; appends add them at the end.
                gone, self._segments = self._segments[:old], self._segments[old:]
                self._start_index = following
                self.losses = [loss for loss in self.losses if loss.end_index > following]
            for segment in gone:
                segment.delete()
        return len(gone)

    def _old_segments(self, horizon_ms: int) -> int:
        """Return how many segments at the front are old; when all are, begin a new one. The caller holds `lock`."""
        old = 0
        for segment in self._segments[:-1]:
            if segment.last_arrival_ms >= horizon_ms:
                break
            old += 1
        tail = self._segments[-1]
        if (
            old == len(self._segments) - 1
            and tail.end_index > tail.first_index
            and tail.last_arrival_ms < horizon_ms
            and self._try_to_roll(tail)
        ):
            old += 1
        return old

    def _try_to_roll(self, tail: Segment) -> bool:
        try:
            self._roll(tail)
        except OSError as error:
            log.warning("%s: its records are kept for longer: %s", tail.path, error)
            return False
        return True

    def end(self) -> None:
        """Take no more records; existing ones stay readable. The caller holds `lock`."""
        self._write_waiting()
        self.closed = True
        self._segments[-1].close()

    def close_files(self) -> None:
        """Close the files; append nothing after this."""
        with self.lock:
            self._write_waiting()
        for segment in self._segments:
            segment.close()
