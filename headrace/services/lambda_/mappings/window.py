"""Tumbling windows: which window a record is in, the state from batch to batch, and when a window ends. No I/O.

Rules: https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-windows.html (documented). Windows are
aligned to the epoch and belong to a shard; a record's window is that of its arrival. A shard that ends closes its
window, and its children begin afresh. AWS waits up to two minutes for stragglers: here records are stamped by
the clock that the poller reads too, so a moment is enough.
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
    """A window of a shard and what has been aggregated in it.

    Attributes:
        state: JSON, as the function last returned it.
        early: whether the state has outgrown its limit, which ends the window at once.
    """

    start_ms: int
    end_ms: int
    state: bytes = b"{}"
    early: bool = False

    @staticmethod
    def of(arrival_ms: int, length_s: int) -> Window:
        """Return the window that a record which arrived then is in, with no state yet."""
        length_ms = length_s * 1000
        start_ms = arrival_ms - arrival_ms % length_ms
        return Window(start_ms, start_ms + length_ms)

    def holds(self, arrival_ms: int) -> bool:
        """Whether a record that arrived then belongs here. Late ones do: no earlier window is open."""
        return arrival_ms < self.end_ms

    def after(self, state: bytes) -> Window:
        """Return the window with a new state."""
        return Window(self.start_ms, self.end_ms, state, len(state) > STATE_BYTES)

    def is_over(self, now_ms: int) -> bool:
        """Whether no more records can arrive in it."""
        return now_ms >= self.end_ms + GRACE_MS

    def wait_ms(self, now_ms: int) -> int:
        """Return how long it may still take records."""
        return max(0, self.end_ms + GRACE_MS - now_ms)

    @property
    def start(self) -> str:
        """Its start as events show it."""
        return _iso(self.start_ms)

    @property
    def end(self) -> str:
        """Its end as events show it."""
        return _iso(self.end_ms)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
            "state": self.state.decode(),
            "early": self.early,
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Window:
        """Read what `to_json` returned."""
        return Window(value["start_ms"], value["end_ms"], value["state"].encode(), value["early"])


class _Answer(msgspec.Struct):
    state: msgspec.Raw = msgspec.Raw(b"null")


def read_state(payload: bytes) -> bytes | None:
    """Return the state that a function answered with, None when its answer has none (a failed invocation)."""
    try:
        answer = msgspec.json.decode(payload, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    state = bytes(answer.state)
    return None if state == b"null" else state


def with_state(window: Window, answer: Answer, state: bytes | None) -> tuple[Answer, Window]:
    """Return the answer, failed when it lacks a state, and the window after it."""
    if state is None:
        return FailedFrom(0), window
    if isinstance(answer, FailedFrom) and answer.index == 0:
        # No record was done: the state that the function returned is dropped.
        return answer, window
    return answer, window.after(state)


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
