"""The rules for a batch of stream records: success, retries, bisecting, expiry and giving up. No I/O.

Rules: https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html and
.../services-kinesis-batchfailurereporting.html (documented). They leave two points open, which are assumed here. With
bisect, a batch whose response names its first record is split into halves, since no record precedes that one. Without
bisect, the rest of a partly successful batch gets no new retries.

Tumbling windows: which window a record is in, the state from batch to batch, and when a window ends. No I/O.

Rules: https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-windows.html (documented). Windows are
aligned to the epoch and belong to a shard; a record's arrival time decides its window. The end of a shard closes its
window, and the child shards start new windows. AWS waits up to two minutes for late records. Here the poller and the
arrival times use the same clock, so half a second is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, cast

import msgspec

from headrace.core.ports import InvokeResult, StreamRecord
from headrace.core.values import parse_json

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


FOREVER = -1

# How much of a function's response the batch tree stores.
_DETAIL_CHARACTERS = 300
_FIRST_RETRY_S = 0.1
_LONGEST_RETRY_S = 60.0
# The size of an event without its records.
_ENVELOPE_BYTES = 64

RETRIES_EXHAUSTED = "RetryAttemptsExhausted"
AGE_EXCEEDED = "RecordAgeExceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRules:
    """How a mapping treats failures. -1 means no limit."""

    maximum_retries: int = FOREVER
    maximum_age_s: int = FOREVER
    bisect: bool = False
    report_item_failures: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One invocation of a batch, for the batch tree: `outcome` in a few words, and in `detail` the response."""

    at_ms: int
    duration_ms: int
    outcome: str
    request_id: str = ""
    detail: str = ""


@dataclass(slots=True)
class History:
    """A node of the batch tree: the parent of a batch, and its invocations so far.

    Attributes:
        parent: the parent's number; 0 for a batch that was cut from the shard.
        part: which part of its parent the batch is; "" for a batch that was cut from the shard.
        number: 0 until the node is stored for the first time.
    """

    parent: int = 0
    part: str = ""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    number: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one shard, never empty.

    Attributes:
        retries: how many retries the records have used up.
        attempts: how many invocations the batch has had.
        history: the batch's node of the batch tree.
    """

    records: tuple[StreamRecord, ...]
    retries: int = 0
    attempts: int = 0
    history: History = field(default_factory=History, compare=False)

    def of(self, history: History) -> Batch:
        """Return the same batch with another node of the batch tree."""
        return Batch(self.records, self.retries, self.attempts, history)


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Every record is done."""


@dataclass(frozen=True, slots=True)
class FailedFrom:
    """The records before `index` are done; the others must be retried."""

    index: int


Answer = Succeeded | FailedFrom


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do after an invocation.

    Attributes:
        done: the last record that is done, or None. Move the checkpoint after it first.
        rest: the batches to run next, in this order.
        discarded: a batch to give up: send it to the failure destination, then move the checkpoint after it.
        delay_s: how long to wait before the first batch of `rest`.
    """

    done: StreamRecord | None = None
    rest: tuple[Batch, ...] = ()
    discarded: Batch | None = None
    delay_s: float = 0.0


def decide_batch(batch: Batch, answer: Answer, rules: FailureRules) -> Verdict:
    """Decide what to do after a function's response to a batch."""
    records = batch.records
    if isinstance(answer, Succeeded):
        return Verdict(done=records[-1])
    index = answer.index
    done = records[index - 1] if index else None
    attempts = batch.attempts + 1
    if rules.bisect and len(records) > 1:
        # A split uses up no retry; it cannot go on for ever, because each part is smaller. A part is a new batch,
        # whose invocations are counted from 0.
        cuts = [index, len(records)] if index else [0, len(records) // 2, len(records)]
        rest = tuple(Batch(records[start:end], batch.retries) for start, end in pairwise(cuts))
        return Verdict(done=done, rest=rest)
    if rules.maximum_retries != FOREVER and batch.retries >= rules.maximum_retries:
        return Verdict(
            done=done, discarded=Batch(records[index:], batch.retries, attempts, batch.history)
        )
    again = Batch(records[index:], batch.retries + 1, attempts, batch.history)
    return Verdict(done=done, rest=(again,), delay_s=retry_delay_s(batch.retries))


def retry_delay_s(retries: int) -> float:
    """Return how long to wait before retry number `retries`, counted from 0."""
    return min(_FIRST_RETRY_S * 2 ** min(retries, 16), _LONGEST_RETRY_S)


def split_expired(batch: Batch, oldest_ms: int) -> tuple[Batch | None, Batch | None]:
    """Return the records of a batch that arrived before a time, and the rest. The records are in order of arrival."""
    cut = 0
    while cut < len(batch.records) and batch.records[cut].approximate_arrival_ms < oldest_ms:
        cut += 1
    expired = (
        Batch(batch.records[:cut], batch.retries, batch.attempts, batch.history) if cut else None
    )
    alive = Batch(batch.records[cut:], batch.retries, batch.attempts, batch.history)
    return expired, alive if alive.records else None


def build_expired_part(history: History) -> History:
    """Return a node for the expired records of a batch that goes on with the others in its own node."""
    if history.attempts:
        return History(history.number, "expired part")
    return History(history.parent, history.part)


def count_fitting(
    records: list[StreamRecord],
    *,
    most_records: int,
    most_bytes: int,
    record_bytes: Callable[[StreamRecord], int],
) -> int:
    """Return how many of the first records fit into one batch: at least one, if there are any.

    `record_bytes` returns the least number of bytes that a record takes in the event.
    """
    size_bytes = _ENVELOPE_BYTES
    for count, record in enumerate(records[:most_records]):
        size_bytes += record_bytes(record)
        if size_bytes > most_bytes and count:
            return count
    return min(len(records), most_records)


# --- the function's response ------------------------------------------------------------------


def read_answer(
    payload: bytes, *, function_error: str | None, batch: Batch, rules: FailureRules
) -> Answer:
    """Return what a function's response means for a batch.

    An empty or null response is a success, and so is an empty or null list. An identifier that is not in the batch, or
    a response of any other form, fails the whole batch.
    """
    whole = FailedFrom(0)
    if function_error is not None:
        return whole
    if not rules.report_item_failures:
        return Succeeded()
    try:
        answer: Any = parse_json(payload or b"null")
    except ValueError:
        return whole
    if answer is None or answer in ("", []):
        return Succeeded()
    if not isinstance(answer, dict):
        return whole
    failures = cast("dict[str, Any]", answer).get("batchItemFailures")
    if failures is None:
        return Succeeded()
    if not isinstance(failures, list):
        return whole
    return _find_lowest(cast("list[Any]", failures), batch)


def _find_lowest(failures: list[Any], batch: Batch) -> Answer:
    if not failures:
        return Succeeded()
    places = {record.sequence_number: index for index, record in enumerate(batch.records)}
    indices: list[int] = []
    for failure in failures:
        named: Any = (
            cast("dict[str, Any]", failure).get("itemIdentifier")
            if isinstance(failure, dict)
            else None
        )
        index = places.get(named) if isinstance(named, str) else None
        if index is None:
            return FailedFrom(0)
        indices.append(index)
    return FailedFrom(min(indices))


def count_done(answer: Answer) -> int:
    """Return how many records at the start of a failed batch are done."""
    return answer.index if isinstance(answer, FailedFrom) else 0


def failure_sentence(result: InvokeResult, records: str) -> str:
    """Return how the function failed: its exception, or the response that reports failed records, and `records`."""
    try:
        answer: Any = parse_json(result.payload)
    except ValueError:
        answer = None
    error = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    parts = [str(error[key]) for key in ("errorType", "errorMessage") if error.get(key)]
    said = ": ".join(parts) or result.payload.decode("utf-8", "replace")
    return f"{said[:_DETAIL_CHARACTERS]} ({records})"


def note_failure(
    history: History, answer: Answer, payload: bytes, function_error: str | None
) -> None:
    """Store in the last attempt how the function failed, if it failed."""
    if isinstance(answer, Succeeded):
        return
    failed_from = f"failed from record {answer.index + 1}"
    history.attempts[-1] = replace(
        history.attempts[-1],
        outcome=failed_from if function_error is None else "function error",
        detail=payload.decode("utf-8", "replace")[:_DETAIL_CHARACTERS],
    )
