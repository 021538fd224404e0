"""What goes to a destination, and what became of it: items, and the refusals of those that were not delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Item:
    """A record as it goes to a destination: after all processing.

    Attributes:
        record_id: the sequence number, a dot, and the number of the record within that sequence number; the same
            however often a delivery is repeated.
        arrival_ms: when it reached the stream.
        data: its bytes.
        metadata: what a function or a query said of it (`otfMetadata`); empty for most.
    """

    record_id: str
    arrival_ms: int
    data: bytes
    metadata: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an item was not delivered.

    Attributes:
        index: the item's place in the batch that was given.
        code: AWS's error code, in the error output and the log.
        message: AWS's sentence, in the error output.
        is_retryable: whether another try may succeed.
        is_discarded: it goes to no error output (AWS's rule for a batch that an endpoint found too large).
        log_message: the sentence in the log, where it is another.
        extra: more members of the error line.
    """

    index: int
    code: str
    message: str
    is_retryable: bool = True
    is_discarded: bool = False
    log_message: str = ""
    extra: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Try:
    """Which try of a batch this is.

    Attributes:
        request_id: the same for every try of one batch, over a kill too.
        number: 1 for the first.
        now_ms: when it begins.
    """

    request_id: str
    number: int
    now_ms: int


class Destination(Protocol):
    """Delivers batches. One thread at a time calls it."""

    def cut(self, items: Sequence[Item]) -> list[range]:
        """Return the batches, as places in `items`: the most that one request may hold."""
        ...

    def deliver(self, items: Sequence[Item], attempt: Try) -> list[Refusal]:
        """Try to deliver one batch; return what was refused. What is not named is delivered.

        Never raises for what the destination does; raises `exchange.Stopped` when the cloud stops.
        """
        ...
