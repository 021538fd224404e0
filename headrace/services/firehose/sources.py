"""The sources of delivery streams: a Kinesis stream, or the journal of direct puts; and the positions in them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    Latest,
    Position,
    ReadResult,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
    StreamRecord,
    TrimHorizon,
)
from headrace.store import sequence
from headrace.store.check import JOURNAL_SHARD
from headrace.store.folders import discard
from headrace.store.frame import SEPARATOR
from headrace.store.losses import NOTHING_KNOWN, KnownLog
from headrace.store.sequence import STEP, SequenceBase
from headrace.store.shard_log import ShardLog, identity_of

END = "END"
TRIM_HORIZON = "TRIM_HORIZON"
_AT = "AT:"
# A segment is deleted once a record of a later segment is delivered, so about this much stays on the disk.
JOURNAL_SEGMENT_BYTES = 16 * 1024 * 1024
# The limit of one read of a shard.
READ_RECORDS = 10_000
READ_BYTES = 4 * 1024 * 1024


def position_text(position: Position) -> str:
    """Return a position as text for `Progress.positions`."""
    match position:
        case AfterSequence(number):
            return number
        case AtSequence(number):
            return _AT + number
        case _:
            return TRIM_HORIZON


def position_of(text: str) -> AtSequence | AfterSequence | TrimHorizon:
    """Return the position that `position_text` wrote."""
    if text == TRIM_HORIZON:
        return TrimHorizon()
    if text.startswith(_AT):
        return AtSequence(text.removeprefix(_AT))
    return AfterSequence(text)


def at_position(number: str) -> str:
    """Return the position before the record with a sequence number."""
    return _AT + number


def is_done(position: str, number: str) -> bool:
    """Return whether a position is after the record with a sequence number."""
    if position in (END, TRIM_HORIZON):
        return position == END
    if position.startswith(_AT):
        return int(number) < int(position.removeprefix(_AT))
    return int(number) <= int(position)


def is_past(number: str, last: str) -> bool:
    """Return whether a sequence number is after another one of its shard."""
    return int(number) > int(last)


def still_beyond(
    passed: Mapping[str, Mapping[str, str]], positions: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return the sequence numbers of `Progress.passed` that are beyond the positions."""
    left = {
        partition: {
            shard_id: number
            for shard_id, number in shards.items()
            if not is_done(positions.get(shard_id, TRIM_HORIZON), number)
        }
        for partition, shards in passed.items()
    }
    return {partition: shards for partition, shards in left.items() if shards}


def merge_marks(
    passed: Mapping[str, Mapping[str, str]], marks: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Return `Progress.passed` with more marks; the later of two marks for a shard wins."""
    merged = {partition: dict(shards) for partition, shards in passed.items()}
    for partition, shards in marks.items():
        present = merged.setdefault(partition, {})
        for shard_id, number in shards.items():
            if shard_id not in present or is_past(number, present[shard_id]):
                present[shard_id] = number
    return merged


@dataclass(frozen=True, slots=True)
class ShardRead:
    """The result of one read of a shard.

    Attributes:
        start: the position where the read began.
        records: oldest first.
        size_bytes: the size of the records' data.
        after: the position after the records, `END` when the shard has ended.
        more: whether to read the shard again at once.
        behind_ms: how much newer the shard's newest record is than the last one read.
    """

    shard_id: str
    start: str
    records: list[StreamRecord]
    size_bytes: int
    after: str
    more: bool
    behind_ms: int = 0


class Source(Protocol):
    """The source of a delivery stream: a set of shards."""

    def first_positions(self) -> dict[str, str]:
        """Return by shard the position where a new delivery stream begins."""
        ...

    def readable(self, positions: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return the shards that may be read now, each with its next position; parents come before children."""
        ...

    def read(self, shard_id: str, position: str, max_records: int, max_bytes: int) -> ReadResult:
        """Return records from a position on."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when there may be new records, until the returned function is called."""
        ...

    def release_delivered(self, shard_id: str, up_to_ms: int) -> None:
        """Allow the source to delete records that arrived up to a time, because they are delivered."""
        ...


def read_shards(
    source: Source, positions: Mapping[str, str], max_bytes: int
) -> Iterator[ShardRead]:
    """Yield the new records of each readable shard, about `max_bytes` in total. Skip shards without new records."""
    room_bytes = max_bytes
    for shard_id, start in source.readable(positions):
        if room_bytes <= 0:
            return
        most_bytes = min(READ_BYTES, room_bytes)
        got = source.read(shard_id, start, READ_RECORDS, most_bytes)
        size_bytes = sum(len(record.data) for record in got.records)
        room_bytes -= size_bytes
        if got.next_position is None:
            yield ShardRead(shard_id, start, got.records, size_bytes, END, more=True)
        elif got.records:
            after = position_text(got.next_position)
            more = len(got.records) >= READ_RECORDS or size_bytes >= most_bytes // 2
            behind_ms = got.millis_behind_latest
            yield ShardRead(shard_id, start, got.records, size_bytes, after, more, behind_ms)


class KinesisSource:
    """A Kinesis stream, read from its end at the creation of the delivery stream. Thread-safe."""

    def __init__(self, reader: StreamReader, stream_arn: str) -> None:
        self._reader = reader
        self._arn = stream_arn

    def first_positions(self) -> dict[str, str]:
        """See `Source.first_positions`: the end of each shard, as on AWS; closed shards are finished."""
        positions: dict[str, str] = {}
        for shard in self._reader.shards(self._arn):
            if shard.closed:
                positions[shard.shard_id] = END
            else:
                pinned = self._reader.pin(self._arn, shard.shard_id, Latest())
                positions[shard.shard_id] = position_text(pinned)
        return positions

    def readable(self, positions: Mapping[str, str]) -> list[tuple[str, str]]:
        """See `Source.readable`."""
        try:
            shards = self._reader.shards(self._arn)
        except StreamNotFound:
            return []
        # An open shard cannot be finished, so it belongs to a newer stream of the same name.
        done = {
            shard.shard_id
            for shard in shards
            if shard.closed and positions.get(shard.shard_id) == END
        }
        present = {shard.shard_id for shard in shards}
        return [
            (shard.shard_id, self._start(shard.shard_id, positions))
            for shard in shards
            if shard.shard_id not in done
            and all(parent in done for parent in shard.parent_ids if parent in present)
        ]

    def _start(self, shard_id: str, positions: Mapping[str, str]) -> str:
        """Return the next position. A shard from a reshard is read from its first record."""
        position = positions.get(shard_id, TRIM_HORIZON)
        return TRIM_HORIZON if position == END else position

    def read(self, shard_id: str, position: str, max_records: int, max_bytes: int) -> ReadResult:
        """See `Source.read`. A shard that retention has removed is finished."""
        try:
            return self._reader.read(
                self._arn,
                shard_id,
                position_of(position),
                max_records=max_records,
                max_bytes=max_bytes,
            )
        except (ShardNotFound, StreamNotFound):
            return ReadResult([], None, 0)

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """See `Source.subscribe`."""
        return self._reader.subscribe(self._arn, wake)

    def release_delivered(self, shard_id: str, up_to_ms: int) -> None:
        """Do nothing: the stream's own retention removes records."""


class _Journalled(msgspec.Struct, gc=False):
    """A record in the journals of earlier versions: the JSON of GetRecords."""

    SequenceNumber: str
    ApproximateArrivalTimestamp: float
    Data: bytes


# msgspec decodes the base64.
_decode_datas = msgspec.json.Decoder(list[bytes]).decode
_decode_journalled = msgspec.json.Decoder(list[_Journalled]).decode
_BETWEEN_TEXTS = '",\n"'
assert _BETWEEN_TEXTS[1:3].encode() == SEPARATOR


def _records_of(
    payload: bytes | memoryview, first_index: int, arrival_ms: int, base: SequenceBase
) -> list[StreamRecord]:
    """Return the records of one journal entry: a put or part of one."""
    document = b"".join((b"[", payload, b"]"))
    if payload[:1] == b"{":
        return [
            StreamRecord(stored.SequenceNumber, "", stored.Data, arrival_ms)
            for stored in _decode_journalled(document)
        ]
    datas = _decode_datas(document)
    start = base.first_of(first_index, arrival_ms)
    numbers = map(str, range(start, start + STEP * len(datas), STEP))
    return [
        StreamRecord(number, "", data, arrival_ms)
        for number, data in zip(numbers, datas, strict=True)
    ]


class JournalSource:
    """The journal of direct puts: a shard log with one shard. A put is durable when it returns."""

    def __init__(
        self,
        folder: Path,
        stream_id: str,
        created_ms: int,
        *,
        known: KnownLog = NOTHING_KNOWN,
        roll_at_bytes: int = JOURNAL_SEGMENT_BYTES,
    ) -> None:
        base = SequenceBase(created_ms // 1000, 0)
        identity = identity_of(stream_id, JOURNAL_SHARD)
        self.log = ShardLog(folder, base, identity, known=known, roll_at_bytes=roll_at_bytes)
        self._sync_lock = threading.Lock()
        self._wake: Callable[[], None] = lambda: None

    def put(self, texts: Sequence[str], size_bytes: int, now_ms: int, *, sync: bool) -> str:
        """Store records; return the first one's number. They survive kill -9, or with `sync` a power cut.

        Args:
            texts: the records in base64, the form in which they are stored.
            size_bytes: the decoded size of all records.
            now_ms: the time.
            sync: whether to wait for the disk.

        Raises LogFull.
        """
        payload = f'"{_BETWEEN_TEXTS.join(texts)}"'.encode("ascii")
        number = self.log.append_payload(payload, len(texts), size_bytes, now_ms)
        if sync:
            with self._sync_lock:
                self.log.sync()
        self._wake()
        return number

    def first_positions(self) -> dict[str, str]:
        """See `Source.first_positions`."""
        return {JOURNAL_SHARD: TRIM_HORIZON}

    def readable(self, positions: Mapping[str, str]) -> list[tuple[str, str]]:
        """See `Source.readable`."""
        return [(JOURNAL_SHARD, positions.get(JOURNAL_SHARD, TRIM_HORIZON))]

    def read(self, shard_id: str, position: str, max_records: int, max_bytes: int) -> ReadResult:
        """See `Source.read`."""
        at = position_of(position)
        match at:
            case TrimHorizon():
                index = self.log.first_index
            case AtSequence(number):
                index = sequence.parse(number).index
            case AfterSequence(number):
                index = sequence.parse(number).index + 1
        batch = self.log.read(index, max_records, max_bytes)
        records: list[StreamRecord] = []
        for payload, (first_index, arrival_ms) in zip(batch.payloads, batch.starts, strict=True):
            records += _records_of(payload, first_index, arrival_ms, self.log.base)
        following = AfterSequence(records[-1].sequence_number) if records else at
        return ReadResult(records, following, 0)

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """See `Source.subscribe`."""
        self._wake = wake

        def undo() -> None:
            self._wake = lambda: None

        return undo

    def release_delivered(self, shard_id: str, up_to_ms: int) -> None:
        """See `Source.release_delivered`: whole segments are deleted."""
        self.log.trim(up_to_ms)

    def close(self) -> None:
        """Close the files."""
        self.log.close_files()

    def remove(self) -> None:
        """Delete the journal."""
        self.close()
        discard(self.log.folder)
