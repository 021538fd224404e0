"""The progress of a mapping in one shard, over all lanes, and the checkpoint that stores it.

The checkpoint is the oldest record that some lane has not finished, so no record is ever skipped. Lanes may be ahead of
the checkpoint. The progress of each lane is stored with it, so that a restart does not repeat their work.
"""

from __future__ import annotations

import threading
import zlib
from collections import deque
from typing import Protocol

from headrace.core.ports import AfterSequence, AtSequence, StreamRecord, TrimHorizon
from headrace.services.lambda_.mappings.batch import Batch
from headrace.services.lambda_.mappings.mapping import LaneProgress, Pinned
from headrace.services.lambda_.mappings.store import MappingStore
from headrace.services.lambda_.mappings.window import Window


def lane_of(partition_key: str, lanes: int) -> int:
    """Return the lane of a partition key. It is always the same for the same number of lanes."""
    return zlib.crc32(partition_key.encode()) % lanes if lanes > 1 else 0


class LaneState(Protocol):
    """The state of a lane that `Progress` uses.

    Attributes:
        done: the sequence number of the last record that the lane has finished; "" for none.
        window: the lane's open tumbling window.
        batches: the unfinished batches, in order.
        buffer: the records that were read but are not in a batch yet, in order.
    """

    done: str
    window: Window | None
    batches: deque[Batch]
    buffer: deque[StreamRecord]


class Progress:
    """The progress in one shard. `lock` guards it and the buffers and batches of the lanes.

    Attributes:
        read_position: the position from which the shard is read next; None at its end.
        window: the open tumbling window, until a lane takes it over.
        marks: the progress of earlier lanes, while it is beyond the checkpoint.
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
        """Use these lanes from now on. The present lanes must be empty."""
        with self.lock:
            self.marks.extend(self._list_current_marks())
            for lane, state in enumerate(lanes):
                state.done = self._mark(len(lanes), lane)
            lanes[0].window, self.window = self.window, None
            self._lanes = lanes

    def _mark(self, lanes: int, lane: int) -> str:
        marks = [m.done.get(lane, "") for m in self.marks if m.lanes == lanes]
        return max(marks, key=_order, default="")

    def is_done(self, record: StreamRecord) -> bool:
        """Whether a lane has finished a record that the checkpoint has not passed."""
        number = int(record.sequence_number)
        return any(
            number <= _order(one.done.get(lane_of(record.partition_key, one.lanes), ""))
            for one in self.marks
        )

    def read(self, records: list[StreamRecord], position: Pinned | None) -> None:
        """Record the next read position. The records that pass the filters are already in the lanes."""
        self.read_position = position
        if records:
            self._last_read = AfterSequence(records[-1].sequence_number)

    def _find_oldest(self) -> str | None:
        """Return the sequence number of the oldest record that is still in a lane, or None."""
        pending = [
            (lane.batches[0].records if lane.batches else lane.buffer)[0].sequence_number
            for lane in self._lanes
            if lane.batches or lane.buffer
        ]
        return min(pending, key=int, default=None)

    def _list_current_marks(self) -> list[LaneProgress]:
        done = {lane: state.done for lane, state in enumerate(self._lanes) if state.done}
        return [LaneProgress(len(self._lanes), done)] if done and len(self._lanes) > 1 else []

    def save(self, *, force: bool = True) -> None:
        """Store the checkpoint. Without `force`, store it only if no records are in lanes and it has moved."""
        with self.lock:
            oldest = self._find_oldest()
            position = AtSequence(oldest) if oldest else self._last_read or self.read_position
            if position is None or (not force and (oldest is not None or position == self._saved)):
                return
            limit = -1 if isinstance(position, TrimHorizon) else int(position.sequence_number)
            self.marks = [m for m in self.marks if _is_ahead(m, limit)]
            ahead = [m for m in self._list_current_marks() if _is_ahead(m, limit)]
            self._store.checkpoint(
                self._uuid,
                self._shard_id,
                position,
                marks=(*(m for m in self.marks if m.lanes != len(self._lanes)), *ahead),
                window=self._lanes[0].window if self._lanes else self.window,
            )
            self._saved = position

    def finish(self) -> None:
        """Store that the shard has been read to its end."""
        self._store.checkpoint(self._uuid, self._shard_id, None)


def _order(number: str) -> int:
    return int(number) if number else -1


def _is_ahead(marks: LaneProgress, limit: int) -> bool:
    return any(_order(number) > limit for number in marks.done.values())
