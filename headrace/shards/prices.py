"""What a stream costs: a dated table of prices, and the sums that AWS makes of them."""

from __future__ import annotations

from dataclasses import dataclass

_GB = 1 << 30
_PAYLOAD_UNIT_BYTES = 25 * 1024


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars for one Region; readers' own fees (fan-out, retention) are the same in both modes and left out.

    Attributes:
        source: where and when they were read.
        shard_hour, million_put_units: provisioned: a shard, and a million records of up to 25 KiB.
        stream_hour, gb_in, gb_out: on demand.
    """

    source: str
    shard_hour: float
    million_put_units: float
    stream_hour: float
    gb_in: float
    gb_out: float


# Check them for your Region and day: aws.amazon.com/kinesis/data-streams/pricing. The figures of provisioned streams
# stand in many public documents; those on demand are assumed: the page was not within reach.
US_EAST_1 = Prices(
    source="us-east-1, on-demand standard, as of 2026-11",
    shard_hour=0.015,
    million_put_units=0.014,
    stream_hour=0.04,
    gb_in=0.08,
    gb_out=0.04,
)


def provisioned_cost(
    prices: Prices, shard_hours: float, records: float, record_bytes: float
) -> float:
    """Return the dollars of a provisioned stream; records have `record_bytes` each."""
    units = records * max(1.0, -(-record_bytes // _PAYLOAD_UNIT_BYTES))
    return shard_hours * prices.shard_hour + units / 1e6 * prices.million_put_units


def on_demand_cost(
    prices: Prices, hours: float, records: float, record_bytes: float, readers: int = 1
) -> float:
    """Return the dollars of an on-demand stream that `readers` applications read; records are billed in whole KiB."""
    gb = records * (-(-record_bytes // 1024)) * 1024 / _GB
    return hours * prices.stream_hour + gb * (prices.gb_in + readers * prices.gb_out)
