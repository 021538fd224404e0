"""The rules for a batch of a stream's records: success, retries, bisecting, expiry, giving up. No I/O.

Rules: https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html and
.../services-kinesis-batchfailurereporting.html (documented). Two points that they leave open, as assumed here:
a partial answer that names the first record of a batch is, with bisect, split in halves (there is nothing to
split at before it); and without bisect, progress within a batch does not give its rest new retries.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast

from headrace.core.ports import StreamRecord

FOREVER = -1

# How much of a function's answer the batch tree keeps.
_DETAIL_CHARACTERS = 300
_FIRST_RETRY_S = 0.1
_LONGEST_RETRY_S = 60.0
# The event's envelope.
_ENVELOPE_BYTES = 64

RETRIES_EXHAUSTED = "RetryAttemptsExhausted"
AGE_EXCEEDED = "RecordAgeExceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRules:
    """How a mapping treats failures; -1 means without limit."""

    maximum_retries: int = FOREVER
    maximum_age_s: int = FOREVER
    bisect: bool = False
    report_item_failures: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One invocation of a batch, for the batch tree; `outcome` is a few words, `detail` the function's answer."""

    at_ms: int
    duration_ms: int
    outcome: str
    request_id: str = ""
    detail: str = ""


@dataclass(slots=True)
class History:
    """A node of the batch tree: where a batch came from, and its invocations so far.

    Attributes:
        part: which part of its parent it is; empty for a batch that was cut from the shard.
    """

    number: int
    parent: int = 0
    part: str = ""
    attempts: list[Attempt] = field(default_factory=list[Attempt])


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one shard, never empty.

    Attributes:
        retries: how many retries its records have used up.
        attempts: how many invocations it has had.
        history: its node of the batch tree, once it has one.
    """

    records: tuple[StreamRecord, ...]
    retries: int = 0
    attempts: int = 0
    history: History | None = field(default=None, compare=False)

    def of(self, history: History) -> Batch:
        """Return the same batch at a node of the batch tree."""
        return Batch(self.records, self.retries, self.attempts, history)


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Every record is done."""


@dataclass(frozen=True, slots=True)
class FailedFrom:
    """The records before `index` are done; the others must be tried again."""

    index: int


Answer = Succeeded | FailedFrom


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do after an invocation.

    Attributes:
        done: the last record that is finished with, or None. Checkpoint here first.
        rest: batches to run, in this order, before any other.
        discarded: a batch to give up: send it to the destination, then checkpoint after it.
        delay_s: how long to wait before the first of `rest`.
    """

    done: StreamRecord | None = None
    rest: tuple[Batch, ...] = ()
    discarded: Batch | None = None
    delay_s: float = 0.0


def judge(batch: Batch, answer: Answer, rules: FailureRules) -> Verdict:
    """Decide what follows from a function's answer to a batch."""
    records = batch.records
    if isinstance(answer, Succeeded):
        return Verdict(done=records[-1])
    index = answer.index
    done = records[index - 1] if index else None
    attempts = batch.attempts + 1
    if rules.bisect and len(records) > 1:
        # Splitting uses up no retry; each part is smaller, so this ends. A part is a batch of its
        # own, and its invocations are counted from here.
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
    """Return how long to wait before retry number `retries` (from 0)."""
    return min(_FIRST_RETRY_S * 2 ** min(retries, 16), _LONGEST_RETRY_S)


def split_expired(
    batch: Batch, *, now_ms: int, rules: FailureRules
) -> tuple[Batch | None, Batch | None]:
    """Return the part of a batch that is too old, and the rest. Records come in order of arrival."""
    if rules.maximum_age_s == FOREVER:
        return None, batch
    oldest_ms = now_ms - rules.maximum_age_s * 1000
    cut = 0
    while cut < len(batch.records) and batch.records[cut].approximate_arrival_ms < oldest_ms:
        cut += 1
    expired = (
        Batch(batch.records[:cut], batch.retries, batch.attempts, batch.history) if cut else None
    )
    alive = Batch(batch.records[cut:], batch.retries, batch.attempts, batch.history)
    return expired, alive if alive.records else None


def fitting(
    records: list[StreamRecord],
    *,
    most_records: int,
    most_bytes: int,
    record_bytes: Callable[[StreamRecord], int],
) -> int:
    """Return how many of the first records make one batch: at least one, if there is any.

    `record_bytes` says how many bytes a record takes in the event at least.
    """
    size_bytes = _ENVELOPE_BYTES
    for count, record in enumerate(records[:most_records]):
        size_bytes += record_bytes(record)
        if size_bytes > most_bytes and count:
            return count
    return min(len(records), most_records)


# --- the function's answer --------------------------------------------------------------------


def read_answer(
    payload: bytes, *, function_error: str | None, batch: Batch, rules: FailureRules
) -> Answer:
    """Return what a function's answer means for a batch.

    An empty or null answer, and an empty or null list, are success. An identifier that the batch does not
    have, and an answer of another shape, fail the whole batch.
    """
    whole = FailedFrom(0)
    if function_error is not None:
        return whole
    if not rules.report_item_failures:
        return Succeeded()
    try:
        answer: Any = json.loads(payload or b"null")
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
    return _lowest(cast("list[Any]", failures), batch)


def _lowest(failures: list[Any], batch: Batch) -> Answer:
    if not failures:
        return Succeeded()
    places = {record.sequence_number: place for place, record in enumerate(batch.records)}
    indices: list[int] = []
    for failure in failures:
        named: Any = (
            cast("dict[str, Any]", failure).get("itemIdentifier")
            if isinstance(failure, dict)
            else None
        )
        place = places.get(named) if isinstance(named, str) else None
        if place is None:
            return FailedFrom(0)
        indices.append(place)
    return FailedFrom(min(indices))


def done_count(answer: Answer) -> int:
    """Return how many of the first records of a failed batch are done."""
    return answer.index if isinstance(answer, FailedFrom) else 0


def note_failure(
    history: History, answer: Answer, payload: bytes, function_error: str | None
) -> None:
    """Note in the last attempt how a function failed, if it did."""
    if isinstance(answer, Succeeded):
        return
    failed_from = f"failed from record {answer.index + 1}"
    history.attempts[-1] = replace(
        history.attempts[-1],
        outcome=failed_from if function_error is None else "function error",
        detail=payload.decode("utf-8", "replace")[:_DETAIL_CHARACTERS],
    )
