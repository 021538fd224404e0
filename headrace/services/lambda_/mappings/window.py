"""Tumbling windows: which window a record is in, the state from batch to batch, and when a window ends. No I/O.

Rules: https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-windows.html (documented). Windows are
aligned to the epoch and belong to a shard; a record's arrival time decides its window. The end of a shard closes its
window, and the child shards start new windows. AWS waits up to two minutes for late records. Here the poller and the
arrival times use the same clock, so half a second is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.services.lambda_.mappings.batch import Answer, FailedFrom

STATE_BYTES = 1024 * 1024
GRACE_MS = 500


@dataclass(frozen=True, slots=True)
class Window:
    """A window of a shard, and the state that the function has aggregated in it.

    Attributes:
        state: the JSON state that the function returned last.
        early: whether the state exceeds its size limit, which ends the window early.
    """

    start_ms: int
    end_ms: int
    state: bytes = b"{}"
    early: bool = False

    @staticmethod
    def of(arrival_ms: int, length_s: int) -> Window:
        """Return the window for records that arrive at this time, with an empty state."""
        length_ms = length_s * 1000
        start_ms = arrival_ms - arrival_ms % length_ms
        return Window(start_ms, start_ms + length_ms)

    def holds(self, arrival_ms: int) -> bool:
        """Whether a record that arrived at this time belongs to the window; late records do, too."""
        return arrival_ms < self.end_ms

    def after(self, state: bytes) -> Window:
        """Return the window with a new state."""
        return Window(self.start_ms, self.end_ms, state, len(state) > STATE_BYTES)

    def is_over(self, now_ms: int) -> bool:
        """Whether no more records can arrive in the window."""
        return now_ms >= self.end_ms + GRACE_MS

    def wait_ms(self, now_ms: int) -> int:
        """Return how long the window still takes records."""
        return max(0, self.end_ms + GRACE_MS - now_ms)

    @property
    def start(self) -> str:
        """The start time in the form of events."""
        return _format_iso(self.start_ms)

    @property
    def end(self) -> str:
        """The end time in the form of events."""
        return _format_iso(self.end_ms)

    def to_json(self) -> dict[str, Any]:
        """Return the window as JSON values for `from_json`."""
        return {
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
            "state": self.state.decode(),
            "early": self.early,
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Window:
        """Return the window that `to_json` has written."""
        return Window(value["start_ms"], value["end_ms"], value["state"].encode(), value["early"])


class _Answer(msgspec.Struct):
    state: msgspec.Raw = msgspec.Raw(b"null")


def read_state(payload: bytes) -> bytes | None:
    """Return the state in a function's response, or None when it has none (then the invocation counts as failed)."""
    try:
        answer = msgspec.json.decode(payload, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    state = bytes(answer.state)
    return None if state == b"null" else state


def add_state(window: Window, answer: Answer, state: bytes | None) -> tuple[Answer, Window]:
    """Return the answer (a failure if it has no state) and the window after it."""
    if state is None:
        return FailedFrom(0), window
    if isinstance(answer, FailedFrom) and answer.index == 0:
        # No record is done, so the returned state does not count.
        return answer, window
    return answer, window.after(state)


def _format_iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
