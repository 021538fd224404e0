"""Plans a pipeline for a measured load: shards or on-demand, readers, Firehose, Lambda, EMR, and what each costs.

Costs come from a dated table of prices, and follow AWS's rounding of each record, from the sizes that were measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

MONTH_HOURS = 730
_SHARD_BYTES_S, _SHARD_RECORDS_S, _SHARD_READ_BYTES_S = 1 << 20, 1000, 2 << 20
# Free to peak by half, since a load of the past is a guess at the next.
_HEADROOM = 1.5
# On demand takes twice the peak of the last 30 days (documented: how-do-i-size-a-stream.html).
_ON_DEMAND_TIMES = 2
# A worker with 2 vCPUs reads and parses about this (assumed; measure your own job).
_EMR_BYTES_S_PER_CORE = 5 << 20
_BATCH, _QUEUE_BATCH = 100, 10


@dataclass(frozen=True, slots=True)
class Load:
    """A measured load.

    Attributes:
        record_bytes: a sample of the records' sizes, keys included.
        records_per_s, peak_records_per_s: on average, and in the busiest second.
        hottest_share: of the hottest key, from 0 to 1.
        readers: how many applications read everything.
        handler_ms, memory_mib: a Lambda function's time for a batch of 100, and its memory.
    """

    record_bytes: Sequence[int]
    records_per_s: float
    peak_records_per_s: float
    hottest_share: float = 0.0
    readers: int = 1
    handler_ms: float = 200.0
    memory_mib: int = 512

    @property
    def mean_bytes(self) -> float:
        """The mean size of a record."""
        return sum(self.record_bytes) / len(self.record_bytes)

    def times(self, factor: float) -> Load:
        """Return the load of `factor` times as many records of the same sizes and keys."""
        return replace(
            self,
            records_per_s=self.records_per_s * factor,
            peak_records_per_s=self.peak_records_per_s * factor,
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """A part of the plan: what it is, how large, dollars a month, and why."""

    what: str
    size: str
    dollars: float
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The mode of the stream that costs least, the others beside it, what reads it, and warnings."""

    modes: tuple[Choice, ...]
    readers: tuple[Choice, ...]
    warnings: tuple[str, ...]

    @property
    def mode(self) -> Choice:
        """The mode that costs least."""
        return min(self.modes, key=lambda choice: choice.dollars)


def plan(load: Load, prices: Prices) -> Plan:
    """Return the plan of a load for a month of 730 hours."""
    records = load.records_per_s * MONTH_HOURS * 3600
    peak_bytes_s = load.peak_records_per_s * load.mean_bytes
    shards = max(
        1,
        math.ceil(_HEADROOM * peak_bytes_s / _SHARD_BYTES_S),
        math.ceil(_HEADROOM * load.peak_records_per_s / _SHARD_RECORDS_S),
    )
    modes = (
        Choice(
            "provisioned",
            _count(shards, "shard"),
            provisioned_cost_of(prices, shards * MONTH_HOURS, records, load.record_bytes),
            f"the peak of {load.peak_records_per_s:,.0f} records/s, {peak_bytes_s / 1e6:.2f} MB/s, and half of it more",
        ),
        Choice(
            "on-demand standard",
            f"to {_ON_DEMAND_TIMES} times the highest peak of 30 days",
            on_demand_cost_of(prices, MONTH_HOURS, records, load.record_bytes, load.readers),
            "no shards to watch",
        ),
        Choice(
            "on-demand advantage",
            "the account's commitment is 25 MiB/s in and out",
            advantage_cost(prices, records, load.record_bytes, load.readers),
            "the commitment is billed also when less is used",
        ),
    )
    return Plan(
        modes, _readers(load, prices, records, shards, peak_bytes_s), tuple(_warnings(load, shards))
    )


def _readers(
    load: Load, prices: Prices, records: float, shards: int, peak_bytes_s: float
) -> tuple[Choice, ...]:
    invocations = load.peak_records_per_s / _BATCH
    busy = invocations * load.handler_ms / 1000
    factor = min(10, max(1, math.ceil(busy / shards)))
    cores = max(1, math.ceil(_HEADROOM * peak_bytes_s / _EMR_BYTES_S_PER_CORE))
    return (
        Choice(
            "Lambda",
            f"concurrency {shards * factor} ({_count(shards, 'shard')} x ParallelizationFactor {factor})",
            lambda_cost(prices, records / _BATCH, load.handler_ms, load.memory_mib),
            f"{busy:.1f} batches of {_BATCH} at once in the peak",
        ),
        Choice(
            "Firehose to S3",
            "1 delivery stream",
            firehose_cost(prices, records, load.record_bytes),
            "each record is billed as whole 5 KiB",
        ),
        Choice(
            "channel to S3",
            "1 channel",
            channel_cost(prices.channel_gb, records, load.record_bytes),
            "of on-demand streams alone; in the advantage mode"
            f" ${channel_cost(prices.advantage_channel_gb, records, load.record_bytes):,.2f}",
        ),
        Choice(
            "queue",
            _count(max(1, math.ceil(_HEADROOM * busy)), "consumer"),
            queue_cost(prices, records, _QUEUE_BATCH),
            f"price assumed, as SQS's; receives and acknowledgements of {_QUEUE_BATCH}",
        ),
        Choice(
            "enhanced fan-out",
            f"{_count(load.readers, 'consumer')} x {_count(shards, 'shard')}",
            fan_out_cost(prices, shards * MONTH_HOURS, records, load.mean_bytes, load.readers),
            f"{_SHARD_READ_BYTES_S >> 20} MiB/s for each consumer and shard; of provisioned shards",
        ),
        Choice(
            "EMR (Spark)",
            f"{_count(cores, 'core')}, {max(2 * cores, shards)} partitions",
            cores * MONTH_HOURS * prices.emr_core_hour,
            "assumed: 5 MiB/s a core; measure your own job",
        ),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _warnings(load: Load, shards: int) -> list[str]:
    warnings: list[str] = []
    hot = load.hottest_share * load.peak_records_per_s
    if hot > _SHARD_RECORDS_S or hot * load.mean_bytes > _SHARD_BYTES_S:
        warnings.append(
            f"The hottest key has {load.hottest_share:.0%} of the records, more than a shard takes: salt it"
            " (headrace.client.Salt); neither more shards nor on-demand helps."
        )
    if load.readers > 2:
        warnings.append(
            f"{load.readers} readers share {_SHARD_READ_BYTES_S >> 20} MiB/s a shard: give each of them enhanced"
            " fan-out, which costs extra."
        )
    largest = max(load.record_bytes)
    if largest > 1 << 20:
        warnings.append(f"A record has {largest:,} bytes: raise the stream's MaxRecordSizeInKiB.")
    return warnings


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
