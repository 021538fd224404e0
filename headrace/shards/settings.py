"""The policy's settings, and their checks."""

from __future__ import annotations

from dataclasses import dataclass

MOST_SHARDS = 10_000  # UpdateShardCount's own limit (documented: API_UpdateShardCount)


@dataclass(frozen=True, slots=True)
class Settings:
    """How shards follow the load. Raises ValueError for what makes no sense.

    Attributes:
        min_shards, max_shards: the bounds of the count of open shards.
        target_utilisation: the share of its quota that a shard shall use. A shard is hot in the upper half of what is
            left above it; two neighbours are cold when they would use less than `merge_share` of it together. The
            wide gap keeps shards from being split and merged in turn.
        merge_share: see above.
        hot_periods: how many periods in a row a shard is hot before it is split; one that is full is split at once.
        cold_for_s: how long neighbours are cold before they are merged.
        reshard_s: how long one split or merge takes, until another one is measured; AWS does one after the other
            (assumed: half a minute; users report 20 to 40 s).
        resize_after_s: when single splits or merges would take longer, UpdateShardCount is looked at.
        may_resize: whether it may be called; else it is only advised.
        behind_ms: readers further behind than this keep their shards from being merged.
        period_s: how long it is from one look to the next.
    """

    min_shards: int = 1
    max_shards: int = 500
    target_utilisation: float = 0.6
    merge_share: float = 0.6
    hot_periods: int = 2
    cold_for_s: float = 600.0
    reshard_s: float = 30.0
    resize_after_s: float = 900.0
    may_resize: bool = True
    behind_ms: float = 60_000.0
    period_s: float = 60.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_shards <= self.max_shards <= MOST_SHARDS:
            raise ValueError(
                f"min_shards and max_shards are 1 to {MOST_SHARDS}, the lower one first,"
                f" not {self.min_shards} and {self.max_shards}"
            )
        if not 0.1 <= self.target_utilisation <= 0.9:
            raise ValueError(
                f"target_utilisation is between 0.1 and 0.9, not {self.target_utilisation}"
            )
        if not 0 < self.merge_share < 1 or self.hot_periods < 1 or self.cold_for_s < 0:
            raise ValueError(
                "merge_share is between 0 and 1, hot_periods at least 1, cold_for_s not negative"
            )
        if self.period_s <= 0 or self.reshard_s < 0:
            raise ValueError("period_s is positive, reshard_s not negative")

    @property
    def split_at(self) -> float:
        """The utilisation from which on a shard is hot."""
        return (1 + self.target_utilisation) / 2

    @property
    def merge_at(self) -> float:
        """The utilisation of two neighbours together up to which they are cold."""
        return self.target_utilisation * self.merge_share
