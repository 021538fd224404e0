"""`Reading`: the figures of a resource at a time, and `Meter`, which takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.dashboard.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since some start, from which two readings give rates; None: the kind of resource has no such figure.

    Attributes:
        records: records put, handled or delivered; invocations of a function.
        size_bytes: their bytes.
        errors: failed invocations or records.
        waiting: records that wait now.
        lag_ms: the age of the oldest of them; 0 when none waits.
        problem: what is wrong now, in a sentence.
        rate: records a second, from a source that gives rates rather than counts.
    """

    records: int | None = None
    size_bytes: int | None = None
    errors: int | None = None
    waiting: int | None = None
    lag_ms: int | None = None
    problem: str = ""
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """Figures of a resource: per second, in records and milliseconds; None where there are none."""

    rate: float | None = None
    bytes_rate: float | None = None
    error_rate: float | None = None
    waiting: int | None = None
    lag_ms: int | None = None
    problem: str = ""

    def row(self) -> list[float | int | str | None]:
        """Return the figures in the order of the API: rate, bytes, errors, waiting, lag, problem."""
        return [
            _short(self.rate),
            _short(self.bytes_rate),
            _short(self.error_rate),
            self.waiting,
            self.lag_ms,
            self.problem,
        ]


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def between(before: Totals | None, now: Totals, elapsed_s: float) -> Reading:
    """Return the reading of two totals; rates are None without an earlier one.

    A total that fell, since its resource was made anew, counts from zero.
    """

    def per_second(name: str) -> float | None:
        later = getattr(now, name)
        earlier = None if before is None else getattr(before, name)
        if later is None or earlier is None or elapsed_s <= 0:
            return None
        return (later - earlier if later >= earlier else later) / elapsed_s

    errors = per_second("errors")
    return Reading(
        per_second("records") if now.rate is None else now.rate,
        per_second("size_bytes"),
        errors,
        now.waiting,
        now.lag_ms,
        now.problem or (f"{errors:.1f} errors a second" if errors else ""),
    )


class Meter(Protocol):
    """Takes the figures of an account's resources. Thread-safe."""

    def totals(self, inventory: Inventory) -> Mapping[str, Totals]:
        """Return the totals by resource id."""
        ...

    def shard_totals(self, stream: str) -> Mapping[str, Totals]:
        """Return the totals of a stream's shards by shard id; empty for an unknown stream."""
        ...
