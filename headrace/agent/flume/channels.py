"""Flume's channels: events between sources and sinks, in memory, or in a log that survives kill -9.

An event leaves a channel when its sink commits, and not before: until then it counts against the capacity. The file
channel is one of the store's shard logs: a frame for each transaction of a source, and one for each commit of a sink.
What was committed by a sink and whose frame the system lost (a power cut) is delivered again.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from headrace.agent.flume.events import NO_HEADERS, ChannelFull, Event, bytes_of
from headrace.store.disk_space import free_bytes
from headrace.store.frame import MAX_PAYLOAD_BYTES
from headrace.store.losses import LogDamaged
from headrace.store.sequence import SequenceBase
from headrace.store.shard_log import LogFull, ShardLog, identity_of

_LOG = logging.getLogger("headrace.agent")
# A frame has 64 MiB at most.
_FRAME_BYTES = 16 << 20
_SEGMENT_BYTES = 64 << 20
# Of a file channel, so many bytes are also in memory, which spares their reading.
_MEMORY_BYTES = 32 << 20
_PUT, _DONE = 0, 1
_FIRST = attrgetter("first")


class Taken(NamedTuple):
    """Events that a sink has taken: a run of neighbours, whose first number is `first`."""

    first: int
    events: list[Event]

    def part(self, begin: int, end: int) -> Taken:
        """Return some of the run."""
        return Taken(self.first + begin, self.events[begin:end])


class _Stored(NamedTuple):
    """A run of events that is in the log's frame `frame`, whose first event has the number `frame_first`."""

    first: int
    length: int
    frame: int
    frame_first: int


class MemoryChannel:
    """A channel in memory: what is in it ends with the process. Thread-safe.

    Attributes:
        is_short: a source has waited for room since the last commit.
    """

    is_durable = False

    def __init__(
        self, name: str, *, capacity: int, transaction_capacity: int, keep_alive_s: float, most_bytes: int = 1 << 62
    ) -> None:  # fmt: skip
        """Take the bounds.

        Args:
            name: for sentences.
            capacity: of events, those that are taken and not yet committed among them.
            transaction_capacity: how many events one transaction has.
            keep_alive_s: how long a source waits for room.
            most_bytes: of all bodies.
        """
        self.name, self.capacity, self.transaction_capacity = name, capacity, transaction_capacity
        self._keep_alive_s, self._most_bytes = keep_alive_s, most_bytes
        self._changed = threading.Condition()
        self.is_short = False
        self._runs: deque[Taken | _Stored] = deque()
        self._next = 0
        self._used = self._reserved = 0
        self._bytes: int = 0

    @property
    def used(self) -> int:
        """How many events are in it, those that a sink has taken and not committed among them."""
        return self._used

    def reserve(self, events: Sequence[Event]) -> None:
        """Wait until there is room for a transaction, and keep it for `append` or `release`. Raises ChannelFull."""
        count, size = len(events), bytes_of(events)
        if count > self.transaction_capacity:
            raise ChannelFull(
                f"channel {self.name} takes {self.transaction_capacity} events in a transaction, not {count}"
            )
        with self._changed:
            self.is_short = self.is_short or not self._has_room(count, size)
            if not self._changed.wait_for(lambda: self._has_room(count, size), self._keep_alive_s):
                raise ChannelFull(
                    f"channel {self.name} is full: {self._used} of {self.capacity} events"
                )
            self._reserved += count
            self._bytes += size

    def _has_room(self, count: int, size: int) -> bool:
        is_empty = not self._used and not self._reserved
        return self._used + self._reserved + count <= self.capacity and (
            is_empty or self._bytes + size <= self._most_bytes
        )

    def release(self, events: Sequence[Event]) -> None:
        """Give back what `reserve` kept."""
        with self._changed:
            self._reserved -= len(events)
            self._bytes -= bytes_of(events)
            self._changed.notify_all()

    def append(self, events: Sequence[Event]) -> None:
        """Put a transaction for which room was reserved. Raises ChannelFull: then the reservation stays."""
        with self._changed:
            run = Taken(self._next, list(events))
            self._next += len(events)
            self._publish([run], len(events))

    def _publish(self, runs: Iterable[Taken | _Stored], count: int) -> None:
        """Let sinks see reserved events. The caller holds the lock."""
        for run in runs:
            self._insert(run)
        self._reserved -= count
        self._used += count
        self._changed.notify_all()

    def _insert(self, run: Taken | _Stored) -> None:
        if not self._runs or self._runs[-1].first < run.first:
            self._runs.append(run)
        else:
            self._runs.insert(bisect_right(self._runs, run.first, key=_FIRST), run)

    def take(self, most: int, timeout_s: float = 0.0) -> Taken | None:
        """Return the oldest events, at most so many, or None when there are none within the time."""
        with self._changed:
            if not self._runs:
                self._changed.wait_for(lambda: self._runs, timeout_s)
            if not self._runs:
                return None
            first, events = self._runs[0].first, list[Event]()
            # Only neighbours, so that a commit is one range.
            while self._runs and len(events) < most and self._runs[0].first == first + len(events):
                run = self._pop()
                left = most - len(events)
                if len(run.events) > left:
                    self._runs.appendleft(run.part(left, len(run.events)))
                    run = run.part(0, left)
                events += run.events
            return Taken(first, events) if events else None

    def _pop(self) -> Taken:
        run = self._runs.popleft()
        assert isinstance(run, Taken)
        return run

    def commit(self, taken: Taken) -> None:
        """Let events go that were delivered: all that were taken, or a run of them."""
        with self._changed:
            self._forget(taken)
            self.is_short = False
            self._used -= len(taken.events)
            self._bytes -= bytes_of(taken.events)
            self._changed.notify_all()

    def _forget(self, taken: Taken) -> None:
        """Note that events have left."""

    def rollback(self, taken: Taken) -> None:
        """Put events back that were not delivered, where they were."""
        with self._changed:
            self._insert(taken)
            self._changed.notify_all()

    def close(self) -> None:
        """Close it, and say what ends with it."""
        if self._used:
            _LOG.error(
                "channel %s ends with %d events in memory, which are lost", self.name, self._used
            )


class ChannelDamaged(Exception):
    """A file channel cannot be opened. The message is one sentence."""


@dataclass(slots=True)
class _Frame:
    """A frame of the log whose events have not all left: its index, its first event, and how many are left."""

    index: int
    first: int
    left: int


class FileChannel(MemoryChannel):
    """A channel in a shard log. Thread-safe; one process at a time.

    Durability: `append` returns when the operating system has the events, with `fsync` the disk.
    """

    is_durable = True

    def __init__(
        self, name: str, folder: Path, *, capacity: int, transaction_capacity: int, keep_alive_s: float,
        least_free_bytes: int = 0, fsync: bool = True, segment_bytes: int = _SEGMENT_BYTES,
    ) -> None:  # fmt: skip
        """Open the folder or make it, and find what is still in it. Raises ChannelDamaged, OSError."""
        super().__init__(
            name,
            capacity=capacity,
            transaction_capacity=transaction_capacity,
            keep_alive_s=keep_alive_s,
        )
        self.folder = folder
        self._least_free_bytes, self._fsync, self._sync_lock = (
            least_free_bytes,
            fsync,
            threading.Lock(),
        )
        folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = os.open(folder / "in_use.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock_file)
            raise ChannelDamaged(f"another process uses channel {name} in {folder}") from error
        self._log = ShardLog(
            folder, SequenceBase(0, 0), identity_of("flume", "channel"),
            roll_at_bytes=min(segment_bytes, _SEGMENT_BYTES),
        )  # fmt: skip
        # The log's time is the number of a frame, so that what has left is trimmed by number.
        self._log.roll_after_ms = 1 << 62
        for loss in self._log.losses:
            _LOG.error(
                "channel %s: %s %s: events of %d transactions are lost",
                name,
                loss.path,
                loss.why,
                loss.count,
            )
        # In order of their events.
        self._frames: list[_Frame] = []
        self._recover()

    def _recover(self) -> None:
        """Read the log: what sources put, less what sinks have committed."""
        done: list[tuple[int, int]] = []
        puts: list[tuple[int, int, list[int]]] = []
        index = self._log.first_index
        while index < self._log.next_index:
            try:
                index, kind, first, content = self._read(index)
            except LogDamaged as error:
                # It is named, and what lies behind it is delivered.
                _LOG.error("channel %s: %s; what lies there is lost", self.name, error)
                index = max(error.end_index, index + 1)
                continue
            if kind == _PUT:
                count = len(content[-1])
                puts.append((index, first, [len(body) for body in content[-1]]))
            else:
                count = int(content[0])
                done.append((first, first + count))
            self._next = max(self._next, first + count)
            index += 1
        done = _merge_ranges(done)
        for index, first, sizes in puts:
            rest = list(_rest(first, first + len(sizes), done))
            left = sum(end - begin for begin, end in rest)
            if left:
                self._frames.append(_Frame(index, first, left))
                self._runs.extend(_Stored(begin, end - begin, index, first) for begin, end in rest)
                self._used += left
                self._bytes += sum(sum(sizes[b - first : e - first]) for b, e in rest)

    def _read(self, index: int) -> tuple[int, int, int, list[Any]]:
        """Return the frame at an index or behind a loss: its index, kind, first event's number, and the rest.

        Raises LogDamaged.
        """
        batch = self._log.read(index, 1, 1 << 62)
        kind, first, *content = msgspec.msgpack.decode(batch.payloads[0])
        return batch.starts[0][0], kind, first, content

    def append(self, events: Sequence[Event]) -> None:
        """See `MemoryChannel.append`."""
        if free_bytes(self.folder) < self._least_free_bytes + bytes_of(events):
            raise ChannelFull(
                f"channel {self.name}: {self.folder} has less than minimumRequiredSpace, {self._least_free_bytes} bytes"
            )
        runs: list[Taken | _Stored] = []
        try:
            with self._changed:
                is_kept = self._bytes < _MEMORY_BYTES
                for part in _parts(events):
                    first, self._next = self._next, self._next + len(part)
                    index = self._write(_PUT, first, *_columns(part))
                    self._frames.append(_Frame(index, first, len(part)))
                    runs.append(
                        Taken(first, part) if is_kept else _Stored(first, len(part), index, first)
                    )
            if self._fsync:
                with self._sync_lock:
                    self._log.sync()
        except (LogFull, OSError) as error:
            # What is in the log already is delivered by the next start, and perhaps again.
            raise ChannelFull(
                f"channel {self.name} cannot write to {self.folder}: {error}"
            ) from error
        with self._changed:
            self._publish(runs, len(events))

    def _write(self, *content: Any) -> int:
        index, payload = self._log.next_index, msgspec.msgpack.encode(content)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise LogFull(f"an event of {len(payload)} bytes is too large")
        self._log.append_payload(payload, 1, 0, index)
        return index

    def _pop(self) -> Taken:
        run = self._runs.popleft()
        if isinstance(run, Taken):
            return run
        try:
            _, _, _, (headers, which, bodies) = self._read(run.frame)
        except LogDamaged as error:
            _LOG.error("channel %s: %s; %d events are lost", self.name, error, run.length)
            self._used -= run.length
            self._settle(run.first, run.length)
            return Taken(run.first, [])
        begin = run.first - run.frame_first
        rows = zip(
            which[begin : begin + run.length], bodies[begin : begin + run.length], strict=True
        )
        return Taken(run.first, [Event(headers[at], body) for at, body in rows])

    def _forget(self, taken: Taken) -> None:
        try:
            self._write(_DONE, taken.first, len(taken.events))
        except LogFull as error:
            # They were delivered; without the note, the next start delivers them again.
            _LOG.error("channel %s cannot note what left it: %s", self.name, error)
        self._settle(taken.first, len(taken.events))
        oldest = self._frames[0].index if self._frames else self._log.next_index - 1
        self._log.trim(oldest)

    def _settle(self, first: int, count: int) -> None:
        """Count events of the frames as gone."""
        at = max(0, bisect_right(self._frames, first, key=_FIRST) - 1)
        while count and at < len(self._frames):
            frame = self._frames[at]
            following = self._frames[at + 1].first if at + 1 < len(self._frames) else 1 << 62
            part = min(count, following - first)
            frame.left -= part
            first, count = first + part, count - part
            if frame.left:
                at += 1
            else:
                del self._frames[at]

    def close(self) -> None:
        """See `MemoryChannel.close`; what is in it is there at the next start."""
        self._log.close_files()
        os.close(self._lock_file)


def _parts(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Yield a transaction as the frames that hold it, nearly always one."""
    if bytes_of(events) <= _FRAME_BYTES:
        yield list(events)
        return
    part: list[Event] = []
    size = 0
    for event in events:
        if part and size > _FRAME_BYTES:
            yield part
            part, size = [], 0
        part.append(event)
        size += len(event.body)
    yield part


def _columns(events: Sequence[Event]) -> tuple[list[Any], list[int], list[bytes]]:
    """Return the different headers, which of them each event has, and the bodies."""
    bodies = [body for _, body in events]
    shared = events[0].headers if events else NO_HEADERS
    if all(headers is shared for headers, _ in events):
        return [shared], [0] * len(bodies), bodies
    places: dict[int, int] = {}
    headers: list[Any] = []
    which: list[int] = []
    for event in events:
        at = places.get(id(event.headers))
        if at is None:
            at = places[id(event.headers)] = len(headers)
            headers.append(event.headers)
        which.append(at)
    return headers, which, bodies


def _merge_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _rest(begin: int, end: int, done: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield what is left of a range; `done` are ranges in order that do not touch."""
    for low, high in done[max(0, bisect_right(done, (begin, 1 << 62)) - 1) :]:
        if low >= end:
            break
        if low > begin:
            yield begin, low
        begin = max(begin, high)
    if begin < end:
        yield begin, end
