"""What the policy tells a person, because no split or merge helps."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.shards.prices import US_EAST_1, on_demand_cost, provisioned_cost
from headrace.shards.sketch import HotKey

# The other mode must be this much cheaper before it is worth a word.
_CHEAPER_BY = 0.9


@dataclass(frozen=True, slots=True)
class Advice:
    """A piece of advice: its kind, and one sentence or two."""

    kind: str
    sentence: str


def advise_hot_key(shard_id: str, hot: HotKey, used: float) -> Advice:
    """Return advice about a key that alone makes its shard hot."""
    return Advice(
        "hot-key",
        f"The key {hot.key!r} alone uses {hot.share * used:.0%} of {shard_id}, and a key cannot be split. Salt it"
        " (headrace.client.Salt), or, where order does not matter, put without a key on a stream of the strategy AUTO."
        " On-demand mode does not help: its shards have the same limit.",
    )


def advise_on_demand(
    hours: float, shard_hours: float, bytes_: float, records: float
) -> Advice | None:
    """Return advice to change to on-demand mode, if that had been cheaper so far; else None."""
    record_bytes = bytes_ / records if records else 0.0
    provisioned = provisioned_cost(US_EAST_1, shard_hours, records, record_bytes)
    on_demand = on_demand_cost(US_EAST_1, hours, records, record_bytes)
    if on_demand >= provisioned * _CHEAPER_BY:
        return None
    return Advice(
        "on-demand",
        f"On-demand mode would have cost ${on_demand:.2f} in the last {hours:.0f} hours, these shards"
        f" ${provisioned:.2f} ({US_EAST_1.source}, one reader): change the mode.",
    )
