"""What a stream costs: a dated table of prices, and the sums that AWS makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_GB = 1 << 30
_PAYLOAD_UNIT_BYTES = 25 * 1024


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars for one Region; retention beyond 24 hours is left out.

    Attributes:
        source: where and when they were read.
        shard_hour, million_put_units: provisioned: a shard, and a million records of up to 25 KiB.
        stream_hour, gb_in, gb_out: on demand.
        advantage_gb_in, advantage_gb_out, advantage_least_gb: on demand with the account's commitment of 25 MiB/s.
        firehose_gb: delivered, of records in whole 5 KiB.
        million_invocations, lambda_gb_s: Lambda.
        emr_core_hour: a core of an m5 on demand with EMR's own fee: $0.192 and $0.048 for the four of an m5.xlarge.
        consumer_shard_hour, fan_out_gb: enhanced fan-out of provisioned shards.
        channel_gb, advantage_channel_gb: a channel's delivery to S3, on demand.
        million_queue_requests: of a Kinesis queue (assumed: as SQS's; AWS's guide of queues names no price).
    """

    source: str
    shard_hour: float
    million_put_units: float
    stream_hour: float
    gb_in: float
    gb_out: float
    advantage_gb_in: float = 0.032
    advantage_gb_out: float = 0.016
    advantage_least_gb: float = 25 * 730 * 3600 / 1024
    firehose_gb: float = 0.029
    million_invocations: float = 0.20
    lambda_gb_s: float = 0.0000166667
    emr_core_hour: float = 0.06
    consumer_shard_hour: float = 0.015
    fan_out_gb: float = 0.013
    channel_gb: float = 0.0275
    advantage_channel_gb: float = 0.011
    million_queue_requests: float = 0.40


# Check them for your Region and day: aws.amazon.com/kinesis/data-streams/pricing, whose figures were not within reach.
# All but those marked as assumed stand in public documents of others, which agree with each other, except for fan-out's
# gigabyte ($0.013 in most, $0.015 in some) and delivery to S3, which stands in one.
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
    return provisioned_cost_of(prices, shard_hours, records, [record_bytes])


def on_demand_cost(
    prices: Prices, hours: float, records: float, record_bytes: float, readers: int = 1
) -> float:
    """Return the dollars of an on-demand stream that `readers` applications read; records are billed in whole KiB."""
    return on_demand_cost_of(prices, hours, records, [record_bytes], readers)


def _in_units(record_bytes: Sequence[float], unit_bytes: int) -> float:
    """Return how many units a record has on average, each record rounded up by itself."""
    return sum(max(1, -(-size // unit_bytes)) for size in record_bytes) / len(record_bytes)


def provisioned_cost_of(
    prices: Prices, shard_hours: float, records: float, record_bytes: Sequence[float]
) -> float:
    """Return the dollars of a provisioned stream whose records have the sizes of a sample."""
    units = records * _in_units(record_bytes, _PAYLOAD_UNIT_BYTES)
    return shard_hours * prices.shard_hour + units / 1e6 * prices.million_put_units


def on_demand_cost_of(
    prices: Prices, hours: float, records: float, record_bytes: Sequence[float], readers: int = 1
) -> float:
    """Return the dollars of an on-demand stream whose records have the sizes of a sample."""
    gb = records * _in_units(record_bytes, 1024) * 1024 / _GB
    return hours * prices.stream_hour + gb * (prices.gb_in + readers * prices.gb_out)


def advantage_cost(
    prices: Prices, records: float, record_bytes: Sequence[float], readers: int = 1
) -> float:
    """Return a month's dollars in the advantage mode: at least the commitment, in and out; no stream hours."""
    gb = records * _in_units(record_bytes, 1024) * 1024 / _GB
    least = prices.advantage_least_gb
    return (
        max(gb, least) * prices.advantage_gb_in + max(readers * gb, least) * prices.advantage_gb_out
    )


def firehose_cost(prices: Prices, records: float, record_bytes: Sequence[float]) -> float:
    """Return the dollars of a delivery stream: each record as whole 5 KiB."""
    return records * _in_units(record_bytes, 5120) * 5120 / _GB * prices.firehose_gb


def fan_out_cost(
    prices: Prices, shard_hours: float, records: float, mean_bytes: float, readers: int
) -> float:
    """Return the dollars of enhanced fan-out for all readers of provisioned shards."""
    gb = records * mean_bytes / _GB
    return readers * (shard_hours * prices.consumer_shard_hour + gb * prices.fan_out_gb)


def channel_cost(gb_price: float, records: float, record_bytes: Sequence[float]) -> float:
    """Return the dollars of a channel to S3; each record as whole KiB, as the stream's (assumed)."""
    return records * _in_units(record_bytes, 1024) * 1024 / _GB * gb_price


def queue_cost(prices: Prices, records: float, batch: int) -> float:
    """Return the dollars of a queue: a receive and an acknowledgement for each batch."""
    return 2 * records / batch / 1e6 * prices.million_queue_requests


def lambda_cost(prices: Prices, invocations: float, duration_ms: float, memory_mib: int) -> float:
    """Return the dollars of a function: requests, and GB-seconds in whole milliseconds."""
    gb_s = invocations * -(-duration_ms // 1) / 1000 * memory_mib / 1024
    return invocations / 1e6 * prices.million_invocations + gb_s * prices.lambda_gb_s
