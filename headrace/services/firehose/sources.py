"""Where a delivery stream's records come from: a Kinesis stream, or a journal of direct puts."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Mapping, Sequence
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
from headrace.store.discard import discard
from headrace.store.losses import NOTHING_KNOWN, Known
from headrace.store.sequence import SequenceBase
from headrace.store.shard_log import ShardLog, identity_of

END = "END"
TRIM_HORIZON = "TRIM_HORIZON"
_AT = "AT:"
# A delivered segment is deleted once a later one was delivered from: this much stays on the disk, about.
JOURNAL_SEGMENT_BYTES = 16 * 1024 * 1024


def position_text(position: Position) -> str:
    """Return what `Progress.positions` keeps for a position."""
    match position:
        case AfterSequence(number):
            return number
        case AtSequence(number):
            return _AT + number
        case _:
            return TRIM_HORIZON


def position_of(text: str) -> AtSequence | AfterSequence | TrimHorizon:
    """Return the position that `position_text` kept."""
    if text == TRIM_HORIZON:
        return TrimHorizon()
    if text.startswith(_AT):
        return AtSequence(text.removeprefix(_AT))
    return AfterSequence(text)


def is_past(number: str, last: str) -> bool:
    """Whether a sequence number is above another of its shard."""
    return int(number) > int(last)


class Source(Protocol):
    """Shards to read from."""

    def first_positions(self) -> dict[str, str]:
        """Return where a new delivery stream begins, by shard."""
        ...

    def readable(self, positions: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return the shards that may be read now, with where to go on; parents before children."""
        ...

    def start(self, shard_id: str, positions: Mapping[str, str]) -> str:
        """Return where to go on with a shard."""
        ...

    def read(self, shard_id: str, position: str, max_records: int, max_bytes: int) -> ReadResult:
        """Return records from a position on."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when there may be more; returns the undo."""
        ...

    def delivered(self, shard_id: str, up_to_ms: int) -> None:
        """Everything that arrived before is delivered and may be forgotten."""
        ...


class KinesisSource:
    """A Kinesis stream, read from where it was when the delivery stream was made. Thread-safe."""

    def __init__(self, reader: StreamReader, stream_arn: str) -> None:
        self._reader = reader
        self._arn = stream_arn

    def first_positions(self) -> dict[str, str]:
        """See `Source.first_positions`: the latest, as on AWS; shards that are closed are done."""
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
        # An open shard cannot be done: it is that of a newer stream of the same name.
        done = {
            shard.shard_id
            for shard in shards
            if shard.closed and positions.get(shard.shard_id) == END
        }
        present = {shard.shard_id for shard in shards}
        return [
            (shard.shard_id, self.start(shard.shard_id, positions))
            for shard in shards
            if shard.shard_id not in done
            and all(parent in done for parent in shard.parent_ids if parent in present)
        ]

    def start(self, shard_id: str, positions: Mapping[str, str]) -> str:
        """See `Source.start`. A shard that a reshard made is read from its first record."""
        position = positions.get(shard_id, TRIM_HORIZON)
        return TRIM_HORIZON if position == END else position

    def read(self, shard_id: str, position: str, max_records: int, max_bytes: int) -> ReadResult:
        """See `Source.read`. A shard that retention has removed is at its end."""
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

    def delivered(self, shard_id: str, up_to_ms: int) -> None:
        """Nothing: the stream's own retention forgets."""


class _Journalled(msgspec.Struct, gc=False):
    SequenceNumber: str
    ApproximateArrivalTimestamp: float
    Data: str


_decode = msgspec.json.Decoder(list[_Journalled]).decode


class JournalSource:
    """Records put directly, on the disk before they are acknowledged: a shard log with one shard."""

    def __init__(
        self,
        folder: Path,
        stream_id: str,
        created_ms: int,
        *,
        known: Known = NOTHING_KNOWN,
        roll_at_bytes: int = JOURNAL_SEGMENT_BYTES,
    ) -> None:
        base = SequenceBase(created_ms // 1000, 0)
        identity = identity_of(stream_id, JOURNAL_SHARD)
        self.log = ShardLog(folder, base, identity, known=known, roll_at_bytes=roll_at_bytes)
        self._sync_lock = threading.Lock()
        self._wake: Callable[[], None] = lambda: None

    def put(self, datas: Sequence[bytes], now_ms: int, *, sync: bool) -> list[str]:
        """Store records; return their ids. They survive kill -9, or with `sync` a power cut. Raises LogFull."""
        rows = [(base64.b64encode(data).decode(), '""') for data in datas]
        numbers = self.log.append(rows, sum(map(len, datas)), now_ms)
        if sync:
            with self._sync_lock:
                self.log.sync()
        self._wake()
        return numbers

    def first_positions(self) -> dict[str, str]:
        """See `Source.first_positions`."""
        return {JOURNAL_SHARD: TRIM_HORIZON}

    def readable(self, positions: Mapping[str, str]) -> list[tuple[str, str]]:
        """See `Source.readable`."""
        return [(JOURNAL_SHARD, self.start(JOURNAL_SHARD, positions))]

    def start(self, shard_id: str, positions: Mapping[str, str]) -> str:
        """See `Source.start`."""
        return positions.get(shard_id, TRIM_HORIZON)

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
        records = [
            StreamRecord(
                stored.SequenceNumber,
                "",
                base64.b64decode(stored.Data),
                round(stored.ApproximateArrivalTimestamp * 1000),
            )
            for payload in batch.payloads
            for stored in _decode(b"[" + payload + b"]")
        ]
        following = AfterSequence(records[-1].sequence_number) if records else at
        return ReadResult(records, following, 0)

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """See `Source.subscribe`."""
        self._wake = wake

        def undo() -> None:
            self._wake = lambda: None

        return undo

    def delivered(self, shard_id: str, up_to_ms: int) -> None:
        """See `Source.delivered`: whole segments go."""
        self.log.trim(up_to_ms)

    def close(self) -> None:
        """Close the files."""
        self.log.close_files()

    def remove(self) -> None:
        """Delete the journal."""
        self.close()
        discard(self.log.folder)
