"""The lost records of a log: where they were, how many there were, and whether the user has accepted the loss.

A reader that reaches a loss gets LogDamaged each time, until `headrace check --repair` has reported the loss. From then
on the loss is accepted, and readers continue behind it.

Iterates over the frames of a segment: checks each one, and reports damage or skips it.

Opens the segments of a shard log: cuts off a torn end, finds lost records, and sets the index of the next record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from headrace.store import frame
from headrace.store.frame import CorruptFrame, FrameHeader
from headrace.store.segment import CUT_SUFFIX, SUFFIX, Segment, SegmentDeleted
from headrace.store.sequence import SequenceBase

log = logging.getLogger(__name__)

# How many indexes to skip, since records after the last mark may have had them: more than a shard takes in a minute.
UNCERTAIN = 1 << 25


class LogDamaged(Exception):
    """The records to read are missing or damaged; the message says which and where.

    Attributes:
        first_index, end_index: the range of the lost records, as far as it is known.
    """

    def __init__(self, text: str, first_index: int = 0, end_index: int = 0) -> None:
        super().__init__(text)
        self.first_index = first_index
        self.end_index = end_index


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of a log that are missing.

    Attributes:
        first_index: the index of the first missing record.
        end_index: the first index at which a record may follow.
        known_end_index: there certainly were records below this index; from it to `end_index` there may have been some.
        path: the segment that held the first lost record.
        why: what is wrong with the segment, such as `is empty`.
        accepted: `headrace check --repair` has reported it.
    """

    first_index: int
    end_index: int
    known_end_index: int
    path: Path
    why: str
    accepted: bool = False

    @property
    def count(self) -> int:
        """The number of records that are known to be missing."""
        return self.known_end_index - self.first_index

    @property
    def is_open_ended(self) -> bool:
        """Whether more records may be missing than is known."""
        return self.end_index > self.known_end_index

    def holds(self, index: int) -> bool:
        """Whether the loss includes the record `index`."""
        return self.first_index <= index < self.end_index


@dataclass(frozen=True, slots=True)
class KnownLog:
    """The state database's marks of a log.

    Attributes:
        start_index: the oldest record that retention had kept; None when that was never noted.
        end_index: one past the newest record, as of some moment up to a minute ago.
        losses: the losses that were found earlier.
        is_certain: all records were certain to survive. Otherwise the system has restarted since, and may have lost
            records that were not yet synced: such a loss is reported once, and readers continue behind it.
    """

    start_index: int | None = None
    end_index: int = 0
    losses: tuple[Loss, ...] = ()
    is_certain: bool = True


NOTHING_KNOWN = KnownLog()


def find_losses(
    segments: Sequence[Segment],
    unreadable: Mapping[int, tuple[Path, str]],
    known: KnownLog,
    claimed_end_index: int,
) -> list[Loss]:
    """Return the losses between segments, within them, and before the first.

    Args:
        segments: the segments that could be opened, in order; the last one takes new records.
        unreadable: the segments that could not be opened: by the index in their name, the path and what is wrong.
        known: the log's entry in the state database.
        claimed_end_index: there certainly were records below this index.
    """
    gaps: list[tuple[int, int, Path, str]] = []
    first = segments[0].first_index
    start = min([first, *unreadable]) if known.start_index is None else known.start_index
    if start < first:
        gaps.append((start, first, segments[0].path.with_name(Segment.file_name(start)), ""))
    for segment, following in pairwise(segments):
        end = segment.end_index
        missing = segment.path.with_name(Segment.file_name(end))
        if end < following.first_index and segment.is_complete:
            gaps.append((end, following.first_index, missing, "is not there"))
        elif end < following.first_index:
            why = f"ends too early, or {missing.name} is not there"
            gaps.append((end, following.first_index, segment.path, why))
    for segment in segments:
        gaps += [(h.first_index, h.end_index, segment.path, "is damaged") for h in segment.holes]
    return sorted(
        (
            _loss(gap, unreadable, known, claimed_end_index, segments[-1].first_index)
            for gap in gaps
            if gap[0] < gap[1]
        ),
        key=lambda loss: loss.first_index,
    )


def _loss(
    gap: tuple[int, int, Path, str],
    unreadable: Mapping[int, tuple[Path, str]],
    known: KnownLog,
    claimed_end_index: int,
    tail_index: int,
) -> Loss:
    first, end, path, why = gap
    named = [index for index in unreadable if first <= index < end]
    if named:
        path, why = unreadable[min(named)]
        why = f"cannot be read ({why})"
    elif not why:
        why = "is not there"
    known_end = end
    before = next((loss for loss in known.losses if loss.first_index == first), None)
    if before is not None and before.known_end_index < end:
        known_end = before.known_end_index
    elif end == tail_index and claimed_end_index < end:
        known_end = max(claimed_end_index, first)
    if end == tail_index and not known.is_certain and not named:
        return Loss(first, end, known_end, path, "ends early since the system went down", True)
    accepted = any(
        loss.accepted and loss.first_index <= first and end <= loss.end_index
        for loss in known.losses
    )
    return Loss(first, end, known_end, path, why, accepted)


def describe(loss: Loss, shard_id: str, base: SequenceBase, segments: Sequence[Segment]) -> str:
    """Return one sentence: which records are missing, between which sequence numbers, and where they were."""
    one = loss.count == 1
    records = "1 record is" if one else f"{loss.count} records are"
    which = f"number {loss.first_index}" + ("" if one else f" to {loss.known_end_index - 1}")
    if not loss.count:
        records, which = "Records are", f"nobody knows how many, from number {loss.first_index} on"
    more = ""
    if loss.count and loss.is_open_ended:
        more = ", and perhaps some that were put in the minute after them"
    between: list[str] = []
    for segment in segments:
        if segment.end_index == loss.first_index > segment.first_index:
            number = base.text(loss.first_index - 1, segment.last_arrival_ms)
            between.append(f"after sequence number {number}")
        if segment.first_index == loss.end_index < segment.end_index:
            between.append(f"before {base.text(loss.end_index, segment.first_arrival_ms)}")
    where = f" ({' and '.join(between)})" if between else ""
    return (
        f"{records} missing of {shard_id}, {which}{where}{more}: the segment {loss.path} {loss.why}"
    )


def end_of_gap(
    index: int,
    following: int,
    losses: Sequence[Loss],
    folder: Path,
    describe: Callable[[Loss], str],
) -> int:
    """Return the index at which to continue from `index` when the next record of the log is `following`.

    Raises LogDamaged, unless the loss of the records in between was accepted.
    """
    if following <= index:
        return index
    loss = next((loss for loss in losses if loss.holds(index)), None)
    if loss is None:
        # The loss occurred after the log was opened.
        raise LogDamaged(
            f"{folder}: records {index} to {following - 1} are missing", index, following
        )
    if not loss.accepted:
        raise LogDamaged(describe(loss), loss.first_index, loss.end_index)
    return following


class DamageLog:
    """Writes each damage of a shard log to the program's log once, however many readers find it."""

    def __init__(self) -> None:
        self._logged: set[int] = set()

    def log_once(self, error: LogDamaged) -> LogDamaged:
        """Log damage when a reader finds it for the first time, and return the error."""
        if error.first_index not in self._logged:
            self._logged.add(error.first_index)
            log.error("%s; see: headrace check --repair", error)
        return error


READ_CHUNK_BYTES = 1024 * 1024


def frames(
    segment: Segment, from_index: int | None, offset: int | None = None
) -> Iterator[tuple[FrameHeader, bytes | memoryview]]:
    """Yield (header, payload) of the frames from the one that holds `from_index` on, or of those from `offset` on.

    Every payload is compared with its checksum: damaged records are never served. Frames before `from_index` are
    skipped by the lengths in their headers, unchecked. When this leads to no frame, or past `from_index`, one of those
    headers was damaged, and the frames are read again, each checked. Damage before `from_index` is skipped; when it is
    None, all damage is. Raises LogDamaged, SegmentDeleted.
    """
    if offset is None:
        offset = segment.index.offset_near_index(from_index or 0)
    end = segment.size_bytes
    # Everything before `sure` was checked; `expected` is the index of the next record, None when it is unknown.
    sure = offset
    expected = segment.first_index if offset == frame.SEGMENT_HEADER_BYTES else None
    chunk, start = memoryview(b""), offset
    while offset != end:
        try:
            if offset > end:
                raise CorruptFrame("a header is damaged")  # the header of a skipped frame
            if len(chunk) - (offset - start) < frame.FRAME_HEADER_BYTES:
                start, chunk = offset, memoryview(segment.read(offset, READ_CHUNK_BYTES))
            header = frame.decode_header(chunk, offset - start)
            if from_index is not None and header.end_index <= from_index:
                offset += header.frame_bytes
                continue
            if len(chunk) - (offset - start) < header.frame_bytes:
                start = offset
                chunk_bytes = max(READ_CHUNK_BYTES, header.frame_bytes)
                chunk = memoryview(segment.read(offset, chunk_bytes))
            at = offset - start + frame.FRAME_HEADER_BYTES
            payload = chunk[at : at + header.payload_bytes]
            frame.verify(header, payload)
            if offset != sure and from_index is not None and header.first_index > from_index:
                raise CorruptFrame("a header is damaged")  # the header of a skipped frame
        except CorruptFrame as error:
            offset = sure = _behind_damage(segment, sure, end, from_index, expected, error)
            chunk, start = memoryview(b""), offset  # the offset may be before the chunk
            continue
        yield header, payload
        expected = header.end_index
        offset = sure = offset + header.frame_bytes
        if from_index is not None:
            from_index = expected


def _behind_damage(
    segment: Segment,
    sure: int,
    end: int,
    from_index: int | None,
    expected: int | None,
    error: CorruptFrame,
) -> int:
    """Return the offset of the next undamaged frame that `frames` yields, or `end`. Raises LogDamaged."""
    data, at = segment.read(sure, end), 0
    while True:
        frame_found = frame.find(data, at, expected or 0)
        following = segment.end_index if frame_found is None else frame_found[1].first_index
        is_damage = frame_found is None or frame_found[0] > at
        if from_index is not None and is_damage and (expected or 0) <= from_index < following:
            first = from_index if expected is None else expected
            raise LogDamaged(
                f"{segment.path}, byte {sure + at}: {error}; of {segment.path.parent.name}, the records"
                f" {first} to {following - 1} are damaged or lost",
                first,
                following,
            ) from error
        if frame_found is None:
            return end
        if from_index is None or frame_found[1].end_index > from_index:
            return sure + frame_found[0]
        expected, at = frame_found[1].end_index, frame_found[0] + frame_found[1].frame_bytes


def first_arrived_at(segment: Segment, timestamp_ms: int) -> int | None:
    """Return the index of a segment's first record that arrived at or after `timestamp_ms`; None without one.

    When damage precedes it, the index of the first lost record, which may have arrived then.
    """
    previous: int | None = None
    offset = segment.index.offset_near_arrival(timestamp_ms)
    try:
        for header, _ in frames(segment, None, offset):
            if header.arrival_ms >= timestamp_ms:
                damaged = previous is not None and previous < header.first_index
                return previous if damaged else header.first_index
            previous = header.end_index
    except SegmentDeleted:
        pass
    return None


FIRST_INDEX = 1


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """The contents of a log's folder.

    Attributes:
        segments: in order; the last one takes the next records.
        losses: the records that are missing.
        dropped_bytes: the size of a torn end, which was cut off and kept beside the segment.
    """

    segments: list[Segment]
    losses: list[Loss]
    dropped_bytes: int


def open_segments(folder: Path, identity: bytes, known: KnownLog) -> OpenedLog:
    """Open the segments in `folder`, which is made when missing; `known` is the log's entry in the state database.

    A damaged segment does not prevent opening the log: it counts as a loss. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    claimed = known.end_index
    if not paths and claimed <= FIRST_INDEX:
        return OpenedLog([Segment.create(folder, FIRST_INDEX, identity)], [], 0)
    unreadable: dict[int, tuple[Path, str]] = {}
    opened: list[Segment] = []
    tail_is_good = False
    dropped_bytes = 0
    for path in paths:
        try:
            if path == paths[-1]:
                segment, dropped_bytes = _open_tail(path, identity, known)
                tail_is_good = True
            else:
                segment = Segment.open_sealed(path, identity)
        except CorruptFrame as error:
            unreadable[int(path.stem)] = (path, str(error))
            claimed = max(claimed, Segment.read_claimed_end(path, identity))
            continue
        opened.append(segment)
    end_index = opened[-1].end_index if opened else FIRST_INDEX
    claimed = max([claimed, end_index, *(segment.claimed_end_index for segment in opened)])
    if not tail_is_good or claimed > end_index:
        # An index is never used twice: skip those that records after the last mark may have had.
        following = max([claimed, *unreadable]) + UNCERTAIN
        opened.append(Segment.create(folder, following, identity))
    return OpenedLog(opened, find_losses(opened, unreadable, known, claimed), dropped_bytes)


def _open_tail(path: Path, identity: bytes, known: KnownLog) -> tuple[Segment, int]:
    """Return the last segment, and how many bytes were cut off its end. Raises CorruptFrame, OSError."""
    first_index = int(path.stem)
    if known.end_index > first_index and path.stat().st_size < frame.SEGMENT_HEADER_BYTES:
        raise CorruptFrame("the segment was emptied")
    tail, dropped_bytes = Segment.open_tail(path, identity)
    if dropped_bytes:
        log.warning(
            "%s: cut %d bytes of a write that did not finish; they are kept in %s",
            tail.path,
            dropped_bytes,
            tail.path.with_suffix(CUT_SUFFIX).name,
        )
    return tail, dropped_bytes
