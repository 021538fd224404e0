"""How far a mapping has got in one shard, over all of its lanes, and the checkpoint that is kept of it.

The checkpoint is the oldest record that some lane has not finished with, so no record is ever skipped. Lanes run
ahead of it; how far each got is kept beside it, so that a restart does not repeat their work.
"""

from __future__ import annotations

import threading
import zlib
from collections import deque
from typing import Protocol

from headrace.core.ports import AfterSequence, AtSequence, StreamRecord, TrimHorizon
from headrace.services.lambda_.mappings.batch import Batch
from headrace.services.lambda_.mappings.mapping import Marks, Pinned
from headrace.services.lambda_.mappings.store import MappingStore
from headrace.services.lambda_.mappings.window import Window


def lane_of(partition_key: str, lanes: int) -> int:
    """Return the lane of a partition key, always the same for the same number of lanes."""
    return zlib.crc32(partition_key.encode()) % lanes if lanes > 1 else 0


class LaneState(Protocol):
    """A lane, as far as its progress goes.

    Attributes:
        done: the sequence number of the last record that the lane has finished with; empty for none.
        window: its open tumbling window.
        batches: those that are cut and not finished with, in order.
        buffer: records that are read and not yet in a batch, in order.
    """

    done: str
    window: Window | None
    batches: deque[Batch]
    buffer: deque[StreamRecord]


class Progress:
    """The checkpoint of one shard. `lock` guards it and the lanes' queues.

    Attributes:
        read_position: where the shard is read from next; None at its end.
        window: the open tumbling window until a lane has it.
        marks: how far lanes got before, as long as that is beyond the checkpoint.
    """

    def __init__(self, store: MappingStore, uuid: str, shard_id: str) -> None:
        self.lock = threading.RLock()
        self._store = store
        self._uuid = uuid
        self._shard_id = shard_id
        kept = store.load_checkpoint(uuid, shard_id)
        self.read_position: Pinned | None = kept.position
        self.window = kept.window
        self.marks = list(kept.marks)
        self._lanes: list[LaneState] = []
        self._last_read: AfterSequence | None = None
        self._saved: Pinned | None = kept.position

    def use(self, lanes: list[LaneState]) -> None:
        """Follow these lanes from now on; the lanes until now must be empty."""
        with self.lock:
            self.marks.extend(self._current_marks())
            for lane, state in enumerate(lanes):
                state.done = self._mark(len(lanes), lane)
            lanes[0].window, self.window = self.window, None
            self._lanes = lanes

    def _mark(self, lanes: int, lane: int) -> str:
        marks = [m.done.get(lane, "") for m in self.marks if m.lanes == lanes]
        return max(marks, key=_order, default="")

    def is_done(self, record: StreamRecord) -> bool:
        """Whether a lane finished with a record before the checkpoint got there."""
        number = int(record.sequence_number)
        return any(
            number <= _order(one.done.get(lane_of(record.partition_key, one.lanes), ""))
            for one in self.marks
        )

    def read(self, records: list[StreamRecord], position: Pinned | None) -> None:
        """Note how far the shard is read; the records that pass the filters are in the lanes already."""
        self.read_position = position
        if records:
            self._last_read = AfterSequence(records[-1].sequence_number)

    def _oldest(self) -> str | None:
        """Return the sequence number of the first record that some lane still holds."""
        pending = [
            (lane.batches[0].records if lane.batches else lane.buffer)[0].sequence_number
            for lane in self._lanes
            if lane.batches or lane.buffer
        ]
        return min(pending, key=int, default=None)

    def _current_marks(self) -> list[Marks]:
        done = {lane: state.done for lane, state in enumerate(self._lanes) if state.done}
        return [Marks(len(self._lanes), done)] if done and len(self._lanes) > 1 else []

    def save(self, *, force: bool = True) -> None:
        """Store the checkpoint; without `force`, only when nothing is pending and it has moved."""
        with self.lock:
            oldest = self._oldest()
            position = AtSequence(oldest) if oldest else self._last_read or self.read_position
            if position is None or (not force and (oldest is not None or position == self._saved)):
                return
            limit = -1 if isinstance(position, TrimHorizon) else int(position.sequence_number)
            self.marks = [m for m in self.marks if _is_ahead(m, limit)]
            ahead = [m for m in self._current_marks() if _is_ahead(m, limit)]
            self._store.checkpoint(
                self._uuid,
                self._shard_id,
                position,
                marks=(*(m for m in self.marks if m.lanes != len(self._lanes)), *ahead),
                window=self._lanes[0].window if self._lanes else self.window,
            )
            self._saved = position

    def finish(self) -> None:
        """Store that the shard is read to its end."""
        self._store.checkpoint(self._uuid, self._shard_id, None)


def _order(number: str) -> int:
    return int(number) if number else -1


def _is_ahead(marks: Marks, limit: int) -> bool:
    return any(_order(number) > limit for number in marks.done.values())
